//! What the server tests share: a real server of their own with the module in it, a clock that
//! stands still until a test moves it, and a connection that shows replies as they are.
//!
//! Three environment variables choose what is tested:
//! `RL_SERVER` (a `redis-server` or `valkey-server`, default the `redis-server` on the PATH),
//! `RL_MODULE` (default `target/release/libredis_rl.so`) and
//! `RL_CLOCK` (default `target/clock/librlclock.so`, built from `tests/clock/clock.c`).

// Each test binary compiles this module for itself and uses only a part of it.
#![allow(dead_code)]
// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod arguments;
pub mod traffic;

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, Value};

/// How long a test waits for something that takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until `done` says yes; `what` names it in the failure.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Says why a test has nothing to test on this server.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
}

// ---------------------------------------------------------------------------------------------
// Files

/// A directory of its own for each server and clock, removed with it.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "redis-rl-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file named by an environment variable, or by its place in the source tree.
fn file_from_env(variable: &str, default: &str, how_to_build: &str) -> PathBuf {
    let path = env::var_os(variable).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(default),
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "{} is missing: {how_to_build}, or set {variable}",
        path.display()
    );
    fs::canonicalize(path).unwrap()
}

/// The module under test.
pub fn module_path() -> PathBuf {
    file_from_env(
        "RL_MODULE",
        "target/release/libredis_rl.so",
        "run `cargo build --release`",
    )
}

fn clock_path() -> PathBuf {
    file_from_env(
        "RL_CLOCK",
        "target/clock/librlclock.so",
        "run `mkdir -p target/clock && cc -shared -fPIC -O2 -o target/clock/librlclock.so tests/clock/clock.c`",
    )
}

fn server_path() -> String {
    env::var("RL_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Whether the server is older than Redis 7, which knows fewer settings.
pub fn before_redis_7() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let output = Command::new(server_path())
            .arg("--version")
            .output()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", server_path()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.contains("v=6.") || text.contains("v=5.")
    })
}

// ---------------------------------------------------------------------------------------------
// The clock

/// A clock that servers read in place of the machine's. It stands still unless a test moves it.
#[derive(Clone)]
pub struct Clock(Arc<ClockFile>);

struct ClockFile {
    file: File,
    dir: Dir,
}

impl Clock {
    /// Where every clock starts: a whole minute and a whole hour, some years after 2020.
    pub const START_US: i64 = 1_800_000_000_000_000;

    /// A new clock, or none (with the reason printed) where the server's time can't be set.
    pub fn settable() -> Option<Clock> {
        static TAKES: OnceLock<bool> = OnceLock::new();
        let takes = *TAKES.get_or_init(|| {
            let clock = Clock::new();
            let server = Setup::new().without_module().clock(&clock).start();
            server.conn().time_us() == Clock::START_US
        });
        if !takes {
            skip("this server's clock can't be set");
        }
        takes.then(Clock::new)
    }

    fn new() -> Clock {
        let dir = Dir::new();
        let file = File::create(dir.0.join("clock")).unwrap();
        let clock = Clock(Arc::new(ClockFile { file, dir }));
        clock.set_us(Clock::START_US);
        clock
    }

    /// Sets the time, in microseconds since 1970.
    pub fn set_us(&self, now_us: i64) {
        // One aligned eight-byte write: a server that reads meanwhile sees the old or the new time.
        self.0
            .file
            .write_all_at(&now_us.to_ne_bytes(), 0)
            .expect("the clock file can be written");
    }

    pub fn now_us(&self) -> i64 {
        let bytes = fs::read(self.path()).unwrap();
        i64::from_ne_bytes(bytes.try_into().unwrap())
    }

    /// Moves the time on, or back where `us` is negative.
    pub fn advance_us(&self, us: i64) {
        self.set_us(self.now_us() + us);
    }

    pub fn advance_ms(&self, ms: i64) {
        self.advance_us(ms * 1000);
    }

    fn path(&self) -> PathBuf {
        self.0.dir.0.join("clock")
    }
}

// ---------------------------------------------------------------------------------------------
// The server

/// What a server is started with.
#[derive(Clone)]
pub struct Setup {
    module: bool,
    module_args: String,
    clock: Option<Clock>,
    tcp: bool,
    config: Vec<String>,
    dir: Arc<Dir>,
}

impl Setup {
    /// The module, the machine's clock, a Unix socket only, nothing saved.
    pub fn new() -> Setup {
        Setup {
            module: true,
            module_args: String::new(),
            clock: None,
            tcp: false,
            config: Vec::new(),
            dir: Arc::new(Dir::new()),
        }
    }

    pub fn without_module(mut self) -> Setup {
        self.module = false;
        self
    }

    pub fn with_module(mut self) -> Setup {
        self.module = true;
        self
    }

    pub fn module_args(mut self, args: &str) -> Setup {
        args.clone_into(&mut self.module_args);
        self
    }

    pub fn clock(mut self, clock: &Clock) -> Setup {
        self.clock = Some(clock.clone());
        self
    }

    pub fn maybe_clock(mut self, clock: Option<&Clock>) -> Setup {
        self.clock = clock.cloned();
        self
    }

    /// A port too, for replicas to connect to.
    pub fn tcp(mut self) -> Setup {
        self.tcp = true;
        self
    }

    /// One more line of configuration.
    pub fn config(mut self, line: &str) -> Setup {
        self.config.push(line.to_owned());
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Server {
        self.try_start()
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts the server; its log if it exits instead of answering.
    pub fn try_start(self) -> Result<Server, String> {
        // Another process may take the port between the moment it is found free and its use.
        for _ in 0..5 {
            let (mut server, log_start) = self.spawn();
            match server.wait_until_ready() {
                Ok(()) => return Ok(server),
                Err(()) => {
                    let log = server.log()[log_start..].to_owned();
                    if !(self.tcp && log.contains("Address already in use")) {
                        return Err(log);
                    }
                }
            }
        }
        Err("no free port in five tries".to_owned())
    }

    fn spawn(&self) -> (Server, usize) {
        let port = if self.tcp { free_port() } else { 0 };
        let dir = &self.dir.0;
        let config_file = dir.join("server.conf");
        fs::write(&config_file, self.config_text(port)).unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(dir.join("log"))
            .unwrap();
        let log_start = usize::try_from(log.metadata().unwrap().len()).unwrap();
        // A socket that a killed server left would take connections nobody answers.
        let _ = fs::remove_file(dir.join("socket"));
        let mut command = Command::new(server_path());
        command
            .arg(config_file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        if let Some(clock) = &self.clock {
            command
                .env("LD_PRELOAD", clock_path())
                .env("RL_CLOCK_FILE", clock.path());
        }
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", server_path()));
        let server = Server {
            child,
            port,
            setup: self.clone(),
        };
        (server, log_start)
    }

    fn config_text(&self, port: u16) -> String {
        let dir = self.dir.0.display();
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("unixsocket {dir}/socket"),
            format!("dir {dir}"),
            "save \"\"".to_owned(),
            // Offsets are compared: the link carries nothing but what the commands send.
            "repl-ping-replica-period 36000".to_owned(),
            "repl-timeout 72000".to_owned(),
            "repl-diskless-sync yes".to_owned(),
            "repl-diskless-sync-delay 0".to_owned(),
        ];
        if !before_redis_7() {
            lines.push("enable-debug-command yes".to_owned());
            lines.push("enable-module-command yes".to_owned());
        }
        if self.module {
            let path = module_path();
            lines.push(format!(
                "loadmodule {} {}",
                path.display(),
                self.module_args
            ));
        }
        lines.extend(self.config.iter().cloned());
        lines.join("\n") + "\n"
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A running server. Dropping it kills it and removes its files; the log's end is printed if the
/// test failed.
pub struct Server {
    child: Child,
    port: u16,
    setup: Setup,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn port(&self) -> u16 {
        assert!(self.port != 0, "this server was started without tcp()");
        self.port
    }

    /// A new connection.
    pub fn conn(&self) -> Conn {
        self.try_conn().expect("the server takes connections")
    }

    fn try_conn(&self) -> redis::RedisResult<Conn> {
        let socket = self.setup.dir.0.join("socket");
        let client = redis::Client::open(format!("unix://{}", socket.display()))?;
        let inner = client.get_connection()?;
        // A server that hangs is a failure, not a test that never ends.
        inner.set_read_timeout(Some(PATIENCE))?;
        inner.set_write_timeout(Some(PATIENCE))?;
        Ok(Conn { inner })
    }

    fn wait_until_ready(&mut self) -> Result<(), ()> {
        let start = Instant::now();
        loop {
            if self.child.try_wait().unwrap().is_some() {
                return Err(());
            }
            let answer = self.try_conn().map(|mut conn| conn.try_call("PING"));
            if let Ok(Ok(Ok(_))) = answer {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "the server never got ready");
            thread::sleep(Duration::from_millis(2));
        }
        // Killing by process id must kill the server itself.
        let pid = self.conn().info_field("server", "process_id");
        assert_eq!(
            pid,
            self.pid().to_string(),
            "RL_SERVER is a wrapper that does not exec the server"
        );
        Ok(())
    }

    /// A signal that nobody can catch, in the middle of whatever it does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SHUTDOWN, with or without saving.
    pub fn shutdown(&mut self, how: &str) {
        // The connection ends without a reply.
        let _ = self.conn().try_call(&format!("SHUTDOWN {how}"));
        self.child.wait().unwrap();
    }

    /// Starts again on the same files, with the setup as `change` makes it. The server has been
    /// killed or shut down before.
    pub fn restart(mut self, change: impl FnOnce(Setup) -> Setup) -> Server {
        assert!(
            self.child.try_wait().unwrap().is_some(),
            "the server still runs"
        );
        change(self.setup.clone()).start()
    }

    /// A replica of this server, its link up.
    pub fn replica(&self, change: impl FnOnce(Setup) -> Setup) -> Server {
        let setup = Setup::new()
            .maybe_clock(self.setup.clock.as_ref())
            .config(&format!("replicaof 127.0.0.1 {}", self.port()));
        let replica = change(setup).start();
        let mut conn = replica.conn();
        until("the replica's link is up", || {
            conn.info_field("replication", "master_link_status") == "up"
        });
        replica
    }

    pub fn log(&self) -> String {
        let bytes = fs::read(self.setup.dir.0.join("log")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("--- end of the server's log\n{}\n---", tail.join("\n"));
        }
    }
}

/// Waits until the replica has applied all that the primary has sent.
pub fn wait_in_sync(primary: &mut Conn, replica: &mut Conn) {
    until("the replica has caught up", || {
        let sent = primary.info_field("replication", "master_repl_offset");
        replica.info_field("replication", "master_link_status") == "up"
            && replica.info_field("replication", "slave_repl_offset") == sent
    });
}

// ---------------------------------------------------------------------------------------------
// Commands and replies

/// A command as its words.
pub type Words = Vec<Vec<u8>>;

/// A reply, or the server's error line.
pub type Answer = Result<Value, String>;

/// The words of a command line, separated by spaces.
pub fn words(line: &str) -> Words {
    line.split_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// The five integers of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub allowed: i64,
    pub remaining: i64,
    pub wait_ms: i64,
    pub reset_ms: i64,
    pub limit: i64,
}

impl Reply {
    /// Reads the reply of a command called without DETAIL.
    pub fn from_value(value: &Value) -> Option<Reply> {
        let Value::Array(items) = value else {
            return None;
        };
        let [Value::Int(allowed), Value::Int(remaining), Value::Int(wait_ms), Value::Int(reset_ms), Value::Int(limit)] =
            items.as_slice()
        else {
            return None;
        };
        Some(Reply {
            allowed: *allowed,
            remaining: *remaining,
            wait_ms: *wait_ms,
            reset_ms: *reset_ms,
            limit: *limit,
        })
    }
}

/// A connection of the synchronous redis-rs client, with errors as the lines they are.
pub struct Conn {
    inner: redis::Connection,
}

impl Conn {
    /// Sends all commands in one go and reads all replies; an outer error if the connection broke.
    pub fn try_pipe(&mut self, commands: &[Words]) -> redis::RedisResult<Vec<Answer>> {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
            for word in command {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        let values = self.inner.req_packed_commands(&bytes, 0, commands.len())?;
        let answers = values.into_iter().map(|value| match value {
            Value::ServerError(error) => Err(match error.details() {
                Some(details) => format!("{} {details}", error.code()),
                None => error.code().to_owned(),
            }),
            value => Ok(value),
        });
        Ok(answers.collect())
    }

    pub fn pipe(&mut self, commands: &[Words]) -> Vec<Answer> {
        self.try_pipe(commands).expect("the connection holds")
    }

    pub fn try_call(&mut self, line: &str) -> redis::RedisResult<Answer> {
        let mut answers = self.try_pipe(&[words(line)])?;
        Ok(answers.remove(0))
    }

    pub fn send(&mut self, command: Words) -> Answer {
        self.pipe(&[command]).remove(0)
    }

    /// Sends one command, written as a line without quotes.
    pub fn call(&mut self, line: &str) -> Answer {
        self.send(words(line))
    }

    /// A command that must not fail.
    pub fn ok(&mut self, line: &str) -> Value {
        self.call(line)
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// A command that must fail; its error line.
    pub fn error(&mut self, line: &str) -> String {
        match self.call(line) {
            Err(error) => error,
            Ok(value) => panic!("{line}: an error was expected, got {value:?}"),
        }
    }

    /// A limiter command's five integers.
    pub fn five(&mut self, line: &str) -> Reply {
        let value = self.ok(line);
        Reply::from_value(&value).unwrap_or_else(|| panic!("{line}: not five integers: {value:?}"))
    }

    pub fn int(&mut self, line: &str) -> i64 {
        match self.ok(line) {
            Value::Int(number) => number,
            value => panic!("{line}: not an integer: {value:?}"),
        }
    }

    /// A field of INFO as text; empty where the server has no such field.
    pub fn info_field(&mut self, section: &str, field: &str) -> String {
        let value = self.ok(&format!("INFO {section}"));
        let text = match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::VerbatimString { text, .. } => text,
            value => panic!("INFO {section}: {value:?}"),
        };
        let prefix = format!("{field}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_default().to_owned()
    }

    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        let text = self.info_field(section, field);
        text.parse()
            .unwrap_or_else(|_| panic!("{field} of INFO {section}: {text:?}"))
    }

    /// The server's clock.
    pub fn time_us(&mut self) -> i64 {
        time_us(&self.ok("TIME"))
    }

    pub fn has_command(&mut self, name: &str) -> bool {
        match self.ok(&format!("COMMAND INFO {name}")) {
            Value::Array(items) => items.first().is_some_and(|item| *item != Value::Nil),
            value => panic!("COMMAND INFO {name}: {value:?}"),
        }
    }
}

/// The reply of TIME in microseconds.
pub fn time_us(value: &Value) -> i64 {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(value).unwrap();
    seconds * 1_000_000 + micros
}
