# SPDX-License-Identifier: Apache-2.0
"""tickbus beside its peers: the rows of `scripts/bench --peers`.

A run measures a peer and both settings of tickbus beside each other, as bench/rings.py does. The ratio of
a row is tickbus / peer. Daemons of peers run for the time of their rows alone.
"""
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import rings

# Measure and number of readers; lossless, as peers have back-pressure. An Aeron publication without a subscriber
# refuses messages at once, so it has no row without readers.
MEASURES = (("throughput", 1), ("publish", 0), ("publish", 1), ("latency", 1))
WITHOUT_READERS = ("zmq", "iceoryx")
PAYLOADS = (32, 64, 256)
BOUNDS = {  # of the ratio to Aeron, at 32 and 64 bytes
    ("throughput", 1): 1.2, ("latency", 1): 0.8, ("publish", 1): 0.5,
}
VERSIONS = {"zmq": ("libzmq5", "libzmq"), "iceoryx": ("libiceoryx-binding-c2", "iceoryx")}
ROUDI = """[general]
version = 1
[[segment]]
[[segment.mempool]]
size = 512
count = 8192
"""
START_S = 5


class Missing(Exception):
    pass


def program(name, folder):
    found = shutil.which(name) or (folder and shutil.which(name, path=str(pathlib.Path(folder) / "bin")))
    if not found:
        raise Missing(f"found no program {name}, expected it in PATH" + (f" or {folder}/bin" if folder else ""))
    return found


@contextlib.contextmanager
def daemon(peer, aeron):
    """Runs what a peer needs beside; yields the environment of its users."""
    if peer not in ("iceoryx", "aeron"):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="tickbus-peer-", dir="/dev/shm") as folder:
        environment = dict(os.environ)
        ready = pathlib.Path(folder) / "aeron/cnc.dat"
        if peer == "iceoryx":
            settings = pathlib.Path(folder) / "roudi.toml"
            settings.write_text(ROUDI)
            command, users = [program("iox-roudi", None), "-c", settings], {}
        else:
            users = {"TICKBUS_BENCH_AERON": str(ready.parent), "LD_LIBRARY_PATH": str(pathlib.Path(aeron) / "lib")}
            # Its own thread must leave the cores to the measured threads.
            environment.update(users, AERON_DIR=str(ready.parent), AERON_THREADING_MODE="SHARED",
                               AERON_SHARED_IDLE_STRATEGY="sleep-ns")
            command = [program("aeronmd", aeron)]
        with subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as running:
            try:
                if peer == "iceoryx":
                    while "ready" not in (line := running.stdout.readline()):
                        if not line:
                            raise Missing("iox-roudi ended before it was ready")
                else:
                    until = time.monotonic() + START_S
                    while not ready.exists():
                        if running.poll() is not None or time.monotonic() > until:
                            raise Missing(f"aeronmd made no {ready}")
                        time.sleep(0.01)
                yield users
            finally:
                running.terminate()
                running.wait()


def groups(readers):
    for measure, count in MEASURES:
        if count > readers:
            continue
        for payload in PAYLOADS:
            yield rings.Group(measure, payload, rings.DEFAULT_RING, count, lossless=measure == "throughput")


def rows(measured, peer, environment, wanted):
    """The rows of a peer. measured: rings.Rings."""
    for group in groups(measured.cores - 1):
        names = {setting: f"peers/{peer}/{group.measure}/{group.payload}/{group.readers}/{setting}"
                 for setting in rings.SETTINGS}
        if not any(map(wanted, names.values())) or (group.readers == 0 and peer not in WITHOUT_READERS):
            continue
        measured.beside = {peer: environment}
        runs, enough = measured.runs(group)
        measured.beside = {}
        for setting, name in names.items():
            if wanted(name) and runs:
                yield row(name, peer, group, setting, runs, enough, measured.cores)


def row(name, peer, group, setting, runs, enough, cores):
    more_is_better = group.measure in rings.MORE_IS_BETTER
    worst = min if more_is_better else max
    ours, theirs = ([r[what, False]["value"] for r in runs] for what in (setting, peer))
    pairs = [a / b for a, b in zip(ours, theirs) if b > 0]
    far = sum(r["transfer"] > rings.FAR_NS for r in runs)
    bound = BOUNDS.get((group.measure, group.readers)) if peer == "aeron" and group.payload < 256 else None
    ratio = statistics.median(pairs) if pairs else None
    holds = None if bound is None or ratio is None else ratio >= bound if more_is_better else ratio <= bound
    return {"name": name, "unit": rings.UNITS[group.measure], "value": statistics.median(ours), "worst": worst(ours),
            "yardstick": peer, "yardstick_value": statistics.median(theirs), "yardstick_worst": worst(theirs),
            "ratio": ratio, "ratio_range": [min(pairs), max(pairs)] if pairs else None, "bound": bound,
            "holds": holds, "rounds": len(runs), "counts": enough and bool(pairs), "cores": rings.cores_words(len(runs), far, cores),
            "steady": None, "least": more_is_better, "more": ""}


def version(peer, aeron):
    """What a peer is, for the table."""
    if peer == "aeron":
        return f"Aeron of {aeron}"
    package, name = VERSIONS[peer]
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return f"{name} {done.stdout.strip()}"
