# SPDX-License-Identifier: Apache-2.0
"""tickbus beside its peers: the rows of `scripts/bench --peers`.

A run measures a peer and both settings of tickbus beside each other, as bench/rings.py does. The ratio of
a row is tickbus / peer. Daemons of peers run for the time of their rows alone.
"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import time

import children
import rings
from session import SETTINGS, progress

# Measure and number of readers; throughput is lossless, as peers have back-pressure.
MEASURES = (("throughput", 1), ("publish", 0), ("publish", 1), ("latency", 1))
AERON_BOUNDS = {("throughput", 1): 1.2, ("latency", 1): 0.8, ("publish", 1): 0.5, ("publish", 0): 1.2}
AERON_PAYLOADS = (32, 64)  # of these bounds

# Beside the best peer of Debian. A latency within TRANSFER_BOUND of the two-line transfer holds beside any peer.
DEBIAN_BOUNDS = {"throughput": 5, "latency": 0.5}
TRANSFER_BOUND = 1.3

# Peer: the package whose version is shown, its name, packages to install.
DEBIAN = {
    "zmq": ("libzmq5", "ZeroMQ", "libzmq3-dev"),
    "iceoryx": ("libiceoryx-binding-c2", "iceoryx", "iceoryx and libiceoryx-binding-c-dev"),
}
NAMES = (*DEBIAN, "aeron")
ROUDI = "[general]\nversion = 1\n[[segment]]\n" + "".join(
    f"[[segment.mempool]]\nsize = {payload}\ncount = 8192\n" for payload in rings.PAYLOADS)
# Its conductor moves the writer's limit and clears what was read. It must leave the cores to the measured threads, but
# run in time if they have real-time priority. Without a pause it takes a whole core.
AERONMD = {"AERON_THREADING_MODE": "SHARED", "AERON_SHARED_IDLE_STRATEGY": "sleep-ns",
           "AERON_SHARED_IDLE_STRATEGY_INIT_ARGS": "1ms", "AERON_PUBLICATION_LINGER_TIMEOUT": "100ms"}
AERONMD_PRIORITY = 2  # measured threads have 1
START_S = 5


def names():
    return [f"peers/{peer}/{group.measure}/{group.payload}/{group.readers}/{setting}" for peer in NAMES
            for group in groups(max(count for _, count in MEASURES)) for setting in SETTINGS]


class Missing(Exception):
    pass


def program(name, folder):
    found = shutil.which(name) or (folder and shutil.which(name, path=str(pathlib.Path(folder) / "bin")))
    if not found:
        raise Missing(f"found no program {name}, expected it in PATH" + (f" or {folder}/bin" if folder else ""))
    return found


@contextlib.contextmanager
def daemon(peer, aeron, realtime):
    """Runs what a peer needs beside, stopped until it is used; yields a rings.Peer."""
    if peer not in ("iceoryx", "aeron"):
        yield rings.Peer({}, None)
        return
    with children.folder("/dev/shm", "tickbus-peer-") as folder:
        start = iceoryx_start if peer == "iceoryx" else aeron_start
        command, environment, is_ready, users = start(folder, aeron, realtime)
        with open(f"{folder}/log", "w+", encoding="utf-8") as log, \
                subprocess.Popen(list(map(str, command)), env=environment, stdout=log, stderr=log) as running:
            try:
                until = time.monotonic() + START_S
                while not is_ready():
                    if running.poll() is not None or time.monotonic() > until:
                        log.seek(0)
                        raise Missing(f"the daemon of {peer} did not get ready in {START_S} s\n{log.read()}")
                    time.sleep(0.01)
                running.send_signal(signal.SIGSTOP)
                yield rings.Peer(users, running)
            finally:
                running.send_signal(signal.SIGCONT)
                children.end(running)


def iceoryx_start(folder, _aeron, _realtime):
    settings = folder / "roudi.toml"
    settings.write_text(ROUDI)
    return ([program("iox-roudi", None), "-c", settings], None, lambda: "ready" in (folder / "log").read_text(), {})


def aeron_start(folder, aeron, realtime):
    ready = folder / "aeron/cnc.dat"
    users = {"TICKBUS_BENCH_AERON": str(ready.parent), "LD_LIBRARY_PATH": str(aeron / "lib")}
    priority = ["chrt", "-f", AERONMD_PRIORITY] if realtime else []
    return ([*priority, program("aeronmd", aeron)], {**os.environ, **users, **AERONMD, "AERON_DIR": str(ready.parent)},
            ready.exists, users)


def measure(session):
    """The rows of all peers, if they are asked for."""
    options = session.options
    if not options.peers or not session.wanted_part("peers"):
        return
    found = session.measure("peers", "none", 32, 0)
    measured, all_rows = rings.Rings(session), []
    for peer in expect_build(found, options.names, options.aeron):
        session.notes.setdefault("peers", []).append(version(peer, options.aeron))
        print(session.notes["peers"][-1])
        with daemon(peer, options.aeron, options.realtime) as beside:
            for found_row in rows(measured, peer, beside, session.wanted):
                all_rows.append(found_row)
                progress(found_row["name"])
    judge_best(all_rows)
    session.rows += all_rows


def wanted_peers(names):
    """Those that begin with one of the names of rows, or all."""
    return [peer for peer in NAMES if not names or any(
        f"peers/{peer}/".startswith(name) or name.startswith(f"peers/{peer}/") for name in names)]


def expect_build(found, names, aeron):
    """The peers to measure. found: what the measuring program was built with."""
    wanted = [peer for peer in wanted_peers(names) if peer != "aeron" or aeron]
    if aeron and "aeron" in wanted and "aeron" not in found:
        raise Missing("found a build without Aeron, expected `meson configure -Daeron=FOLDER` of it")
    here = [peer for peer in wanted if peer in found]
    if not here:
        raise Missing("found no peer, expected " + ", or ".join(
            [DEBIAN[peer][2] for peer in wanted if peer in DEBIAN] or ["--aeron FOLDER"]))
    return here


def groups(readers):
    for measure, count in MEASURES:
        if count > readers:
            continue
        for payload in rings.PAYLOADS:
            yield rings.Group(measure, payload, rings.DEFAULT_RING, count, lossless=measure == "throughput")


def rows(measured, peer, beside, wanted):
    """The rows of a peer. measured: rings.Rings; beside: rings.Peer."""
    for group in groups(measured.cores - 1):
        names = {setting: f"peers/{peer}/{group.measure}/{group.payload}/{group.readers}/{setting}"
                 for setting in SETTINGS}
        if not any(map(wanted, names.values())):
            continue
        runs, enough = measured.runs(group, {peer: beside})
        for setting, name in names.items():
            if wanted(name):
                yield row(name, peer, group, setting, runs, enough, measured.cores)


def row(name, peer, group, setting, runs, enough, cores):
    more_is_better = group.measure in rings.MORE_IS_BETTER
    worst = min if more_is_better else max
    ours, theirs = ([r[what, False]["value"] for r in runs] for what in (setting, peer))
    pairs = [a / b for a, b in zip(ours, theirs) if b > 0]
    if not pairs:
        return rings.row_without_runs(name, group)
    bound = AERON_BOUNDS[group.measure, group.readers] if peer == "aeron" and group.payload in AERON_PAYLOADS else None
    ratio, beside = statistics.median(pairs), rings.summary(theirs, worst)
    found = {"name": name, "unit": rings.UNITS[group.measure], **rings.summary(ours, worst), "yardstick": peer,
             "yardstick_value": beside["value"], "beside": {peer: beside}, "ratio": ratio,
             "ratio_range": [min(pairs), max(pairs)], "bound": bound,
             "holds": None if bound is None else ratio >= bound if more_is_better else ratio <= bound,
             "least": more_is_better, "rounds": len(runs), "counts": enough, "cores": rings.cores_words(runs, cores),
             "steady": None, "more": ""}
    if group.measure == "latency":
        found["of_transfer"] = statistics.median(a / r["transfer"] for a, r in zip(ours, runs))
        found["more"] = f"{found['of_transfer']:.2f} of the transfer"
    return found


def judge_best(rows_of_all):
    """Gives the rows of the best peer of Debian their bounds, where all of them were measured."""
    beside = {}
    for found in rows_of_all:
        _, peer, measure, payload, _, setting = found["name"].split("/")
        if peer in DEBIAN and measure in DEBIAN_BOUNDS and found["ratio"] is not None:
            beside.setdefault((measure, payload, setting), []).append(found)
    for (measure, _, _), several in beside.items():
        if len(several) < len(DEBIAN):
            continue
        more_is_better = measure in rings.MORE_IS_BETTER
        best = (max if more_is_better else min)(several, key=lambda found: found["yardstick_value"])
        best["bound"] = DEBIAN_BOUNDS[measure]
        best["holds"] = (best["ratio"] >= best["bound"] if more_is_better else
                         best["ratio"] <= best["bound"] or best["of_transfer"] <= TRANSFER_BOUND)
        best["more"] = ", ".join(filter(None, [best["more"], "the best peer of Debian"]))


def version(peer, aeron):
    """What a peer is, for the table."""
    if peer == "aeron":
        library = ctypes.CDLL(str(aeron / "lib/libaeron.so"))
        library.aeron_version_full.restype = ctypes.c_char_p
        return f"Aeron: {library.aeron_version_full().decode()}"
    package, name, _ = DEBIAN[peer]
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return f"{name} {done.stdout.strip() or 'of unknown version'}"
