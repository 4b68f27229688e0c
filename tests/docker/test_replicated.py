"""A primary, its replica and three Sentinels: the primary dies."""

import redis
from deployment import SENTINELS, peek, replicated, take, wait_until
from redis.sentinel import Sentinel

LIMIT = ("100", "365d", "BURST", "20")


def test_the_primary_is_killed(replicated_pair):
    deployment = replicated_pair
    sentinel = Sentinel(
        [(deployment.address(name), 26379) for name in SENTINELS],
        socket_timeout=5,
        decode_responses=True,
    )
    # Knows no server, only the Sentinels: whom it talks to is for them to say.
    client = sentinel.master_for("rl", socket_timeout=5)
    assert sentinel.discover_master("rl") == (deployment.address("primary"), 6379)

    assert take(client, "k", *LIMIT, "COST", "7").remaining == 13
    assert take(client, "spent", "FIXEDWINDOW", "5", "3650d", "COST", "5").allowed == 1
    replicated(client)

    deployment.kill("primary")

    # The same client goes on, on the other server, once there is one.
    remaining = wait_until(lambda: take_or_none(client, "k", *LIMIT)).remaining
    assert sentinel.discover_master("rl") == (deployment.address("replica"), 6379)
    assert remaining == 12
    assert take(client, "spent", "FIXEDWINDOW", "5", "3650d").allowed == 0

    # The one that was killed comes back as a replica, and catches up.
    deployment.start("primary")
    old = deployment.client("primary")
    wait_until(lambda: old.info("replication").get("master_link_status") == "up")
    replicated(client)
    assert peek(old, "k", *LIMIT).remaining == 12

    # It stays one when it is started again: Sentinel has had it written down.
    deployment.restart("primary")
    wait_until(old.ping)
    assert old.info("replication")["role"] == "slave"
    assert sentinel.discover_master("rl") == (deployment.address("replica"), 6379)


def take_or_none(client, *words):
    """None while there is no primary."""
    try:
        return take(client, *words)
    except (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError):
        return None
