"""The command line of scripts/bench."""

from __future__ import annotations

import signal
import sys

from bench.options import parse
from bench.run import run
from bench.server import CannotMeasure


def stop(number: int, _frame: object) -> None:
    """Told to stop, it ends as it would at an error: with its servers and files gone."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    try:
        sys.exit(run(parse(sys.argv[1:])))
    except CannotMeasure as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
