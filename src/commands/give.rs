//! RL.GIVE key limit [limit ...] [COST n] [DETAIL]

use super::answer;
use crate::args::{Args, Options};
use crate::fault::Fault;
use crate::key::Access;
use crate::stats::Deed;
use redis_module::raw;

const OPTIONS: Options = Options {
    at_most: false,
    force: false,
    names: "COST, DETAIL",
};

/// Returns units to every limit of a key.
pub fn give(ctx: *mut raw::RedisModuleCtx, args: Args) -> Result<(), Fault> {
    answer(ctx, args, OPTIONS, Access::Change, |account, ask| {
        Ok((Deed::Given { units: ask.cost }, account.give(ask.cost)))
    })
}
