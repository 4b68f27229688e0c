"""The exact model against the tables that were worked out by hand: it needs no server."""

from decimal import Decimal

import pytest

import test_give
import test_reply_bucket
import test_reply_fixed_window
import test_reply_sliding_log
import test_reply_sliding_window
from harness import KINDS, START_US, rows
from model import Key, Limit

UNITS = {"us": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86_400 * 10**6}

TABLES = [
    (module.__name__, name, *table)
    for module, tables in (
        (test_reply_bucket, test_reply_bucket.TABLES),
        (test_reply_bucket, test_reply_bucket.LEAKY_TABLES),
        (test_reply_fixed_window, test_reply_fixed_window.TABLES),
        (test_reply_sliding_window, test_reply_sliding_window.TABLES),
        (test_reply_sliding_log, test_reply_sliding_log.TABLES),
        (test_give, test_give.TABLES),
    )
    for name, table in tables.items()
]


def limit_of(text):
    words = text.split()
    kind = words.pop(0) if words[0] in KINDS else "TOKENBUCKET"
    number = words[1].rstrip("usmhd")
    period = Decimal(number) * UNITS[words[1][len(number) :] or "s"]
    return Limit(kind, int(words[0]), int(period), int(words[3]) if len(words) > 2 else None)


@pytest.mark.parametrize("module, name, limit, table", TABLES, ids=lambda v: v if len(v) < 30 else "")
def test_the_model_plays_the_table(module, name, limit, table):
    key = Key()
    for row in rows(table):
        now = START_US + int(Decimal(row.at) * 1_000_000)
        verb, *options = row.call.split()
        atmost = "ATMOST" in options
        cost = int(options[1]) if options and options[0] in ("COST", "ATMOST") else 1
        outcome = key.run(verb, now, [limit_of(limit)], cost, atmost, "FORCE" in options)
        assert outcome.five == row.expected, f"{limit}: {row.call} at {row.at} s"
