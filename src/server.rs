//! What the module asks of the server: the API functions it calls.
//!
//! Functions that every server since 6.2 has are checked once, at load, and
//! called with [`api!`]. Newer ones stay `Option`s and are looked at where
//! they are used.

use redis_module::raw;
use std::ffi::CStr;
use std::os::raw::c_int;

/// Calls a function of the module API that [`missing_function`] has checked.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match redis_module::raw::$name {
            Some(function) => function($($argument),*),
            None => $crate::server::unreachable_function(stringify!($name)),
        }
    };
}
pub(crate) use api;

/// Reached only if a function was used without standing in the list below.
#[cold]
#[allow(clippy::panic)] // Our own mistake; the guard of the command turns it into an error reply.
pub fn unreachable_function(name: &str) -> ! {
    panic!("{name} was not looked up at load")
}

/// The first function that the module can't do without and that the server
/// lacks.
pub fn missing_function() -> Option<&'static str> {
    macro_rules! first_missing {
        ($($name:ident),* $(,)?) => {
            // SAFETY: the pointers are written at load only, which is where this is called.
            $(if unsafe { raw::$name }.is_none() {
                return Some(stringify!($name));
            })*
        };
    }
    first_missing!(
        RedisModule_Alloc,
        RedisModule_Free,
        RedisModule_Call,
        RedisModule_CallReplyType,
        RedisModule_CloseKey,
        RedisModule_CreateCommand,
        RedisModule_DeleteKey,
        RedisModule_FreeCallReply,
        RedisModule_InfoAddFieldULongLong,
        RedisModule_InfoAddSection,
        RedisModule_InfoBeginDictField,
        RedisModule_InfoEndDictField,
        RedisModule_IsKeysPositionRequest,
        RedisModule_KeyAtPos,
        RedisModule_KeyType,
        RedisModule_Log,
        RedisModule_OpenKey,
        RedisModule_NotifyKeyspaceEvent,
        RedisModule_RegisterInfoFunc,
        RedisModule_Replicate,
        RedisModule_ReplicateVerbatim,
        RedisModule_ReplyWithArray,
        RedisModule_ReplyWithError,
        RedisModule_ReplyWithLongLong,
        RedisModule_SetModuleOptions,
        RedisModule_SignalModifiedKey,
        RedisModule_StringDMA,
        RedisModule_StringPtrLen,
        RedisModule_StringTruncate,
        RedisModule_ValueLength,
        RedisModule_WrongArity,
    );
    None
}

/// Whether the server is a Valkey: only there do its own option bits mean
/// what Valkey says they mean.
pub fn is_valkey() -> bool {
    let mut function: *mut std::ffi::c_void = std::ptr::null_mut();
    // SAFETY: GetApi writes a function pointer through its second argument, or
    // nothing where it doesn't know the name. The pointer is not used.
    let found = unsafe {
        api!(RedisModule_GetApi(
            c"ValkeyModule_SetModuleOptions".as_ptr(),
            std::ptr::addr_of_mut!(function).cast(),
        ))
    };
    found == STATUS_OK
}

/// A constant of the API's header as the C int that its functions take.
#[allow(clippy::cast_possible_wrap)] // Checked on the line before.
pub const fn int(constant: u32) -> c_int {
    assert!(constant >> 31 == 0);
    constant as c_int
}

pub const STATUS_OK: c_int = 0;
pub const STATUS_ERR: c_int = 1;

/// Writes a warning to the server's log.
pub fn warn(ctx: *mut raw::RedisModuleCtx, text: &CStr) {
    // SAFETY: the format takes exactly one C string.
    unsafe {
        api!(RedisModule_Log(
            ctx,
            c"warning".as_ptr(),
            c"%s".as_ptr(),
            text.as_ptr()
        ))
    };
}
