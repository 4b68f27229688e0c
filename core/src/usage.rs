//! One limit's usage at the instant of a call, whatever was stored before.
//!
//! A call brings its limit with it, and the stored state may have been written
//! under another one. Usage is carried over in units:
//!
//! - the same rate or period: the state goes on as it is, and usage above the
//!   capacity is clamped if the capacity changed;
//! - another rate, period or family: the units used at this instant, clamped to
//!   the new capacity, are held as if they had been taken now. A window or a
//!   log counts a part of a unit as a whole one.
//!
//! A refused call does not store what it carried over: that would change the
//! state for those whose limit it was written under. Where carrying over makes
//! the wait shorter, it marks the instant instead. From then on, a call with the
//! same limits counts the lesser of what is left of the stored usage, draining as
//! it did, and of what was carried over at the mark, draining under its own
//! limit. See [`Unmoved`].
//!
//! What every take runs through is marked `#[inline(always)]`: as calls, these
//! few steps cost more in passing things on than in what they do.

use crate::bucket::{grains, units_up, Bucket, Rate};
use crate::decision::{Answer, TooMuch, Wait};
use crate::limit::{Algorithm, Limit};
use crate::log::Log;
use crate::state::{self, Encoded, Foreign, Record, WindowKind};
use crate::time::window_start_us;
use crate::window::{self, Fixed, Sliding};

/// What is held against one limit.
#[derive(Clone, Copy, Debug)]
pub enum Usage<'a> {
    Bucket(Bucket),
    Fixed(Fixed),
    Sliding(Sliding),
    Log(Log<'a>),
}

impl<'a> Usage<'a> {
    /// The place of a usage that is yet to be read.
    pub fn unread() -> Usage<'a> {
        Usage::Fixed(Fixed::holding(0))
    }

    /// Nothing used.
    pub fn empty(limit: &Limit, now_us: u64) -> Usage<'a> {
        Usage::holding(0, limit, now_us)
    }

    /// `level` grains, taken now.
    fn holding(level: u128, limit: &Limit, now_us: u64) -> Usage<'a> {
        let units = units_up(level);
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                Usage::Bucket(Bucket::holding(level, now_us))
            }
            Algorithm::FixedWindow => Usage::Fixed(Fixed::holding(units)),
            Algorithm::SlidingWindow => {
                Usage::Sliding(Sliding::holding(units, limit.period_us(), now_us))
            }
            Algorithm::SlidingLog => Usage::Log(Log::holding(units, now_us)),
        }
    }

    /// Becomes what the next record of `bytes` says, as it stands now under
    /// `limit`. Returns how it had to be moved to the limit or the clock of the
    /// call, if it had to; what it was before it was carried over to the limit
    /// is left in `unmoved`.
    ///
    /// # Errors
    ///
    /// [`Foreign`] if this module did not write the record.
    pub fn resume(
        &mut self,
        bytes: &mut &'a [u8],
        limit: &Limit,
        now_us: u64,
        unmoved: &mut Option<Unmoved<'a>>,
    ) -> Result<Moved, Foreign> {
        if state::begins_log(bytes) {
            return self.resume_log(bytes, limit, now_us, unmoved);
        }
        let algorithm = limit.algorithm();
        let fit = match state::read_record(bytes)? {
            Record::Bucket {
                at_us,
                level,
                rate,
                debt,
            } => {
                *self = Usage::Bucket(Bucket::drained(at_us, level, rate, now_us));
                Fit {
                    goes_on: algorithm.is_bucket() && rate == Rate::of(limit),
                    may_exceed: debt == Some(limit.capacity()),
                    rate,
                    stepped_back: at_us > now_us && level > 0,
                }
            }
            Record::Window {
                kind,
                start_us,
                current,
                previous,
                count,
                period_us,
            } => {
                *self = match kind {
                    WindowKind::Fixed => {
                        Usage::Fixed(Fixed::rolled(start_us, current, period_us, now_us))
                    }
                    WindowKind::Sliding => Usage::Sliding(Sliding::rolled(
                        start_us, current, previous, period_us, now_us,
                    )),
                };
                let same_kind = match kind {
                    WindowKind::Fixed => algorithm == Algorithm::FixedWindow,
                    WindowKind::Sliding => algorithm == Algorithm::SlidingWindow,
                };
                Fit {
                    goes_on: same_kind && period_us == limit.period_us(),
                    may_exceed: count == limit.capacity(),
                    rate: Rate { count, period_us },
                    stepped_back: start_us > now_us && (current | previous) > 0,
                }
            }
        };
        Ok(self.carry_over(&fit, limit, now_us, unmoved))
    }

    #[inline(never)] // What a log needs is kept out of the way of the others.
    fn resume_log(
        &mut self,
        bytes: &mut &'a [u8],
        limit: &Limit,
        now_us: u64,
        unmoved: &mut Option<Unmoved<'a>>,
    ) -> Result<Moved, Foreign> {
        let (header, period_us, mut log) = state::read_log(bytes)?;
        log.expire(period_us, now_us);
        let stepped_back = log.pull_back(now_us);
        *self = Usage::Log(log);
        let fit = Fit {
            goes_on: limit.algorithm() == Algorithm::SlidingLog && period_us == limit.period_us(),
            may_exceed: u64::from(header.count) == limit.capacity(),
            rate: Rate {
                count: u64::from(header.count),
                period_us,
            },
            stepped_back,
        };
        Ok(self.carry_over(&fit, limit, now_us, unmoved))
    }

    /// Carries a stored usage over to `limit`.
    #[inline(always)]
    fn carry_over(
        &mut self,
        fit: &Fit,
        limit: &Limit,
        now_us: u64,
        unmoved: &mut Option<Unmoved<'a>>,
    ) -> Moved {
        let level = self.level();
        let above = !fit.may_exceed && level > grains(limit.capacity());
        if fit.goes_on && !above {
            return if fit.stepped_back {
                Moved::ByClock
            } else {
                Moved::Not
            };
        }
        if level > 0 {
            *unmoved = Some(Unmoved::new(*self, fit.rate, limit.capacity()));
        }
        if fit.goes_on {
            self.clamp(limit, now_us);
        } else {
            let level = level.min(grains(limit.capacity()));
            *self = Usage::holding(level, limit, now_us);
        }
        match (level, fit.stepped_back) {
            (0, _) => Moved::Not,
            (_, true) => Moved::ByClock,
            (_, false) => Moved::ByLimit,
        }
    }

    /// As [`Usage::resume`] with a key that is marked: `self` becomes the lesser
    /// of what `resume` makes of the record and of what it would have made of it
    /// at the mark, brought to now. Returns whether they differ in what they are.
    ///
    /// # Errors
    ///
    /// [`Foreign`] if this module did not write the record.
    #[cold]
    pub fn carry_since(
        &mut self,
        mut record: &'a [u8],
        limit: &Limit,
        (since_us, now_us): (u64, u64),
        unmoved: &mut Option<Unmoved<'a>>,
    ) -> Result<bool, Foreign> {
        let mut carried = Usage::unread();
        let moved = carried.resume(&mut record, limit, since_us, &mut None)?;
        if moved != Moved::ByLimit || self.is_unused() {
            return Ok(false);
        }
        carried.advance(limit, since_us, now_us);
        // What has drained below the capacity since the mark is not moved by now.
        let unmoved = unmoved.get_or_insert(Unmoved {
            usage: *self,
            limit: *limit,
            carried: None,
        });
        unmoved.carried = Some(carried);
        if carried.level() <= self.level() {
            *self = carried;
        }
        Ok(true)
    }

    /// Brings what was carried over to `limit` at `since_us` to now.
    fn advance(&mut self, limit: &Limit, since_us: u64, now_us: u64) {
        let period_us = limit.period_us();
        let start_us = window_start_us(since_us, period_us);
        match self {
            Usage::Bucket(bucket) => {
                let rate = Rate::of(limit);
                *bucket = Bucket::drained(bucket.at_us(), bucket.level(), rate, now_us);
            }
            Usage::Fixed(window) => {
                *window = Fixed::rolled(start_us, window.used(), period_us, now_us);
            }
            Usage::Sliding(window) => {
                let (current, previous) = (window.current(), window.previous());
                *window = Sliding::rolled(start_us, current, previous, period_us, now_us);
            }
            Usage::Log(log) => log.expire(period_us, now_us),
        }
    }

    /// Brings usage down to the capacity, which it is above.
    #[cold]
    fn clamp(&mut self, limit: &Limit, now_us: u64) {
        let capacity = grains(limit.capacity());
        match self {
            Usage::Bucket(bucket) => *bucket = Bucket::holding(capacity, now_us),
            _ => self.give(now_us, units_up(self.level() - capacity)),
        }
    }

    /// Used now, in grains.
    #[inline(always)]
    fn level(&self) -> u128 {
        match self {
            Usage::Bucket(bucket) => bucket.used(),
            Usage::Fixed(window) => grains(window.used()),
            Usage::Sliding(window) => grains(window.used()),
            Usage::Log(log) => grains(log.used()),
        }
    }

    /// Whether nothing is used: the same as never touched.
    pub fn is_unused(&self) -> bool {
        self.level() == 0
    }

    /// Units that can still be taken now.
    #[inline(always)]
    pub fn remaining(&self, limit: &Limit) -> u64 {
        let used = match self {
            Usage::Bucket(bucket) => return bucket.remaining(limit),
            Usage::Fixed(window) => window.used(),
            Usage::Sliding(window) => window.used(),
            Usage::Log(log) => log.used(),
        };
        limit.capacity().saturating_sub(used)
    }

    /// When `cost` is admitted.
    #[inline(always)]
    pub fn wait(&self, limit: &Limit, now_us: u64, cost: u64) -> Wait {
        if cost > limit.capacity() || limit.capacity() == 0 {
            return Wait::Never;
        }
        match self {
            Usage::Bucket(bucket) => bucket.wait(limit, now_us, cost),
            Usage::Fixed(window) => window.wait(limit, now_us, cost),
            Usage::Sliding(window) => window.wait(limit, cost),
            Usage::Log(log) => log.wait(limit, now_us, cost),
        }
    }

    /// Microseconds until nothing is held any more.
    #[inline(always)]
    pub fn reset_us(&self, limit: &Limit, now_us: u64) -> u64 {
        match self {
            Usage::Bucket(bucket) => bucket.reset_us(limit, now_us),
            Usage::Fixed(window) => window.reset_us(limit, now_us),
            Usage::Sliding(window) => window.reset_us(),
            Usage::Log(log) => log.reset_us(limit, now_us),
        }
    }

    /// The wait that an admitted call is told: a LEAKYBUCKET's is the time
    /// until everything ahead has drained.
    pub fn hold_back(&self, limit: &Limit, now_us: u64) -> Wait {
        if limit.algorithm() != Algorithm::LeakyBucket {
            return Wait::Now;
        }
        match self.reset_us(limit, now_us) {
            0 => Wait::Now,
            wait_us => Wait::AfterUs(wait_us),
        }
    }

    /// How it stands, with the wait that the call is told.
    #[inline(always)]
    pub fn answer(&self, limit: &Limit, now_us: u64, wait: Wait) -> Answer {
        Answer {
            remaining: self.remaining(limit),
            wait,
            reset_us: self.reset_us(limit, now_us),
            limit: limit.capacity(),
        }
    }

    /// Whether `cost` can be charged whatever the limit says.
    pub fn can_force(&self, limit: &Limit, cost: u64) -> Result<(), TooMuch> {
        match self {
            Usage::Bucket(bucket) => bucket.can_force(limit, cost),
            Usage::Fixed(window) => window::can_force(window.used(), cost),
            Usage::Sliding(window) => window::can_force(window.used(), cost),
            Usage::Log(log) => log.can_force(cost),
        }
    }

    /// Charges `cost` units now: an admitted cost, or one that can be forced.
    pub fn charge(&mut self, now_us: u64, cost: u64) {
        match self {
            Usage::Bucket(bucket) => bucket.charge(now_us, cost),
            Usage::Fixed(window) => window.charge(cost),
            Usage::Sliding(window) => window.charge(cost),
            Usage::Log(log) => log.push(now_us, cost),
        }
    }

    /// Returns `cost` units; usage never falls below 0.
    pub fn give(&mut self, now_us: u64, cost: u64) {
        match self {
            Usage::Bucket(bucket) => bucket.give(now_us, cost),
            Usage::Fixed(window) => window.give(cost),
            Usage::Sliding(window) => window.give(cost),
            Usage::Log(log) => log.give(cost),
        }
    }

    /// What is to be stored.
    pub fn for_storage(&self, limit: &Limit, now_us: u64) -> Unstored<'_, 'a> {
        let window = |kind, current, previous| Record::Window {
            kind,
            start_us: window_start_us(now_us, limit.period_us()),
            current,
            previous,
            count: limit.count(),
            period_us: limit.period_us(),
        };
        let record = match self {
            Usage::Bucket(bucket) => Record::Bucket {
                at_us: bucket.at_us(),
                level: bucket.level(),
                rate: Rate::of(limit),
                debt: (bucket.level() > grains(limit.capacity())).then_some(limit.capacity()),
            },
            Usage::Fixed(fixed) => window(WindowKind::Fixed, fixed.used(), 0),
            Usage::Sliding(sliding) => {
                window(WindowKind::Sliding, sliding.current(), sliding.previous())
            }
            Usage::Log(log) => return Unstored::Log(log),
        };
        Unstored::Record(record.encode())
    }
}

/// A usage on its way to the stored form.
#[derive(Clone, Copy, Debug)]
pub enum Unstored<'u, 'a> {
    Record(Encoded),
    Log(&'u Log<'a>),
}

/// How a stored usage had to be moved to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Not,
    /// It was carried over to another limit.
    ByLimit,
    /// The clock stepped back (and maybe the limit changed as well).
    ByClock,
}

/// A stored usage as it was before it was carried over to another limit: it
/// drains as it did, and a cost is admitted once it has drained far enough for
/// the new capacity.
#[derive(Clone, Copy, Debug)]
pub struct Unmoved<'a> {
    usage: Usage<'a>,
    limit: Limit,
    /// What was carried over at the mark of a key that has one.
    carried: Option<Usage<'a>>,
}

impl<'a> Unmoved<'a> {
    fn new(usage: Usage<'a>, rate: Rate, capacity: u64) -> Unmoved<'a> {
        let (algorithm, count) = match usage {
            Usage::Bucket(_) => (Algorithm::TokenBucket, rate.count),
            Usage::Fixed(_) => (Algorithm::FixedWindow, capacity),
            Usage::Sliding(_) => (Algorithm::SlidingWindow, capacity),
            Usage::Log(_) => (Algorithm::SlidingLog, capacity),
        };
        Unmoved {
            usage,
            limit: Limit::unchecked(algorithm, count, rate.period_us, capacity),
            carried: None,
        }
    }

    /// When a cost is admitted if the stored state stays as it is.
    pub fn wait(&self, now_us: u64, cost: u64) -> Wait {
        self.usage.wait(&self.limit, now_us, cost)
    }

    /// When a cost is admitted if the key is marked: as soon as either lets it.
    /// `usage` is what is carried over to `limit` now.
    pub fn wait_marked(&self, usage: &Usage, limit: &Limit, now_us: u64, cost: u64) -> Wait {
        let carried = self.carried.as_ref().unwrap_or(usage);
        carried
            .wait(limit, now_us, cost)
            .min(self.wait(now_us, cost))
    }
}

/// How a stored state fits the limit of a call.
struct Fit {
    /// The limit goes on counting in this very state: it is of the same family
    /// and period, and of a bucket the rate is the same.
    goes_on: bool,
    /// Usage may be above the capacity, because FORCE brought it there.
    may_exceed: bool,
    /// The rate of a bucket; of the others only the period is of use.
    rate: Rate,
    /// The state spoke of the future, and was taken as now.
    stepped_back: bool,
}
