//! What can go wrong with a call, and the texts that say so. Every text names
//! the argument and what it may be.

use rl_core::{Algorithm, LimitError, TooMuch};
use std::borrow::Cow;

/// An error reply.
#[derive(Debug)]
pub enum Fault {
    /// The server's own text about the number of arguments.
    Arity,
    /// The key holds something that is not a limiter's state.
    WrongType,
    /// An `ERR` text.
    Text(Cow<'static, str>),
}

impl From<&'static str> for Fault {
    fn from(text: &'static str) -> Fault {
        Fault::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Text(Cow::Owned(text))
    }
}

impl From<rl_core::Foreign> for Fault {
    fn from(_: rl_core::Foreign) -> Fault {
        Fault::WrongType
    }
}

impl From<LimitError> for Fault {
    fn from(error: LimitError) -> Fault {
        Fault::from(match error {
            LimitError::Count => COUNT,
            LimitError::LogCount => "ERR count of a SLIDINGLOG must be an integer between 0 and 100000",
            LimitError::Burst => BURST,
            LimitError::BurstOfWindow => "ERR BURST is for TOKENBUCKET, GCRA and LEAKYBUCKET only",
            LimitError::Period => PERIOD,
            LimitError::Drain => {
                "ERR a full bucket must drain within 36500d: BURST x period / count is more than that"
            }
        })
    }
}

impl From<TooMuch> for Fault {
    fn from(error: TooMuch) -> Fault {
        Fault::from(match error {
            TooMuch::Drain => "ERR FORCE would push usage past what drains in 36500d",
            TooMuch::Units => "ERR FORCE would push usage past 1000000000000000 units",
            TooMuch::Entries => "ERR FORCE would push the log past 1000000 entries",
        })
    }
}

pub const COUNT: &str = "ERR count must be an integer between 0 and 1000000000000";
const LOG_COUNT: &str = "ERR count of a SLIDINGLOG must be an integer between 0 and 100000";
pub const BURST: &str = "ERR BURST must be an integer between 0 and 1000000000000";
pub const COST: &str = "ERR COST must be an integer between 0 and 1000000000000";
pub const ATMOST: &str = "ERR ATMOST must be an integer between 0 and 1000000000000";
pub const PERIOD: &str = "ERR period must be between 1ms and 3650d, like 60, 0.5, 500ms, 1m or 1h";
pub const PERIOD_TOO_FINE: &str = "ERR period must be a whole number of microseconds, between 1ms and 3650d, like 60, 0.5, 500ms, 1m or 1h";
pub const NUMKEYS: &str = "ERR numkeys must be an integer between 1 and 128";
pub const SAME_KEY: &str = "ERR the same key may be given only once";
pub const MAX_BURST: &str = "ERR max_burst must be an integer between 0 and 999999999999";
pub const QUANTITY: &str =
    "ERR quantity must be an integer between -1000000000000 and 1000000000000";
pub const TOO_MANY_LIMITS: &str = "ERR a key carries at most 8 limits";
pub const LIMIT_FIRST: &str = "ERR a limit must come before COST, ATMOST, FORCE and DETAIL";
pub const BURST_PLACE: &str = "ERR BURST must follow the count and period of its limit";
pub const COST_OR_ATMOST: &str = "ERR COST and ATMOST exclude each other";
pub const INTERNAL: &str = "ERR internal error of the redis-rl module; please report it";

/// The error that says what a count of this algorithm may be.
pub fn count(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingLog => LOG_COUNT,
        _ => COUNT,
    }
}

/// How much of an unknown word is quoted, in bytes.
const QUOTED_LEN: usize = 32;

/// A limit without its count or its period.
#[cold]
pub fn incomplete_limit(algorithm: Algorithm) -> Fault {
    let name = match algorithm {
        Algorithm::TokenBucket => "TOKENBUCKET",
        Algorithm::Gcra => "GCRA",
        Algorithm::LeakyBucket => "LEAKYBUCKET",
        Algorithm::FixedWindow => "FIXEDWINDOW",
        Algorithm::SlidingWindow => "SLIDINGWINDOW",
        Algorithm::SlidingLog => "SLIDINGLOG",
    };
    Fault::from(format!("ERR {name} needs a count and a period"))
}

/// An option without its value.
#[cold]
pub fn no_value(option: &str) -> Fault {
    Fault::from(format!("ERR {option} needs a value"))
}

/// An option that was given before.
#[cold]
pub fn given_twice(option: &str) -> Fault {
    Fault::from(format!("ERR {option} may be given only once"))
}

/// An argument that is neither a limit nor one of the command's `options`.
#[cold]
pub fn unknown_argument(word: &[u8], options: &str) -> Fault {
    Fault::from(format!(
        "ERR unknown argument '{}': must be a limit ([TOKENBUCKET] count period, GCRA, \
         LEAKYBUCKET, FIXEDWINDOW, SLIDINGWINDOW, SLIDINGLOG) or one of {options}",
        quoted(word)
    ))
}

/// A word as it may stand in an error reply: short, and nothing in it that
/// would end the line.
fn quoted(word: &[u8]) -> String {
    word.iter()
        .take(QUOTED_LEN)
        .map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        })
        .collect()
}
