//! RL.PEEK key limit [limit ...] [COST n | ATMOST n] [DETAIL]

use super::answer;
use crate::args::{Args, Options};
use crate::fault::Fault;
use crate::key::Access;
use crate::stats::Deed;
use redis_module::raw;

const OPTIONS: Options = Options {
    at_most: true,
    force: false,
    names: "COST, ATMOST, DETAIL",
};

/// Says what a take would be answered, and how things stand. Writes nothing.
pub fn peek(ctx: *mut raw::RedisModuleCtx, args: Args) -> Result<(), Fault> {
    answer(ctx, args, OPTIONS, Access::Read, |account, ask| {
        Ok((Deed::Peeked { units: ask.cost }, account.peek(ask)))
    })
}
