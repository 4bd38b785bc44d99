# SPDX-License-Identifier: Apache-2.0
"""The rows of rings: publish, throughput, latency and open, each in many short runs.

A run measures all transports of a row beside each other, in drawn order: the yardsticks, this build and, if
asked, another build of the library. The machine is looked at before and after: a run in which the cores
were away for HICCUPS percent of the time, or in which they moved apart, is thrown away.
"""
import dataclasses
import random
import statistics

PAYLOADS = (32, 64, 256)
SETTINGS = ("local", "checked")
RINGS = {"256k": 256 << 10, "8m": 8 << 20, "64m": 64 << 20}
DEFAULT_RING = "8m"  # 65,536 slots of 128 bytes; tickbus's default number of slots
BATCH = 64
HICCUPS = 3.0  # percent
MOVED = 1.3
FAR_NS = 200  # one way between two cores; nearer cores share a cache
READERS_MAX = 3
UNITS = {"publish": "ns", "throughput": "M/s", "latency": "ns", "open": "ns"}
MORE_IS_BETTER = ("throughput",)
LOOK_MS = 15  # of the machine, before and after


@dataclasses.dataclass(frozen=True)
class Group:
    """What is measured in the same runs; its rows differ in the setting."""
    measure: str
    payload: int
    ring: str
    readers: int
    flush: int = BATCH
    lossless: bool = False

    def name(self, setting):
        words = [self.measure, self.payload]
        if self.measure in ("publish", "throughput"):
            words += [self.ring, "each" if self.flush == 1 else "batch"]
        if self.measure == "throughput":
            words.append("lossless" if self.lossless else "free")
        words.append(setting)
        if self.measure in ("publish", "throughput"):
            words.append(self.readers)
        return "/".join(map(str, words))

    def yardsticks(self):
        return ("bare",) if self.measure == "open" else ("bare", "log")

    def bound(self, setting):
        """(bound of the ratio, what the yardstick is), or None."""
        local = setting == "local"
        if self.measure == "latency":
            return 1.05 if local else 1.25
        if self.ring != DEFAULT_RING:
            return None
        if self.measure == "throughput" and self.lossless and self.flush == BATCH:
            return 1.0 if local else 0.8
        if self.measure != "publish":
            return None
        if self.flush == 1:
            return (2.0 if local else 3.0) if self.readers == 0 else None
        if self.readers:
            return 1.0
        return 2.2 if self.payload == 256 and not local else None if self.payload == 256 else 1.2 if local else 1.8


def groups(cores, comparable):
    """All groups that this machine can measure."""
    readers = min(READERS_MAX, cores - 1)
    for payload in PAYLOADS:
        for ring in RINGS:
            flushes = (BATCH, 1) if ring == DEFAULT_RING else (BATCH,)
            for flush in flushes:
                for count in range(readers + 1):
                    yield Group("publish", payload, ring, count, flush)
                    if count:
                        yield Group("throughput", payload, ring, count, flush, True)
                        yield Group("throughput", payload, ring, count, flush, False)
        if readers:
            yield Group("latency", payload, DEFAULT_RING, 1)
            if comparable:
                yield Group("open", payload, DEFAULT_RING, 1)


def left_out(cores, comparable):
    """What this machine cannot measure, in words."""
    if cores - 1 < READERS_MAX:
        yield f"{cores} processors: rows with more than {max(cores - 1, 0)} subscribers are left out"
    if cores > 1 and not comparable:
        yield "open is left out: the processor lacks constant_tsc or nonstop_tsc"


class Rings:
    """Measures groups; `measure` runs the measuring program and returns what it printed."""

    def __init__(self, measure, cores, runs, check, against=None):
        self.measure, self.cores, self.wanted_runs, self.check = measure, cores, runs, check
        self.against = against  # the environment in which the other build's library is used
        self.beside = {}  # transports that are measured beside, with their environments
        self.thrown = 0

    def machine(self):
        """Time between two cores one way, and the share of time that the cores were away."""
        if self.cores < 2:
            return {"transfer": 0.0, "hiccups": 0.0}
        readers = min(READERS_MAX, self.cores - 1)
        return {name: self.measure(name, "none", 32, readers, ms=LOOK_MS)["value"] for name in ("transfer", "hiccups")}

    def run(self, group):
        """One short run of all transports; None if the machine was not steady."""
        asked = [(name, None) for name in (*group.yardsticks(), *SETTINGS)]
        asked += [(name, None) for name in self.beside]
        if self.against:
            asked += [(name, self.against) for name in SETTINGS]
        random.shuffle(asked)
        before = self.machine()
        found = {}
        for name, environment in asked:
            found[name, environment is not None] = self.measure(
                group.measure, name, group.payload, group.readers, RINGS[group.ring], group.flush,
                group.lossless, environment=environment or self.beside.get(name))
        after = self.machine()
        near, far = sorted((before["transfer"], after["transfer"]))
        if self.check and (max(before["hiccups"], after["hiccups"]) > HICCUPS or far > MOVED * near):
            return None
        found["transfer"] = (near + far) / 2
        return found

    def runs(self, group):
        """Enough good runs, or (runs, False) if the machine did not give them."""
        good = []
        for _ in range(4 * self.wanted_runs):
            found = self.run(group)
            if found is None:
                self.thrown += 1
                continue
            good.append(found)
            if len(good) == self.wanted_runs:
                return good, True
        return good, False

    def rows(self, group, wanted, clock_ns):
        """The rows of a group. clock_ns: what reading the clock costs, for records that are flushed one by one."""
        settings = [s for s in SETTINGS if wanted(group.name(s))]
        if not settings:
            return
        runs, enough = self.runs(group)
        if not runs:
            for setting in settings:
                yield {"name": group.name(setting), "unit": UNITS[group.measure], "value": None, "counts": False}
            return
        for setting in settings:
            yield self.row(group, setting, runs, enough, clock_ns)

    def row(self, group, setting, runs, enough, clock_ns):
        more_is_better = group.measure in MORE_IS_BETTER
        worst = min if more_is_better else max
        values = [r[setting, False]["value"] for r in runs]
        name, bare = self.yardstick(group, runs)
        if group.measure == "publish" and group.flush == 1 and setting == "checked":
            name, bare = "bare ring and a clock", [b + clock_ns for b in bare]
        ratios = [v / b for v, b in zip(values, bare) if b > 0]
        bound = group.bound(setting) if ratios else None
        far = sum(r["transfer"] > FAR_NS for r in runs)
        row = {"name": group.name(setting), "unit": UNITS[group.measure], "value": statistics.median(values),
               "worst": worst(values), "yardstick": name, "yardstick_value": statistics.median(bare),
               "yardstick_worst": worst(bare), "ratio": statistics.median(ratios) if ratios else None,
               "ratio_range": [min(ratios), max(ratios)] if ratios else None, "bound": bound, "holds": None,
               "rounds": len(runs), "counts": enough and bool(ratios), "cores": cores_words(len(runs), far, self.cores),
               "steady": None, "more": details(group, runs, setting)}
        if bound is not None:
            row["holds"] = row["ratio"] >= bound if more_is_better else row["ratio"] <= bound
        if more_is_better:
            row["steady"] = row["worst"] >= row["value"] / 2
        if self.against:
            pairs = [r[setting, False]["value"] / r[setting, True]["value"] for r in runs if r[setting, True]["value"]]
            if pairs:
                row["against"] = statistics.median(pairs)
                row["against_range"] = [min(pairs), max(pairs)]
        return row

    def yardstick(self, group, runs):
        """The better of the two for throughput, else the bare ring."""
        values = {name: [r[name, False]["value"] for r in runs] for name in group.yardsticks()}
        names = {"bare": "bare ring", "log": "log"}
        best = "bare"
        if group.measure == "throughput" and statistics.median(values["log"]) > statistics.median(values["bare"]):
            best = "log"
        return names[best], values[best]


def cores_words(runs, far, cores):
    if cores < 2:
        return "one core"
    return "near" if far == 0 else "far" if far == runs else f"far in {far} of {runs}"


def details(group, runs, setting):
    found = [r[setting, False] for r in runs]
    if group.measure == "throughput" and not group.lossless:
        lost = [statistics.median(r[name, False]["lost"] for r in runs) for name in (setting, "bare")]
        return f"lost {lost[0]:.0%}, bare ring {lost[1]:.0%}"
    if group.measure == "latency":
        return f"p99 {statistics.median(f['p99'] for f in found):.0f} ns"
    if group.measure == "open":
        return f"{tails(found)}; bare ring {tails([r['bare', False] for r in runs])}"
    return ""


def tails(found):
    """Medians over the runs of an open loop; lost records count as late."""
    p99, p999, lost = (statistics.median(f[key] for f in found) for key in ("p99", "p999", "lost"))
    return f"p99 {p99:.0f}, p99.9 {p999:.0f} ns" + (f", lost {lost:.2%}" if lost else "")
