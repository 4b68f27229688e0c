"""Who may do what: command rules, key patterns, key permissions, selectors, and what a script or a
transaction may do in a user's name. Denied calls change nothing and are logged.
"""

import re

import pytest

from harness import Error

LIMIT = ["10", "86400"]
CALLS = {
    "RL.TAKE": ["k", *LIMIT],
    "RL.PEEK": ["k", *LIMIT],
    "RL.GIVE": ["k", *LIMIT],
    "RL.MTAKE": ["1", "k", *LIMIT],
    "RL.THROTTLE": ["k", "9", "10", "86400"],
    "CL.THROTTLE": ["k", "9", "10", "86400"],
}
READS = {"RL.PEEK"}


@pytest.fixture
def as_user(server, client):
    """A connection of a user with these rules and nothing else."""
    open_ones = []

    def connect(*rules):
        client.execute_command("ACL", "SETUSER", "guest", "reset", "on", "nopass", *rules)
        raw = server.raw()
        open_ones.append(raw)
        assert raw("AUTH", "guest", "any") == b"OK"
        return raw

    yield connect
    for raw in open_ones:
        raw.close()
    client.execute_command("ACL", "DELUSER", "guest")


def denied(reply):
    return isinstance(reply, Error) and reply.startswith("NOPERM ")


def allowed(raw):
    """The commands that this user may call on the key `k`."""
    return {name for name, args in CALLS.items() if not denied(raw(name, *args))}


def test_by_the_commands_name(as_user):
    for name in CALLS:
        assert allowed(as_user("~*", f"+{name.lower()}")) == {name}
        assert allowed(as_user("~*", "+@all", f"-{name.lower()}")) == set(CALLS) - {name}
    # What the module writes in the user's name needs no rule for SET, DEL or PEXPIREAT.
    raw = as_user("~*", "+rl.take", "+rl.give")
    assert raw("RL.TAKE", "new", *LIMIT)[:2] == [1, 9]
    assert raw("RL.GIVE", "new", *LIMIT)[:2] == [1, 10]


def test_by_category(server, raw, as_user):
    if not server.knows("WAITAOF"):
        # Before 7.2 a module's command is in no category, and so `-@write` doesn't take it away.
        assert allowed(as_user("~*", "+@write", "+@read", "+@fast")) == set()
        assert allowed(as_user("~*", "+@all", "-@write")) == set(CALLS)
        pytest.skip("this server gives modules no say in ACL categories (7.2 does)")
    writes = set(CALLS) - READS
    assert allowed(as_user("~*", "+@write")) == writes
    assert allowed(as_user("~*", "+@read")) == READS
    assert allowed(as_user("~*", "+@all", "-@write")) == READS
    assert allowed(as_user("~*", "+@all", "-@read")) == writes
    assert allowed(as_user("~*", "+@fast")) == set(CALLS) - {"RL.MTAKE"}
    assert allowed(as_user("~*", "+@all", "-@dangerous", "-@admin", "-@keyspace")) == set(CALLS)
    assert allowed(as_user("~*", "+@string", "+@keyspace", "+@slow", "+@scripting")) <= {"RL.MTAKE"}

    for name in CALLS:
        [info] = raw("COMMAND", "INFO", name)
        fast = set() if name == "RL.MTAKE" else {b"@fast"}
        assert set(info[6]) == {b"@read" if name in READS else b"@write"} | fast, name


def test_by_key_pattern(as_user, client):
    raw = as_user("~mine:*", "+@all")
    for name, args in CALLS.items():
        at = args.index("k")
        mine = [*args[:at], f"mine:{name}", *args[at + 1 :]]
        assert not denied(raw(name, *mine)), name
        assert denied(raw(name, *args)), name
    assert client.keys("k") == []


@pytest.mark.parametrize("position", range(4))
def test_every_key_of_an_mtake_counts(as_user, client, position):
    """One key that the user may not touch, wherever it stands: nothing is taken from any."""
    raw = as_user("~mine:*", "+@all")
    keys = [f"mine:{n}" for n in range(4)]
    assert raw("RL.MTAKE", "4", *keys, *LIMIT * 4)[0] == 1
    before = [client.dump(key) for key in keys]
    others = keys[:position] + ["yours"] + keys[position + 1 :]
    assert denied(raw("RL.MTAKE", "4", *others, *LIMIT * 4))
    assert [client.dump(key) for key in keys] == before
    assert client.exists("yours") == 0


def test_a_number_of_keys_that_lies(as_user):
    """However the keys are counted, none slips by the pattern."""
    raw = as_user("~mine:*", "+@all")
    for numkeys in ("0", "1", "2", "3", "5", "-1", "x", "129", "4294967298"):
        reply = raw("RL.MTAKE", numkeys, "mine:a", "yours", *LIMIT * 2)
        assert isinstance(reply, Error), numkeys
    # Here "yours" is no key but the beginning of a limit, and wrong as that.
    assert raw("RL.MTAKE", "1", "mine:a", "yours", *LIMIT).startswith("ERR unknown argument 'yours'")
    assert denied(raw("RL.MTAKE", "2", "mine:a", "yours", *LIMIT * 2))


@pytest.fixture
def key_permissions(server):
    if not server.knows_subcommand("ACL", "DRYRUN"):
        pytest.skip("this server has no key permissions (7.0 has)")


def test_by_key_permission(as_user, key_permissions):
    # All but RL.PEEK change the key and answer with what it holds.
    assert allowed(as_user("%R~*", "+@all")) == READS
    assert allowed(as_user("%W~*", "+@all")) == set()
    assert allowed(as_user("%RW~*", "+@all")) == set(CALLS)
    raw = as_user("%R~*", "%RW~mine:*", "+@all")
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1
    assert raw("RL.TAKE", "mine:k", *LIMIT)[0] == 1
    assert denied(raw("RL.TAKE", "k", *LIMIT))
    assert denied(raw("RL.MTAKE", "2", "mine:k", "k", *LIMIT * 2))


def test_by_selector(as_user, key_permissions):
    """Peek everywhere, take among one's own."""
    raw = as_user("%R~*", "+rl.peek", "(~mine:* +rl.take +rl.mtake)")
    assert raw("RL.PEEK", "k", *LIMIT)[0] == 1
    assert raw("RL.TAKE", "mine:k", *LIMIT)[0] == 1
    assert raw("RL.MTAKE", "2", "mine:k", "mine:l", *LIMIT * 2)[0] == 1
    assert denied(raw("RL.TAKE", "k", *LIMIT))
    assert denied(raw("RL.MTAKE", "2", "mine:k", "k", *LIMIT * 2))
    assert denied(raw("RL.GIVE", "mine:k", *LIMIT))


def test_dry_run(raw, as_user, key_permissions):
    as_user("%R~*", "+rl.peek", "+rl.take")

    def dry(*call):
        return raw("ACL", "DRYRUN", "guest", *call)

    assert dry("RL.PEEK", "k", *LIMIT) == b"OK"
    assert b"no permissions to access" in dry("RL.TAKE", "k", *LIMIT).lower()
    assert b"no permissions to run" in dry("RL.GIVE", "k", *LIMIT).lower()


def test_denied_calls_are_logged(raw, as_user):
    raw("ACL", "LOG", "RESET")
    user = as_user("~mine:*", "+rl.take", "+rl.mtake")
    user("RL.PEEK", "mine:k", *LIMIT)
    user("RL.MTAKE", "2", "mine:k", "yours", *LIMIT * 2)
    entries = [dict(zip(e[::2], e[1::2])) for e in raw("ACL", "LOG")]
    assert [(e[b"reason"], e[b"object"].lower()) for e in entries] == [
        (b"key", b"yours"),
        (b"command", b"rl.peek"),
    ]


def test_in_scripts_and_transactions(as_user, client):
    """A script does not lend its caller rights; a transaction with a denied call is off."""

    def denied_in_script(reply):
        says = "no permissions|user executing the script can't"
        return isinstance(reply, Error) and re.search(says, reply.lower())

    raw = as_user("~mine:*", "+eval", "+multi", "+exec", "+rl.peek")
    script = "return redis.pcall(ARGV[1], KEYS[1], '10', '86400')"
    assert raw("EVAL", script, "1", "mine:k", "RL.PEEK")[:2] == [1, 10]
    assert denied_in_script(raw("EVAL", script, "1", "mine:k", "RL.TAKE"))
    # Not even by a key that the script did not declare.
    assert denied_in_script(raw("EVAL", "return redis.pcall('RL.PEEK', 'yours', '10', '86400')", "0"))
    raw("MULTI")
    assert denied(raw("RL.TAKE", "mine:k", *LIMIT))
    assert raw("EXEC").startswith("EXECABORT ")
    assert client.exists("mine:k") == 0


def test_rights_that_are_withdrawn(as_user, client):
    """The user's connection stays open and may no more."""
    raw = as_user("~*", "+rl.take", "+rl.peek")
    assert raw("RL.TAKE", "k", *LIMIT)[1] == 9
    client.execute_command("ACL", "SETUSER", "guest", "-rl.take")
    assert denied(raw("RL.TAKE", "k", *LIMIT))
    assert raw("RL.PEEK", "k", *LIMIT)[1] == 9
