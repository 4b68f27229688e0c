"""What users of other limiters reported, with the right values."""

import re
import threading
from time import monotonic

import pytest

from harness import KINDS, Error, encode

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def test_a_take_above_the_capacity_is_never_and_uncharged(rl, clock):
    """Capacity 5, 1 per hour: take 10, then five takes of 1."""
    limit = "1 1h BURST 5"
    assert rl.take("k", limit, "COST 10")[:3] == (0, 5, -1)
    for remaining in (4, 3, 2, 1, 0):
        assert rl.take("k", limit)[:3] == (1, remaining, 0)
    assert rl.take("k", limit)[:3] == (0, 0, 3_600_000)


def test_the_first_reply_of_redis_cells_readme(client, clock):
    assert client.execute_command("CL.THROTTLE", "k", 15, 30, 60) == [0, 16, 15, -1, 2]


@pytest.mark.parametrize("kind", ["TOKENBUCKET", "GCRA", "LEAKYBUCKET"])
def test_3_per_second_without_burst_is_a_limit(rl, clock, kind):
    limit = f"{kind} 3 1 BURST 1"
    assert rl.take("k", limit)[:3] == (1, 0, 0)
    assert rl.take("k", limit)[:3] == (0, 0, 334)
    admitted = 0
    for _ in range(1000):  # asked each 10 ms for 10 s
        clock.advance(ms=10)
        admitted += rl.take("k", limit).allowed
    assert admitted == 29, "one each 340 ms"


@pytest.mark.parametrize("kind", ["TOKENBUCKET", "GCRA", "LEAKYBUCKET"])
def test_drained_and_idle_for_2_1_seconds(rl, clock, kind):
    limit = f"{kind} 1 1 BURST 100"
    assert rl.take("k", limit, "COST 100").allowed == 1
    clock.set("2.1")
    assert [rl.take("k", limit).allowed for _ in range(5)] == [1, 1, 0, 0, 0]


def test_8000_per_second_by_the_microsecond(server, clock):
    """Asked by several connections each 50 microseconds for a second: 2 + 8000, exactly."""
    clients = [server.raw() for _ in range(3)]
    admitted = 0
    for step in range(20_001):
        reply = clients[step % 3]("CL.THROTTLE", "user123", "1", "8000", "1", "1")
        admitted += reply[0] == 0
        clock.advance(us=50)
    # The bucket of two is never empty, so it forgets nothing. The last unit is due at the last call, at
    # 1 s sharp: a millionth of a unit per admitted call may hold back that one.
    assert 2 + 8000 - 1 <= admitted <= 2 + 8000


def test_8000_per_second_in_real_time(server, wall_clock):
    """A loop for two seconds from several connections: no error ever, 2 + 8000 per second within 1 %."""
    wall_clock.real()
    time = encode(["TIME"])
    calls = (time + encode(["CL.THROTTLE", "user123", "1", "8000", "1", "1"])) * 200 + time
    replies = []

    def loop(raw):
        deadline = monotonic() + 2
        for reply in raw.flood(calls):
            replies.append(reply)
            if monotonic() > deadline:
                break

    connections = [server.raw() for _ in range(3)]
    threads = [threading.Thread(target=loop, args=(raw,)) for raw in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for raw in connections:
        raw.close()
    together = b"".join(replies)
    assert b"\r\n-" not in together, "an error"
    admitted = together.count(b"*5\r\n:0\r\n")
    times = re.findall(rb"\*2\r\n\$10\r\n(\d+)\r\n\$\d\r\n(\d+)\r\n", together)
    times = sorted(int(seconds) * 1_000_000 + int(micros) for seconds, micros in times)
    span = times[-1] - times[0]
    # Where the machine kept the server from answering for more than the 125 us of a unit, the bucket
    # may have stood empty for the rest of that time: what nobody asked for then isn't admitted.
    idle = sum(max(0, later - before - 125) for before, later in zip(times, times[1:]))
    assert admitted <= 2 + 8000 * span / 1e6 + 1
    assert admitted >= 0.99 * (2 + 8000 * (span - idle) / 1e6)


@pytest.mark.parametrize(
    "fill",
    [
        ("SET", "mykey", "hello"),
        ("SET", "mykey", ""),
        ("RPUSH", "mykey", "hello"),
        ("HSET", "mykey", "field", "hello"),
    ],
)
def test_any_command_on_a_key_that_holds_something_else(client, raw, fill):
    raw(*fill)
    before = client.dump("mykey")
    for call in (
        "RL.TAKE mykey 10 60",
        "RL.PEEK mykey 10 60",
        "RL.GIVE mykey 10 60",
        "RL.MTAKE 1 mykey 10 60",
        "RL.THROTTLE mykey 15 30 60",
        "CL.THROTTLE mykey 15 30 60",
        *(f"RL.TAKE mykey {kind} 10 60" for kind in KINDS),
    ):
        assert raw(*call.split()) == WRONGTYPE
    assert client.dump("mykey") == before
    if fill[:3] == ("SET", "mykey", "hello"):
        assert client.get("mykey") == b"hello"
    assert raw("PING") == b"PONG"


@pytest.mark.parametrize("kind", KINDS)
def test_a_raised_limit_helps_at_once(rl, clock, kind):
    """10 per hour used up and 40 more refused, raised to 20: exactly 10 more."""
    for n in range(50):
        assert rl.take("k", kind, "10 1h").allowed == (n < 10)
    assert [rl.take("k", kind, "20 1h").allowed for _ in range(15)] == [1] * 10 + [0] * 5


def test_keys_that_are_no_utf8(rl, clock):
    assert rl.take(b"\xff\xfe\x00", "10 60").allowed == 1


def test_a_count_of_zero_is_no_crash(raw):
    assert isinstance(raw("CL.THROTTLE", "k", "15", "0", "60"), Error)
    assert raw("RL.TAKE", "k", "0", "60") == [0, 0, -1, 0, 0]
    assert raw("PING") == b"PONG"


def test_6000_per_second_with_a_burst_of_6001(rl, clock):
    """Remaining never above the limit; all of the burst and no more."""
    assert rl.throttle("a", "6000 6000 1") == (0, 6001, 6000, -1, 1)
    assert sum(1 - rl.throttle("a", "6000 6000 1 100").limited for _ in range(70)) == 60


@pytest.mark.parametrize("call", ["5 600000 1", "10 2000000 1", "0 2000 1"])
def test_rates_above_one_a_microsecond_or_so(rl, clock, call):
    capacity = int(call.split()[0]) + 1
    assert rl.throttle("k", call).remaining == capacity - 1
    assert rl.throttle("k", f"{call} {capacity}").limited == 1
    clock.advance(us=500)
    assert rl.throttle("k", f"{call} {capacity}")[:3] == (0, capacity, 0)


def test_waiting_as_told_is_enough(rl, clock):
    """No 429 again after Retry-After, however odd the rate."""
    for limit in ("7 1", "13 11 BURST 1", "1000000 7", "3 10 BURST 2"):
        rl.take("k", limit, f"ATMOST {10**6}")
        for _ in range(20):
            wait = rl.take("k", limit).wait_ms
            clock.advance(ms=wait)
            assert rl.take("k", limit).allowed == 1, limit


def test_fractions_of_a_unit_are_kept(rl, clock):
    """30 a minute, drained, then asked each 1.99 s for ten minutes: 0.995 of a unit each time."""
    rl.take("k", "30 60 COST 30")
    admitted = 0
    for _ in range(301):
        clock.advance(ms=1990)
        admitted += rl.take("k", "30 60").allowed
    assert admitted == 299


def test_restart_does_not_replay_takes(new_server, clock):
    """An AOF that was replayed by its own clock would charge an old hour's takes anew."""
    server = new_server("--appendonly", "yes", "--appendfsync", "always")
    rl = server.limiter()
    for _ in range(10):
        rl.take("k", "10 10")
        clock.advance(seconds=1)
    used = 10 - rl.peek("k", "10 10").remaining
    server.kill()
    server.start()
    assert 10 - server.limiter().peek("k", "10 10").remaining == used <= 1
