#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one tiny round of scripts/bench and looks at the form of its JSON; judges no speed.

  runs.py SCRIPT BUILD
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

KEYS = {"name": str, "value": (int, float), "unit": str, "yardstick": (str, type(None)),
        "ratio": (int, float, type(None)), "bound": (int, float, type(None)),
        "holds": (bool, type(None))}


def main(script, build):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        subprocess.run([script, "--tiny", "--build", build, "--json", path, "limit", "publish/64",
                        "throughput/256/checked/1", "latency/64", "idle"], check=True)
        found = json.loads(path.read_text())
    names = [row["name"] for row in found["results"]]
    assert names and len(names) == len(set(names)), names
    assert "publish/64/checked/0" in names and "idle/pubd" in names, names
    for row in found["results"]:
        for key, kind in KEYS.items():
            assert isinstance(row[key], kind), (key, row)
        assert math.isfinite(row["value"]), row
        assert (row["holds"] is None) == (row["bound"] is None), row
        assert (row["ratio"] is None) == (row["yardstick"] is None), row
    wrong = subprocess.run([script, "--build", build, "nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "found nonsense, expected" in wrong.stderr, wrong


main(*sys.argv[1:])
