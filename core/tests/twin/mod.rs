//! The naive twin: what every limit means, in exact fractions and nothing
//! clever. It keeps what was taken in the plainest form there is, and answers
//! only two questions, at any instant from now on: how much is used, and is
//! anything held. Every number of a reply is checked against these two.
#![allow(dead_code)] // Each test binary uses its part of it.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};

use rl_core::{Algorithm, Limit, Slots, MAX_DRAIN_US, MAX_LOG_ENTRIES, MAX_WINDOW_UNITS};

/// An exact fraction.
pub type Q = BigRational;

pub fn q(number: impl Into<BigInt>) -> Q {
    Q::from_integer(number.into())
}

/// One millionth.
pub fn millionth() -> Q {
    Q::new(1.into(), 1_000_000.into())
}

/// What a key holds, as limits and what is held against each.
#[derive(Clone, Debug)]
pub struct Twin {
    lines: Vec<Line>,
    /// Charged to a bucket on top of every cost, and of every usage carried to
    /// another rate: nothing for the exact twin, a millionth for the strictest
    /// one that still may be called right.
    slack: Q,
    /// For which limits the usage counts as carried over, and from when on.
    /// (`None`: for any that have no mark of their own.)
    marks: Vec<(Option<Vec<Counting>>, u64)>,
}

/// What of a limit tells it from those that count otherwise: the algorithm (one
/// for all buckets), count, period and capacity.
type Counting = (Algorithm, u64, u64, u64);

fn counting(limits: &Slots<Limit>) -> Vec<Counting> {
    let counting = |limit: &Limit| {
        let algorithm = match limit.algorithm() {
            bucket if bucket.is_bucket() => Algorithm::TokenBucket,
            other => other,
        };
        (
            algorithm,
            limit.count(),
            limit.period_us(),
            limit.capacity(),
        )
    };
    limits.iter().map(counting).collect()
}

#[derive(Clone, Debug)]
struct Line {
    /// The limit that last wrote.
    limit: Limit,
    held: Held,
}

#[derive(Clone, Debug)]
enum Held {
    /// `used` at the instant `at_us`, draining since.
    Bucket { at_us: u64, used: Q },
    /// Units of one window, by its number since the epoch.
    Fixed { window: u64, used: u64 },
    /// Units of one window and of the one before.
    Sliding {
        window: u64,
        current: u64,
        previous: u64,
    },
    /// (instant, units) of every take, oldest first.
    Log(Vec<(u64, u64)>),
}

impl Twin {
    pub fn exact() -> Twin {
        Twin::stored(Vec::new(), Q::zero())
    }

    pub fn strict() -> Twin {
        Twin::stored(Vec::new(), millionth())
    }

    fn stored(lines: Vec<Line>, slack: Q) -> Twin {
        let marks = Vec::new();
        Twin {
            lines,
            slack,
            marks,
        }
    }

    /// The key is gone.
    pub fn forget(&mut self) {
        self.lines.clear();
        self.marks.clear();
    }

    /// A refused call with these limits marked the key.
    pub fn mark(&mut self, limits: &Slots<Limit>, now_us: u64) {
        self.marks.retain(|(_, since_us)| *since_us <= now_us);
        self.marks.push((Some(counting(limits)), now_us));
        if self.marks.len() > 8 {
            self.marks.remove(1);
            self.marks[0].0 = None;
        }
    }

    /// Since when these limits have a mark, as seen from now.
    pub fn marked_since(&self, limits: &Slots<Limit>, now_us: u64) -> Option<u64> {
        let find = |wanted: Option<&Vec<Counting>>| {
            let mut marks = self.marks.iter();
            let mark = marks.find(|(of, since_us)| of.as_ref() == wanted && *since_us <= now_us);
            mark.map(|(_, since_us)| *since_us)
        };
        find(Some(&counting(limits))).or_else(|| find(None))
    }

    /// How many marks there are, as seen from now.
    pub fn marks(&self, now_us: u64) -> usize {
        let marks = self.marks.iter();
        marks.filter(|(_, since_us)| *since_us <= now_us).count()
    }

    /// How the state looks to a call with these limits at this instant.
    pub fn seen(&self, limits: &Slots<Limit>, now_us: u64) -> Seen {
        let mut stepped_back = false;
        let mut unmoved = Vec::new();
        let mut carried = Vec::new();
        let mut is_tie = false;
        let since_us = self.marked_since(limits, now_us);
        let lines = limits
            .iter()
            .enumerate()
            .map(|(index, limit)| match self.lines.get(index) {
                None => {
                    unmoved.push(None);
                    carried.push(None);
                    Line {
                        limit: *limit,
                        held: Held::holding(limit, now_us, &Q::zero()),
                    }
                }
                Some(line) => {
                    let (seen, before, back) = line.seen(limit, now_us, &self.slack);
                    stepped_back |= back;
                    let since = since_us
                        .map(|since_us| line.seen(limit, since_us, &self.slack))
                        .filter(|(_, moved, back)| moved.is_some() && !back)
                        .filter(|_| !seen.used(now_us).is_zero())
                        .map(|(then, ..)| then);
                    let Some(then) = since else {
                        unmoved.push(before);
                        carried.push(None);
                        return seen;
                    };
                    let held = then.held.brought_to(limit, now_us).0;
                    let then = Line { held, ..then };
                    unmoved.push(before.or(Some(seen.clone())));
                    carried.push(Some(then.clone()));
                    let apart = (then.used(now_us) - seen.used(now_us)).abs();
                    // A window or a log counts a part of a unit as a whole one.
                    is_tie |= apart < Q::new(1_001.into(), 1_000.into());
                    if then.used(now_us) <= seen.used(now_us) {
                        then
                    } else {
                        seen
                    }
                }
            })
            .collect();
        Seen {
            lines,
            slack: self.slack.clone(),
            now_us,
            stepped_back,
            unmoved,
            carried,
            is_tie,
        }
    }
}

/// A state as a call meets it.
#[derive(Clone, Debug)]
pub struct Seen {
    lines: Vec<Line>,
    slack: Q,
    now_us: u64,
    /// The clock stepped back: the stored state spoke of the future.
    pub stepped_back: bool,
    /// Of each limit that usage was carried to, what was stored before.
    unmoved: Vec<Option<Line>>,
    /// Of each of these, what became of what was carried over at the mark.
    carried: Vec<Option<Line>>,
    /// What was stored and what was carried over are as good as equal: which of
    /// them counts is for rounding to say, and they drain differently.
    pub is_tie: bool,
}

impl Seen {
    /// Used of one limit at `at_us`, which is now or later.
    pub fn used(&self, index: usize, at_us: u64) -> Q {
        self.lines[index].used(at_us)
    }

    /// Whether anything is held against one limit at `at_us`.
    pub fn is_held(&self, index: usize, at_us: u64) -> bool {
        let line = &self.lines[index];
        line.held.is_held(&line.limit, at_us)
    }

    /// Whether one limit admits a cost at `at_us`.
    pub fn admits(&self, index: usize, at_us: u64, cost: u64) -> bool {
        self.fits(index, &self.lines[index], at_us, cost)
    }

    /// Whether a cost fits one limit's capacity beside what `line` holds.
    fn fits(&self, index: usize, line: &Line, at_us: u64, cost: u64) -> bool {
        let capacity = self.lines[index].limit.capacity();
        capacity > 0 && cost <= capacity && line.used(at_us) + q(cost) <= q(capacity)
    }

    /// Whether usage was carried to another limit.
    pub fn carried(&self) -> bool {
        self.unmoved.iter().any(Option::is_some)
    }

    /// Whether one limit admits a cost at `at_us` if nothing is stored until
    /// then: what was stored drains as it did.
    pub fn admits_unmoved(&self, index: usize, at_us: u64, cost: u64) -> bool {
        let line = self.unmoved[index].as_ref();
        self.fits(index, line.unwrap_or(&self.lines[index]), at_us, cost)
    }

    /// Whether one limit admits a cost at `at_us` if the key is marked: then what
    /// was stored, or what was carried over at the mark, has drained enough.
    pub fn admits_marked(&self, index: usize, at_us: u64, cost: u64) -> bool {
        let line = self.carried[index].as_ref();
        self.fits(index, line.unwrap_or(&self.lines[index]), at_us, cost)
            || self.admits_unmoved(index, at_us, cost)
    }

    /// Whether every limit admits a cost at `at_us`, with a mark or without.
    pub fn all_admit(&self, at_us: u64, cost: u64, marked: bool) -> bool {
        (0..self.lines.len()).all(|index| {
            if marked {
                self.admits_marked(index, at_us, cost)
            } else {
                self.admits_unmoved(index, at_us, cost)
            }
        })
    }

    /// Whether every limit admits a cost now.
    pub fn admit(&self, cost: u64) -> bool {
        (0..self.lines.len()).all(|index| self.admits(index, self.now_us, cost))
    }

    /// Units that one limit still has now.
    pub fn remaining(&self, index: usize) -> u64 {
        let capacity = self.lines[index].limit.capacity();
        let left = q(capacity) - self.used(index, self.now_us);
        if left.is_negative() {
            0
        } else {
            u64::try_from(left.floor().to_integer()).expect("at most a capacity")
        }
    }

    /// Units that every limit still has now.
    pub fn room(&self) -> u64 {
        (0..self.lines.len())
            .map(|index| self.remaining(index))
            .min()
            .expect("a call has limits")
    }

    /// Whether nothing is used of any limit.
    pub fn is_unused(&self) -> bool {
        (0..self.lines.len()).all(|index| self.used(index, self.now_us).is_zero())
    }

    /// Whether a force of `cost` would leave the range of some limit.
    pub fn is_too_much(&self, cost: u64) -> bool {
        self.lines.iter().enumerate().any(|(index, line)| {
            let after = self.used(index, self.now_us) + q(cost);
            match &line.held {
                Held::Bucket { .. } => {
                    after * q(line.limit.period_us()) > q(MAX_DRAIN_US) * q(line.limit.count())
                }
                Held::Log(takes) => {
                    let entries = takes
                        .iter()
                        .filter(|(at_us, _)| {
                            at_us + line.limit.period_us() > self.now_us && *at_us < self.now_us
                        })
                        .count();
                    after > q(MAX_WINDOW_UNITS) || entries as u64 >= MAX_LOG_ENTRIES
                }
                _ => after > q(MAX_WINDOW_UNITS),
            }
        })
    }

    /// The state once `cost` was charged to every limit.
    pub fn charged(mut self, cost: u64) -> Twin {
        for line in &mut self.lines {
            line.held
                .charge(&line.limit, self.now_us, cost, &self.slack);
        }
        self.stored()
    }

    /// The state once `cost` was returned to every limit.
    pub fn given(mut self, cost: u64) -> Twin {
        for line in &mut self.lines {
            line.held.give(&line.limit, self.now_us, cost);
        }
        self.stored()
    }

    /// The state as it is seen, stored.
    pub fn stored(self) -> Twin {
        Twin::stored(self.lines, self.slack)
    }
}

impl Line {
    fn used(&self, at_us: u64) -> Q {
        self.held.used(&self.limit, at_us)
    }

    /// The line under the limit of a call at `now_us`; what it was, if it had
    /// to be carried to that limit; and whether the clock stepped back.
    fn seen(&self, limit: &Limit, now_us: u64, slack: &Q) -> (Line, Option<Line>, bool) {
        let (mut held, stepped_back) = self.held.brought_to(&self.limit, now_us);
        let before = Line {
            limit: self.limit,
            held: held.clone(),
        };
        let mut moved = false;
        let was = &self.limit;
        let goes_on = if limit.algorithm().is_bucket() && was.algorithm().is_bucket() {
            (limit.count(), limit.period_us()) == (was.count(), was.period_us())
        } else {
            (limit.algorithm(), limit.period_us()) == (was.algorithm(), was.period_us())
        };
        let used = held.used(was, now_us);
        let capacity = q(limit.capacity());
        if !goes_on {
            let carried = used.min(capacity);
            moved = !carried.is_zero();
            held = Held::holding(limit, now_us, &carried);
            if let Held::Bucket { used, .. } = &mut held {
                if moved {
                    *used += slack;
                }
            }
        } else if limit.capacity() != was.capacity() && used > capacity {
            moved = true;
            match held {
                Held::Bucket { .. } => held = Held::holding(limit, now_us, &capacity),
                _ => {
                    let excess = (used - capacity).to_integer();
                    held.give(limit, now_us, u64::try_from(excess).expect("units"));
                }
            }
        }
        let limit = *limit;
        (Line { limit, held }, moved.then_some(before), stepped_back)
    }
}

impl Held {
    /// `units` taken now; a window or a log counts a part of one as a whole.
    fn holding(limit: &Limit, now_us: u64, units: &Q) -> Held {
        let whole = u64::try_from(units.ceil().to_integer()).expect("at most a capacity");
        let window = now_us / limit.period_us();
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => Held::Bucket {
                at_us: now_us,
                used: units.clone(),
            },
            Algorithm::FixedWindow => Held::Fixed {
                window,
                used: whole,
            },
            Algorithm::SlidingWindow => Held::Sliding {
                window,
                current: whole,
                previous: 0,
            },
            Algorithm::SlidingLog if whole == 0 => Held::Log(Vec::new()),
            Algorithm::SlidingLog => Held::Log(vec![(now_us, whole)]),
        }
    }

    /// Brought to `now_us`: what is over is dropped, and what it says about the
    /// future is taken as now. Returns as well whether it spoke of the future.
    fn brought_to(&self, limit: &Limit, now_us: u64) -> (Held, bool) {
        let period_us = limit.period_us();
        let now_window = now_us / period_us;
        match self {
            Held::Bucket { at_us, used } => {
                let held = Held::Bucket {
                    at_us: now_us.min(*at_us),
                    used: used.clone(),
                };
                (held, *at_us > now_us && !used.is_zero())
            }
            Held::Fixed { window, used } => {
                let held = Held::Fixed {
                    window: now_window,
                    used: if *window < now_window { 0 } else { *used },
                };
                (held, *window > now_window && *used > 0)
            }
            Held::Sliding {
                window,
                current,
                previous,
            } => {
                // The window before one of the future is not over either.
                let (current, previous) = if *window > now_window {
                    (current + previous, 0)
                } else {
                    self.counters(limit, now_us)
                };
                let held = Held::Sliding {
                    window: now_window,
                    current,
                    previous,
                };
                (held, *window > now_window && current + previous > 0)
            }
            Held::Log(takes) => {
                let held = takes
                    .iter()
                    .filter(|(at_us, _)| at_us + period_us > now_us)
                    .map(|(at_us, units)| (now_us.min(*at_us), *units))
                    .collect();
                let moved = takes.iter().any(|(at_us, _)| *at_us > now_us);
                (Held::Log(held), moved)
            }
        }
    }

    /// The counters (current, previous) of a sliding window at `at_us`.
    fn counters(&self, limit: &Limit, at_us: u64) -> (u64, u64) {
        let Held::Sliding {
            window,
            current,
            previous,
        } = self
        else {
            unreachable!("only of a sliding window");
        };
        match at_us / limit.period_us() - window {
            0 => (*current, *previous),
            1 => (0, *current),
            _ => (0, 0),
        }
    }

    fn used(&self, limit: &Limit, at_us: u64) -> Q {
        let period_us = limit.period_us();
        match self {
            Held::Bucket { at_us: since, used } => {
                let elapsed = q(at_us - since);
                let drained = elapsed * q(limit.count()) / q(period_us);
                (used - drained).max(Q::zero())
            }
            Held::Fixed { window, used } => {
                if at_us / period_us == *window {
                    q(*used)
                } else {
                    Q::zero()
                }
            }
            Held::Sliding { .. } => {
                let (current, previous) = self.counters(limit, at_us);
                weight(previous, period_us, at_us).floor() + q(current)
            }
            Held::Log(takes) => takes
                .iter()
                .filter(|(taken_us, _)| taken_us + period_us > at_us)
                .map(|(_, units)| q(*units))
                .sum(),
        }
    }

    fn is_held(&self, limit: &Limit, at_us: u64) -> bool {
        match self {
            Held::Sliding { .. } => self.counters(limit, at_us) != (0, 0),
            _ => !self.used(limit, at_us).is_zero(),
        }
    }

    /// Charges a state that was brought to `now_us`.
    fn charge(&mut self, limit: &Limit, now_us: u64, cost: u64, slack: &Q) {
        let used_now = self.used(limit, now_us);
        match self {
            Held::Bucket { at_us, used } => {
                *at_us = now_us;
                *used = used_now + q(cost) + slack;
            }
            Held::Fixed { used, .. } => *used += cost,
            Held::Sliding { current, .. } => *current += cost,
            Held::Log(takes) => takes.push((now_us, cost)),
        }
    }

    /// Gives back to a state that was brought to `now_us`.
    fn give(&mut self, limit: &Limit, now_us: u64, cost: u64) {
        let used_now = self.used(limit, now_us);
        match self {
            // The instant stays: what was used before it was given back stays
            // used at the instants before.
            Held::Bucket { used, .. } if used_now > q(cost) => *used -= q(cost),
            Held::Bucket { at_us, used } => {
                *at_us = now_us;
                *used = Q::zero();
            }
            Held::Fixed { used, .. } => *used = used.saturating_sub(cost),
            Held::Sliding {
                current, previous, ..
            } => {
                let of_current = cost.min(*current);
                *current -= of_current;
                let rest = q(cost - of_current);
                // As many stay of the previous window as weigh what is left.
                let weighs = weight(*previous, limit.period_us(), now_us).floor();
                let left = (&weighs - rest).max(Q::zero());
                if left.is_zero() && *current == 0 {
                    *previous = 0;
                } else if left < weighs {
                    let one = weight(1, limit.period_us(), now_us);
                    let most = ((left + q(1)) / one).ceil() - q(1);
                    *previous = u64::try_from(most.to_integer()).expect("at most as before");
                }
            }
            Held::Log(takes) => {
                let mut left = cost;
                while let Some((_, units)) = takes.last_mut() {
                    let gone = left.min(*units);
                    *units -= gone;
                    left -= gone;
                    if *units > 0 {
                        break;
                    }
                    takes.pop();
                }
            }
        }
    }
}

/// What `units` of the previous window weigh at `at_us`.
fn weight(units: u64, period_us: u64, at_us: u64) -> Q {
    let elapsed_us = at_us % period_us;
    q(units) * q(period_us - elapsed_us) / q(period_us)
}
