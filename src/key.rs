//! A limiter's state on a key of the server. Every unsafe call about keys is
//! here.
//!
//! The value is an ordinary string. It is created by truncation, which makes
//! an unshared string from the start, and is changed where it lies.

use crate::args::Word;
use crate::fault::Fault;
use crate::propagate::{self, Change};
use crate::server::{api, int};
use redis_module::raw;
use rl_core::Account;
use std::cell::Cell;
use std::os::raw::c_int;

/// What a command may do to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Change,
}

/// A key opened for one command; closed when dropped.
pub struct Key {
    ctx: *mut raw::RedisModuleCtx,
    name: Word,
    handle: *mut raw::RedisModuleKey,
    access: Access,
    /// Where the value lies, once it was read.
    value: Cell<Option<(*mut u8, usize)>>,
}

/// A key is kept so much longer than its state matters: a quarter of the time
/// until then, or a second. A busy key so gets a new expiry only now and then.
const SLACK_PART: i64 = 4;
const SLACK_MS: i64 = 1_000;
/// What rounding to milliseconds may take off the slack.
const ROUNDING_MS: i64 = 2;

const NO_EXPIRE: i64 = raw::REDISMODULE_NO_EXPIRE as i64;
const MODE_READ: c_int = int(raw::REDISMODULE_READ);
const MODE_WRITE: c_int = int(raw::REDISMODULE_WRITE);
/// Leaves the key's idle time as it is; servers that don't know it ignore it.
const MODE_NO_TOUCH: c_int = int(raw::REDISMODULE_OPEN_KEY_NOTOUCH);

impl Key {
    /// Opens a key.
    pub fn open(ctx: *mut raw::RedisModuleCtx, name: Word, access: Access) -> Key {
        let mode = match access {
            Access::Read => MODE_READ | MODE_NO_TOUCH,
            Access::Change => MODE_READ | MODE_WRITE,
        };
        // SAFETY: ctx and name are those of the running command. A missing key
        // opened to be read gives a null handle, which every call here takes.
        let handle = unsafe { api!(RedisModule_OpenKey(ctx, name, mode)) };
        Key {
            ctx,
            name,
            handle: handle.cast(),
            access,
            value: Cell::new(None),
        }
    }

    /// The context of the command that opened it.
    pub fn ctx(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// The key's name.
    pub fn name(&self) -> Word {
        self.name
    }

    /// The stored bytes, or `None` where there is no key.
    ///
    /// The slice shows the value as it was when the command began: nothing may
    /// read it after [`Key::store`].
    pub fn bytes(&self) -> Result<Option<&[u8]>, Fault> {
        // Reading a value directly gives it an encoding of its own, so what
        // can't be ours by its length is left alone.
        // SAFETY: the handle is open.
        let len = unsafe { api!(RedisModule_ValueLength(self.handle)) };
        if len == 0 && self.is_missing() {
            return Ok(None);
        }
        if !rl_core::is_possible_len(len) {
            return Err(Fault::WrongType);
        }
        let (start, len) = self.direct();
        if start.is_null() {
            // Not a string, but a collection of so many members.
            return Err(Fault::WrongType);
        }
        self.value.set(Some((start, len)));
        // SAFETY: the server gives a pointer to len bytes, which stay until the
        // key is written or closed; it is written only through `store`.
        Ok(Some(unsafe { std::slice::from_raw_parts(start, len) }))
    }

    fn is_missing(&self) -> bool {
        // SAFETY: the handle is open.
        let key_type = unsafe { api!(RedisModule_KeyType(self.handle)) };
        key_type == raw::KeyType::Empty as c_int
    }

    /// Stores what the account holds: changes the value where it lies, builds
    /// it anew, or deletes the key if nothing is held; sets the expiry; tells
    /// watchers, replicas and the AOF.
    pub fn store(&self, account: &Account) {
        if account.is_unused() {
            self.delete();
            propagate::send(self.ctx, self.name, Change::Deleted);
        } else {
            // The account may look into the stored bytes, so whatever it is
            // asked comes before they change.
            let (free_at_us, now_us) = (account.free_at_us(), account.now_us());
            let in_place = self.value.get();
            if !in_place.is_some_and(|place| self.change(place, account, free_at_us, now_us)) {
                self.build(account, free_at_us, now_us);
            }
        }
        // SAFETY: ctx and name are those of the running command.
        unsafe { api!(RedisModule_SignalModifiedKey(self.ctx, self.name)) };
    }

    /// Changes a value where it lies, if it can be; returns whether it was.
    fn change(
        &self,
        (start, len): (*mut u8, usize),
        account: &Account,
        free_at_us: u64,
        now_us: u64,
    ) -> bool {
        let piecemeal = len > propagate::WHOLE_LEN;
        let mut patches = Vec::new();
        let changed = account.patches(|offset, bytes| {
            // SAFETY: the value has len bytes, and handing out the patches
            // reads none of them.
            unsafe { copy(bytes, start, offset, len) };
            if piecemeal {
                patches.push((offset, bytes.len()));
            }
        });
        if !changed {
            return false;
        }
        let (expire_ms, new_expiry) = self.expire(free_at_us, now_us);
        // SAFETY: the value has len bytes and has not moved.
        let value = unsafe { std::slice::from_raw_parts(start, len) };
        let change = if piecemeal {
            Change::Patched {
                value,
                patches: &patches,
                expire_ms: new_expiry.then_some(expire_ms),
            }
        } else {
            Change::Whole { value, expire_ms }
        };
        propagate::send(self.ctx, self.name, change);
        true
    }

    /// Builds the value anew.
    #[inline(never)]
    fn build(&self, account: &Account, free_at_us: u64, now_us: u64) {
        let mut built = vec![0; account.stored_len()];
        account.pieces(|offset, bytes| {
            if let Some(place) = built.get_mut(offset..offset + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        });
        if self.value.get().is_some() {
            // Growing a string in place would double its room.
            self.delete();
        }
        self.create(&built);
        let (expire_ms, _) = self.expire(free_at_us, now_us);
        let value = &built;
        propagate::send(self.ctx, self.name, Change::Whole { value, expire_ms });
    }

    /// Makes a value of its own for a key that has none.
    fn create(&self, value: &[u8]) {
        // SAFETY: the handle is open to be written, and the key is empty.
        unsafe { api!(RedisModule_StringTruncate(self.handle, value.len())) };
        let (start, len) = self.direct();
        // SAFETY: the server gives a pointer to len bytes.
        unsafe { copy(value, start, 0, len) };
    }

    fn delete(&self) {
        // SAFETY: the handle is open to be written.
        unsafe { api!(RedisModule_DeleteKey(self.handle)) };
    }

    /// Where the value lies; null if it is not a string.
    fn direct(&self) -> (*mut u8, usize) {
        let mode = match self.access {
            Access::Read => MODE_READ,
            Access::Change => MODE_READ | MODE_WRITE,
        };
        let mut len = 0;
        // SAFETY: the handle is open in this mode.
        let start = unsafe { api!(RedisModule_StringDMA(self.handle, &mut len, mode)) };
        (start.cast(), len)
    }

    /// Sees to it that the key expires between the instant from which its
    /// state says nothing any more and the end of the slack after it. Returns
    /// the expiry in milliseconds since the epoch, and whether it is a new one.
    fn expire(&self, free_at_us: u64, now_us: u64) -> (i64, bool) {
        let free_ms = i64::try_from(free_at_us.div_ceil(1_000)).unwrap_or(i64::MAX);
        let now_ms = i64::try_from(now_us / 1_000).unwrap_or(0);
        let slack_ms = ((free_ms - now_ms) / SLACK_PART).max(SLACK_MS) - ROUNDING_MS;
        // SAFETY: the pointers are written at load only, the handle is open.
        unsafe {
            if let Some(get_abs_expire) = raw::RedisModule_GetAbsExpire {
                let expire_ms = get_abs_expire(self.handle);
                if expire_ms != NO_EXPIRE && (free_ms..=free_ms + slack_ms).contains(&expire_ms) {
                    return (expire_ms, false);
                }
            }
            let expire_ms = free_ms + slack_ms;
            match raw::RedisModule_SetAbsExpire {
                Some(set_abs_expire) => {
                    set_abs_expire(self.handle, expire_ms);
                }
                None => self.expire_by_command(expire_ms),
            }
            (expire_ms, true)
        }
    }

    /// Redis 6.2.0 to 6.2.7 let a module set only relative expiries, which
    /// would differ from the one that replicas are told.
    fn expire_by_command(&self, expire_ms: i64) {
        // SAFETY: the format takes a word and a long long; the reply is freed.
        unsafe {
            let reply = api!(RedisModule_Call(
                self.ctx,
                c"PEXPIREAT".as_ptr(),
                c"sl".as_ptr(),
                self.name,
                expire_ms
            ));
            if !reply.is_null() {
                api!(RedisModule_FreeCallReply(reply));
            }
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by this command and is closed once.
        unsafe { api!(RedisModule_CloseKey(self.handle)) };
    }
}

/// Copies bytes to an offset of a value of `len` bytes, if they fit.
///
/// # Safety
///
/// `start` points to `len` writable bytes that `bytes` does not overlap.
unsafe fn copy(bytes: &[u8], start: *mut u8, offset: usize, len: usize) {
    if offset + bytes.len() <= len {
        // SAFETY: inside the value, as the line above checks.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(offset), bytes.len()) };
    }
}
