//! Memory: no call leaves anything behind, and keys that expire give all of theirs back.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{skip, until, words, Clock, Conn, Setup, Words};

/// Calls of the long run: a leak of one byte a call would be a megabyte.
const CALLS: usize = 1_000_000;

/// What may be in use besides, for buffers of the connection and the like.
const SLACK_BYTES: i64 = 128 * 1024;

/// A round of everything that can happen to a key, ending where it began.
fn round() -> Vec<Words> {
    [
        "RL.TAKE one 1000000 1s",
        "RL.TAKE one 1000000 1s COST 1000000",
        "RL.PEEK one 1000000 1s DETAIL",
        "RL.GIVE one 1000000 1s",
        "RL.TAKE one FIXEDWINDOW 5 1s FORCE",
        "RL.TAKE one SLIDINGWINDOW 5 1h SLIDINGLOG 9 1h COST 7 DETAIL",
        "RL.TAKE one SLIDINGLOG 9 1h COST 3 FORCE",
        "RL.TAKE one SLIDINGLOG 9 1h COST 9",
        "RL.GIVE one SLIDINGLOG 9 1h COST 1000",
        "RL.TAKE one 10",
        "RL.TAKE one 10 60 COST x",
        "RL.TAKE one 10 60 NONSENSE",
        "RL.TAKE text 10 60",
        "RL.MTAKE 2 {m}a {m}b 100 1s 100 1s",
        "RL.MTAKE 2 {m}a {m}a 100 1s 100 1s",
        "RL.GIVE {m}a 100 1s",
        "RL.GIVE {m}b 100 1s",
        "RL.THROTTLE one 10 10 60",
        "RL.THROTTLE one 10 10 60 -1000",
        "CL.THROTTLE one 10 10 60 0",
    ]
    .map(words)
    .to_vec()
}

fn used_memory(conn: &mut Conn) -> i64 {
    conn.info_number("memory", "used_memory")
}

#[test]
fn a_million_calls_leave_nothing_behind() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.ok("SET text hello");
    let batch: Vec<Words> = std::iter::repeat_with(round).take(50).flatten().collect();
    for _ in 0..5 {
        conn.pipe(&batch);
    }
    let before = used_memory(&mut conn);
    for _ in 0..CALLS / batch.len() {
        conn.pipe(&batch);
    }
    let grown = used_memory(&mut conn) - before;
    println!("{CALLS} calls: used_memory grew by {grown} bytes");
    assert!(grown < SLACK_BYTES, "grew by {grown} bytes");
}

#[test]
fn expired_keys_give_their_memory_back() {
    let Some(clock) = Clock::settable() else {
        return skip("the clock of this server can't be set");
    };
    let server = Setup::new().clock(&clock).start();
    let mut conn = server.conn();
    let takes = |key: usize| {
        [
            format!("RL.TAKE bucket:{key} 100 60 BURST 20"),
            format!("RL.TAKE log:{key} SLIDINGLOG 10 60 COST 3"),
        ]
        .map(|line| words(&line))
    };
    let before = used_memory(&mut conn);
    for thousand in 0..20 {
        let batch: Vec<Words> = (0..1000).flat_map(|n| takes(thousand * 1000 + n)).collect();
        conn.pipe(&batch);
    }
    let full = used_memory(&mut conn);
    assert_eq!(conn.int("DBSIZE"), 40_000);

    // A log's minute and the slack of its expiry, a quarter.
    clock.advance_ms(60_000 + 15_000 + 1);
    until("all keys have expired", || conn.int("DBSIZE") == 0);
    let left = |conn: &mut Conn| used_memory(conn) - before;
    // The server shrinks its tables in its own time.
    until("the memory is given back", || {
        left(&mut conn) < (full - before) / 20
    });
    println!(
        "40000 keys took {} bytes, {} are left",
        full - before,
        left(&mut conn)
    );
}
