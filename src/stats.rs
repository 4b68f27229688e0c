//! What was done since the module was loaded, by algorithm: the section
//! `rl_stats` of INFO.
//!
//! A call with several limits counts once for each of them.

use crate::server::api;
use redis_module::raw;
use rl_core::{Algorithm, Limit};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a call turned out to be, and the units it was about.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Admitted { units: u64 },
    Refused { units: u64 },
    Forced { units: u64 },
    Given { units: u64 },
    Peeked { units: u64 },
}

/// A number that only the server's main thread changes, so that it need not
/// be changed in one step.
struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Calls and units of one kind of deed.
struct Tally {
    calls: Counter,
    units: Counter,
}

const DEEDS: usize = 5;
const ALGORITHMS: usize = 6;

static TALLIES: [[Tally; DEEDS]; ALGORITHMS] = [const {
    [const {
        Tally {
            calls: Counter::new(),
            units: Counter::new(),
        }
    }; DEEDS]
}; ALGORITHMS];

static STATE_ERRORS: Counter = Counter::new();

/// The fields of a deed in INFO: calls, units.
const FIELDS: [(&CStr, &CStr); DEEDS] = [
    (c"admitted_calls", c"admitted_units"),
    (c"refused_calls", c"refused_units"),
    (c"forced_calls", c"forced_units"),
    (c"given_calls", c"given_units"),
    (c"peeked_calls", c"peeked_units"),
];

const NAMES: [&CStr; ALGORITHMS] = [
    c"tokenbucket",
    c"gcra",
    c"leakybucket",
    c"fixedwindow",
    c"slidingwindow",
    c"slidinglog",
];

fn place(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::TokenBucket => 0,
        Algorithm::Gcra => 1,
        Algorithm::LeakyBucket => 2,
        Algorithm::FixedWindow => 3,
        Algorithm::SlidingWindow => 4,
        Algorithm::SlidingLog => 5,
    }
}

/// Counts a call.
pub fn count<'a>(deed: Deed, limits: impl Iterator<Item = &'a Limit>) {
    let (kind, units) = match deed {
        Deed::Admitted { units } => (0, units),
        Deed::Refused { units } => (1, units),
        Deed::Forced { units } => (2, units),
        Deed::Given { units } => (3, units),
        Deed::Peeked { units } => (4, units),
    };
    for limit in limits {
        let tally = &TALLIES[place(limit.algorithm())][kind];
        tally.calls.add(1);
        tally.units.add(units);
    }
}

/// Counts a call that met a value which is no limiter's state.
pub fn count_state_error() {
    STATE_ERRORS.add(1);
}

/// Writes the section. The server also calls it while it crashes, so nothing
/// is allocated or locked here.
pub unsafe extern "C" fn info(ctx: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    // SAFETY: ctx is the server's; all strings are static.
    unsafe {
        api!(RedisModule_InfoAddSection(ctx, c"stats".as_ptr()));
        add(ctx, c"state_errors", &STATE_ERRORS);
        for (name, tallies) in NAMES.iter().zip(&TALLIES) {
            api!(RedisModule_InfoBeginDictField(ctx, name.as_ptr()));
            for ((calls, units), tally) in FIELDS.iter().zip(tallies) {
                add(ctx, calls, &tally.calls);
                add(ctx, units, &tally.units);
            }
            api!(RedisModule_InfoEndDictField(ctx));
        }
    }
}

/// Writes one field.
///
/// # Safety
///
/// Only from within [`info`].
unsafe fn add(ctx: *mut raw::RedisModuleInfoCtx, name: &CStr, counter: &Counter) {
    // SAFETY: the caller's promise.
    unsafe {
        api!(RedisModule_InfoAddFieldULongLong(
            ctx,
            name.as_ptr(),
            counter.get()
        ))
    };
}
