//! All small cases: every sequence of calls and clock steps up to a depth, for
//! every pair of small limits, against the twins.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod key;
mod trial;
mod twin;

use rl_core::{Algorithm, Ask, Limit, Slots};

use trial::Trial;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::TokenBucket,
    Algorithm::Gcra,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// Debug builds check for overflow, and are too slow to go as deep.
const DEPTH: usize = if cfg!(debug_assertions) { 3 } else { 4 };

/// Almost the shortest period there is, so that all instants of interest are
/// few; a bucket does not drain whole grains in a microsecond of it.
const PERIOD_US: u64 = 1_001;

#[derive(Clone, Copy, Debug)]
enum Op {
    Take(u64),
    AtMost(u64),
    Force(u64),
    Give(u64),
    Advance(u64),
    StepBack(u64),
    /// The other one of the two limits.
    Change,
}

use Op::{Advance, AtMost, Change, Force, Give, StepBack, Take};

/// A walk through all sequences of `ops`; the one it is at is printed if a
/// check fails.
struct Walk<'a> {
    /// The limits to begin with, and those to change to.
    limits: [&'a Slots<Limit>; 2],
    ops: &'a [Op],
    path: Vec<Op>,
    calls: u64,
}

impl Walk<'_> {
    fn explore(&mut self, trial: &Trial, now_us: u64, changed: bool, depth: usize) {
        if depth == 0 {
            return;
        }
        let limits = self.limits[usize::from(changed)];
        for op in self.ops {
            self.path.push(*op);
            self.calls += 1;
            let mut trial = trial.clone();
            let (mut now_us, mut changed) = (now_us, changed);
            match *op {
                Take(cost) => drop(trial.take(limits, now_us, Ask::cost(cost))),
                AtMost(cost) => drop(trial.take(limits, now_us, Ask::at_most(cost))),
                Force(cost) => drop(trial.take(limits, now_us, Ask::forced(cost))),
                Give(cost) => drop(trial.give(limits, now_us, cost)),
                Advance(span_us) => now_us += span_us,
                StepBack(span_us) => now_us -= span_us,
                Change => changed = !changed,
            }
            self.explore(&trial, now_us, changed, depth - 1);
            self.path.pop();
        }
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let [first, second] = self.limits.map(|limits| limits.iter().collect::<Vec<_>>());
            println!("{first:?}, changed to {second:?}: {:?}", self.path);
        }
    }
}

/// Walks from an untouched key half into a window, and returns the number of
/// calls that were made.
fn explore(limits: [&Slots<Limit>; 2], ops: &[Op], depth: usize) -> u64 {
    let mut walk = Walk {
        limits,
        ops,
        path: Vec::new(),
        calls: 0,
    };
    walk.explore(&Trial::new(), 10_500, false, depth);
    walk.calls
}

/// All small limits of an algorithm.
fn small_limits(algorithm: Algorithm, period_us: u64, counts: &[u64]) -> Vec<Limit> {
    let mut limits = Vec::new();
    for &count in counts {
        // One of the bucket family is enough: `properties` has them agree.
        let bursts = if algorithm == Algorithm::TokenBucket && count > 0 {
            vec![None, Some(1), Some(3)]
        } else {
            vec![None]
        };
        for burst in bursts {
            limits.push(Limit::new(algorithm, count, period_us, burst).expect("in range"));
        }
    }
    limits
}

#[test]
fn one_limit() {
    let ops = [
        Take(1),
        Take(2),
        Force(2),
        Give(1),
        Advance(1),
        Advance(334),
        Advance(1_001),
        StepBack(400),
    ];
    let mut calls = 0;
    for algorithm in ALGORITHMS {
        for limit in small_limits(algorithm, PERIOD_US, &[0, 1, 3]) {
            let limits = Slots::one(limit);
            calls += explore([&limits, &limits], &ops, DEPTH + 1);
        }
    }
    println!("{calls} calls");
}

#[test]
fn a_limit_that_changes() {
    let ops = [
        Take(1),
        Take(2),
        Force(3),
        Give(1),
        Advance(334),
        Advance(700),
        StepBack(400),
        Change,
    ];
    let mut calls = 0;
    for algorithm in ALGORITHMS {
        for limit in small_limits(algorithm, PERIOD_US, &[2]) {
            for other_algorithm in ALGORITHMS {
                let mut others = small_limits(other_algorithm, PERIOD_US, &[1]);
                others.extend(small_limits(other_algorithm, 1_500, &[2]));
                for other in others {
                    let pair = [&Slots::one(limit), &Slots::one(other)];
                    calls += explore(pair, &ops, DEPTH);
                }
            }
        }
    }
    println!("{calls} calls");
}

#[test]
fn two_limits_on_one_key() {
    let ops = [
        Take(1),
        Take(2),
        AtMost(3),
        Force(2),
        Give(1),
        Advance(334),
        Advance(1_001),
        StepBack(400),
        Change,
    ];
    let mut calls = 0;
    for first in ALGORITHMS {
        for second in ALGORITHMS {
            let small = Limit::new(first, 2, PERIOD_US, None).expect("in range");
            let large = Limit::new(second, 3, 2_500, None).expect("in range");
            let both = key::slots(&[small, large]);
            let pairs = [
                [&both, &Slots::one(small)],
                [&both, &key::slots(&[large, small])],
            ];
            for pair in pairs {
                calls += explore(pair, &ops, DEPTH);
            }
        }
    }
    println!("{calls} calls");
}
