"""A refusal, a peek and COST 0 change no state, no TTL, no AOF, no replica, no WATCH, no save counter."""

import pytest
from redis.exceptions import WatchError

from harness import KINDS, everything, wait_until


def refuse(rl, kind, key="k"):
    """Every way to be refused, and the two other ways to change nothing, on a full key."""
    limit = f"{kind} 10 86400"
    for option in ("", "COST 3", "COST 10", "COST 11", f"COST {10**12}", "ATMOST 4", "DETAIL"):
        reply = rl.call("RL.TAKE", key, *limit.split(), *option.split())
        assert reply[0] == 0
    assert rl.take(key, limit, "COST 0").allowed == 1
    assert rl.take(key, limit, "ATMOST 0").allowed == 0
    assert rl.peek(key, limit).allowed == 0
    assert rl.take(key, limit, "COST 0 FORCE").allowed == 1
    assert rl.mtake([key, "other"], limit, "5 86400").allowed == 0
    assert rl.mtake(["other", key], "5 86400", limit).allowed == 0
    if kind == "GCRA":
        assert rl.throttle(key, "9 10 86400").limited == 1
        assert rl.throttle(key, "9 10 86400 0").limited == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_state_no_ttl_no_watch_no_save_counter(rl, client, server, clock, kind):
    rl.take("k", kind, "10 86400 COST 10")
    client.pexpire("k", 77_777_777)  # an unlikely TTL: a repaired one would show
    clock.advance(ms=1)
    before, dirty = everything(client), server.dirty
    with client.pipeline() as pipe:
        pipe.watch("k", "other")
        refuse(rl, kind)
        pipe.multi()
        pipe.ping()
        assert pipe.execute() == [True], "WATCH saw a change"
    assert everything(client) == before
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_key_without_ttl(rl, client, server, clock, kind):
    rl.take("k", kind, "10 86400 COST 10")
    client.persist("k")
    before = everything(client)
    refuse(rl, kind)
    assert everything(client) == before
    assert client.ttl("k") == -1


@pytest.mark.parametrize("kind", KINDS)
def test_on_no_key_creates_none(rl, client, server, kind):
    dirty = server.dirty
    for limit in ("10 86400 COST 11", "0 86400", "0 86400 ATMOST 3", "10 86400 COST 0"):
        rl.take("k", kind, limit)
    assert client.dbsize() == 0
    assert server.dirty == dirty


def test_not_one_byte_to_a_replica(pair):
    primary, replica = pair
    rl = primary.limiter()
    for kind in KINDS:
        rl.take(kind, kind, "10 86400 COST 10")
    replica.caught_up_with(primary)
    before = primary.offset
    for kind in KINDS:
        refuse(rl, kind, kind)
    assert primary.offset == before
    rl.take("k", "10 86400")
    assert primary.offset > before, "an admitted take does reach it"


def test_not_one_byte_to_the_aof(new_server):
    server = new_server("--appendonly", "yes", "--appendfsync", "always")
    rl = server.limiter()
    for kind in KINDS:
        rl.take(kind, kind, "10 86400 COST 10")
    wait_until(lambda: server.info("persistence", "aof_rewrite_in_progress") == "0")
    before = server.info("persistence", "aof_current_size")
    for kind in KINDS:
        refuse(rl, kind, kind)
    assert server.info("persistence", "aof_current_size") == before
    rl.take("k", "10 86400")
    assert server.info("persistence", "aof_current_size") != before


def test_a_take_and_a_give_do_count(rl, client, server):
    """The other side: what is written is seen by WATCH and by the save points."""
    for kind in KINDS:
        for verb in ("RL.TAKE", "RL.GIVE"):
            dirty = server.dirty
            with client.pipeline() as pipe:
                pipe.watch("k" + kind)
                rl.call(verb, "k" + kind, kind, "10", "86400", "COST", "2" if verb == "RL.TAKE" else "1")
                pipe.multi()
                pipe.ping()
                with pytest.raises(WatchError):
                    pipe.execute()
            assert server.dirty > dirty


def test_refusals_in_a_script_and_in_multi(pair):
    """No more than a write of the server's own that writes nothing: 6.2 sends an empty MULTI for it."""
    primary, replica = pair
    client, rl = primary.client(), primary.limiter()
    rl.take("k", "10 86400 COST 10")
    replica.caught_up_with(primary)

    def cost_of(*call):
        before, dirty = primary.offset, primary.dirty
        script = "return redis.call(unpack(ARGV))"
        replies = [client.eval(script, 1, "k", *call) for _ in range(2)]
        with client.pipeline(transaction=True) as pipe:
            for _ in range(3):
                pipe.execute_command(*call)
            replies += pipe.execute()
        assert primary.dirty == dirty
        return primary.offset - before, replies

    cost_of("DEL", "missing")
    nothing, _ = cost_of("DEL", "missing")
    refused, replies = cost_of("RL.TAKE", "k", 10, 86_400)
    assert [reply[0] for reply in replies] == [0] * 5
    assert refused == nothing
