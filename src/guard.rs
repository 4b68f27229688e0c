//! The last line: no panic of ours reaches the server.

use crate::fault::{Fault, INTERNAL};
use crate::reply;
use crate::server::STATUS_OK;
use crate::stats;
use redis_module::raw;
use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Runs a command's body; its fault, or a panic, becomes an error reply.
pub fn guarded(ctx: *mut raw::RedisModuleCtx, body: impl FnOnce() -> Result<(), Fault>) -> c_int {
    // Nothing of ours outlives a call, so nothing can be left half changed
    // but the value of the key, and that is written last.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => STATUS_OK,
        Ok(Err(fault)) => {
            if matches!(fault, Fault::WrongType) {
                stats::count_state_error();
            }
            reply::fault(ctx, &fault)
        }
        Err(_) => reply::fault(ctx, &Fault::from(INTERNAL)),
    }
}
