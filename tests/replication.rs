//! Replicas hold the same bytes, with the module or without it, and refusals don't reach them.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::traffic::{assert_same, picture, Picture, Traffic};
use common::{skip, until, wait_in_sync, Clock, Conn, Setup};

/// How far the primary has written its replication stream, in bytes.
fn offset(conn: &mut Conn) -> i64 {
    conn.info_number("replication", "master_repl_offset")
}

/// Compares all keys but those that run out meanwhile, which only a clock that goes on lets happen.
fn assert_same_on_both(what: &str, primary: &mut Conn, replica: &mut Conn) {
    // Reading a key that has run out deletes it on the primary, so the primary is read first.
    let first = picture(primary);
    wait_in_sync(primary, replica);
    let on_replica = picture(replica);
    let again = picture(primary);
    let stays = |name: &String| again.iter().any(|(other, ..)| other == name);
    let on_primary: Picture = first.into_iter().filter(|key| stays(&key.0)).collect();
    let on_replica = on_replica.into_iter().filter(|key| stays(&key.0)).collect();
    assert_same(what, &on_primary, &on_replica);
    assert!(!on_primary.is_empty(), "{what}: no key to compare");
}

/// Sends traffic in pipelines, the clock moving between them: mostly on, now and then back.
fn run_traffic(conn: &mut Conn, traffic: &mut Traffic, clock: Option<&Clock>, batches: usize) {
    for _ in 0..batches {
        traffic.send(conn, 50);
        if let Some(clock) = clock {
            let us = i64::try_from(traffic.rng().below(1_500_000)).unwrap();
            let back = traffic.rng().chance(5);
            clock.advance_us(if back { -us } else { us });
        }
    }
}

#[test]
fn replicas_are_equal_to_the_byte() {
    let clock = Clock::settable();
    let mut traffic = Traffic::new();
    let primary = Setup::new().maybe_clock(clock.as_ref()).tcp().start();
    let with_module = primary.replica(|setup| setup);
    let without_module = primary.replica(Setup::without_module);
    let mut conn = primary.conn();
    run_traffic(&mut conn, &mut traffic, clock.as_ref(), 200);
    for replica in [&with_module, &without_module] {
        assert_same_on_both("10000 commands", &mut conn, &mut replica.conn());
    }

    // Only a clock that stands still gives two servers the same instant to answer for.
    if clock.is_some() {
        let peeks = traffic.peeks();
        let on_primary = conn.pipe(&peeks);
        let on_replica = with_module.conn().pipe(&peeks);
        for ((peek, a), b) in peeks.iter().zip(on_primary).zip(on_replica) {
            let line = String::from_utf8_lossy(&peek.join(&b' ')).into_owned();
            assert!(a.is_ok(), "{line}: {a:?}");
            assert_eq!(a, b, "{line}");
        }
    }
}

/// A primary that nobody follows may save itself the sending, until somebody does.
#[test]
fn a_replica_attached_in_mid_load_is_equal_to_the_byte() {
    let clock = Clock::settable();
    let mut traffic = Traffic::new();
    // At this rate of its cron the server looks around many times before the replicas come.
    let setup = Setup::new().maybe_clock(clock.as_ref());
    let primary = setup.tcp().config("hz 500").start();
    let done = AtomicBool::new(false);
    let replicas = thread::scope(|scope| {
        let mut conn = primary.conn();
        let (traffic, clock, done) = (&mut traffic, clock.as_ref(), &done);
        let load = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                run_traffic(&mut conn, traffic, clock, 1);
            }
            run_traffic(&mut conn, traffic, clock, 20);
        });
        let start = Instant::now();
        until("the load has run for a while", || {
            start.elapsed() > Duration::from_secs(1)
        });
        let replicas = [
            primary.replica(|setup| setup),
            primary.replica(Setup::without_module),
        ];
        done.store(true, Ordering::Relaxed);
        load.join().unwrap();
        replicas
    });
    let mut conn = primary.conn();
    for replica in &replicas {
        assert_same_on_both("attached in mid-load", &mut conn, &mut replica.conn());
    }
}

#[test]
fn refusals_and_peeks_send_not_one_byte() {
    let clock = Clock::settable();
    let primary = Setup::new().maybe_clock(clock.as_ref()).tcp().start();
    let replica = primary.replica(|setup| setup);
    let (mut conn, mut on_replica) = (primary.conn(), replica.conn());
    let limits = [
        "5 1h",
        "GCRA 5 1h BURST 3",
        "LEAKYBUCKET 5 1h",
        "FIXEDWINDOW 5 365d",
        "SLIDINGWINDOW 5 365d",
        "SLIDINGLOG 5 1h",
        "50 1h FIXEDWINDOW 5 365d SLIDINGLOG 100 1h",
    ];
    for (key, limits) in limits.iter().enumerate() {
        conn.five(&format!("RL.TAKE {{k}}{key} {limits} COST 3"));
    }
    conn.ok("SET text hello");
    wait_in_sync(&mut conn, &mut on_replica);
    let before = (offset(&mut conn), picture(&mut conn));
    let dirty = conn.info_number("persistence", "rdb_changes_since_last_save");

    let refused = |conn: &mut Conn, line: &str| {
        let reply = conn.five(line);
        assert_eq!(reply.allowed, 0, "{line}");
    };
    for _ in 0..20 {
        for (key, limits) in limits.iter().enumerate() {
            refused(&mut conn, &format!("RL.TAKE {{k}}{key} {limits} COST 4"));
            refused(&mut conn, &format!("RL.TAKE {{k}}{key} {limits} COST 500"));
            refused(&mut conn, &format!("RL.TAKE new{key} {limits} COST 500"));
            conn.five(&format!("RL.TAKE {{k}}{key} {limits} COST 0"));
            conn.five(&format!("RL.TAKE {{k}}{key} {limits} ATMOST 0"));
            conn.five(&format!("RL.TAKE {{k}}{key} {limits} COST 0 FORCE"));
            conn.five(&format!("RL.TAKE new{key} {limits} COST 0"));
            conn.five(&format!("RL.GIVE {{k}}{key} {limits} COST 0"));
            conn.five(&format!("RL.GIVE new{key} {limits}"));
            conn.five(&format!("RL.PEEK {{k}}{key} {limits}"));
            conn.five(&format!("RL.PEEK new{key} {limits} COST 9"));
            conn.error(&format!("RL.TAKE {{k}}{key} {limits} COST -1"));
            conn.error(&format!("RL.TAKE {{k}}{key} {limits} COST"));
        }
        // The first key would admit; the second holds it back.
        refused(&mut conn, "RL.MTAKE 2 {k}new {k}0 100 1h 5 1h COST 4");
        conn.ok("CL.THROTTLE {k}new 15 30 60 0");
        conn.ok("CL.THROTTLE {k}new 15 30 60 17");
        conn.ok("CL.THROTTLE {k}new 15 30 60 -3");
        conn.error("RL.TAKE text 5 1h");
        conn.error("RL.GIVE text 5 1h");
        conn.error("RL.PEEK text 5 1h");
        conn.error("RL.MTAKE 2 {k}0 text 5 1h 5 1h");
    }
    assert_eq!(offset(&mut conn), before.0, "bytes went out");
    assert_same("after refusals", &before.1, &picture(&mut conn));
    let dirty_after = conn.info_number("persistence", "rdb_changes_since_last_save");
    assert_eq!(dirty_after, dirty, "a refusal counts as a change");

    // The link works: one admitted take goes out.
    conn.five("RL.TAKE {k}0 5 1h");
    assert!(offset(&mut conn) > before.0);
    assert_same_on_both("one take more", &mut conn, &mut on_replica);
}

/// Bytes on the link per take, over takes that each leave an entry of their own in the log.
fn bytes_per_take(conn: &mut Conn, clock: &Clock, line: &str, takes: i64, gap_us: i64) -> i64 {
    let before = offset(conn);
    for _ in 0..takes {
        assert_eq!(conn.five(line).allowed, 1);
        clock.advance_us(gap_us);
    }
    (offset(conn) - before) / takes
}

#[test]
fn a_long_log_costs_no_more_on_the_link_than_a_short_one() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let primary = Setup::new().clock(&clock).tcp().start();
    let replica = primary.replica(Setup::without_module);
    let (mut conn, mut on_replica) = (primary.conn(), replica.conn());

    // A log that only grows. It is moved to more room now and then, so what counts is the mean
    // while its length doubles.
    let line = "RL.TAKE growing SLIDINGLOG 100000 1h";
    bytes_per_take(&mut conn, &clock, line, 500, 1000);
    let short = bytes_per_take(&mut conn, &clock, line, 500, 1000);
    bytes_per_take(&mut conn, &clock, line, 3000, 1000);
    let long = bytes_per_take(&mut conn, &clock, line, 4000, 1000);
    println!("growing log: {short} bytes a take at 500 to 1000, {long} at 4000 to 8000");
    assert!(long <= short * 5 / 4, "{short} bytes a take, later {long}");

    // A log in which as many entries run out as come in, so that it has to be compacted.
    let line = "RL.TAKE turning:100 SLIDINGLOG 100000 1s";
    let short = bytes_per_take(&mut conn, &clock, line, 4000, 10_000);
    let line = "RL.TAKE turning:2000 SLIDINGLOG 100000 20s";
    let long = bytes_per_take(&mut conn, &clock, line, 8000, 10_000);
    println!("100 entries in turn: {short} bytes a take; 2000 entries: {long}");
    assert!(
        long <= short * 3 / 2,
        "{short} bytes a take, with more {long}"
    );

    assert_same_on_both("long logs", &mut conn, &mut on_replica);
}

#[test]
fn a_replica_peeks_and_does_not_take() {
    let clock = Clock::settable();
    let primary = Setup::new().maybe_clock(clock.as_ref()).tcp().start();
    let replica = primary.replica(|setup| setup);
    let (mut conn, mut on_replica) = (primary.conn(), replica.conn());
    conn.five("RL.TAKE k 10 365d COST 4");
    wait_in_sync(&mut conn, &mut on_replica);
    for line in [
        "RL.TAKE k 10 365d",
        "RL.TAKE k 10 365d COST 0",
        "RL.TAKE k 10 365d COST 500",
        "RL.TAKE new 10 365d",
        "RL.GIVE k 10 365d",
        "RL.MTAKE 1 k 10 365d",
        "RL.THROTTLE k 9 10 60",
        "CL.THROTTLE k 9 10 60",
    ] {
        let error = on_replica.error(line);
        assert!(error.starts_with("READONLY "), "{line}: {error}");
    }
    let peek = on_replica.five("RL.PEEK k 10 365d");
    assert_eq!((peek.allowed, peek.remaining, peek.limit), (1, 6, 10));
    let peek = on_replica.five("RL.PEEK k 10 365d COST 7");
    assert_eq!(peek.allowed, 0);
    assert!(peek.wait_ms > 0);

    // A key that has run out is as good as none, on a replica that still holds it too.
    let Some(clock) = clock else {
        skip("keys that run out need a settable clock");
        return;
    };
    // The primary would tell the replica soon enough.
    conn.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    clock.advance_us(10 * 365 * 86_400 * 1_000_000);
    let peek = on_replica.five("RL.PEEK k 10 365d");
    assert_eq!((peek.remaining, peek.reset_ms), (10, 0));
}
