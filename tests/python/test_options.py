"""COST, ATMOST, FORCE, DETAIL: what they do, in any order, in any case; and the forms of a limit."""

import itertools

import pytest

from harness import KINDS, Limiter

DAY_MS = 86_400_000


def test_cost_defaults_to_1(rl, clock):
    assert rl.take("a", "10 10") == rl.take("b", "10 10 COST 1") == (1, 9, 0, 1000, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_cost_0_answers_like_peek_and_changes_nothing(rl, clock, client, kind):
    limit = f"{kind} 10 10"
    for prepare in ("", "COST 4", "COST 6", "COST 5 FORCE"):
        if prepare:
            rl.take("k", limit, prepare)
        clock.advance(ms=1)
        before = client.dump("k")
        for option in ("COST 0", "ATMOST 0"):
            assert rl.take("k", limit, option) == rl.peek("k", limit, option)
            assert rl.take("k", limit, option, "FORCE") == rl.peek("k", limit, option)
        assert client.dump("k") == before
    assert rl.take("new", limit, "COST 0") == (1, 10, 0, 0, 10)
    assert not client.exists("new")


@pytest.mark.parametrize("kind", KINDS)
def test_cost_0_on_a_full_and_on_an_indebted_limit(rl, clock, kind):
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 10")
    assert rl.take("k", limit, "COST 0").allowed == 1
    rl.take("k", limit, "FORCE")
    owed = rl.take("k", limit, "COST 0")
    assert owed.allowed == 0 and owed.wait_ms > 0
    clock.advance(ms=owed.wait_ms - 1)
    assert rl.take("k", limit, "COST 0").allowed == 0
    clock.advance(ms=1)
    assert rl.take("k", limit, "COST 0").allowed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_atmost_takes_what_is_there(rl, clock, kind):
    limit = f"{kind} 10 10"
    assert rl.take("k", limit, "ATMOST 7")[:2] == (7, 3)
    assert rl.take("k", limit, "ATMOST 7")[:2] == (3, 0)
    none = rl.take("k", limit, "ATMOST 7")
    assert none[:2] == (0, 0)
    assert none == rl.peek("k", limit, "COST 1"), "the wait is the wait for one unit"


@pytest.mark.parametrize("kind", KINDS)
def test_atmost_more_than_the_capacity_is_not_never(rl, clock, kind):
    limit = f"{kind} 10 10"
    assert rl.take("k", limit, f"ATMOST {10**12}")[:2] == (10, 0)
    assert rl.take("k", limit, f"ATMOST {10**12}").wait_ms > 0


@pytest.mark.parametrize("kind", KINDS)
def test_force_charges_where_the_limit_says_no(rl, clock, kind):
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 10")
    forced = rl.take("k", limit, "COST 3 FORCE")
    assert forced[:2] == (1, 0)
    rl.give("k", limit, "COST 3")
    assert rl.take("k", limit).allowed == 0, "still full after the three are back"
    rl.give("k", limit)
    assert rl.take("k", limit).allowed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_force_beyond_the_capacity_in_one_call(rl, clock, kind):
    limit = f"{kind} 10 10"
    assert rl.take("k", limit, "COST 11")[:3] == (0, 10, -1)
    assert rl.take("k", limit, "COST 11 FORCE")[:2] == (1, 0)
    assert rl.take("k", limit).allowed == 0
    assert rl.give("k", limit, "COST 11").remaining == 10


@pytest.mark.parametrize("kind", KINDS)
def test_force_where_the_limit_says_yes_is_an_ordinary_take(rl, clock, client, kind):
    assert rl.take("a", kind, "10 10 COST 4") == rl.take("b", kind, "10 10 COST 4 FORCE")
    assert client.dump("a") == client.dump("b")


@pytest.mark.parametrize("kind", KINDS)
def test_atmost_with_force_charges_all(rl, clock, kind):
    limit = f"{kind} 10 10"
    assert rl.take("k", limit, "ATMOST 14 FORCE")[:2] == (14, 0)
    assert rl.give("k", limit, "COST 5").remaining == 1


def test_options_come_in_any_order(rl, clock):
    for n, options in enumerate(itertools.permutations(["COST 3", "FORCE", "DETAIL"])):
        reply = rl.call("RL.TAKE", f"k{n}", "10", "10", *" ".join(options).split())
        assert reply == [1, 7, 0, 3000, 10, [[7, 0, 3000, 10]]]
    for n, options in enumerate(itertools.permutations(["ATMOST 3", "FORCE", "DETAIL"])):
        reply = rl.call("RL.TAKE", f"l{n}", "10", "10", *" ".join(options).split())
        assert reply == [3, 7, 0, 3000, 10, [[7, 0, 3000, 10]]]


def test_keywords_are_case_insensitive(rl, clock):
    assert rl.call("rl.take", "a", "gcra", "10", "10", "burst", "20", "cost", "3", "detail") == [
        1, 17, 0, 3000, 20, [[17, 0, 3000, 20]],
    ]  # fmt: skip
    assert rl.call("Rl.Take", "a", "Gcra", "10", "10", "Burst", "20", "AtMost", "30", "fOrCe") == [
        30, 0, 0, 33_000, 20,
    ]  # fmt: skip
    for kind in KINDS:
        assert rl.take(kind, kind.lower(), "10 10") == rl.peek(kind, kind, "10 10")._replace(
            wait_ms=0
        )


@pytest.mark.parametrize(
    "period, ms",
    [
        ("60", 60_000),
        ("60s", 60_000),
        ("0.5", 500),
        ("500ms", 500),
        ("500000us", 500),
        ("1m", 60_000),
        ("1h", 3_600_000),
        ("1d", DAY_MS),
        ("1.5h", 5_400_000),
        ("0.001", 1),
        ("1ms", 1),
        ("1000us", 1),
        ("1.5ms", 2),
        ("0.000001d", 87),  # 86.4 ms
        ("3650d", 3650 * DAY_MS),
        ("315360000", 3650 * DAY_MS),
        ("87600h", 3650 * DAY_MS),
        ("315360000000000us", 3650 * DAY_MS),
    ],
)
def test_periods(rl, clock, period, ms):
    """A decimal number and us, ms, s, m, h or d; seconds without. The reset of a full bucket shows it."""
    assert rl.take("k", "5", period, "COST 5") == (1, 0, 0, ms, 5)


def test_the_same_period_in_another_unit_is_the_same_limit(rl, clock, client):
    rl.take("k", "FIXEDWINDOW 10 60 COST 4")
    before = client.dump("k")
    for period in ("60s", "1m", "60000ms", "60000000us", "60.0"):
        assert rl.peek("k", "FIXEDWINDOW 10", period).remaining == 6
        assert rl.take("k", "FIXEDWINDOW 10", period, "COST 7").allowed == 0
    assert client.dump("k") == before


def test_burst_defaults_to_count(rl, clock):
    assert rl.peek("k", "10 60").limit == 10
    assert rl.peek("k", "10 60 BURST 3").limit == 3
    assert rl.peek("k", "10 60 BURST 30").limit == 30


def test_tokenbucket_may_be_left_out(rl, clock, client):
    rl.take("a", "100 60 BURST 20")
    rl.take("b", "TOKENBUCKET 100 60 BURST 20")
    rl.take("c", "GCRA 100 60 BURST 20")
    assert client.dump("a") == client.dump("b") == client.dump("c")


def test_a_key_may_be_any_bytes(rl, clock, client):
    for key in (b"", b"\xff\xfe", b"a\x00b", b" ", b"COST", b"10", b"k" * 10_000, "ключ".encode()):
        assert rl.take(key, "10 10") == (1, 9, 0, 1000, 10)
        assert rl.peek(key, "10 10").remaining == 9
        assert client.exists(key)


def test_detail_is_one_row_a_limit(rl, clock):
    five, detail = rl.detailed("RL.TAKE", "k", "10 10 FIXEDWINDOW 100 60")
    assert five == (1, 9, 0, 1000, 10)
    assert detail == [(9, 0, 1000, 10), (99, 0, 60_000, 100)]
    for verb in ("RL.PEEK", "RL.GIVE"):
        five, detail = rl.detailed(verb, "k", "10 10 FIXEDWINDOW 100 60")
        assert len(five) == 5 and len(detail) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_detail_of_one_limit_repeats_the_five(rl, clock, kind):
    for option in ("COST 4", "COST 6", "COST 1", "COST 11", "ATMOST 3", "COST 2 FORCE", "COST 0"):
        for verb in ("RL.PEEK", "RL.TAKE", "RL.GIVE"):
            if verb == "RL.TAKE" or "FORCE" not in option and (
                verb == "RL.PEEK" or "ATMOST" not in option
            ):
                five, [detail] = rl.detailed(verb, "k", f"{kind} 10 10", option)
                assert detail == five[1:]


@pytest.mark.parametrize("protocol", [2, 3])
def test_always_five_integers_in_every_protocol(server, clock, raw, protocol):
    """On the wire: an array of five integers, no doubles, no maps, no booleans."""
    if protocol == 3:
        raw("HELLO", "3")
    rl = Limiter(server.client(protocol=protocol))
    for kind in KINDS:
        for verb in ("RL.TAKE", "RL.PEEK", "RL.GIVE"):
            raw.socket.sendall(b"%s k %s 10 10\r\n" % (verb.encode(), kind.encode()))
            assert raw.reader.readline() == b"*5\r\n"
            for _ in range(5):
                assert raw.reader.readline()[:1] == b":"
        assert rl.take("k", kind, "10 10 COST 10000").wait_ms == -1
    raw.socket.sendall(b"RL.TAKE k 10 10 5 60 DETAIL\r\n")
    assert raw.reader.readline() == b"*6\r\n"
    for _ in range(5):
        assert raw.reader.readline()[:1] == b":"
    assert raw.reader.readline() == b"*2\r\n"
    for _ in range(2):
        assert raw.reader.readline() == b"*4\r\n"
        for _ in range(4):
            assert raw.reader.readline()[:1] == b":"
    for command in (b"RL.MTAKE 1 m 10 10\r\n", b"RL.THROTTLE t 5 10 10\r\n"):
        raw.socket.sendall(command)
        assert raw.reader.readline() == b"*5\r\n"
        for _ in range(5):
            assert raw.reader.readline()[:1] == b":"


def test_two_takes_at_one_instant_are_one_take_of_both(rl, clock, client):
    for kind in KINDS:
        limit = f"{kind} 10 10"
        rl.take("a", limit, "COST 2")
        rl.take("a", limit, "COST 3")
        rl.take("b", limit, "COST 5")
        assert rl.peek("a", limit) == rl.peek("b", limit)
        client.delete("a", "b")
