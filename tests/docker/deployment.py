"""What docker/compose.yaml describes, as a deployment of a test run's own.

A `Deployment` is one project of Compose under a name, on a network and with volumes of its own;
`remove()` takes all of that away again. Services go by their names in the file. What a test does
to them is what an operator or an accident would: kill, stop, cut off the network.
"""

import ipaddress
import json
import os
import random
import subprocess
import time
from collections import namedtuple
from pathlib import Path

import redis

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker/compose.yaml"

ADDRESSES = {
    "primary": 21, "replica": 22, "sentinel-1": 23, "sentinel-2": 24, "sentinel-3": 25,
    "node-1": 11, "node-2": 12, "node-3": 13, "node-4": 14, "node-5": 15, "node-6": 16,
}  # fmt: skip
NODES = [f"node-{n}" for n in range(1, 7)]
SENTINELS = [f"sentinel-{n}" for n in range(1, 4)]

Reply = namedtuple("Reply", "allowed remaining wait_ms reset_ms limit")


def run(*command, **kwargs):
    """Runs a command and gives back what it printed; its errors are in the exception."""
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def docker(*args):
    return run("docker", *args)


def wait_until(condition, seconds=90):
    """Polls until `condition()` is true; an unreachable server counts as not yet."""
    deadline = time.monotonic() + seconds
    problem = None
    while True:
        try:
            if result := condition():
                return result
        except (redis.RedisError, RuntimeError) as error:
            problem = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not true after {seconds} s") from problem
        time.sleep(0.05)


def free_net():
    """The first three numbers of a private network that this machine has no route to."""
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all"))
    taken = [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in routes
        if route["dst"] != "default"
    ]
    while True:
        net = f"172.{random.randrange(20, 32)}.{random.randrange(256)}"
        if not any(ipaddress.ip_network(f"{net}.0/24").overlaps(other) for other in taken):
            return net


def take(client, *words):
    return Reply(*client.execute_command("RL.TAKE", *words))


def peek(client, *words):
    return Reply(*client.execute_command("RL.PEEK", *words))


def replicated(client, replicas=1):
    """Waits until what this client wrote is on the replicas: up to there nothing is promised."""
    wait_until(lambda: client.execute_command("WAIT", replicas, 1000) >= replicas)


def on_disk(client):
    """Waits until the AOF holds all that was answered: its write may be waiting for the disk."""
    wait_until(lambda: client.info("persistence").get("aof_buffer_length", 0) == 0)


class Deployment:
    def __init__(self, profile, suffix=""):
        # The prefix is the run's: by it tests/docker/run removes what a stopped run left.
        self.name = f"{os.environ['RL_RUN']}-{profile}{suffix}"
        self.profile = profile
        self.net = free_net()
        self.env = {
            **os.environ,
            "RL_NET": self.net,
            "RL_PORT": "0",  # any that is free
            "COMPOSE_IGNORE_ORPHANS": "1",
        }

    def compose(self, *args):
        command = os.environ["RL_COMPOSE"].split()
        files = ["-p", self.name, "-f", FILE, "--profile", self.profile]
        return run(*command, *files, *args, env=self.env)

    def up(self):
        self.compose("up", "-d", "--no-build")
        return self

    def remove(self):
        self.compose("down", "--volumes", "--timeout", "0")

    def container(self, service):
        """Its id, up or not."""
        labels = {"project": self.name, "service": service}
        filters = [f"--filter=label=com.docker.compose.{k}={v}" for k, v in labels.items()]
        return docker("ps", "-aq", *filters)

    def state(self, service):
        return json.loads(docker("inspect", self.container(service)))[0]["State"]

    def healthy(self, service):
        return self.state(service).get("Health", {}).get("Status") == "healthy"

    def kill(self, service):
        docker("kill", self.container(service))

    def start(self, service):
        docker("start", self.container(service))

    def restart(self, service):
        docker("restart", self.container(service))

    def cut_off(self, service):
        docker("network", "disconnect", f"{self.name}_rl", self.container(service))

    def rejoin(self, service):
        address = self.address(service)
        docker("network", "connect", "--ip", address, f"{self.name}_rl", self.container(service))

    def address(self, service):
        if service in ADDRESSES:
            return f"{self.net}.{ADDRESSES[service]}"
        networks = json.loads(docker("inspect", self.container(service)))[0]["NetworkSettings"]
        return networks["Networks"][f"{self.name}_rl"]["IPAddress"]

    def client(self, service, port=6379):
        return redis.Redis(
            self.address(service), port, socket_timeout=5, decode_responses=True, retry=None
        )

    def logs(self):
        """What each container said last: {name: text}."""
        project = f"--filter=label=com.docker.compose.project={self.name}"
        names = docker("ps", "-a", "--format={{.Names}}", project).split()
        return {name: docker("logs", "--tail", "40", name) for name in names}
