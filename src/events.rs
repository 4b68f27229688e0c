//! Keyspace events, for whoever wants to watch who is being refused:
//! `rl.take`, `rl.refuse` and `rl.give` in the class of modules (`d` in
//! `notify-keyspace-events`). While that class is off they cost nothing.

use crate::key::Key;
use crate::server::api;
use crate::stats::Deed;
use redis_module::raw;
use std::os::raw::c_int;

const MODULE_CLASS: c_int = raw::REDISMODULE_NOTIFY_MODULE;

/// Tells of what was done to a key. Peeks are not told of.
pub fn tell(key: &Key, deed: Deed) {
    let event = match deed {
        Deed::Admitted { .. } | Deed::Forced { .. } => c"rl.take",
        Deed::Refused { .. } => c"rl.refuse",
        Deed::Given { .. } => c"rl.give",
        Deed::Peeked { .. } => return,
    };
    // SAFETY: the key is of the running command, the event is static.
    unsafe {
        api!(RedisModule_NotifyKeyspaceEvent(
            key.ctx(),
            MODULE_CLASS,
            event.as_ptr(),
            key.name()
        ))
    };
}
