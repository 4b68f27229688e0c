"""State crosses to replicas, AOF and RDB as state, in commands that any server knows."""

import pytest

from harness import KINDS, everything, wait_until

AOF = ("--appendonly", "yes", "--appendfsync", "always")


def mixed_traffic(rl, rng, calls, keys=4, clock=None):
    """Takes, gives, forced takes, refusals and peeks of all six limits, alone and together."""
    for _ in range(calls):
        kind = rng.choice(KINDS)
        key = f"{kind}:{rng.randrange(keys)}"
        limit = f"{kind} 10 1000"
        option = rng.choice(["", "COST 3", "COST 11", "ATMOST 4", "COST 2 FORCE", "COST 0"])
        call = rng.randrange(10)
        if call < 6:
            rl.take(key, limit, option)
        elif call == 6:
            rl.give(key, limit, rng.choice(["", "COST 4", "COST 100"]))
        elif call == 7:
            rl.peek(key, limit)
        elif call == 8:
            rl.mtake([key, "all"], limit, "50 1000")
        else:
            rl.take("several", "10 1000 FIXEDWINDOW 20 1000 SLIDINGLOG 30 1000")
            rl.throttle("cell", "15 30 1000")
        if clock and rng.random() < 0.5:
            clock.advance(us=rng.randrange(30_000_000))


def same_expiries(primary, replica, client, copy):
    if primary.knows("PEXPIRETIME"):
        for key in client.scan_iter(count=1000):
            want, got = (c.execute_command("PEXPIRETIME", key) for c in (client, copy))
            assert got == want, key


def test_a_replica_without_the_module_is_byte_equal(pair, clock, rng):
    primary, replica = pair
    client, copy = primary.client(), replica.client()
    mixed_traffic(primary.limiter(), rng, 1500, clock=clock)
    replica.caught_up_with(primary)
    everything_there = everything(client)
    assert len(everything_there) > 10
    assert everything(copy) == everything_there
    same_expiries(primary, replica, client, copy)


def test_a_replica_attached_in_the_middle(new_server, rng):
    primary, replica = new_server(), new_server()
    rl, client = primary.limiter(), primary.client()
    mixed_traffic(rl, rng, 300)
    with replica.raw() as raw:
        raw("REPLICAOF", "127.0.0.1", str(primary.port))
    mixed_traffic(rl, rng, 300)
    wait_until(lambda: replica.info("replication", "master_link_status") == "up")
    mixed_traffic(rl, rng, 100)
    replica.caught_up_with(primary)
    copy = replica.client()
    keys = list(client.scan_iter(count=1000))
    assert [copy.dump(key) for key in keys] == [client.dump(key) for key in keys]
    same_expiries(primary, replica, client, copy)


def test_after_a_failover_remaining_is_what_it_was(new_server, clock):
    primary, replica = new_server(), new_server()
    replica.replica_of(primary)
    before = primary.limiter()
    for kind in KINDS:
        before.take(kind, kind, "10 10 COST 7")
    replica.caught_up_with(primary)
    primary.kill()
    with replica.raw() as raw:
        raw("REPLICAOF", "NO", "ONE")
    after = replica.limiter()
    assert [after.peek(kind, kind, "10 10").remaining for kind in KINDS] == [3] * 6
    clock.advance(seconds=2)
    assert [after.peek(kind, kind, "10 10").remaining for kind in KINDS] == [5, 5, 5, 3, 3, 3]
    for kind in KINDS:
        assert after.take(kind, kind, "10 10 COST 6").allowed == 0
        assert after.take(kind, kind, "10 10 COST 3").allowed == 1


def test_what_crosses_is_set_with_an_absolute_time(new_server, rng):
    """The AOF tells what the link carries: no command of ours, no relative time."""
    server = new_server(*AOF)
    mixed_traffic(server.limiter(), rng, 400)
    text = b"".join(path.read_bytes() for path in server.directory.rglob("*aof*") if path.is_file())
    upper = text.upper()
    assert b"\r\nSET\r\n" in upper and b"\r\nPXAT\r\n" in upper
    for word in (b"RL.TAKE", b"RL.GIVE", b"RL.MTAKE", b"THROTTLE", b"PEXPIRE\r\n", b"\r\nPX\r\n"):
        assert word not in upper


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("rewrite", [False, True])
def test_restart_from_an_aof(new_server, clock, preamble, rewrite):
    server = new_server(*AOF, "--aof-use-rdb-preamble", preamble)
    rl = server.limiter()
    for kind in KINDS:
        rl.take(kind, kind, "10 10 COST 7")
    rl.take("several", "10 10 FIXEDWINDOW 20 10 COST 7")
    if rewrite:
        with server.raw() as raw:
            wait_until(lambda: server.info("persistence", "aof_rewrite_in_progress") == "0")
            raw("BGREWRITEAOF")
            wait_until(lambda: server.info("persistence", "aof_rewrite_in_progress") == "0"
                       and server.info("persistence", "aof_rewrite_scheduled") == "0")  # fmt: skip
        rl.take("after", "10 10")
    before = everything(server.client())
    server.kill()
    server.start()
    rl = server.limiter()
    assert everything(server.client()) == before
    assert [rl.peek(kind, kind, "10 10").remaining for kind in KINDS] == [3] * 6
    clock.advance(seconds=2)
    assert [rl.peek(kind, kind, "10 10").remaining for kind in KINDS] == [5, 5, 5, 3, 3, 3]
    server.kill()
    clock.advance(seconds=1)
    server.start()
    rl = server.limiter()
    assert [rl.peek(kind, kind, "10 10").remaining for kind in KINDS] == [6, 6, 6, 3, 3, 3]


def test_restart_from_an_rdb(new_server, clock):
    server = new_server()
    rl = server.limiter()
    for kind in KINDS:
        rl.take(kind, kind, "10 10 COST 7")
    before = everything(server.client())
    server.client().save()
    server.kill()
    server.start()
    rl = server.limiter()
    assert everything(server.client()) == before
    clock.advance(seconds=2)
    assert [rl.peek(kind, kind, "10 10").remaining for kind in KINDS] == [5, 5, 5, 3, 3, 3]


def test_a_server_without_the_module_serves_the_data(new_server, clock):
    """From an RDB and from an AOF; the module comes back and finds its state."""
    for options in ((), AOF):
        server = new_server(*options)
        rl, client = server.limiter(), server.client()
        client.set("other", "hello")
        for kind in KINDS:
            rl.take(kind, kind, "10 10 COST 7")
        before = everything(client)
        if not options:
            client.save()
        server.kill()
        module, server.module = server.module, None
        server.start()
        client = server.client()
        assert client.get("other") == b"hello"
        assert everything(client) == before
        if not options:
            client.save()
        server.kill()
        server.module = module
        server.start()
        rl = server.limiter()
        assert [rl.peek(kind, kind, "10 10").remaining for kind in KINDS] == [3] * 6


def test_debug_reload(server, rl, client, clock, rng):
    mixed_traffic(rl, rng, 300, clock=clock)
    before = everything(client)
    client.execute_command("DEBUG", "RELOAD")
    assert everything(client) == before


def test_save_points_fire_on_takes(new_server):
    """`save 1 3`: three takes are three changes."""
    server = new_server()
    server.client().config_set("save", "1 3")
    rl = server.limiter()
    file = server.directory / "dump.rdb"
    before = file.stat().st_mtime_ns if file.exists() else 0
    for _ in range(3):
        rl.take("k", "10 86400")
    assert server.dirty >= 3
    server.clock.advance(seconds=5)
    wait_until(lambda: file.exists() and file.stat().st_mtime_ns > before)


def test_a_give_that_leaves_nothing_deletes_on_the_replica(pair):
    primary, replica = pair
    rl, copy = primary.limiter(), replica.client()
    for kind in KINDS:
        rl.take(kind, kind, "10 86400 COST 4")
        rl.give(kind, kind, "10 86400 COST 4")
    replica.caught_up_with(primary)
    assert copy.dbsize() == 0


def test_a_log_costs_the_link_the_same_however_long_it_is(pair, clock):
    primary, replica = pair
    rl = primary.limiter()

    def bytes_of_100_takes():
        before = primary.offset
        for _ in range(100):
            assert rl.take("k", "SLIDINGLOG 100000 1000").allowed == 1
            clock.advance(us=10)
        return primary.offset - before

    short = bytes_of_100_takes()
    client = primary.client()
    for _ in range(5):
        pipe = client.pipeline(transaction=False)
        for _ in range(1000):
            pipe.execute_command("RL.TAKE", "k", "SLIDINGLOG", 100_000, 1000)
        pipe.execute()
        clock.advance(us=10)
    long = bytes_of_100_takes()
    assert long <= 2 * short + 100_000, "one compaction may fall in between"
    replica.caught_up_with(primary)
    assert replica.client().dump("k") == client.dump("k")


def test_a_step_back_reaches_the_replica(pair, clock):
    """The one refusal that writes is written everywhere."""
    primary, replica = pair
    rl, client, copy = primary.limiter(), primary.client(), replica.client()
    clock.set(3600)
    for kind in KINDS:
        rl.take(kind, kind, "10 10 COST 10")
    clock.set(0)
    for kind in KINDS:
        assert rl.take(kind, kind, "10 10").allowed == 0
    replica.caught_up_with(primary)
    assert everything(copy) == everything(client)
