//! One file a command. Those on one key share their course: parse, open,
//! decide, store, tell, reply.

mod give;
mod mtake;
mod peek;
mod take;
mod throttle;

pub use give::give;
pub use mtake::mtake;
pub use peek::peek;
pub use take::take;
pub use throttle::throttle;

use crate::args::{Args, Options, Request, Word};
use crate::clock;
use crate::events;
use crate::fault::{self, Fault};
use crate::guard::guarded;
use crate::key::{Access, Key};
use crate::reply;
use crate::stats::{self, Deed};
use redis_module::raw;
use rl_core::{Account, Ask, Limit, Report, Slots};
use std::os::raw::c_int;

/// What the server calls for a command.
pub type Callback = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut Word, c_int) -> c_int;

/// A command as it is written here.
pub type Command = fn(*mut raw::RedisModuleCtx, Args) -> Result<(), Fault>;

/// What was done, and what the account says to it.
type Decided = Result<(Deed, Report), Fault>;

/// Runs a command on the arguments as the server hands them over.
///
/// # Safety
///
/// `argv` points to `argc` words that live until the call returns.
pub unsafe fn run(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut Word,
    argc: c_int,
    command: Command,
) -> c_int {
    let len = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller's promise.
    let words = unsafe { std::slice::from_raw_parts(argv, len) };
    guarded(ctx, || command(ctx, Args::new(words)))
}

/// The course of RL.TAKE, RL.PEEK and RL.GIVE: `key limit [limit ...]
/// [options]`, and the reply of five integers.
fn answer(
    ctx: *mut raw::RedisModuleCtx,
    mut args: Args,
    options: Options,
    access: Access,
    decide: impl FnOnce(&mut Account, Ask) -> Decided,
) -> Result<(), Fault> {
    if args.left() < 3 {
        return Err(Fault::Arity);
    }
    let name = args.key()?;
    let mut limits = Slots::new();
    let Request { ask, detail } = args.request(options, |limit| {
        limits
            .push(limit)
            .map(|_| ())
            .map_err(|_| Fault::from(fault::TOO_MANY_LIMITS))
    })?;
    let key = Key::open(ctx, name, access);
    let mut account = Account::new(clock::now_us());
    account.read(key.bytes()?, &limits)?;
    let (deed, report) = decide(&mut account, ask)?;
    finish(&key, &account, deed, &report, &limits);
    let allowed = if ask.at_most {
        report.taken
    } else {
        u64::from(report.admitted)
    };
    let detail = detail.then(|| (limits.len(), account.answers()));
    reply::verdict(ctx, allowed, &report.governing, detail);
    Ok(())
}

/// Stores what changed, counts the call and tells of it.
fn finish(key: &Key, account: &Account, deed: Deed, report: &Report, limits: &Slots<Limit>) {
    if report.store {
        key.store(account);
    }
    stats::count(deed, limits.iter());
    events::tell(key, deed);
}

/// What a take turned out to be.
fn deed_of_take(ask: Ask, report: &Report) -> Deed {
    match (report.admitted, ask.cost) {
        (_, 0) => Deed::Peeked { units: 0 },
        (false, units) => Deed::Refused { units },
        (true, _) if ask.force => Deed::Forced {
            units: report.taken,
        },
        (true, _) => Deed::Admitted {
            units: report.taken,
        },
    }
}
