//! What each limit answers over time, worked out by hand: at so many
//! milliseconds, this call, these five integers.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod key;

use rl_core::{Algorithm, Ask, Limit, Slots, TooMuch};

use key::{detail, five, slots, Call, Failed, Key};

/// A Friday in 2027, at the full hour: every window in here begins there.
const START_US: u64 = 1_800_000_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    Take(u64),
    AtMost(u64),
    Force(u64),
    Peek(u64),
    Give(u64),
}

use Op::{AtMost, Force, Give, Peek, Take};

/// Milliseconds after the start, the call, the five integers of its reply.
type Row = (u64, Op, [i64; 5]);

fn limit(algorithm: Algorithm, count: u64, period_ms: u64) -> Slots<Limit> {
    Slots::one(Limit::new(algorithm, count, period_ms * 1_000, None).expect("in range"))
}

fn bucket(algorithm: Algorithm, count: u64, period_ms: u64, burst: u64) -> Slots<Limit> {
    Slots::one(Limit::new(algorithm, count, period_ms * 1_000, Some(burst)).expect("in range"))
}

fn token(count: u64, period_ms: u64, burst: u64) -> Slots<Limit> {
    bucket(Algorithm::TokenBucket, count, period_ms, burst)
}

/// Calls on an untouched key, all with the same limits.
fn table(limits: &Slots<Limit>, rows: &[Row]) {
    let mut key = Key::default();
    for row in rows {
        step(&mut key, limits, *row);
    }
}

/// One row. What a take answers, a peek answers before it: whether it is
/// admitted, and how long to wait.
fn step(key: &mut Key, limits: &Slots<Limit>, (at_ms, op, expected): Row) {
    let now_us = START_US + at_ms * 1_000;
    let ask = match op {
        Take(cost) | Peek(cost) => Ask::cost(cost),
        AtMost(cost) => Ask::at_most(cost),
        Force(cost) => Ask::forced(cost),
        Give(_) => Ask::cost(0),
    };
    let peeked = five(&key.peek(limits, now_us, ask), ask.at_most);
    let replied = match op {
        Peek(_) => peeked,
        Give(cost) => five(&key.give(limits, now_us, cost), false),
        Take(_) | AtMost(_) | Force(_) => {
            let taken = five(&key.take(limits, now_us, ask), ask.at_most);
            assert_eq!(
                [peeked[0], peeked[2]],
                [taken[0], taken[2]],
                "peek before {op:?}"
            );
            taken
        }
    };
    assert_eq!(replied, expected, "{op:?} at {at_ms} ms");
}

#[test]
fn a_token_bucket_of_100_a_minute_with_bursts_of_20() {
    // A unit drains in 600 ms.
    let rows = [
        (0, Take(1), [1, 19, 0, 600, 20]),
        (0, Take(19), [1, 0, 0, 12_000, 20]),
        (0, Take(1), [0, 0, 600, 12_000, 20]),
        (599, Take(1), [0, 0, 1, 11_401, 20]),
        (600, Take(1), [1, 0, 0, 12_000, 20]),
        (6_600, Peek(10), [1, 10, 0, 6_000, 20]),
        (6_600, Take(11), [0, 10, 600, 6_000, 20]),
        (6_600, Take(21), [0, 10, -1, 6_000, 20]),
        (6_600, Take(0), [1, 10, 0, 6_000, 20]),
        (6_600, Give(3), [1, 13, 0, 4_200, 20]),
        (6_600, AtMost(15), [13, 0, 0, 12_000, 20]),
        (6_600, AtMost(5), [0, 0, 600, 12_000, 20]),
        (6_600, AtMost(0), [0, 0, 0, 12_000, 20]),
        // In debt: 25 used.
        (6_600, Force(5), [1, 0, 0, 15_000, 20]),
        (6_600, Take(1), [0, 0, 3_600, 15_000, 20]),
        (6_600, Take(0), [0, 0, 3_000, 15_000, 20]),
        (10_199, Take(1), [0, 0, 1, 11_401, 20]),
        (10_200, Take(1), [1, 0, 0, 12_000, 20]),
        (22_199, Peek(20), [0, 19, 1, 1, 20]),
        (22_200, Peek(20), [1, 20, 0, 0, 20]),
        (22_200, Give(20), [1, 20, 0, 0, 20]),
    ];
    table(&token(100, 60_000, 20), &rows);
    table(&bucket(Algorithm::Gcra, 100, 60_000, 20), &rows);
}

#[test]
fn a_cost_above_the_capacity_is_never_admitted_and_never_charged() {
    let hour = 3_600_000;
    let rows = [
        (0, Take(10), [0, 5, -1, 0, 5]),
        (0, Take(1), [1, 4, 0, hour, 5]),
        (0, Take(1), [1, 3, 0, 2 * hour, 5]),
        (0, Take(1), [1, 2, 0, 3 * hour, 5]),
        (0, Take(1), [1, 1, 0, 4 * hour, 5]),
        (0, Take(1), [1, 0, 0, 5 * hour, 5]),
        (0, Take(1), [0, 0, hour, 5 * hour, 5]),
    ];
    table(&token(1, 3_600_000, 5), &rows);
}

#[test]
fn a_bucket_that_does_not_drain_in_whole_milliseconds() {
    let rows = [
        (0, Take(1), [1, 0, 0, 334, 1]),
        (0, Take(1), [0, 0, 334, 334, 1]),
        (333, Take(1), [0, 0, 1, 1, 1]),
        (334, Take(1), [1, 0, 0, 334, 1]),
    ];
    table(&token(3, 1_000, 1), &rows);
}

#[test]
fn a_drained_bucket_refills_by_what_time_allows() {
    let rows = [
        (0, Take(100), [1, 0, 0, 100_000, 100]),
        (2_100, Take(1), [1, 1, 0, 98_900, 100]),
        (2_100, Take(1), [1, 0, 0, 99_900, 100]),
        (2_100, Take(1), [0, 0, 900, 99_900, 100]),
    ];
    table(&token(1, 1_000, 100), &rows);
}

#[test]
fn gcra_as_throttle_says_it() {
    // Of `15 30 60`: a burst of 16, a unit drains in 2 s.
    let rows = [(0, Take(1), [1, 15, 0, 2_000, 16])];
    table(&bucket(Algorithm::Gcra, 30, 60_000, 16), &rows);
}

#[test]
fn a_rate_above_one_a_millisecond_is_met() {
    // 8000 a second, bursts of 2, one call each 37 microseconds for a second.
    let limits = bucket(Algorithm::Gcra, 8_000, 1_000, 2);
    let mut key = Key::default();
    let calls = (0..=1_000_000).step_by(37);
    let admitted = calls
        .filter(|at_us| key.take(&limits, START_US + at_us, Ask::cost(1)).admitted)
        .count();
    assert!((7_990..=8_002).contains(&admitted), "{admitted} admitted");
}

#[test]
fn a_leaky_bucket_says_how_long_to_hold_back() {
    // A unit drains in 200 ms.
    let rows = [
        (0, Take(1), [1, 4, 0, 200, 5]),
        (0, Take(1), [1, 3, 200, 400, 5]),
        (100, Take(1), [1, 2, 300, 500, 5]),
        (100, Peek(1), [1, 2, 500, 500, 5]),
        (100, Take(3), [0, 2, 100, 500, 5]),
        (200, Take(3), [1, 0, 400, 1_000, 5]),
        (200, Take(1), [0, 0, 200, 1_000, 5]),
        (200, Take(6), [0, 0, -1, 1_000, 5]),
        (200, Force(2), [1, 0, 1_000, 1_400, 5]),
        (200, Give(1), [1, 0, 0, 1_200, 5]),
        (1_400, AtMost(9), [5, 0, 0, 1_000, 5]),
    ];
    table(&limit(Algorithm::LeakyBucket, 5, 1_000), &rows);
}

#[test]
fn a_fixed_window_turns_on_the_minute() {
    let rows = [
        (59_000, Take(10), [1, 0, 0, 1_000, 10]),
        (59_000, Take(1), [0, 0, 1_000, 1_000, 10]),
        (59_999, Take(1), [0, 0, 1, 1, 10]),
        (60_000, Take(10), [1, 0, 0, 60_000, 10]),
        (60_000, Take(11), [0, 0, -1, 60_000, 10]),
        (60_000, Force(5), [1, 0, 0, 60_000, 10]),
        (60_000, Take(0), [0, 0, 60_000, 60_000, 10]),
        (60_000, Give(6), [1, 1, 0, 60_000, 10]),
        (90_500, Peek(1), [1, 1, 0, 29_500, 10]),
        (90_500, AtMost(3), [1, 0, 0, 29_500, 10]),
        (90_500, AtMost(3), [0, 0, 29_500, 29_500, 10]),
        (120_000, Give(5), [1, 10, 0, 0, 10]),
    ];
    table(&limit(Algorithm::FixedWindow, 10, 60_000), &rows);
}

#[test]
fn a_sliding_window_to_the_tenth_of_a_second() {
    // 10 per 10 s. Ten takes from 8.0 to 9.8 s, held until the next window ends ...
    let mut rows: Vec<Row> = (0..10)
        .map(|n: i64| {
            let at_ms = 8_000 + 200 * n;
            let at = u64::try_from(at_ms).expect("positive");
            (at, Take(1), [1, 9 - n, 0, 20_000 - at_ms, 10])
        })
        .collect();
    // ... then one each 0.2 s. The previous ten weigh floor(10 - elapsed).
    rows.extend([
        (10_000, Take(1), [0, 0, 1, 10_000, 10]),
        (10_200, Take(1), [1, 0, 0, 19_800, 10]),
        (10_400, Take(1), [0, 0, 601, 19_600, 10]),
        (10_600, Take(1), [0, 0, 401, 19_400, 10]),
        (10_800, Take(1), [0, 0, 201, 19_200, 10]),
        (11_000, Take(1), [0, 0, 1, 19_000, 10]),
        (11_200, Take(1), [1, 0, 0, 18_800, 10]),
        (11_400, Take(1), [0, 0, 601, 18_600, 10]),
        (11_600, Take(1), [0, 0, 401, 18_400, 10]),
        (11_800, Take(1), [0, 0, 201, 18_200, 10]),
    ]);
    table(&limit(Algorithm::SlidingWindow, 10, 10_000), &rows);
}

#[test]
fn a_sliding_window_waits_past_the_turn() {
    let rows = [
        (5_000, Take(4), [1, 0, 0, 15_000, 4]),
        // Until 4 x overlap / 10 s is below 4: a microsecond after the turn.
        (5_000, Take(1), [0, 0, 5_001, 15_000, 4]),
        // Until it is below 1: when less than 2.5 s overlap.
        (5_000, Take(4), [0, 0, 12_501, 15_000, 4]),
        (17_500, Take(4), [0, 3, 1, 2_500, 4]),
        (17_501, Take(4), [1, 0, 0, 12_499, 4]),
        // Nothing is used any more, and nothing is held.
        (17_501, Give(4), [1, 4, 0, 0, 4]),
        (17_501, Peek(4), [1, 4, 0, 0, 4]),
    ];
    table(&limit(Algorithm::SlidingWindow, 4, 10_000), &rows);
}

#[test]
fn a_sliding_window_gets_back_from_the_previous_window() {
    let rows = [
        (0, Take(10), [1, 0, 0, 20_000, 10]),
        (15_000, Peek(5), [1, 5, 0, 5_000, 10]),
        (15_000, Take(1), [1, 4, 0, 15_000, 10]),
        // One of this window, then two of the weighted five: seven are left of
        // the previous window.
        (15_000, Give(3), [1, 7, 0, 5_000, 10]),
        (16_000, Peek(8), [1, 8, 0, 4_000, 10]),
        (20_000, Peek(10), [1, 10, 0, 0, 10]),
    ];
    table(&limit(Algorithm::SlidingWindow, 10, 10_000), &rows);
}

#[test]
fn a_sliding_log_counts_each_take_for_exactly_one_period() {
    let rows = [
        (0, Take(1), [1, 2, 0, 10_000, 3]),
        (2_000, Take(2), [1, 0, 0, 10_000, 3]),
        (3_000, Take(1), [0, 0, 7_000, 9_000, 3]),
        (3_000, Take(2), [0, 0, 9_000, 9_000, 3]),
        (3_000, Take(4), [0, 0, -1, 9_000, 3]),
        (9_999, Take(1), [0, 0, 1, 2_001, 3]),
        (10_000, Take(1), [1, 0, 0, 10_000, 3]),
        (12_000, Take(2), [1, 0, 0, 10_000, 3]),
        // The newest go first.
        (12_000, Give(1), [1, 1, 0, 10_000, 3]),
        (12_000, Give(1), [1, 2, 0, 8_000, 3]),
        // In debt: one unit of 10 s, five of 12 s.
        (12_000, Force(5), [1, 0, 0, 10_000, 3]),
        (12_000, Take(1), [0, 0, 10_000, 10_000, 3]),
        (12_000, AtMost(2), [0, 0, 10_000, 10_000, 3]),
        (20_000, Take(1), [0, 0, 2_000, 2_000, 3]),
        (22_000, AtMost(9), [3, 0, 0, 10_000, 3]),
    ];
    table(&limit(Algorithm::SlidingLog, 3, 10_000), &rows);
}

#[test]
fn a_capacity_of_0_refuses_everything() {
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::Gcra,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        let rows = [
            (0, Take(1), [0, 0, -1, 0, 0]),
            (0, Take(0), [0, 0, -1, 0, 0]),
            (0, AtMost(5), [0, 0, -1, 0, 0]),
            (0, Peek(1), [0, 0, -1, 0, 0]),
            (0, Give(1), [1, 0, 0, 0, 0]),
        ];
        table(&limit(algorithm, 0, 60_000), &rows);
    }
    // A bucket that drains, though it holds nothing.
    let rows = [
        (0, Take(1), [0, 0, -1, 0, 0]),
        (0, Force(2), [1, 0, 0, 2_000, 0]),
        (1_000, Take(1), [0, 0, -1, 1_000, 0]),
    ];
    table(&token(1, 1_000, 0), &rows);
}

#[test]
fn a_force_out_of_range_changes_nothing() {
    let too_much = |limits: &Slots<Limit>, key: &mut Key, cost: u64, why: TooMuch| {
        let before = key.clone();
        let called = key.call(limits, START_US, Call::Take(Ask::forced(cost)));
        assert_eq!(
            called.map(|done| five(&done.report, false)),
            Err(Failed::TooMuch(why))
        );
        assert_eq!(*key, before);
    };
    // A unit a day: 36500 of them are the most.
    let mut key = Key::default();
    let a_day = token(1, 86_400_000, 5);
    key.take(&a_day, START_US, Ask::forced(36_500));
    too_much(&a_day, &mut key, 1, TooMuch::Drain);
    // What never drains can't be charged.
    let never = limit(Algorithm::TokenBucket, 0, 1_000);
    too_much(&never, &mut Key::default(), 1, TooMuch::Drain);
    // 10^15 units in windows, however they are spread.
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        let window = limit(algorithm, 10, 3_600_000);
        let mut key = Key::default();
        for _ in 0..1_000 {
            key.take(&window, START_US, Ask::forced(1_000_000_000_000));
        }
        too_much(&window, &mut key, 1, TooMuch::Units);
    }
    let window = limit(Algorithm::SlidingWindow, 10, 3_600_000);
    let mut key = Key::default();
    for _ in 0..1_000 {
        key.take(
            &window,
            START_US - 3_600_000_000,
            Ask::forced(1_000_000_000_000),
        );
    }
    too_much(&window, &mut key, 1, TooMuch::Units);
    // One limit out of range: none is charged.
    let both = slots(&[
        Limit::new(Algorithm::FixedWindow, 5, 1_000_000, None).expect("in range"),
        Limit::new(Algorithm::TokenBucket, 1, 86_400_000_000, None).expect("in range"),
    ]);
    too_much(&both, &mut Key::default(), 40_000, TooMuch::Drain);
}

#[test]
fn a_log_holds_a_million_entries() {
    let limits = limit(Algorithm::SlidingLog, 10, 3_600_000);
    let mut key = Key::default();
    let start_us = START_US + 1;
    for n in 0..1_000_000 {
        key.take(&limits, start_us + n, Ask::forced(1));
    }
    let before = key.clone();
    let one_more = key.call(&limits, start_us + 1_000_000, Call::Take(Ask::forced(1)));
    assert_eq!(one_more.err(), Some(Failed::TooMuch(TooMuch::Entries)));
    assert_eq!(key, before);
    // The wait for one unit: until all but nine have gone.
    let refused = key.peek(&limits, start_us + 1_000_000, Ask::cost(1));
    assert_eq!(five(&refused, false), [0, 0, 3_600_000, 3_600_000, 10]);
}

/// Two limits: a unit drains in 0.5 s of the first, in 20 s of the second.
fn two_limits() -> Slots<Limit> {
    slots(&[
        Limit::new(Algorithm::TokenBucket, 2, 1_000_000, None).expect("in range"),
        Limit::new(Algorithm::TokenBucket, 3, 60_000_000, None).expect("in range"),
    ])
}

#[test]
fn of_several_limits_one_governs() {
    let rows = [
        (0, Take(1), [1, 1, 0, 500, 2]),
        (0, Take(1), [1, 0, 0, 1_000, 2]),
        (0, Take(1), [0, 0, 500, 1_000, 2]),
        // Both have nothing left: the first governs.
        (500, Take(1), [1, 0, 0, 1_000, 2]),
        (500, Take(1), [0, 0, 19_500, 59_500, 3]),
        (500, Take(3), [0, 0, -1, 1_000, 2]),
        (500, Give(1), [1, 1, 0, 500, 2]),
        (500, AtMost(9), [1, 0, 0, 1_000, 2]),
    ];
    table(&two_limits(), &rows);
}

#[test]
fn detail_tells_each_limit() {
    let limits = two_limits();
    let mut key = Key::default();
    let taken = key.take(&limits, START_US, Ask::cost(2));
    assert_eq!(detail(&taken), [[0, 0, 1_000, 2], [1, 0, 40_000, 3]]);
    let refused = key.take(&limits, START_US, Ask::cost(1));
    assert_eq!(detail(&refused), [[0, 500, 1_000, 2], [1, 0, 40_000, 3]]);
    let refused = key.take(&limits, START_US, Ask::cost(3));
    assert_eq!(
        detail(&refused),
        [[0, -1, 1_000, 2], [1, 40_000, 40_000, 3]]
    );
}

#[test]
fn limits_beyond_the_stored_ones_start_fresh_and_others_are_dropped() {
    let one = token(2, 1_000, 2);
    let two = two_limits();
    let mut key = Key::default();
    step(&mut key, &one, (0, Take(2), [1, 0, 0, 1_000, 2]));
    step(&mut key, &two, (500, Take(1), [1, 0, 0, 1_000, 2]));
    let peeked = key.peek(&two, START_US + 500_000, Ask::cost(0));
    assert_eq!(detail(&peeked), [[0, 0, 1_000, 2], [2, 0, 20_000, 3]]);
    step(&mut key, &one, (1_000, Take(1), [1, 0, 0, 1_000, 2]));
    let peeked = key.peek(&two, START_US + 1_000_000, Ask::cost(0));
    assert_eq!(detail(&peeked), [[0, 0, 1_000, 2], [3, 0, 0, 3]]);
}

#[test]
fn raising_a_limit_helps_at_once_by_the_difference() {
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::Gcra,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        let mut key = Key::default();
        let admitted = |key: &mut Key, count: u64| {
            let limits = limit(algorithm, count, 3_600_000);
            (0..50)
                .filter(|_| key.take(&limits, START_US, Ask::cost(1)).admitted)
                .count()
        };
        assert_eq!(admitted(&mut key, 10), 10);
        assert_eq!(admitted(&mut key, 20), 10);
        assert_eq!(admitted(&mut key, 5), 0);
    }
}

#[test]
fn usage_is_carried_from_limit_to_limit() {
    let a_second_each = limit(Algorithm::TokenBucket, 10, 10_000);
    let fixed = limit(Algorithm::FixedWindow, 10, 10_000);
    let sliding = limit(Algorithm::SlidingWindow, 10, 20_000);
    let log = limit(Algorithm::SlidingLog, 10, 5_000);
    let mut key = Key::default();
    let rows = [
        (&a_second_each, (0, Take(3), [1, 7, 0, 3_000, 10])),
        // 2.5 used count as 3 in a window.
        (&fixed, (500, Take(1), [1, 6, 0, 9_500, 10])),
        (&a_second_each, (500, Take(1), [1, 5, 0, 5_000, 10])),
        (&log, (500, Take(1), [1, 4, 0, 5_000, 10])),
        (&sliding, (1_000, Take(1), [1, 3, 0, 39_000, 10])),
        // In debt under this limit, and no longer under the next.
        (&sliding, (1_000, Force(5), [1, 0, 0, 39_000, 10])),
        (&fixed, (1_000, Take(1), [0, 0, 9_000, 9_000, 10])),
        (&log, (1_000, Take(1), [0, 0, 5_000, 5_000, 10])),
        (&log, (5_999, Take(1), [0, 0, 1, 1, 10])),
        (&log, (6_000, Take(1), [1, 9, 0, 5_000, 10])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }
}

#[test]
fn a_log_under_another_period_is_begun_anew() {
    // Both logs have a ring of the same length.
    let ten_seconds = limit(Algorithm::SlidingLog, 5, 10_000);
    let twenty_seconds = limit(Algorithm::SlidingLog, 5, 20_000);
    let mut key = Key::default();
    let rows = [
        (&ten_seconds, (0, Take(2), [1, 3, 0, 10_000, 5])),
        (&twenty_seconds, (5_000, Take(1), [1, 2, 0, 20_000, 5])),
        (
            &twenty_seconds,
            (10_000, Take(3), [0, 2, 15_000, 15_000, 5]),
        ),
        (&ten_seconds, (10_000, Take(3), [0, 2, 10_000, 10_000, 5])),
        (&ten_seconds, (20_000, Take(5), [1, 0, 0, 10_000, 5])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }
}

#[test]
fn a_changed_rate_drains_from_the_change_on() {
    let slow = token(1, 10_000, 4);
    let fast = token(1, 1_000, 4);
    let mut key = Key::default();
    let rows = [
        (&slow, (0, Take(4), [1, 0, 0, 40_000, 4])),
        // 3.5 used.
        (&slow, (5_000, Peek(1), [0, 0, 5_000, 35_000, 4])),
        // A refusal stores what it carried, if that is sooner.
        (&fast, (5_000, Take(1), [0, 0, 500, 3_500, 4])),
        (&fast, (5_499, Take(1), [0, 0, 1, 3_001, 4])),
        (&fast, (5_500, Take(1), [1, 0, 0, 4_000, 4])),
        // It would not be: 3.5 used, which go on draining as they did.
        (&slow, (6_000, Take(1), [0, 0, 500, 35_000, 4])),
        (&slow, (6_499, Take(1), [0, 0, 1, 30_010, 4])),
        (&slow, (6_500, Take(1), [1, 0, 0, 40_000, 4])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }
}

/// Two callers with different limits, refused in turn, as during a roll-out:
/// neither keeps the other's usage at "taken now".
#[test]
fn two_limits_in_turn_lock_nobody_out() {
    let limits = |count, period_us| {
        [
            Algorithm::TokenBucket,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ]
        .map(|algorithm| Limit::new(algorithm, count, period_us, None).expect("in range"))
    };
    for (old, new) in limits(10, 10_000_000).iter().zip(&limits(10, 11_000_000)) {
        let mut key = Key::default();
        let start_us = 1_800_000_000_000_000;
        key.take(&Slots::one(*old), start_us, Ask::cost(10));
        // Asked for in turn, four times a second, for longer than either takes.
        let admitted = (1..100u64).any(|step| {
            let limit = if step % 2 == 0 { old } else { new };
            let now_us = start_us + step * 250_000;
            key.take(&Slots::one(*limit), now_us, Ask::cost(1)).admitted
        });
        assert!(admitted, "locked out by {old:?} and {new:?}");
    }
}

/// A refused call changes nothing for those who call with the stored limit: what
/// they were told holds, and what they may take does not grow.
#[test]
fn a_refusal_under_another_limit_is_none_of_the_others_business() {
    let ten = limit(Algorithm::TokenBucket, 10, 10_000);
    let log = limit(Algorithm::SlidingLog, 10, 5_000);
    let mut key = Key::default();
    let rows = [
        (&ten, (0, Take(10), [1, 0, 0, 10_000, 10])),
        (&ten, (0, Take(1), [0, 0, 1_000, 10_000, 10])),
        (&log, (0, Take(10), [0, 0, 5_000, 5_000, 10])),
        (&log, (400, Take(10), [0, 0, 4_600, 4_600, 10])),
        (&ten, (999, Take(1), [0, 0, 1, 9_001, 10])),
        (&ten, (1_000, Take(1), [1, 0, 0, 10_000, 10])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }

    let hundred = token(100, 60_000, 100);
    let bursts_of_twenty = token(100, 60_000, 20);
    let mut key = Key::default();
    let rows = [
        (&hundred, (0, Take(100), [1, 0, 0, 60_000, 100])),
        (&bursts_of_twenty, (0, Take(1), [0, 0, 600, 12_000, 20])),
        (&hundred, (0, Take(80), [0, 0, 48_000, 60_000, 100])),
        (&hundred, (600, Peek(2), [0, 1, 600, 59_400, 100])),
        (&bursts_of_twenty, (599, Take(1), [0, 0, 1, 11_401, 20])),
        (&bursts_of_twenty, (600, Take(1), [1, 0, 0, 12_000, 20])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }
}

/// Each refused in turn, with costs that differ: neither is shut out, and the
/// one with the stored limit gets what its limit gives.
#[test]
fn refusals_in_turn_shut_nobody_out() {
    let pairs = [
        (
            token(10, 10_000, 10),
            1,
            limit(Algorithm::SlidingLog, 10, 5_000),
            10,
        ),
        (
            token(100, 60_000, 100),
            1,
            limit(Algorithm::SlidingLog, 100, 30_000),
            60,
        ),
        (
            token(100, 60_000, 20),
            1,
            limit(Algorithm::SlidingLog, 100, 10_000),
            100,
        ),
        (
            token(10, 10_000, 10),
            1,
            limit(Algorithm::FixedWindow, 10, 4_000),
            5,
        ),
    ];
    for (stored, cost, other, other_cost) in pairs {
        let mut key = Key::default();
        let capacity = stored.iter().next().map_or(0, Limit::capacity);
        key.take(&stored, START_US, Ask::cost(capacity));
        let admitted = (1..=60u64)
            .filter(|second| {
                let now_us = START_US + second * 1_000_000;
                let taken = key.take(&stored, now_us, Ask::cost(cost)).admitted;
                key.take(&other, now_us, Ask::cost(other_cost));
                taken
            })
            .count();
        assert!(admitted >= 59, "{admitted} of 60 under {stored:?}");
    }
}

/// More limits than there is room for marks: each is still admitted once its own
/// drain lets it, and not each refusal writes.
#[test]
fn any_number_of_limits_may_meet_on_a_key() {
    for sets in [8, 9, 12, 40] {
        let mut key = Key::default();
        let stored = limit(Algorithm::TokenBucket, 100, 315_360_000_000);
        key.take(&stored, START_US, Ask::cost(100));
        let (mut admitted, mut written) = (0, 0);
        for call in 0..400u64 {
            let other = limit(Algorithm::TokenBucket, 50 + call % sets, 1_000);
            let now_us = START_US + call * 1_000_000;
            let before = key.clone();
            let report = key.take(&other, now_us, Ask::cost(1));
            admitted += u64::from(report.admitted);
            written += u64::from(key != before && !report.admitted);
        }
        assert!(admitted >= 400 - sets.min(10), "{admitted} of {sets} sets");
        assert!(written <= 10, "{written} refusals wrote, of {sets} sets");
    }
}

/// Of two limits one was made shorter and one longer: the call waits until both
/// let it, by what was stored or by what was carried over.
#[test]
fn limits_that_change_in_opposite_directions_are_waited_for_one_by_one() {
    let pair = |first_ms: u64, second_ms: u64| {
        let mut limits = limit(Algorithm::SlidingLog, 10, first_ms);
        let second = Limit::new(Algorithm::TokenBucket, 10, second_ms * 1_000, None);
        limits.push(second.expect("in range")).expect("room");
        limits
    };
    let (before, after) = (pair(1_000, 3_600_000), pair(3_600_000, 1_000));
    let mut key = Key::default();
    let rows = [
        (&before, (0, Take(10), [1, 0, 0, 1_000, 10])),
        (&after, (0, Take(1), [0, 0, 1_000, 3_600_000, 10])),
        (&after, (999, Take(1), [0, 0, 1, 3_599_001, 10])),
        (&after, (1_000, Take(1), [1, 9, 0, 3_600_000, 10])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }
}

#[test]
fn a_debt_stays_until_the_limit_changes() {
    let ten = token(1, 1_000, 10);
    let twelve = token(1, 1_000, 12);
    let mut key = Key::default();
    let rows = [
        (&ten, (0, Force(15), [1, 0, 0, 15_000, 10])),
        (&ten, (1_000, Take(1), [0, 0, 5_000, 14_000, 10])),
        (&twelve, (1_000, Take(1), [0, 0, 1_000, 12_000, 12])),
        // Refused, twelve forgave nothing of what ten is owed.
        (&ten, (1_000, Take(1), [0, 0, 5_000, 14_000, 10])),
        (&twelve, (1_999, Take(1), [0, 0, 1, 11_001, 12])),
        (&twelve, (2_000, Take(1), [1, 0, 0, 12_000, 12])),
        (&ten, (2_000, Take(1), [0, 0, 1_000, 10_000, 10])),
    ];
    for (limits, row) in rows {
        step(&mut key, limits, row);
    }
}

#[test]
fn a_clock_that_steps_back_locks_a_bucket_for_no_longer_than_it_drains() {
    let rows = [
        (100_000, Take(3), [1, 0, 0, 3_000, 3]),
        (40_000, Take(1), [0, 0, 1_000, 3_000, 3]),
        (40_999, Take(1), [0, 0, 1, 2_001, 3]),
        (41_000, Take(1), [1, 0, 0, 3_000, 3]),
    ];
    table(&token(1, 1_000, 3), &rows);
}

#[test]
fn a_clock_that_steps_back_leaves_windows_in_the_window_of_now() {
    let rows = [
        (25_000, Take(2), [1, 0, 0, 5_000, 2]),
        (12_000, Take(1), [0, 0, 8_000, 8_000, 2]),
        (19_999, Take(1), [0, 0, 1, 1, 2]),
        (20_000, Take(1), [1, 1, 0, 10_000, 2]),
    ];
    table(&limit(Algorithm::FixedWindow, 2, 10_000), &rows);
    let rows = [
        (15_000, Take(4), [1, 0, 0, 15_000, 4]),
        (5_000, Take(1), [0, 0, 5_001, 15_000, 4]),
        (10_000, Take(1), [0, 0, 1, 10_000, 4]),
        (10_001, Take(1), [1, 0, 0, 19_999, 4]),
    ];
    table(&limit(Algorithm::SlidingWindow, 4, 10_000), &rows);
    let rows = [
        (5_000, Take(3), [1, 1, 0, 15_000, 4]),
        (10_001, Take(2), [1, 0, 0, 19_999, 4]),
        // Across the turn: all five are of this window, where there is room for
        // four, and fade in the next.
        (9_999, Take(1), [0, 0, 2_002, 10_001, 4]),
        (12_000, Take(1), [0, 0, 1, 8_000, 4]),
        (12_001, Take(1), [1, 0, 0, 17_999, 4]),
    ];
    table(&limit(Algorithm::SlidingWindow, 4, 10_000), &rows);
}

#[test]
fn a_clock_that_steps_back_makes_logged_takes_of_now() {
    let rows = [
        (100_000, Take(1), [1, 1, 0, 10_000, 2]),
        (105_000, Take(1), [1, 0, 0, 10_000, 2]),
        // The first is still of the past, the second becomes one of now.
        (102_000, Take(1), [0, 0, 8_000, 10_000, 2]),
        (50_000, Take(1), [0, 0, 10_000, 10_000, 2]),
        (59_999, Take(1), [0, 0, 1, 1, 2]),
        (60_000, Take(1), [1, 1, 0, 10_000, 2]),
    ];
    table(&limit(Algorithm::SlidingLog, 2, 10_000), &rows);
}
