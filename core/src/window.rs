//! FIXEDWINDOW and SLIDINGWINDOW: counters of windows aligned to the epoch.
//!
//! ```text
//!             previous            current
//!   |------------------------|-------x----------------|
//!                            |<----->| elapsed
//!                    |<------ period ------->|
//!                    |<-------| overlap = period - elapsed
//! ```
//!
//! A fixed window admits a cost c if used + c <= count, where used is what
//! this window has admitted. Around the turn of a window up to twice the count
//! can pass within one period.
//!
//! A sliding window takes the previous window as if its units had come evenly,
//! and counts the share of it that a period reaching back from now overlaps:
//!
//! ```text
//! used = floor(previous x (period - elapsed) / period) + current
//! ```
//!
//! Both keep counters only for the window of the call: older state is rolled
//! forward when it is read.

use crate::decision::{TooMuch, Wait};
use crate::limit::{Limit, MAX_WINDOW_UNITS};
use crate::time::window_start_us;

/// Whether `cost` more on top of `units` stays in range.
pub fn can_force(units: u64, cost: u64) -> Result<(), TooMuch> {
    if units.saturating_add(cost) <= MAX_WINDOW_UNITS {
        Ok(())
    } else {
        Err(TooMuch::Units)
    }
}

/// A fixed window at the instant of a call.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    used: u64,
}

impl Fixed {
    /// `used` units in the window of now.
    pub fn holding(used: u64) -> Fixed {
        Fixed { used }
    }

    /// A stored window, seen from now. One that starts in the future means
    /// that the clock stepped back: it is taken as the window of now.
    pub fn rolled(start_us: u64, used: u64, period_us: u64, now_us: u64) -> Fixed {
        let over = start_us < window_start_us(now_us, period_us);
        Fixed::holding(if over { 0 } else { used })
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn wait(&self, limit: &Limit, now_us: u64, cost: u64) -> Wait {
        if self.used.saturating_add(cost) <= limit.count() {
            Wait::Now
        } else {
            Wait::AfterUs(until_turn_us(limit, now_us))
        }
    }

    pub fn reset_us(&self, limit: &Limit, now_us: u64) -> u64 {
        if self.used == 0 {
            0
        } else {
            until_turn_us(limit, now_us)
        }
    }

    pub fn charge(&mut self, cost: u64) {
        self.used += cost;
    }

    pub fn give(&mut self, cost: u64) {
        self.used = self.used.saturating_sub(cost);
    }
}

/// Microseconds until the window of now ends: at least 1.
fn until_turn_us(limit: &Limit, now_us: u64) -> u64 {
    limit.period_us() - now_us % limit.period_us()
}

/// A sliding window at the instant of a call.
#[derive(Clone, Copy, Debug)]
pub struct Sliding {
    current: u64,
    previous: u64,
    /// Microseconds since the window of now began.
    elapsed_us: u64,
    period_us: u64,
}

impl Sliding {
    /// `current` units in the window of now, none in the one before.
    pub fn holding(current: u64, period_us: u64, now_us: u64) -> Sliding {
        Sliding {
            current,
            previous: 0,
            elapsed_us: now_us % period_us,
            period_us,
        }
    }

    /// Stored counters, rolled forward to the window of now. If they are of a
    /// window in the future, the clock stepped back: then not even the window
    /// before it is over, and all units are taken as of the window of now.
    pub fn rolled(
        start_us: u64,
        current: u64,
        previous: u64,
        period_us: u64,
        now_us: u64,
    ) -> Sliding {
        let now_start_us = window_start_us(now_us, period_us);
        let (current, previous) = if start_us > now_start_us {
            ((current + previous).min(MAX_WINDOW_UNITS), 0)
        } else if start_us == now_start_us {
            (current, previous)
        } else if start_us + period_us == now_start_us {
            (0, current)
        } else {
            (0, 0)
        };
        Sliding {
            previous,
            ..Sliding::holding(current, period_us, now_us)
        }
    }

    pub fn current(&self) -> u64 {
        self.current
    }

    pub fn previous(&self) -> u64 {
        self.previous
    }

    pub fn used(&self) -> u64 {
        self.weighted_previous() + self.current
    }

    /// The units of the previous window that still count, rounded down.
    fn weighted_previous(&self) -> u64 {
        let overlap_us = self.period_us - self.elapsed_us;
        let weighted =
            u128::from(self.previous) * u128::from(overlap_us) / u128::from(self.period_us);
        u64::try_from(weighted).unwrap_or(self.previous)
    }

    /// How far into a window the `units` of the window before weigh at most
    /// `room`; the period if they do so only when it ends.
    fn elapsed_until_us(&self, units: u64, room: u64) -> u64 {
        if units <= room {
            return 0;
        }
        // floor(units x overlap / period) <= room, solved for the overlap.
        let overlap_us =
            ((u128::from(room) + 1) * u128::from(self.period_us) - 1) / u128::from(units);
        self.period_us
            .saturating_sub(u64::try_from(overlap_us).unwrap_or(self.period_us))
    }

    /// When a cost of at most the count is admitted: as the previous window
    /// fades, or else as the current one does after the turn.
    pub fn wait(&self, limit: &Limit, cost: u64) -> Wait {
        if self.used().saturating_add(cost) <= limit.count() {
            return Wait::Now;
        }
        let room = limit.count().saturating_sub(cost);
        if let Some(room_now) = room.checked_sub(self.current) {
            let elapsed_us = self.elapsed_until_us(self.previous, room_now);
            if elapsed_us < self.period_us {
                return Wait::AfterUs(elapsed_us.saturating_sub(self.elapsed_us).max(1));
            }
        }
        let until_turn_us = self.period_us - self.elapsed_us;
        Wait::AfterUs(until_turn_us + self.elapsed_until_us(self.current, room))
    }

    /// Microseconds until the window after the one with the last counted unit
    /// ends.
    pub fn reset_us(&self) -> u64 {
        let until_turn_us = self.period_us - self.elapsed_us;
        if self.current > 0 {
            until_turn_us + self.period_us
        } else if self.previous > 0 {
            until_turn_us
        } else {
            0
        }
    }

    pub fn charge(&mut self, cost: u64) {
        self.current += cost;
    }

    /// Returns `cost` units: first of this window, then as many of the
    /// previous one as make used fall by the rest.
    pub fn give(&mut self, cost: u64) {
        let of_current = cost.min(self.current);
        self.current -= of_current;
        let weighted = self.weighted_previous();
        let target = weighted.saturating_sub(cost - of_current);
        if target == 0 && self.current == 0 {
            // Nothing is used, so what weighs less than a unit goes as well.
            self.previous = 0;
        } else if target < weighted {
            // The most units that weigh no more than the target, so that no
            // more than the cost is returned later in the window either.
            let overlap_us = self.period_us - self.elapsed_us;
            let most = ((u128::from(target) + 1) * u128::from(self.period_us) - 1)
                / u128::from(overlap_us);
            self.previous =
                u64::try_from(most).map_or(self.previous, |most| most.min(self.previous));
        }
    }
}
