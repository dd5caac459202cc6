"""The contention model of occ-aws, full jitter, in SimPy with what a run of Seawall has as well:

- messages that travel on their own to a server process, through its Store;
- a time-out for each attempt and a deadline for each call, raced against the answer;
- retries with backoff, none that would begin after the deadline;
- every half second a row: calls, successes, failures, first attempts, retries, time-outs, the
  server's queue, attempts in flight, and the p50, p99 and p99.9 of the latencies;
- latencies in log-linear histograms, of the row and of the run.

Messages are timeouts with a callback, which is faster in SimPy than a process each.
"""

import json
import random
import sys
import time
from collections import Counter

import simpy

BASE, CAP = 0.005, 2.0
ATTEMPT_TIMEOUT, DEADLINE, BUCKET = 5.0, 3600.0, 0.5


class Histogram:
    """128 steps per octave, as Seawall's."""

    def __init__(self):
        self.cells = Counter()

    def add(self, seconds):
        nanos = int(seconds * 1e9)
        octave = max(0, nanos.bit_length() - 8)
        self.cells[octave, nanos >> octave] += 1

    def quantiles(self, *wanted):
        count = sum(self.cells.values())
        found, seen, wanted = [], 0, list(wanted)
        for (octave, step), times in sorted(self.cells.items()):
            seen += times
            while wanted and seen >= wanted[0] * count:
                found.append((step + 0.5) * 2**octave / 1e6)
                wanted.pop(0)
        return found


class Store:
    """The server: one row, written by compare-and-swap."""

    def __init__(self, world):
        self.world = world
        self.version = 0
        self.writes = 0
        self.inbox = simpy.Store(world.environment)
        world.environment.process(self.serve())

    def serve(self):
        while True:
            seen, reply = yield self.inbox.get()
            if seen is None:
                self.world.travel(reply, self.version)
                continue
            self.writes += 1
            won = seen == self.version
            self.version += won
            self.world.travel(reply, won)


class World:
    def __init__(self, clients, seed):
        self.chance = random.Random(seed)
        self.environment = simpy.Environment()
        self.store = Store(self)
        self.row = Counter()
        self.rows = []
        self.in_flight = 0
        self.row_latency, self.latency = Histogram(), Histogram()
        calls = [self.environment.process(self.call()) for _ in range(clients)]
        self.environment.process(self.sample())
        self.environment.run(simpy.AllOf(self.environment, calls))
        self.close_row()

    def travel(self, reply, value):
        """An answer on its way; nobody may be waiting for it any longer."""
        delay = abs(self.chance.gauss(0.010, 0.002))
        arrival = self.environment.timeout(delay)
        arrival.callbacks.append(lambda _: reply.succeed(value))

    def ask(self, seen):
        """A request on its way; the event is its answer."""
        reply = self.environment.event()
        delay = abs(self.chance.gauss(0.010, 0.002))
        arrival = self.environment.timeout(delay)
        arrival.callbacks.append(lambda _: self.store.inbox.put((seen, reply)))
        return reply

    def attempt(self, deadline):
        """True if the write was made; None if there was no time."""
        timeout = self.environment.timeout(ATTEMPT_TIMEOUT)
        seen = None
        while True:
            reply = self.ask(seen)
            yield reply | timeout | deadline
            if not reply.triggered:
                return None
            if seen is not None:
                return reply.value
            seen = reply.value

    def call(self):
        began = self.environment.now
        self.row["calls"] += 1
        deadline = self.environment.timeout(DEADLINE)
        attempt = 0
        while True:
            self.row["retries" if attempt else "first"] += 1
            self.in_flight += 1
            won = yield from self.attempt(deadline)
            self.in_flight -= 1
            if won:
                break
            if won is None:
                self.row["timeouts"] += 1
            attempt += 1
            wait = self.chance.uniform(0, min(CAP, BASE * 2**attempt))
            if deadline.processed or self.environment.now + wait > began + DEADLINE:
                self.row["failures"] += 1
                return
            yield self.environment.timeout(wait)
        self.row["successes"] += 1
        took = self.environment.now - began
        self.row_latency.add(took)
        self.latency.add(took)

    def sample(self):
        while True:
            yield self.environment.timeout(BUCKET)
            self.close_row()

    def close_row(self):
        self.row["queue"] = len(self.store.inbox.items)
        self.row["in_flight"] = self.in_flight
        self.rows.append((dict(self.row), self.row_latency.quantiles(0.5, 0.99, 0.999)))
        self.row, self.row_latency = Counter(), Histogram()


clients, runs = int(sys.argv[1]), int(sys.argv[2])
began = time.process_time()
calls, events = [], 0
for seed in range(runs):
    world = World(clients, seed)
    quantiles = world.latency.quantiles(0.5, 0.99, 0.999)
    assert world.store.version == clients and len(quantiles) == 3 and world.rows
    calls.append(world.store.writes)
    # Everything that was ever scheduled has a number.
    events += next(world.environment._eid)
took = time.process_time() - began
print(json.dumps({"cpu_s": took, "events": events, "calls": calls}))
