//! Anything at all, for a while: the server lives, and what it holds stays right.
//!
//! `RL_FUZZ_SECONDS` says how long (20), `RL_FUZZ_SEED` where to start; both are printed. One
//! connection sends commands that follow the grammar, word soup, and bytes that follow nothing;
//! between them stored values are broken, restored and moved, the clock jumps by years both ways,
//! and the server saves, rewrites, reloads and runs out of memory. Around every limiter command
//! the keys are looked at, so it is known what the command changed.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::env;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use common::arguments::TRILLION;
use common::traffic::{assert_same, expiry_command, picture, picture_of, seed_from_env, Rng};
use common::{until, wait_in_sync, words, Answer, Clock, Conn, Reply, Server, Setup, Words};

/// Nothing is ever announced for later than the longest drain, 36500 days.
const LONGEST_MS: i64 = 36_500 * 86_400_000;

/// The clock stays between the years 2001 and 2255.
const CLOCK_US: std::ops::Range<i64> = TRILLION * 1000..TRILLION * 9000;

/// Keys that all steps share. The tag lets RL.MTAKE have them together in a cluster too.
const KEYS: [&str; 5] = ["{f}a", "{f}b", "{f}c", "{f}d", "{f}e"];

#[test]
fn nothing_breaks_the_server_or_its_promises() {
    let seconds = env::var("RL_FUZZ_SECONDS").map_or(20, |text| {
        text.parse().expect("RL_FUZZ_SECONDS must be a number")
    });
    let seed = seed_from_env("RL_FUZZ_SEED");
    println!("RL_FUZZ_SECONDS={seconds} RL_FUZZ_SEED={seed}");
    let clock = Clock::settable();
    let server = Setup::new()
        .maybe_clock(clock.as_ref())
        .tcp()
        .config("appendonly yes")
        .config("appendfsync no")
        .config("maxmemory-policy noeviction")
        .start();
    let replica = server.replica(Setup::without_module);

    let mut fuzz = Fuzz::new(seed, &server, clock);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        fuzz.step();
    }
    println!("{} steps, {:?}", fuzz.steps, fuzz.count);
    fuzz.conn.ok("CONFIG SET maxmemory 0");
    let pid = fuzz.conn.info_field("server", "process_id");
    assert_eq!(pid, server.pid().to_string(), "the server was restarted");
    for count in ["admitted", "refused", "WRONGTYPE", "ERR"] {
        assert!(fuzz.count.contains_key(count), "no {count} in all this");
    }

    // After all that a replica without the module and a restarted server hold the same bytes.
    if fuzz.clock.is_some() {
        let before = picture(&mut fuzz.conn);
        let mut on_replica = replica.conn();
        wait_in_sync(&mut fuzz.conn, &mut on_replica);
        assert_same("replica", &before, &picture(&mut on_replica));
        drop(fuzz);
        let mut server = server;
        // Not killed: a memory checker wants to see it end.
        server.shutdown("NOSAVE");
        let server = server.restart(|setup| setup);
        assert_same("restarted", &before, &picture(&mut server.conn()));
    }
}

/// What is known of the state under a key that is not simply untouched.
#[derive(Clone, PartialEq, Eq)]
enum Known {
    /// Written by a call with these limits, and the clock has not gone back since.
    Written(String),
    /// Written by a call with these limits, and the clock has gone back since.
    SteppedBack(String),
    /// Anything: another hand wrote it.
    Foreign,
}

struct Fuzz<'a> {
    rng: Rng,
    server: &'a Server,
    conn: Conn,
    clock: Option<Clock>,
    expiry: &'static str,
    known: HashMap<Vec<u8>, Known>,
    /// Every key name used since the last FLUSHALL.
    names: BTreeSet<Vec<u8>>,
    out_of_memory: bool,
    steps: u64,
    count: HashMap<&'static str, u64>,
    /// The latest commands, printed when the test fails.
    history: VecDeque<String>,
}

/// A command that follows the grammar.
struct Call {
    name: &'static str,
    key: String,
    limits: String,
    /// What the options ask for: `COST n`, `ATMOST n` or nothing.
    asks: String,
    /// The units asked for.
    units: i64,
    force: bool,
    detail: bool,
}

impl Call {
    fn words(&self) -> Words {
        let force = if self.force { " FORCE" } else { "" };
        let detail = if self.detail { " DETAIL" } else { "" };
        words(&format!(
            "{} {} {} {}{force}{detail}",
            self.name, self.key, self.limits, self.asks
        ))
    }
}

impl<'a> Fuzz<'a> {
    fn new(seed: u64, server: &'a Server, clock: Option<Clock>) -> Fuzz<'a> {
        let mut conn = server.conn();
        Fuzz {
            rng: Rng::new(seed),
            server,
            expiry: expiry_command(&mut conn),
            conn,
            clock,
            known: HashMap::new(),
            names: KEYS.iter().map(|key| key.as_bytes().to_vec()).collect(),
            out_of_memory: false,
            steps: 0,
            count: HashMap::new(),
            history: VecDeque::new(),
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.rng.below(1000) {
            0..=499 => self.call(),
            500..=599 => {
                let command = self.soup();
                self.run_wild(command);
            }
            600..=699 => {
                let command = self.almost_right();
                self.run_wild(command);
            }
            700..=729 => self.mtake(),
            730..=759 => self.throttle(),
            760..=889 => self.break_a_value(),
            890..=929 => self.jump(),
            930..=985 => self.move_keys(),
            986..=989 => self.grow_a_log(),
            _ => self.trouble_the_server(),
        }
    }

    // -----------------------------------------------------------------------------------------
    // Running a command and looking at what it did

    fn remember(&mut self, command: &Words) {
        let mut line = String::new();
        for word in command.iter().take(40) {
            let clipped = &word[..word.len().min(80)];
            line.push_str(&format!("{} ", clipped.escape_ascii()));
        }
        if let Some(clock) = &self.clock {
            line.push_str(&format!("  @{}", clock.now_us()));
        }
        if self.history.len() == 40 {
            self.history.pop_front();
        }
        self.history.push_back(line);
    }

    /// A command whose reply doesn't matter.
    fn just(&mut self, command: Words) -> Answer {
        self.remember(&command);
        self.conn.send(command)
    }

    fn line(&mut self, line: &str) -> Answer {
        self.just(words(line))
    }

    fn dump_commands(&self, keys: &[Vec<u8>]) -> Vec<Words> {
        keys.iter()
            .flat_map(|key| {
                [
                    vec![b"DUMP".to_vec(), key.clone()],
                    vec![self.expiry.as_bytes().to_vec(), key.clone()],
                ]
            })
            .collect()
    }

    /// Runs a limiter command; its answer, and which of the keys it changed.
    fn look_around(&mut self, command: Words, keys: &[Vec<u8>]) -> (Answer, Vec<Vec<u8>>) {
        self.remember(&command);
        self.names.extend(keys.iter().cloned());
        let look = self.dump_commands(keys);
        let mut commands = look.clone();
        commands.push(command);
        commands.extend(look);
        let answers = self.conn.pipe(&commands);
        let half = keys.len() * 2;
        let (before, answer, after) = (&answers[..half], &answers[half], &answers[half + 1..]);
        let mut changed = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let (before, after) = (&before[2 * i..2 * i + 2], &after[2 * i..2 * i + 2]);
            // Where the clock can't be stopped a key may run out between the two looks.
            let ran_out = self.clock.is_none() && after[0] == Ok(Value::Nil);
            if before != after && !ran_out {
                changed.push(key.clone());
            }
        }
        let kind = match answer {
            Err(error) => self.check_error(error),
            Ok(Value::Array(items)) if items.first() == Some(&Value::Int(0)) => "refused",
            Ok(_) => "admitted",
        };
        *self.count.entry(kind).or_default() += 1;
        if answer.is_err() {
            assert!(
                changed.is_empty(),
                "an error changed {changed:?}: {answer:?}"
            );
        }
        (answer.clone(), changed)
    }

    fn check_error(&self, error: &str) -> &'static str {
        let printable = error.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        assert!(printable, "not printable: {error:?}");
        match error.split(' ').next() {
            Some("ERR") => {
                assert!(!error.contains("internal"), "{error}");
                "ERR"
            }
            Some("WRONGTYPE") => "WRONGTYPE",
            Some("OOM") if self.out_of_memory => "OOM",
            // What Redis 6.2 says in a script.
            Some("@user_script:") if self.out_of_memory && error.contains("-OOM ") => "OOM",
            _ => panic!("what kind of error is {error:?}?"),
        }
    }

    // -----------------------------------------------------------------------------------------
    // Commands that follow the grammar, with all that can be said of them

    fn call(&mut self) {
        let limits = self.rng.limits();
        let key = (*self.rng.pick(&KEYS)).to_owned();
        // Mostly the limits that wrote the state, or it would change hands at every call.
        let limits = match self.known.get(key.as_bytes()) {
            Some(Known::Written(limits) | Known::SteppedBack(limits)) if self.rng.chance(75) => {
                limits.clone()
            }
            _ => limits,
        };
        let name = *self
            .rng
            .pick(&["RL.TAKE", "RL.TAKE", "RL.TAKE", "RL.GIVE", "RL.PEEK"]);
        let units = self.rng.units();
        let (asks, units) = match self.rng.below(4) {
            0 => (String::new(), 1),
            1 if name != "RL.GIVE" => (format!("ATMOST {units}"), units),
            _ => (format!("COST {units}"), units),
        };
        let call = Call {
            name,
            key,
            limits,
            asks,
            units,
            force: name == "RL.TAKE" && self.rng.chance(8),
            detail: self.rng.chance(10),
        };
        let mut command = call.words();
        let in_script = self.rng.chance(4);
        if in_script {
            let mut script = words("EVAL");
            script.push(b"return redis.pcall(unpack(ARGV))".to_vec());
            script.push(b"1".to_vec());
            script.push(call.key.clone().into_bytes());
            script.append(&mut command);
            command = script;
        }
        let key = call.key.clone().into_bytes();
        let (answer, changed) = self.look_around(command, std::slice::from_ref(&key));
        let Ok(value) = answer else {
            // Keys that are broken for good would soon be all there is.
            if self.rng.chance(30) {
                let _ = self.line(&format!("DEL {}", call.key));
                self.known.remove(&key);
            }
            return;
        };
        let reply = check_reply(&value, call.detail);
        let most = if call.asks.starts_with("ATMOST") {
            call.units
        } else {
            1
        };
        assert!((0..=most).contains(&reply.allowed), "{reply:?}");
        let known = self.known.get(&key).cloned();
        let same = known == Some(Known::Written(call.limits.clone()));
        let changed = !changed.is_empty();
        match call.name {
            "RL.PEEK" => assert!(!changed, "a peek changed the key"),
            _ if call.units == 0 => assert!(!changed, "no units changed the key"),
            "RL.GIVE" => assert_eq!((reply.allowed, reply.wait_ms), (1, 0), "{reply:?}"),
            _ if reply.allowed > 0 => assert!(changed, "a take left no trace"),
            _ if known.is_none() || same => assert!(!changed, "a refusal changed the key"),
            _ => {}
        }
        if changed {
            self.known.insert(key, Known::Written(call.limits.clone()));
        }
        if self.clock.is_some() && self.rng.chance(30) {
            self.check_remaining(&call, reply);
            // A key that another hand wrote may have any expiry, until the module writes it.
            if changed || known != Some(Known::Foreign) {
                self.check_wait(&call, reply);
            }
        }
    }

    fn peek_allows(&mut self, call: &Call, asks: &str) -> bool {
        let line = format!("RL.PEEK {} {} {asks}", call.key, call.limits);
        let value = self.line(&line).expect("a peek after a reply");
        check_reply(&value, false).allowed > 0
    }

    /// `remaining` units can be had now, and not one more.
    fn check_remaining(&mut self, call: &Call, reply: Reply) {
        let Some(single) = Single::parse(&call.limits) else {
            return;
        };
        let remaining = reply.remaining;
        // A bucket may be deep in debt, which shows as nothing remaining.
        if remaining > 0 || !single.is_bucket {
            let longest_ms = single.longest_us().div_ceil(1000);
            let announced_ms = reply.wait_ms.max(reply.reset_ms);
            assert!(
                u128::try_from(announced_ms).unwrap() <= longest_ms,
                "locked out: {reply:?}"
            );
        }
        if remaining > 0 {
            let allows = self.peek_allows(call, &format!("COST {remaining}"));
            assert!(allows, "less than remaining: {reply:?}");
        }
        let most = if call.limits.starts_with("SLIDINGLOG") {
            100_000
        } else {
            TRILLION
        };
        if remaining < most {
            let allows = self.peek_allows(call, &format!("COST {}", remaining + 1));
            assert!(!allows, "more than remaining: {reply:?}");
        }
    }

    /// A refused take is refused a millisecond before its wait is over, and admitted then.
    fn check_wait(&mut self, call: &Call, reply: Reply) {
        let Some(clock) = self.clock.clone() else {
            return;
        };
        let end_us = clock.now_us() + reply.wait_ms.max(0) * 1000;
        let was_refused = call.name == "RL.TAKE" && reply.allowed == 0 && call.units > 0;
        if !was_refused || !CLOCK_US.contains(&end_us) {
            return;
        }
        if reply.wait_ms < 0 {
            let allows = self.peek_allows(call, &call.asks);
            assert!(!allows, "never came true: {reply:?}");
            return;
        }
        assert!(reply.wait_ms >= 1, "{reply:?}");
        clock.set_us(end_us - 1000);
        assert!(!self.peek_allows(call, &call.asks), "too early: {reply:?}");
        clock.set_us(end_us);
        assert!(self.peek_allows(call, &call.asks), "too late: {reply:?}");
    }

    fn mtake(&mut self) {
        let count = 1 + self.rng.index(KEYS.len());
        let mut keys: Vec<Vec<u8>> = KEYS[..count]
            .iter()
            .map(|key| key.as_bytes().to_vec())
            .collect();
        let limits: Vec<String> = keys.iter().map(|_| self.rng.limit()).collect();
        let units = self.rng.units();
        let mut command = words(&format!("RL.MTAKE {count}"));
        command.extend(keys.iter().cloned());
        command.extend(words(&format!("{} COST {units}", limits.join(" "))));
        if self.rng.chance(10) {
            // The same key twice.
            command[2 + self.rng.index(count)] = keys[0].clone();
        }
        let (answer, changed) = self.look_around(command, &keys);
        if let Ok(value) = answer {
            let reply = check_reply(&value, false);
            assert!((0..=1).contains(&reply.allowed), "{reply:?}");
            if reply.allowed == 1 && units > 0 {
                assert_eq!(changed.len(), count, "not all keys were charged");
            }
            if units == 0 {
                assert!(changed.is_empty(), "no units changed {changed:?}");
            }
        }
        for (key, limit) in keys.drain(..).zip(limits) {
            if changed.contains(&key) {
                self.known.insert(key, Known::Written(limit));
            }
        }
    }

    fn throttle(&mut self) {
        let key = self.rng.pick(&KEYS).as_bytes().to_vec();
        let (burst, count) = (self.rng.number(), self.rng.number());
        let (period, quantity) = (self.rng.period(), self.rng.number());
        let name = *self
            .rng
            .pick(&["RL.THROTTLE", "CL.THROTTLE", "cl.throttle"]);
        let mut command = words(name);
        command.push(key.clone());
        command.extend([burst, count, period]);
        if self.rng.chance(70) {
            command.push(quantity);
        }
        let (answer, changed) = self.look_around(command, std::slice::from_ref(&key));
        if let Ok(value) = answer {
            let reply = Reply::from_value(&value).expect("five integers");
            // [limited, limit, remaining, retry_after_s, reset_after_s]
            let [limited, limit, remaining, retry, reset] = [
                reply.allowed,
                reply.remaining,
                reply.wait_ms,
                reply.reset_ms,
                reply.limit,
            ];
            assert!((0..=1).contains(&limited), "{value:?}");
            assert!((1..=TRILLION).contains(&limit), "{value:?}");
            assert!((0..=limit).contains(&remaining), "{value:?}");
            assert!((-1..=LONGEST_MS / 1000).contains(&retry), "{value:?}");
            assert!((0..=LONGEST_MS / 1000).contains(&reset), "{value:?}");
        }
        if !changed.is_empty() {
            self.known.insert(key, Known::Foreign);
        }
    }

    // -----------------------------------------------------------------------------------------
    // Commands that follow no grammar

    fn run_wild(&mut self, command: Words) {
        let mut keys: Vec<Vec<u8>> = KEYS.iter().map(|key| key.as_bytes().to_vec()).collect();
        for word in command.iter().skip(1).take(3) {
            if !keys.contains(word) {
                keys.push(word.clone());
            }
        }
        let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
        let (answer, changed) = self.look_around(command, &keys);
        if let Ok(value) = &answer {
            if name.ends_with("THROTTLE") {
                assert!(Reply::from_value(value).is_some(), "{value:?}");
            } else {
                let Value::Array(items) = value else {
                    panic!("not an array: {value:?}");
                };
                check_reply(value, items.len() == 6);
            }
        }
        if name == "RL.PEEK" {
            assert!(changed.is_empty(), "a peek changed {changed:?}");
        }
        for key in changed {
            self.known.insert(key, Known::Foreign);
        }
    }

    /// A right command with one or two words replaced, dropped, doubled or swapped.
    fn almost_right(&mut self) -> Words {
        let limits = self.rng.limits();
        let units = self.rng.units();
        let key = *self.rng.pick(&KEYS);
        let line = match self.rng.below(6) {
            0 => format!("RL.PEEK {key} {limits} ATMOST {units} DETAIL"),
            1 => format!("RL.GIVE {key} {limits} COST {units}"),
            2 => format!(
                "RL.MTAKE 2 {key} {{f}}z 10 60 {} COST {units}",
                self.rng.limit()
            ),
            3 => format!("CL.THROTTLE {key} 15 30 60 {units}"),
            _ => format!("RL.TAKE {key} {limits} COST {units} FORCE DETAIL"),
        };
        let mut command = words(&line);
        for _ in 0..1 + self.rng.below(2) {
            let at = 1 + self.rng.index(command.len() - 1);
            match self.rng.below(5) {
                0 if command.len() > 2 => {
                    command.remove(at);
                }
                1 => command.insert(at, command[at].clone()),
                2 => {
                    let other = 1 + self.rng.index(command.len() - 1);
                    command.swap(at, other);
                }
                3 => command.truncate(at.max(2)),
                _ => command[at] = self.rng.word(),
            }
        }
        command
    }

    /// A limiter command with any words behind it.
    fn soup(&mut self) -> Words {
        let name = *self.rng.pick(&[
            "RL.TAKE",
            "RL.PEEK",
            "RL.GIVE",
            "RL.MTAKE",
            "RL.THROTTLE",
            "CL.THROTTLE",
            "rl.take",
        ]);
        let mut command = words(name);
        if name == "RL.MTAKE" && self.rng.chance(70) {
            let count = self.rng.below(140).to_string();
            command.push(count.into_bytes());
        }
        if self.rng.chance(80) {
            command.push(self.rng.pick(&KEYS).as_bytes().to_vec());
        }
        let count = match self.rng.below(100) {
            0 => 2000,
            1..=4 => self.rng.index(200),
            _ => self.rng.index(14),
        };
        for _ in 0..count {
            let word = self.rng.word();
            command.push(word);
        }
        command
    }

    // -----------------------------------------------------------------------------------------
    // What goes on between the commands

    fn forget(&mut self, key: &str) {
        self.known.insert(key.as_bytes().to_vec(), Known::Foreign);
    }

    fn stored(&mut self, key: &str) -> Vec<u8> {
        match self.line(&format!("GET {key}")) {
            Ok(Value::BulkString(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    fn set(&mut self, key: &str, value: Vec<u8>) {
        let mut command = words(&format!("SET {key}"));
        command.push(value);
        if self.rng.chance(70) {
            command.push(b"KEEPTTL".to_vec());
        }
        let _ = self.just(command);
    }

    /// Changes a stored value behind the module's back.
    fn break_a_value(&mut self) {
        let key = *self.rng.pick(&KEYS);
        let mut value = self.stored(key);
        self.forget(key);
        match self.rng.below(12) {
            0..=2 if !value.is_empty() => {
                for _ in 0..1 + self.rng.below(3) {
                    let at = self.rng.index(value.len());
                    value[at] ^= 1 << self.rng.below(8);
                }
                self.set(key, value);
            }
            3 if !value.is_empty() => {
                value.truncate(self.rng.index(value.len()));
                self.set(key, value);
            }
            4 => {
                let more = self.rng.bytes();
                value.extend(more);
                self.set(key, value);
            }
            5 if !value.is_empty() => {
                // A field full of ones, of zeros, or of anything.
                let at = self.rng.index(value.len());
                let fill = *self.rng.pick(&[0, 0x7f, 0x80, 0xff]);
                let end = (at + 8).min(value.len());
                value[at..end].fill(fill);
                self.set(key, value);
            }
            6 => {
                // Parts of two states in one.
                let other = *self.rng.pick(&KEYS);
                let other = self.stored(other);
                let cut = self.rng.index(value.len().min(other.len()) + 1);
                value.truncate(cut);
                value.extend(&other[cut..]);
                self.set(key, value);
            }
            7 => {
                // Bytes that begin as a state does.
                let mut value = vec![0x90 | (self.rng.byte() & 0x0f)];
                for _ in 0..self.rng.below(64) {
                    let byte = self.rng.byte();
                    value.push(byte);
                }
                self.set(key, value);
            }
            8 => {
                let mut command = words(&format!("SETRANGE {key} {}", self.rng.below(30)));
                command.push(self.rng.bytes());
                let _ = self.just(command);
            }
            9 => {
                let mut command = words(&format!("APPEND {key}"));
                command.push(self.rng.bytes());
                let _ = self.just(command);
            }
            10 => {
                let value = self.rng.bytes();
                self.set(key, value);
            }
            _ => {
                let _ = self.line(&format!("DEL {key}"));
                let line = *self.rng.pick(&[
                    "SET k hello",
                    "SET k 12345",
                    "SETBIT k 7 0",
                    "RPUSH k a b",
                    "HSET k t 5",
                    "SADD k a",
                    "ZADD k 1 a",
                    "XADD k * t 5",
                    "PFADD k a",
                ]);
                let _ = self.line(&line.replacen(" k ", &format!(" {key} "), 1));
            }
        }
    }

    /// The clock jumps by a microsecond or by years, on or back.
    fn jump(&mut self) {
        let Some(clock) = self.clock.clone() else {
            return;
        };
        let bits = self.rng.below(51);
        let size = i64::try_from(self.rng.below(1 << bits)).unwrap();
        let back = self.rng.chance(40);
        let to = clock.now_us() + if back { -size } else { size };
        // After ten years this way and ten that way, home again.
        let to = if self.rng.chance(2) || !CLOCK_US.contains(&to) {
            Clock::START_US
        } else {
            to
        };
        if to < clock.now_us() {
            for known in self.known.values_mut() {
                if let Known::Written(limits) = known {
                    *known = Known::SteppedBack(std::mem::take(limits));
                }
            }
        }
        clock.set_us(to);
    }

    fn move_keys(&mut self) {
        let (from, to) = (*self.rng.pick(&KEYS), *self.rng.pick(&KEYS));
        self.forget(from);
        self.forget(to);
        let bits = self.rng.below(40);
        let ms = self.rng.below(1 << bits);
        let line = match self.rng.below(9) {
            0 => format!("DEL {from}"),
            1 => format!("PERSIST {from}"),
            2 => format!("PEXPIRE {from} {ms}"),
            3 => format!("PEXPIRE {from} -1"),
            4 if from != to => format!("COPY {from} {to} REPLACE"),
            5 => format!("RENAME {from} {to}"),
            6 => "FLUSHALL".to_owned(),
            _ => {
                let Ok(Value::BulkString(mut payload)) = self.line(&format!("DUMP {from}")) else {
                    return;
                };
                if self.rng.chance(50) {
                    let at = self.rng.index(payload.len());
                    payload[at] ^= 1 << self.rng.below(8);
                }
                let ttl = if self.rng.chance(50) { 0 } else { ms };
                let mut command = words(&format!("RESTORE {to} {ttl}"));
                command.push(payload);
                command.push(b"REPLACE".to_vec());
                let _ = self.just(command);
                return;
            }
        };
        let _ = self.line(&line);
    }

    /// A log too long to be stored in one piece at every take.
    fn grow_a_log(&mut self) {
        let key = *self.rng.pick(&KEYS);
        self.forget(key);
        let takes = 30 + self.rng.below(40);
        for _ in 0..takes {
            let answer = self.line(&format!("RL.TAKE {key} SLIDINGLOG 50 1h FORCE"));
            match answer {
                Ok(value) => assert!(check_reply(&value, false).allowed == 1, "{value:?}"),
                Err(error) => {
                    self.check_error(&error);
                    return;
                }
            }
            if let Some(clock) = &self.clock {
                clock.advance_ms(1);
            }
        }
        let limits = "SLIDINGLOG 50 1h".to_owned();
        self.known
            .insert(key.as_bytes().to_vec(), Known::Written(limits));
    }

    fn trouble_the_server(&mut self) {
        match self.rng.below(40) {
            0 => {
                let _ = self.line("BGSAVE");
            }
            1 => {
                let _ = self.line("BGREWRITEAOF");
            }
            2 => {
                // A background save that ends meanwhile would put an older file in its place.
                let conn = &mut self.conn;
                until("no save is under way", || {
                    conn.info_field("persistence", "rdb_bgsave_in_progress") == "0"
                });
                // Looking at a key that has run out deletes it, and tells the AOF and the
                // replica so; DEBUG RELOAD would drop it without a word.
                let names: Vec<Vec<u8>> = self.names.iter().cloned().collect();
                let before = picture_of(&mut self.conn, &names);
                self.line("DEBUG RELOAD").expect("DEBUG RELOAD");
                let after = picture_of(&mut self.conn, &names);
                if self.clock.is_some() {
                    assert_same("DEBUG RELOAD", &before, &after);
                }
            }
            3..=5 => {
                self.out_of_memory = true;
                self.line("CONFIG SET maxmemory 1").unwrap();
            }
            6..=20 => {
                self.line("CONFIG SET maxmemory 0").unwrap();
                self.out_of_memory = false;
            }
            21..=23 => {
                self.line("FLUSHALL").unwrap();
                self.known.clear();
                self.names = KEYS.iter().map(|key| key.as_bytes().to_vec()).collect();
            }
            _ => {
                // Several calls in a transaction; their replies are looked at like any other.
                self.line("MULTI").unwrap();
                let count = 1 + self.rng.below(5);
                for _ in 0..count {
                    let key = *self.rng.pick(&KEYS);
                    self.forget(key);
                    let limit = self.rng.limit();
                    let _ = self.line(&format!("RL.TAKE {key} {limit}"));
                }
                match self.line("EXEC") {
                    Ok(Value::Array(values)) => {
                        for value in values {
                            match value {
                                Value::ServerError(error) => {
                                    let details = error.details().unwrap_or_default();
                                    let line = format!("{} {details}", error.code());
                                    self.check_error(&line);
                                }
                                value => {
                                    check_reply(&value, false);
                                }
                            }
                        }
                    }
                    Err(error) => assert!(error.starts_with("EXECABORT"), "{error}"),
                    Ok(other) => panic!("EXEC: {other:?}"),
                }
            }
        }
    }
}

impl Drop for Fuzz<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- step {}, the latest commands:", self.steps);
            for line in &self.history {
                eprintln!("{line}");
            }
            eprintln!("--- server {}", self.server.pid());
        }
    }
}

/// A limit alone, `[NAME] count period [BURST burst]`, and the numbers in it.
struct Single {
    is_bucket: bool,
    is_sliding_window: bool,
    count: u128,
    period_us: u128,
    burst: u128,
}

impl Single {
    fn parse(limits: &str) -> Option<Single> {
        let words: Vec<&str> = limits.split(' ').collect();
        let is_named = words[0].starts_with(|c: char| c.is_ascii_alphabetic());
        let (name, numbers) = if is_named {
            (words[0], &words[1..])
        } else {
            ("TOKENBUCKET", &words[..])
        };
        let (count, period, burst) = match numbers {
            [count, period] => (count, period, count),
            [count, period, "BURST", burst] => (count, period, burst),
            _ => return None,
        };
        Some(Single {
            is_bucket: !name.contains("WINDOW") && name != "SLIDINGLOG",
            is_sliding_window: name == "SLIDINGWINDOW",
            count: count.parse().unwrap(),
            period_us: period_us(period),
            burst: burst.parse().unwrap(),
        })
    }

    /// The longest that anything can be held against the limit without a debt.
    fn longest_us(&self) -> u128 {
        if self.is_bucket {
            (self.burst * self.period_us)
                .checked_div(self.count)
                .map_or(0, |drain_us| drain_us + 1)
        } else if self.is_sliding_window {
            2 * self.period_us
        } else {
            self.period_us
        }
    }
}

/// The length of a period as the right ones are written here.
fn period_us(text: &str) -> u128 {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_us: u128 = match &text[digits.len()..] {
        "us" => 1,
        "ms" => 1000,
        "" => 1_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        unit => panic!("which unit is {unit}?"),
    };
    match digits.split_once('.') {
        None => digits.parse::<u128>().unwrap() * unit_us,
        Some((_, fraction)) => {
            let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap());
            fraction.parse::<u128>().unwrap() * unit_us / scale
        }
    }
}

/// Checks that every field of a reply is in its range.
fn check_reply(value: &Value, detail: bool) -> Reply {
    let Value::Array(items) = value else {
        panic!("not an array: {value:?}");
    };
    assert_eq!(items.len(), if detail { 6 } else { 5 }, "{value:?}");
    let reply = Reply::from_value(&Value::Array(items[..5].to_vec())).expect("five integers");
    assert!((0..=TRILLION).contains(&reply.allowed), "{value:?}");
    let fields = (reply.remaining, reply.wait_ms, reply.reset_ms, reply.limit);
    check_fields(fields, value);
    if detail {
        let Value::Array(limits) = &items[5] else {
            panic!("no list of limits: {value:?}");
        };
        assert!((1..=128).contains(&limits.len()), "{value:?}");
        for limit in limits {
            check_fields(redis::from_redis_value(limit).unwrap(), value);
        }
    }
    reply
}

/// remaining, wait_ms, reset_ms, limit
fn check_fields(fields: (i64, i64, i64, i64), value: &Value) {
    let (remaining, wait_ms, reset_ms, limit) = fields;
    assert!((0..=TRILLION).contains(&limit), "{value:?}");
    assert!((0..=limit).contains(&remaining), "{value:?}");
    assert!((-1..=LONGEST_MS).contains(&wait_ms), "{value:?}");
    assert!((0..=LONGEST_MS).contains(&reset_ms), "{value:?}");
}
