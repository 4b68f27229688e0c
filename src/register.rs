//! What happens at load: the handshake with the server, the checks, the
//! registration of the commands.

use crate::args::{self, Word};
use crate::commands::Callback;
use crate::docs::{self, Docs, Keys};
use crate::followers;
use crate::server::{self, api, int, STATUS_ERR, STATUS_OK};
use crate::stats;
use redis_module::raw;
use std::ffi::{CStr, CString};
use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A command to be registered.
pub struct Entry {
    pub name: &'static CStr,
    pub callback: Callback,
    pub flags: &'static CStr,
    pub categories: &'static CStr,
    pub keys: Keys,
    pub docs: &'static Docs,
    /// The name is another module's: if that one is loaded, the name stays its.
    pub borrowed_name: bool,
}

/// The function that the server calls for a command.
macro_rules! callback {
    ($command:path) => {{
        unsafe extern "C" fn callback(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::os::raw::c_int,
        ) -> std::os::raw::c_int {
            // SAFETY: the server's promise to a command.
            unsafe { $crate::commands::run(ctx, argv, argc, $command) }
        }
        callback
    }};
}
pub(crate) use callback;

/// The version that MODULE LIST shows: major x 10000 + minor x 100 + patch.
const VERSION: c_int = 100;

/// Loads the module.
///
/// # Safety
///
/// Only from the server's call of OnLoad, with its arguments.
pub unsafe fn load(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut Word,
    argc: c_int,
    commands: &[Entry],
) -> c_int {
    // SAFETY: ctx is the server's. Nothing may allocate before this call.
    let status = unsafe {
        raw::Export_RedisModule_Init(ctx, c"rl".as_ptr(), VERSION, int(raw::REDISMODULE_APIVER_1))
    };
    if status != STATUS_OK {
        return STATUS_ERR;
    }
    let len = usize::try_from(argc).unwrap_or(0);
    let words = if len == 0 {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(argv, len) }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| start(ctx, words, commands)));
    let problem = match outcome {
        Ok(Ok(())) => return STATUS_OK,
        Ok(Err(problem)) => problem,
        Err(_) => "a panic while loading".to_owned(),
    };
    let text = CString::new(format!("redis-rl is not loaded: {problem}")).unwrap_or_default();
    server::warn(ctx, &text);
    STATUS_ERR
}

fn start(ctx: *mut raw::RedisModuleCtx, words: &[Word], commands: &[Entry]) -> Result<(), String> {
    if let Some(name) = server::missing_function() {
        return Err(format!("the server has no {name}; 6.2 or later is needed"));
    }
    if let Some(word) = words.first() {
        let word = String::from_utf8_lossy(args::bytes(*word)).into_owned();
        return Err(format!("unknown argument {word:?}; it takes none"));
    }
    set_options(ctx);
    commands
        .iter()
        .try_for_each(|command| register(ctx, command))?;
    // SAFETY: ctx is the server's, and the function lives as long as the module.
    unsafe { api!(RedisModule_RegisterInfoFunc(ctx, Some(stats::info))) };
    followers::watch(ctx);
    Ok(())
}

/// Bit 5 of Valkey's module options: slots with our keys may be migrated
/// atomically, since our state is strings and nothing else.
const VALKEY_HANDLES_SLOT_MIGRATION: c_int = 1 << 5;

fn set_options(ctx: *mut raw::RedisModuleCtx) {
    // Watchers are told of changes, not of keys opened to be changed.
    let mut options = int(raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD);
    if server::is_valkey() {
        options |= VALKEY_HANDLES_SLOT_MIGRATION;
    }
    // SAFETY: the pointers are written at load only; ctx is the server's.
    unsafe {
        if let Some(all) = raw::RedisModule_GetModuleOptionsAll {
            options &= all();
        }
        api!(RedisModule_SetModuleOptions(ctx, options));
    }
}

fn register(ctx: *mut raw::RedisModuleCtx, command: &Entry) -> Result<(), String> {
    let name = command.name.to_string_lossy();
    let (flags, position) = match command.keys {
        Keys::Read | Keys::Changed => (command.flags.to_owned(), 1),
        // Where a cluster routes a command, it knows a range of keys or asks
        // the command itself; key specs serve ACLs and COMMAND GETKEYS only.
        Keys::CountedChanged => (with_flag(command.flags, "getkeys-api"), 0),
    };
    // SAFETY: the server copies the strings.
    let status = unsafe {
        api!(RedisModule_CreateCommand(
            ctx,
            command.name.as_ptr(),
            Some(command.callback),
            flags.as_ptr(),
            position,
            position,
            position
        ))
    };
    if status != STATUS_OK {
        if command.borrowed_name {
            return Ok(());
        }
        return Err(format!("the command {name} exists already"));
    }
    // SAFETY: as above.
    let Some(get_command) = (unsafe { raw::RedisModule_GetCommand }) else {
        return Ok(());
    };
    // SAFETY: the command was created a moment ago.
    let handle = unsafe { get_command(ctx, command.name.as_ptr()) };
    if docs::describe(handle, command.docs, command.keys).is_some_and(|status| status != STATUS_OK)
    {
        return Err(format!("the server refused the description of {name}"));
    }
    // SAFETY: the pointer is written at load only; the server copies the text.
    let set = unsafe {
        raw::RedisModule_SetCommandACLCategories
            .map(|set_categories| set_categories(handle, command.categories.as_ptr()))
    };
    if set.is_some_and(|status| status != STATUS_OK) {
        return Err(format!("the server refused the ACL categories of {name}"));
    }
    Ok(())
}

fn with_flag(flags: &CStr, flag: &str) -> CString {
    CString::new(format!("{} {flag}", flags.to_string_lossy())).unwrap_or_default()
}
