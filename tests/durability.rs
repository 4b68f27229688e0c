//! State survives: restarts from AOF and RDB, kill -9, failover, a server without the module.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use common::traffic::{assert_same, picture, Picture, Rng, Traffic};
use common::{until, wait_in_sync, words, Answer, Clock, Conn, Server, Setup};

/// All that must survive: the bytes of every key, and what the limiter says of them.
struct Before {
    picture: Picture,
    answers: Vec<Answer>,
    traffic: Traffic,
}

impl Before {
    /// Leaves state of every kind in the server and remembers it.
    fn new(server: &Server, clock: &Clock) -> Before {
        let mut traffic = Traffic::new();
        let mut conn = server.conn();
        for _ in 0..20 {
            traffic.send(&mut conn, 50);
            let us = i64::try_from(traffic.rng().below(300_000)).unwrap();
            clock.advance_us(us);
        }
        let mut before = Before {
            picture: Vec::new(),
            answers: Vec::new(),
            traffic,
        };
        before.look(&mut conn);
        assert!(before.picture.len() > 30, "the traffic left hardly a key");
        before
    }

    fn look(&mut self, conn: &mut Conn) {
        self.picture = picture(conn);
        self.answers = conn.pipe(&self.traffic.peeks());
    }

    fn assert_kept(&self, what: &str, server: &Server) {
        let mut conn = server.conn();
        assert_same(what, &self.picture, &picture(&mut conn));
        let peeks = self.traffic.peeks();
        let answers = conn.pipe(&peeks);
        for ((peek, a), b) in peeks.iter().zip(&self.answers).zip(&answers) {
            let line = String::from_utf8_lossy(&peek.join(&b' ')).into_owned();
            assert_eq!(a, b, "{what}: {line}");
        }
    }
}

/// A bucket of 100 that drains one unit a minute holds 50 before; afterwards it holds what is
/// left of them, minute by minute, and takes go on from there.
fn assert_drains_on(what: &str, server: &Server, clock: &Clock) {
    let mut conn = server.conn();
    let peek = conn.five("RL.PEEK drains 100 100m");
    assert_eq!((peek.remaining, peek.reset_ms), (50, 50 * 60_000), "{what}");
    clock.advance_ms(7 * 60_000 + 30_000);
    let peek = conn.five("RL.PEEK drains 100 100m");
    assert_eq!(
        (peek.remaining, peek.reset_ms),
        (57, 42 * 60_000 + 30_000),
        "{what}"
    );
    let take = conn.five("RL.TAKE drains 100 100m COST 58");
    assert_eq!((take.allowed, take.wait_ms), (0, 30_000), "{what}");
    let take = conn.five("RL.TAKE drains 100 100m COST 57");
    assert_eq!((take.allowed, take.remaining), (1, 0), "{what}");
}

fn fill_draining(server: &Server) {
    let take = server.conn().five("RL.TAKE drains 100 100m COST 50");
    assert_eq!((take.allowed, take.remaining), (1, 50));
}

fn wait_for_rewrite(conn: &mut Conn) {
    until("the AOF is rewritten", || {
        conn.info_field("persistence", "aof_rewrite_in_progress") == "0"
            && conn.info_field("persistence", "aof_rewrite_scheduled") == "0"
    });
    let status = conn.info_field("persistence", "aof_last_bgrewrite_status");
    assert_eq!(status, "ok");
}

#[test]
fn an_aof_restores_everything_after_kill_9() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    for preamble in ["yes", "no"] {
        for rewrite in [false, true] {
            let what = format!("aof-use-rdb-preamble {preamble}, rewritten: {rewrite}");
            let mut server = Setup::new()
                .clock(&clock)
                .config("appendonly yes")
                .config("appendfsync always")
                .config("auto-aof-rewrite-percentage 0")
                .config(&format!("aof-use-rdb-preamble {preamble}"))
                .start();
            let mut before = Before::new(&server, &clock);
            if rewrite {
                let mut conn = server.conn();
                conn.ok("BGREWRITEAOF");
                wait_for_rewrite(&mut conn);
                // Part of the state comes from the rewritten base and part from what follows it.
                before.traffic.send(&mut conn, 200);
                before.look(&mut conn);
            }
            fill_draining(&server);
            before.look(&mut server.conn());
            server.kill();
            let server = server.restart(|setup| setup);
            before.assert_kept(&what, &server);
            assert_drains_on(&what, &server, &clock);
        }
    }
}

/// An AOF that is switched on while takes go on misses none of them.
#[test]
fn an_aof_switched_on_in_mid_load_has_everything() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let mut traffic = Traffic::new();
    // At this rate of its cron the server looks around many times before the AOF begins.
    let mut server = Setup::new()
        .clock(&clock)
        .config("hz 500")
        .config("appendfsync always")
        .start();
    let on = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut conn = server.conn();
        let (clock, traffic, on) = (&clock, &mut traffic, &on);
        scope.spawn(move || {
            while !on.load(Ordering::Relaxed) {
                traffic.send(&mut conn, 50);
                clock.advance_ms(20);
            }
            traffic.send(&mut conn, 200);
        });
        let start = Instant::now();
        until("the load has run for a while", || {
            start.elapsed() > Duration::from_secs(1)
        });
        let mut conn = server.conn();
        conn.ok("CONFIG SET appendonly yes");
        wait_for_rewrite(&mut conn);
        on.store(true, Ordering::Relaxed);
    });
    let before = picture(&mut server.conn());
    server.kill();
    let server = server.restart(|setup| setup.config("appendonly yes"));
    assert_same("AOF", &before, &picture(&mut server.conn()));
    assert!(before.len() > 30, "the traffic left hardly a key");
}

#[test]
fn an_rdb_restores_everything() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let mut server = Setup::new().clock(&clock).start();
    let mut before = Before::new(&server, &clock);
    fill_draining(&server);
    before.look(&mut server.conn());
    server.conn().ok("SAVE");
    server.kill();
    let mut server = server.restart(|setup| setup);
    before.assert_kept("SAVE and kill -9", &server);

    server.conn().ok("DEL key:0");
    before.look(&mut server.conn());
    server.shutdown("SAVE");
    let server = server.restart(|setup| setup);
    before.assert_kept("SHUTDOWN SAVE", &server);
    assert_drains_on("SHUTDOWN SAVE", &server, &clock);

    before.look(&mut server.conn());
    server.conn().ok("DEBUG RELOAD");
    before.assert_kept("DEBUG RELOAD", &server);
}

/// Every take that was acknowledged is there after kill -9 in the middle of the load.
#[test]
fn no_acknowledged_take_is_lost_by_kill_9() {
    const CONNECTIONS: i64 = 4;
    let limits = [
        "1000000 3650d",
        "FIXEDWINDOW 1000000 3650d",
        "SLIDINGLOG 100000 3650d",
    ];
    let mut server = Setup::new()
        .config("appendonly yes")
        .config("appendfsync always")
        .start();
    for round in 0..3 {
        let already = units_used(&mut server.conn(), &limits);
        let acknowledged = limits.map(|_| AtomicI64::new(0));
        thread::scope(|scope| {
            for number in 0..CONNECTIONS {
                let mut conn = server.conn();
                let acknowledged = &acknowledged;
                scope.spawn(move || {
                    let mut rng = Rng::new(u64::try_from(number).unwrap());
                    loop {
                        let i = rng.index(limits.len());
                        let line = format!("RL.TAKE load:{i} {}", limits[i]);
                        match conn.try_call(&line) {
                            Ok(answer) => {
                                answer.expect("no error");
                                acknowledged[i].fetch_add(1, Ordering::Relaxed);
                            }
                            // The server is gone.
                            Err(_) => break,
                        }
                    }
                });
            }
            until("the load is under way", || {
                acknowledged.iter().all(|n| n.load(Ordering::Relaxed) > 50)
            });
            server.kill();
        });
        server = server.restart(|setup| setup);
        let used = units_used(&mut server.conn(), &limits);
        for i in 0..limits.len() {
            let acknowledged = acknowledged[i].load(Ordering::Relaxed);
            let new = used[i] - already[i];
            // Each connection may have had one take under way whose reply did not arrive.
            assert!(
                (acknowledged..=acknowledged + CONNECTIONS).contains(&new),
                "round {round}, {}: {acknowledged} acknowledged, {new} found",
                limits[i]
            );
        }
    }
}

fn units_used(conn: &mut Conn, limits: &[&str]) -> Vec<i64> {
    let keys = limits.iter().enumerate();
    keys.map(|(i, limits)| {
        let peek = conn.five(&format!("RL.PEEK load:{i} {limits}"));
        peek.limit - peek.remaining
    })
    .collect()
}

#[test]
fn failover_keeps_everything() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let mut primary = Setup::new().clock(&clock).tcp().start();
    let replica = primary.replica(|setup| setup);
    let mut before = Before::new(&primary, &clock);
    fill_draining(&primary);
    before.look(&mut primary.conn());
    wait_in_sync(&mut primary.conn(), &mut replica.conn());
    primary.kill();
    replica.conn().ok("REPLICAOF NO ONE");
    before.assert_kept("promoted", &replica);
    assert_drains_on("promoted", &replica, &clock);
    // It is a primary like any other.
    let mut conn = replica.conn();
    before.traffic.send(&mut conn, 200);
}

/// What a client waited for (WAIT 1) is on the promoted replica; nothing is there twice.
#[test]
fn failover_under_load_keeps_what_was_confirmed() {
    const CONNECTIONS: i64 = 4;
    let mut primary = Setup::new().tcp().start();
    let replica = primary.replica(|setup| setup);
    let confirmed = AtomicI64::new(0);
    let sent = AtomicI64::new(0);
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let mut conn = primary.conn();
            let (confirmed, sent) = (&confirmed, &sent);
            scope.spawn(move || {
                let pair = [words("RL.TAKE load 1000000 3650d"), words("WAIT 1 10000")];
                loop {
                    sent.fetch_add(1, Ordering::Relaxed);
                    let Ok(answers) = conn.try_pipe(&pair) else {
                        break;
                    };
                    if answers[1] == Ok(Value::Int(1)) {
                        confirmed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        until("the load is under way", || {
            confirmed.load(Ordering::Relaxed) > 100
        });
        primary.kill();
    });
    let mut conn = replica.conn();
    conn.ok("REPLICAOF NO ONE");
    let peek = conn.five("RL.PEEK load 1000000 3650d");
    let used = peek.limit - peek.remaining;
    let confirmed = confirmed.load(Ordering::Relaxed);
    let sent = sent.load(Ordering::Relaxed);
    assert!(
        (confirmed..=sent).contains(&used),
        "{confirmed} confirmed, {sent} sent, {used} found"
    );
}

#[test]
fn a_server_without_the_module_keeps_the_state() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    for config in ["appendonly no", "appendonly yes"] {
        let mut server = Setup::new().clock(&clock).config(config).start();
        let mut before = Before::new(&server, &clock);
        fill_draining(&server);
        let mut conn = server.conn();
        conn.ok("SET text hello");
        before.look(&mut conn);
        server.shutdown(if config == "appendonly no" {
            "SAVE"
        } else {
            "NOSAVE"
        });

        let mut server = server.restart(Setup::without_module);
        let mut conn = server.conn();
        let error = conn.error("RL.PEEK drains 100 100m");
        assert!(error.starts_with("ERR unknown command"), "{error}");
        assert_same("without the module", &before.picture, &picture(&mut conn));
        assert_eq!(conn.ok("GET text"), Value::BulkString(b"hello".to_vec()));
        conn.ok("INCR other");
        conn.ok("DEL other");
        server.shutdown(if config == "appendonly no" {
            "SAVE"
        } else {
            "NOSAVE"
        });

        let server = server.restart(Setup::with_module);
        before.assert_kept("with the module again", &server);
        assert_drains_on("with the module again", &server, &clock);
    }
}

#[test]
fn save_points_see_takes_and_not_refusals() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let mut server = Setup::new().clock(&clock).config("save 1000 1").start();
    let mut conn = server.conn();
    let changes = |conn: &mut Conn| conn.info_number("persistence", "rdb_changes_since_last_save");
    for limits in [
        "3 1h",
        "FIXEDWINDOW 3 1h",
        "SLIDINGWINDOW 3 1h",
        "SLIDINGLOG 3 1h",
    ] {
        let before = changes(&mut conn);
        conn.five(&format!("RL.TAKE k {limits} COST 2"));
        let after_take = changes(&mut conn);
        assert!(after_take > before, "a take, {limits}");
        conn.five(&format!("RL.TAKE k {limits} COST 2"));
        conn.five(&format!("RL.PEEK k {limits}"));
        let after_refusal = changes(&mut conn);
        assert_eq!(after_refusal, after_take, "a refusal, {limits}");
        conn.five(&format!("RL.GIVE k {limits}"));
        assert!(changes(&mut conn) > after_refusal, "a give, {limits}");
        conn.ok("DEL k");
    }

    conn.ok("SAVE");
    fill_draining(&server);
    conn.five("RL.TAKE k 3 1h");
    conn.five("RL.TAKE k 3 1h");
    clock.advance_ms(1_002_000);
    until("the save point has fired", || changes(&mut conn) == 0);
    // Back to the instant at which the bucket was filled.
    clock.set_us(Clock::START_US);
    server.kill();
    let server = server.restart(|setup| setup);
    assert_drains_on("the save point's RDB", &server, &clock);
}

#[test]
fn dump_restore_copy_and_rename_keep_the_state() {
    let Some(clock) = Clock::settable() else {
        return;
    };
    let server = Setup::new().clock(&clock).start();
    let before = Before::new(&server, &clock);
    let mut conn = server.conn();
    let peeks = before.traffic.peeks();
    for (peek, answer) in peeks.iter().zip(&before.answers) {
        let key = String::from_utf8(peek[1].clone()).unwrap();
        let Value::BulkString(dump) = conn.ok(&format!("DUMP {key}")) else {
            continue;
        };
        let peek_at = |conn: &mut Conn, name: &str| {
            let mut peek = peek.clone();
            peek[1] = name.as_bytes().to_vec();
            conn.send(peek)
        };
        let mut restore = words("RESTORE restored 0");
        restore.push(dump);
        conn.send(restore).unwrap();
        assert_eq!(peek_at(&mut conn, "restored"), *answer, "RESTORE of {key}");
        conn.ok(&format!("COPY {key} copied"));
        assert_eq!(peek_at(&mut conn, "copied"), *answer, "COPY of {key}");
        conn.ok(&format!("RENAME {key} renamed"));
        assert_eq!(peek_at(&mut conn, "renamed"), *answer, "RENAME of {key}");
        let gone = peek_at(&mut conn, &key);
        assert_eq!(
            gone,
            peek_at(&mut conn, "nothing-here"),
            "{key} was renamed"
        );
        conn.ok("DEL restored copied renamed");
    }

    // A state restored without an expiry gets it back at the next write.
    conn.five("RL.TAKE k 10 60");
    let Value::BulkString(dump) = conn.ok("DUMP k") else {
        panic!("no DUMP");
    };
    let mut restore = words("RESTORE forever 0");
    restore.push(dump);
    conn.send(restore).unwrap();
    assert_eq!(conn.int("PTTL forever"), -1);
    assert_eq!(conn.five("RL.TAKE forever 10 60").remaining, 8);
    let ttl_ms = conn.int("PTTL forever");
    assert!((12_000..=15_000).contains(&ttl_ms), "{ttl_ms}");
}
