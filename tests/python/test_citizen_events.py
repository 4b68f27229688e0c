"""Keyspace events: who takes, who is refused, who gives, for an operator to watch. They are of the
module class, `d`, and there are none while it is off.
"""

import pytest

from harness import KINDS

DAY = "86400"


@pytest.fixture
def watch(server, raw):
    """Turn classes of events on, and get them as (channel, message) after some calls:
    `watch("KEd")` returns `seen`, and `seen(call, ...)` makes the calls."""
    before = raw("CONFIG", "GET", "notify-keyspace-events")[1]
    subscribers = []

    def begin(classes):
        assert raw("CONFIG", "SET", "notify-keyspace-events", classes) == b"OK"
        subscriber = server.raw()
        subscribers.append(subscriber)
        subscriber("PSUBSCRIBE", "__key*__:*")
        subscriber("SUBSCRIBE", "end")

        def seen(*calls):
            for call in calls:
                raw(*call.split())
            raw("PUBLISH", "end", "")
            events = []
            while (message := subscriber.read())[0] == b"pmessage":
                events.append((message[2].decode(), message[3].decode()))
            return events

        return seen

    yield begin
    raw("CONFIG", "SET", "notify-keyspace-events", before)
    for subscriber in subscribers:
        subscriber.close()


def of(key, event, database=0):
    """The two messages of an event."""
    return [(f"__keyspace@{database}__:{key}", event), (f"__keyevent@{database}__:{event}", key)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_deed_has_its_event(watch, kind):
    seen = watch("KEd")
    limit = f"{kind} 3 {DAY}"
    assert seen(f"RL.TAKE k {limit}") == of("k", "rl.take")
    assert seen(f"RL.TAKE k {limit} ATMOST 7") == of("k", "rl.take")
    assert seen(f"RL.TAKE k {limit}") == of("k", "rl.refuse")
    assert seen(f"RL.TAKE k {limit} ATMOST 7") == of("k", "rl.refuse")
    assert seen(f"RL.TAKE k {limit} COST 9") == of("k", "rl.refuse")
    assert seen(f"RL.TAKE k {limit} FORCE") == of("k", "rl.take")
    assert seen(f"RL.GIVE k {limit}") == of("k", "rl.give")
    assert seen(f"RL.GIVE k {limit} COST 99") == of("k", "rl.give")


def test_what_only_looks_has_none(watch):
    seen = watch("KEd")
    assert seen(f"RL.PEEK k 3 {DAY}", f"RL.TAKE k 3 {DAY} COST 0", f"RL.THROTTLE k 2 3 {DAY} 0") == []
    assert seen(f"RL.TAKE k 3 {DAY} ATMOST 0", f"RL.MTAKE 2 k l 3 {DAY} 3 {DAY} COST 0") == []


def test_errors_have_none(watch, raw):
    raw("SET", "text", "hello")
    seen = watch("KEd")
    assert seen("RL.TAKE k 3 0", f"RL.TAKE k 3 {DAY} COST x", f"RL.TAKE text 3 {DAY}", "RL.TAKE k") == []
    assert seen(f"RL.MTAKE 2 k text 3 {DAY} 3 {DAY}") == []


def test_throttle(watch):
    seen = watch("KEd")
    for command in ("RL.THROTTLE", "CL.THROTTLE"):
        assert seen(f"{command} {command} 0 1 {DAY}") == of(command, "rl.take")
        assert seen(f"{command} {command} 0 1 {DAY}") == of(command, "rl.refuse")
        assert seen(f"{command} {command} 0 1 {DAY} -1") == of(command, "rl.give")


def test_mtake_names_every_key_it_took_from_and_those_that_refused(watch):
    seen = watch("KEd")
    call = f"RL.MTAKE 3 a b c 2 {DAY} 1 {DAY} 3 {DAY}"
    assert seen(call) == of("a", "rl.take") + of("b", "rl.take") + of("c", "rl.take")
    assert seen(call) == of("b", "rl.refuse")
    assert seen(f"RL.TAKE a 2 {DAY}") == of("a", "rl.take")
    assert seen(call) == of("a", "rl.refuse") + of("b", "rl.refuse")


def test_in_a_script_and_a_transaction_and_another_database(watch, raw):
    seen = watch("KEd")
    assert seen("MULTI", f"RL.TAKE k 1 {DAY}", f"RL.TAKE k 1 {DAY}", "EXEC") == (
        of("k", "rl.take") + of("k", "rl.refuse")
    )
    raw("EVAL", f"for _ = 1, 2 do redis.call('RL.TAKE', KEYS[1], '1', '{DAY}') end", "1", "s")
    assert seen() == of("s", "rl.take") + of("s", "rl.refuse")
    raw("SELECT", "3")
    assert seen(f"RL.TAKE k 1 {DAY}") == of("k", "rl.take", database=3)


@pytest.mark.parametrize("classes", ["", "KE$", "KEg", "KE$gxlshzet", "K", "d"])
def test_none_while_they_are_off(watch, classes):
    """Neither under a name of the server's own: a take is no `set`, a last give no `del`."""
    seen = watch(classes)
    calls = [f"RL.{call}" for call in (
        f"TAKE k 2 {DAY}", f"TAKE k 2 {DAY} COST 9", f"GIVE k 2 {DAY} COST 2", f"TAKE k 2 {DAY}"
    )]
    # Only an expiry that the module asks for by a command shows, on servers that leave it no other way.
    assert [event for event in seen(*calls) if "expire" not in "".join(event)] == []


def test_the_class_of_all_classes_has_them(watch):
    seen = watch("KEA")
    assert set(of("k", "rl.take")) <= set(seen(f"RL.TAKE k 3 {DAY}"))
    assert of("k", "rl.refuse") == seen(f"RL.TAKE k 3 {DAY} COST 9")


def test_half_of_them(watch):
    assert watch("Kd")(f"RL.TAKE a 3 {DAY}") == of("a", "rl.take")[:1]
    assert watch("Ed")(f"RL.TAKE b 3 {DAY}") == of("b", "rl.take")[1:]


def test_keys_of_any_bytes(watch, raw, server):
    """The message holds the key whole."""
    watch("Ed")
    key = b"\x00\r\n\xff {}"
    with server.raw() as subscriber:
        subscriber("SUBSCRIBE", "__keyevent@0__:rl.take")
        raw("RL.TAKE", key, "3", DAY)
        assert subscriber.read() == [b"message", b"__keyevent@0__:rl.take", key]
