//! The arguments of a call: a cursor over the words, and the requests that
//! they make.
//!
//! ```text
//! limit   := [TOKENBUCKET] count period [BURST burst]
//!          | GCRA          count period [BURST burst]
//!          | LEAKYBUCKET   count period [BURST burst]
//!          | FIXEDWINDOW   count period
//!          | SLIDINGWINDOW count period
//!          | SLIDINGLOG    count period
//! options := [COST n | ATMOST n] [FORCE] [DETAIL]    in any order, after the limits
//! ```
//!
//! Numbers are as strict as the server's own: digits, no sign, no leading
//! zeros, no spaces.

use crate::fault::{self, Fault};
use crate::server::api;
use redis_module::raw;
use rl_core::{Algorithm, Ask, Limit, Slots, MAX_UNITS};

/// A word as the server hands it over.
pub type Word = *mut raw::RedisModuleString;

/// The bytes of a word.
pub fn bytes<'a>(word: Word) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: words of a call live until the call returns, and nobody changes
    // them; every use of the slice is inside the call.
    unsafe {
        let start = api!(RedisModule_StringPtrLen(word, &mut len));
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// A cursor over the words of a call.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    words: &'a [Word],
}

impl<'a> Args<'a> {
    /// The words after the command's name.
    pub fn new(words: &'a [Word]) -> Args<'a> {
        Args {
            words: words.get(1..).unwrap_or_default(),
        }
    }

    /// How many words are left.
    pub fn left(&self) -> usize {
        self.words.len()
    }

    /// The next word as it is, for a key.
    pub fn key(&mut self) -> Result<Word, Fault> {
        let (first, rest) = self.words.split_first().ok_or(Fault::Arity)?;
        self.words = rest;
        Ok(*first)
    }

    /// The next `count` words as they are, for keys.
    pub fn keys(&mut self, count: usize) -> Result<&'a [Word], Fault> {
        let (keys, rest) = self.words.split_at_checked(count).ok_or(Fault::Arity)?;
        self.words = rest;
        Ok(keys)
    }

    /// The bytes of the next word.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        self.key().ok().map(bytes)
    }

    /// The bytes of the next word, which stays the next.
    fn peek(&self) -> Option<&'a [u8]> {
        self.words.first().map(|word| bytes(*word))
    }

    /// Takes the next word if it is `keyword`.
    fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is_some_and(|word| is(word, keyword));
        if found {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        found
    }
}

/// Which options a command has.
#[derive(Clone, Copy)]
pub struct Options {
    pub at_most: bool,
    pub force: bool,
    /// The options by name, for the error about an unknown word.
    pub names: &'static str,
}

/// What a call asks of which limits.
pub struct Request<L> {
    pub limits: L,
    pub ask: Ask,
    pub detail: bool,
}

/// The limits of one key.
impl Request<Slots<Limit>> {
    pub fn parse(args: &mut Args, options: Options) -> Result<Self, Fault> {
        let mut limits = Slots::new();
        let (ask, detail) = parse(args, options, |limit| {
            limits
                .push(limit)
                .map_err(|_| Fault::from(fault::TOO_MANY_LIMITS))
        })?;
        Ok(Request {
            limits,
            ask,
            detail,
        })
    }
}

/// One limit a key.
impl Request<Vec<Limit>> {
    pub fn parse(args: &mut Args, options: Options) -> Result<Self, Fault> {
        let mut limits = Vec::new();
        let (ask, detail) = parse(args, options, |limit| {
            limits.push(limit);
            Ok(())
        })?;
        Ok(Request {
            limits,
            ask,
            detail,
        })
    }
}

/// Reads limits, then options, to the last word.
fn parse(
    args: &mut Args,
    options: Options,
    mut push: impl FnMut(Limit) -> Result<(), Fault>,
) -> Result<(Ask, bool), Fault> {
    let mut limits = 0;
    while let Some(algorithm) = args.peek().and_then(algorithm) {
        push(parse_limit(args, algorithm)?)?;
        limits += 1;
    }
    let mut cost = None;
    let mut at_most = None;
    let mut force = false;
    let mut detail = false;
    while let Some(word) = args.next() {
        if is(word, "COST") {
            once("COST", cost.is_some())?;
            cost = Some(option_value(args, "COST", fault::COST)?);
        } else if options.at_most && is(word, "ATMOST") {
            once("ATMOST", at_most.is_some())?;
            at_most = Some(option_value(args, "ATMOST", fault::ATMOST)?);
        } else if options.force && is(word, "FORCE") {
            once("FORCE", force)?;
            force = true;
        } else if is(word, "DETAIL") {
            once("DETAIL", detail)?;
            detail = true;
        } else if is(word, "BURST") {
            return Err(Fault::from(fault::BURST_PLACE));
        } else if algorithm(word).is_some() {
            return Err(Fault::from(fault::LIMIT_FIRST));
        } else {
            return Err(fault::unknown_argument(word, options.names));
        }
    }
    if limits == 0 {
        return Err(Fault::from(fault::LIMIT_FIRST));
    }
    let ask = Ask {
        cost: match (cost, at_most) {
            (Some(_), Some(_)) => return Err(Fault::from(fault::COST_OR_ATMOST)),
            (Some(cost), None) | (None, Some(cost)) => cost,
            (None, None) => 1,
        },
        at_most: at_most.is_some(),
        force,
    };
    Ok((ask, detail))
}

fn once(name: &str, given: bool) -> Result<(), Fault> {
    if given {
        return Err(Fault::from(format!("ERR {name} may be given only once")));
    }
    Ok(())
}

fn option_value(args: &mut Args, name: &str, range: &'static str) -> Result<u64, Fault> {
    let word = args
        .next()
        .ok_or_else(|| Fault::from(format!("ERR {name} needs a value")))?;
    units(word, range)
}

/// The algorithm that a word starts a limit with: its name, or a number for a
/// token bucket.
fn algorithm(word: &[u8]) -> Option<(Algorithm, &'static str)> {
    if starts_number(word) {
        return Some((Algorithm::TokenBucket, "TOKENBUCKET"));
    }
    const NAMES: [(Algorithm, &str); 6] = [
        (Algorithm::TokenBucket, "TOKENBUCKET"),
        (Algorithm::Gcra, "GCRA"),
        (Algorithm::LeakyBucket, "LEAKYBUCKET"),
        (Algorithm::FixedWindow, "FIXEDWINDOW"),
        (Algorithm::SlidingWindow, "SLIDINGWINDOW"),
        (Algorithm::SlidingLog, "SLIDINGLOG"),
    ];
    NAMES.into_iter().find(|(_, name)| is(word, name))
}

fn parse_limit(
    args: &mut Args,
    (algorithm, name): (Algorithm, &'static str),
) -> Result<Limit, Fault> {
    if !args.peek().is_some_and(starts_number) {
        let _name = args.next();
    }
    let (Some(count), Some(period)) = (args.next(), args.next()) else {
        return Err(Fault::from(format!(
            "ERR {name} needs a count and a period"
        )));
    };
    let count = units(count, fault::count(algorithm))?;
    let period_us = period_us(period)?;
    let mut burst = None;
    while args.accept("BURST") {
        once("BURST", burst.is_some())?;
        burst = Some(option_value(args, "BURST", fault::BURST)?);
    }
    Ok(Limit::new(algorithm, count, period_us, burst)?)
}

fn starts_number(word: &[u8]) -> bool {
    matches!(word.first(), Some(b'0'..=b'9' | b'+' | b'-' | b'.'))
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// A number of units from 0 to [`MAX_UNITS`]; `range` is the error that says so.
pub fn units(word: &[u8], range: &'static str) -> Result<u64, Fault> {
    integer(word)
        .filter(|units| *units <= MAX_UNITS)
        .ok_or(Fault::from(range))
}

/// An integer of up to 18 digits.
pub fn integer(word: &[u8]) -> Option<u64> {
    match word {
        [b'0', _, ..] => None,
        _ => digits(word),
    }
}

/// One to 18 digits as a number: what always fits.
fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 18 {
        return None;
    }
    word.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit()
            .then(|| value * 10 + u64::from(byte - b'0'))
    })
}

/// A period in microseconds: a decimal number and an optional unit, seconds if
/// none. Its range is the limit's business.
pub fn period_us(word: &[u8]) -> Result<u64, Fault> {
    let number_len = word
        .iter()
        .position(|byte| byte.is_ascii_alphabetic())
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(number_len);
    let unit_us: u64 = match unit {
        b"us" => 1,
        b"ms" => 1_000,
        b"" | b"s" => 1_000_000,
        b"m" => 60_000_000,
        b"h" => 3_600_000_000,
        b"d" => 86_400_000_000,
        _ => return Err(Fault::from(fault::PERIOD)),
    };
    let point = number.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        None => (number, &b"0"[..]),
        Some(point) => (&number[..point], &number[point + 1..]),
    };
    let (Some(whole), Some(parts)) = (digits(whole), digits(fraction)) else {
        return Err(Fault::from(fault::PERIOD));
    };
    // Each product is below 10^18 x 10^11: inside u128.
    let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let parts_us = u128::from(parts) * u128::from(unit_us);
    if parts_us % scale != 0 {
        return Err(Fault::from(fault::PERIOD_TOO_FINE));
    }
    let period_us = u128::from(whole) * u128::from(unit_us) + parts_us / scale;
    // What passes u64 is out of range, and so is u64::MAX.
    Ok(u64::try_from(period_us).unwrap_or(u64::MAX))
}
