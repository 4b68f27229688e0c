"""One cluster for all tests of the run, whole again before each of them; and the mark `long`.

Tests marked `long` take minutes. They run with `-m long` and not otherwise.
"""

import pytest

from topology import Cluster, slot_of


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; runs with -m long")


def pytest_collection_modifyitems(config, items):
    if "long" not in config.getoption("-m"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; runs with -m long"))


@pytest.fixture(scope="session")
def clusters(paths):
    """The cluster of the run; after a failed test, another one."""
    binary, module, _ = paths
    running = []

    def whole():
        if running and running[-1].spoilt:
            running.pop().stop()
        if not running:
            running.append(Cluster(binary, module))
            running[-1].start()
        running[-1].heal()
        return running[-1]

    yield whole
    for cluster in running:
        cluster.stop()


@pytest.fixture
def cluster(clusters):
    cluster = clusters()
    yield cluster
    for node in cluster.nodes:
        if node.up and node.exited:
            cluster.spoilt = True
            pytest.fail(f"the node on port {node.port} went down: {node.process.returncode}")


@pytest.fixture
def client(cluster):
    with cluster.client() as client:
        yield client


@pytest.fixture
def tags(cluster, request):
    """Hash tags of this test's own whose slots a primary serves: `tags(primary, 2)`."""
    used = []

    def find(primary, count=1):
        ranges = [
            (first, last)
            for first, last, owner, *_ in primary.call("CLUSTER", "SLOTS")
            if owner[1] == primary.port
        ]
        found = []
        number = len(used)
        while len(found) < count:
            number += 1
            tag = f"{request.node.name}-{number}"
            used.append(tag)
            if any(first <= slot_of(f"{{{tag}}}") <= last for first, last in ranges):
                found.append(tag)
        return found

    return find


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and cluster:
        cluster.spoilt = True
        for node in cluster.nodes:
            report.sections.append((f"log of the node on port {node.port}", node.log()[-2000:]))
    return report
