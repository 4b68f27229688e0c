//! The stored form: the bytes as `state` documents them, and whatever else a
//! key may hold.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod key;

use proptest::prelude::*;
use rl_core::{is_possible_len, Algorithm, Ask, Foreign, Limit, Slots, MAX_INSTANT_US};

use key::{slots, Call, Failed, Key};

const START_US: u64 = 1_800_000_000_000_000;
/// The last seven of the first eight bytes of a record of that instant.
const START_BYTES: [u8; 7] = [0x00, 0x80, 0x98, 0x28, 0x17, 0x65, 0x06];

fn limit(algorithm: Algorithm, count: u64, period_us: u64) -> Limit {
    Limit::new(algorithm, count, period_us, None).expect("in range")
}

fn bucket(count: u64, period_us: u64, burst: u64) -> Limit {
    Limit::new(Algorithm::TokenBucket, count, period_us, Some(burst)).expect("in range")
}

/// What a key holds after takes of these costs at the start of time.
fn stored(limits: &[Limit], costs: &[u64]) -> Vec<u8> {
    let mut key = Key::default();
    for cost in costs {
        key.take(&slots(limits), START_US, Ask::forced(*cost));
    }
    key.bytes.expect("a take is stored")
}

fn start(tag: u8) -> Vec<u8> {
    [&[tag], &START_BYTES[..]].concat()
}

#[test]
fn the_common_bucket_takes_20_bytes() {
    let expected = [
        &start(0x90)[..],
        // One unit of 18,000,000 grains, 100 a minute.
        &[0x80, 0xa8, 0x12, 0x01, 0, 0],
        &[100, 0, 0],
        &[1, 0, 0xc0],
    ];
    assert_eq!(
        stored(&[bucket(100, 60_000_000, 20)], &[1]),
        expected.concat()
    );
}

#[test]
fn coded_periods() {
    let periods = [
        (1_000, [1, 0, 0x40]),
        (1_001, [0xe9, 0x03, 0]),
        (90_000_000, [90, 0, 0x80]),
        (3_600_000_000, [60, 0, 0xc0]),
        (0x3f_ffff, [0xff, 0xff, 0x3f]),
        (4_194_303 * 60_000_000, [0xff, 0xff, 0xff]),
    ];
    for (period_us, code) in periods {
        let bytes = stored(&[limit(Algorithm::FixedWindow, 5, period_us)], &[1]);
        assert_eq!(bytes[17..], code, "{period_us} us");
    }
    // Too long, or too odd.
    for period_us in [4_194_304 * 60_000_000, 0x40_0001] {
        let bytes = stored(&[limit(Algorithm::FixedWindow, 5, period_us)], &[1]);
        assert_eq!(bytes.len(), 40, "{period_us} us");
    }
}

#[test]
fn a_bucket_that_needs_room_or_is_in_debt_takes_48() {
    let expected = |level: u128, count: u64, debt: u64| {
        [
            &start(0x98)[..],
            &level.to_le_bytes(),
            &count.to_le_bytes(),
            &60_000_000u64.to_le_bytes(),
            &debt.to_le_bytes(),
        ]
        .concat()
    };
    let unit = 18_000_000;
    let debt = stored(&[bucket(100, 60_000_000, 20)], &[25]);
    assert_eq!(debt, expected(25 * unit, 100, 20));
    let count = stored(&[bucket(1 << 24, 60_000_000, 20)], &[1]);
    assert_eq!(count, expected(unit, 1 << 24, u64::MAX));
    let level = stored(&[bucket(100_000, 60_000_000, 20_000_000)], &[15_637_499, 1]);
    assert_eq!(level, expected(15_637_500 * unit, 100_000, u64::MAX));
}

#[test]
fn windows_take_20_or_40() {
    let fixed = stored(&[limit(Algorithm::FixedWindow, 10, 60_000_000)], &[3]);
    let expected = [&start(0x91)[..], &[3, 0, 0, 0, 0, 0, 10, 0, 0, 1, 0, 0xc0]].concat();
    assert_eq!(fixed, expected);

    let sliding = [limit(Algorithm::SlidingWindow, 10, 60_000_000)];
    let mut key = Key::default();
    key.take(&slots(&sliding), START_US - 1, Ask::cost(7));
    key.take(&slots(&sliding), START_US + 30_000_000, Ask::cost(2));
    let expected = [&start(0x92)[..], &[2, 0, 0, 7, 0, 0, 10, 0, 0, 1, 0, 0xc0]].concat();
    assert_eq!(key.bytes, Some(expected));

    let sliding = [limit(Algorithm::SlidingWindow, 1 << 24, 60_000_000)];
    let mut key = Key::default();
    key.take(&slots(&sliding), START_US - 1, Ask::cost(7));
    key.take(&slots(&sliding), START_US, Ask::cost(2));
    let words: Vec<u8> = [2u64, 7, 1 << 24, 60_000_000]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    assert_eq!(key.bytes, Some([start(0x9a), words].concat()));
}

#[test]
fn a_log_is_a_header_and_a_ring() {
    let limits = [limit(Algorithm::SlidingLog, 5, 10_000_000)];
    let mut key = Key::default();
    key.take(&slots(&limits), START_US, Ask::cost(1));
    key.take(&slots(&limits), START_US + 1, Ask::cost(2));
    // The first one is gone by then, and its slot is not used again before the
    // ring comes round.
    key.take(&slots(&limits), START_US + 10_000_000, Ask::cost(3));
    let mut expected = vec![0x93, 0x80, 0x96, 0x98, 0, 0, 0, 0];
    // Total, count, slots, head, len.
    expected.extend(6u64.to_le_bytes());
    for half in [5u32, 5, 1, 2] {
        expected.extend(half.to_le_bytes());
    }
    for (at_us, before) in [
        (START_US, 0),
        (START_US + 1, 1),
        (START_US + 10_000_000, 3),
        (0, 0),
        (0, 0),
    ] {
        expected.extend(at_us.to_le_bytes());
        expected.extend(u64::to_le_bytes(before));
    }
    assert_eq!(key.bytes, Some(expected));
}

#[test]
fn a_log_grows_and_shrinks_with_what_it_holds() {
    let limits = slots(&[limit(Algorithm::SlidingLog, 1_000, 1_000_000)]);
    let mut key = Key::default();
    for n in 0..1_000 {
        key.take(&limits, START_US + n, Ask::cost(1));
    }
    let full = key.bytes.as_ref().map_or(0, Vec::len);
    assert!(
        (16_032..=18_064).contains(&full),
        "{full} bytes for 1000 entries"
    );
    key.take(&limits, START_US + 1_000_990, Ask::cost(1));
    let small = key.bytes.as_ref().map_or(0, Vec::len);
    assert!((32..=320).contains(&small), "{small} bytes for 10 entries");
}

#[test]
fn several_limits_follow_each_other() {
    let limits = [
        bucket(100, 60_000_000, 20),
        limit(Algorithm::FixedWindow, 10, 60_000_000),
        limit(Algorithm::SlidingLog, 5, 10_000_000),
    ];
    let together = stored(&limits, &[1]);
    let apart: Vec<u8> = limits
        .iter()
        .flat_map(|limit| stored(&[*limit], &[1]))
        .collect();
    assert_eq!(together, apart);
}

#[test]
fn a_refusal_under_another_limit_puts_a_mark_in_front() {
    let slow = slots(&[bucket(10, 60_000_000, 10)]);
    let mut key = Key::default();
    key.take(&slow, START_US, Ask::cost(10));
    let unmarked = key.bytes.clone().expect("a take is stored");
    // Nothing is sooner under it than under the stored one.
    let slower = slots(&[bucket(9, 60_000_000, 10)]);
    key.take(&slower, START_US, Ask::cost(1));
    assert_eq!(key.bytes.as_deref(), Some(&unmarked[..]));

    for marks in 1..=10usize {
        let fast = slots(&[bucket(100 + marks as u64, 60_000_000, 10)]);
        for _ in 0..2 {
            assert!(!key.take(&fast, START_US, Ask::cost(1)).admitted);
        }
        let bytes = key.bytes.as_deref().expect("it is still there");
        let (front, records) = bytes.split_at(bytes.len() - unmarked.len());
        assert_eq!(records, unmarked);
        assert_eq!(front.len(), 16 * marks.min(8));
        assert!(front.chunks(16).all(|mark| mark[..8] == start(0x94)));
    }

    // In front of nothing, one too many, cut short, and out of range.
    let bytes = key.bytes.clone().expect("it is still there");
    let is_ours = |bytes: &[u8]| {
        Key::holding(bytes)
            .try_peek(&slow, START_US, Ask::cost(1))
            .is_ok()
    };
    assert!(is_ours(&bytes));
    let front = &bytes[..16];
    let future = [
        &[0x94],
        &(MAX_INSTANT_US + 1).to_le_bytes()[..7],
        &front[8..],
        &unmarked[..],
    ];
    for foreign in [
        front.to_vec(),
        [front, &bytes[..]].concat(),
        [&front[..8], &unmarked[..]].concat(),
        [&unmarked[..], front].concat(),
        [&unmarked[..], front, &unmarked[..]].concat(),
        future.concat(),
    ] {
        assert!(!is_ours(&foreign), "{foreign:02x?}");
    }

    // It goes with the next take.
    assert!(key.take(&slow, START_US + 6_000_000, Ask::cost(1)).admitted);
    assert_eq!(key.bytes.map(|bytes| bytes.len()), Some(20));
}

#[test]
fn only_whole_records_are_ours() {
    for limits in [
        vec![bucket(100, 60_000_000, 20)],
        vec![bucket(1 << 24, 60_000_000, 20)],
        vec![limit(Algorithm::FixedWindow, 10, 60_000_000)],
        vec![limit(Algorithm::SlidingWindow, 10, 60_000_001)],
        vec![limit(Algorithm::SlidingLog, 10, 60_000_000)],
    ] {
        let bytes = stored(&limits, &[1]);
        let is_ours = |bytes: &[u8]| {
            let key = Key::holding(bytes);
            key.try_peek(&slots(&limits), START_US, Ask::cost(1))
                .is_ok()
        };
        assert!(is_ours(&bytes));
        for len in 0..bytes.len() {
            assert!(!is_ours(&bytes[..len]), "{len} bytes of {limits:?}");
        }
        for more in [0x00, 0x90, b'\n'] {
            assert!(!is_ours(&[&bytes[..], &[more]].concat()));
        }
        assert!(is_ours(&bytes.repeat(8)));
        assert!(!is_ours(&bytes.repeat(9)));
        // Of another version, and of no version at all.
        for tag in (0..=255).filter(|tag| *tag != bytes[0]) {
            let mut other = bytes.clone();
            other[0] = tag;
            let family = |tag: u8| tag & !3;
            assert!(
                family(tag) == family(bytes[0]) || !is_ours(&other),
                "tag {tag:#x}"
            );
        }
    }
}

#[test]
fn every_field_is_held_to_its_range() {
    // (record, offset, width of the field, the least value that is too much)
    let narrow_bucket = stored(&[bucket(100, 60_000_000, 20)], &[1]);
    let wide_bucket = stored(&[bucket(100, 60_000_000, 20)], &[25]);
    let wide_window = stored(
        &[limit(Algorithm::SlidingWindow, 1 << 24, 60_000_000)],
        &[1],
    );
    let log = stored(&[limit(Algorithm::SlidingLog, 10, 60_000_000)], &[1]);
    let units = 1_000_000_000_000;
    let period_us = 315_360_000_000_001;
    let cases: [(&[u8], usize, usize, u64); 20] = [
        (&narrow_bucket, 1, 7, MAX_INSTANT_US + 1),
        // The coded period 0, and one below a millisecond.
        (&narrow_bucket, 17, 3, 0),
        (&narrow_bucket, 17, 3, 999),
        (&wide_bucket, 1, 7, MAX_INSTANT_US + 1),
        (&wide_bucket, 24, 8, units + 1),
        // A count of 0 never drains.
        (&wide_bucket, 24, 8, 0),
        (&wide_bucket, 32, 8, period_us),
        (&wide_bucket, 32, 8, 999),
        // A debt above a capacity that there can't be, and one that is none.
        (&wide_bucket, 40, 8, units + 1),
        (&wide_bucket, 40, 8, 25),
        (&wide_window, 1, 7, START_US + 1),
        (&wide_window, 8, 8, 1_000 * units + 1),
        (&wide_window, 16, 8, 1_000 * units + 1),
        (&wide_window, 24, 8, units + 1),
        (&wide_window, 32, 8, period_us),
        (&log, 1, 7, period_us),
        (&log, 16, 4, 100_001),
        // Slots that are not there, a head and a len beyond them.
        (&log, 20, 4, 6),
        (&log, 24, 4, 5),
        (&log, 28, 4, 6),
    ];
    let limits = slots(&[bucket(100, 60_000_000, 20)]);
    for (bytes, at, width, too_much) in cases {
        let mut bytes = bytes.to_vec();
        assert!(Key::holding(&bytes)
            .try_peek(&limits, START_US, Ask::cost(1))
            .is_ok());
        bytes[at..at + width].copy_from_slice(&too_much.to_le_bytes()[..width]);
        let peeked = Key::holding(&bytes).try_peek(&limits, START_US, Ask::cost(1));
        assert_eq!(
            peeked.err(),
            Some(Foreign),
            "{too_much} at {at} of {:#x}",
            bytes[0]
        );
    }
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let algorithm = prop_oneof![
        2 => Just(Algorithm::TokenBucket),
        1 => Just(Algorithm::LeakyBucket),
        1 => Just(Algorithm::FixedWindow),
        2 => Just(Algorithm::SlidingWindow),
        3 => Just(Algorithm::SlidingLog),
    ];
    let count = prop_oneof![0..=20u64, Just(100_000u64)];
    let period_us = prop_oneof![
        Just(60_000_000u64),
        Just(1_000u64),
        1_000..=315_360_000_000_000u64
    ];
    (algorithm, count, period_us)
        .prop_filter_map("a bucket that drains", |(a, count, period_us)| {
            Limit::new(a, count, period_us, None).ok()
        })
}

fn any_limits() -> impl Strategy<Value = Vec<Limit>> {
    proptest::collection::vec(any_limit(), 1..=3)
}

/// A number that may be at any end of any range.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..=1_000u64,
        Just(u64::MAX),
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..64u32).prop_map(|bit| (1 << bit) - 1),
        Just(1_000_000_000_000),
        Just(1_000_000_000_000_000),
        START_US - 100_000_000..START_US + 100_000_000,
        Just(MAX_INSTANT_US),
    ]
}

/// A record with any fields, most of them in their range.
fn crafted_record() -> impl Strategy<Value = Vec<u8>> {
    let at_us = prop_oneof![
        4 => START_US - 10_000_000..START_US + 10_000_000,
        1 => 0..=MAX_INSTANT_US,
        1 => any_word(),
    ];
    let period_us = prop_oneof![
        Just(60_000_000u64),
        Just(10_000_001),
        1_000..=315_360_000_000_000u64,
        any_word()
    ];
    let tag = prop_oneof![9 => 0x90..=0x92u8, 9 => 0x98..=0x9au8, 1 => 0x93..=0x97u8];
    let words = [any_word(), any_word(), any_word(), any_word()];
    (tag, at_us, period_us, words, any::<bool>()).prop_map(
        |(tag, at_us, period_us, words, aligned)| {
            let wide = tag & 8 != 0;
            let is_window = tag & 3 == 1 || tag & 3 == 2;
            let start_us = if is_window && aligned && period_us > 0 {
                at_us - at_us % period_us
            } else {
                at_us
            };
            let mut bytes = (start_us << 8 | u64::from(tag)).to_le_bytes().to_vec();
            if wide {
                for word in [words[0], words[1], words[2], period_us, words[3]] {
                    bytes.extend(word.to_le_bytes());
                }
                bytes.truncate(if is_window { 40 } else { 48 });
            } else {
                bytes.extend(&words[0].to_le_bytes()[..6]);
                bytes.extend(&words[1].to_le_bytes()[..3]);
                bytes.extend(&words[2].to_le_bytes()[..3]);
            }
            bytes
        },
    )
}

/// A log whose ring holds anything.
fn crafted_log() -> impl Strategy<Value = Vec<u8>> {
    let entry = (
        prop_oneof![4 => START_US - 60_000_000..START_US + 10_000_000, 1 => any_word()],
        prop_oneof![4 => 0..=50u64, 1 => any_word()],
    );
    let ring = proptest::collection::vec(entry, 0..12);
    let period_us = prop_oneof![Just(60_000_000u64), 1_000..=315_360_000_000_000u64];
    let total = prop_oneof![4 => 0..=100u64, 1 => any_word()];
    (period_us, total, 0..=100_000u32, ring, any::<(u32, u32)>()).prop_map(
        |(period_us, total, count, ring, (head, len))| {
            let slots = u32::try_from(ring.len()).expect("short");
            let mut bytes = (period_us << 8 | 0x93).to_le_bytes().to_vec();
            bytes.extend(total.to_le_bytes());
            for half in [count, slots, head % slots.max(1), len % (slots + 1)] {
                bytes.extend(half.to_le_bytes());
            }
            for (at_us, before) in ring {
                bytes.extend(at_us.to_le_bytes());
                bytes.extend(before.to_le_bytes());
            }
            bytes
        },
    )
}

/// Something written here, and then tampered with.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let calls = proptest::collection::vec((0..=30u64, 0..=20_000_000u64), 1..12);
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (
        any_limits(),
        calls,
        edits,
        any::<prop::sample::Index>(),
        0..4u8,
    )
        .prop_map(|(limits, calls, edits, place, how)| {
            let mut key = Key::default();
            let mut now_us = START_US - 20_000_000;
            for (cost, span_us) in calls {
                let forced = Call::Take(Ask::forced(cost));
                let _ = key.call(&slots(&limits), now_us, forced);
                now_us += span_us;
            }
            let mut bytes = key.bytes.unwrap_or_else(|| vec![0x90]);
            match how {
                0 => bytes.truncate(place.index(bytes.len())),
                1 => bytes.extend_from_within(place.index(bytes.len())..),
                _ => {}
            }
            for (index, byte) in edits {
                if !bytes.is_empty() {
                    let index = index.index(bytes.len());
                    bytes[index] = byte;
                }
            }
            bytes
        })
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..80);
    let tagged = (0x90..=0x9fu8, proptest::collection::vec(any::<u8>(), 0..80))
        .prop_map(|(tag, rest)| [vec![tag], rest].concat());
    let records = proptest::collection::vec(
        prop_oneof![2 => crafted_record(), 1 => crafted_log()],
        1..=3,
    );
    prop_oneof![
        1 => noise,
        1 => tagged,
        4 => crafted_record(),
        4 => crafted_log(),
        2 => records.prop_map(|records| records.concat()),
        4 => mutated(),
    ]
}

/// Whether the entries of every log are in order. Only the ends of a log are
/// checked at each call, since it may be long: in the middle anyone may have
/// tampered with it, and then the answers are merely wrong, and what is written
/// may not be read again.
fn is_orderly(mut bytes: &[u8]) -> bool {
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    let half = |bytes: &[u8], at: usize| {
        let half = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        usize::try_from(half).expect("it fits")
    };
    while let Some(tag) = bytes.first() {
        let len = match tag {
            0x93 => 32 + 16 * half(bytes, 20),
            0x98 => 48,
            0x99 | 0x9a => 40,
            0x94 => 16,
            _ => 20,
        };
        if *tag == 0x93 {
            let (total, slots) = (word(bytes, 8), half(bytes, 20));
            let (head, len) = (half(bytes, 24), half(bytes, 28));
            let entries: Vec<(u64, u64)> = (head..head + len)
                .map(|place| 32 + 16 * (place % slots))
                .map(|at| (word(bytes, at), word(bytes, at + 8)))
                .collect();
            let first = entries.first().map_or(0, |(_, before)| *before);
            let in_order = |pair: &[(u64, u64)]| {
                let units = |entry: (u64, u64)| entry.1.wrapping_sub(first);
                pair[0].0 <= pair[1].0 && units(pair[0]) < units(pair[1])
            };
            let used = total.wrapping_sub(first);
            let last = entries
                .last()
                .map_or(0, |(_, before)| before.wrapping_sub(first));
            if !entries.windows(2).all(in_order) || last > used {
                return false;
            }
        }
        bytes = &bytes[len..];
    }
    true
}

/// Every call on these bytes: an answer in range or `Foreign`, and nothing that
/// can't be read back.
fn use_in_every_way(bytes: &[u8], limits: &Slots<Limit>, now_us: u64) -> Result<(), Foreign> {
    let key = Key::holding(bytes);
    key.try_peek(limits, now_us, Ask::cost(1))?;
    assert!(is_possible_len(bytes.len()));
    let costs = [0, 1, 7, 1_000_000_000_000];
    let mut calls: Vec<Call> = Vec::new();
    for cost in costs {
        calls.push(Call::Give(cost));
        calls.extend([Ask::cost(cost), Ask::at_most(cost), Ask::forced(cost)].map(Call::Take));
    }
    for call in calls {
        let mut key = key.clone();
        let report = match key.call(limits, now_us, call) {
            Ok(done) => done.report,
            Err(Failed::TooMuch(_)) => continue,
            Err(Failed::Foreign) => panic!("foreign at the second look"),
        };
        key::five(&report, false);
        for (answer, limit) in report.answers.iter().zip(limits.iter()) {
            assert!(answer.remaining <= limit.capacity());
        }
        if report.store {
            let again = key.try_peek(limits, now_us, Ask::cost(1));
            if !is_orderly(bytes) {
                continue;
            }
            let again = again.unwrap_or_else(|_| panic!("{call:?} wrote {:02x?}", key.bytes));
            for (was, is) in report.answers.iter().zip(again.answers.iter()) {
                assert_eq!((was.remaining, was.reset_us), (is.remaining, is.reset_us));
            }
        } else {
            assert_eq!(key.bytes.as_deref(), Some(bytes));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 2_000 } else { 20_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_used_without_harm(
        bytes in any_bytes(),
        limits in any_limits(),
        off_us in 0..40_000_000u64,
    ) {
        for now_us in [0, START_US - 20_000_000 + off_us, MAX_INSTANT_US] {
            let _ = use_in_every_way(&bytes, &slots(&limits), now_us);
        }
    }

    /// Likewise with the marks of calls that were refused.
    #[test]
    fn marked_bytes_are_used_without_harm(
        bytes in any_bytes(),
        others in proptest::collection::vec(any_limits(), 1..4),
        off_us in 0..40_000_000u64,
    ) {
        let now_us = START_US - 20_000_000 + off_us;
        let mut key = Key::holding(&bytes);
        for limits in &others {
            let cost = limits.iter().map(Limit::capacity).min().unwrap_or(0);
            let _ = key.call(&slots(limits), now_us, Call::Take(Ask::cost(cost)));
        }
        let bytes = key.bytes.unwrap_or_default();
        for limits in &others {
            for now_us in [0, now_us, now_us + off_us, MAX_INSTANT_US] {
                let _ = use_in_every_way(&bytes, &slots(limits), now_us);
            }
        }
    }

    /// What is ours is written the same again.
    #[test]
    fn what_is_read_is_written_the_same(bytes in crafted_record(), limit in any_limit()) {
        let limits = Slots::one(limit);
        if let Ok(key) = Key::holding(&bytes).rewritten(&limits, START_US) {
            let again = key.rewritten(&limits, START_US);
            prop_assert_eq!(Ok(key), again);
        }
    }

    #[test]
    fn no_text_is_ours(text in any::<String>(), limit in any_limit()) {
        let peeked = Key::holding(text.as_bytes()).try_peek(&Slots::one(limit), START_US, Ask::cost(1));
        prop_assert_eq!(peeked.err(), Some(Foreign));
    }
}

#[test]
fn no_text_starts_like_a_record() {
    for tag in 0x90..=0x9f {
        assert!(std::str::from_utf8(&[tag]).is_err());
        assert!(std::str::from_utf8(&[tag, b'a', b'b', b'c']).is_err());
    }
    let limits = slots(&[bucket(1, 1_000, 1)]);
    for first in '\0'..=char::MAX {
        let mut text = first.to_string();
        text.push_str("9999999999999999999");
        assert!(Key::holding(text.as_bytes())
            .try_peek(&limits, 0, Ask::cost(1))
            .is_err());
    }
}
