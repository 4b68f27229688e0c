"""The commands with which the README and docs/operations.md run the module in containers, as they
stand there, but for the project's name: that, the network and the port are this run's own, and the
image is the one under test.
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


def told(deployment, command):
    command[command.index("-p") + 1] = deployment.name
    if "exec" not in command:
        run(*command, env=deployment.env, cwd=ROOT)
        return

    def answered():
        try:
            return run(*command, env=deployment.env, cwd=ROOT).split()
        except RuntimeError as error:
            # Faster than the server started. Any other failure is one.
            if "Connection refused" in str(error):
                return None
            raise

    assert wait_until(answered) == ["1", "19", "0", "600", "20"]


def test_there_are_commands():
    assert len(BLOCKS) == 2
