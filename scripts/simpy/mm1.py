"""M/M/1 at 80 % load with SimPy's Resource: the least code that measures the mean time."""

import json
import random
import sys
import time

import simpy

SERVICE, LOAD = 0.1, 0.8


def simulate(customers):
    chance = random.Random(1)
    environment = simpy.Environment()
    server = simpy.Resource(environment)
    spent = []

    def customer():
        came = environment.now
        with server.request() as turn:
            yield turn
            yield environment.timeout(chance.expovariate(1 / SERVICE))
        spent.append(environment.now - came)

    def arrivals():
        for _ in range(customers):
            yield environment.timeout(chance.expovariate(LOAD / SERVICE))
            environment.process(customer())

    environment.process(arrivals())
    environment.run()
    return sum(spent) / len(spent), next(environment._eid)


customers = int(sys.argv[1])
began = time.process_time()
mean, events = simulate(customers)
took = time.process_time() - began
print(json.dumps({"cpu_s": took, "events": events, "calls": customers, "mean_ms": mean * 1e3}))
