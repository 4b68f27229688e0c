//! One file a command: parse, open, decide, store, reply.

mod give;
mod mtake;
mod peek;
mod take;
mod throttle;

pub use give::give;
pub use mtake::mtake;
pub use peek::peek;
pub use take::take;
pub use throttle::throttle;

use crate::args::{Args, Word};
use crate::fault::Fault;
use crate::guard::guarded;
use redis_module::raw;
use rl_core::Report;
use std::os::raw::c_int;

/// What the server calls for a command.
pub type Callback = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// A command as it is written here.
pub type Command = fn(*mut raw::RedisModuleCtx, Args) -> Result<(), Fault>;

/// Runs a command on the arguments as the server hands them over.
///
/// # Safety
///
/// `argv` points to `argc` words that live until the call returns.
pub unsafe fn run(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut Word,
    argc: c_int,
    command: Command,
) -> c_int {
    let len = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller's promise.
    let words = unsafe { std::slice::from_raw_parts(argv, len) };
    guarded(ctx, || command(ctx, Args::new(words)))
}

/// The first number of a reply: of ATMOST the units, else yes or no.
fn allowed(at_most: bool, report: &Report) -> u64 {
    if at_most {
        report.taken
    } else {
        u64::from(report.admitted)
    }
}
