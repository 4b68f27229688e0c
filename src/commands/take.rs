//! RL.TAKE key limit [limit ...] [COST n | ATMOST n] [FORCE] [DETAIL]

use super::{answer, deed_of_take};
use crate::args::{Args, Options};
use crate::fault::Fault;
use crate::key::Access;
use redis_module::raw;

const OPTIONS: Options = Options {
    at_most: true,
    force: true,
    names: "COST, ATMOST, FORCE, DETAIL",
};

/// Takes units of every limit of a key, or of none.
pub fn take(ctx: *mut raw::RedisModuleCtx, args: Args) -> Result<(), Fault> {
    answer(ctx, args, OPTIONS, Access::Change, |account, ask| {
        let report = account.take(ask)?;
        Ok((deed_of_take(ask, &report), report))
    })
}
