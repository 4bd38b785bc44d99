# SPDX-License-Identifier: Apache-2.0
"""The publisher's interface carries READs and multicast notices, and nothing else per record."""
import json

import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS = 1000
BY_RECORD = {"read request", "read response", "acknowledge", "multicast datagram"}


def run(lab):
    scene = failures.Scene(lab, kinds=("rxe",))
    reader = scene.readers["rxe"]
    tap = lab.host(1).start(f"exec python3 $SOURCE/tests/lab/capture.py {lab.host(1).interface('rxe')}")
    tap.wait_for("capturing")
    before = reader.sum()["total"]
    records = reader.reads_on(RECORDS)["total"] - before
    tap.signal("TERM")
    found = json.loads(tap.wait().splitlines()[-1])
    print(f"         {records} records: " + ", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    for what in ("read request", "read response", "multicast datagram"):
        if not found.get(what):
            raise Failed(f"not one {what}")
    other = sum(count for what, count in found.items() if what not in BY_RECORD)
    if other > records / 50:
        raise Failed(f"{other} other packets for {records} records: {found}")
    scene.end()
