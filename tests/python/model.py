"""What each limit means, in exact rational arithmetic and as plainly as it can be said.

Slow on purpose: no formula for a wait is worked out here. A wait is found by asking "admitted
then?" of later and later instants, which is what `wait_ms` promises. So a slip in the module's
algebra can't be repeated here.

Times are whole microseconds since the epoch; the units used of a bucket are a Fraction.
"""

import copy
import math
from dataclasses import dataclass, field
from fractions import Fraction

from harness import BUCKETS, Detail, Reply

MILLIONTH = Fraction(1, 1_000_000)
NEVER = -1


@dataclass(frozen=True)
class Limit:
    kind: str
    count: int
    period_us: int
    burst: int | None = None

    @property
    def bucket(self):
        return self.kind in BUCKETS

    @property
    def capacity(self):
        return self.count if self.burst is None else self.burst

    @property
    def family(self):
        return "bucket" if self.bucket else self.kind

    @property
    def words(self):
        burst = "" if self.burst is None else f" BURST {self.burst}"
        return f"{self.kind} {self.count} {self.period_us}us{burst}"

    def start(self, now):
        return {"bucket": Bucket, "FIXEDWINDOW": Fixed, "SLIDINGWINDOW": Sliding}.get(
            self.family, Log
        )(now)

    def index(self, t):
        return t // self.period_us


class Bucket:
    """`used` units at the instant `at`, draining by count each period."""

    def __init__(self, now):
        self.at, self.used = now, Fraction(0)

    def ahead_of(self, now, _limit):
        return self.at > now

    def settle(self, now, limit):
        """What is ahead of the clock is taken as now."""
        self.used = self.used_at(now, limit)
        self.at = now

    def used_at(self, t, limit):
        drained = Fraction(max(0, t - self.at) * limit.count, limit.period_us)
        return max(Fraction(0), self.used - drained)

    def add(self, units, _now, _limit):
        self.used += units

    def give(self, units, _now, _limit):
        self.used = max(Fraction(0), self.used - units)

    def clamp(self, capacity):
        self.used = min(self.used, Fraction(capacity))

    def held_until(self, limit):
        """The first instant at which the state says the same as no key."""
        if self.used == 0:
            return self.at
        return self.at + math.ceil(self.used * limit.period_us / limit.count)


class Fixed:
    def __init__(self, now):
        self.index, self.units = None, 0

    def ahead_of(self, now, limit):
        return self.index is not None and self.index > limit.index(now)

    def settle(self, now, limit):
        index = limit.index(now)
        if self.index is not None and self.index < index:
            self.units = 0
        self.index = index

    def used_at(self, t, limit):
        return self.units if limit.index(t) <= self.index else 0

    def add(self, units, _now, _limit):
        self.units += units

    def give(self, units, _now, _limit):
        self.units = max(0, self.units - units)

    def clamp(self, capacity):
        self.units = min(self.units, capacity)

    def held_until(self, limit):
        return (self.index + 1) * limit.period_us if self.units else 0


class Sliding:
    def __init__(self, now):
        self.index, self.current, self.previous = None, 0, 0

    def ahead_of(self, now, limit):
        return self.index is not None and self.index > limit.index(now)

    def settle(self, now, limit):
        index = limit.index(now)
        if self.index is not None and self.index < index:
            self.previous = self.current if self.index == index - 1 else 0
            self.current = 0
        elif self.index is not None and self.index > index:
            # Not even the previous window is over yet, so all of it is taken as now.
            self.current, self.previous = self.current + self.previous, 0
        self.index = index

    def used_at(self, t, limit):
        previous, current = self.previous, self.current
        ahead = limit.index(t) - self.index
        if ahead == 1:
            previous, current = current, 0
        elif ahead > 1:
            previous, current = 0, 0
        elapsed = t % limit.period_us
        return previous * (limit.period_us - elapsed) // limit.period_us + current

    def add(self, units, _now, _limit):
        self.current += units

    def give(self, units, now, limit):
        """The current counter first, then as much of the previous one as makes `used` fall by the rest."""
        from_current = min(self.current, units)
        self.current -= from_current
        target = self.used_at(now, limit) - (units - from_current)
        if target <= 0:
            self.previous = 0
            return
        whole = self.previous

        def enough(returned):
            self.previous = whole - returned
            return self.used_at(now, limit) <= target

        self.previous = whole - first(enough, 0, whole)

    def clamp(self, capacity):
        assert self.previous == 0, "which of the two counters gives way is not told"
        self.current = min(self.current, capacity)

    def held_until(self, limit):
        if self.current:
            return (self.index + 2) * limit.period_us
        return (self.index + 1) * limit.period_us if self.previous else 0


class Log:
    def __init__(self, now):
        self.takes = []  # [instant, units], oldest first

    def ahead_of(self, now, _limit):
        return any(t > now for t, _ in self.takes)

    def settle(self, now, limit):
        self.takes = [
            [min(t, now), units] for t, units in self.takes if min(t, now) + limit.period_us > now
        ]

    def used_at(self, t, limit):
        return sum(units for at, units in self.takes if at + limit.period_us > t)

    def add(self, units, now, _limit):
        self.takes.append([now, units])

    def give(self, units, _now, _limit):
        while units and self.takes:
            part = min(units, self.takes[-1][1])
            units -= part
            self.takes[-1][1] -= part
            if self.takes[-1][1] == 0:
                self.takes.pop()

    def clamp(self, capacity):
        assert len(self.takes) < 2, "which of the takes give way is not told"
        if self.takes:
            self.takes[0][1] = min(self.takes[0][1], capacity)

    def held_until(self, limit):
        return self.takes[-1][0] + limit.period_us if self.takes else 0


def first(condition, low, high):
    """The first instant in low..high at which the condition, once true then always, is true."""
    assert condition(high)
    while low < high:
        middle = (low + high) // 2
        if condition(middle):
            high = middle
        else:
            low = middle + 1
    return low


def ms_up(microseconds):
    return -(-microseconds // 1000)


@dataclass
class Outcome:
    allowed: int
    details: list
    writes: bool
    limits: list
    states: list
    marks: int = 0

    @property
    def five(self):
        detail = governing(self.allowed > 0, self.details)
        return Reply(self.allowed, *detail)


def counting(limits):
    """What of limits tells them from those that count otherwise."""
    return tuple((l.family, l.count, l.period_us, l.capacity) for l in limits)


def governing(admitted, details):
    """The limit that the reply describes; of equals the first, as min and max give it."""
    if admitted:
        return min(details, key=lambda d: d.remaining)
    return max(details, key=lambda d: math.inf if d.wait_ms == NEVER else d.wait_ms)


@dataclass
class Key:
    """One limiter key: call() says what a call comes to, commit() makes it so.

    `marks` says for which limits the usage counts as carried over, and from which instant on; a
    refusal leaves a mark where that makes its wait shorter. The two oldest of nine become one for
    any limits (None)."""

    limits: list = field(default_factory=list)
    states: list = field(default_factory=list)
    admitted: int = 0
    marks: dict = field(default_factory=dict)

    def run(self, *args, **options):
        outcome = self.call(*args, **options)
        self.commit(outcome)
        return outcome

    def commit(self, outcome):
        if outcome.marks:
            now = outcome.marks
            past = [(l, since) for l, since in self.marks.items() if since <= now]
            if len(past) == 8:
                past = [(None, past[0][1]), *past[2:]]
            self.marks = dict([*past, (counting(outcome.limits), now)])
        elif outcome.writes:
            self.limits, self.states, self.marks = outcome.limits, outcome.states, {}
            self.admitted += 1

    def call(self, verb, now, limits, cost=1, atmost=False, force=False, stricter=0, as_server=None):
        """`stricter` counts a bucket as that much fuller, which a server may within its millionth;
        `as_server` is the `allowed` of a server that was, to go on from there."""
        states, before, ahead = self._carry(limits, now)
        for limit, state in zip(limits, states):
            state.settle(now, limit)
        past = {l: since for l, since in self.marks.items() if since <= now}
        since = past.get(counting(limits), past.get(None))
        marked = since is not None
        carried = [None] * len(limits)
        if marked:
            carried = self._carried_at_mark(limits, since, now, states)
        for i, state in enumerate(carried):
            if state is None:
                continue
            before[i] = before[i] or (limits[i], copy.deepcopy(states[i]))
            if state.used_at(now, limits[i]) <= states[i].used_at(now, limits[i]):
                states[i] = copy.deepcopy(state)
        each = list(zip(limits, states))
        for limit, state in [*each, *((l, s) for l, s in zip(limits, carried) if s)]:
            if limit.bucket:
                state.used += stricter
        held = any(s.used_at(now, l) for l, s in each)

        def fits(limit, state, t, units):
            return limit.capacity > 0 and state.used_at(t, limit) + units <= limit.capacity

        def room(limit, state):
            return max(0, math.floor(limit.capacity - state.used_at(now, limit)))

        fit = all(fits(l, s, now, 0 if atmost else cost) for l, s in each)
        if verb == "give":
            allowed = 1
        elif atmost:
            allowed = cost if force else min(cost, *(room(l, s) for l, s in each))
        else:
            allowed = int(fit or force and cost > 0)
        if as_server is not None:
            allowed = as_server

        ask = min(cost, 1) if atmost else cost

        def until_fits(limit, state, capacity):
            if capacity == 0 or ask > capacity:
                return math.inf
            far = now + (self._drain(limit, state) if limit.bucket else 3 * limit.period_us)
            return first(lambda t: state.used_at(t, limit) + ask <= capacity, now, far) - now

        marks = False
        if verb == "give":
            waits = [0] * len(each)
        elif allowed or cost == 0 and fit:
            waits = [self._drain(l, s) if l.kind == "LEAKYBUCKET" else 0 for l, s in each]
        else:
            waits = [until_fits(l, s, l.capacity) for l, s in each]
            if any(before) and not ahead:
                # A refusal marks the key only where that is sooner than leaving it as it was.
                as_it_was = [
                    until_fits(*was, l.capacity) if was else w
                    for (l, _), was, w in zip(each, before, waits)
                ]
                by_mark = [
                    min(was, until_fits(l, at_mark or s, l.capacity))
                    for (l, s), was, at_mark in zip(each, as_it_was, carried)
                ]
                marks = not marked and max(by_mark) < max(as_it_was)
                waits = by_mark if marked or marks else as_it_was
        waits = [NEVER if w == math.inf else ms_up(w) for w in waits]
        charge = (allowed if atmost else cost * allowed) if verb == "take" else 0
        returns = verb == "give" and cost > 0 and held
        for limit, state in each:
            if charge:
                state.add(charge, now, limit)
            if returns and state.used_at(now, limit):
                state.give(cost, now, limit)
        refused = verb == "take" and cost > 0 and not charge
        details = [
            Detail(room(l, s), w, max(0, ms_up(s.held_until(l) - now)), l.capacity)
            for w, (l, s) in zip(waits, each)
        ]
        marks = now if refused and marks and NEVER not in waits else 0
        writes = bool(charge or returns or marks or refused and ahead and NEVER not in waits)
        if returns and not any(s.used_at(now, l) for l, s in each):
            return Outcome(allowed, details, writes, [], [])  # the key is gone
        return Outcome(allowed, details, writes, list(limits), states, marks)

    @staticmethod
    def _drain(limit, state):
        return math.ceil(state.used * limit.period_us / limit.count)

    def _carry(self, limits, now):
        """Copies of the states, matched by position; a changed limit takes over the units used. With
        them what each was before that, and whether any spoke of the future."""
        states, before, ahead = [], [], False
        for i, limit in enumerate(limits):
            if i >= len(self.states):
                states.append(limit.start(now))
                before.append(None)
                continue
            old, state = self.limits[i], copy.deepcopy(self.states[i])
            ahead |= state.ahead_of(now, old)
            before.append(None)
            same_pace = old.family == limit.family and old.period_us == limit.period_us
            if limit.bucket:
                same_pace = same_pace and old.count == limit.count
            if not same_pace or old.capacity != limit.capacity:
                state.settle(now, old)
                used = state.used_at(now, old)
                if used and not same_pace or used > limit.capacity:
                    before[-1] = (old, copy.deepcopy(state))
                if not same_pace:
                    state = limit.start(now)
                    state.settle(now, limit)
                    if used:
                        state.add(used if limit.bucket else math.ceil(used), now, limit)
                state.clamp(limit.capacity)
            states.append(state)
        return states, before, ahead

    def _carried_at_mark(self, limits, since, now, states):
        """What has become of the usage that each limit took over at the mark, if it took over any
        and something of it is left."""
        at_mark, moved, _ = self._carry(limits, since)
        carried = []
        for limit, state, was, seen in zip(limits, at_mark, moved, states):
            if not was or not seen.used_at(now, limit):
                carried.append(None)
                continue
            state.settle(since, limit)
            state.settle(now, limit)
            carried.append(state)
        return carried

    def held_until(self):
        return max((s.held_until(l) for s, l in zip(self.states, self.limits)), default=0)

    @property
    def tolerance(self):
        """How much fuller than exact a bucket may be counted by now."""
        return self.admitted * MILLIONTH
