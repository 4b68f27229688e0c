"""What the server and its tools tell a person about the commands: COMMAND DOCS, redis-cli's hints
and help, the keys of a call with what is done to them.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import Error

BUCKET = "count period [BURST burst]"
WINDOW = "count period"
LIMIT = (
    f"[TOKENBUCKET] {BUCKET}|GCRA {BUCKET}|LEAKYBUCKET {BUCKET}"
    f"|FIXEDWINDOW {WINDOW}|SLIDINGWINDOW {WINDOW}|SLIDINGLOG {WINDOW}"
)
LIMITS = f"{LIMIT} [{LIMIT} ...]"
SYNTAX = {
    "RL.TAKE": f"key {LIMITS} [COST cost|ATMOST atmost] [FORCE] [DETAIL]",
    "RL.PEEK": f"key {LIMITS} [COST cost|ATMOST atmost] [DETAIL]",
    "RL.GIVE": f"key {LIMITS} [COST cost] [DETAIL]",
    "RL.MTAKE": f"numkeys key [key ...] {LIMITS} [COST cost] [DETAIL]",
    "RL.THROTTLE": "key max_burst count period [quantity]",
    "CL.THROTTLE": "key max_burst count period [quantity]",
}
# The fewest words of a call, the command's name among them.
ARITY = {"RL.TAKE": 4, "RL.PEEK": 4, "RL.GIVE": 4, "RL.MTAKE": 5, "RL.THROTTLE": 5, "CL.THROTTLE": 5}


def tree(reply):
    """The maps of a RESP2 reply, as maps."""
    if isinstance(reply, dict):
        return {text(k): tree(v) for k, v in reply.items()}
    if isinstance(reply, list):
        if reply and len(reply) % 2 == 0 and reply[0] in (b"name", b"summary", b"flags", b"type", b"index"):
            return {text(k): tree(v) for k, v in zip(reply[::2], reply[1::2])}
        return [tree(item) for item in reply]
    return text(reply)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture
def docs(server, raw):
    if not server.knows_subcommand("COMMAND", "DOCS"):
        pytest.skip("this server has no COMMAND DOCS (7.0 has)")
    reply = raw("COMMAND", "DOCS", *SYNTAX)
    return {text(name): tree(about) for name, about in zip(reply[::2], reply[1::2])}


def shown(argument):
    """An argument as redis-cli writes it."""
    inner = argument.get("arguments", [])
    words = {
        "pure-token": lambda: "",
        "oneof": lambda: "|".join(map(shown, inner)),
        "block": lambda: " ".join(map(shown, inner)),
    }.get(argument["type"], lambda: argument["name"])()
    words = " ".join(filter(None, [argument.get("token"), words]))
    if "multiple" in argument.get("flags", []):
        words += f" [{words} ...]"
    return f"[{words}]" if "optional" in argument.get("flags", []) else words


def test_docs_are_complete(docs):
    assert set(docs) == set(SYNTAX)
    for name, about in docs.items():
        assert re.fullmatch(r"[A-Z].{20,90}\.", about["summary"]), name
        assert about["complexity"].startswith("O("), name
        assert re.fullmatch(r"\d+\.\d+\.\d+", about["since"]), name
        assert (about["group"], about["module"]) == ("module", "rl"), name
        assert " ".join(map(shown, about["arguments"])) == SYNTAX[name]


def test_docs_speak_of_calls_that_work(docs, raw, rng):
    """Calls built at random from nothing but the documented arguments: none is a syntax error."""

    def words(argument, times):
        flags = argument.get("flags", [])
        if "optional" in flags and rng.random() < 0.5:
            return
        for _ in range(times if "multiple" in flags else 1):
            if "token" in argument:
                yield argument["token"]
            inner = argument.get("arguments", [])
            if argument["type"] == "oneof":
                yield from words(rng.choice(inner), 1)
            elif argument["type"] == "block":
                for part in inner:
                    yield from words(part, 1)
            elif argument["type"] == "key":
                yield f"key:{rng.randrange(10**9)}"
            elif argument["name"] == "numkeys":
                yield str(times)
            elif argument["type"] == "integer":
                yield str(rng.randint(0, 50))
            elif argument["type"] == "string":
                yield rng.choice(["1", "0.5", "60", "100ms", "1m", "2h", "1d"])

    for name, about in docs.items():
        for _ in range(60):
            times = rng.randint(1, 4)
            call = [word for argument in about["arguments"] for word in words(argument, times)]
            reply = raw(name, *call)
            if isinstance(reply, Error):
                # Nothing drains at a count of 0: understood, and refused for what it says.
                assert re.search("must drain|what drains", reply), (name, call)
            else:
                assert len(reply) == (6 if call[-1] == "DETAIL" else 5), (name, call)


def test_command_info(server, raw):
    described = server.knows_subcommand("COMMAND", "DOCS")
    for name in SYNTAX:
        [info] = raw("COMMAND", "INFO", name)
        # 6.2 has no way to be told.
        assert info[1] == (-ARITY[name] if described else -1), name
        assert info[3:6] == ([0, 0, 0] if name == "RL.MTAKE" else [1, 1, 1]), name
        assert (b"movablekeys" in info[2]) == (name == "RL.MTAKE"), name
        if described:
            # The same call has another answer a moment later.
            assert info[7] == [b"nondeterministic_output"], name


def test_a_call_with_too_few_words(raw):
    for name, least in ARITY.items():
        call = [name, *["1"] * (least - 2)]
        text = f"ERR wrong number of arguments for '{name.lower()}' command"
        assert raw(*call).lower() == text.lower(), "one word less than the least"
        assert raw(name).lower() == text.lower()


def test_the_module_and_its_commands_are_listed(server, raw):
    if not server.knows_subcommand("COMMAND", "LIST"):
        pytest.skip("this server has no COMMAND LIST (7.0 has)")
    listed = raw("COMMAND", "LIST", "FILTERBY", "MODULE", "rl")
    assert sorted(text(name).upper() for name in listed) == sorted(SYNTAX)


def test_keys_and_what_is_done_to_them(server, raw):
    if not server.knows_subcommand("COMMAND", "GETKEYSANDFLAGS"):
        pytest.skip("this server has no COMMAND GETKEYSANDFLAGS (7.0 has)")
    changed, read = [b"RW", b"access", b"update"], [b"RO", b"access"]

    def keys(*call):
        return raw("COMMAND", "GETKEYSANDFLAGS", *call)

    limit = ["10", "60"]
    assert keys("RL.TAKE", "k", *limit, "COST", "2") == [[b"k", changed]]
    assert keys("RL.GIVE", "k", *limit) == [[b"k", changed]]
    assert keys("RL.THROTTLE", "k", "15", "30", "60") == [[b"k", changed]]
    assert keys("CL.THROTTLE", "k", "15", "30", "60", "0") == [[b"k", changed]]
    assert keys("RL.PEEK", "k", *limit) == [[b"k", read]]
    assert keys("RL.MTAKE", "3", "a", "b", "c", *limit * 3) == [[k, changed] for k in (b"a", b"b", b"c")]
    # Not the numbers, whatever they look like.
    assert keys("RL.MTAKE", "1", "10", *limit) == [[b"10", changed]]


@pytest.fixture
def cli(server):
    """The redis-cli or valkey-cli beside the server, or else the one on PATH."""
    names = [str(Path(server.binary).parent / name) for name in ("redis-cli", "valkey-cli")]
    for name in [*names, "redis-cli", "valkey-cli"]:
        if path := shutil.which(name):
            break
    else:
        pytest.skip("there is no redis-cli here")

    def run(*args):
        command = [path, "-p", str(server.port), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)

    return run


def test_help_of_redis_cli(docs, cli):
    for name, about in docs.items():
        help = cli("help", name)
        if about["summary"] not in help:
            pytest.skip("this redis-cli doesn't ask the server about its commands (7.0 does)")
        assert f"  {name} {SYNTAX[name]}\n" in help
        assert about["summary"] in help


def test_hints_of_redis_cli(docs, cli):
    """What it shows in grey while a person types."""

    def hint(typed):
        return cli("--test_hint", typed).strip()

    if "nrecognized option" in hint("GET "):
        pytest.skip("this redis-cli can't be asked for its hints (7.2 can)")
    for name, syntax in SYNTAX.items():
        assert hint(f"{name} ") == syntax
    options = "[COST cost|ATMOST atmost] [FORCE] [DETAIL]"
    assert hint("rl.take k ") == f"{LIMITS} {options}"
    assert hint("RL.TAKE k 10 60 ") == f"[BURST burst] [{LIMIT} ...] {options}"
    assert hint("RL.TAKE k 10 60 BURST ") == f"burst [{LIMIT} ...] {options}"
    assert hint("RL.TAKE k SLIDINGLOG 10 ") == f"period [{LIMIT} ...] {options}"
    assert hint("RL.MTAKE 2 a b ").startswith("[key ...] ")
    assert hint("CL.THROTTLE user 15 30 ") == "period [quantity]"
