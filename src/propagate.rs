//! What reaches replicas and the AOF: the result, as plain commands that every
//! server knows, with absolute times. A replica needs no module, and replaying
//! an AOF an hour later gives the state of an hour ago.
//!
//! ```text
//! a take, a give          SET key value PXAT expiry
//! a large log             SETRANGE key offset bytes ... [PEXPIREAT key expiry]
//! nothing held any more   DEL key
//! a refusal, a peek       nothing
//! ```
//!
//! Sending also counts the change, so that save points see it. Where certainly
//! nobody follows, only that is done.

use crate::args::Word;
use crate::followers;
use crate::server::api;
use redis_module::raw;

/// The longest value that is sent as a whole. A log that is longer is sent in
/// the pieces that changed, so that a take costs the same however long it is.
pub const WHOLE_LEN: usize = 384;

/// A change of a key.
pub enum Change<'a> {
    /// The value is new.
    Whole { value: &'a [u8], expire_ms: i64 },
    /// Pieces of the value, as (offset, length), are new, and maybe the expiry.
    Patched {
        value: &'a [u8],
        patches: &'a [(usize, usize)],
        expire_ms: Option<i64>,
    },
    /// The key is gone.
    Deleted,
}

/// Sends a change to whoever follows.
#[inline]
pub fn send(ctx: *mut raw::RedisModuleCtx, key: Word, change: Change) {
    if followers::possible() {
        replicate(ctx, key, change);
    } else {
        // The cheapest way to count a change. The command itself, which this
        // would send, reaches nobody.
        // SAFETY: a plain call of the module API within a command.
        unsafe { api!(RedisModule_ReplicateVerbatim(ctx)) };
    }
}

#[inline(never)]
fn replicate(ctx: *mut raw::RedisModuleCtx, key: Word, change: Change) {
    // SAFETY: each format says what follows it: s a word, b bytes and their
    // length, c a C string, l a long long. The server copies everything.
    unsafe {
        match change {
            Change::Whole { value, expire_ms } => {
                api!(RedisModule_Replicate(
                    ctx,
                    c"SET".as_ptr(),
                    c"sbcl".as_ptr(),
                    key,
                    value.as_ptr(),
                    value.len(),
                    c"PXAT".as_ptr(),
                    expire_ms
                ));
            }
            Change::Patched {
                value,
                patches,
                expire_ms,
            } => {
                for (offset, len) in patches {
                    let Some(bytes) = value.get(*offset..offset + len) else {
                        continue;
                    };
                    api!(RedisModule_Replicate(
                        ctx,
                        c"SETRANGE".as_ptr(),
                        c"slb".as_ptr(),
                        key,
                        i64::try_from(*offset).unwrap_or(0),
                        bytes.as_ptr(),
                        bytes.len()
                    ));
                }
                if let Some(expire_ms) = expire_ms {
                    api!(RedisModule_Replicate(
                        ctx,
                        c"PEXPIREAT".as_ptr(),
                        c"sl".as_ptr(),
                        key,
                        expire_ms
                    ));
                }
            }
            Change::Deleted => {
                api!(RedisModule_Replicate(
                    ctx,
                    c"DEL".as_ptr(),
                    c"s".as_ptr(),
                    key
                ));
            }
        }
    }
}
