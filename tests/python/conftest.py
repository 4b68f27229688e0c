"""Fixtures: the servers, the clock and the seed.

    RL_SERVER   the server to test on   (default: redis-server on PATH)
    RL_MODULE   the module              (default: target/release/libredis_rl.so)
    RL_CLOCK    the clock shim          (default: target/clock/librlclock.so)
    RL_SEED     repeats a run with its random choices
"""

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from harness import ROOT, START_US, Clock, Limiter, Server

SEED = int(os.environ.get("RL_SEED") or random.SystemRandom().randrange(10**9))


def _paths():
    server = shutil.which(os.environ.get("RL_SERVER", "redis-server"))
    module = Path(os.environ.get("RL_MODULE", ROOT / "target/release/libredis_rl.so")).resolve()
    shim = Path(os.environ.get("RL_CLOCK", ROOT / "target/clock/librlclock.so")).resolve()
    return server, module, shim


def pytest_report_header():
    server, module, _ = _paths()
    return [f"server: {server}", f"module: {module}", f"seed: {SEED} (RL_SEED={SEED} repeats it)"]


@pytest.fixture(scope="session")
def paths():
    server, module, shim = _paths()
    if not server:
        pytest.exit("no server: put redis-server on PATH or name one with RL_SERVER", 3)
    if not module.exists():
        pytest.exit(f"no module at {module}: build it with scripts/build, or name it with RL_MODULE", 3)
    if not shim.exists():
        pytest.exit(f"no clock shim at {shim}: scripts/test builds it, or name it with RL_CLOCK", 3)
    return server, module, shim


@pytest.fixture
def rng(request):
    """Random choices of this test, the same again under the same RL_SEED."""
    print(f"RL_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def wall_clock():
    with tempfile.TemporaryDirectory(prefix="rl-clock-") as folder:
        yield Clock(Path(folder) / "clock")


_running = []  # every server of the run, for the logs of a failed test


@pytest.fixture(scope="session")
def start_server(paths, wall_clock):
    """Start a server that lives as long as the session: `start_server(args, module=True)`."""
    started = []

    def start(*args, module=True):
        binary, so, shim = paths
        server = Server(binary, so if module else None, wall_clock, shim, args)
        started.append(server)
        _running.append(server)
        return server.start()

    yield start
    for server in reversed(started):  # replicas before their primaries
        server.remove()
        _running.remove(server)


@pytest.fixture
def new_server(paths, wall_clock, fresh):
    """Start servers of this test's own: `new_server("--appendonly", "yes", module=False)`."""
    started = []

    def start(*args, module=True):
        binary, so, shim = paths
        server = Server(binary, so if module else None, wall_clock, shim, args)
        started.append(server)
        _running.append(server)
        return server.start()

    yield start
    for server in reversed(started):
        server.remove()
        _running.remove(server)


@pytest.fixture(scope="session")
def main_server(start_server):
    return start_server()


@pytest.fixture(scope="session")
def clock_takes(main_server, wall_clock):
    """Does the server's clock follow the shim? One that derives it from CLOCK_MONOTONIC doesn't."""
    wall_clock.set_us(START_US + 7)
    with main_server.raw() as raw:
        seconds, micros = raw("TIME")
    return int(seconds) * 1_000_000 + int(micros) == START_US + 7


@pytest.fixture(autouse=True)
def fresh(request, paths, wall_clock):
    """Each test starts on empty servers at START, and ends with them alive."""
    wall_clock.set_us(START_US)
    if "server" in request.fixturenames:
        server = request.getfixturevalue("main_server")
        if server.exited:  # an earlier test took it down, and failed for it
            server.start()
        with server.raw() as raw:
            raw("FLUSHALL")
    yield
    for server in _running:
        if server.up and server.exited:
            server.up = False
            pytest.fail(f"the server on port {server.port} went down: {server.process.returncode}")


@pytest.fixture
def server(main_server, fresh):
    return main_server


@pytest.fixture
def clock(clock_takes, wall_clock, server):
    if not clock_takes:
        pytest.skip("this server's clock doesn't follow the clock shim")
    return wall_clock


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def rl(client):
    return Limiter(client)


@pytest.fixture
def raw(server):
    with server.raw() as raw:
        yield raw


@pytest.fixture(scope="session")
def linked(start_server):
    """A primary and, without the module, its replica."""
    primary, replica = start_server(), start_server(module=False)
    replica.replica_of(primary)
    return primary, replica


@pytest.fixture
def pair(linked, fresh):
    """The linked servers, emptied."""
    primary, replica = linked
    with primary.raw() as raw:
        raw("FLUSHALL")
    replica.caught_up_with(primary)
    return primary, replica


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for server in _running:
            report.sections.append((f"log of the server on port {server.port}", server.log()[-1500:]))
    return report
