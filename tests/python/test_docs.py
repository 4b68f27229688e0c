"""The examples of the README and of docs/, executed: each `redis` block on an empty server.

In a block, `> ` stands before a command, the line after it is the reply, and `# 600 ms later`
lets time pass. Errors that the table of errors spells out in full are in test_errors.py.
"""

import re

import pytest

from harness import ROOT

README = ROOT / "README.md"
EXAMPLES = [
    pytest.param(block, id=f"{page.name}:{block.splitlines()[0]}")
    for page in [README, *sorted((ROOT / "docs").glob("*.md"))]
    for block in re.findall(r"^```redis\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]


def shown(reply):
    """A reply as the README writes it: numbers in a row, lists in brackets."""
    if isinstance(reply, list):
        return " ".join(f"[{shown(item)}]" if isinstance(item, list) else shown(item) for item in reply)
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def test_there_are_examples():
    assert len(EXAMPLES) >= 10
    for command in ["RL.TAKE", "RL.PEEK", "RL.GIVE", "RL.MTAKE", "CL.THROTTLE"]:
        assert f"\n> {command} " in README.read_text()


@pytest.mark.parametrize("block", EXAMPLES)
def test_example(block, raw, clock):
    lines = iter(block.splitlines())
    for line in lines:
        if later := re.fullmatch(r"# (\d+) ms later", line):
            clock.advance(ms=int(later[1]))
        else:
            assert line.startswith("> "), line
            assert shown(raw(*line[2:].split())) == next(lines)


def test_replies_beside_the_scripts(raw):
    """The table of docs/operations.md, against the script that the benchmarks use."""
    page = (ROOT / "docs/operations.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \|", page, re.MULTILINE)
    assert len(rows) == 4
    script = raw("SCRIPT", "LOAD", (ROOT / "bench/token_bucket.lua").read_text())
    for cost, by_script, by_take in rows:
        assert shown(raw("EVALSHA", script, 1, "hash", 20, 100 / 60, cost)) == by_script
        assert shown(raw("RL.TAKE", "key", 100, 60, "BURST", 20, "COST", cost)) == by_take


def test_figures_are_the_benchs():
    """The README's table is the one that scripts/bench wrote, so no figure is typed in."""
    table = re.search(r"^## Speed\n.*?^(\|.*?)\n\n", README.read_text(), re.MULTILINE | re.DOTALL)
    assert table[1] in (ROOT / "docs/bench/README.md").read_text()


def test_syntax_is_the_servers(raw):
    """The commands of the README's synopsis are those that the server has."""
    synopsis = set(re.findall(r"^((?:RL|CL)\.[A-Z]+) +(?:key|numkeys) ", README.read_text(), re.M))
    assert synopsis == {"RL.TAKE", "RL.PEEK", "RL.GIVE", "RL.MTAKE", "RL.THROTTLE"}
    for command in synopsis | {"CL.THROTTLE"}:
        assert raw("COMMAND", "INFO", command)[0] is not None
