# SPDX-License-Identifier: Apache-2.0
"""scripts/bench rdma on the lab's devices: each row has a ratio, and no speed of a software device is printed. The
open loop is skipped on processors whose counters cannot be compared, such as emulated processors."""
import json
import math

from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 90
ROWS = ["rdma/record/one", "rdma/record/known", "rdma/notice", "rdma/bulk/1024", "rdma/image/64"]


def run(lab):
    devices = [host.rxe for host in lab.hosts[:2] if host.guest is lab.host(1).guest]
    names = ROWS if "nonstop_tsc" in lab.host(1).run("cat /proc/cpuinfo") else [*ROWS, "open"]
    printed = lab.host(1).run(f"$SOURCE/scripts/bench --tiny --build $BUILD --device {','.join(devices)} "
                              f"--json $OUT/bench.json {' '.join(names)}")
    if ("left out" in printed) != ("open" in names):
        raise Failed(f"expected the open loop {'left out' if 'open' in names else 'unmentioned'}:\n{printed}")
    rows = json.loads((lab.topology.folder / "bench.json").read_text())["results"]
    if [row["name"] for row in rows] != ROWS:
        raise Failed(f"found {rows}, expected rows {ROWS}")
    for row in rows:
        if not (math.isfinite(row["ratio"]) and row["ratio"] > 0) or row["bound"] is None:
                raise Failed(f"found a row without a ratio and a bound: {row}")
        software = "software" in row["more"]
        if software and any(row[key] is not None for key in ("value", "yardstick_value", "range")):
            raise Failed(f"a speed of a software device: {row}")
