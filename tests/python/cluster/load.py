"""Clients that take and give as fast as they can, and account for every unit.

What a key holds in the end must be what its clients were told: `used = admitted - given`. A call
whose connection broke may or may not have been done; its units are counted as `unsure`.
"""

import random
import threading
from collections import Counter
from dataclasses import dataclass, field

import redis

from harness import Limiter, wait_until

# Nothing drains while a test runs: a whole unit of the fastest of these takes 52 minutes.
FOREVER = "3650d"
WIDE = 100_000

# One key of each kind that no test uses up, and one small enough to refuse.
SHAPES = {
    "token": f"TOKENBUCKET {WIDE} {FOREVER}",
    "gcra": f"GCRA {WIDE} {FOREVER}",
    "leaky": f"LEAKYBUCKET {WIDE} {FOREVER}",
    "fixed": f"FIXEDWINDOW {WIDE} {FOREVER}",
    "window": f"SLIDINGWINDOW {WIDE} {FOREVER}",
    "log": f"SLIDINGLOG {WIDE} {FOREVER}",
    "small": f"50 {FOREVER}",
    "two": f"{WIDE} {FOREVER} FIXEDWINDOW {WIDE} {FOREVER}",
}

# Errors by which a server says that it did not do the call: it is made again.
NOT_DONE = (
    # The cluster is down, or the client was sent on too often: a slot is halfway, try again.
    redis.exceptions.ClusterError,
    redis.exceptions.TryAgainError,
    redis.exceptions.AskError,
    redis.exceptions.MovedError,
    redis.exceptions.SlotNotCoveredError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
)
# The link broke: before the call, after it, nobody knows.
BROKEN = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)


def keys_of(tags):
    """One key of each shape for each hash tag, with its limit."""
    return {f"{{{tag}}}:{shape}": limit for tag in tags for shape, limit in SHAPES.items()}


@dataclass
class Account:
    admitted: int = 0  # units
    given: int = 0
    refused: int = 0  # calls
    unsure_taken: int = 0  # units of calls without a reply
    unsure_given: int = 0

    @property
    def used(self):
        return self.admitted - self.given

    def plus(self, other):
        return Account(*(getattr(self, f) + getattr(other, f) for f in self.__dataclass_fields__))


@dataclass
class Worker:
    client: redis.Redis
    rng: random.Random
    accounts: dict
    calls: int = 0
    not_done: Counter = field(default_factory=Counter)  # by the name of the error
    broken: int = 0
    failure: BaseException | None = None


class Load:
    """`workers` threads with a client each, on all of these keys, from start() to stop().

    Without `pairs` nobody calls RL.MTAKE: for its keys the client asks a node that need not be
    theirs, and one that breaks off then would leave units unsure that surely were not taken.
    """

    def __init__(self, connect, limits, rng, workers=3, pairs=True):
        self.limits, self.pairs = limits, pairs
        self.workers = [
            Worker(connect(), random.Random(rng.random()), {key: Account() for key in limits})
            for _ in range(workers)
        ]
        self.threads = []
        self.stopping = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.stop(check=kind is None)

    def start(self):
        self.stopping.clear()
        self.threads = [threading.Thread(target=self._run, args=[w], daemon=True) for w in self.workers]
        for thread in self.threads:
            thread.start()
        self.progress()

    def stop(self, check=True):
        self.stopping.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"
        for worker in self.workers:
            if check and worker.failure:
                raise worker.failure

    def close(self):
        for worker in self.workers:
            worker.client.close()

    def progress(self, calls=20):
        """Wait until every client has got replies to so many more calls."""
        goals = [worker.calls + calls for worker in self.workers]
        wait_until(lambda: self.failed or all(w.calls >= g for w, g in zip(self.workers, goals)), 30)
        if self.failed:
            self.stop()

    @property
    def failed(self):
        return any(worker.failure for worker in self.workers)

    def total(self, key):
        total = Account()
        for worker in self.workers:
            total = total.plus(worker.accounts[key])
        return total

    @property
    def calls(self):
        return sum(worker.calls for worker in self.workers)

    @property
    def broken(self):
        return sum(worker.broken for worker in self.workers)

    def _run(self, worker):
        try:
            while not self.stopping.is_set():
                self._call(worker)
        except BaseException as failure:
            worker.failure = failure

    def _call(self, worker):
        rng, accounts = worker.rng, worker.accounts
        cost = rng.randint(1, 3)
        key = rng.choice(list(self.limits))
        mine = [accounts[key]]
        verb = "take"
        if self.pairs and rng.random() < 0.1:
            # Two keys of one slot at once.
            tag = key.split(":")[0]
            pair = [f"{tag}:token", f"{tag}:log"]
            mine = [accounts[k] for k in pair]
            call = ["RL.MTAKE", 2, *pair, *" ".join(self.limits[k] for k in pair).split()]
        elif rng.random() < 0.15 and mine[0].used - mine[0].unsure_given >= cost:
            # Only what was taken here is given back, so that nothing is given to a full bucket.
            verb = "give"
            call = ["RL.GIVE", key, *self.limits[key].split()]
        else:
            call = ["RL.TAKE", key, *self.limits[key].split()]
        try:
            allowed = worker.client.execute_command(*call, "COST", cost)[0]
        except NOT_DONE as error:
            worker.not_done[type(error).__name__] += 1
            return
        except BROKEN:
            worker.broken += 1
            for account in mine:
                if verb == "give":
                    account.unsure_given += cost
                else:
                    account.unsure_taken += cost
            return
        worker.calls += 1
        for account in mine:
            if verb == "give":
                account.given += cost
            elif allowed:
                account.admitted += cost
            else:
                account.refused += 1


def held(client, key, limit):
    """The units held against a key, as the server says."""
    reply = Limiter(client).peek(key, limit)
    return reply.limit - reply.remaining


def assert_exact(client, load):
    """Every unit that the clients were admitted is held, and not one more."""
    told, stored = {}, {}
    for key, limit in load.limits.items():
        account = load.total(key)
        assert account.unsure_taken == account.unsure_given == 0, f"{key}: a connection broke"
        told[key], stored[key] = account.used, held(client, key, limit)
    assert stored == told

