//! The one place that reads time.

use redis_module::raw;
use rl_core::MAX_INSTANT_US;

/// The server's wall clock in microseconds since the epoch; to be read once a
/// command.
///
/// From 7.2 on (and on every Valkey) it is the instant at which the command
/// began, which stands still within scripts and transactions. Older servers
/// have no such clock in microseconds, so it is read from the system.
pub fn now_us() -> u64 {
    // SAFETY: the pointer is written at load only, and the function only reads.
    let now_us = match unsafe { raw::RedisModule_CachedMicroseconds } {
        // SAFETY: as above.
        Some(cached_us) => u64::try_from(unsafe { cached_us() }).unwrap_or(0),
        None => system_us(),
    };
    now_us.min(MAX_INSTANT_US)
}

fn system_us() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to the timespec that it is given.
    if unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) } != 0 {
        return 0;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(nanoseconds / 1_000)
}
