"""Inside MULTI/EXEC, Lua scripts and Functions."""

import pytest
import redis

from harness import KINDS, Error

TAKE = "return redis.call('RL.TAKE', KEYS[1], unpack(ARGV))"
PEEK = "return redis.call('RL.PEEK', KEYS[1], unpack(ARGV))"


def test_multi_exec(client, clock):
    with client.pipeline(transaction=True) as pipe:
        pipe.execute_command("RL.TAKE", "k", 3, 60)
        pipe.set("other", "1")
        pipe.execute_command("RL.PEEK", "k", 3, 60)
        pipe.execute_command("RL.TAKE", "k", 3, 60, "COST", 2)
        pipe.execute_command("RL.TAKE", "k", 3, 60)
        pipe.execute_command("RL.GIVE", "k", 3, 60)
        pipe.execute_command("RL.MTAKE", 2, "k", "l", 3, 60, 5, 60)
        pipe.execute_command("RL.THROTTLE", "t", 15, 30, 60)
        replies = pipe.execute()
    assert replies == [
        [1, 2, 0, 20_000, 3],
        True,
        [1, 2, 0, 20_000, 3],
        [1, 0, 0, 60_000, 3],
        [0, 0, 20_000, 60_000, 3],
        [1, 1, 0, 40_000, 3],
        [1, 0, 0, 60_000, 3],
        [0, 16, 15, -1, 2],
    ]


def test_an_error_in_multi_leaves_the_rest(client, raw):
    raw("MULTI")
    raw("RL.TAKE", "k", "3", "60")
    raw("RL.TAKE", "k", "3", "0")
    raw("RL.TAKE", "k", "3", "60")
    first, error, second = raw("EXEC")
    assert first[:2] == [1, 2] and second[:2] == [1, 1]
    assert isinstance(error, Error) and error.startswith("ERR period must be")


def test_discard(client, raw):
    raw("MULTI")
    assert raw("RL.TAKE", "k", "3", "60") == b"QUEUED"
    raw("DISCARD")
    assert client.dbsize() == 0


def test_watch_sees_a_take_of_another(client, rl):
    with client.pipeline() as pipe:
        pipe.watch("k")
        rl.take("k", "3 60")
        pipe.multi()
        pipe.ping()
        with pytest.raises(redis.WatchError):
            pipe.execute()


def test_eval(client, clock):
    assert client.eval(TAKE, 1, "k", "3", "60") == [1, 2, 0, 20_000, 3]
    assert client.eval(TAKE, 1, "k", "3", "60", "COST", "2") == [1, 0, 0, 60_000, 3]
    assert client.eval(TAKE, 1, "k", "3", "60") == [0, 0, 20_000, 60_000, 3]
    assert client.eval(PEEK, 1, "k", "3", "60") == [0, 0, 20_000, 60_000, 3]
    assert client.eval(TAKE, 1, "l", "3", "60", "DETAIL") == [1, 2, 0, 20_000, 3, [[2, 0, 20_000, 3]]]
    assert client.eval(
        "return redis.call('RL.MTAKE', 2, KEYS[1], KEYS[2], '3', '60', '5', '60')", 2, "m", "n"
    ) == [1, 2, 0, 20_000, 3]
    assert client.eval("return redis.call('CL.THROTTLE', KEYS[1], 15, 30, 60)", 1, "t") == [0, 16, 15, -1, 2]


def test_many_takes_in_one_script_share_one_instant(client, clock):
    script = """
        local admitted = 0
        for _ = 1, 500 do
            if redis.call('RL.TAKE', KEYS[1], ARGV[1], '100', '1')[1] == 1 then
                admitted = admitted + 1
            end
        end
        return admitted"""
    for kind in KINDS:
        assert client.eval(script, 1, kind, kind) == 100


def test_an_error_in_a_script_can_be_caught(client):
    script = "return redis.pcall('RL.TAKE', KEYS[1], '10', '0')['err']"
    assert b"period must be between 1ms and 3650d" in client.eval(script, 1, "k")
    with pytest.raises(redis.ResponseError, match="period must be"):
        client.eval(TAKE, 1, "k", "10", "0")
    client.set("text", "hello")
    script = "return redis.pcall('RL.TAKE', KEYS[1], '10', '60')['err']"
    assert client.eval(script, 1, "text").startswith(b"WRONGTYPE ")
    assert client.get("text") == b"hello"


def test_a_read_only_script_may_peek_and_not_take(server, client, raw, clock):
    if not server.knows("EVAL_RO"):
        pytest.skip("this server has no EVAL_RO")
    client.execute_command("RL.TAKE", "k", 3, 60)
    assert raw("EVAL_RO", PEEK, "1", "k", "3", "60") == [1, 2, 0, 20_000, 3]
    reply = raw("EVAL_RO", TAKE, "1", "k", "3", "60")
    assert isinstance(reply, Error) and "read-only script" in reply


def test_functions(server, client, clock):
    if not server.knows("FUNCTION"):
        pytest.skip("this server has no Functions")
    client.function_load(
        """#!lua name=limits
        redis.register_function('take', function(keys, args)
            return redis.call('RL.TAKE', keys[1], unpack(args))
        end)
        redis.register_function{function_name='peek', flags={'no-writes'}, callback=function(keys, args)
            return redis.call('RL.PEEK', keys[1], unpack(args))
        end}""",
        replace=True,
    )
    assert client.fcall("take", 1, "k", "3", "60") == [1, 2, 0, 20_000, 3]
    assert client.fcall("peek", 1, "k", "3", "60") == [1, 2, 0, 20_000, 3]
    assert client.fcall_ro("peek", 1, "k", "3", "60", "COST", "3") == [0, 2, 20_000, 20_000, 3]
    client.function_delete("limits")


def test_a_script_reaches_the_replica_as_state(pair):
    primary, replica = pair
    client, copy = primary.client(), replica.client()
    script = "for _ = 1, 5 do redis.call('RL.TAKE', KEYS[1], ARGV[1], '10', '86400') end"
    for kind in KINDS:
        client.eval(script, 1, kind, kind)
    with client.pipeline(transaction=True) as pipe:
        for kind in KINDS:
            pipe.execute_command("RL.TAKE", kind, kind, 10, 86_400)
        pipe.execute()
    replica.caught_up_with(primary)
    for kind in KINDS:
        assert copy.dump(kind) == client.dump(kind)
