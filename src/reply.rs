//! Replies: units, and how they are rounded. Waits and resets are rounded up,
//! so that whoever waits as long as it was told is admitted.

use crate::fault::Fault;
use crate::server::api;
use redis_module::raw;
use rl_core::{Answer, Wait};
use std::ffi::CString;
use std::os::raw::c_int;

const US_PER_MS: u64 = 1_000;
const US_PER_S: u64 = 1_000_000;

/// The reply of the RL commands: allowed, remaining, wait_ms, reset_ms, limit,
/// and with DETAIL the answers one by one.
pub fn verdict<'a>(
    ctx: *mut raw::RedisModuleCtx,
    allowed: u64,
    governing: &Answer,
    detail: Option<(usize, impl Iterator<Item = &'a Answer>)>,
) {
    array(ctx, 5 + usize::from(detail.is_some()));
    integer(ctx, signed(allowed));
    numbers(ctx, governing);
    if let Some((len, answers)) = detail {
        array(ctx, len);
        for answer in answers {
            array(ctx, 4);
            numbers(ctx, answer);
        }
    }
}

#[inline(always)]
fn numbers(ctx: *mut raw::RedisModuleCtx, answer: &Answer) {
    integer(ctx, signed(answer.remaining));
    let wait_ms = match answer.wait {
        Wait::Now => 0,
        Wait::AfterUs(wait_us) => signed(wait_us.div_ceil(US_PER_MS)),
        Wait::Never => -1,
    };
    integer(ctx, wait_ms);
    integer(ctx, signed(answer.reset_us.div_ceil(US_PER_MS)));
    integer(ctx, signed(answer.limit));
}

/// The reply of RL.THROTTLE: limited, limit, remaining, retry_after_s, reset_after_s.
pub fn throttle(ctx: *mut raw::RedisModuleCtx, admitted: bool, answer: &Answer) {
    let retry_after_s = match answer.wait {
        Wait::AfterUs(wait_us) if !admitted => signed(wait_us.div_ceil(US_PER_S)),
        _ => -1,
    };
    array(ctx, 5);
    integer(ctx, i64::from(!admitted));
    integer(ctx, signed(answer.limit));
    integer(ctx, signed(answer.remaining));
    integer(ctx, retry_after_s);
    integer(ctx, signed(answer.reset_us.div_ceil(US_PER_S)));
}

/// An error reply.
#[cold]
pub fn fault(ctx: *mut raw::RedisModuleCtx, fault: &Fault) -> c_int {
    let text = match fault {
        // SAFETY: a plain call of the module API within a command.
        Fault::Arity => return unsafe { api!(RedisModule_WrongArity(ctx)) },
        Fault::WrongType => {
            "WRONGTYPE Operation against a key holding the wrong kind of value".into()
        }
        Fault::Text(text) => text.clone(),
    };
    let text = CString::new(text.as_bytes()).unwrap_or_default();
    // SAFETY: the server copies the text.
    unsafe { api!(RedisModule_ReplyWithError(ctx, text.as_ptr())) }
}

fn array(ctx: *mut raw::RedisModuleCtx, len: usize) {
    let len = std::os::raw::c_long::try_from(len).unwrap_or(0);
    // SAFETY: a plain call of the module API within a command.
    unsafe { api!(RedisModule_ReplyWithArray(ctx, len)) };
}

fn integer(ctx: *mut raw::RedisModuleCtx, value: i64) {
    // SAFETY: a plain call of the module API within a command.
    unsafe { api!(RedisModule_ReplyWithLongLong(ctx, value)) };
}

/// Units and times are far below the largest integer of a reply.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
