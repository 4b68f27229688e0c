"""Loading: beside another module, twice, and again after an unload."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import KINDS, Error, everything


@pytest.fixture(scope="session")
def other_module():
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler for the other module")
    source = Path(__file__).with_name("other_module.c")
    with tempfile.TemporaryDirectory(prefix="rl-test-") as folder:
        library = Path(folder) / "other.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        yield library


def test_cl_throttle_is_left_to_the_module_that_has_it(new_server, other_module):
    server = new_server("--loadmodule", other_module)
    rl = server.limiter()
    with server.raw() as raw:
        assert raw("CL.THROTTLE", "k", "15", "30", "60") == b"the other one"
    assert rl.throttle("k", "15 30 60")[:3] == (0, 16, 15)
    assert rl.take("k", "GCRA 30 60 BURST 16").remaining == 14


def test_unload_and_load_again(new_server, clock):
    """The state is the server's: it stays, and the module finds it."""
    server = new_server()
    rl, client = server.limiter(), server.client()
    for kind in KINDS:
        rl.take(kind, kind, "10 60 COST 4")
    before = everything(client)
    with server.raw() as raw:
        assert raw("MODULE", "UNLOAD", "rl") == b"OK"
        assert raw("RL.TAKE", "k", "10", "60").startswith("ERR unknown command")
        assert everything(client) == before
        assert raw("MODULE", "LOAD", str(server.module)) == b"OK"
    # On a connection of its own: Redis 8.2 remembers the last command of each, even one that was
    # unloaded, and crashes when it is called again.
    rl = server.limiter()
    assert [rl.peek(kind, kind, "10 60").remaining for kind in KINDS] == [6] * 6
    assert everything(client) == before


def test_load_twice(new_server):
    server = new_server()
    with server.raw() as raw:
        raw("RL.TAKE", "k", "10", "86400")
        assert isinstance(raw("MODULE", "LOAD", str(server.module)), Error)
        assert raw("RL.TAKE", "k", "10", "86400")[:2] == [1, 8]
        assert raw("CL.THROTTLE", "t", "15", "30", "60")[:3] == [0, 16, 15]
