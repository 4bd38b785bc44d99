#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a tiny round of scripts/bench and checks the form of what it writes, not its speed. Stops measuring programs for
a while, which must show in their output.

  runs.py SCRIPT BUILD
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import xml.etree.ElementTree

SETTINGS = ("local", "checked")
KEYS = {"name": str, "value": (int, float), "unit": str, "yardstick": (str, type(None)),
        "ratio": (int, float, type(None)), "bound": (int, float, type(None)),
        "holds": (bool, type(None))}
STALL_S = 0.3
UNSTEADY = ("transfer", "hiccups")
MEASURE_MS = 1500  # of which the stall is a fifth

# Parts of the shared file.
READY = slice(0, 4)
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


def ended(build):
    """A writer that waits for a reader ends when the reader was killed."""
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([f"{build}/bench/tickbus-bench", folder, "throughput", "bare", "64", "1", "60000",
                               str(8 << 20), "64", "lossless"], stderr=subprocess.PIPE, text=True) as running:
            path = pathlib.Path(folder) / "desk"
            while not path.exists() or not any(path.read_bytes()[READY]):
                assert running.poll() is None, "the writer ended before its reader"
                time.sleep(0.001)
            children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)
            said = running.stderr.read()
        assert running.returncode == 1 and "a reader ended before the writer" in said, (running.returncode, said)


def lossless(build):
    """A lossless writer without readers would wait for its whole time limit, so it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run([f"{build}/bench/tickbus-bench", folder, "throughput", "bare", "32", "0", "60", "262144", "64",
                                "lossless"], capture_output=True, text=True, timeout=60)
    assert found.returncode == 1 and "expected at least 1 reader" in found.stderr and not found.stdout, found


def rings(names, found, many):
    """All rows of a group are there, with what the short runs say."""
    expected = {f"publish/32/8m/{flush}/{setting}/0" for flush in ("batch", "each") for setting in SETTINGS}
    expected |= {f"publish/64/256k/batch/{setting}/0" for setting in SETTINGS} | {"publish/64/64m/batch/local/0"}
    if many:
        expected |= {f"caught/64/256k/{setting}" for setting in SETTINGS}
        expected |= {f"throughput/256/8m/batch/{mode}/{setting}/1" for mode in ("lossless", "free")
                     for setting in SETTINGS}
    assert expected <= set(names), expected - set(names)
    kinds = {"best", "worst", "value"}
    for row in found["results"]:
        if not row["name"].startswith(("publish", "caught", "throughput", "latency")):
            continue
        assert row["beside"].keys() == {"bare", "log"} and kinds <= row.keys(), row
        assert all(kinds == figures.keys() for figures in row["beside"].values()), row
        assert row["bare_worst"] == row["beside"]["bare"]["worst"] and row["cores"], row
        assert row["steady"] is None, row
        assert ("of the looks brought nothing" in row["more"]) == row["name"].startswith("caught"), row
    bounds = {row["name"]: row["bound"] for row in found["results"]}
    assert bounds["publish/32/8m/batch/checked/0"] == 1.8 and bounds["publish/32/8m/each/checked/0"] == 3, bounds
    # On a busy machine the yardstick may get no record in its 2 ms. There is no ratio then, and no bound.
    ratios = {row["name"]: row["ratio"] for row in found["results"]}
    name = "throughput/256/8m/batch/lossless/checked/1"
    assert not many or bounds[name] == (None if ratios[name] is None else 0.8), (bounds, ratios)
    processors = len(os.sched_getaffinity(0))
    assert processors > 3 or f"{processors} processors: rows with more than" in found["notes"]["left_out"][0], found


def refusals(script, build):
    """Wrong options are refused before anything is measured."""
    for options, status, words in (
            (["nonsense"], 2, "found nonsense, expected"), (["peers/zmq"], 2, "expected --peers beside it"),
            (["publish/99"], 2, "found row publish/99, expected after publish/ one of: 32, 64, 256"),
            (["publish/64/locl"], 2, "found row publish/64/locl, expected after publish/64/ one of: 256k, 8m, 64m"),
            (["get/64/fast"], 2, "found row get/64/fast, expected get/64"),
            (["--peers", "peers/nonsense"], 2, "found peer nonsense, expected one of: zmq, iceoryx, aeron"),
            (["--peers", "--aeron", "/nowhere"], 2, "found no lib/libaeron.so in /nowhere"),
            (["--peers", "peers/aeron"], 1, "found no peer, expected --aeron FOLDER"),
            (["--against", "nonsense", "publish"], 1, "--against: found nonsense, expected a commit"),
            (["--from", "/nowhere"], 2, "expected --report or --json beside it"),
            (["--build", "/nowhere", "get"], 1, "--build: found no bench/tickbus-bench in /nowhere"),
            (["--json", "/proc/x", "get"], 2, "--json: cannot write /proc/x: No such file or directory"),
            (["--device", "10.0.0.1", "get"], 2, "found --device, expected rdma among the names"),
            (["--rounds", "0"], 2, "found --rounds 0, expected at least 1")):
        refused(script, ["--build", build, *options], status, words)


def refused(script, options, status, words, environment=None):
    found = subprocess.run([script, *options], capture_output=True, text=True, env=environment)
    assert found.returncode == status and words in found.stderr and not found.stdout, (options, found)


def stopped(script, build):
    """SIGTERM and SIGINT end a run with its children, and remove its folders."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) == signal.SIG_IGN:  # a shell's background job inherits this
            continue
        with tempfile.TemporaryDirectory() as folder:
            with subprocess.Popen([script, "--build", build, "limit"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env=dict(os.environ, TMPDIR=folder)) as running:
                while not (begun := measuring(running.pid)):
                    assert running.poll() is None, running.communicate()
                    time.sleep(0.001)
                running.send_signal(number)
                out, err = running.communicate()
            assert running.returncode == 128 + number and not out, (running.returncode, out, err)
            assert err.count("\n") == 1 and f"stopped by {number.name}" in err, err
            left = [path for path in begun if path.exists()]
            assert not left and not os.listdir(folder), (left, os.listdir(folder))


def builds_again():
    """A build whose build.ninja an interruption took away is made again."""
    import against

    with tempfile.TemporaryDirectory() as folder:
        source, made = pathlib.Path(folder) / "source", pathlib.Path(folder) / "build"
        source.mkdir()
        (source / "meson.build").write_text("project('part')\n")
        against.configure(source, made)
        (made / "build.ninja").unlink()
        against.configure(source, made)
        assert (made / "build.ninja").exists()


def measuring(pid):
    """A script's child that measures, and its folder."""
    with contextlib.suppress(OSError):  # it has ended since
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if words[0].endswith("/tickbus-bench"):
                return [pathlib.Path(f"/proc/{child}"), pathlib.Path(words[1])]
    return []


def reports(script, found):
    """The same rows give the same files; a file that --json did not write is refused."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "run").write_text(json.dumps(found))
        (folder / "old").write_text("[]")
        options = ["--from", folder / "run", "--report", folder / "report"]
        refused(script, options, 1, "found no program gnuplot, expected package gnuplot-nox", {"PATH": "/nowhere"})
        if not shutil.which("gnuplot"):
            print("the plots are skipped: gnuplot is not installed")
            return
        old = ["--from", folder / "old", "--report", folder / "report"]
        refused(script, old, 1, "expected a file that --json wrote")
        refused(script, [*options, "--from", folder / "run"], 1, "in two files, expected it in one")
        absent = ["--from", folder / "absent", "--report", folder / "report"]
        refused(script, absent, 1, f"No such file or directory: '{folder}/absent': expected a file that --json wrote")
        written = []
        for _ in range(2):
            subprocess.run([script, *options], check=True, stdout=subprocess.DEVNULL)
            written.append({path.name: path.read_bytes() for path in (folder / "report").iterdir()})
        assert written[0] == written[1] and {"figures.md", "publish-0.svg"} <= written[0].keys(), written[0].keys()
        for name, text in written[0].items():
            assert len(text) < 40 << 10 and str(folder).encode() not in text, (name, len(text))
            if name.endswith(".svg"):
                assert xml.etree.ElementTree.fromstring(text).tag.endswith("}svg"), name
                assert f"]({name})" in written[0]["figures.md"].decode(), name
        assert "The run does not count: it is tiny." in written[0]["figures.md"].decode()
        for row in found["results"]:
            assert f"| {row['name']} |" in written[0]["figures.md"].decode(), row


def plots_leave_out_zeros():
    """The plot leaves out a transport whose core was away."""
    import report

    ran, stood = ({"value": value, "worst": value, "best": value} for value in (2.0, 0.0))
    run = {"results": [{"name": "latency/64/local", **ran, "beside": {"bare": stood, "log": ran}}]}
    assert report.points(run, *report.PLOTS["latency"][2:]).keys() == {"local", "log"}


def peers_are_judged():
    """The best peer of Debian gets the bounds; the transfer allows a latency beside any peer."""
    import peers

    def row(peer, measure, ratio, theirs):
        return {"name": f"peers/{peer}/{measure}/64/1/local", "ratio": ratio, "yardstick_value": theirs, "bound": None,
                "holds": None, "of_transfer": 1.5, "more": ""}

    rows = [row("zmq", "latency", 0.1, 30000), row("iceoryx", "latency", 0.6, 400), row("aeron", "latency", 1, 200),
            row("zmq", "throughput", 4, 12), row("iceoryx", "throughput", 30, 1)]
    peers.judge_best(rows)
    assert [r["holds"] for r in rows] == [None, False, None, False, None], rows
    rows[1]["of_transfer"] = 1.3
    peers.judge_best(rows)
    assert rows[1]["holds"], rows
    alone = [row("zmq", "latency", 0.1, 30000)]
    peers.judge_best(alone)
    assert alone[0]["holds"] is None, alone


def thrown_away(script):
    """Runs are thrown away for a reason, and a row without good runs does not count: exit status 1."""
    import rings as measured

    looks = iter(looked for looked in ((1, 9), (1, 9), (1, 0), (2, 0)) * 2)

    def measure(what, *_, **__):
        if what == "transfer":
            measure.look = next(looks)
        return {"value": {"transfer": measure.look[0], "hiccups": measure.look[1]}[what] if what in UNSTEADY else 10.0}

    session = types.SimpleNamespace(measure=measure, cores=2, theirs=None, thrown={"away": 0, "moved": 0},
                                    options=types.SimpleNamespace(runs=1, tiny=False), wanted=lambda name: True)
    rows = list(measured.Rings(session).rows(measured.Group("publish", 64, "8m", 0)))
    assert session.thrown == {"away": 2, "moved": 2} and all(row["counts"] is False for row in rows), (session, rows)
    loader = importlib.machinery.SourceFileLoader("bench_script", script)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_script", loader))
    loader.exec_module(module)
    run = {"results": rows, "tiny": False, "counts": None, "realtime": False, "thrown_because": session.thrown}
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert module.status(run) == 1 and module.status({**run, "results": []}) == 1
    for words in ("in 2 a core was away", "in 2 the cores moved apart", "or use --realtime", "found no row"):
        assert words in said.getvalue(), said.getvalue()
    assert module.status({**run, "tiny": True}) == 0
    missed = [{**row, "counts": True, "holds": False} for row in rows]
    assert module.status({**run, "results": missed}) == 0
    with contextlib.redirect_stderr(said):
        assert module.status({**run, "results": missed, "counts": False}) == 1


def exchanged(build):
    """The measuring program runs with the library of --against, and the row has the ratio of the pairs."""
    import against
    import rings as measured

    with tempfile.TemporaryDirectory() as folder:
        theirs = pathlib.Path(folder)
        (theirs / "lib").mkdir()
        for path in (pathlib.Path(build) / "lib").glob("libtickbus.so*"):
            if path.is_symlink() or path.is_file():
                shutil.copy2(path, theirs / "lib" / path.name, follow_symlinks=False)
        environment = against.environment(pathlib.Path(build), theirs)
        loaded = subprocess.run(["ldd", f"{build}/bench/tickbus-bench"], env={**os.environ, **environment},
                                capture_output=True, text=True, check=True).stdout
        assert f"=> {theirs}/lib/libtickbus.so" in loaded, loaded

    def measure(what, *_, environment=None, **__):
        return {"value": 20.0 if environment else 10.0, "lost": 0.0, "p99": 0.0}

    session = types.SimpleNamespace(measure=measure, cores=2, theirs=environment, thrown={"away": 0, "moved": 0}, clock_ns=1.0,
                                    options=types.SimpleNamespace(runs=3, tiny=True), wanted=lambda name: True)
    group = measured.Group("publish", 64, "8m", 0)
    for row in measured.Rings(session).rows(group):
        assert row["against"] == 0.5 and row["against_range"] == [0.5, 0.5] and row["ratio"] == 1, row
        assert row["rounds"] == 3 and row["holds"], row


def main(script, build):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        subprocess.run([script, "--tiny", "--build", build, "--json", path, "limit", "publish/32/8m", "publish/64/256k",
                        "publish/64/64m/batch/local/0", "caught/64/256k", "throughput/256/8m/batch", "latency/64",
                        "open/256", "batches", "joins", "memory", "images", "get", "conflate", "topics/16", "merge", "sleepers", "pubd", "idle"],
                       check=True)
        found = json.loads(path.read_text())
    assert found["tiny"] and found["counts"] is False and (found["rounds"], found["runs"], found["ms"]) == (1, 1, 2), found
    assert found["notes"]["settings"] == ["2 ms a measurement, rounds: 1, short runs: 1"], found["notes"]
    names = [row["name"] for row in found["results"]]
    assert names and len(names) == len(set(names)), names
    assert {"publish/32/8m/batch/checked/0", "publish/32/8m/each/local/0", "limit/clock", "batches/local",
            "joins/again/idle", "joins/many", "joins/crowd", "memory/100/publisher", "images/image", "get/64", "conflate/100000/250ms/bytes",
            "topics/16/rest", "topics/16/busy", "merge/4/each", "merge/4/runs", "sleepers/1000/1/wait/p50",
            "pubd/1000/alone", "pubd/1000/wait/p99", "idle/pubd"} <= set(names), names
    many = len(os.sched_getaffinity(0)) > 1  # a single core allows no measurement between two cores
    assert not many or {"limit/hiccups", "latency/64/local"} <= set(names), names
    assert {name for name in names if name.startswith("open")} == (
        {"open/256/local", "open/256/checked"} if many and counters_agree() else set()), names
    for row in found["results"]:
        for key, kind in KEYS.items():
            assert isinstance(row[key], kind), (key, row)
        assert math.isfinite(row["value"]), row
        assert row["holds"] is None and row["counts"] is False, row
        assert (row["ratio"] is None) == (not row["yardstick"] or row["yardstick_value"] == 0), row
    rings(names, found, many)
    refusals(script, build)
    reports(script, found)
    sys.path.insert(0, str(pathlib.Path(script).resolve().parent.parent / "bench"))
    import names as rows_of_all
    assert set(names) <= set(rows_of_all.ALL), set(names) - set(rows_of_all.ALL)
    plots_leave_out_zeros()
    peers_are_judged()
    exchanged(build)
    thrown_away(script)
    lossless(build)
    stopped(script, build)
    builds_again()
    if many:
        ended(build)
    if many and counters_agree():
        stalls(build)


def counters_agree():
    return platform.machine() != "x86_64" or "nonstop_tsc" in pathlib.Path("/proc/cpuinfo").read_text()


main(*sys.argv[1:])
