"""What the server knows of the commands: COMMAND, keys, ACL, OOM, other clients' tools."""

import pytest

from harness import Error

COMMANDS = ["RL.TAKE", "RL.PEEK", "RL.GIVE", "RL.MTAKE", "RL.THROTTLE", "CL.THROTTLE"]
LIMIT = ["10", "86400"]


def flags(raw, command):
    [info] = raw("COMMAND", "INFO", command)
    return {flag.decode() for flag in info[2]}


def test_every_command_is_there(raw):
    for command in COMMANDS:
        [info] = raw("COMMAND", "INFO", command)
        assert info[0].decode().upper() == command


def test_flags(raw):
    assert "readonly" in flags(raw, "RL.PEEK") and "write" not in flags(raw, "RL.PEEK")
    for command in ("RL.TAKE", "RL.GIVE", "RL.MTAKE", "RL.THROTTLE", "CL.THROTTLE"):
        assert "write" in flags(raw, command) and "readonly" not in flags(raw, command)
    for command in COMMANDS:
        # RL.MTAKE is as slow as it has keys.
        assert ("fast" in flags(raw, command)) == (command != "RL.MTAKE")
        assert ("denyoom" in flags(raw, command)) == (command not in ("RL.PEEK", "RL.GIVE"))
        assert "noscript" not in flags(raw, command)


def test_keys(raw):
    assert raw("COMMAND", "GETKEYS", "RL.TAKE", "k", *LIMIT) == [b"k"]
    assert raw("COMMAND", "GETKEYS", "RL.PEEK", "k", *LIMIT, "COST", "2") == [b"k"]
    assert raw("COMMAND", "GETKEYS", "RL.GIVE", "k", *LIMIT) == [b"k"]
    assert raw("COMMAND", "GETKEYS", "RL.THROTTLE", "k", "15", "30", "60") == [b"k"]
    assert raw("COMMAND", "GETKEYS", "CL.THROTTLE", "k", "15", "30", "60", "1") == [b"k"]
    for count in (1, 2, 3, 128):
        keys = [f"k{n}" for n in range(count)]
        got = raw("COMMAND", "GETKEYS", "RL.MTAKE", str(count), *keys, *LIMIT * count, "COST", "3")
        assert got == [key.encode() for key in keys]


def test_keys_of_a_wrong_mtake(raw):
    """The server asks for the keys before the command is looked at: no count may lead it astray."""
    for numkeys in ("0", "-1", "5", "129", "x", "", "99999999999999999999", "4294967297", "-9223372036854775808"):
        assert isinstance(raw("COMMAND", "GETKEYS", "RL.MTAKE", numkeys, "k", *LIMIT), (Error, list))
    assert raw("PING") == b"PONG"


def test_docs(server, raw):
    if not server.knows_subcommand("COMMAND", "DOCS"):
        pytest.skip("this server has no COMMAND DOCS")
    for command in COMMANDS:
        reply = raw("COMMAND", "DOCS", command)
        assert len(reply) == 2, command
        docs = dict(zip(reply[1][::2], reply[1][1::2]))
        assert docs[b"summary"] and docs[b"complexity"] and docs[b"since"], command
        assert docs[b"group"] == b"module"
        arguments = [dict(zip(a[::2], a[1::2])) for a in docs[b"arguments"]]
        assert all(argument[b"name"] and argument[b"type"] for argument in arguments)
        kinds = [argument[b"type"] for argument in arguments]
        assert b"key" in kinds, "a hint shows where the key goes"
        if command in ("RL.TAKE", "RL.PEEK", "RL.GIVE", "RL.MTAKE"):
            text = repr(reply).upper()
            for word in ("GCRA", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGWINDOW", "SLIDINGLOG", "COST", "DETAIL"):
                assert word in text, (command, word)
            assert ("FORCE" in text) == (command == "RL.TAKE")


def test_key_specs(server, raw):
    """RL.PEEK reads its key; the others read and write theirs."""
    if not server.knows_subcommand("COMMAND", "DOCS"):
        pytest.skip("this server has no key specifications")
    for command in COMMANDS:
        [info] = raw("COMMAND", "INFO", command)
        [spec] = info[8]
        spec = dict(zip(spec[::2], spec[1::2]))
        flags = {flag.decode().upper() for flag in spec[b"flags"]}
        assert ("RO" in flags) == (command == "RL.PEEK")
        assert ("RW" in flags) == (command != "RL.PEEK")


@pytest.fixture
def as_user(server, client):
    """A connection of a user with the given rules."""
    connections = []

    def connect(*rules):
        client.execute_command("ACL", "SETUSER", "tester", "reset", "on", "nopass", *rules)
        raw = server.raw()
        connections.append(raw)
        assert raw("AUTH", "tester", "any") == b"OK"
        return raw

    yield connect
    for raw in connections:
        raw.close()
    client.execute_command("ACL", "DELUSER", "tester")


def no_permission(reply):
    return isinstance(reply, Error) and reply.startswith("NOPERM")


def test_a_user_by_command_name(as_user):
    raw = as_user("~*", "+rl.peek")
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1
    assert no_permission(raw("RL.TAKE", "k", *LIMIT))
    raw = as_user("~*", "+rl.take")
    assert raw("RL.TAKE", "k", *LIMIT)[0] == 1


def test_key_patterns(as_user):
    raw = as_user("~mine:*", "+rl.take", "+rl.peek", "+rl.give", "+rl.mtake", "+rl.throttle")
    assert raw("RL.TAKE", "mine:k", *LIMIT)[0] == 1
    assert raw("RL.MTAKE", "2", "mine:k", "mine:l", *LIMIT * 2)[0] == 1
    for call in (
        ["RL.TAKE", "k", *LIMIT],
        ["RL.PEEK", "k", *LIMIT],
        ["RL.GIVE", "k", *LIMIT],
        ["RL.THROTTLE", "k", "15", "30", "60"],
        ["RL.MTAKE", "2", "mine:k", "k", *LIMIT * 2],
        ["RL.MTAKE", "2", "k", "mine:k", *LIMIT * 2],
    ):
        assert no_permission(raw(*call)), call


def test_categories(server, as_user):
    """`+@write` may take, `+@read` may peek; both are `@fast`."""
    if not server.knows("WAITAOF"):
        pytest.skip("this server gives modules no say in ACL categories (7.2 does)")
    raw = as_user("~*", "+@write")
    assert raw("RL.TAKE", "k", *LIMIT)[0] == 1
    assert raw("RL.GIVE", "k", *LIMIT)[0] == 1
    assert raw("RL.MTAKE", "1", "k", *LIMIT)[0] == 1
    assert raw("RL.THROTTLE", "t", "15", "30", "60")[0] == 0
    assert raw("CL.THROTTLE", "t", "15", "30", "60")[0] == 0
    assert no_permission(raw("RL.PEEK", "k", *LIMIT))
    raw = as_user("~*", "+@read")
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1
    assert no_permission(raw("RL.TAKE", "k", *LIMIT))
    raw = as_user("~*", "+@fast")
    assert raw("RL.TAKE", "k", *LIMIT)[0] == 1
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1
    raw = as_user("~*", "+@all", "-@write")
    assert no_permission(raw("RL.TAKE", "k", *LIMIT))
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1


def test_read_only_key_permission(server, as_user):
    """`%R~` lets a user peek and not take."""
    if not server.knows_subcommand("COMMAND", "DOCS"):
        pytest.skip("this server has no key permissions")
    raw = as_user("%R~*", "+rl.peek", "+rl.take", "+rl.give", "+rl.mtake", "+rl.throttle", "+cl.throttle")
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1
    for call in (
        ["RL.TAKE", "k", *LIMIT],
        ["RL.GIVE", "k", *LIMIT],
        ["RL.MTAKE", "1", "k", *LIMIT],
        ["RL.THROTTLE", "k", "15", "30", "60"],
        ["CL.THROTTLE", "k", "15", "30", "60"],
    ):
        assert no_permission(raw(*call)), call


def test_write_only_key_permission(server, as_user):
    """The reply tells of the state, so `%W~` alone is not enough for anything."""
    if not server.knows_subcommand("COMMAND", "DOCS"):
        pytest.skip("this server has no key permissions")
    raw = as_user("%W~*", "+rl.peek", "+rl.take")
    assert no_permission(raw("RL.PEEK", "k", *LIMIT))
    assert no_permission(raw("RL.TAKE", "k", *LIMIT))


@pytest.fixture
def out_of_memory(client):
    policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
    client.config_set("maxmemory-policy", "noeviction")

    def squeeze():
        client.config_set("maxmemory", 1)

    yield squeeze
    client.config_set("maxmemory", 0)
    client.config_set("maxmemory-policy", policy)


def test_out_of_memory(rl, client, raw, out_of_memory, server):
    rl.take("k", "10 86400 COST 4")
    before, dirty = client.dump("k"), server.dirty
    out_of_memory()
    for call in (
        ["RL.TAKE", "k", *LIMIT],
        ["RL.TAKE", "new", *LIMIT],
        ["RL.MTAKE", "1", "k", *LIMIT],
        ["RL.THROTTLE", "k", "15", "30", "60"],
    ):
        reply = raw(*call)
        assert isinstance(reply, Error) and reply.startswith("OOM "), call
    assert rl.peek("k", "10 86400").remaining == 6
    assert client.dump("k") == before
    assert server.dirty == dirty
    assert rl.give("k", "10 86400").remaining == 7, "a give only returns"


def test_memory_of_a_key(client, rl):
    """No more than a short string of the server's own."""
    rl.take("k", "10 86400")
    client.set("s", "x" * 20, px=1000)
    assert client.memory_usage("k") <= client.memory_usage("s") + 32


def test_object_and_debug_commands_work_on_a_key(client, rl):
    rl.take("k", "10 86400")
    assert client.object("encoding", "k") in (b"raw", b"embstr")
    assert client.object("refcount", "k") == 1


def test_monitor_and_slowlog_show_the_commands(server, client, raw):
    raw("CONFIG", "SET", "slowlog-log-slower-than", "0")
    raw("RL.TAKE", "k", *LIMIT)
    entries = raw("SLOWLOG", "GET", "100")
    raw("CONFIG", "SET", "slowlog-log-slower-than", "10000")
    assert any(entry[3][:2] == [b"RL.TAKE", b"k"] for entry in entries)
    with server.raw() as monitor:
        assert monitor("MONITOR") == b"OK"
        raw("RL.TAKE", "k", *LIMIT)
        lines = [monitor.read()]
        while b'"RL.' not in lines[-1] and len(lines) < 5:  # what a command calls is shown before it
            lines.append(monitor.read())
        assert b'"RL.TAKE" "k" "10" "86400"' in lines[-1]


def test_the_module_is_listed(raw):
    names = [dict(zip(m[::2], m[1::2]))[b"name"] for m in raw("MODULE", "LIST")]
    assert b"rl" in names
