# SPDX-License-Identifier: Apache-2.0
"""A subscriber that stands still on one host: one on another host loses nothing, it itself is told the exact gap."""
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
SLOTS = 512


def run(lab):
    scene = failures.Scene(lab, kinds=("rxe", "siw"), slots=SLOTS, rate=500)
    slow, fast = scene.readers["rxe"], scene.readers["siw"]
    slow.process.signal("STOP")
    fast.reads_on(3 * SLOTS)
    slow.process.signal("CONT")
    slow.reads_on()
    if slow.end()["lost"] < SLOTS:
        raise Failed(slow.process.words("it lost nothing: it was not slow"))
    del scene.readers["rxe"]
    scene.end(lost=0)
