"""wait_ms and remaining are promises, and every reply is the exact model's: at random, from a printed seed.

The model (model.py) decides in exact rational arithmetic. The server may be stricter by less than a
millionth of a unit per admitted call, and never looser.
"""

import pytest

from harness import KINDS
from model import MILLIONTH, Key, Limit, governing

RATES = [(10, 10_000_000), (3, 1_000_000), (7, 11_000_000), (1, 60_000_000), (100, 60_000_000), (8000, 1_000_000),
         (1, 1000), (999_983, 86_400_000_000), (12, 7000), (17, 1_234_567), (600_000, 1_000_000)]  # fmt: skip
HUGE = [(10**12, 1000), (10**12, 3650 * 86_400_000_000), (999_999_999_989, 1_000_003)]


def random_limit(rng, kind=None, huge=True):
    kind = kind or rng.choice(KINDS)
    count, period = rng.choice(RATES + HUGE if huge and kind != "SLIDINGLOG" else RATES)
    if kind == "SLIDINGLOG":
        count = min(count, 50)
    burst = None
    if kind in KINDS[:3] and rng.random() < 0.5:
        burst = rng.choice([1, 2, 5, 20, max(1, count // 3), count])
    return Limit(kind, count, period, burst)


class Run:
    """A server key and its model, driven together."""

    def __init__(self, rl, clock, rng, limits):
        self.rl, self.clock, self.rng, self.limits = rl, clock, rng, limits
        self.model, self.history = Key(), []

    @property
    def words(self):
        return " ".join(limit.words for limit in self.limits)

    def ask(self, verb, option):
        five, detail = self.rl.detailed(f"RL.{verb.upper()}", "k", self.words, option)
        self.history.append(f"{self.clock.now_us} RL.{verb.upper()} k {self.words} {option} -> {five} {detail}")
        return five, detail

    def advance(self, us):
        self.clock.advance(us=us)

    def call(self, verb, cost=1, atmost=False, force=False):
        option = f"{'ATMOST' if atmost else 'COST'} {cost}{' FORCE' if force else ''}"
        five, detail = self.ask(verb, option)
        now = self.clock.now_us
        how = (verb, now, self.limits, cost, atmost, force)
        outcome = self.model.call(*how)
        if (five.allowed, detail) != (outcome.allowed, outcome.details):
            outcome = self.within_a_millionth(how, five, detail)
        if len(self.limits) == 1:
            assert five == (five.allowed, *detail[0]), self
        elif cost > 0:
            first = governing(five.allowed > 0, detail)
            # Waits of one wait_ms may differ by microseconds, so any of these may be the longest.
            ties = [d for d in detail if not five.allowed and d.wait_ms == first.wait_ms] or [first]
            assert five[1:] in ties, self
        self.model.commit(outcome)
        return five

    def within_a_millionth(self, how, five, detail):
        """Each number lies between that of the exact model and that of one a hair fuller."""
        exact = self.model.call(*how, as_server=five.allowed)
        # The bound is excluded: just below it.
        stricter = self.model.tolerance - MILLIONTH / 1000 if self.model.admitted else 0
        fuller = self.model.call(*how, stricter=stricter)
        assert fuller.allowed <= five.allowed <= self.model.call(*how).allowed, self
        fuller = self.model.call(*how, stricter=stricter, as_server=five.allowed)
        for got, low, high in zip(detail, exact.details, fuller.details, strict=True):
            assert high.remaining <= got.remaining <= low.remaining, self
            assert low.reset_ms <= got.reset_ms <= high.reset_ms, self
            assert min(low.wait_ms, high.wait_ms) <= got.wait_ms <= max(low.wait_ms, high.wait_ms), self
        return exact

    def __repr__(self):
        return "\n" + "\n".join(self.history[-25:])

    def keep_promises(self, reply, cost):
        """After a refusal: refused at wait_ms − 1, admitted at wait_ms. Remaining: admitted, one more refused."""
        now = self.clock.now_us
        if not reply.allowed and reply.wait_ms > 0:
            self.clock.advance(ms=reply.wait_ms - 1)
            five, _ = self.ask("peek", f"COST {cost}")
            assert five.allowed == 0, self
            self.clock.advance(ms=1)
            five, _ = self.ask("peek", f"COST {cost}")
            assert five.allowed == 1, self
            self.clock.set_us(now)
        if len(self.limits) == 1 and reply.remaining < 10**12:
            five, _ = self.ask("peek", f"COST {reply.remaining + 1}")
            assert five.allowed == 0, self
            if reply.remaining:
                five, _ = self.ask("peek", f"COST {reply.remaining}")
                assert five.allowed == 1, self

    def faded(self):
        """Does a sliding window hold units that count as none by now? test_give tells of that."""
        now = self.clock.now_us
        return any(
            limit.kind == "SLIDINGWINDOW" and state.held_until(limit) > now and not state.used_at(now, limit)
            for limit, state in zip(self.model.limits, self.model.states)
        )

    def step(self, step_back=False):
        rng = self.rng
        capacity = min(limit.capacity for limit in self.limits)
        period = self.limits[0].period_us
        cost = rng.choice([1, 1, 1, 2, 3, max(1, capacity // 3), capacity, rng.randrange(0, capacity + 2)])
        cost = min(cost, 10**12)
        choice = rng.random()
        if choice < 0.55:
            reply = self.call("take", cost)
        elif choice < 0.63:
            reply = self.call("take", cost, atmost=True)
        elif choice < 0.70:
            reply = self.call("take", min(cost, max(1, capacity // 2)), force=True)
        elif choice < 0.80 or choice < 0.88 and (step_back or self.faded()):
            # From which instant a bucket counts after a give shows only when the clock steps back, and is
            # nowhere told: no gives then.
            reply = self.call("peek", cost)
        elif choice < 0.88:
            reply = self.call("give", cost)
        elif step_back and choice < 0.94:
            if self.model.held_until() <= self.clock.now_us:
                # It may have expired or not, which after the step makes a difference.
                self.rl.client.delete("k")
                self.model = Key()
            far = self.clock.now_us // 2  # not before 1970
            self.advance(-min(far, rng.choice([1, 999, period // 3, period, 10 * period, rng.randrange(1, 10**12)])))
            reply = self.call("take", 1)
            cost = 1
        else:
            reply = self.call("take", 0)
            cost = 0
        if choice < 0.55 and cost:
            self.keep_promises(reply, cost)
        ways = [0, 0, 1, rng.randrange(1000), period // 100, period // 10, rng.randrange(period), period]
        ways.append(max(0, reply.wait_ms) * 1000)
        if reply.wait_ms > 0:
            ways.append(reply.wait_ms * 1000 - 1000)
        self.advance(rng.choice(ways))


@pytest.mark.parametrize("kind", KINDS)
def test_one_limit(rl, clock, client, rng, kind):
    for _ in range(20):
        clock.set(rng.randrange(1_000_000))
        client.delete("k")
        run = Run(rl, clock, rng, [random_limit(rng, kind)])
        for _ in range(40):
            run.step()


@pytest.mark.parametrize("kind", KINDS)
def test_one_limit_under_a_clock_that_steps_back(rl, clock, client, rng, kind):
    for _ in range(8):
        clock.set(rng.randrange(1_000_000))
        client.delete("k")
        run = Run(rl, clock, rng, [random_limit(rng, kind)])
        for _ in range(40):
            run.step(step_back=True)


def test_several_limits(rl, clock, client, rng):
    for _ in range(25):
        clock.set(rng.randrange(1_000_000))
        client.delete("k")
        run = Run(rl, clock, rng, [random_limit(rng) for _ in range(rng.randrange(2, 5))])
        for _ in range(25):
            run.step()


def test_limits_that_change(rl, clock, client, rng):
    """Among the buckets and FIXEDWINDOW, where the contents of the carried state are told to the unit."""
    kinds = ["TOKENBUCKET", "GCRA", "LEAKYBUCKET", "FIXEDWINDOW"]
    for _ in range(25):
        clock.set(rng.randrange(1_000_000))
        client.delete("k")
        run = Run(rl, clock, rng, [random_limit(rng, rng.choice(kinds), huge=False)])
        for _ in range(25):
            if rng.random() < 0.2:
                run.limits = [random_limit(rng, rng.choice(kinds), huge=False)]
                run.history.append(f"now {run.words}")
            # Only decisions that are told: no call after the change that could never be admitted.
            run.call("take", rng.randrange(1, run.limits[0].capacity + 1) if rng.random() < 0.5 else 1)
            run.advance(rng.choice([0, 1, rng.randrange(run.limits[0].period_us)]))


@pytest.mark.parametrize("kind", KINDS)
def test_never_more_than_the_limit_in_any_interval(rl, clock, rng, kind):
    """Greedy for a while: a bucket admits capacity + rate × time; a log never over count in a period; a fixed
    window never over count in its window; a sliding window never over 2 × count in a period."""
    count, period = 20, 1_000_000
    times = []
    for _ in range(1500):
        if rl.take("k", kind, f"{count} 1").allowed:
            times.append(clock.now_us)
        clock.advance(us=rng.choice([0, 500, 3000, rng.randrange(60_000)]))
    for i, start in enumerate(times):
        within = sum(1 for t in times[i:] if t < start + period)
        if kind == "SLIDINGLOG":
            assert within <= count
        else:
            assert within <= 2 * count
    for start in {t // period for t in times}:
        if kind == "FIXEDWINDOW":
            assert sum(1 for t in times if t // period == start) <= count
    if kind in KINDS[:3]:
        span = times[-1] - times[0]
        assert len(times) <= count + span * count // period
