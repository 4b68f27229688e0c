"""RL.THROTTLE and CL.THROTTLE: redis-cell's command on the state of GCRA count period BURST max_burst+1."""

import pytest

from harness import Error, Throttled, everything

COMMANDS = ["RL.THROTTLE", "CL.THROTTLE", "cl.throttle"]


@pytest.fixture(params=COMMANDS)
def throttle(request, rl):
    return lambda *args: tuple(rl.throttle(*args, command=request.param))


def test_by_hand(throttle, clock):
    # 30 a minute, bursts of 16: a unit drains in 2 s.
    # (limited, max_burst + 1, remaining, retry after, reset after)
    assert throttle("k", "15 30 60") == (0, 16, 15, -1, 2)
    assert throttle("k", "15 30 60") == (0, 16, 14, -1, 4)
    assert throttle("k", "15 30 60 10") == (0, 16, 4, -1, 24)
    assert throttle("k", "15 30 60 5") == (1, 16, 4, 2, 24)
    assert throttle("k", "15 30 60 8") == (1, 16, 4, 8, 24)
    assert throttle("k", "15 30 60 4") == (0, 16, 0, -1, 32)
    assert throttle("k", "15 30 60") == (1, 16, 0, 2, 32)
    clock.set("0.001")
    assert throttle("k", "15 30 60") == (1, 16, 0, 2, 32)
    clock.set("1.001")
    assert throttle("k", "15 30 60") == (1, 16, 0, 1, 31)
    clock.set("1.999999")
    assert throttle("k", "15 30 60") == (1, 16, 0, 1, 31)
    clock.set(2)
    assert throttle("k", "15 30 60") == (0, 16, 0, -1, 32)
    clock.set(34)
    assert throttle("k", "15 30 60") == (0, 16, 15, -1, 2)


def test_more_than_the_burst_is_never(throttle, clock, client):
    assert throttle("k", "4 10 60 6") == (1, 5, 5, -1, 0)
    assert not client.exists("k")
    assert throttle("k", "4 10 60 5") == (0, 5, 0, -1, 30)
    assert throttle("k", "4 10 60 6") == (1, 5, 0, -1, 30)


def test_quantity_0_peeks(throttle, clock, client, server):
    assert throttle("k", "15 30 60 0") == (0, 16, 16, -1, 0)
    assert not client.exists("k")
    throttle("k", "15 30 60 16")
    before, dirty = everything(client), server.dirty
    assert throttle("k", "15 30 60 0") == (0, 16, 0, -1, 32)
    assert everything(client) == before
    assert server.dirty == dirty


def test_a_negative_quantity_gives(throttle, clock, client):
    throttle("k", "15 30 60 10")
    assert throttle("k", "15 30 60 -3") == (0, 16, 9, -1, 14)
    assert throttle("k", "15 30 60 -100") == (0, 16, 16, -1, 0)
    assert not client.exists("k")
    assert throttle("k", "15 30 60 -1") == (0, 16, 16, -1, 0)
    assert not client.exists("k")


def test_a_max_burst_of_0(throttle, clock):
    assert throttle("k", "0 1 1") == (0, 1, 0, -1, 1)
    assert throttle("k", "0 1 1") == (1, 1, 0, 1, 1)
    clock.set(1)
    assert throttle("k", "0 1 1") == (0, 1, 0, -1, 1)


def test_the_period_takes_units(throttle, clock):
    assert throttle("k", "15 30 1m") == (0, 16, 15, -1, 2)
    assert throttle("k", "15 30 60000ms") == (0, 16, 14, -1, 4)
    assert throttle("l", "0 1 1500ms") == (0, 1, 0, -1, 2)
    assert throttle("m", "0 1000 1") == (0, 1, 0, -1, 1)


def test_on_one_key_with_take(throttle, rl, clock, client):
    limit = "GCRA 30 60 BURST 16"
    assert throttle("k", "15 30 60 3") == (0, 16, 13, -1, 6)
    assert rl.peek("k", limit) == (1, 13, 0, 6000, 16)
    assert rl.take("k", limit, "COST 3") == (1, 10, 0, 12_000, 16)
    assert throttle("k", "15 30 60") == (0, 16, 9, -1, 14)
    rl.take("l", limit, "COST 7")
    assert client.dump("k") == client.dump("l")
    assert rl.give("k", limit, "COST 7").remaining == 16
    assert throttle("k", "15 30 60 0") == (0, 16, 16, -1, 0)


def test_every_reply_is_that_of_gcra(throttle, rl, clock, rng):
    """Seconds rounded up; -1 where not limited and where never."""
    for _ in range(300):
        clock.advance(us=rng.choice([0, 1, rng.randrange(3_000_000)]))
        quantity = rng.choice([1, 1, 1, 2, 3, 7, 8])
        taken = rl.take("take", f"GCRA 3 2 BURST 7 COST {quantity}")
        retry = -(-taken.wait_ms // 1000) if not taken.allowed and taken.wait_ms > 0 else -1
        got = throttle("throttle", f"6 3 2 {quantity}")
        assert got[:4] == (1 - taken.allowed, 7, taken.remaining, retry)
        assert got[4] == -(-taken.reset_ms // 1000)


def test_wrong_type(throttle, client, raw):
    client.set("k", "hello")
    for command in COMMANDS:
        assert raw(command, "k", "15", "30", "60") == Error(
            "WRONGTYPE Operation against a key holding the wrong kind of value"
        )
    assert client.get("k") == b"hello"


def test_names(rl, clock):
    reply = rl.throttle("k", "15 30 60")
    assert reply == Throttled(limited=0, limit=16, remaining=15, retry_after_s=-1, reset_after_s=2)
