#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a tiny round of scripts/bench and checks the form of its JSON, not its speed. Stops measuring programs for a
while, which must show in their output.

  runs.py SCRIPT BUILD
"""
import json
import math
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

KEYS = {"name": str, "value": (int, float), "unit": str, "yardstick": (str, type(None)),
        "ratio": (int, float, type(None)), "bound": (int, float, type(None)),
        "holds": (bool, type(None))}
STALL_S = 0.3
MEASURE_MS = 1500  # of which the stall is a fifth
SIGN = slice(128, 136)  # nonzero once measuring has begun: the phase of the desk, or the time watched so far


def stalled(build, measure, transport, file):
    """The output of a program that was stopped while it measured, which its shared file shows."""
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([f"{build}/bench/tickbus-bench", folder, measure, transport, "32", "1",
                               str(MEASURE_MS)], stdout=subprocess.PIPE, text=True) as running:
            path = pathlib.Path(folder) / file
            while not path.exists() or not any(path.read_bytes()[SIGN]):
                assert running.poll() is None, f"{measure} ended before it was stopped"
                time.sleep(0.001)
            running.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, running.pid, os.WSTOPPED)
            time.sleep(STALL_S)
            running.send_signal(signal.SIGCONT)
            printed = running.stdout.read()
        assert running.returncode == 0, (measure, running.returncode)
    return json.loads(printed)


def stalls(build):
    """A stopped writer delays all messages due meanwhile. A stopped core shows as a gap."""
    for transport in ("bare", "checked"):
        found = stalled(build, "open", transport, "desk")
        assert found["longest"] >= STALL_S * 1e9 * 0.99, found
        assert found["p99"] >= STALL_S * 1e9 / 2, found
    found = stalled(build, "hiccups", "none", "hiccups")
    assert found["longest"] >= STALL_S * 1e9 * 0.99 and found["value"] > 10, found


def main(script, build):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        subprocess.run([script, "--tiny", "--build", build, "--json", path, "limit", "publish/32/8m", "publish/64/256k",
                        "throughput/256/8m/batch/lossless/checked/1", "latency/64", "open/256", "batches", "joins",
                        "images", "get", "conflate", "topics/16", "merge", "idle"], check=True)
        found = json.loads(path.read_text())
    names = [row["name"] for row in found["results"]]
    assert names and len(names) == len(set(names)), names
    assert {"publish/32/8m/batch/checked/0", "publish/32/8m/each/local/0", "limit/clock", "batches/local",
            "joins/again/idle", "joins/many", "images/image", "get/64", "conflate/100000/250ms/bytes",
            "topics/16/rest", "topics/16/busy", "merge/4/each", "merge/4/runs", "idle/pubd"} <= set(names), names
    many = len(os.sched_getaffinity(0)) > 1  # a single core allows no measurement between two cores
    assert not many or {"limit/hiccups", "latency/64/local"} <= set(names), names
    assert {name for name in names if name.startswith("open")} == (
        {"open/256/local", "open/256/checked"} if many and counters_agree() else set()), names
    for row in found["results"]:
        for key, kind in KEYS.items():
            assert isinstance(row[key], kind), (key, row)
        assert math.isfinite(row["value"]), row
        assert (row["holds"] is None) == (row["bound"] is None), row
        assert (row["ratio"] is None) == (row["yardstick"] is None), row
    wrong = subprocess.run([script, "--build", build, "nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "found nonsense, expected" in wrong.stderr, wrong
    if many and counters_agree():
        stalls(build)


def counters_agree():
    return platform.machine() != "x86_64" or "nonstop_tsc" in pathlib.Path("/proc/cpuinfo").read_text()


main(*sys.argv[1:])
