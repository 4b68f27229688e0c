//! What holds for every limit, every sequence of calls and every clock.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod key;
mod trial;
mod twin;

use proptest::prelude::*;
use rl_core::{
    Algorithm, Ask, Limit, Slots, Wait, MAX_INSTANT_US, MAX_LOG_COUNT, MAX_PERIOD_US, MAX_UNITS,
    MIN_PERIOD_US,
};

use key::{slots, Call, Failed, Key, Report};
use trial::Trial;

const BUCKETS: [Algorithm; 3] = [
    Algorithm::TokenBucket,
    Algorithm::Gcra,
    Algorithm::LeakyBucket,
];

/// One call, or one move of the clock.
#[derive(Clone, Copy, Debug)]
enum Op {
    Take(u64),
    AtMost(u64),
    Force(u64),
    Give(u64),
    Advance(u64),
    StepBack(u64),
}

/// A number of units or a count: mostly small, sometimes as large as it gets.
fn units(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 1..=10u64,
        4 => 1..=300u64,
        1 => 0..=most,
        1 => Just(most),
        1 => Just(0u64),
    ]
    .prop_map(move |units| units.min(most))
}

fn period_us() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(MIN_PERIOD_US),
        Just(1_000_000),
        Just(60_000_000),
        Just(86_400_000_000),
        Just(MAX_PERIOD_US),
        MIN_PERIOD_US..=100_000u64,
        MIN_PERIOD_US..=MAX_PERIOD_US,
    ]
}

fn limit_of(algorithm: impl Strategy<Value = Algorithm>) -> impl Strategy<Value = Limit> {
    let burst = proptest::option::of(units(MAX_UNITS));
    (algorithm, units(MAX_UNITS), period_us(), burst).prop_filter_map(
        "a bucket that drains in time",
        |(algorithm, count, period_us, burst)| {
            let count = match algorithm {
                Algorithm::SlidingLog => count.min(MAX_LOG_COUNT),
                _ => count,
            };
            let burst = burst.filter(|_| algorithm.is_bucket());
            Limit::new(algorithm, count, period_us, burst).ok()
        },
    )
}

fn bucket() -> impl Strategy<Value = Limit> {
    limit_of(Just(Algorithm::TokenBucket))
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::TokenBucket),
        Just(Algorithm::Gcra),
        Just(Algorithm::LeakyBucket),
        Just(Algorithm::FixedWindow),
        Just(Algorithm::SlidingWindow),
        Just(Algorithm::SlidingLog),
    ]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    limit_of(any_algorithm())
}

/// A span that matters to a limit: a few units' worth of draining, a few
/// periods, or some microseconds.
fn span_us(limit: &Limit) -> impl Strategy<Value = u64> {
    let period_us = limit.period_us();
    let unit_us = period_us / limit.count().max(1) + 1;
    prop_oneof![
        4 => 0..=4 * unit_us,
        2 => Just(unit_us),
        2 => 0..=2 * period_us,
        1 => Just(period_us),
        1 => 0..=3u64,
    ]
}

fn op(limit: Limit) -> impl Strategy<Value = Op> {
    let near_capacity = 0..=limit.capacity().saturating_add(1).min(MAX_UNITS);
    prop_oneof![
        6 => units(MAX_UNITS).prop_map(Op::Take),
        2 => near_capacity.prop_map(Op::Take),
        2 => units(MAX_UNITS).prop_map(Op::AtMost),
        1 => units(MAX_UNITS).prop_map(Op::Force),
        2 => units(MAX_UNITS).prop_map(Op::Give),
        8 => span_us(&limit).prop_map(Op::Advance),
        1 => span_us(&limit).prop_map(Op::StepBack),
    ]
}

/// A limit and what happens to it.
fn story(limit: impl Strategy<Value = Limit>) -> impl Strategy<Value = (Limit, u64, Vec<Op>)> {
    limit.prop_flat_map(|limit| {
        (
            Just(limit),
            instant_us(),
            proptest::collection::vec(op(limit), 1..40),
        )
    })
}

/// A time of today, or one at the ends of time.
fn instant_us() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1_800_000_000_000_000..1_800_086_400_000_000u64,
        1 => 0..=2_000_000u64,
        1 => MAX_INSTANT_US - 2_000_000..=MAX_INSTANT_US,
    ]
}

/// The clock after an op; it never leaves the time that there is.
fn clock(now_us: u64, op: Op) -> u64 {
    match op {
        Op::Advance(span_us) => now_us.saturating_add(span_us).min(MAX_INSTANT_US),
        Op::StepBack(span_us) => now_us.saturating_sub(span_us),
        _ => now_us,
    }
}

/// Makes the call of an op, if it is one; `None` where it is not or fails.
fn call(key: &mut Key, limits: &Slots<Limit>, now_us: u64, op: Op) -> Option<Report> {
    let call = match op {
        Op::Take(cost) => Call::Take(Ask::cost(cost)),
        Op::AtMost(cost) => Call::Take(Ask::at_most(cost)),
        Op::Force(cost) => Call::Take(Ask::forced(cost)),
        Op::Give(cost) => Call::Give(cost),
        Op::Advance(_) | Op::StepBack(_) => return None,
    };
    match key.call(limits, now_us, call) {
        Ok(done) => Some(done.report),
        Err(Failed::TooMuch(_)) => None,
        Err(Failed::Foreign) => panic!("our own bytes are foreign"),
    }
}

/// The same, every number checked.
fn call_checked(trial: &mut Trial, limits: &Slots<Limit>, now_us: u64, op: Op) {
    match op {
        Op::Take(cost) => drop(trial.take(limits, now_us, Ask::cost(cost))),
        Op::AtMost(cost) => drop(trial.take(limits, now_us, Ask::at_most(cost))),
        Op::Force(cost) => drop(trial.take(limits, now_us, Ask::forced(cost))),
        Op::Give(cost) => drop(trial.give(limits, now_us, cost)),
        Op::Advance(_) | Op::StepBack(_) => {}
    }
}

/// The longest that a limit can keep any cost waiting that it can admit.
fn own_drain_us(limit: &Limit) -> u64 {
    let period_us = limit.period_us();
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::SlidingLog => period_us,
        Algorithm::SlidingWindow => 2 * period_us,
        _ if limit.count() == 0 => 0,
        _ => {
            let drain = u128::from(limit.capacity()) * u128::from(period_us);
            u64::try_from(drain.div_ceil(u128::from(limit.count()))).expect("a span")
        }
    }
}

/// Nobody is locked out: what a limit can ever admit, it admits after no more
/// than its own drain.
fn assert_not_locked_out(key: &Key, limit: &Limit, now_us: u64) {
    let limits = Slots::one(*limit);
    for cost in [1, limit.capacity()] {
        if let Wait::AfterUs(wait_us) = key.peek(&limits, now_us, Ask::cost(cost)).governing.wait {
            assert!(wait_us <= own_drain_us(limit), "{wait_us} us of {limit:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 200 } else { 1_500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Never looser than exact, a millionth of a unit stricter at most for each
    /// admitted call (and each time that usage is carried to another rate); a refused call is admitted after its wait and not before;
    /// what remains can be taken and no more; peek agrees and changes nothing;
    /// the key is free in time. See `trial` for the checks.
    #[test]
    fn every_number_of_every_reply_is_right((limit, start_us, ops) in story(any_limit())) {
        let limits = Slots::one(limit);
        let (mut trial, mut now_us) = (Trial::new(), start_us);
        for op in ops {
            now_us = clock(now_us, op);
            call_checked(&mut trial, &limits, now_us, op);
        }
    }

    #[test]
    fn so_it_is_when_limits_change(
        limits in proptest::collection::vec(any_limit(), 2..4),
        (_, start_us, ops) in story(any_limit()),
        picks in proptest::collection::vec(0..4usize, 40),
    ) {
        let (mut trial, mut now_us) = (Trial::new(), start_us);
        for (op, pick) in ops.into_iter().zip(picks) {
            now_us = clock(now_us, op);
            let limit = limits[pick % limits.len()];
            call_checked(&mut trial, &Slots::one(limit), now_us, op);
        }
    }

    #[test]
    fn so_it_is_with_several_limits(
        limits in proptest::collection::vec(any_limit(), 2..=8),
        (_, start_us, ops) in story(any_limit()),
    ) {
        let limits = slots(&limits);
        let (mut trial, mut now_us) = (Trial::new(), start_us);
        for op in ops {
            now_us = clock(now_us, op);
            call_checked(&mut trial, &limits, now_us, op);
        }
    }

    /// One state, one decision. LEAKYBUCKET's admitted calls are told a wait.
    #[test]
    fn the_three_buckets_agree((limit, start_us, ops) in story(bucket())) {
        let limits = BUCKETS.map(|algorithm| {
            let burst = Some(limit.capacity());
            Slots::one(
                Limit::new(algorithm, limit.count(), limit.period_us(), burst).expect("in range"),
            )
        });
        let mut keys = [Key::default(), Key::default(), Key::default()];
        let mut now_us = start_us;
        for op in ops {
            now_us = clock(now_us, op);
            let mut reports = Vec::new();
            for (key, limits) in keys.iter_mut().zip(&limits) {
                reports.push(call(key, limits, now_us, op).map(|report| {
                    let governing = report.governing;
                    let wait = if report.admitted { Wait::Now } else { governing.wait };
                    (report.admitted, report.taken, governing.remaining, wait, governing.reset_us)
                }));
            }
            prop_assert_eq!(reports[0], reports[1]);
            prop_assert_eq!(reports[0], reports[2]);
            prop_assert_eq!(&keys[0], &keys[1]);
            prop_assert_eq!(&keys[0], &keys[2]);
        }
    }

    /// Said without any state: in no span of time does a bucket admit more than
    /// its capacity and what drains meanwhile.
    #[test]
    fn no_span_admits_more_than_a_bucket_holds_and_drains(
        (limit, start_us, ops) in story(bucket()),
    ) {
        let admitted = admissions(&limit, start_us, &ops);
        for (first, (from_us, _)) in admitted.iter().enumerate() {
            let mut units = 0;
            for (at_us, taken) in &admitted[first..] {
                units += u128::from(*taken);
                let drained = u128::from(limit.count()) * u128::from(at_us - from_us);
                let most = u128::from(limit.capacity()) * u128::from(limit.period_us()) + drained;
                prop_assert!(units * u128::from(limit.period_us()) <= most);
            }
        }
    }

    /// And no period more than the count of a log; no window more than that of
    /// a fixed window.
    #[test]
    fn no_period_admits_more_than_the_count(
        (limit, start_us, ops) in story(limit_of(prop_oneof![
            Just(Algorithm::SlidingLog),
            Just(Algorithm::FixedWindow),
            Just(Algorithm::SlidingWindow),
        ])),
    ) {
        let period_us = limit.period_us();
        let admitted = admissions(&limit, start_us, &ops);
        for (first, (from_us, _)) in admitted.iter().enumerate() {
            let units: u64 = admitted[first..]
                .iter()
                .filter(|(at_us, _)| match limit.algorithm() {
                    Algorithm::SlidingLog => at_us - from_us < period_us,
                    _ => at_us / period_us == from_us / period_us,
                })
                .map(|(_, taken)| taken)
                .sum();
            prop_assert!(units <= limit.count());
        }
    }

    #[test]
    fn two_takes_are_one(
        (limit, start_us, ops) in story(any_limit()),
        (first, second) in (0..=20u64, 0..=20u64),
    ) {
        let limits = Slots::one(limit);
        let (mut key, mut now_us) = (Key::default(), start_us);
        for op in ops {
            now_us = clock(now_us, op);
            call(&mut key, &limits, now_us, op);
        }
        let mut together = key.clone();
        let one = together.take(&limits, now_us, Ask::cost(first + second));
        if one.admitted {
            key.take(&limits, now_us, Ask::cost(first));
            let two = key.take(&limits, now_us, Ask::cost(second));
            prop_assert_eq!(two.governing.remaining, one.governing.remaining);
            prop_assert_eq!(two.governing.reset_us, one.governing.reset_us);
            prop_assert_eq!(key, together);
        }
    }

    /// What is given back at once was never taken, but for the time it took to
    /// be told so.
    #[test]
    fn a_take_given_back_leaves_what_was_there(
        (limit, start_us, ops) in story(any_limit()),
        cost in 1..=20u64,
    ) {
        let limits = Slots::one(limit);
        let (mut key, mut now_us) = (Key::default(), start_us);
        for op in ops {
            now_us = clock(now_us, op);
            call(&mut key, &limits, now_us, op);
        }
        let before = key.peek(&limits, now_us, Ask::cost(1)).governing;
        if key.take(&limits, now_us, Ask::cost(cost)).admitted {
            let after = key.give(&limits, now_us, cost).governing;
            prop_assert_eq!(after.remaining, before.remaining);
        }
        let all = key.give(&limits, now_us, u64::MAX);
        prop_assert_eq!(all.governing.remaining, limit.capacity());
        if all.store {
            prop_assert_eq!(all.governing.reset_us, 0);
            prop_assert_eq!(key, Key::default());
        }
    }

    /// A clock that steps back mints nothing and locks nobody out, whatever it
    /// does.
    #[test]
    fn a_clock_that_steps_back_changes_little(
        (limit, start_us, ops) in story(any_limit()),
        steps in proptest::collection::vec(0..=MAX_INSTANT_US, 1..6),
    ) {
        let limits = Slots::one(limit);
        let (mut key, mut now_us) = (Key::default(), start_us);
        let mut steps = steps.into_iter();
        for op in ops {
            if matches!(op, Op::Force(_)) {
                continue;
            }
            now_us = clock(now_us, op);
            call(&mut key, &limits, now_us, op);
            if let Op::StepBack(_) = op {
                let back_us = now_us - steps.next().unwrap_or(0) % (now_us + 1);
                let before = key.peek(&limits, now_us, Ask::cost(1)).governing;
                let after = key.peek(&limits, back_us, Ask::cost(1)).governing;
                prop_assert!(after.remaining <= before.remaining, "minted");
                now_us = back_us;
            }
            assert_not_locked_out(&key, &limit, now_us);
        }
    }

    /// A change of limits hands nothing out and locks nobody out for longer
    /// than the new limit drains in.
    #[test]
    fn a_change_of_limits_carries_what_is_used(
        (limit, start_us, ops) in story(any_limit()),
        new in any_limit(),
    ) {
        // A debt stays under the limit that it was made under, by whatever name.
        let of = |limit: &Limit| (limit.count(), limit.period_us(), limit.capacity());
        prop_assume!(of(&limit) != of(&new));
        let limits = Slots::one(limit);
        let (mut key, mut now_us) = (Key::default(), start_us);
        for op in ops {
            now_us = clock(now_us, op);
            call(&mut key, &limits, now_us, op);
        }
        let before = key.peek(&limits, now_us, Ask::cost(1)).governing;
        let after = key.peek(&Slots::one(new), now_us, Ask::cost(1)).governing;
        if before.remaining > 0 {
            let used = limit.capacity() - before.remaining;
            let fits = new.capacity().saturating_sub(used);
            // A part of a unit may become a whole one, or stop to be one.
            prop_assert!(after.remaining <= fits.saturating_add(1));
            prop_assert!(after.remaining >= fits.saturating_sub(1));
        } else if limit.capacity() >= new.capacity() {
            prop_assert!(after.remaining <= 1);
        }
        assert_not_locked_out(&key, &new, now_us);
        key.take(&Slots::one(new), now_us, Ask::cost(1));
        assert_not_locked_out(&key, &new, now_us);
    }

    /// Force until it fails: no number wraps, and the failure changes nothing.
    #[test]
    fn the_extremes_never_wrap(limit in any_limit(), start_us in instant_us()) {
        let limits = Slots::one(limit);
        let (mut trial, mut now_us) = (Trial::new(), start_us);
        for _ in 0..30 {
            call_checked(&mut trial, &limits, now_us, Op::Force(MAX_UNITS));
            call_checked(&mut trial, &limits, now_us, Op::AtMost(MAX_UNITS));
            now_us = clock(now_us, Op::Advance(limit.period_us() / 3));
        }
        for _ in 0..1_100 {
            call(&mut trial.key, &limits, now_us, Op::Force(MAX_UNITS));
        }
        let ends = [0, 1, now_us, MAX_INSTANT_US - 1, MAX_INSTANT_US];
        for at_us in ends {
            for op in [Op::Take(MAX_UNITS), Op::Take(1), Op::Force(MAX_UNITS), Op::Give(1)] {
                let mut key = trial.key.clone();
                if let Some(report) = call(&mut key, &limits, at_us, op) {
                    key::five(&report, false);
                    prop_assert!(report.governing.remaining <= limit.capacity());
                }
            }
        }
    }
}

/// The admitted takes (instant, units) of a story without force, give and
/// steps back.
fn admissions(limit: &Limit, start_us: u64, ops: &[Op]) -> Vec<(u64, u64)> {
    let limits = Slots::one(*limit);
    let (mut key, mut now_us) = (Key::default(), start_us);
    let mut admitted = Vec::new();
    for op in ops {
        match op {
            Op::Force(_) | Op::Give(_) | Op::StepBack(_) => {}
            _ => {
                now_us = clock(now_us, *op);
                if let Some(report) = call(&mut key, &limits, now_us, *op) {
                    admitted.push((now_us, report.taken));
                }
            }
        }
    }
    admitted
}

/// Clients that disagree about the limit carry usage to and fro with every
/// refusal, and it drains all the same.
#[test]
fn refusals_under_two_limits_let_a_bucket_drain() {
    let limit = |count, period_us| {
        Slots::one(Limit::new(Algorithm::TokenBucket, count, period_us, Some(2)).expect("in range"))
    };
    let pair = [limit(1, 60_000_000), limit(1, 61_000_000)];
    let (mut trial, start_us) = (Trial::new(), 1_800_000_000_000_000);
    trial.take(&pair[0], start_us, Ask::cost(2));
    // A unit drains in 60 to 61 s, so within 121 s there is room for two more.
    let mut admitted = 0;
    for n in 1..=1_210 {
        let report = trial.take(&pair[n % 2], start_us + 100_003 * n as u64, Ask::cost(1));
        admitted += report.map_or(0, |report| report.taken);
    }
    assert_eq!(admitted, 2);
}
