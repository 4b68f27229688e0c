"""The Rust and the Python suite in a container: on the image's server, with its module."""

import os
import subprocess

import pytest

RUST = """
failed=
for test in /tests/rust/*; do
  echo "== $test"
  "$test" || failed="$failed $test"
done
echo "failed:$failed"
[ -z "$failed" ]
"""
# Not the clusters of processes, for there is one of containers, and not the pages of the docs,
# which are not in the image.
LEFT_OUT = ["--ignore=/tests/python/cluster", "--ignore=/tests/python/test_docs.py"]
PYTHON = ["/tests/venv/bin/python", "-m", "pytest", "/tests/python", *LEFT_OUT]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", [["sh", "-c", RUST], PYTHON], ids=["rust", "python"])
def test_suite(suite):
    name = f"{os.environ['RL_RUN']}-suite"
    command = ["docker", "run", "--rm", "--init", "--name", name, os.environ["RL_SUITES"], *suite]
    try:
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        subprocess.run(["docker", "rm", "-f", name], capture_output=True)
    print(done.stdout[-20_000:])
    assert done.returncode == 0
