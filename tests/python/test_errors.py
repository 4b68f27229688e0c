"""Every error by its exact text, and all state as it was after each."""

import pytest

from harness import KINDS, encode, everything, words

PERIOD = "ERR period must be between 1ms and 3650d, like 60, 0.5, 500ms, 1m or 1h"
WHOLE_PERIOD = (
    "ERR period must be a whole number of microseconds, "
    "between 1ms and 3650d, like 60, 0.5, 500ms, 1m or 1h"
)
COUNT = "ERR count must be an integer between 0 and 1000000000000"
LOG_COUNT = "ERR count of a SLIDINGLOG must be an integer between 0 and 100000"
BURST = "ERR BURST must be an integer between 0 and 1000000000000"
COST = "ERR COST must be an integer between 0 and 1000000000000"
ATMOST = "ERR ATMOST must be an integer between 0 and 1000000000000"
DRAIN = "ERR a full bucket must drain within 36500d: BURST x period / count is more than that"
NO_BURST = "ERR BURST is for TOKENBUCKET, GCRA and LEAKYBUCKET only"
EIGHT = "ERR a key carries at most 8 limits"
FIRST = "ERR a limit must come before COST, ATMOST, FORCE and DETAIL"
BOTH = "ERR COST and ATMOST exclude each other"
NUMKEYS = "ERR numkeys must be an integer between 1 and 128"
MAX_BURST = "ERR max_burst must be an integer between 0 and 999999999999"
QUANTITY = "ERR quantity must be an integer between -1000000000000 and 1000000000000"

LIMIT_WORDS = (
    "a limit ([TOKENBUCKET] count period, GCRA, LEAKYBUCKET, FIXEDWINDOW, SLIDINGWINDOW, SLIDINGLOG)"
)
OPTIONS = {
    "RL.TAKE": "COST, ATMOST, FORCE, DETAIL",
    "RL.PEEK": "COST, ATMOST, DETAIL",
    "RL.GIVE": "COST, DETAIL",
    "RL.MTAKE": "COST, DETAIL",
}


def unknown(word, verb="RL.TAKE"):
    return f"ERR unknown argument '{word}': must be {LIMIT_WORDS} or one of {OPTIONS[verb]}"


def needs(kind):
    return f"ERR {kind} needs a count and a period"


def once(option):
    return f"ERR {option} may be given only once"


def arity(verb):
    return f"ERR wrong number of arguments for '{verb.lower()}' command"


NOT_AN_INTEGER = ["-1", "+1", "01", "00", "1.0", "1e3", "0x10", "1000000000001", "9" * 40, "1 ", " 1", "1\n", "١"]
# The same where a word must show by its first character that it is a count.
NOT_A_COUNT = ["-1", "+1", "01", "00", "1.0", "1e3", "0x10", "1000000000001", "9" * 40, "1 ", "1x", ".5", "-", "5\xff"]  # fmt: skip
NOT_A_PERIOD = [
    "0", "0.0", "-60", "+60", "0.0009", "0.999ms", "999us", "3650.1d", "3651d", "315360001", "87601h",
    "60x", "60S", "60MS", "1w", "1y", "60 s", "60 ", " 60", "s", "ms", ".5", "5.", ".", "", "1e3", "1e3s",
    "0x10", "nan", "inf", "1.2.3", "1,5", "abc", "9" * 50, "9" * 50 + "d", "1us", "60ss", "1m1s", "١",
]  # fmt: skip
FINER = ["0.0010001", "1.0001ms", "1000.5us", "60.0000001", "1.00000000000000001"]


def cases():
    """(the words of a call, as a list; its error)"""
    yield from text_cases()
    for word in NOT_A_COUNT:
        yield ["RL.TAKE", "k", word, "60"], COUNT
    for word in [*NOT_AN_INTEGER, "", "x", "\x00", "FIXEDWINDOW"]:
        for kind in ("TOKENBUCKET", "GCRA", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGWINDOW"):
            yield ["RL.TAKE", "k", kind, word, "60"], COUNT
        yield ["RL.TAKE", "k", "SLIDINGLOG", word, "60"], LOG_COUNT
        yield ["RL.TAKE", "k", "10", "60", "BURST", word], BURST
        for verb in ("RL.TAKE", "RL.PEEK", "RL.GIVE"):
            yield [verb, "k", "10", "60", "COST", word], COST
        yield ["RL.MTAKE", "1", "k", "10", "60", "COST", word], COST
        yield ["RL.TAKE", "k", "10", "60", "ATMOST", word], ATMOST
        yield ["RL.PEEK", "k", "10", "60", "ATMOST", word], ATMOST
        yield ["RL.THROTTLE", "k", word, "30", "60"], MAX_BURST
        yield ["RL.THROTTLE", "k", "15", word, "60"], COUNT
    yield ["RL.TAKE", "k", "SLIDINGLOG", "100001", "60"], LOG_COUNT
    yield ["RL.THROTTLE", "k", "1000000000000", "30", "60"], MAX_BURST
    for word in ["-0", "--1", "+1", "01", "-01", "1.0", "", "x", "-", "1000000000001", "-1000000000001", "9" * 40]:  # fmt: skip
        yield ["RL.THROTTLE", "k", "15", "30", "60", word], QUANTITY
        yield ["CL.THROTTLE", "k", "15", "30", "60", word], QUANTITY
    for words, error in ((NOT_A_PERIOD, PERIOD), (FINER, WHOLE_PERIOD)):
        for word in words:
            yield ["RL.TAKE", "k", "10", word], error
            yield ["RL.TAKE", "k", "SLIDINGLOG", "10", word], error
            yield ["RL.PEEK", "k", "FIXEDWINDOW", "10", word, "COST", "1"], error
            yield ["RL.THROTTLE", "k", "15", "30", word], error


def text_cases():
    for call, error in {
        # How long a full bucket may take to drain
        "RL.TAKE k 1 3650d BURST 11": DRAIN,
        "RL.TAKE k GCRA 1 1d BURST 36501": DRAIN,
        "RL.TAKE k LEAKYBUCKET 1 60 BURST 1000000000000": DRAIN,
        "RL.TAKE k 0 60 BURST 1": DRAIN,
        "RL.TAKE k 999 1d BURST 36463501": DRAIN,
        "RL.THROTTLE k 10 1 3650d": DRAIN,
        "RL.THROTTLE k 15 0 60": DRAIN,
        # BURST where there is none
        "RL.TAKE k FIXEDWINDOW 10 60 BURST 5": NO_BURST,
        "RL.TAKE k SLIDINGWINDOW 10 60 BURST 5": NO_BURST,
        "RL.TAKE k SLIDINGLOG 10 60 BURST 5": NO_BURST,
        "RL.PEEK k 5 5 FIXEDWINDOW 10 60 BURST 5": NO_BURST,
        # Words that are missing
        "RL.TAKE k 10 60 BURST": "ERR BURST needs a value",
        "RL.TAKE k 10 60 COST": "ERR COST needs a value",
        "RL.TAKE k 10 60 ATMOST": "ERR ATMOST needs a value",
        "RL.GIVE k 10 60 COST": "ERR COST needs a value",
        "RL.MTAKE 1 k 10 60 COST": "ERR COST needs a value",
        "RL.TAKE k 10 60 20": needs("TOKENBUCKET"),
        **{f"RL.TAKE k {kind} 10": needs(kind) for kind in KINDS},
        **{f"RL.TAKE k 10 60 {kind}": needs(kind) for kind in KINDS},
        **{f"RL.PEEK k {kind.lower()} 10": needs(kind) for kind in KINDS},
        # Too many limits
        "RL.TAKE k " + "10 60 " * 9: EIGHT,
        "RL.PEEK k " + "GCRA 10 60 " * 9: EIGHT,
        "RL.GIVE k " + "SLIDINGLOG 10 60 " * 9: EIGHT,
        # Words that mean nothing, or nothing here
        "RL.TAKE k foo 60": unknown("foo"),
        "RL.TAKE k 10 60 foo": unknown("foo"),
        "RL.TAKE k 10 60 COST 1 foo": unknown("foo"),
        "RL.TAKE k 10 60 DETAIL foo": unknown("foo"),
        "RL.TAKE k TOKEN 10 60": unknown("TOKEN"),
        "RL.TAKE k 10 60 " + "x" * 40: unknown("x" * 32),
        "RL.PEEK k 10 60 foo": unknown("foo", "RL.PEEK"),
        "RL.PEEK k 10 60 FORCE": unknown("FORCE", "RL.PEEK"),
        "RL.GIVE k 10 60 FORCE": unknown("FORCE", "RL.GIVE"),
        "RL.GIVE k 10 60 ATMOST 1": unknown("ATMOST", "RL.GIVE"),
        "RL.MTAKE 1 k 10 60 FORCE": unknown("FORCE", "RL.MTAKE"),
        "RL.MTAKE 1 k 10 60 ATMOST 1": unknown("ATMOST", "RL.MTAKE"),
        # Order
        "RL.TAKE k COST 1 10 60": FIRST,
        "RL.TAKE k DETAIL 10 60": FIRST,
        "RL.TAKE k FORCE 10 60": FIRST,
        "RL.TAKE k ATMOST 2 10 60": FIRST,
        "RL.TAKE k COST 1": FIRST,
        "RL.TAKE k 10 60 COST 1 10 60": FIRST,
        "RL.TAKE k 10 60 DETAIL GCRA 10 60": FIRST,
        "RL.PEEK k DETAIL 10 60": FIRST,
        # Once
        "RL.TAKE k 10 60 COST 1 COST 1": once("COST"),
        "RL.TAKE k 10 60 cost 1 Cost 2": once("COST"),
        "RL.TAKE k 10 60 ATMOST 1 ATMOST 1": once("ATMOST"),
        "RL.TAKE k 10 60 FORCE FORCE": once("FORCE"),
        "RL.TAKE k 10 60 DETAIL COST 1 DETAIL": once("DETAIL"),
        "RL.PEEK k 10 60 DETAIL DETAIL": once("DETAIL"),
        "RL.MTAKE 1 k 10 60 DETAIL DETAIL": once("DETAIL"),
        "RL.TAKE k 10 60 COST 1 ATMOST 1": BOTH,
        "RL.TAKE k 10 60 ATMOST 1 COST 1": BOTH,
        "RL.PEEK k 10 60 ATMOST 1 DETAIL COST 1": BOTH,
        # MTAKE
        "RL.MTAKE 0 k 10 60": NUMKEYS,
        "RL.MTAKE -1 k 10 60": NUMKEYS,
        "RL.MTAKE 129 k 10 60": NUMKEYS,
        "RL.MTAKE 01 k 10 60": NUMKEYS,
        "RL.MTAKE x k 10 60": NUMKEYS,
        "RL.MTAKE 99999999999999999999 k 10 60": NUMKEYS,
        "RL.MTAKE 3 k a b 10 60 20 60": "ERR RL.MTAKE needs one limit per key: 3 keys, 2 limits",
        "RL.MTAKE 1 k 10 60 20 60": "ERR RL.MTAKE needs one limit per key: 1 keys, 2 limits",
        "RL.MTAKE 2 k a 10 60": "ERR RL.MTAKE needs one limit per key: 2 keys, 1 limits",
        "RL.MTAKE 2 k k 10 60 10 60": "ERR the same key may be given only once",
        "RL.MTAKE 3 k a k 1 60 1 60 1 60": "ERR the same key may be given only once",
        "RL.MTAKE 2 k a 10 60 BURST 5 20 0": PERIOD,
        "RL.MTAKE 2 k a 10": arity("RL.MTAKE"),
        "RL.MTAKE 5 k a b c": arity("RL.MTAKE"),
        # Too few words, too many
        "RL.TAKE": arity("RL.TAKE"),
        "RL.TAKE k": arity("RL.TAKE"),
        "RL.TAKE k 10": arity("RL.TAKE"),
        "RL.PEEK": arity("RL.PEEK"),
        "RL.PEEK k": arity("RL.PEEK"),
        "RL.GIVE k": arity("RL.GIVE"),
        "RL.MTAKE": arity("RL.MTAKE"),
        "RL.MTAKE 1": arity("RL.MTAKE"),
        "RL.THROTTLE": arity("RL.THROTTLE"),
        "RL.THROTTLE k 15 30": arity("RL.THROTTLE"),
        "RL.THROTTLE k 15 30 60 1 1": arity("RL.THROTTLE"),
        "CL.THROTTLE k": arity("CL.THROTTLE"),
    }.items():
        yield call.split(), error
    # Bytes that nobody should print
    yield [b"RL.TAKE", b"k", b"10", b"60", b"a\x00\xff\r\nb"], unknown("a????b")
    yield [b"RL.TAKE", b"k", b"10", b"60", b""], unknown("")


@pytest.fixture
def filled(rl, clock, client):
    """A key of each kind, and one that is none."""
    for kind in KINDS:
        rl.take(kind, kind, "10 60 COST 4")
    rl.take("k", "10 60 COST 4")
    client.set("text", "hello")
    clock.advance(ms=1)
    return client


def test_every_error(filled, server, raw):
    before, dirty = everything(filled), server.dirty
    wrong = []
    for call, error in cases():
        got = raw(*call)
        if "wrong number of arguments" in error:
            got = got.lower().replace("err", "ERR", 1)  # 6.2 repeats the name as it was typed
        if got != error:
            wrong.append(f"{call}\n  got  {got}\n  want {error}")
    assert not wrong, f"{len(wrong)} of them:\n" + "\n".join(wrong)
    assert everything(filled) == before
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_the_edges_are_inside(rl, clock, kind):
    """What lies just within each range is no error."""
    most = 100_000 if kind == "SLIDINGLOG" else 10**12
    for limit in (f"{most} 60", "0 60", f"{most} 1ms", "10 3650d", "10 1ms", "1 1000us"):
        rl.peek("k", kind, limit, "COST 1000000000000")
        rl.peek("k", kind, limit, "ATMOST 1000000000000")
        rl.peek("k", kind, limit, "COST 0")
    rl.peek("k", "1 3650d BURST 10")
    rl.peek("k", "1 1d BURST 36500")
    rl.peek("k", "999 1d BURST 36463500")
    rl.throttle("k", "999999999999 1000000000000 1 0")
    rl.throttle("k", "9 1 3650d 0")
    rl.throttle("k", f"15 30 60 -{10**12}")
    assert rl.throttle("k", f"15 30 60 {10**12}").limited == 1
    rl.mtake([str(n) for n in range(128)], " ".join(["10 60"] * 128), "COST 0")
    rl.peek("k", "10 60 " * 8)


FORCED = [
    ("1 1d BURST 36500", 36_500, "ERR FORCE would push usage past what drains in 36500d"),
    ("GCRA 10 3650d", 100, "ERR FORCE would push usage past what drains in 36500d"),
    ("LEAKYBUCKET 1 3650d", 10, "ERR FORCE would push usage past what drains in 36500d"),
]


@pytest.mark.parametrize("limit, most, error", FORCED)
def test_force_past_what_can_be_said_of_a_bucket(rl, clock, client, server, raw, limit, most, error):
    assert raw("RL.TAKE", "new", *limit.split(), "COST", most + 1, "FORCE") == error
    assert not client.exists("new")
    assert rl.take("k", limit, f"COST {most} FORCE").allowed == 1
    before, dirty = everything(client), server.dirty
    for option in ("COST 1", "ATMOST 1", "COST 1000000000000"):
        assert raw("RL.TAKE", "k", *limit.split(), *option.split(), "FORCE") == error
    assert everything(client) == before
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", ["FIXEDWINDOW", "SLIDINGWINDOW", "SLIDINGLOG"])
def test_force_past_10_to_the_15_units(rl, clock, client, server, raw, kind):
    limit = [kind, "10", "3650d"]
    pipe = client.pipeline(transaction=False)
    for _ in range(1000):
        pipe.execute_command("RL.TAKE", "k", *limit, "COST", 10**12, "FORCE")
    assert all(reply[0] == 1 for reply in pipe.execute())
    before, dirty = everything(client), server.dirty
    for option in ("COST 1", "ATMOST 1", "COST 1000000000000"):
        got = raw("RL.TAKE", "k", *limit, *option.split(), "FORCE")
        assert got == "ERR FORCE would push usage past 1000000000000000 units"
    assert everything(client) == before
    assert server.dirty == dirty
    assert rl.take("k", *limit).allowed == 0


def test_force_past_the_length_of_a_log(wall_clock, client, server):
    """A million forced takes, each at an instant of its own, as fast as they come."""
    wall_clock.real()
    call = ["RL.TAKE", "k", "SLIDINGLOG", "10", "3650d", "FORCE"]
    error = b"-ERR FORCE would push the log past 1000000 entries\r\n"
    with server.raw() as raw:
        admitted = 0
        for replies in raw.flood(encode(call) * 10_000):
            admitted += replies.count(b"*5\r\n:1\r\n")
            if b"-" in replies:
                break
            assert admitted < 1_500_000, "two at one instant are one entry, but not that many"
    assert admitted >= 1_000_000
    assert set(replies[replies.index(b"-") :].split(b"\r\n")) == {error[:-2], b""}
    before, dirty = client.strlen("k"), server.dirty
    with server.raw() as raw:
        assert raw(*call[:-1])[:2] == [0, 0]
        assert raw(*call) == error[1:-2].decode()
        assert raw("RL.GIVE", *call[1:5], "COST", "2")[0] == 1
        assert raw(*call)[0] == 1, "an entry given back makes room for one"
    assert client.strlen("k") == before
    client.unlink("k")


def test_force_of_several_limits_charges_none_on_an_error(rl, clock, client, server, raw):
    limits = "100 60 1 1d BURST 36500"
    rl.take("k", limits, "COST 36500 FORCE")
    before, dirty = everything(client), server.dirty
    got = raw("RL.TAKE", "k", *limits.split(), "FORCE")
    assert got == "ERR FORCE would push usage past what drains in 36500d"
    assert everything(client) == before
    assert server.dirty == dirty


def test_an_argument_error_comes_before_the_key_is_looked_at(client, raw):
    client.set("text", "hello")
    assert raw("RL.TAKE", "text", "10", "0") == PERIOD
    assert raw("RL.TAKE", "text", "10", "60", "foo") == unknown("foo")


def test_hostile_arguments(server, rl, clock, client, raw, rng):
    """Any bytes anywhere: a reply, an error reply at worst, and the server alive."""
    rl.take("k", "10 60 COST 4")
    pool = words(["TOKENBUCKET GCRA FIXEDWINDOW SLIDINGLOG BURST COST ATMOST FORCE DETAIL 10 60 1 0 -1 1ms"])
    pool = [word.encode() for word in pool] + [b"", b"\x00", b"\xff" * 5, b"9" * 400, b"%n%s", b"k", b"1d"]
    verbs = ["RL.TAKE", "RL.PEEK", "RL.GIVE", "RL.MTAKE", "RL.THROTTLE", "CL.THROTTLE"]
    for _ in range(3000):
        call = [rng.choice(verbs)] + [
            rng.choice(pool) if rng.random() < 0.9 else rng.randbytes(rng.randrange(40))
            for _ in range(rng.randrange(12))
        ]
        raw(*call)
    assert raw("PING") == b"PONG"
