# SPDX-License-Identifier: Apache-2.0
"""The machine's own limits, and what the bare ring makes of them."""
import random
import statistics

import rings
from session import progress

LIMITS = {  # the machine's own limits: unit
    "transfer": "ns", "stream": "M/s", "hiccups": "%", "clock": "ns",
}
LIMIT_ROWS = (  # row, measure of the bare ring, the machine's limit, bound: beyond it the yardstick is poor
    ("limit/latency", ("latency", "bare", 32, 1), "transfer", 1.5),
    ("limit/throughput", ("throughput", "bare", 32, 1), "stream", 0.25),
)


def names():
    return [f"limit/{name}" for name in LIMITS] + [name for name, *_ in LIMIT_ROWS]


def rows(session):
    """Measured before the rows of rings, which need the cost of the clock."""
    if session.wanted("limit") or any(rings.wanted_groups(session)):
        session.clock_ns = limits(session)


def limits(session):
    """Returns what reading the clock costs."""
    rounds = []
    for turn in range(session.options.rounds):
        progress(f"limits: {turn + 1} of {session.options.rounds}")
        found = {}
        names = [name for name in LIMITS if session.cores > 1 or name == "clock"]
        for name in random.sample(names, len(names)):
            found[name] = session.measure(name, "none", 32, min(3, session.cores - 1))
        for name, bare, _, _ in LIMIT_ROWS if session.cores > 1 else ():
            found[name] = session.measure(bare[0], *bare[1:])
        rounds.append(found)

    def values(key):
        return [r[key]["value"] for r in rounds]

    if session.wanted("limit"):
        for name in rounds[0]:
            if name not in LIMITS:
                continue
            more = {"transfer": "two lines, one way", "stream": "lines", "clock": "clock_gettime"}.get(name, "")
            if name == "hiccups":
                longest = [r[name]["longest"] / 1000 for r in rounds]
                more = f"of the time, in gaps above 1 us; the longest {statistics.median(longest):.0f} us, " \
                       f"{min(longest):.0f} to {max(longest):.0f}"
            session.row(f"limit/{name}", LIMITS[name], values(name), more=more)
        for name, bare, limit, bound in LIMIT_ROWS if session.cores > 1 else ():
            session.row(name, rings.UNITS[bare[0]], values(name), limit, values(limit), bound, "of the bare ring")
    return statistics.median(values("clock"))
