"""The commands with which the README and docs/operations.md run the module in containers, as they
stand there: under names, a network and a port of this run's own, and with the image under test.
"""

import os
import re

import pytest
from deployment import ROOT, Deployment, run, wait_until

PAGES = [ROOT / "README.md", ROOT / "docs/operations.md"]
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    if "docker compose" in block
]
COMPOSE = "docker compose "


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.search(r"--profile (\w+)", block)[1])
def test_commands(block):
    deployment = Deployment(re.search(r"--profile (\w+)", block)[1], suffix="-docs")
    try:
        for line in block.splitlines():
            assert line.startswith(f"$ {COMPOSE}")
            told(deployment, os.environ["RL_COMPOSE"].split() + line.split()[3:])
    finally:
        deployment.remove()


def took(reply):
    return reply if reply[0].isdigit() else None


def told(deployment, command):
    def output():
        env = {**deployment.env, "COMPOSE_PROJECT_NAME": deployment.name}
        return run(*command, env=env, cwd=ROOT).split()

    if "exec" not in command:
        output()
        return
    # Until the servers are up, and a cluster formed, redis-cli fails or prints an error reply.
    assert wait_until(lambda: took(output())) == ["1", "19", "0", "600", "20"]


def test_there_are_commands():
    assert len(BLOCKS) == 2
