"""What a script's own flags allow: the server knows of each command whether it writes, and may so
hold a script to its word.
"""

import pytest

from harness import Error

LIMIT = ["3", "86400"]
TAKE = "return redis.call('RL.TAKE', KEYS[1], '3', '86400')"
PEEK = "return redis.call('RL.PEEK', KEYS[1], '3', '86400')"


@pytest.fixture
def flags(server):
    if not server.knows("FUNCTION"):
        pytest.skip("this server's scripts have no flags (7.0's have)")


def test_a_script_that_promised_not_to_write(raw, flags):
    assert raw("EVAL", f"#!lua flags=no-writes\n{PEEK}", "1", "k")[:2] == [1, 3]
    reply = raw("EVAL", f"#!lua flags=no-writes\n{TAKE}", "1", "k")
    assert isinstance(reply, Error) and "read-only script" in reply
    assert raw("EXISTS", "k") == 0


def test_a_function_that_promised_not_to_write(raw, flags):
    library = """#!lua name=citizen
        local function take(keys) return redis.call('RL.TAKE', keys[1], '3', '86400') end
        local function peek(keys) return redis.call('RL.PEEK', keys[1], '3', '86400') end
        redis.register_function('take', take)
        redis.register_function{function_name='peek', callback=peek, flags={'no-writes'}}
        redis.register_function{function_name='sly', callback=take, flags={'no-writes'}}"""
    assert raw("FUNCTION", "LOAD", "REPLACE", library) == b"citizen"
    try:
        assert raw("FCALL", "take", "1", "k")[:2] == [1, 2]
        assert raw("FCALL_RO", "peek", "1", "k")[:2] == [1, 2]
        for call in (["FCALL", "sly"], ["FCALL_RO", "sly"]):
            reply = raw(*call, "1", "k")
            assert isinstance(reply, Error) and "read-only script" in reply
        reply = raw("FCALL_RO", "take", "1", "k")
        assert isinstance(reply, Error) and "write flag" in reply
        assert raw("RL.PEEK", "k", *LIMIT)[1] == 2
    finally:
        raw("FUNCTION", "DELETE", "citizen")


def test_a_script_when_memory_is_full(raw, flags):
    """One that says nothing is turned down before it begins, one that declares it takes what it likes."""
    policy = raw("CONFIG", "GET", "maxmemory-policy")[1]
    raw("CONFIG", "SET", "maxmemory-policy", "noeviction")
    raw("CONFIG", "SET", "maxmemory", "1")
    try:
        assert raw("EVAL", f"#!lua\n{TAKE}", "1", "k").startswith("OOM ")
        assert raw("EVAL", f"#!lua flags=allow-oom\n{TAKE}", "1", "k")[:2] == [1, 2]
        assert raw("EVAL", f"#!lua flags=no-writes\n{PEEK}", "1", "k")[:2] == [1, 2]
    finally:
        raw("CONFIG", "SET", "maxmemory", "0")
        raw("CONFIG", "SET", "maxmemory-policy", policy)


def test_a_replica_runs_scripts_that_only_peek(new_server):
    primary, replica = new_server(), new_server()
    replica.replica_of(primary)
    primary.raw()("RL.TAKE", "k", *LIMIT)
    replica.caught_up_with(primary)
    raw = replica.raw()
    assert raw("EVAL", PEEK, "1", "k")[:2] == [1, 2]
    reply = raw("EVAL", TAKE, "1", "k")
    assert isinstance(reply, Error) and "READONLY" in reply
