//! What a decision costs, in instructions: `cargo bench -p rl-core`.
//!
//! Each case reads a key's bytes, decides and writes the bytes anew, as a
//! command does. The program runs itself under valgrind, each case with one
//! number of repetitions and with twice as many; the difference is what the
//! repetitions cost, the same on every run. What the last run said stands
//! beside it, so that a change of the arithmetic shows.

use rl_core::{Account, Algorithm, Ask, Limit, Report, Slots};
use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::{env, fs};

type Outcome<T> = Result<T, Box<dyn Error>>;

const REPETITIONS: u64 = 1000;
const LAST_RUN: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/instructions");
const SECOND_US: u64 = 1_000_000;
const START_US: u64 = 1_767_225_600 * SECOND_US;

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.as_slice() {
        // Under valgrind.
        [word, name, repetitions] if word == "--repeat" => {
            let cases = cases()?;
            let case = cases.iter().find(|case| case.name == name);
            case.ok_or("no such case")?.repeat(repetitions.parse()?)
        }
        // From cargo.
        _ => report(),
    }
}

fn report() -> Outcome<()> {
    let last = last_run();
    let mut lines = String::new();
    println!(
        "{:34} {:>12} {:>12}",
        "instructions per call", "now", "last run"
    );
    for case in cases()? {
        let name = case.name;
        let now = (count(name, 2 * REPETITIONS)? - count(name, REPETITIONS)?) / REPETITIONS;
        match last.get(name) {
            Some(before) => println!("{name:34} {now:12} {before:12}"),
            None => println!("{name:34} {now:12}"),
        }
        lines += &format!("{now} {name}\n");
    }
    fs::write(LAST_RUN, lines)?;
    Ok(())
}

fn last_run() -> HashMap<String, u64> {
    let text = fs::read_to_string(LAST_RUN).unwrap_or_default();
    let line = |line: &str| {
        let (count, name) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Instructions of the whole program with so many repetitions of a case.
fn count(name: &str, repetitions: u64) -> Outcome<u64> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["--repeat", name, &repetitions.to_string()])
        .output()
        .map_err(|error| format!("valgrind is needed: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let (_, counted) = said
        .split_once("Collected : ")
        .ok_or_else(|| format!("valgrind failed:\n{said}"))?;
    Ok(counted
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .parse()?)
}

/// A call on a key.
struct Case {
    name: &'static str,
    limits: Slots<Limit>,
    stored: Option<Vec<u8>>,
    now_us: u64,
    call: fn(&mut Account) -> Outcome<Report>,
}

impl Case {
    fn repeat(&self, repetitions: u64) -> Outcome<()> {
        let mut bytes = self.stored.clone().unwrap_or_default();
        for _ in 0..repetitions {
            let case = black_box(self);
            let mut account = Account::open(case.stored.as_deref(), &case.limits, case.now_us)
                .map_err(|_| "foreign bytes")?;
            let report = (case.call)(&mut account)?;
            if report.store {
                black_box(account.free_at_us());
                if account.keeps_layout() {
                    account.patches(|offset, piece| put(&mut bytes, offset, piece));
                } else {
                    bytes.resize(account.stored_len(), 0);
                    account.pieces(|offset, piece| put(&mut bytes, offset, piece));
                }
            }
            black_box((&report, &bytes));
        }
        Ok(())
    }
}

fn put(bytes: &mut [u8], offset: usize, piece: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + piece.len()) {
        place.copy_from_slice(piece);
    }
}

fn take(account: &mut Account) -> Outcome<Report> {
    account.take(Ask::cost(1)).map_err(|_| "too much".into())
}

fn peek(account: &mut Account) -> Outcome<Report> {
    Ok(account.peek(Ask::cost(1)))
}

fn give(account: &mut Account) -> Outcome<Report> {
    Ok(account.give(1))
}

fn cases() -> Outcome<Vec<Case>> {
    use Algorithm::{FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket};
    let limit = |algorithm, count| -> Outcome<Slots<Limit>> {
        Ok(Slots::one(Limit::new(
            algorithm,
            count,
            60 * SECOND_US,
            None,
        )?))
    };
    let bucket = limit(TokenBucket, 100)?;
    let mut two = bucket;
    two.push(Limit::new(TokenBucket, 1000, 3600 * SECOND_US, None)?)
        .map_err(|_| "two are too many")?;
    let window = limit(FixedWindow, 100)?;
    let sliding = limit(SlidingWindow, 100)?;
    let log = limit(SlidingLog, 100)?;

    Ok(vec![
        case("bucket, new key", bucket, 0, take)?,
        case("bucket, admitted", bucket, 10, take)?,
        case("bucket, refused", bucket, 100, take)?,
        case("bucket, peek", bucket, 10, peek)?,
        case("bucket, give", bucket, 10, give)?,
        case("GCRA, admitted", limit(Gcra, 100)?, 10, take)?,
        case("leaky bucket, admitted", limit(LeakyBucket, 100)?, 10, take)?,
        case("fixed window, admitted", window, 10, take)?,
        case("fixed window, refused", window, 100, take)?,
        case("sliding window, admitted", sliding, 10, take)?,
        case("sliding window, refused", sliding, 100, take)?,
        case("log of 10 entries, admitted", log, 10, take)?,
        case("log of 90 entries, admitted", log, 90, take)?,
        case("log of 100 entries, refused", log, 100, take)?,
        case("two buckets, admitted", two, 10, take)?,
        case("two buckets, refused", two, 100, take)?,
        Case {
            name: "bucket carried into a window",
            limits: window,
            ..case("", bucket, 10, take)?
        },
    ])
}

/// A key of which so many units were taken, one a millisecond, and a call a second later.
fn case(
    name: &'static str,
    limits: Slots<Limit>,
    taken: u64,
    call: fn(&mut Account) -> Outcome<Report>,
) -> Outcome<Case> {
    let mut stored: Option<Vec<u8>> = None;
    for turn in 0..taken {
        let now_us = START_US + turn * 1000;
        let mut account =
            Account::open(stored.as_deref(), &limits, now_us).map_err(|_| "foreign bytes")?;
        if !take(&mut account)?.admitted {
            return Err("a take was refused".into());
        }
        let mut bytes = vec![0; account.stored_len()];
        account.pieces(|offset, piece| put(&mut bytes, offset, piece));
        stored = Some(bytes);
    }
    Ok(Case {
        name,
        limits,
        stored,
        now_us: START_US + taken * 1000,
        call,
    })
}
