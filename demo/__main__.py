"""Feeds the traffic to a server that scripts/demo has started, and shows what becomes of it."""

import argparse
import sys
import time
from pathlib import Path

import redis

from .limits import NAMES, PERIOD_S, Limit
from .picture import save
from .terminal import Screen
from .traffic import LENGTH_S, schedule

FRAME_S = 0.05


def wait_for_turn(client: redis.Redis) -> float:
    """Wait until windows turn on the server's clock; the local monotonic time of that instant."""
    seconds, micros = client.time()
    left_s = PERIOD_S - (seconds + micros / 1e6) % PERIOD_S
    start = time.monotonic() + left_s
    time.sleep(left_s)
    return start


def feed(client: redis.Redis, limits: list[Limit], screen: Screen, offered_s: list[float]) -> None:
    for limit in limits:
        client.delete(limit.command()[1])
    start = wait_for_turn(client)
    pending = list(offered_s)
    while (now_s := time.monotonic() - start) < LENGTH_S:
        while pending and pending[0] <= now_s:
            at_s = pending.pop(0)
            pipe = client.pipeline(transaction=False)
            for limit in limits:
                pipe.execute_command(*limit.command())
            for limit, reply in zip(limits, pipe.execute(), strict=True):
                limit.record(at_s, reply)
        screen.draw(now_s)
        next_s = min(pending[0] if pending else LENGTH_S, now_s + FRAME_S)
        time.sleep(max(0.0, start + next_s - time.monotonic()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/demo", add_help=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()

    plain = options.plain or not sys.stdout.isatty()
    limits, offered_s = [Limit(name) for name in NAMES], schedule()
    screen = Screen(limits, offered_s, plain)
    if plain:
        print(f"Sending {len(offered_s)} requests to each of {len(limits)} limits, in {LENGTH_S:.0f} s ...")
    with redis.Redis(port=options.port, protocol=2) as client:
        feed(client, limits, screen, offered_s)
    screen.finish()
    save(options.svg, limits, offered_s)
    print(f"\nThe picture: {options.svg}")


if __name__ == "__main__":
    main()
