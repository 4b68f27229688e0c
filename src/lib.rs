//! Rate limiting as native commands of Redis and Valkey.
//!
//! ```text
//! lib         this page: the table of commands
//! register    what happens at load
//! commands/   one file a command: parse, open, decide, store, reply
//!   args      words -> a request, or the fault with them
//!   key       the stored state on a key: read, changed, expired
//!   propagate what reaches replicas and the AOF
//!   followers whether there are any
//!   clock     the one place that reads time
//!   reply     units and rounding of replies
//!   fault     the error texts
//!   guard     no panic reaches the server
//!   stats     the section of INFO
//!   events    keyspace events
//! docs        arity, key positions, COMMAND DOCS
//! server      the functions of the module API
//! ```
//!
//! The arithmetic is the crate `rl-core`, which knows nothing of a server.

mod args;
mod clock;
mod commands;
mod docs;
mod events;
mod fault;
mod followers;
mod guard;
mod key;
mod propagate;
mod register;
mod reply;
mod server;
mod stats;

use docs::Keys;
use redis_module::alloc::RedisAlloc;
use register::{callback, Entry};

/// Memory of the module is memory of the server: it counts in used_memory.
#[global_allocator]
static ALLOCATOR: RedisAlloc = RedisAlloc;

/// The commands: name, code, flags, ACL categories, keys, docs.
const COMMANDS: &[Entry] = &[
    Entry {
        name: c"RL.TAKE",
        callback: callback!(commands::take),
        flags: c"write deny-oom fast",
        categories: c"write fast",
        keys: Keys::Changed,
        docs: &docs::TAKE,
        borrowed_name: false,
    },
    Entry {
        name: c"RL.PEEK",
        callback: callback!(commands::peek),
        flags: c"readonly fast",
        categories: c"read fast",
        keys: Keys::Read,
        docs: &docs::PEEK,
        borrowed_name: false,
    },
    Entry {
        name: c"RL.GIVE",
        callback: callback!(commands::give),
        // Without deny-oom: returning units needs no memory to speak of.
        flags: c"write fast",
        categories: c"write fast",
        keys: Keys::Changed,
        docs: &docs::GIVE,
        borrowed_name: false,
    },
    Entry {
        name: c"RL.MTAKE",
        callback: callback!(commands::mtake),
        flags: c"write deny-oom",
        categories: c"write",
        keys: Keys::CountedChanged,
        docs: &docs::MTAKE,
        borrowed_name: false,
    },
    Entry {
        name: c"RL.THROTTLE",
        callback: callback!(commands::throttle),
        flags: c"write deny-oom fast",
        categories: c"write fast",
        keys: Keys::Changed,
        docs: &docs::THROTTLE,
        borrowed_name: false,
    },
    Entry {
        name: c"CL.THROTTLE",
        callback: callback!(commands::throttle),
        flags: c"write deny-oom fast",
        categories: c"write fast",
        keys: Keys::Changed,
        docs: &docs::THROTTLE,
        borrowed_name: true,
    },
];

/// Called by the server when it loads the module.
///
/// # Safety
///
/// Only the server calls it, with its own context and arguments.
#[no_mangle]
#[allow(non_snake_case)] // The server looks for this name.
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut redis_module::raw::RedisModuleCtx,
    argv: *mut args::Word,
    argc: std::os::raw::c_int,
) -> std::os::raw::c_int {
    // SAFETY: the caller's promise.
    unsafe { register::load(ctx, argv, argc, COMMANDS) }
}
