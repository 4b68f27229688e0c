//! A long random life of a key, every number checked against the twins.
//!
//! The seed is printed; `RL_SEED=n cargo test -p rl-core --test model` lives
//! the same life again.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod key;
mod trial;
mod twin;

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use rl_core::{Algorithm, Ask, Limit, Slots, MAX_LIMITS};

use trial::Trial;

/// Lives, each of a key of its own, and steps in each.
const LIVES: u64 = if cfg!(debug_assertions) { 100 } else { 600 };
const STEPS: u64 = 300;

const SECOND_US: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    Take(u64),
    AtMost(u64),
    Force(u64),
    Give(u64),
    Peek(u64),
    Advance(u64),
    StepBack(u64),
    /// The call's limits, by the place of each in the life's list.
    ChangeLimit(u64),
    /// The key is written from scratch, and read again.
    SaveLoad,
    /// A replica with these bytes goes on, its clock a little off.
    Failover(i64),
    /// The server drops the key if its time has come.
    Expire,
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let index = self.below(items.len() as u64);
        items[usize::try_from(index).expect("an index")]
    }
}

/// A limit of everyday size.
fn limit(random: &mut Random) -> Limit {
    let algorithm = random.pick(&[
        Algorithm::TokenBucket,
        Algorithm::Gcra,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ]);
    let count = random.pick(&[1, 2, 3, 7, 10, 30, 100]);
    let period_us =
        random.pick(&[1, 2, 7, 10, 60]) * random.pick(&[1_000, SECOND_US / 3, SECOND_US]);
    let burst = random.pick(&[None, Some(1), Some(5), Some(40)]);
    Limit::new(
        algorithm,
        count,
        period_us,
        burst.filter(|_| algorithm.is_bucket()),
    )
    .expect("in range")
}

fn limits(random: &mut Random) -> Slots<Limit> {
    let mut limits = Slots::one(limit(random));
    while random.below(3) == 0 && limits.len() < MAX_LIMITS {
        limits.push(limit(random)).expect("there is room");
    }
    limits
}

fn op(random: &mut Random, limits: &Slots<Limit>) -> Op {
    let first = limits.get(0).expect("a call has limits");
    let unit_us = first.period_us() / first.count();
    let spans = [
        1,
        999,
        unit_us,
        unit_us / 2,
        first.period_us(),
        3 * SECOND_US,
    ];
    let longest_us = random.pick(&spans);
    let span_us = 1 + random.below(longest_us + 1);
    let cost = random.pick(&[1, 1, 1, 2, 3, 5, 20, 0]);
    match random.below(100) {
        0..=34 => Op::Take(cost),
        35..=42 => Op::AtMost(cost),
        43..=45 => Op::Force(cost),
        46..=52 => Op::Give(cost),
        53..=58 => Op::Peek(cost),
        59..=84 => Op::Advance(span_us),
        85..=87 => Op::StepBack(span_us),
        88..=92 => Op::ChangeLimit(random.next()),
        93..=95 => Op::SaveLoad,
        96..=97 => {
            let off_us = random.below(2 * SECOND_US);
            Op::Failover(i64::try_from(off_us).expect("small") - 1_000_000)
        }
        _ => Op::Expire,
    }
}

/// The last steps of a life, told if a check fails.
struct Diary {
    seed: u64,
    life: u64,
    steps: VecDeque<(u64, Op)>,
}

impl Drop for Diary {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "RL_SEED={} fails in life {}. Its last steps:",
                self.seed, self.life
            );
            for (now_us, op) in &self.steps {
                println!("  at {now_us} us: {op:?}");
            }
        }
    }
}

#[test]
fn random_lives() {
    let seed = match std::env::var("RL_SEED") {
        Ok(seed) => seed.parse().expect("RL_SEED is a number"),
        Err(_) => {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970");
            u64::try_from(since.as_micros()).expect("before the year 586912")
        }
    };
    println!("RL_SEED={seed}");
    for life in 0..LIVES {
        live(seed, life);
    }
}

fn live(seed: u64, life: u64) {
    let mut random = Random(seed.wrapping_add(life << 32));
    let mut diary = Diary {
        seed,
        life,
        steps: VecDeque::new(),
    };
    // A client's limits, the same ones changed, and those of another client.
    let mut sets = vec![limits(&mut random)];
    for _ in 0..10 {
        sets.push(limits(&mut random));
    }
    let mut current = sets[0];
    // Those of the last write: the ones that a rewrite goes by.
    let mut written = current;
    let mut now_us = 1_800_000_000 * SECOND_US + random.below(100 * SECOND_US);
    let mut trial = Trial::new();
    for _ in 0..STEPS {
        let op = op(&mut random, &current);
        if diary.steps.len() == 40 {
            diary.steps.pop_front();
        }
        diary.steps.push_back((now_us, op));
        let before = trial.key.clone();
        match op {
            Op::Take(cost) => drop(trial.take(&current, now_us, Ask::cost(cost))),
            Op::AtMost(cost) => drop(trial.take(&current, now_us, Ask::at_most(cost))),
            Op::Force(cost) => drop(trial.take(&current, now_us, Ask::forced(cost))),
            Op::Give(cost) => drop(trial.give(&current, now_us, cost)),
            Op::Peek(cost) => drop(trial.peek(&current, now_us, Ask::cost(cost))),
            Op::Advance(span_us) => now_us += span_us,
            Op::StepBack(span_us) => now_us -= span_us,
            Op::ChangeLimit(which) => {
                let index = which % sets.len() as u64;
                current = sets[usize::try_from(index).expect("an index")];
            }
            Op::SaveLoad => trial.save_load(&written, now_us),
            Op::Failover(off_us) => now_us = now_us.saturating_add_signed(off_us),
            Op::Expire => trial.expire(now_us),
        }
        let keeps_limits = matches!(op, Op::SaveLoad) || trial.marked;
        if trial.key != before && !keeps_limits {
            written = current;
        }
    }
}
