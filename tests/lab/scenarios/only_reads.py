# SPDX-License-Identifier: Apache-2.0
"""The publisher's interface carries READs and multicast notices, and nothing else per record."""
import json

import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS, RATE = 1000, 500
OTHER_PER_SECOND = 20  # pulses, and what the connection manager says
BY_RECORD = {"read request", "read response", "acknowledge", "multicast datagram"}


def run(lab):
    scene = failures.Scene(lab, kinds=("rxe",), rate=RATE)
    reader = scene.readers["rxe"]
    tap = lab.host(1).start(f"exec python3 $SOURCE/tests/lab/capture.py {lab.host(1).interface('rxe')}")
    tap.wait_for("capturing")
    before = reader.sum()
    after = reader.reads_on(RECORDS)
    records, seconds = after["total"] - before["total"], (after["ms"] - before["ms"]) / 1000
    tap.signal("TERM")
    found = json.loads(tap.wait().splitlines()[-1])
    lab.note(f"{records} records: " + ", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    for what in ("read request", "read response", "multicast datagram"):
        if not found.get(what):
            raise Failed(f"not one {what}")
    other = sum(count for what, count in found.items() if what not in BY_RECORD)
    if other > OTHER_PER_SECOND * (seconds + 1):
        raise Failed(f"{other} other packets for {records} records in {seconds:.1f} s: {found}")
    scene.end()
