# SPDX-License-Identifier: Apache-2.0
"""What a run of scripts/bench knows, and how it measures: programs, rows, settings."""
import json
import os
import pathlib
import platform
import statistics
import sys

import against
import children

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETTINGS = ("local", "checked")
RINGS = {"256k": 256 << 10, "8m": 8 << 20, "64m": 64 << 20}
BATCH = 64
# These bounds are minima, others maxima.
AT_LEAST = ("limit/throughput", "itch/rate", "itch/against", "rdma/bulk", "rdma/image")


class Failed(Exception):
    pass


class Session:
    def __init__(self, options, build):
        self.options, self.build = options, build
        self.cores = len(os.sched_getaffinity(0))
        self.comparable = counters_agree()
        self.rows = []
        self.thrown = {"away": 0, "moved": 0}  # runs, by the reason
        self.clock_ns = None  # what reading the clock costs
        self.notes = {}  # of the run, for --json: what was left out, versions of peers
        self.theirs = self.their_build = self.their_commit = None
        if options.against:
            progress(f"builds {options.against}")
            self.their_commit, self.their_build = against.build(ROOT, options.against)
            self.theirs = against.environment(build, self.their_build)  # in which their library is used
        self.environment = dict(os.environ)
        if options.realtime:
            self.environment["TICKBUS_BENCH_REALTIME"] = "1"

    def wanted(self, name):
        """Whether a row is wanted, or any row of a part: joins is measured for the sake of joins/many."""
        return not self.options.names or any(
            name.startswith(asked) or asked.startswith(f"{name}/") for asked in self.options.names)

    def chosen(self, name):
        """Whether the name of a row begins with a name on the command line."""
        return not self.options.names or any(name.startswith(asked) for asked in self.options.names)

    def wanted_part(self, first):
        """Whether rows whose names begin so may be wanted."""
        return not self.options.names or any(name.split("/")[0] == first for name in self.options.names)

    def command(self, args, environment=None):
        done = children.run(args, env={**self.environment, **(environment or {})})
        if done.returncode:
            raise Failed(f"{' '.join(map(str, args))}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def measure(self, measure, transport, payload, readers, ring=RINGS["256k"], flush=BATCH,
                lossless=False, environment=None, wrap=(), ms=None):
        """One run of the measuring program, in its own folder."""
        with children.folder(memory_folder()) as folder:
            printed = self.command([*wrap, self.build / "bench/tickbus-bench", folder, measure,
                                    transport, payload, readers, ms or self.options.ms, ring, flush,
                                    *["lossless"] * lossless], environment)
        return json.loads(printed)

    def row(self, name, unit, values, yardstick=None, yardsticks=None, bound=None, more=""):
        """Adds a row; yardsticks are the values of the same rounds."""
        row = {"name": name, "value": statistics.median(values), "unit": unit,
               "yardstick": yardstick, "ratio": None, "bound": bound, "holds": None,
               "least": name.startswith(AT_LEAST), "range": [min(values), max(values)], "rounds": len(values),
               "more": more}
        judged = row["value"]
        if yardsticks:  # a yardstick of 0 never ran on its core: the round is invalid for this row
            ratios = [value / other for value, other in zip(values, yardsticks) if other > 0]
            if not ratios:
                raise Failed(f"{name}: the {yardstick} was 0 in every round")
            judged = row["ratio"] = statistics.median(ratios)
            row["yardstick_value"] = statistics.median(yardsticks)
            row["ratio_range"] = [min(ratios), max(ratios)]
        if bound is not None:
            row["holds"] = judged >= bound if row["least"] else judged <= bound
        self.rows.append(row)

    def in_a_folder(self, program, *args, environment=None, named=False):
        """What a program measured, in a folder of its own, which is its first argument if it is to be named."""
        with children.folder() as folder:
            return json.loads(self.command([self.build / program, *[folder] * named, *args],
                                           {"TICKBUS_RUNTIME_DIR": str(folder), **(environment or {})}))


def counters_agree():
    """Whether the counters of two cores can be compared."""
    if platform.machine() != "x86_64":
        return True  # other machines use the kernel's clock
    words = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    return {"constant_tsc", "nonstop_tsc"} <= words


def memory_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def progress(words):
    if sys.stderr.isatty():
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)
