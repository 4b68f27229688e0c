//! The words of the command line.

use crate::command::Command;
use crate::Outcome;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// What to do.
pub struct Options {
    pub target: Target,
    pub mode: Mode,
}

/// Whom to send what.
pub struct Target {
    pub server: SocketAddr,
    pub connections: usize,
    pub command: Command,
}

/// When to send it.
pub enum Mode {
    Paced(Pace),
    Pipelined(Amount),
}

/// Requests at fixed intervals.
pub struct Pace {
    /// Between two requests, over all connections.
    pub interval: Duration,
    /// Sent before anything is measured.
    pub warm_up: usize,
    /// Sent and measured.
    pub requests: usize,
}

/// Requests as fast as they are answered.
pub struct Amount {
    pub requests: usize,
    /// So many at a time on each connection.
    pub depth: usize,
}

impl Options {
    /// Reads the words after the program's name.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Options> {
        let mode = words.next().unwrap_or_default();
        let mut numbers = HashMap::new();
        let mut in_order = false;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => break,
                "--in-order" => in_order = true,
                name => {
                    let value = words.next().ok_or(format!("{name} needs a value"))?;
                    let value: u32 = value
                        .parse()
                        .map_err(|_| format!("{name} must be a whole number, not '{value}'"))?;
                    numbers.insert(name.to_owned(), value);
                }
            }
        }
        let mut number = |name: &str, default: Option<u32>| -> Outcome<u32> {
            let value = numbers.remove(name).or(default);
            Ok(value.ok_or(format!("{name} is missing"))?)
        };
        let mut size = |name: &str, default: Option<u32>| -> Outcome<usize> {
            match number(name, default)? {
                0 => Err(format!("{name} must be at least 1").into()),
                value => Ok(usize::try_from(value)?),
            }
        };

        let words: Vec<String> = words.collect();
        let keys = size("--keys", Some(1))?;
        let port = u16::try_from(size("--port", None)?)?;
        let target = Target {
            server: SocketAddr::from(([127, 0, 0, 1], port)),
            connections: size("--connections", Some(50))?,
            command: Command::new(&words, keys, in_order)?,
        };
        let mode = match mode.as_str() {
            "paced" => {
                let rate = size("--rate", None)?;
                let seconds = size("--seconds", None)?;
                Mode::Paced(Pace {
                    interval: Duration::from_secs(1) / u32::try_from(rate)?,
                    warm_up: rate * usize::try_from(number("--warm-up", Some(1))?)?,
                    requests: rate * seconds,
                })
            }
            "pipelined" => Mode::Pipelined(Amount {
                requests: size("--requests", None)?,
                depth: size("--depth", Some(1))?,
            }),
            other => {
                return Err(format!("must begin with paced or pipelined, not '{other}'").into())
            }
        };
        if let Some(name) = numbers.keys().next() {
            return Err(format!("{name} is no option of this").into());
        }
        Ok(Options { target, mode })
    }
}
