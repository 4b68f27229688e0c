//! RL.MTAKE numkeys key [key ...] limit [limit ...] [COST n] [DETAIL]

use crate::args::{self, Args, Options, Request, Word};
use crate::clock;
use crate::events;
use crate::fault::{self, Fault};
use crate::key::{Access, Key};
use crate::reply;
use crate::server::api;
use crate::stats::{self, Deed};
use redis_module::raw;
use rl_core::{governing, Account, Answer, Report, Slots, Wait};

const OPTIONS: Options = Options {
    at_most: false,
    force: false,
    names: "COST, DETAIL",
};

/// How many keys a call may name: keeps one call from holding up the server.
pub const MAX_KEYS: u64 = 128;

/// Takes units of one limit on each of several keys, or of none.
pub fn mtake(ctx: *mut raw::RedisModuleCtx, mut args: Args) -> Result<(), Fault> {
    // SAFETY: a plain call of the module API within a command.
    if unsafe { api!(RedisModule_IsKeysPositionRequest(ctx)) } != 0 {
        tell_key_positions(ctx, &mut args);
        return Ok(());
    }
    if args.left() < 4 {
        return Err(Fault::Arity);
    }
    let names = names(&mut args)?;
    if args.left() < 2 {
        return Err(Fault::Arity);
    }
    let mut limits = Vec::new();
    let Request { ask, detail } = args.request(OPTIONS, |limit| {
        limits.push(limit);
        Ok(())
    })?;
    if limits.len() != names.len() {
        return Err(Fault::from(format!(
            "ERR RL.MTAKE needs one limit per key: {} keys, {} limits",
            names.len(),
            limits.len()
        )));
    }
    if repeats(names) {
        return Err(Fault::from(fault::SAME_KEY));
    }

    let now_us = clock::now_us();
    let keys: Vec<Key> = names
        .iter()
        .map(|name| Key::open(ctx, *name, Access::Change))
        .collect();
    let mut accounts = Vec::with_capacity(keys.len());
    for (key, limit) in keys.iter().zip(&limits) {
        accounts.push(Account::open(key.bytes()?, &Slots::one(*limit), now_us)?);
    }

    let cost = ask.cost;
    let admitted = accounts.iter().all(|account| account.admits(cost));
    let reports: Vec<Report> = accounts
        .iter_mut()
        .map(|account| match (admitted, cost) {
            (false, _) => account.refuse(cost),
            (true, 0) => account.peek(ask),
            (true, _) => account.charge(cost),
        })
        .collect();
    let answers: Vec<Answer> = reports.iter().map(|report| report.governing).collect();
    let governing = governing(admitted, answers.iter());

    if cost > 0 && governing.wait != Wait::Never {
        for ((key, account), report) in keys.iter().zip(&accounts).zip(&reports) {
            if report.store {
                key.store(account);
            }
        }
    }
    let deed = match (admitted, cost) {
        (_, 0) => Deed::Peeked { units: 0 },
        (true, units) => Deed::Admitted { units },
        (false, units) => Deed::Refused { units },
    };
    stats::count(deed, limits.iter());
    for (key, report) in keys.iter().zip(&reports) {
        // Of a refused call, only the keys that stood in its way tell of it.
        if admitted || report.governing.wait != Wait::Now {
            events::tell(key, deed);
        }
    }
    let detail = detail.then(|| (answers.len(), answers.iter()));
    reply::verdict(ctx, u64::from(admitted), &governing, detail);
    Ok(())
}

/// The keys that numkeys announces.
fn names<'a>(args: &mut Args<'a>) -> Result<&'a [Word], Fault> {
    let count = args
        .next()
        .and_then(args::integer)
        .filter(|count| (1..=MAX_KEYS).contains(count))
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(Fault::from(fault::NUMKEYS))?;
    args.keys(count)
}

fn repeats(names: &[Word]) -> bool {
    let mut sorted: Vec<&[u8]> = names.iter().map(|name| args::bytes(*name)).collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Answers a server that asks the command where its keys are.
fn tell_key_positions(ctx: *mut raw::RedisModuleCtx, args: &mut Args) {
    let keys = names(args).map_or(0, <[Word]>::len);
    for position in (2..).take(keys) {
        // SAFETY: the server asked for positions.
        unsafe { api!(RedisModule_KeyAtPos(ctx, position)) };
    }
}
