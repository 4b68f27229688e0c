//! Time in microseconds: `_us` names an instant since the epoch or a span.

/// One second, in microseconds.
pub const SECOND_US: u64 = 1_000_000;
/// One day, in microseconds.
pub const DAY_US: u64 = 86_400 * SECOND_US;

/// The last instant that the arithmetic is made for: the year 2255. A clock
/// that says more is read as this.
pub const MAX_INSTANT_US: u64 = 1 << 53;

/// The start of the window of `period_us` that holds `now_us`; windows are
/// aligned to the epoch.
pub fn window_start_us(now_us: u64, period_us: u64) -> u64 {
    now_us - now_us % period_us
}
