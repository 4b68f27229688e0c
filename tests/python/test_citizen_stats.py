"""INFO rl_stats: every call and every unit is counted once, under what became of it."""

from collections import Counter

import pytest

from harness import KINDS, Error, wait_until, words

DAY = "86400"
DEEDS = ["admitted", "refused", "forced", "given", "peeked"]


def parse(info):
    """The section as {kind: {field: number}}, with the errors under `errors`."""
    stats = {}
    lines = info.decode().split("# rl_stats\r\n", 1)[1].split("\r\n\r\n")[0].splitlines()
    for line in filter(None, lines):
        name, value = line.split(":", 1)
        if name == "rl_state_errors":
            stats["errors"] = int(value)
        else:
            fields = dict(field.split("=") for field in value.split(","))
            stats[name.removeprefix("rl_").upper()] = {k: int(v) for k, v in fields.items()}
    return stats


class Stats:
    """The section since a moment: only what has changed, as {("GCRA", "admitted"): (calls, units)}."""

    def __init__(self, raw):
        self.raw = raw
        self.mark()

    def now(self):
        return parse(self.raw("INFO", "rl_stats"))

    def mark(self):
        self.before = self.now()

    @property
    def errors(self):
        return self.now()["errors"] - self.before["errors"]

    def since(self):
        changed = {}
        for kind, fields in self.now().items():
            if kind != "errors":
                for deed in DEEDS:
                    calls, units = (
                        fields[f"{deed}_{what}"] - self.before[kind][f"{deed}_{what}"]
                        for what in ("calls", "units")
                    )
                    if calls or units:
                        changed[kind, deed] = calls, units
        return changed

    def of(self, *calls):
        """What these calls change."""
        self.mark()
        for call in calls:
            self.raw(*words([call]))
        return self.since()


@pytest.fixture
def stats(raw):
    return Stats(raw)


def test_the_section(raw, server):
    """All kinds with all fields, in the server's own form, and where INFO shows modules."""
    for name in ("rl_stats", "RL_STATS", "rl", "modules", "everything"):
        section = parse(raw("INFO", name))
        assert set(section) == {"errors", *KINDS}, name
        for kind in KINDS:
            assert set(section[kind]) == {f"{d}_{w}" for d in DEEDS for w in ("calls", "units")}
    assert b"rl_stats" not in raw("INFO")
    if server.knows_subcommand("COMMAND", "DOCS"):
        assert set(parse(raw("INFO", "server", "rl_stats"))) == {"errors", *KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_one_call_of_each_sort(stats, kind):
    limit = f"{kind} 10 {DAY}"
    assert stats.of(f"RL.TAKE k {limit}") == {(kind, "admitted"): (1, 1)}
    assert stats.of(f"RL.TAKE k {limit} COST 4") == {(kind, "admitted"): (1, 4)}
    assert stats.of(f"RL.TAKE k {limit} ATMOST 3") == {(kind, "admitted"): (1, 3)}
    assert stats.of(f"RL.TAKE k {limit} ATMOST 30") == {(kind, "admitted"): (1, 2)}
    assert stats.of(f"RL.TAKE k {limit}") == {(kind, "refused"): (1, 1)}
    assert stats.of(f"RL.TAKE k {limit} COST 7") == {(kind, "refused"): (1, 7)}
    assert stats.of(f"RL.TAKE k {limit} COST 70") == {(kind, "refused"): (1, 70)}
    assert stats.of(f"RL.TAKE k {limit} ATMOST 5") == {(kind, "refused"): (1, 5)}
    assert stats.of(f"RL.TAKE k {limit} COST 5 FORCE") == {(kind, "forced"): (1, 5)}
    assert stats.of(f"RL.GIVE k {limit}") == {(kind, "given"): (1, 1)}
    assert stats.of(f"RL.GIVE k {limit} COST 6") == {(kind, "given"): (1, 6)}
    assert stats.of(f"RL.PEEK k {limit}") == {(kind, "peeked"): (1, 1)}
    assert stats.of(f"RL.PEEK k {limit} COST 8") == {(kind, "peeked"): (1, 8)}
    assert stats.of(f"RL.TAKE k {limit} COST 0") == {(kind, "peeked"): (1, 0)}
    assert stats.of(f"RL.TAKE k {limit} ATMOST 0") == {(kind, "peeked"): (1, 0)}


def test_throttle_counts_as_gcra(stats):
    for command in ("RL.THROTTLE", "CL.THROTTLE"):
        call = f"{command} {command} 9 10 {DAY}"
        assert stats.of(call) == {("GCRA", "admitted"): (1, 1)}
        assert stats.of(f"{call} 9") == {("GCRA", "admitted"): (1, 9)}
        assert stats.of(f"{call} 2") == {("GCRA", "refused"): (1, 2)}
        assert stats.of(f"{call} -3") == {("GCRA", "given"): (1, 3)}
        assert stats.of(f"{call} 0") == {("GCRA", "peeked"): (1, 0)}


def test_several_limits_count_once_each(stats):
    call = f"RL.TAKE k 10 {DAY} FIXEDWINDOW 20 {DAY} SLIDINGLOG 30 {DAY} SLIDINGLOG 40 {DAY} COST 4"
    for deed in ("admitted", "admitted", "refused"):
        assert stats.of(call) == {
            ("TOKENBUCKET", deed): (1, 4),
            ("FIXEDWINDOW", deed): (1, 4),
            ("SLIDINGLOG", deed): (2, 8),
        }
    call = f"RL.MTAKE 3 a b c GCRA 10 {DAY} GCRA 20 {DAY} SLIDINGWINDOW 30 {DAY} COST 6"
    for deed in ("admitted", "refused"):
        assert stats.of(call) == {("GCRA", deed): (2, 12), ("SLIDINGWINDOW", deed): (1, 6)}


def test_calls_that_fail_count_nothing_but_the_state_errors(stats, raw):
    raw("SET", "text", "hello")
    raw("RPUSH", "list", "x")
    raw("SET", "forged", b"\x90" + b"\xff" * 19)
    for call in ("RL.TAKE k 10 0", f"RL.TAKE k 10 {DAY} COST x", "RL.TAKE k", f"RL.TAKE k 10 {DAY} NO"):
        assert stats.of(call) == {}
        assert stats.errors == 0
    for key in ("text", "list", "forged"):
        for call in (
            f"RL.TAKE {key} 10 {DAY}",
            f"RL.PEEK {key} 10 {DAY}",
            f"RL.GIVE {key} 10 {DAY}",
            f"RL.MTAKE 2 k {key} 10 {DAY} 10 {DAY}",
            f"CL.THROTTLE {key} 9 10 {DAY}",
        ):
            assert stats.of(call) == {}, call
            assert stats.errors == 1, call
    # A call that the server turned down for want of memory never came to the module.
    assert raw("CONFIG", "SET", "maxmemory", "1") == b"OK"
    assert stats.of(f"RL.TAKE k 10 {DAY}") == {}
    raw("CONFIG", "SET", "maxmemory", "0")


def test_a_mix(stats, raw, rng):
    """A thousand calls of every sort; each reply says under what it has to be counted."""
    limits = {f"k:{kind}": [f"{kind} 40 {DAY}"] for kind in KINDS}
    limits |= {"two": [f"10 {DAY}", f"SLIDINGLOG 50 {DAY}"], "three": [f"{k} 60 {DAY}" for k in KINDS[3:]]}
    expected = Counter()
    stats.mark()
    for _ in range(1000):
        key = rng.choice(list(limits))
        cost = rng.randint(0, 6)
        calls = "TAKE COST, TAKE COST, TAKE ATMOST, TAKE FORCE, PEEK COST, GIVE COST"
        verb, option = rng.choice(calls.split(", ")).split()
        tail = {"FORCE": f"COST {cost} FORCE"}.get(option, f"{option} {cost}")
        reply = raw(*words([f"RL.{verb} {key}", *limits[key], tail]))
        assert not isinstance(reply, Error)
        if verb == "PEEK" or verb == "TAKE" and cost == 0:
            deed, units = "peeked", cost
        elif verb == "GIVE":
            deed, units = "given", cost
        elif option == "FORCE":
            deed, units = "forced", cost
        elif reply[0] == 0:
            deed, units = "refused", cost
        else:
            deed, units = "admitted", reply[0] if option == "ATMOST" else cost
        for limit in limits[key]:
            kind = limit.split()[0] if limit[0].isalpha() else "TOKENBUCKET"
            expected[kind, deed, "calls"] += 1
            expected[kind, deed, "units"] += units
    got = Counter()
    for (kind, deed), (calls, units) in stats.since().items():
        got[kind, deed, "calls"], got[kind, deed, "units"] = calls, units
    assert +got == +expected


def test_in_scripts_and_transactions(stats, raw):
    script = f"for _ = 1, 5 do redis.call('RL.TAKE', KEYS[1], '3', '{DAY}') end"
    stats.mark()
    raw("EVAL", script, "1", "k")
    raw("MULTI")
    raw("RL.TAKE", "k", "3", DAY)
    raw("RL.GIVE", "k", "3", DAY)
    raw("EXEC")
    assert stats.since() == {
        ("TOKENBUCKET", "admitted"): (3, 3),
        ("TOKENBUCKET", "refused"): (3, 3),
        ("TOKENBUCKET", "given"): (1, 1),
    }
    raw("MULTI")
    raw("RL.TAKE", "k", "3", DAY)
    raw("DISCARD")
    assert stats.since()["TOKENBUCKET", "admitted"] == (3, 3)


def test_a_replica_counts_its_own_peeks_only(new_server):
    """What it is sent are plain writes."""
    primary, replica = new_server(), new_server()
    replica.replica_of(primary)
    here, there = Stats(primary.raw()), Stats(replica.raw())
    here.of(*[f"RL.TAKE k 10 {DAY}"] * 4)
    replica.caught_up_with(primary)
    assert there.since() == {}
    assert there.of(f"RL.PEEK k 10 {DAY}") == {("TOKENBUCKET", "peeked"): (1, 1)}
    assert there.of(f"RL.TAKE k 10 {DAY}") == {}, "READONLY"


def test_a_loaded_aof_counts_nothing(new_server):
    """Nor does it take anything: it brings states back."""
    server = new_server("--appendonly", "yes", "--appendfsync", "always")
    raw = server.raw()
    for _ in range(3):
        raw("RL.TAKE", "k", "10", DAY)
    server.kill()
    server.start()
    with server.raw() as raw:
        assert parse(raw("INFO", "rl_stats"))["TOKENBUCKET"]["admitted_calls"] == 0
        assert raw("RL.PEEK", "k", "10", DAY)[1] == 7


def test_the_numbers_are_in_a_crash_report(new_server):
    """The server asks for the section while it goes down, and gets it."""
    server = new_server()
    raw = server.raw()
    for _ in range(3):
        raw("RL.TAKE", "k", "10", DAY)
    server.up = False
    raw.socket.sendall(b"DEBUG SEGFAULT\r\n")
    wait_until(lambda: server.exited)
    report = server.log()
    assert "# rl_stats" in report
    assert "rl_tokenbucket:admitted_calls=3,admitted_units=3," in report
