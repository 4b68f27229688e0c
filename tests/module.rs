//! The module as the server sees it: loading, unloading, what it says of its commands.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;

use redis::Value;

use common::{module_path, words, Conn, Setup};

/// Whether the module is in MODULE LIST, beside those that some servers bring along.
fn is_loaded(conn: &mut Conn) -> bool {
    let Value::Array(modules) = conn.ok("MODULE LIST") else {
        panic!("MODULE LIST is no array");
    };
    let name = |module: &Value| -> String {
        match module {
            // ["name", name, "ver", version, ...]
            Value::Array(fields) => redis::from_redis_value(&fields[1]).unwrap(),
            other => panic!("MODULE LIST: {other:?}"),
        }
    };
    modules.iter().any(|module| name(module) == "rl")
}

fn load_line(args: &str) -> String {
    format!("MODULE LOAD {} {args}", module_path().display())
}

#[test]
fn loads_under_its_name() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    assert!(is_loaded(&mut conn));
    for command in [
        "RL.TAKE",
        "RL.PEEK",
        "RL.GIVE",
        "RL.MTAKE",
        "RL.THROTTLE",
        "CL.THROTTLE",
    ] {
        assert!(conn.has_command(command), "{command}");
    }
    let take = conn.five("RL.TAKE k 10 60");
    assert_eq!((take.allowed, take.remaining, take.limit), (1, 9, 10));
}

#[test]
fn an_unknown_module_argument_is_refused_by_name() {
    // In the configuration: the server does not start, and its log says why.
    let Err(log) = Setup::new().module_args("colour blue").try_start() else {
        panic!("the server started with an unknown module argument");
    };
    let says = |log: &str| {
        log.lines()
            .any(|line| line.contains("<rl>") && line.contains("colour"))
    };
    assert!(says(&log), "{log}");

    // At run time: an error, and the server goes on.
    let server = Setup::new().without_module().start();
    let mut conn = server.conn();
    let error = conn.error(&load_line("colour blue"));
    assert!(error.starts_with("ERR "), "{error}");
    assert!(says(&server.log()), "{}", server.log());
    assert!(!is_loaded(&mut conn));
    conn.ok(&load_line(""));
    conn.five("RL.TAKE k 10 60");
}

#[test]
fn loading_twice_is_an_error_and_no_harm() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.five("RL.TAKE k 10 365d COST 4");
    conn.error(&load_line(""));
    assert!(is_loaded(&mut conn));
    assert_eq!(conn.five("RL.TAKE k 10 365d").remaining, 5);
    conn.ok("CL.THROTTLE cell 15 30 60");
}

#[test]
fn unloading_leaves_the_state_and_loading_finds_it() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let limits = [
        "10 3650d",
        "GCRA 10 3650d",
        "LEAKYBUCKET 10 3650d",
        "FIXEDWINDOW 10 3650d",
        "SLIDINGWINDOW 10 3650d",
        "SLIDINGLOG 10 3650d",
        "10 3650d FIXEDWINDOW 20 3650d SLIDINGLOG 30 3650d",
    ];
    for (key, limits) in limits.iter().enumerate() {
        conn.five(&format!("RL.TAKE key:{key} {limits} COST 7"));
    }
    let dumps = |conn: &mut Conn| -> Vec<Value> {
        let keys = 0..limits.len();
        keys.map(|key| conn.ok(&format!("DUMP key:{key}")))
            .collect()
    };
    let before = dumps(&mut conn);
    for _ in 0..5 {
        conn.ok("MODULE UNLOAD rl");
        assert!(!is_loaded(&mut conn));
        for command in ["RL.TAKE k 1 1", "CL.THROTTLE k 1 1 1"] {
            let error = conn.error(command);
            assert!(error.starts_with("ERR unknown command"), "{error}");
        }
        assert_eq!(dumps(&mut conn), before);
        conn.ok(&load_line(""));
        for (key, limits) in limits.iter().enumerate() {
            let peek = conn.five(&format!("RL.PEEK key:{key} {limits}"));
            assert_eq!(peek.remaining, 3, "{limits}");
        }
    }
    let pid = conn.info_field("server", "process_id");
    assert_eq!(pid, server.pid().to_string());
}

#[test]
fn command_info_tells_flags_arity_and_keys() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    // Name, least number of words, flags among those looked at, first key, last key, step.
    let expected = [
        ("rl.take", 4, "denyoom fast write", (1, 1, 1)),
        ("rl.peek", 4, "fast readonly", (1, 1, 1)),
        ("rl.give", 4, "fast write", (1, 1, 1)),
        ("rl.throttle", 5, "denyoom fast write", (1, 1, 1)),
        ("cl.throttle", 5, "denyoom fast write", (1, 1, 1)),
    ];
    for (name, arity, flags, keys) in expected {
        let info = command_info(&mut conn, name);
        // Redis 6.2 takes no arity from a module: it says -1.
        assert!([-arity, -1].contains(&info.arity), "{name}: {}", info.arity);
        assert_eq!(
            info.flags,
            flags.split(' ').map(str::to_owned).collect(),
            "{name}"
        );
        assert_eq!(info.keys, keys, "{name}");
    }
    let info = command_info(&mut conn, "rl.mtake");
    let flags = "denyoom movablekeys write";
    let has: BTreeSet<String> = &info.flags - &BTreeSet::from(["fast".to_owned()]);
    assert_eq!(
        has,
        flags.split(' ').map(str::to_owned).collect(),
        "rl.mtake"
    );

    let mut getkeys = |line: &str| -> Vec<String> {
        redis::from_redis_value(&conn.ok(&format!("COMMAND GETKEYS {line}"))).unwrap()
    };
    assert_eq!(getkeys("RL.TAKE k 10 60"), ["k"]);
    assert_eq!(getkeys("RL.PEEK k 10 60 COST 5"), ["k"]);
    assert_eq!(getkeys("RL.GIVE k 10 60"), ["k"]);
    assert_eq!(getkeys("CL.THROTTLE k 15 30 60"), ["k"]);
    assert_eq!(getkeys("RL.MTAKE 3 a b c 1 1 2 2 3 3"), ["a", "b", "c"]);
}

struct CommandInfo {
    arity: i64,
    flags: BTreeSet<String>,
    keys: (i64, i64, i64),
}

fn command_info(conn: &mut Conn, name: &str) -> CommandInfo {
    let answer = conn.send(words(&format!("COMMAND INFO {name}"))).unwrap();
    let Value::Array(commands) = answer else {
        panic!("{name}: {answer:?}");
    };
    let Some(Value::Array(fields)) = commands.first() else {
        panic!("{name}: {commands:?}");
    };
    let int = |i: usize| -> i64 { redis::from_redis_value(&fields[i]).unwrap() };
    let flags: BTreeSet<String> = redis::from_redis_value(&fields[2]).unwrap();
    let looked_at = [
        "write",
        "readonly",
        "denyoom",
        "fast",
        "noscript",
        "movablekeys",
        "admin",
    ];
    CommandInfo {
        arity: int(1),
        flags: flags
            .into_iter()
            .filter(|flag| looked_at.contains(&flag.as_str()))
            .collect(),
        keys: (int(3), int(4), int(5)),
    }
}
