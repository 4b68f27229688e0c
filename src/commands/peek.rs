//! RL.PEEK key limit [limit ...] [COST n | ATMOST n] [DETAIL]

use super::allowed;
use crate::args::{Args, Options, Request};
use crate::clock;
use crate::fault::Fault;
use crate::key::Key;
use crate::reply;
use redis_module::raw;
use rl_core::{Account, Slots};

const OPTIONS: Options = Options {
    at_most: true,
    force: false,
    names: "COST, ATMOST, DETAIL",
};

/// Says what a take would be answered, and how things stand. Writes nothing.
pub fn peek(ctx: *mut raw::RedisModuleCtx, mut args: Args) -> Result<(), Fault> {
    if args.left() < 3 {
        return Err(Fault::Arity);
    }
    let name = args.key()?;
    let request = Request::<Slots<_>>::parse(&mut args, OPTIONS)?;
    let key = Key::readable(ctx, name);
    let account = Account::open(key.bytes()?, &request.limits, clock::now_us())?;
    let report = account.peek(request.ask);
    reply::verdict(
        ctx,
        allowed(request.ask.at_most, &report),
        &report.governing(),
        reply::detail(request.detail, &report.answers),
    );
    Ok(())
}
