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
use rl_core::{Algorithm, Ask, Limit, MAX_UNITS};

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

/// Which options a command has.
#[derive(Clone, Copy)]
pub struct Options {
    pub at_most: bool,
    pub force: bool,
    /// The options by name, for the error about an unknown word.
    pub names: &'static str,
}

/// What a call asks, besides its limits.
pub struct Request {
    pub ask: Ask,
    pub detail: bool,
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

    /// Reads limits, handed over one by one, and then options, to the last word.
    pub fn request(
        mut self,
        options: Options,
        mut push: impl FnMut(Limit) -> Result<(), Fault>,
    ) -> Result<Request, Fault> {
        let mut next = self.next();
        let mut limited = false;
        while let Some((algorithm, word)) = next.and_then(|word| Some((algorithm(word)?, word))) {
            next = self.limit(algorithm, word, &mut push)?;
            limited = true;
        }
        let mut request = Request {
            ask: Ask::cost(1),
            detail: false,
        };
        let mut cost_given = false;
        while let Some(word) = next {
            match keyword(word) {
                COST => {
                    once("COST", cost_given && !request.ask.at_most)?;
                    not_both(cost_given)?;
                    cost_given = true;
                    request.ask.cost = self.value("COST", fault::COST)?;
                }
                ATMOST if options.at_most => {
                    once("ATMOST", request.ask.at_most)?;
                    not_both(cost_given)?;
                    cost_given = true;
                    request.ask.at_most = true;
                    request.ask.cost = self.value("ATMOST", fault::ATMOST)?;
                }
                FORCE if options.force => {
                    once("FORCE", request.ask.force)?;
                    request.ask.force = true;
                }
                DETAIL => {
                    once("DETAIL", request.detail)?;
                    request.detail = true;
                }
                BURST => return Err(Fault::from(fault::BURST_PLACE)),
                _ if algorithm(word).is_some() => return Err(Fault::from(fault::LIMIT_FIRST)),
                _ => return Err(fault::unknown_argument(word, options.names)),
            }
            next = self.next();
        }
        if limited {
            Ok(request)
        } else {
            Err(Fault::from(fault::LIMIT_FIRST))
        }
    }

    /// Hands over the limit that `word` begins, and returns the word after it.
    fn limit(
        &mut self,
        algorithm: Algorithm,
        word: &'a [u8],
        push: &mut impl FnMut(Limit) -> Result<(), Fault>,
    ) -> Result<Option<&'a [u8]>, Fault> {
        let count = if starts_number(word) {
            Some(word)
        } else {
            self.next()
        };
        let (Some(count), Some(period)) = (count, self.next()) else {
            return Err(fault::incomplete_limit(algorithm));
        };
        let count = units(count, fault::count(algorithm))?;
        let period_us = period_us(period)?;
        let mut burst = None;
        let mut next = self.next();
        while next.is_some_and(|word| keyword(word) == BURST) {
            once("BURST", burst.is_some())?;
            burst = Some(self.value("BURST", fault::BURST)?);
            next = self.next();
        }
        push(Limit::new(algorithm, count, period_us, burst)?)?;
        Ok(next)
    }

    /// The value of an option; `range` is the error that says what it may be.
    #[inline]
    fn value(&mut self, name: &'static str, range: &'static str) -> Result<u64, Fault> {
        match self.next() {
            Some(word) => units(word, range),
            None => Err(fault::no_value(name)),
        }
    }
}

fn once(name: &'static str, given: bool) -> Result<(), Fault> {
    if given {
        Err(fault::given_twice(name))
    } else {
        Ok(())
    }
}

fn not_both(given: bool) -> Result<(), Fault> {
    if given {
        Err(Fault::from(fault::COST_OR_ATMOST))
    } else {
        Ok(())
    }
}

/// The algorithm that a word begins a limit with: its name, or a number for a
/// token bucket.
fn algorithm(word: &[u8]) -> Option<Algorithm> {
    if starts_number(word) {
        return Some(Algorithm::TokenBucket);
    }
    match keyword(word) {
        TOKENBUCKET => Some(Algorithm::TokenBucket),
        GCRA => Some(Algorithm::Gcra),
        LEAKYBUCKET => Some(Algorithm::LeakyBucket),
        FIXEDWINDOW => Some(Algorithm::FixedWindow),
        SLIDINGWINDOW => Some(Algorithm::SlidingWindow),
        SLIDINGLOG => Some(Algorithm::SlidingLog),
        _ => None,
    }
}

fn starts_number(word: &[u8]) -> bool {
    matches!(word.first(), Some(b'0'..=b'9' | b'+' | b'-' | b'.'))
}

const TOKENBUCKET: Keyword = keyword(b"TOKENBUCKET");
const GCRA: Keyword = keyword(b"GCRA");
const LEAKYBUCKET: Keyword = keyword(b"LEAKYBUCKET");
const FIXEDWINDOW: Keyword = keyword(b"FIXEDWINDOW");
const SLIDINGWINDOW: Keyword = keyword(b"SLIDINGWINDOW");
const SLIDINGLOG: Keyword = keyword(b"SLIDINGLOG");
const BURST: Keyword = keyword(b"BURST");
const COST: Keyword = keyword(b"COST");
const ATMOST: Keyword = keyword(b"ATMOST");
const FORCE: Keyword = keyword(b"FORCE");
const DETAIL: Keyword = keyword(b"DETAIL");

/// A word of 4 to 16 bytes in lower case, to be compared at once: its length,
/// and its first and last 8 (or, of a shorter word, 4) bytes, which overlap or
/// meet and so are all of it. Other words are like no keyword.
type Keyword = (usize, u64, u64);

const fn keyword(word: &[u8]) -> Keyword {
    // Of ASCII only a letter's two cases become the same letter by this bit.
    const LOWER: u64 = 0x2020_2020_2020_2020;
    let (first, last) = if let (Some(first), Some(last)) = (word.first_chunk(), word.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (word.first_chunk(), word.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        (first as u64, last as u64)
    } else {
        (0, 0)
    };
    (word.len(), first | LOWER, last | LOWER)
}

const US_PER_S: u64 = 1_000_000;

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
    let mut number = 0;
    for byte in word {
        let digit = u64::from(*byte).wrapping_sub(u64::from(b'0'));
        if digit > 9 {
            return None;
        }
        number = number * 10 + digit;
    }
    Some(number)
}

/// A period in microseconds: a decimal number and an optional unit, seconds if
/// none. Its range is the limit's business.
#[inline]
pub fn period_us(word: &[u8]) -> Result<u64, Fault> {
    match digits(word) {
        Some(seconds) => Ok(seconds.saturating_mul(US_PER_S)),
        None => written_out_period_us(word),
    }
}

#[inline(never)]
fn written_out_period_us(word: &[u8]) -> Result<u64, Fault> {
    let number_len = word
        .iter()
        .position(|byte| byte.is_ascii_alphabetic())
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(number_len);
    let unit_us: u64 = match unit {
        b"us" => 1,
        b"ms" => 1_000,
        b"" | b"s" => US_PER_S,
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
