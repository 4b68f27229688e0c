"""What operators and clients use around the commands: both protocols, MONITOR, SLOWLOG, command
statistics, client-side caching, CLIENT PAUSE, NO-EVICT and NO-TOUCH, I/O threads.
"""

import threading

import pytest

from harness import KINDS, Error, Raw

LIMIT = ["3", "86400"]


def test_both_protocols_say_the_same(server, clock):
    """Byte for byte, through scripts and transactions too."""
    calls = [["RL.PEEK", "k", *LIMIT]]
    for kind in KINDS:
        calls += [
            ["RL.TAKE", kind, kind, *LIMIT],
            ["RL.TAKE", kind, kind, *LIMIT, "ATMOST", "7"],
            ["RL.TAKE", kind, kind, *LIMIT, "DETAIL"],
            ["RL.TAKE", kind, kind, *LIMIT, "COST", "9"],
            ["RL.PEEK", kind, kind, *LIMIT, *LIMIT, "DETAIL"],
            ["RL.GIVE", kind, kind, *LIMIT],
            ["RL.TAKE", kind, kind, "3", "0"],
        ]
    calls += [
        ["RL.MTAKE", "2", "m", "n", *LIMIT * 2, "DETAIL"],
        ["RL.THROTTLE", "t", "2", *LIMIT],
        ["EVAL", "return redis.call('RL.TAKE', KEYS[1], '3', '86400', 'DETAIL')", "1", "s"],
        ["MULTI"],
        ["RL.TAKE", "e", *LIMIT],
        ["RL.GIVE", "e", *LIMIT, "DETAIL"],
        ["EXEC"],
    ]
    heard = {}
    for protocol in (2, 3):
        with server.raw() as raw:
            raw("FLUSHALL")
            if protocol == 3:
                raw("HELLO", "3")
            heard[protocol] = [raw(*call) for call in calls]
    assert heard[2] == heard[3]

    def integers(reply):
        return all(integers(r) if isinstance(r, list) else type(r) is int for r in reply)

    assert all(integers(reply) for reply in heard[2] if isinstance(reply, list))


def test_a_script_that_asks_for_resp3(raw):
    script = "redis.setresp(3); return redis.call('RL.TAKE', KEYS[1], '3', '86400')"
    assert raw("EVAL", script, "1", "k")[:2] == [1, 2]


def test_monitor_shows_each_call_once(server, raw):
    """As it was sent; what the module writes of it for replicas is no call."""
    with server.raw() as monitor:
        assert monitor("MONITOR") == b"OK"
        calls = [["RL.PEEK", "k", *LIMIT]]
        calls += [["RL.TAKE", "k", *LIMIT]] * 5  # the last two are refused
        calls += [["RL.GIVE", "k", *LIMIT], ["RL.MTAKE", "2", "k", "l", *LIMIT * 2]]
        calls += [["CL.THROTTLE", "t", "2", *LIMIT]]
        for call in calls:
            raw(*call)
        raw("ECHO", "the end")
        shown = []
        while b"the end" not in (line := monitor.read()):
            shown.append(line.decode().split("] ", 1)[1])
    # A server that can't set an expiry for a module is asked to by a command (before 6.2.8).
    shown = [line for line in shown if not line.startswith('"PEXPIREAT"')]
    assert shown == [" ".join(f'"{word}"' for word in call) for call in calls]


def test_slowlog(server, raw):
    raw("CONFIG", "SET", "slowlog-log-slower-than", "0")
    raw("SLOWLOG", "RESET")
    for _ in range(4):  # the last one is refused
        raw("RL.TAKE", "k", *LIMIT)
    raw("RL.PEEK", "k", *LIMIT)
    raw("CONFIG", "SET", "slowlog-log-slower-than", "10000")
    entries = [entry[3] for entry in raw("SLOWLOG", "GET", "10")]
    assert entries.count([b"RL.TAKE", b"k", b"3", b"86400"]) == 4
    assert entries.count([b"RL.PEEK", b"k", b"3", b"86400"]) == 1


def test_command_statistics(server, raw):
    """A refusal is an answer and no failed call; an error is one."""
    raw("CONFIG", "RESETSTAT")
    for _ in range(5):
        raw("RL.TAKE", "k", *LIMIT)
    assert isinstance(raw("RL.TAKE", "k", "3", "0"), Error)

    def stats(line):
        lines = raw("INFO", "commandstats").decode().lower().splitlines()
        found = next(l for l in lines if l.startswith(line + ":"))
        return dict(field.split("=") for field in found.split(":", 1)[1].split(","))

    assert stats("cmdstat_rl.take")["calls"] == "6"
    assert stats("cmdstat_rl.take")["failed_calls"] == "1"
    if server.knows_subcommand("LATENCY", "HISTOGRAM"):
        name, histogram = raw("LATENCY", "HISTOGRAM", "rl.take")
        assert name.lower() == b"rl.take" and histogram[:2] == [b"calls", 6]


def test_a_cached_peek_is_invalidated_by_what_changes_it(server, raw):
    """CLIENT TRACKING: a take and a give tell the caching client, a refusal and a peek don't."""
    with server.raw() as cacher:
        cacher("HELLO", "3")
        assert cacher("CLIENT", "TRACKING", "ON") == b"OK"

        def told_of(*call):
            """What the caching client hears of a call between a peek and a PING of its own."""
            cacher("RL.PEEK", "k", *LIMIT)
            raw(*call)
            reply = cacher("PING")
            if reply == b"PONG":
                return None
            assert cacher.read() == b"PONG"
            return reply

        told = [b"invalidate", [b"k"]]
        assert told_of("RL.TAKE", "k", *LIMIT, "COST", "2") == told
        assert told_of("RL.TAKE", "k", *LIMIT, "COST", "2") is None
        assert told_of("RL.PEEK", "k", *LIMIT) is None
        assert told_of("RL.TAKE", "k", *LIMIT, "COST", "0") is None
        assert told_of("RL.GIVE", "k", *LIMIT) == told
        assert told_of("RL.TAKE", "k", *LIMIT, "COST", "9", "FORCE") == told
        assert told_of("RL.MTAKE", "2", "k", "l", *LIMIT * 2) is None
        assert told_of("RL.GIVE", "k", *LIMIT, "COST", "99") == told
        assert told_of("RL.MTAKE", "2", "k", "l", *LIMIT * 2) == told
        assert told_of("CL.THROTTLE", "k", "2", *LIMIT) == told
        assert told_of("CL.THROTTLE", "k", "2", *LIMIT, "0") is None


def test_broadcast_tracking(server, raw):
    with server.raw() as cacher:
        cacher("HELLO", "3")
        cacher("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "limit:")
        raw("RL.TAKE", "other", *LIMIT)
        raw("RL.TAKE", "limit:a", *LIMIT, "COST", "3")
        assert cacher.read() == [b"invalidate", [b"limit:a"]]
        raw("RL.TAKE", "limit:a", *LIMIT)
        raw("RL.TAKE", "limit:b", *LIMIT)
        assert cacher.read() == [b"invalidate", [b"limit:b"]]


def test_client_pause_holds_takes_and_not_peeks(server, raw):
    """As during a failover: what writes waits."""
    with server.raw() as other:
        assert raw("CLIENT", "PAUSE", "60000", "WRITE") == b"OK"
        # The PONG comes when the server has read the take as well.
        other.socket.sendall(b"PING\r\nRL.TAKE k 3 86400\r\n")
        assert other.read() == b"PONG"
        assert raw("RL.PEEK", "k", *LIMIT)[1] == 3
        assert raw("CLIENT", "UNPAUSE") == b"OK"
        assert other.read()[:2] == [1, 2]


def test_connections_with_settings_of_their_own(server, raw):
    """NO-EVICT, NO-TOUCH, a name, another database, REPLY OFF: the answers stay the same."""
    for setting in (["NO-EVICT", "ON"], ["NO-TOUCH", "ON"], ["SETNAME", "limits"]):
        if server.knows_subcommand("CLIENT", setting[0]):
            assert raw("CLIENT", *setting) == b"OK"
    assert raw("RL.TAKE", "k", *LIMIT)[:2] == [1, 2]
    raw("SELECT", "5")
    assert raw("RL.PEEK", "k", *LIMIT)[1] == 3, "another database, another key"
    assert raw("RL.TAKE", "k", *LIMIT)[:2] == [1, 2]
    unheard = b"RL.TAKE k 3 86400\r\nRL.TAKE k 3 86400 DETAIL\r\n"
    raw.socket.sendall(b"CLIENT REPLY OFF\r\n" + unheard + b"CLIENT REPLY ON\r\n")
    assert raw.read() == b"OK"
    assert raw("RL.PEEK", "k", *LIMIT)[1] == 0


def test_swapdb_and_move_take_the_state_along(raw):
    raw("RL.TAKE", "k", *LIMIT)
    raw("RL.TAKE", "m", *LIMIT, "COST", "2")
    assert raw("MOVE", "m", "1") == 1
    assert raw("SWAPDB", "0", "1") == b"OK"
    assert [raw("RL.PEEK", key, *LIMIT)[1] for key in ("k", "m")] == [3, 1]
    raw("SELECT", "1")
    assert [raw("RL.PEEK", key, *LIMIT)[1] for key in ("k", "m")] == [2, 3]


@pytest.fixture
def threaded(new_server):
    """A server that reads and writes its sockets in several threads."""
    return new_server("--io-threads", 3)


def test_io_threads_lose_no_unit(threaded):
    """Eight connections at once, pipelined, more takes than there are units."""
    capacity, takes = 4_000, 1_000
    limits = {kind: f"{kind} {capacity} 3650d" for kind in KINDS}
    admitted = dict.fromkeys(KINDS, 0)
    failures = []

    def work():
        try:
            with Raw(threaded.port) as raw:
                for kind, limit in limits.items():
                    for _ in range(takes // 100):
                        raw.socket.sendall(f"RL.TAKE {kind} {limit}\r\n".encode() * 100)
                        count = sum(raw.read()[0] for _ in range(100))
                        with lock:
                            admitted[kind] += count
        except Exception as failure:
            failures.append(failure)

    lock = threading.Lock()
    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert admitted == dict.fromkeys(KINDS, capacity)
    assert threaded.info("server", "process_id") == str(threaded.process.pid)
