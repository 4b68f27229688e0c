//! A validated limit. Whatever [`Limit::new`] lets through can be computed
//! with: nothing after it fails or overflows.

use crate::time::DAY_US;

/// The largest count, burst and cost, in units.
pub const MAX_UNITS: u64 = 1_000_000_000_000;
/// The largest count of a SLIDINGLOG, in units.
pub const MAX_LOG_COUNT: u64 = 100_000;
/// The most entries that a SLIDINGLOG holds: only FORCE can reach it, since
/// an admitted take never brings a log past [`MAX_LOG_COUNT`] units.
pub const MAX_LOG_ENTRIES: u64 = 1_000_000;
/// The shortest period: a millisecond.
pub const MIN_PERIOD_US: u64 = 1_000;
/// The longest period: 3650 days.
pub const MAX_PERIOD_US: u64 = 3_650 * DAY_US;
/// The longest time in which a bucket drains, debt included: 36500 days.
pub const MAX_DRAIN_US: u64 = 36_500 * DAY_US;
/// The most units that FORCE can bring a window or a log to.
pub const MAX_WINDOW_UNITS: u64 = 1_000_000_000_000_000;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Usage drains steadily at `count / period`; up to `burst` is held at once.
    TokenBucket,
    /// The same decisions as [`Algorithm::TokenBucket`], under its other name.
    Gcra,
    /// The same decisions, and admitted calls are told how long to hold back.
    LeakyBucket,
    /// One counter a window; windows are aligned to the epoch.
    FixedWindow,
    /// Two counters: this window's, and the previous one's weighted by its overlap.
    SlidingWindow,
    /// Every admitted take counts for exactly one period.
    SlidingLog,
}

impl Algorithm {
    /// Whether it is one of the bucket family, which takes a burst.
    pub fn is_bucket(self) -> bool {
        matches!(
            self,
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket
        )
    }
}

/// Why a limit was refused by [`Limit::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// The count is above [`MAX_UNITS`].
    Count,
    /// The count of a SLIDINGLOG is above [`MAX_LOG_COUNT`].
    LogCount,
    /// The burst is above [`MAX_UNITS`].
    Burst,
    /// A window or a log was given a burst.
    BurstOfWindow,
    /// The period is not from [`MIN_PERIOD_US`] to [`MAX_PERIOD_US`].
    Period,
    /// A full bucket would take more than [`MAX_DRAIN_US`] to drain.
    Drain,
}

impl std::fmt::Display for LimitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LimitError::Count => "count is out of range",
            LimitError::LogCount => "count of a sliding log is out of range",
            LimitError::Burst => "burst is out of range",
            LimitError::BurstOfWindow => "only buckets take a burst",
            LimitError::Period => "period is out of range",
            LimitError::Drain => "a full bucket would drain too slowly",
        })
    }
}

impl std::error::Error for LimitError {}

/// A limit that can be computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    algorithm: Algorithm,
    count: u64,
    period_us: u64,
    capacity: u64,
}

impl Limit {
    /// `count` units per `period_us` microseconds. The capacity is `burst`
    /// for buckets (`count` if none is given) and `count` for the others.
    ///
    /// # Errors
    ///
    /// [`LimitError`] names the argument that is out of its range.
    pub fn new(
        algorithm: Algorithm,
        count: u64,
        period_us: u64,
        burst: Option<u64>,
    ) -> Result<Limit, LimitError> {
        if algorithm == Algorithm::SlidingLog && count > MAX_LOG_COUNT {
            return Err(LimitError::LogCount);
        }
        if count > MAX_UNITS {
            return Err(LimitError::Count);
        }
        if !(MIN_PERIOD_US..=MAX_PERIOD_US).contains(&period_us) {
            return Err(LimitError::Period);
        }
        let capacity = match burst {
            Some(_) if !algorithm.is_bucket() => return Err(LimitError::BurstOfWindow),
            Some(burst) if burst > MAX_UNITS => return Err(LimitError::Burst),
            Some(burst) => burst,
            None => count,
        };
        let drains = u128::from(capacity) * u128::from(period_us)
            <= u128::from(MAX_DRAIN_US) * u128::from(count);
        if algorithm.is_bucket() && !drains {
            return Err(LimitError::Drain);
        }
        Ok(Limit {
            algorithm,
            count,
            period_us,
            capacity,
        })
    }

    /// A number that tells this limit, and those that count as it does, from
    /// others; `before` is that of the limits before it on the key. (FNV-1a, by
    /// words.)
    pub(crate) fn fingerprint(&self, before: u64) -> u64 {
        let family = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => 0,
            Algorithm::FixedWindow => 1,
            Algorithm::SlidingWindow => 2,
            Algorithm::SlidingLog => 3,
        };
        [family, self.count, self.period_us, self.capacity]
            .iter()
            .fold(before, |hash, word| {
                (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
            })
    }

    /// A limit of parts that were checked one by one: a stored rate, and the
    /// capacity of another limit.
    pub(crate) fn unchecked(
        algorithm: Algorithm,
        count: u64,
        period_us: u64,
        capacity: u64,
    ) -> Limit {
        Limit {
            algorithm,
            count,
            period_us,
            capacity,
        }
    }

    /// How it counts.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Units per period.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The period, in microseconds.
    pub fn period_us(&self) -> u64 {
        self.period_us
    }

    /// The most units that can be held at once.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}
