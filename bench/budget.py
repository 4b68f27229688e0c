"""The budget: what a command may cost beside what the server itself spends on a SET."""

from __future__ import annotations

from dataclasses import dataclass

from bench import instructions, memory
from bench.cases import Case, all_cases
from bench.context import Context
from bench.server import Program
from bench.table import Table

# How much more than its budget a row of instructions may measure.
TOLERANCE = 1.03

ADMITTED = "RL.TAKE, admitted"
REFUSED = "RL.TAKE, refused"


@dataclass(frozen=True)
class Row:
    """A case is meant to cost `goal` times another, and may cost `held` times.

    Where the goal is not reached, `held` is what has been: a change may not lose it again.
    What the server spends on such a command without the module's own code is printed beside it.
    """

    case: str
    goal: float
    reference: str
    following: str = instructions.ALONE
    held: float | None = None

    @property
    def most(self) -> float:
        return TOLERANCE * (self.held or self.goal)


def rows() -> list[Row]:
    others = ("GCRA", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGWINDOW", "SLIDINGLOG")
    names = [case.name for case in all_cases() if case.name.startswith(others)]
    return [
        Row(ADMITTED, 1.0, "SET PX", held=1.10),
        Row(REFUSED, 0.85, "SET PX", held=0.97),
        Row("RL.PEEK", 0.80, "SET PX", held=0.95),
        Row(ADMITTED, 1.15, "SET PX", instructions.AOF, held=1.26),
        *(Row(name, 1.15, _alike(name)) for name in names),
        Row("two limits, admitted", 1.35, ADMITTED),
        Row("two limits, refused", 1.35, REFUSED),
        Row(ADMITTED, 1 / 8, "Lua script, admitted", held=1 / 7.4),
        Row(REFUSED, 1 / 8, "Lua script, refused"),
    ]


def _alike(name: str) -> str:
    return ADMITTED if name.endswith("admitted") else REFUSED


def check_instructions(context: Context) -> bool:
    """Counts what the budget speaks of, prints it, and says whether all is within it."""
    counts = {
        following: instructions.count(context, _needed(following), following)
        for following in (instructions.ALONE, instructions.AOF)
    }
    table = Table(
        "command", "instructions", "of", "measured", "server's part", "goal", "held", ""
    )
    within = True
    for row in rows():
        case, reference = counts[row.following][row.case], counts[row.following][row.reference]
        ratio = case.whole / reference.whole
        good = ratio <= row.most
        within &= good
        aof = ", AOF on" if row.following == instructions.AOF else ""
        table.row(
            row.case + aof,
            f"{case.whole:,.0f}",
            row.reference + aof,
            f"{ratio:.3f}",
            f"{(case.whole - case.module) / reference.whole:.3f}",
            f"{row.goal:.3f}",
            f"{row.held or row.goal:.3f}",
            "" if good else "OVER",
        )
    print(
        f"{table}\n{context.server.name}, {context.module_name}. A row is over when it measures "
        f"{TOLERANCE - 1:.0%} more than is held. The server's part is what it would measure if the "
        "module's own code took no instruction.\n"
    )
    return within


def _needed(following: str) -> list[Case]:
    names = set()
    for row in rows():
        if row.following == following:
            names |= {row.case, row.reference}
    return [case for case in all_cases() if case.name in names]


# Bytes that a key of the module may take more than SET key <16 bytes> PX, by server, and what
# it may take of the Lua script's hash.
MORE_THAN_SET = {"redis-7.0": 8, "redis-8.2": 8, "valkey-9.1": 16}
OF_LUA = 0.85
PER_LOG_ENTRY = 24

# Where that is not reached, what has been. Debian's allocator has no class between 16 and 32
# bytes, so on its 7.0 a state takes what SET's 16 bytes take. Valkey 9.1 keeps SET's with the
# key, but not a value that was changed where it lies.
HELD_MORE_THAN_SET = {"valkey-9.1": 26.5}
HELD_OF_LUA = {"redis-7.0": 0.91}


def check_memory(context: Context) -> bool:
    """The same for memory. Bytes are exact but for a stray buffer, so up to half one is let go."""
    table = Table("what", "bytes", "goal", "held", "")
    within = True
    for name, more in MORE_THAN_SET.items():
        program = Program.fetched(name)
        keys = memory.bytes_per_key(context, program, (memory.SET_PX, memory.TAKE, memory.LUA))
        take, set_px, lua = keys[memory.TAKE], keys[memory.SET_PX], keys[memory.LUA]
        held_more, held_of_lua = HELD_MORE_THAN_SET.get(name, more), HELD_OF_LUA.get(name, OF_LUA)
        checks = [
            ("a key, beside SET's", take, set_px + more, set_px + held_more),
            ("a key, beside Lua's", take, lua * OF_LUA, lua * held_of_lua),
        ]
        for entries, measured in memory.bytes_per_entry(context, program).items():
            what = f"an entry of {entries} in a log"
            checks.append((what, measured, PER_LOG_ENTRY, PER_LOG_ENTRY))
        for what, measured, goal, held in checks:
            good = measured <= held + 0.5
            within &= good
            row = (f"{measured:.1f}", f"{goal:.1f}", f"{held:.1f}", "" if good else "OVER")
            table.row(f"{program.name}: {what}", *row)
    print(f"{table}\n{context.module_name}.\n")
    return within
