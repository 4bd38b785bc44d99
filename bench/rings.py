# SPDX-License-Identifier: Apache-2.0
"""The rows of rings: publish, caught, throughput, latency and open, each in many short runs.

A run measures all transports of a row beside each other, in drawn order. They are the yardsticks, this build and, if
asked, another build of the library. The machine is looked at before and after. A run is thrown away if the cores
were away for HICCUPS percent of the time, or if they moved apart.
"""
import contextlib
import dataclasses
import random
import signal
import statistics
import subprocess

from session import BATCH, RINGS, SETTINGS, progress

PAYLOADS = (32, 64, 256)
DEFAULT_RING = "8m"  # 65,536 slots of 128 bytes; tickbus's default number of slots
HICCUPS = 3.0  # percent
MOVED = 1.3
FAR_NS = 200  # one way between two cores; nearer cores share a cache
READERS_MAX = 3
STEADY = 0.5  # of the median, which the worst run of a throughput row must reach
UNITS = {"publish": "ns", "caught": "ns", "throughput": "M/s", "latency": "ns", "open": "ns"}
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
        if self.measure == "caught":
            words.append(self.ring)
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
        """The bound of the ratio, or None."""
        local = setting == "local"
        if self.measure == "latency":
            return 1.05 if local else 1.25
        if self.measure == "caught":
            return 1.0
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
        if self.payload == 256:
            return None if local else 2.2
        return 1.2 if local else 1.8


def groups(cores, comparable):
    """All groups that this machine can measure."""
    readers = min(READERS_MAX, cores - 1)
    for payload in PAYLOADS:
        for ring in RINGS:
            flushes = (BATCH, 1) if ring == DEFAULT_RING else (BATCH,)
            if readers:
                yield Group("caught", payload, ring, 1)
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
    """Sentences that say which rows this machine lacks."""
    if cores - 1 < READERS_MAX:
        yield f"{cores} processors: rows with more than {max(cores - 1, 0)} subscribers are left out"
    if cores > 1 and not comparable:
        yield "open is left out: the processor lacks constant_tsc or nonstop_tsc"


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer that is ready: the environment of its users, and its daemon, which is stopped while it is unused."""
    environment: dict
    process: subprocess.Popen

    @contextlib.contextmanager
    def used(self):
        if self.process:
            self.process.send_signal(signal.SIGCONT)
        try:
            yield self.environment
        finally:
            if self.process:
                self.process.send_signal(signal.SIGSTOP)


def wanted_groups(session):
    return [group for group in groups(session.cores, session.comparable)
            if any(session.wanted(group.name(setting)) for setting in SETTINGS)]


def rows(session):
    """All wanted rows of rings, after the limits."""
    wanted = wanted_groups(session)
    if not any(session.wanted(group.name(setting)) for group in groups(READERS_MAX + 1, True) for setting in SETTINGS):
        return
    session.notes["left_out"] = list(left_out(session.cores, session.comparable))
    for words in session.notes["left_out"]:
        print(words)
    measured = Rings(session)
    for turn, group in enumerate(wanted):
        progress(f"{group.name('...')}: {turn + 1} of {len(wanted)}, {sum(session.thrown.values())} runs thrown away")
        session.rows += measured.rows(group)


class Rings:
    """Measures groups."""

    def __init__(self, session):
        self.session, self.measure, self.cores = session, session.measure, session.cores
        self.wanted_runs, self.check = session.options.runs, not session.options.tiny
        self.against = session.theirs  # the environment in which the other build's library is used

    def machine(self):
        """Time between two cores one way, and the share of time that the cores were away."""
        if self.cores < 2:
            return {"transfer": 0.0, "hiccups": 0.0}
        readers = min(READERS_MAX, self.cores - 1)
        return {name: self.measure(name, "none", 32, readers, ms=LOOK_MS)["value"] for name in ("transfer", "hiccups")}

    def run(self, group, peers):
        """(a short run of all transports, "") or (None, why it is thrown away). peers: name and Peer."""
        asked = [(name, None) for name in (*(peers or group.yardsticks()), *SETTINGS)]
        if self.against and not peers:
            asked += [(name, self.against) for name in SETTINGS]
        random.shuffle(asked)
        before = self.machine()
        found = {}
        for name, environment in asked:
            with peers[name].used() if name in peers else contextlib.nullcontext(environment) as used:
                found[name, environment is not None] = self.measure(
                    group.measure, name, group.payload, group.readers, RINGS[group.ring], group.flush,
                    group.lossless, environment=used)
        after = self.machine()
        near, far = sorted((before["transfer"], after["transfer"]))
        if self.check and max(before["hiccups"], after["hiccups"]) > HICCUPS:
            return None, "away"
        if self.check and far > MOVED * near:
            return None, "moved"
        found["transfer"] = (near + far) / 2
        return found, ""

    def runs(self, group, peers={}):
        """(good runs, whether they are enough). peers are measured instead of the yardsticks."""
        good = []
        for _ in range(4 * self.wanted_runs):
            found, why = self.run(group, peers)
            if found is None:
                self.session.thrown[why] += 1
                continue
            good.append(found)
            if len(good) == self.wanted_runs:
                return good, True
        return good, False

    def rows(self, group):
        """The rows of a group."""
        settings = [s for s in SETTINGS if self.session.wanted(group.name(s))]
        runs, enough = self.runs(group)
        if not runs:
            for setting in settings:
                yield row_without_runs(group.name(setting), group)
            return
        for setting in settings:
            yield self.row(group, setting, runs, enough)

    def row(self, group, setting, runs, enough):
        more_is_better = group.measure in MORE_IS_BETTER
        worst = min if more_is_better else max
        values = [r[setting, False]["value"] for r in runs]
        name, bare = self.yardstick(group, runs)
        if group.measure == "publish" and group.flush == 1 and setting == "checked":
            name, bare = "bare ring and a clock", [b + self.session.clock_ns for b in bare]
        ratios = [v / b for v, b in zip(values, bare) if b > 0]
        bound = group.bound(setting) if ratios else None
        beside = {other: summary([r[other, False]["value"] for r in runs], worst) for other in group.yardsticks()}
        row = {"name": group.name(setting), "unit": UNITS[group.measure], **summary(values, worst), "yardstick": name,
               "yardstick_value": statistics.median(bare), "bare_worst": beside["bare"]["worst"], "beside": beside,
               "ratio": statistics.median(ratios) if ratios else None,
               "ratio_range": [min(ratios), max(ratios)] if ratios else None, "bound": bound, "holds": None,
               "least": more_is_better, "rounds": len(runs), "counts": enough and bool(ratios),
               "cores": cores_words(runs, self.cores), "steady": None, "more": details(group, runs, setting)}
        if bound is not None:
            row["holds"] = row["ratio"] >= bound if more_is_better else row["ratio"] <= bound
        if more_is_better:
            row["steady"] = row["worst"] >= STEADY * row["value"]
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


def thrown_words(thrown):
    """Why runs were thrown away."""
    return (f"{sum(thrown.values())} runs were thrown away: in {thrown['away']} a core was away for more than "
            f"{HICCUPS:g} % of a look, in {thrown['moved']} the cores moved apart")


def row_without_runs(name, group):
    """A row of a machine that gave no good run."""
    return {"name": name, "unit": UNITS[group.measure], "value": None, "yardstick": None, "ratio": None, "bound": None,
            "holds": None, "rounds": 0, "counts": False, "more": "no good run"}


def summary(values, worst):
    """What a row and a plot say of the short runs of a transport. worst: min or max."""
    return {"value": statistics.median(values), "worst": worst(values),
            "best": (max if worst is min else min)(values)}


def cores_words(runs, cores):
    if cores < 2:
        return "one core"
    far = sum(r["transfer"] > FAR_NS for r in runs)
    return "near" if far == 0 else "far" if far == len(runs) else f"far in {far} of {len(runs)}"


def details(group, runs, setting):
    found = [r[setting, False] for r in runs]
    if group.measure == "throughput" and not group.lossless:
        lost = [statistics.median(r[name, False]["lost"] for r in runs) for name in (setting, "bare")]
        return f"lost {lost[0]:.0%}, bare ring {lost[1]:.0%}"
    if group.measure == "caught":
        empty, distance = (statistics.median(f[key] for f in found) for key in ("empty", "distance"))
        return f"{empty:.0%} of the looks brought nothing, {distance:.0f} messages behind"
    if group.measure == "latency":
        return f"p99 {statistics.median(f['p99'] for f in found):.0f} ns"
    if group.measure == "open":
        return f"{tails(found)}; bare ring {tails([r['bare', False] for r in runs])}"
    return ""


def tails(found):
    """Medians over the runs of an open loop; lost records count as late."""
    p99, p999, lost = (statistics.median(f[key] for f in found) for key in ("p99", "p999", "lost"))
    return f"p99 {p99:.0f}, p99.9 {p999:.0f} ns" + (f", lost {lost:.2%}" if lost else "")
