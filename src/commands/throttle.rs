//! RL.THROTTLE key max_burst count period [quantity], also as CL.THROTTLE
//!
//! The command of redis-cell: `GCRA count period BURST max_burst+1`, with a
//! reply of its own in seconds.

use super::{deed_of_take, finish};
use crate::args::{self, Args};
use crate::clock;
use crate::fault::{self, Fault};
use crate::key::{Access, Key};
use crate::reply;
use crate::stats::Deed;
use redis_module::raw;
use rl_core::{Account, Algorithm, Ask, Limit, Slots, MAX_UNITS};

/// What the quantity asks for: a negative one gives, 0 peeks.
enum Quantity {
    Take(u64),
    Give(u64),
}

/// Takes, gives or peeks by redis-cell's conventions.
pub fn throttle(ctx: *mut raw::RedisModuleCtx, mut args: Args) -> Result<(), Fault> {
    if !(4..=5).contains(&args.left()) {
        return Err(Fault::Arity);
    }
    let name = args.key()?;
    let mut word = || args.next().ok_or(Fault::Arity);
    let max_burst = args::integer(word()?)
        .filter(|max_burst| *max_burst < MAX_UNITS)
        .ok_or(Fault::from(fault::MAX_BURST))?;
    let count = args::units(word()?, fault::COUNT)?;
    let period_us = args::period_us(word()?)?;
    let quantity = match args.next() {
        Some(word) => quantity(word)?,
        None => Quantity::Take(1),
    };
    let limit = Limit::new(Algorithm::Gcra, count, period_us, Some(max_burst + 1))?;
    let limits = Slots::one(limit);
    let key = Key::open(ctx, name, Access::Change);
    let mut account = Account::new(clock::now_us());
    account.read(key.bytes()?, &limits)?;
    let (deed, report) = match quantity {
        Quantity::Take(cost) => {
            let ask = Ask::cost(cost);
            let report = account.take(ask)?;
            (deed_of_take(ask, &report), report)
        }
        Quantity::Give(units) => (Deed::Given { units }, account.give(units)),
    };
    finish(&key, &account, deed, &report, &limits);
    reply::throttle(ctx, report.admitted, &report.governing);
    Ok(())
}

fn quantity(word: &[u8]) -> Result<Quantity, Fault> {
    match word {
        [b'-', b'0', ..] => Err(Fault::from(fault::QUANTITY)),
        [b'-', digits @ ..] => args::units(digits, fault::QUANTITY).map(Quantity::Give),
        digits => args::units(digits, fault::QUANTITY).map(Quantity::Take),
    }
}
