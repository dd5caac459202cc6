"""The contention model of occ-aws, full jitter, as SimPy processes: the least code that counts calls.

No time-outs, no server process, no series, no latencies: what one writes for a single figure.
"""

import json
import random
import sys
import time

import simpy

BASE, CAP = 0.005, 2.0


def simulate(clients, seed):
    chance = random.Random(seed)
    environment = simpy.Environment()
    store = {"version": 0, "calls": 0}

    def hop():
        return environment.timeout(abs(chance.gauss(0.010, 0.002)))

    def client():
        attempt = 0
        while True:
            yield hop()
            seen = store["version"]
            yield hop()
            yield hop()
            store["calls"] += 1
            won = seen == store["version"]
            store["version"] += won
            yield hop()
            if won:
                return
            attempt += 1
            yield environment.timeout(chance.uniform(0, min(CAP, BASE * 2**attempt)))

    for _ in range(clients):
        environment.process(client())
    environment.run()
    # Everything that was ever scheduled has a number.
    return store["calls"], next(environment._eid)


clients, runs = int(sys.argv[1]), int(sys.argv[2])
began = time.process_time()
calls, events = zip(*(simulate(clients, seed) for seed in range(runs)))
took = time.process_time() - began
print(json.dumps({"cpu_s": took, "events": sum(events), "calls": calls}))
