//! One key and its twins, called together: every number of every report is
//! checked, and with it what the next calls were promised.
//!
//! The usage of the key must lie between that of two twins: the exact one,
//! since nothing may be looser, and one that charges a millionth of a unit
//! more at each admitted call, since nothing may be stricter than that. Both
//! twins follow the key's decisions.
#![allow(dead_code)] // Each test binary uses its part of it.

use rl_core::{Algorithm, Answer, Ask, Limit, Slots, Wait, MAX_INSTANT_US};

use crate::key::{Call, Failed, Key, Report};
use crate::twin::{Seen, Twin};

#[derive(Clone)]
pub struct Trial {
    pub key: Key,
    exact: Twin,
    strict: Twin,
    /// From when the key may be gone, as the last write said.
    pub free_at_us: u64,
    /// The last call put a mark in front, which writes no limits.
    pub marked: bool,
}

/// One call with what it was about, for the text of a failure.
struct Checks<'a> {
    exact: &'a Seen,
    strict: &'a Seen,
    limits: &'a Slots<Limit>,
    now_us: u64,
}

impl Trial {
    pub fn new() -> Trial {
        Trial {
            key: Key::default(),
            exact: Twin::exact(),
            strict: Twin::strict(),
            free_at_us: 0,
            marked: false,
        }
    }

    /// The server lets the key go, which it may from `free_at_us` on.
    pub fn expire(&mut self, now_us: u64) {
        if now_us >= self.free_at_us {
            self.forget();
        }
    }

    /// The state is written from scratch under the limits of the last write, as
    /// it stands now, and read again.
    pub fn save_load(&mut self, limits: &Slots<Limit>, now_us: u64) {
        if self.key.bytes.is_some() {
            let before = self.key.peek(limits, now_us, Ask::cost(1));
            self.key = self.key.rewritten(limits, now_us).expect("our own bytes");
            let after = self.key.peek(limits, now_us, Ask::cost(1));
            assert!(before.answers.iter().eq(after.answers.iter()));
            self.exact = self.exact.seen(limits, now_us).stored();
            self.strict = self.strict.seen(limits, now_us).stored();
        }
    }

    fn forget(&mut self) {
        self.key = Key::default();
        self.exact.forget();
        self.strict.forget();
    }

    /// Where rounding decides, either is right: begins anew.
    fn avoid_a_tie(&mut self, limits: &Slots<Limit>, now_us: u64) {
        if self.exact.seen(limits, now_us).is_tie {
            self.forget();
        }
    }

    pub fn take(&mut self, limits: &Slots<Limit>, now_us: u64, ask: Ask) -> Option<Report> {
        self.avoid_a_tie(limits, now_us);
        let exact = self.exact.seen(limits, now_us);
        let strict = self.strict.seen(limits, now_us);
        let before = self.key.clone();
        self.marked = false;
        let peek = self.peek(limits, now_us, ask);
        let done = match self.key.call(limits, now_us, Call::Take(ask)) {
            Ok(done) => done,
            Err(Failed::Foreign) => panic!("our own bytes are foreign: {before:02x?}"),
            Err(Failed::TooMuch(why)) => {
                assert!(ask.force && ask.cost > 0, "only FORCE can be too much");
                assert!(strict.is_too_much(ask.cost), "{why:?} of a force in range");
                assert_eq!(self.key, before, "an error changes nothing");
                return None;
            }
        };
        let report = done.report;

        assert_eq!(report.admitted, peek.admitted, "peek and take decide alike");
        assert_eq!(report.taken, peek.taken, "peek and take take alike");
        let waits = |report: &Report| report.answers.iter().map(|a| a.wait).collect::<Vec<_>>();
        assert_eq!(
            waits(&report),
            waits(&peek),
            "peek and take say the same waits"
        );
        if !ask.force {
            // A force can leave nothing remaining of several limits, and then
            // the first governs; a peek can't be forced.
            assert_eq!(report.governing.wait, peek.governing.wait);
        }

        self.decided(&exact, &strict, ask, &report);
        let checks = Checks {
            exact: &exact,
            strict: &strict,
            limits,
            now_us,
        };
        let was_marked = self.exact.marked_since(limits, now_us).is_some();
        checks.waits(ask, &report, was_marked || report.store);
        let charged = report.admitted && report.taken > 0;
        if charged {
            assert!(report.store, "what was charged is stored");
            if ask.force {
                assert!(!exact.is_too_much(report.taken), "a force out of range");
            }
            self.exact = exact.charged(report.taken);
            self.strict = strict.charged(report.taken);
        } else {
            let will_be = matches!(report.governing.wait, Wait::AfterUs(_)) && ask.cost > 0;
            let stores = !report.admitted && will_be;
            let cost = if ask.at_most { 1 } else { ask.cost };
            match report.governing.wait {
                Wait::AfterUs(_) if stores && exact.stepped_back => {
                    assert!(report.store, "a wait that will be a lie");
                }
                Wait::AfterUs(wait_us) if stores && strict.carried() && !was_marked => {
                    // The key is marked where that makes the wait shorter, and only there.
                    let other_us = now_us + wait_us - u64::from(!report.store);
                    assert!(
                        !strict.all_admit(other_us, cost, !report.store),
                        "the other way is not longer"
                    );
                }
                _ => assert!(!report.store, "a refusal that writes"),
            }
            if report.store && exact.stepped_back {
                self.exact = exact.stored();
                self.strict = strict.stored();
            } else if report.store {
                self.marked = true;
                self.exact.mark(limits, now_us);
                self.strict.mark(limits, now_us);
                assert!(done.free_at_us <= self.free_at_us, "a mark moves no expiry");
            }
        }
        self.written(limits, now_us, &before, &report, done.free_at_us);
        if !report.admitted && ask.cost > 0 {
            self.waits_are_kept(limits, now_us, ask, &report);
        }
        Some(report)
    }

    pub fn give(&mut self, limits: &Slots<Limit>, now_us: u64, cost: u64) -> Report {
        self.avoid_a_tie(limits, now_us);
        let exact = self.exact.seen(limits, now_us);
        let strict = self.strict.seen(limits, now_us);
        let before = self.key.clone();
        self.marked = false;
        let done = self
            .key
            .call(limits, now_us, Call::Give(cost))
            .expect("a give never fails");
        let report = done.report;
        assert!(report.admitted);
        assert!(report.answers.iter().all(|answer| answer.wait == Wait::Now));
        if report.store {
            assert!(cost > 0 && !strict.is_unused(), "nothing to give back");
            self.exact = exact.given(cost);
            self.strict = strict.given(cost);
        } else {
            assert!(cost == 0 || exact.is_unused(), "a give that gave nothing");
        }
        self.written(limits, now_us, &before, &report, done.free_at_us);
        report
    }

    pub fn peek(&self, limits: &Slots<Limit>, now_us: u64, ask: Ask) -> Report {
        let exact = self.exact.seen(limits, now_us);
        let strict = self.strict.seen(limits, now_us);
        let report = self.key.peek(limits, now_us, ask);
        assert!(!report.store, "a peek writes nothing");
        if exact.is_tie {
            return report;
        }
        let checks = Checks {
            exact: &exact,
            strict: &strict,
            limits,
            now_us,
        };
        checks.stands(&report);
        // What a take would store tells from where it would wait.
        let taken = self.key.clone().call(limits, now_us, Call::Take(ask));
        let marks = taken.is_ok_and(|done| done.report.store);
        let marked = self.exact.marked_since(limits, now_us).is_some();
        checks.waits(ask, &report, marks || marked);
        self.remaining_is_kept(limits, now_us, &report);
        report
    }

    /// Whether the decision is the exact one, or stricter by the slack.
    fn decided(&self, exact: &Seen, strict: &Seen, ask: Ask, report: &Report) {
        if ask.force && ask.cost > 0 {
            assert!(report.admitted);
            assert_eq!(report.taken, ask.cost);
        } else if ask.at_most && ask.cost > 0 {
            assert!(
                report.taken <= ask.cost.min(exact.room()),
                "looser than exact"
            );
            assert!(report.taken >= ask.cost.min(strict.room()), "too strict");
            assert_eq!(report.admitted, report.taken > 0);
        } else if report.admitted {
            assert!(exact.admit(ask.cost), "looser than exact");
            assert_eq!(report.taken, ask.cost);
        } else {
            assert!(!strict.admit(ask.cost), "too strict");
            assert_eq!(report.taken, 0);
        }
    }

    /// What has to hold after every call: the state is what the report says,
    /// the bytes changed only if they had to, and the key is free in time.
    fn written(
        &mut self,
        limits: &Slots<Limit>,
        now_us: u64,
        before: &Key,
        report: &Report,
        free_at_us: u64,
    ) {
        let exact = self.exact.seen(limits, now_us);
        let strict = self.strict.seen(limits, now_us);
        let checks = Checks {
            exact: &exact,
            strict: &strict,
            limits,
            now_us,
        };
        checks.stands(report);
        checks.governs(report);
        if !report.store {
            assert_eq!(self.key, *before, "nothing to be stored");
            return;
        }
        self.reads_back(limits, now_us, report);
        if self.marked {
            self.is_free_to_others(limits);
            return;
        }
        if self.key.bytes.is_none() {
            assert!(report.answers.iter().all(|answer| answer.reset_us == 0));
            assert!(exact.is_unused(), "a key was removed in use");
            self.forget();
            return;
        }
        self.free_at_us = free_at_us;
        self.is_free_in_time(limits, now_us, report);
    }

    /// The stored bytes say what was answered; so do the same bytes written
    /// from scratch.
    fn reads_back(&self, limits: &Slots<Limit>, now_us: u64, report: &Report) {
        let again = self.key.peek(limits, now_us, Ask::cost(1));
        let stands = |report: &Report| {
            let stand = |a: &Answer| (a.remaining, a.reset_us, a.limit);
            report.answers.iter().map(stand).collect::<Vec<_>>()
        };
        assert_eq!(
            stands(&again),
            stands(report),
            "what was stored is what was said"
        );
        let rewritten = self.key.rewritten(limits, now_us).expect("our own bytes");
        if self.key.bytes.is_some() {
            let again = rewritten.peek(limits, now_us, Ask::cost(1));
            assert_eq!(stands(&again), stands(report), "the same from scratch");
        }
    }

    /// To a call with other limits than the stored ones, too, the state says at
    /// `free_at_us` the same as no key.
    fn is_free_to_others(&self, limits: &Slots<Limit>) {
        if self.free_at_us <= MAX_INSTANT_US {
            let at_free = |key: &Key| key.peek(limits, self.free_at_us, Ask::cost(1));
            let (freed, untouched) = (at_free(&self.key), at_free(&Key::default()));
            assert!(freed.answers.iter().eq(untouched.answers.iter()));
        }
    }

    /// At `free_at_us` the state says the same as no key, and not before.
    fn is_free_in_time(&self, limits: &Slots<Limit>, now_us: u64, report: &Report) {
        let last_us = report.answers.iter().map(|answer| answer.reset_us).max();
        assert_eq!(self.free_at_us, now_us + last_us.unwrap_or(0));
        assert!(self.free_at_us > now_us, "a stored key holds something");
        if self.free_at_us > MAX_INSTANT_US {
            return;
        }
        let at_free = |key: &Key| key.peek(limits, self.free_at_us, Ask::cost(1));
        let untouched = at_free(&Key::default());
        let (freed, untouched) = (at_free(&self.key), untouched);
        assert!(
            freed.answers.iter().eq(untouched.answers.iter()),
            "free at {} but says {freed:?}",
            self.free_at_us
        );
        let just_before = self.key.peek(limits, self.free_at_us - 1, Ask::cost(1));
        assert!(just_before.answers.iter().any(|answer| answer.reset_us > 0));
    }

    /// `remaining` is taken, and one more is not.
    fn remaining_is_kept(&self, limits: &Slots<Limit>, now_us: u64, report: &Report) {
        let least = report.answers.iter().map(|answer| answer.remaining).min();
        let least = least.expect("a call has limits");
        if least > 0 {
            assert!(
                self.key
                    .clone()
                    .take(limits, now_us, Ask::cost(least))
                    .admitted
            );
        }
        assert!(
            !self
                .key
                .clone()
                .take(limits, now_us, Ask::cost(least + 1))
                .admitted
        );
        let most = self
            .key
            .clone()
            .take(limits, now_us, Ask::at_most(u64::MAX));
        assert_eq!(most.taken, least);
    }

    /// Refused until the wait is over, admitted when it is; in microseconds,
    /// and so in milliseconds rounded up.
    fn waits_are_kept(&self, limits: &Slots<Limit>, now_us: u64, ask: Ask, report: &Report) {
        let again = |at_us: u64| self.key.clone().take(limits, at_us, ask).admitted;
        match report.governing.wait {
            Wait::Now => panic!("a refusal without a wait"),
            Wait::Never => assert!(!again(MAX_INSTANT_US), "never is never"),
            Wait::AfterUs(wait_us) => {
                let wait_ms_us = wait_us.div_ceil(1_000) * 1_000;
                let within = |at_us: &u64| *at_us <= MAX_INSTANT_US;
                for early_us in [wait_us - 1, wait_ms_us - 1_000] {
                    if let Some(at_us) = Some(now_us + early_us).filter(within) {
                        assert!(
                            !again(at_us),
                            "admitted {early_us} us into a wait of {wait_us}"
                        );
                    }
                }
                for late_us in [wait_us, wait_ms_us] {
                    if let Some(at_us) = Some(now_us + late_us).filter(within) {
                        assert!(
                            again(at_us),
                            "refused {late_us} us after a wait of {wait_us}"
                        );
                    }
                }
            }
        }
    }
}

impl Checks<'_> {
    /// Remaining, reset and limit, against the state as the twins see it.
    fn stands(&self, report: &Report) {
        assert_eq!(report.answers.len(), self.limits.len());
        for (index, (answer, limit)) in report.answers.iter().zip(self.limits.iter()).enumerate() {
            assert_eq!(answer.limit, limit.capacity());
            assert!(answer.remaining <= limit.capacity());
            let remaining = answer.remaining;
            assert!(
                remaining <= self.exact.remaining(index),
                "remaining {remaining} is looser than exact, {}",
                self.exact.used(index, self.now_us)
            );
            assert!(
                remaining >= self.strict.remaining(index),
                "remaining {remaining} is too strict, {}",
                self.exact.used(index, self.now_us)
            );
            self.span(
                answer.reset_us,
                |at_us| !self.exact.is_held(index, at_us),
                |at_us| !self.strict.is_held(index, at_us),
            );
        }
    }

    /// The waits of a call that met this state; refused, they count from the
    /// mark if there is one or will be, else from the state as it was.
    fn waits(&self, ask: Ask, report: &Report, marked: bool) {
        let admits = |seen: &Seen, index: usize, at_us: u64, cost: u64| {
            if self.exact.stepped_back {
                seen.admits(index, at_us, cost)
            } else if marked {
                seen.admits_marked(index, at_us, cost)
            } else {
                seen.admits_unmoved(index, at_us, cost)
            }
        };
        let cost = if ask.at_most && ask.cost > 0 && !report.admitted {
            1
        } else {
            ask.cost
        };
        for (index, (answer, limit)) in report.answers.iter().zip(self.limits.iter()).enumerate() {
            let is_leaky = limit.algorithm() == Algorithm::LeakyBucket;
            if report.admitted && is_leaky {
                let ahead_us = match answer.wait {
                    Wait::Now => 0,
                    Wait::AfterUs(wait_us) => wait_us,
                    Wait::Never => panic!("admitted, and never"),
                };
                self.span(
                    ahead_us,
                    |at_us| !self.exact.is_held(index, at_us),
                    |at_us| !self.strict.is_held(index, at_us),
                );
            } else if report.admitted {
                assert_eq!(answer.wait, Wait::Now);
            } else if limit.capacity() == 0 || cost > limit.capacity() {
                assert_eq!(answer.wait, Wait::Never);
            } else {
                let wait_us = match answer.wait {
                    Wait::Now => 0,
                    Wait::AfterUs(wait_us) => {
                        assert!(wait_us > 0);
                        wait_us
                    }
                    Wait::Never => panic!("{cost} of {limit:?} is not for ever too much"),
                };
                self.span(
                    wait_us,
                    |at_us| admits(self.exact, index, at_us, cost),
                    |at_us| admits(self.strict, index, at_us, cost),
                );
            }
        }
    }

    /// A span that ends neither before it exactly should (`exact` holds at its
    /// end) nor later than the slack allows (`strict` does not hold before).
    fn span(&self, span_us: u64, exact: impl Fn(u64) -> bool, strict: impl Fn(u64) -> bool) {
        let end_us = self.now_us + span_us;
        assert!(exact(end_us), "{span_us} us is too short");
        assert!(
            span_us == 0 || !strict(end_us - 1),
            "{span_us} us is too long"
        );
    }

    /// Refused: the longest wait governs. Admitted: the least remaining. Of
    /// equals the first.
    fn governs(&self, report: &Report) {
        let governing = report.governing;
        let mut ahead = true;
        let mut seen = false;
        for answer in report.answers.iter() {
            if ahead && *answer == governing {
                (ahead, seen) = (false, true);
                continue;
            }
            let length = |wait: Wait| match wait {
                Wait::Now => 0,
                Wait::AfterUs(wait_us) => wait_us,
                Wait::Never => u64::MAX,
            };
            let (this, that) = if report.admitted {
                (governing.remaining, answer.remaining)
            } else {
                (length(answer.wait), length(governing.wait))
            };
            assert!(this <= that, "another limit governs");
            assert!(this < that || !ahead, "the first of equals governs");
        }
        assert!(seen, "the governing answer is one of them");
    }
}
