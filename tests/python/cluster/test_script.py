"""scripts/cluster: a cluster for a person to play with."""

import os
import random
import re
import signal
import socket
import subprocess

import pytest
from redis.cluster import RedisCluster

from harness import ROOT, Limiter, Raw, wait_until


def free_base():
    """The first of six ports that are free, as are those 10000 above. Below those that the system
    hands out by itself, so that they stay free."""
    while True:
        base = random.randrange(10_000, 22_000)
        ports = [port + offset for port in range(base, base + 6) for offset in (0, 10_000)]
        try:
            for port in ports:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue


@pytest.fixture
def script(paths):
    if (ROOT / ".cluster").exists():
        pytest.skip("somebody plays with a cluster here")
    server, module, _ = paths

    def run(*args, fails=False):
        command = [ROOT / "scripts/cluster", *map(str, args)]
        environment = {**os.environ, "RL_MODULE": str(module), "NO_COLOR": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    run.server = server
    yield run
    run("stop")


def rows(text):
    """{port: (process id, role)} of the table of nodes."""
    found = re.findall(r"^ +(\d+) +(\d+|-) +(\S+)", text, re.M)
    return {int(port): (int(pid.replace("-", "0")), role) for port, pid, role in found}


def test_start_play_stop(script):
    base = free_base()
    assert "there is no cluster" in script("status", fails=True)
    text = script("start", "--server", script.server, "--port", base)
    nodes = rows(text)
    assert list(nodes) == list(range(base, base + 6))
    assert [role for _, role in nodes.values()] == ["primary"] * 3 + ["replica"] * 3
    assert f"-c -p {base}" in text and "RL.TAKE" in text

    assert "It runs already." in script("start")
    assert rows(script("status")) == nodes
    assert "stop it first" in script("start", "--port", base + 100, fails=True)

    with RedisCluster(host="127.0.0.1", port=base + 1) as client:
        rl = Limiter(client)
        limit = "10 3650d"
        for n in range(30):
            assert rl.take(f"k:{n}", limit).remaining == 9
        wait_until(lambda: all(offset(base + n) == offset(base + n + 3) for n in range(3)))

        # As the script says: kill a primary.
        pid, _ = nodes[base]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: base not in serving(base + 1), 30)
        assert rows(script("status", fails=True))[base] == (0, "dead")
        assert "1 of 6 nodes had died" in script("start")
        assert rows(script("status"))[base][1] == "replica"
        for n in range(30):
            assert rl.peek(f"k:{n}", limit).remaining == 9

    pids = [pid for pid, _ in rows(script("status")).values()]
    script("stop")
    assert not (ROOT / ".cluster").exists()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert "no cluster to stop" in script("stop")


def offset(port):
    """How far this node has got in its primary's stream, or in its own."""
    with Raw(port) as raw:
        info = raw("INFO", "replication").decode()
    offsets = dict(re.findall(r"(slave|master)_repl_offset:(\d+)", info))
    return offsets.get("slave", offsets["master"])


def serving(port):
    """The ports of those who serve slots, as the node on this one sees it; all while it sees none."""
    with Raw(port) as raw:
        if b"cluster_state:ok" not in raw("CLUSTER", "INFO"):
            return range(65_536)
        return [owner[1] for _, _, owner, *_ in raw("CLUSTER", "SLOTS")]


def test_a_taken_port_and_wrong_words(script):
    with socket.socket() as other:
        base = free_base()
        other.bind(("127.0.0.1", base + 10_004))
        other.listen()
        text = script("start", "--server", script.server, "--port", base, fails=True)
        assert f"port {base + 10_004} is taken" in text and "--port BASE" in text
    assert not (ROOT / ".cluster").exists()
    for args, says in {
        (): "say what to do",
        ("begin",): "unknown argument 'begin'",
        ("start", "--port", "x"): "--port must be a number",
        ("start", "--port", "60000"): "--port must be a number",
        ("start", "--server", "/nowhere/redis-server"): "no server at",
        ("stop", "--port", "7000"): "are for start",
        ("start", "stop"): "not two",
    }.items():
        assert says in script(*args, fails=True)
    assert script("--help").startswith("scripts/cluster start ")
