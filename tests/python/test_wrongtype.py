"""A value that the module did not write is WRONGTYPE, of any type, and stays as it was."""

import pytest

from harness import KINDS, Error, everything

WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")

CALLS = [
    "RL.TAKE k 10 60",
    "RL.TAKE k 10 60 COST 0",
    "RL.TAKE k 10 60 COST 11",
    "RL.TAKE k 10 60 COST 3 FORCE",
    "RL.TAKE k 10 60 ATMOST 3 DETAIL",
    "RL.TAKE k FIXEDWINDOW 10 60 SLIDINGLOG 10 60",
    "RL.TAKE k SLIDINGWINDOW 10 60",
    "RL.TAKE k 0 60",
    "RL.PEEK k 10 60",
    "RL.PEEK k SLIDINGLOG 10 60",
    "RL.GIVE k 10 60",
    "RL.GIVE k FIXEDWINDOW 10 60 COST 0",
    "RL.MTAKE 1 k 10 60",
    "RL.MTAKE 2 k other 10 60 10 60",
    "RL.MTAKE 2 other k 10 60 10 60",
    "RL.THROTTLE k 15 30 60",
    "RL.THROTTLE k 15 30 60 0",
    "RL.THROTTLE k 15 30 60 -1",
    "CL.THROTTLE k 15 30 60",
]

OTHERS = {
    "text": ("SET", "k", "hello"),
    "an empty string": ("SET", "k", ""),
    "an integer": ("SET", "k", "12345"),
    "a large integer": ("SET", "k", "1893456000000000000"),
    "a redis-cell value": ("SET", "k", "1893456000123456789"),
    "a long text": ("SET", "k", "x" * 10_000),
    "12 zero bytes": ("SET", "k", b"\x00" * 12),
    "20 zero bytes": ("SET", "k", b"\x00" * 20),
    "20 bytes of 0xff": ("SET", "k", b"\xff" * 20),
    "a bitmap": ("SETBIT", "k", "1000", "1"),
    "a hyperloglog": ("PFADD", "k", "a", "b"),
    "a list": ("RPUSH", "k", "a", "b"),
    "a hash": ("HSET", "k", "f", "v"),
    "a set": ("SADD", "k", "a"),
    "a set of integers": ("SADD", "k", "1", "2"),
    "a sorted set": ("ZADD", "k", "1", "a"),
    "a stream": ("XADD", "k", "1-1", "f", "v"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_every_command_on_every_type(server, client, raw, other):
    raw(*OTHERS[other])
    client.pexpire("k", 10_000_000)
    before, dirty = everything(client)[b"k"][0], server.dirty
    for call in CALLS:
        assert raw(*call.split()) == WRONGTYPE, call
    assert client.dump("k") == before
    assert client.pttl("k") > 0
    assert client.dbsize() == 1
    assert server.dirty == dirty


def test_no_single_byte_is_ours(client, raw):
    for byte in range(256):
        client.set("k", bytes([byte]))
        for call in CALLS:
            assert raw(*call.split()) == WRONGTYPE, (byte, call)
        assert client.get("k") == bytes([byte])


def test_random_bytes(server, client, raw, rng):
    """Most lengths and first bytes, ours among them: WRONGTYPE or a sane answer, never a change by a
    peek, never a crash."""
    for _ in range(3000):
        value = rng.randbytes(rng.choice([2, 3, 8, 11, 12, 13, 16, 19, 20, 21, 24, 28, 32, 40, 64, 200]))
        if rng.random() < 0.7:
            value = bytes([rng.randrange(0x90, 0xA0)]) + value[1:]
        if rng.random() < 0.3:
            value = value[:2] + bytes(len(value) - 2)
        client.set("k", value)
        check_any_value(client, raw, value, rng)
    assert raw("PING") == b"PONG"


@pytest.mark.parametrize("kind", KINDS + ["several"])
def test_mutated_real_values(server, rl, client, clock, raw, rng, kind):
    """Values of ours with bytes flipped, cut off, added, doubled: WRONGTYPE or a sane answer."""
    limits = "10 60 FIXEDWINDOW 20 60 SLIDINGLOG 30 60" if kind == "several" else f"{kind} 10 60"
    for _ in range(5):
        rl.take("real", limits, "COST 2 FORCE")
        clock.advance(ms=rng.randrange(20_000))
    rl.take("real", limits, "FORCE")
    real = client.get("real")
    for _ in range(700):
        value = mutate(real, rng)
        if value == real:
            continue
        client.set("k", value)
        check_any_value(client, raw, value, rng, limits)
    assert client.get("real") == real
    assert raw("PING") == b"PONG"


def mutate(value, rng):
    value = bytearray(value)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(value)) if value else 0
        action = rng.randrange(6)
        if action == 0 and value:
            value[at] ^= 1 << rng.randrange(8)
        elif action == 1 and value:
            value[at] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif action == 2:
            value = value[: rng.randrange(len(value) + 1)]
        elif action == 3:
            value += rng.randbytes(rng.randrange(1, 20))
        elif action == 4:
            value += bytes(value)
        elif value:
            value[at:] = rng.choice([b"\x00", b"\xff"]) * (len(value) - at)
    return bytes(value)


def check_any_value(client, raw, value, rng, limits=None):
    limits = limits or rng.choice(["10 60", "FIXEDWINDOW 10 60", "SLIDINGWINDOW 10 60", "SLIDINGLOG 10 60"])
    peeked = raw("RL.PEEK", "k", *limits.split())
    assert client.get("k") == value, "a peek changed it"
    verb, *options = rng.choice(
        ["RL.TAKE", "RL.TAKE COST 11", "RL.TAKE FORCE", "RL.TAKE ATMOST 4", "RL.GIVE", "RL.GIVE COST 0"]
    ).split()
    reply = raw(verb, "k", *limits.split(), *options)
    for answer in (peeked, reply):
        if isinstance(answer, Error):
            assert answer == WRONGTYPE or "FORCE" in answer, value
        else:
            allowed, remaining, wait_ms, reset_ms, limit = answer
            assert 0 <= allowed <= 10 and 0 <= remaining <= limit, (value, answer)
            assert -1 <= wait_ms and 0 <= reset_ms, (value, answer)
    if isinstance(reply, Error):
        assert client.get("k") == value, "an error changed it"
    assert isinstance(peeked, Error) == (reply == WRONGTYPE)


def test_a_restored_or_copied_value_is_ours(rl, client, clock):
    for kind in KINDS:
        rl.take(kind, kind, "10 60 COST 4")
        expected = rl.peek(kind, kind, "10 60")
        client.copy(kind, "copy", replace=True)
        assert rl.peek("copy", kind, "10 60") == expected
        client.restore("restored", 0, client.dump(kind), replace=True)
        assert rl.peek("restored", kind, "10 60") == expected
        client.set("by hand", client.get(kind))
        assert rl.peek("by hand", kind, "10 60") == expected
        client.rename("copy", "renamed")
        assert rl.take("renamed", kind, "10 60 COST 6").remaining == 0


def test_a_limiter_key_is_an_ordinary_string_to_the_server(rl, client):
    rl.take("k", "10 60")
    assert client.type("k") == b"string"
    assert 0 < client.strlen("k") <= 20
