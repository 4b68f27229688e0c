//! What the server knows of the commands besides their code: arity, key
//! positions and the words of `COMMAND DOCS`, from which redis-cli makes its
//! hints.

use crate::server::int;
use redis_module::raw;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

/// Where a command's keys are, and what it does to them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The first argument is a key that is only read.
    Read,
    /// The first argument is a key that is read and changed.
    Changed,
    /// The first argument says how many keys follow, all read and changed.
    CountedChanged,
}

/// One argument of a command.
struct Arg {
    name: &'static CStr,
    kind: Kind,
    token: Option<&'static CStr>,
    optional: bool,
    multiple: bool,
}

enum Kind {
    Key,
    Integer,
    Text,
    Token,
    OneOf(&'static [Arg]),
    Block(&'static [Arg]),
}

const fn arg(name: &'static CStr, kind: Kind) -> Arg {
    Arg {
        name,
        kind,
        token: None,
        optional: false,
        multiple: false,
    }
}

impl Arg {
    const fn token(self, token: &'static CStr) -> Arg {
        Arg {
            token: Some(token),
            ..self
        }
    }

    const fn optional(self) -> Arg {
        Arg {
            optional: true,
            ..self
        }
    }

    const fn multiple(self) -> Arg {
        Arg {
            multiple: true,
            ..self
        }
    }
}

/// What `COMMAND DOCS` tells of a command.
pub struct Docs {
    summary: &'static CStr,
    complexity: &'static CStr,
    arity: c_int,
    args: &'static [Arg],
}

const COUNT: Arg = arg(c"count", Kind::Integer);
const PERIOD: Arg = arg(c"period", Kind::Text);
const BURST: Arg = arg(c"burst", Kind::Integer).token(c"BURST").optional();
const KEY: Arg = arg(c"key", Kind::Key);
const COST: Arg = arg(c"cost", Kind::Integer).token(c"COST");
const AT_MOST: Arg = arg(c"atmost", Kind::Integer).token(c"ATMOST");
const AMOUNT: Arg = arg(c"amount", Kind::OneOf(&[COST, AT_MOST])).optional();
const FORCE: Arg = arg(c"force", Kind::Token).token(c"FORCE").optional();
const DETAIL: Arg = arg(c"detail", Kind::Token).token(c"DETAIL").optional();

const LIMIT: Arg = arg(
    c"limit",
    Kind::OneOf(&[
        arg(
            c"token-bucket",
            Kind::Block(&[
                arg(c"tokenbucket", Kind::Token)
                    .token(c"TOKENBUCKET")
                    .optional(),
                COUNT,
                PERIOD,
                BURST,
            ]),
        ),
        arg(
            c"generic-cell-rate",
            Kind::Block(&[
                arg(c"gcra", Kind::Token).token(c"GCRA"),
                COUNT,
                PERIOD,
                BURST,
            ]),
        ),
        arg(
            c"leaky-bucket",
            Kind::Block(&[
                arg(c"leakybucket", Kind::Token).token(c"LEAKYBUCKET"),
                COUNT,
                PERIOD,
                BURST,
            ]),
        ),
        arg(
            c"fixed-window",
            Kind::Block(&[
                arg(c"fixedwindow", Kind::Token).token(c"FIXEDWINDOW"),
                COUNT,
                PERIOD,
            ]),
        ),
        arg(
            c"sliding-window",
            Kind::Block(&[
                arg(c"slidingwindow", Kind::Token).token(c"SLIDINGWINDOW"),
                COUNT,
                PERIOD,
            ]),
        ),
        arg(
            c"sliding-log",
            Kind::Block(&[
                arg(c"slidinglog", Kind::Token).token(c"SLIDINGLOG"),
                COUNT,
                PERIOD,
            ]),
        ),
    ]),
)
.multiple();

const PER_LIMIT: &CStr =
    c"O(L) with L the number of limits; of a SLIDINGLOG O(log N) with N its entries";

pub const TAKE: Docs = Docs {
    summary: c"Takes units of every limit of a key, or of none, and says when to come back.",
    complexity: PER_LIMIT,
    arity: -4,
    args: &[KEY, LIMIT, AMOUNT, FORCE, DETAIL],
};

pub const PEEK: Docs = Docs {
    summary: c"Says what RL.TAKE would answer, and how the limits stand. Changes nothing.",
    complexity: PER_LIMIT,
    arity: -4,
    args: &[KEY, LIMIT, AMOUNT, DETAIL],
};

pub const GIVE: Docs = Docs {
    summary: c"Returns units that were taken and not used.",
    complexity: PER_LIMIT,
    arity: -4,
    args: &[KEY, LIMIT, COST_OPTION, DETAIL],
};

const COST_OPTION: Arg = COST.optional();

pub const MTAKE: Docs = Docs {
    summary: c"Takes units of one limit on each of several keys, or of none.",
    complexity: c"O(K) with K the number of keys; of a SLIDINGLOG O(log N) with N its entries",
    arity: -5,
    args: &[
        arg(c"numkeys", Kind::Integer),
        arg(c"key", Kind::Key).multiple(),
        LIMIT,
        COST_OPTION,
        DETAIL,
    ],
};

pub const THROTTLE: Docs = Docs {
    summary: c"Takes units by the conventions of redis-cell: GCRA, with a reply in seconds.",
    complexity: c"O(1)",
    arity: -5,
    args: &[
        KEY,
        arg(c"max_burst", Kind::Integer),
        COUNT,
        PERIOD,
        arg(c"quantity", Kind::Integer).optional(),
    ],
};

/// Tells the server about a command. Servers before 7.0 have no place for it.
pub fn describe(command: *mut raw::RedisModuleCommand, docs: &Docs, keys: Keys) -> Option<c_int> {
    // SAFETY: the pointer is written at load only.
    let set_command_info = unsafe { raw::RedisModule_SetCommandInfo }?;
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: std::mem::size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: std::mem::size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: std::mem::size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut key_specs = [key_spec(keys), no_key_spec()];
    let mut lists = Vec::new();
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: docs.summary.as_ptr(),
        complexity: docs.complexity.as_ptr(),
        since: c"0.1.0".as_ptr(),
        history: std::ptr::null_mut(),
        tips: c"nondeterministic_output".as_ptr(),
        arity: docs.arity,
        key_specs: key_specs.as_mut_ptr(),
        args: list(docs.args, &mut lists),
    };
    // SAFETY: the server copies all of it; the lists live until then.
    Some(unsafe { set_command_info(command, &info) })
}

fn key_spec(keys: Keys) -> raw::RedisModuleCommandKeySpec {
    let flags = match keys {
        Keys::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
        Keys::Changed | Keys::CountedChanged => {
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_UPDATE
        }
    };
    let mut spec = no_key_spec();
    spec.flags = u64::from(flags);
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = 1;
    if keys == Keys::CountedChanged {
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
        spec.fk.keynum.keynumidx = 0;
        spec.fk.keynum.firstkey = 1;
        spec.fk.keynum.keystep = 1;
    } else {
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range.lastkey = 0;
        spec.fk.range.keystep = 1;
        spec.fk.range.limit = 0;
    }
    spec
}

/// All zeros: what ends a list of key specs.
fn no_key_spec() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: a C struct of integers, pointers and unions of them.
    unsafe { std::mem::zeroed() }
}

/// A list of arguments as the server reads it, ended by zeros. The lists are
/// kept in `lists`, which has to outlive the pointer.
fn list(
    args: &[Arg],
    lists: &mut Vec<Box<[raw::RedisModuleCommandArg]>>,
) -> *mut raw::RedisModuleCommandArg {
    // SAFETY: a C struct of integers and pointers.
    let end = || unsafe { std::mem::zeroed::<raw::RedisModuleCommandArg>() };
    let mut built: Vec<_> = args
        .iter()
        .map(|arg| {
            let mut built = end();
            built.name = arg.name.as_ptr();
            built.token = arg.token.map_or(std::ptr::null::<c_char>(), CStr::as_ptr);
            built.key_spec_index = -1;
            if arg.optional {
                built.flags |= int(raw::REDISMODULE_CMD_ARG_OPTIONAL);
            }
            if arg.multiple {
                built.flags |= int(raw::REDISMODULE_CMD_ARG_MULTIPLE);
            }
            built.type_ = match arg.kind {
                Kind::Key => {
                    built.key_spec_index = 0;
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY
                }
                Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
                Kind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
                Kind::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                Kind::OneOf(args) => {
                    built.subargs = list(args, lists);
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF
                }
                Kind::Block(args) => {
                    built.subargs = list(args, lists);
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK
                }
            };
            built
        })
        .collect();
    built.push(end());
    let mut built = built.into_boxed_slice();
    let start = built.as_mut_ptr();
    lists.push(built);
    start
}
