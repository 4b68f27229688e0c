"""The image by itself, and one server of it: started, killed, crashed, out of memory."""

import json
import os
import time

import pytest
from deployment import docker, on_disk, peek, take, wait_until

LIMIT = ("100", "365d", "BURST", "20")


@pytest.fixture
def client(standalone):
    with standalone.client("standalone") as client:
        wait_until(client.ping)
        client.flushall()
        yield client


def test_the_image_is_its_base_and_the_module(image):
    def size(name):
        return json.loads(docker("image", "inspect", name))[0]["Size"]

    assert size(image) - size(os.environ["RL_BASE"]) < 2_000_000
    assert docker("run", "--rm", image, "id", "-u") != "0"
    assert docker("run", "--rm", image, "redis-cli", "--version")
    assert "MIT" in docker("run", "--rm", image, "cat", "/usr/local/share/doc/redis-rl/LICENSE-MIT")


def test_options_after_the_name_of_the_image_win(image):
    name = f"{os.environ['RL_RUN']}-options"
    docker("run", "-d", "--rm", "--name", name, image, "--maxmemory", "7mb", "--appendonly", "no")
    try:

        def ask(*words):
            return docker("exec", name, "redis-cli", *words)

        wait_until(lambda: ask("PING") == "PONG")
        assert ask("CONFIG", "GET", "maxmemory").split() == ["maxmemory", str(7 << 20)]
        assert ask("CONFIG", "GET", "appendonly").split() == ["appendonly", "no"]
        assert ask("RL.TAKE", "k", *LIMIT).split()[:2] == ["1", "19"]
    finally:
        docker("kill", name)


def test_a_server_with_a_password_is_healthy(image):
    name = f"{os.environ['RL_RUN']}-password"
    docker("run", "-d", "--rm", "--name", name, image, "--requirepass", "secret")
    try:
        state = "{{.State.Health.Status}}"
        wait_until(lambda: docker("inspect", "--format", state, name) == "healthy")
        ask = ["exec", "-e", "REDISCLI_AUTH=secret", name, "redis-cli"]
        assert docker(*ask, "RL.TAKE", "k", *LIMIT).split()[:2] == ["1", "19"]
    finally:
        docker("kill", name)


def test_it_becomes_healthy(standalone, client):
    wait_until(lambda: standalone.healthy("standalone"))


def test_killed_and_started_again(standalone, client):
    assert take(client, "k", *LIMIT, "COST", "7").remaining == 13
    expiry = client.execute_command("PEXPIRETIME", "k")
    on_disk(client)

    standalone.kill("standalone")
    assert standalone.state("standalone")["ExitCode"] == 137
    standalone.start("standalone")

    wait_until(client.ping)
    assert peek(client, "k", *LIMIT).remaining == 13
    assert client.execute_command("PEXPIRETIME", "k") == expiry
    assert take(client, "k", *LIMIT, "COST", "14").allowed == 0
    assert take(client, "k", *LIMIT, "COST", "13").allowed == 1


def test_a_server_that_ends_is_started_again(standalone, client):
    """By the restart policy, with nobody looking."""
    assert take(client, "k", *LIMIT, "COST", "20").remaining == 0
    on_disk(client)
    before = client.info("server")["run_id"]

    client.shutdown(nosave=True)

    wait_until(lambda: client.info("server")["run_id"] != before)
    assert take(client, "k", *LIMIT).allowed == 0


def test_a_flood_of_short_limits_does_not_push_out_a_long_quota(standalone, client):
    quota = ("FIXEDWINDOW", "1000", "3650d")
    take(client, "quota", *quota, "COST", "400")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + (1 << 20))

    deadline = time.monotonic() + 60
    flood = 0
    while client.info("stats")["evicted_keys"] < 5000:
        assert time.monotonic() < deadline, "too little was evicted"
        pipeline = client.pipeline(transaction=False)
        for flood in range(flood + 1, flood + 1001):
            pipeline.execute_command("RL.TAKE", f"flood:{flood}", "10", "60")
        # Memory is made free for new keys: none of them is told OOM.
        assert all(reply[0] == 1 for reply in pipeline.execute())

    assert peek(client, "quota", *quota).remaining == 600
    client.config_set("maxmemory", "256mb")
