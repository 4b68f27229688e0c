//! Many connections at once: never one unit too many, never one too few.
//!
//! Where time must not matter the limits' period is 3650 days, in which nothing drains while a
//! test runs, so these tests need no settable clock and run on every server.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use common::traffic::Rng;
use common::{time_us, words, Clock, Conn, Reply, Server, Setup, Words};

/// Runs `work` on as many connections at once, each with its number, and returns their results.
fn on_connections<T: Send>(
    server: &Server,
    count: u64,
    work: impl Fn(u64, &mut Conn) -> T + Sync,
) -> Vec<T> {
    let barrier = Barrier::new(usize::try_from(count).unwrap());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let mut conn = server.conn();
                let (work, barrier) = (&work, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    work(number, &mut conn)
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Sends the commands one pipeline of `chunk` after the other; every reply must be five integers.
fn replies(conn: &mut Conn, commands: &[Words], chunk: usize) -> Vec<Reply> {
    commands
        .chunks(chunk)
        .flat_map(|commands| conn.pipe(commands))
        .map(|answer| {
            let value = answer.expect("no error");
            Reply::from_value(&value).expect("five integers")
        })
        .collect()
}

const LIMITS: [&str; 7] = [
    "1000 3650d",
    "GCRA 500 3650d BURST 1000",
    "LEAKYBUCKET 1000 3650d",
    "FIXEDWINDOW 1000 3650d",
    "SLIDINGWINDOW 1000 3650d",
    "SLIDINGLOG 1000 3650d",
    "2000 3650d FIXEDWINDOW 1000 3650d SLIDINGLOG 3000 3650d",
];

#[test]
fn exactly_the_capacity_is_admitted() {
    let server = Setup::new().start();
    for limits in LIMITS {
        // 8 connections ask for 1600 units.
        let take = words(&format!("RL.TAKE one {limits}"));
        let admitted: i64 = on_connections(&server, 8, |number, conn| {
            // One at a time on some connections, in pipelines on others.
            let chunk = if number % 2 == 0 { 1 } else { 20 };
            let replies = replies(conn, &vec![take.clone(); 200], chunk);
            replies.iter().map(|reply| reply.allowed).sum::<i64>()
        })
        .iter()
        .sum();
        assert_eq!(admitted, 1000, "{limits}");
        let mut conn = server.conn();
        let peek = conn.five(&format!("RL.PEEK one {limits}"));
        assert_eq!((peek.allowed, peek.remaining), (0, 0), "{limits}");
        conn.ok("DEL one");
    }
}

#[test]
fn costs_and_parts_add_up() {
    let server = Setup::new().start();
    for limits in LIMITS {
        let taken: i64 = on_connections(&server, 6, |number, conn| {
            let mut rng = Rng::new(number);
            let mut taken = 0;
            for _ in 0..100 {
                let n = 1 + i64::try_from(rng.below(9)).unwrap();
                match rng.below(3) {
                    0 => {
                        let reply = conn.five(&format!("RL.TAKE sum {limits} COST {n}"));
                        taken += reply.allowed * n;
                    }
                    1 => {
                        let reply = conn.five(&format!("RL.TAKE sum {limits} ATMOST {n}"));
                        taken += reply.allowed;
                    }
                    _ => {
                        // Returned only where it was taken before, so nothing is ever given for nothing.
                        if taken >= n {
                            conn.five(&format!("RL.GIVE sum {limits} COST {n}"));
                            taken -= n;
                        }
                    }
                }
            }
            taken
        })
        .iter()
        .sum();
        let mut conn = server.conn();
        let peek = conn.five(&format!("RL.PEEK sum {limits} COST 0"));
        assert_eq!(peek.remaining, 1000 - taken, "{limits}");
        // What is left goes to whoever asks first, to the last unit.
        let rest: i64 = on_connections(&server, 4, |_, conn| {
            conn.five(&format!("RL.TAKE sum {limits} ATMOST 700"))
                .allowed
        })
        .iter()
        .sum();
        assert_eq!(rest, 1000 - taken, "{limits}");
        conn.ok("DEL sum");
    }
}

#[test]
fn mtake_charges_all_keys_or_none() {
    let server = Setup::new().start();
    let keys = [
        ("{t}a", "150 3650d"),
        ("{t}b", "FIXEDWINDOW 200 3650d"),
        ("{t}c", "SLIDINGLOG 250 3650d"),
        ("{t}d", "SLIDINGWINDOW 10000 3650d"),
    ];
    let per_connection = on_connections(&server, 6, |number, conn| {
        let mut rng = Rng::new(number);
        let mut charged = [0_i64; 4];
        for _ in 0..150 {
            let cost = 1 + i64::try_from(rng.below(3)).unwrap();
            // Two to four of the keys, or now and then one by itself with a plain take.
            let mut chosen: Vec<usize> = (0..4).filter(|_| rng.chance(60)).collect();
            if chosen.is_empty() {
                chosen.push(rng.index(4));
            }
            let names: Vec<&str> = chosen.iter().map(|&i| keys[i].0).collect();
            let limits: Vec<&str> = chosen.iter().map(|&i| keys[i].1).collect();
            let line = if let ([name], [limit]) = (&*names, &*limits) {
                format!("RL.TAKE {name} {limit} COST {cost}")
            } else {
                let (count, names, limits) = (names.len(), names.join(" "), limits.join(" "));
                format!("RL.MTAKE {count} {names} {limits} COST {cost}")
            };
            let reply = conn.five(&line);
            for i in chosen {
                charged[i] += reply.allowed * cost;
            }
        }
        charged
    });
    let mut conn = server.conn();
    for (i, (name, limit)) in keys.iter().enumerate() {
        let charged: i64 = per_connection.iter().map(|charged| charged[i]).sum();
        let peek = conn.five(&format!("RL.PEEK {name} {limit}"));
        assert_eq!(peek.limit - peek.remaining, charged, "{name}");
        assert!(charged > 0, "{name} was never taken from");
    }
    // The test has shown something only if the small keys were full and so held the others back.
    let peek = conn.five(&format!("RL.PEEK {} {}", keys[0].0, keys[0].1));
    assert!(peek.remaining < 3, "the smallest key was not used up");
}

/// A small budget at a high rate, asked for faster than it drains.
///
/// What is certain: by the server's own clock no more than 2 + 8000 x elapsed are admitted, for
/// the bucket holds 2 and drains 8000 a second. The other side needs that somebody asks: the
/// bucket is full after 250 us, and while the server does not run (a busy machine takes it off
/// the processor for milliseconds) what would drain is lost. So every call is followed by TIME,
/// and each pause between two calls counts what it lost: what drains in it, less the one unit
/// there was still room for. The rest must be there within 1 %. On an idle machine hardly
/// anything is lost; on a noisy one the test stays just as exact.
///
/// DEBUG SLEEP, of which the shortest is some 60 us, spreads the calls evenly: three connections
/// keep the server supplied without keeping a processor from it.
#[test]
fn eight_thousand_a_second_is_eight_thousand_a_second() {
    const RATE: i64 = 8000;
    const CAPACITY: i64 = 2;
    const SECOND: i64 = 1_000_000;

    let server = Setup::new().start();
    let start_us = server.conn().time_us();
    let step = [
        words("CL.THROTTLE user123 1 8000 1 1"),
        words("TIME"),
        words("DEBUG SLEEP 0.000001"),
    ];
    let pipeline: Vec<Words> = step.iter().cloned().cycle().take(60).collect();
    let mut calls: Vec<(i64, i64)> = on_connections(&server, 3, |_, conn| {
        let mut calls = Vec::new();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            for answers in conn.pipe(&pipeline).chunks(3) {
                let throttle = answers[0].as_ref().expect("no error");
                let [limited, limit, ..] = throttle_reply(throttle);
                assert_eq!(limit, CAPACITY);
                let time = time_us(answers[1].as_ref().unwrap());
                calls.push((time, 1 - limited));
            }
        }
        calls
    })
    .concat();
    calls.sort_unstable();

    let admitted: i64 = calls.iter().map(|(_, admitted)| admitted).sum();
    let (first_us, last_us) = (calls[0].0, calls[calls.len() - 1].0);
    let drained = |us: i64| us * RATE; // in millionths of a unit
    let lost: i64 = calls
        .windows(2)
        .map(|pair| (drained(pair[1].0 - pair[0].0) - SECOND).max(0))
        .sum();
    let most = CAPACITY * SECOND + drained(last_us - start_us);
    let least = drained(last_us - first_us) - lost - most / 100;
    println!(
        "{} calls, {admitted} admitted; 2 + 8000 x elapsed = {}, of that lost in pauses {}",
        calls.len(),
        most / SECOND,
        lost / SECOND
    );
    assert!(admitted * SECOND <= most, "too many");
    assert!(admitted * SECOND >= least, "too few");
}

/// `[limited, limit, remaining, retry_after_s, reset_after_s]`
fn throttle_reply(value: &Value) -> [i64; 5] {
    redis::from_redis_value(value).expect("five integers")
}

/// The same with a clock that moves 50 us from call to call: to the unit, whatever the machine does.
#[test]
fn eight_thousand_a_second_to_the_unit() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let server = Setup::new().clock(&clock).start();
    let connections = &mut [server.conn(), server.conn(), server.conn()];
    let mut admitted = 0;
    for step in 0..20_000_i64 {
        let conn = &mut connections[usize::try_from(step % 3).unwrap()];
        let [limited, ..] = throttle_reply(&conn.ok("CL.THROTTLE user123 1 8000 1 1"));
        admitted += 1 - limited;
        let most = (2 + step * 50 * 8000 / 1_000_000).min(step + 1);
        // A call is held to at most a millionth of a unit more than it asks for, so an
        // admission at the very instant at which it becomes due may come a call later.
        assert!((most - 1..=most).contains(&admitted), "after {step} steps");
        clock.advance_us(50);
    }
}
