"""Fixtures: each way to deploy that docker/compose.yaml describes, up for one module of tests.

tests/docker/run sets these:

    RL_IMAGE       the image under test
    RL_BASE        what it is built on
    RL_SUITES      the image with the Rust and the Python suite in it
    RL_RUN         what the names of this run's containers, networks and volumes begin with
    RL_COMPOSE     the command that is Compose
"""

import os

import pytest
from deployment import NODES, SENTINELS, Deployment, wait_until


def pytest_report_header():
    return f"image: {os.environ.get('RL_IMAGE')} on {os.environ.get('RL_BASE')}"


def pytest_sessionstart():
    if "RL_IMAGE" not in os.environ:
        pytest.exit("no image to test: start these tests with tests/docker/run", 3)


@pytest.fixture(scope="session")
def image():
    return os.environ["RL_IMAGE"]


def deployed(profile):
    deployment = Deployment(profile)
    try:
        yield deployment.up()
    finally:
        deployment.remove()


@pytest.fixture(scope="module")
def standalone():
    yield from deployed("standalone")


@pytest.fixture(scope="module")
def replicated_pair():
    for deployment in deployed("replicated"):

        # Each of them: they ask the primary for its replicas every ten seconds only, and the one
        # that leads the failover may be one that had not asked again yet.
        def formed():
            for name in SENTINELS:
                with deployment.client(name, 26379) as client:
                    sees = client.sentinel_master("rl")
                if sees["num-slaves"] != 1 or sees["num-other-sentinels"] != 2:
                    return False
            return True

        wait_until(formed)
        yield deployment


@pytest.fixture(scope="module")
def cluster():
    for deployment in deployed("cluster"):
        wait_until(lambda: whole(deployment), seconds=150)
        yield deployment


def whole(deployment):
    """Every node sees all slots served, and every replica has its primary."""
    for node in NODES:
        with deployment.client(node) as client:
            info = client.execute_command("CLUSTER INFO")
            if info["cluster_state"] != "ok" or info["cluster_known_nodes"] != "6":
                return False
            role = client.info("replication")
            if role["role"] == "slave" and role["master_link_status"] != "up":
                return False
            if role["role"] == "master" and role["connected_slaves"] < 1:
                return False
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for deployment in getattr(item, "funcargs", {}).values():
            if isinstance(deployment, Deployment):
                report.sections += [(f"log of {n}", log) for n, log in deployment.logs().items()]
    return report
