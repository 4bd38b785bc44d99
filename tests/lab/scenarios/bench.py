# SPDX-License-Identifier: Apache-2.0
"""scripts/bench rdma on existing devices: each row has a ratio, and reports no speed of a software device.
The open loop is skipped if the counters of two cores cannot be compared, as on an emulated processor."""
import json
import math

from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 90
ROWS = ["rdma/record/one", "rdma/record/known", "rdma/notice", "rdma/bulk/1024"]


def run(lab):
    devices = [host.rxe for host in lab.hosts[:2] if host.guest is lab.host(1).guest]
    names = ROWS if "nonstop_tsc" in lab.host(1).run("cat /proc/cpuinfo") else [*ROWS, "open"]
    printed = lab.host(1).run(f"$SOURCE/scripts/bench --tiny --build $BUILD --device {','.join(devices)} "
                              f"--json $OUT/bench.json {' '.join(names)}")
    if ("open: skipped" in printed) != ("open" in names):
        raise Failed(f"open loop: found a skip where a run was expected, or the reverse:\n{printed}")
    rows = json.loads((lab.topology.folder / "bench.json").read_text())["results"]
    if [row["name"] for row in rows] != ROWS:
        raise Failed(f"found {rows}, expected rows {ROWS}")
    for row in rows:
        if not (math.isfinite(row["ratio"]) and row["ratio"] > 0) or row["holds"] is None:
            raise Failed(f"no ratio that is judged: {row}")
        software = "software" in row["more"]
        if software and any(row[key] is not None for key in ("value", "yardstick_value", "range")):
            raise Failed(f"a speed of a software device: {row}")
