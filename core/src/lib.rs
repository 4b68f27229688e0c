//! The arithmetic of rate limits.
//!
//! Nothing here knows a server, reads a clock, does I/O, allocates or uses a
//! floating-point number: the caller brings the limits, the bytes a key holds
//! and the time, and gets the decision and the bytes to store.
//!
//! ```text
//! limit     a validated limit: algorithm, count, period, capacity
//! time      microseconds: bounds, alignment, rounding
//! bucket    TOKENBUCKET, GCRA, LEAKYBUCKET: usage that drains steadily
//! window    FIXEDWINDOW, SLIDINGWINDOW: counters aligned to the clock
//! log       SLIDINGLOG: every admitted take, for one period
//! state     the stored form: bytes <-> the three above
//! usage     one limit's usage at one instant, carried over from whatever was stored
//! account   all the limits of one key: take, peek, give, and what to store
//! decision  what was asked and what is answered
//! slots     up to eight of anything, without allocation
//! ```
//!
//! # Example
//!
//! "100 a minute, bursts of 20":
//!
//! ```
//! use rl_core::{Account, Algorithm, Ask, Limit, Slots};
//!
//! let limits = Slots::one(Limit::new(Algorithm::TokenBucket, 100, 60_000_000, Some(20))?);
//! let now_us = 1_800_000_000_000_000;
//! let mut account = Account::open(None, &limits, now_us).expect("an untouched key is never foreign");
//! let taken = account.take(Ask::cost(1)).expect("only FORCE can be too much");
//! assert!(taken.admitted);
//! assert_eq!(taken.governing.remaining, 19);
//! # Ok::<(), rl_core::LimitError>(())
//! ```

mod account;
mod bucket;
mod decision;
mod limit;
mod log;
mod slots;
mod state;
mod time;
mod usage;
mod window;

pub use account::Account;
pub use decision::{governing, Answer, Ask, Report, TooMuch, Wait};
pub use limit::{
    Algorithm, Limit, LimitError, MAX_DRAIN_US, MAX_LOG_COUNT, MAX_LOG_ENTRIES, MAX_PERIOD_US,
    MAX_UNITS, MAX_WINDOW_UNITS, MIN_PERIOD_US,
};
pub use slots::{Full, Slots, MAX_LIMITS};
pub use state::{is_possible_len, Foreign};
pub use time::MAX_INSTANT_US;
