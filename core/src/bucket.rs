//! TOKENBUCKET, GCRA and LEAKYBUCKET: usage that drains steadily.
//!
//! ```text
//!  used
//!    |        capacity - - - - - - - - - - - -
//!    |            take
//!    |             |\                    A cost c is admitted if
//!    |  take       | \   take               used + c <= capacity
//!    |   |\        |  \   |\             Between takes, used falls by
//!    |   | \       |   \  | \               elapsed x count / period
//!    |   |  \______|    \ |  \           and never below 0.
//!    |___|______________\|____\______ time
//! ```
//!
//! A token bucket says the same from the other side (tokens = capacity - used,
//! refilled at `count / period`), and GCRA says it in time: its *theoretical
//! arrival time* is the instant at which used reaches 0 (ITU-T I.371, annex A,
//! and the "virtual scheduling" form there). One state serves all three.
//!
//! **Exactness.** Usage is kept in whole *grains*, 18,000,000 to a unit, at the
//! instant of the last take. What drained is rounded down to a grain, so a take
//! leaves usage above the exact one by less than 0.00000006 units, and never
//! below it. The number is chosen so that the common limits lose nothing at
//! all: in a millisecond, n a second, a minute or an hour drain whole grains.

use crate::decision::{TooMuch, Wait};
use crate::limit::{Limit, MAX_DRAIN_US, MAX_PERIOD_US, MAX_UNITS};
use crate::time::MAX_INSTANT_US;

/// Grains in a unit.
const UNIT: u64 = 18_000_000;

/// `units` in grains.
pub fn grains(units: u64) -> u128 {
    u128::from(units) * u128::from(UNIT)
}

/// `grains` in units, rounded up; what passes u64 is more than any capacity.
pub fn units_up(grains: u128) -> u64 {
    units_down(grains + u128::from(UNIT - 1))
}

/// `grains` in units, rounded down.
fn units_down(grains: u128) -> u64 {
    match u64::try_from(grains) {
        // Nearly always, and a fast division.
        Ok(grains) => grains / UNIT,
        Err(_) => u64::try_from(grains / u128::from(UNIT)).unwrap_or(u64::MAX),
    }
}

/// The speed at which usage drains: `count` units in `period_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: u64,
    pub period_us: u64,
}

// Every product below stays inside u128: the largest is a usage of
// MAX_DRAIN_US x MAX_UNITS (grains x period) plus one cost over the longest period.
const _: () = {
    let grain = UNIT as u128;
    let most = MAX_DRAIN_US as u128 * MAX_UNITS as u128 * grain;
    let cost = MAX_PERIOD_US as u128 * MAX_UNITS as u128 * grain;
    assert!(most.checked_add(2 * cost).is_some());
    let elapsed = MAX_INSTANT_US as u128 * MAX_UNITS as u128 * grain;
    assert!(elapsed < u128::MAX);
    // A full drain after the last instant is still an instant.
    assert!(MAX_INSTANT_US.checked_add(MAX_DRAIN_US).is_some());
};

impl Rate {
    pub fn of(limit: &Limit) -> Rate {
        Rate {
            count: limit.count(),
            period_us: limit.period_us(),
        }
    }

    /// Grains drained in `elapsed_us`, rounded down.
    fn drained(self, elapsed_us: u64) -> u128 {
        u128::from(elapsed_us) * grains(self.count) / u128::from(self.period_us)
    }

    /// Whether `level` grains drain within [`MAX_DRAIN_US`].
    pub fn drains(self, level: u128) -> bool {
        level
            .checked_mul(u128::from(self.period_us))
            .is_some_and(|product| product <= u128::from(MAX_DRAIN_US) * grains(self.count))
    }

    /// Microseconds until `level` grains have drained, rounded up. Of a level
    /// that [`Rate::drains`] it is at most [`MAX_DRAIN_US`].
    pub fn time_to_drain_us(self, level: u128) -> u64 {
        // A rate of 0 has nothing to drain: its capacity is 0 as well.
        if level == 0 || self.count == 0 {
            return 0;
        }
        let speed = grains(self.count);
        // Written out, since div_ceil would divide these wide numbers twice.
        #[allow(clippy::manual_div_ceil)]
        let time_us = (level * u128::from(self.period_us) + (speed - 1)) / speed;
        u64::try_from(time_us).unwrap_or(MAX_DRAIN_US)
    }
}

/// A bucket at the instant of a call.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// When `level` was stored: the last take, or the last change of limit.
    at_us: u64,
    /// Grains used at `at_us`.
    level: u128,
    /// Grains used at the instant of the call.
    used: u128,
}

impl Bucket {
    /// Nothing used.
    pub fn empty(now_us: u64) -> Bucket {
        Bucket::holding(0, now_us)
    }

    /// `level` grains used now.
    pub fn holding(level: u128, now_us: u64) -> Bucket {
        Bucket {
            at_us: now_us,
            level,
            used: level,
        }
    }

    /// A stored bucket, drained until now. A `at_us` in the future means that
    /// the clock stepped back: it is taken as now.
    pub fn drained(at_us: u64, level: u128, rate: Rate, now_us: u64) -> Bucket {
        let at_us = at_us.min(now_us);
        let used = level.saturating_sub(rate.drained(now_us - at_us));
        Bucket { at_us, level, used }
    }

    /// When the level was stored.
    pub fn at_us(&self) -> u64 {
        self.at_us
    }

    /// Grains used when it was stored.
    pub fn level(&self) -> u128 {
        self.level
    }

    /// Grains used now.
    pub fn used(&self) -> u128 {
        self.used
    }

    /// Units that can still be taken, rounded down.
    pub fn remaining(&self, limit: &Limit) -> u64 {
        units_down(grains(limit.capacity()).saturating_sub(self.used))
    }

    /// When a cost of at most the capacity is admitted.
    pub fn wait(&self, limit: &Limit, now_us: u64, cost: u64) -> Wait {
        if self.used + grains(cost) <= grains(limit.capacity()) {
            return Wait::Now;
        }
        // What has to have drained of the level before the cost fits.
        let excess = (self.level + grains(cost)).saturating_sub(grains(limit.capacity()));
        let fits_at_us = self.at_us + Rate::of(limit).time_to_drain_us(excess);
        Wait::AfterUs(fits_at_us.saturating_sub(now_us).max(1))
    }

    /// Microseconds until nothing is used any more, rounded up.
    pub fn reset_us(&self, limit: &Limit, now_us: u64) -> u64 {
        self.free_at_us(limit).saturating_sub(now_us)
    }

    /// The instant from which nothing is used any more.
    pub fn free_at_us(&self, limit: &Limit) -> u64 {
        self.at_us + Rate::of(limit).time_to_drain_us(self.level)
    }

    /// Whether `cost` more can be charged by force.
    pub fn can_force(&self, limit: &Limit, cost: u64) -> Result<(), TooMuch> {
        if Rate::of(limit).drains(self.used + grains(cost)) {
            Ok(())
        } else {
            Err(TooMuch::Drain)
        }
    }

    /// Charges `cost` units now.
    pub fn charge(&mut self, now_us: u64, cost: u64) {
        *self = Bucket::holding(self.used + grains(cost), now_us);
    }

    /// Returns `cost` units. The instant of the level stays, so that nothing
    /// is rounded.
    pub fn give(&mut self, now_us: u64, cost: u64) {
        let cost = grains(cost);
        if self.used > cost {
            self.level -= cost;
            self.used -= cost;
        } else {
            *self = Bucket::empty(now_us);
        }
    }
}
