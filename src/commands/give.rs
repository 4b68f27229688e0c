//! RL.GIVE key limit [limit ...] [COST n] [DETAIL]

use super::allowed;
use crate::args::{Args, Options, Request};
use crate::clock;
use crate::fault::Fault;
use crate::key::Key;
use crate::reply;
use redis_module::raw;
use rl_core::{Account, Slots};

const OPTIONS: Options = Options {
    at_most: false,
    force: false,
    names: "COST, DETAIL",
};

/// Returns units to every limit of a key.
pub fn give(ctx: *mut raw::RedisModuleCtx, mut args: Args) -> Result<(), Fault> {
    if args.left() < 3 {
        return Err(Fault::Arity);
    }
    let name = args.key()?;
    let request = Request::<Slots<_>>::parse(&mut args, OPTIONS)?;
    let now_us = clock::now_us();
    let key = Key::writable(ctx, name);
    let mut account = Account::open(key.bytes()?, &request.limits, now_us)?;
    let report = account.give(request.ask.cost);
    if report.store {
        key.store(&account, now_us);
    }
    reply::verdict(
        ctx,
        allowed(request.ask.at_most, &report),
        &report.governing(),
        reply::detail(request.detail, &report.answers),
    );
    Ok(())
}
