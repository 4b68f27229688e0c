"""RL.PEEK: what RL.TAKE would have answered, and nothing written."""

import pytest

from harness import KINDS, Error, everything

OPTIONS = ["", "COST 1", "COST 3", "COST 10", "COST 11", "COST 0", "ATMOST 4", "ATMOST 40"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filled", ["", "COST 6", "COST 10", "COST 14 FORCE"])
def test_allowed_and_wait_are_those_of_take(rl, clock, client, kind, filled):
    limit = f"{kind} 10 10"
    clock.set("1.2345")
    if filled:
        rl.take("k", limit, filled)
    for later in (0, 700, 8765.4321, 9000):
        clock.set(1.2345 + later / 1000)
        for option in OPTIONS:
            peeked = rl.peek("k", limit, option)
            untouched = rl.peek("k", limit, "COST 0")
            assert peeked[1] == untouched[1] and peeked[3:] == untouched[3:]
            if client.exists("k"):
                client.copy("k", "copy", replace=True)
            taken = rl.take("copy", limit, option)
            client.delete("copy")
            assert (peeked.allowed, peeked.wait_ms) == (taken.allowed, taken.wait_ms)


def test_fields_2_4_and_5_are_the_untouched_state(rl, clock):
    rl.take("k", "10 10 COST 4")
    assert rl.peek("k", "10 10 COST 3") == (1, 6, 0, 4000, 10)
    assert rl.peek("k", "10 10 COST 7") == (0, 6, 1000, 4000, 10)
    assert rl.peek("k", "10 10 COST 11") == (0, 6, -1, 4000, 10)
    assert rl.peek("k", "10 10 ATMOST 4") == (4, 6, 0, 4000, 10)
    assert rl.peek("k", "10 10 ATMOST 9") == (6, 6, 0, 4000, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_does_not_exist(rl, clock, client, server, kind):
    dirty = server.dirty
    assert rl.peek("k", kind, "10 10") == (1, 10, 0, 0, 10)
    assert rl.peek("k", kind, "10 10 COST 11") == (0, 10, -1, 0, 10)
    assert client.dbsize() == 0
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_writes_nothing(rl, clock, client, server, kind):
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 8")
    client.pexpire("k", 12_345)
    clock.advance(ms=1)
    before, dirty = everything(client), server.dirty
    with client.pipeline() as pipe:
        pipe.watch("k", "missing")
        for option in OPTIONS:
            rl.peek("k", limit, option)
            rl.peek("missing", limit, option)
        pipe.multi()
        pipe.ping()
        assert pipe.execute() == [True], "WATCH saw a change"
    assert everything(client) == before
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_of_another_limit_writes_nothing(rl, clock, client, server, kind):
    """Other counts, another period, another algorithm: what would be carried is shown, not stored."""
    rl.take("k", kind, "10 10 COST 8")
    before, dirty = everything(client), server.dirty
    for other in ("20 10", "5 10", "10 60", "10 10 10 60"):
        for other_kind in KINDS:
            rl.peek("k", other_kind, other, "COST 4")
    assert everything(client) == before
    assert server.dirty == dirty


def test_propagates_nothing(pair):
    primary, replica = pair
    rl = primary.limiter()
    for kind in KINDS:
        rl.take(kind, kind, "10 86400 COST 8")
    before = primary.offset
    for kind in KINDS:
        for option in OPTIONS:
            rl.peek(kind, kind, "10 86400", option)
            rl.peek("missing", kind, "10 86400", option)
    assert primary.offset == before


def test_runs_on_replicas(start_server, pair, clock):
    """A replica with the module answers as the primary does, and refuses to take."""
    primary, _ = pair
    replica = start_server()
    replica.replica_of(primary)
    on_primary, on_replica = primary.limiter(), replica.limiter()
    for kind in KINDS:
        on_primary.take(kind, kind, "10 10 COST 7")
    replica.caught_up_with(primary)
    for advance in (0, 300, 9000, 20_000):
        clock.advance(ms=advance)
        for kind in KINDS:
            for option in OPTIONS:
                assert on_replica.peek(kind, kind, "10 10", option) == on_primary.peek(
                    kind, kind, "10 10", option
                )
    with replica.raw() as raw:
        for verb in ("RL.TAKE", "RL.GIVE"):
            reply = raw(verb, "k", "10", "10")
            assert isinstance(reply, Error) and reply.startswith("READONLY ")
        assert raw("RL.MTAKE", "1", "k", "10", "10").startswith("READONLY ")
        assert raw("RL.THROTTLE", "k", "10", "10", "10").startswith("READONLY ")


def test_a_drained_key_reads_as_a_missing_one(rl, clock, client):
    for kind in KINDS:
        rl.take("k", kind, "10 10 COST 10")
        client.persist("k")
        clock.advance(seconds=20)
        assert rl.peek("k", kind, "10 10 COST 7") == rl.peek("missing", kind, "10 10 COST 7")
        client.delete("k")
