//! Whether anybody may be following: an AOF, a replica, a backlog.
//!
//! Sending a change costs a third of a take even where nobody follows, so
//! where that is certain it is not sent. The answer errs on one side only. It
//! is yes from the start, and becomes yes at once with every event by which a
//! follower can begin: a fork (full syncs, an AOF being switched on and slot
//! migrations all begin with one, and the event comes before the next
//! command), a change of role, a replica coming or going. It becomes no only
//! by a look at the server's own figures, once a second, that finds a primary
//! outside a cluster with no AOF, no replica, no backlog and no child at work.

use crate::server::{int, STATUS_OK};
use redis_module::raw;
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

static POSSIBLE: AtomicBool = AtomicBool::new(true);

/// Cron ticks until the next look.
static TICKS_LEFT: AtomicU32 = AtomicU32::new(TICKS);
/// The server's cron runs 10 times a second by default (`hz`).
const TICKS: u32 = 10;

/// Whether somebody may be following.
pub fn possible() -> bool {
    POSSIBLE.load(Relaxed)
}

/// Subscribes to the events. Where one of them is unknown, the answer stays yes.
pub fn watch(ctx: *mut raw::RedisModuleCtx) {
    POSSIBLE.store(true, Relaxed);
    let begins = [
        raw::REDISMODULE_EVENT_FORK_CHILD,
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    ];
    // The look comes last: it must not run where a beginning may be missed.
    let watched = begins.iter().all(|event| subscribe(ctx, *event, begin));
    if watched {
        subscribe(ctx, raw::REDISMODULE_EVENT_CRON_LOOP, tick);
    }
}

type Handler =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

fn subscribe(ctx: *mut raw::RedisModuleCtx, event: u64, handler: Handler) -> bool {
    let event = raw::RedisModuleEvent {
        id: event,
        dataver: 1,
    };
    // SAFETY: the pointers are written at load only; ctx is the server's.
    unsafe {
        raw::RedisModule_SubscribeToServerEvent
            .is_some_and(|subscribe| subscribe(ctx, event, Some(handler)) == STATUS_OK)
    }
}

/// A follower may have begun.
unsafe extern "C" fn begin(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    POSSIBLE.store(true, Relaxed);
}

/// The server's cron: now and then, a look.
unsafe extern "C" fn tick(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    let left = TICKS_LEFT.load(Relaxed);
    if left > 0 {
        TICKS_LEFT.store(left - 1, Relaxed);
        return;
    }
    TICKS_LEFT.store(TICKS, Relaxed);
    if possible() && nobody_follows(ctx) {
        POSSIBLE.store(false, Relaxed);
    }
}

fn nobody_follows(ctx: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: the pointer is written at load only.
    let Some(context_flags) = (unsafe { raw::RedisModule_GetContextFlags }) else {
        return false;
    };
    // SAFETY: ctx is the server's.
    let flags = unsafe { context_flags(ctx) };
    let clustered = flags & int(raw::REDISMODULE_CTX_FLAGS_CLUSTER) != 0;
    let primary = flags & int(raw::REDISMODULE_CTX_FLAGS_MASTER) != 0;
    primary
        && !clustered
        && all_zero(
            ctx,
            c"replication",
            &[c"connected_slaves", c"repl_backlog_active"],
        )
        && all_zero(
            ctx,
            c"persistence",
            &[
                c"aof_enabled",
                c"aof_rewrite_scheduled",
                c"aof_rewrite_in_progress",
                c"rdb_bgsave_in_progress",
            ],
        )
}

/// Whether all fields of an INFO section are there and 0.
fn all_zero(ctx: *mut raw::RedisModuleCtx, section: &CStr, fields: &[&CStr]) -> bool {
    // SAFETY: the pointers are written at load only; the data is freed here.
    unsafe {
        let (Some(get), Some(field_of), Some(free)) = (
            raw::RedisModule_GetServerInfo,
            raw::RedisModule_ServerInfoGetFieldUnsigned,
            raw::RedisModule_FreeServerInfo,
        ) else {
            return false;
        };
        let data = get(ctx, section.as_ptr());
        if data.is_null() {
            return false;
        }
        let all_zero = fields.iter().all(|field| {
            let mut error: c_int = 0;
            let value = field_of(data, field.as_ptr(), &mut error);
            error == STATUS_OK && value == 0
        });
        free(ctx, data);
        all_zero
    }
}
