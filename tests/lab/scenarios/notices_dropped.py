# SPDX-License-Identifier: Apache-2.0
"""Every multicast filtered away: subscribers find all records by looking, and are never told stale."""
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
REMOTE = {"rxe": 2, "siw": 3}


def run(lab):
    scene = failures.Scene(lab, kinds=tuple(REMOTE))
    before = {kind: len(reader.events("stale")) for kind, reader in scene.readers.items()}
    for number in REMOTE.values():
        lab.host(number).deafen()
    for _ in range(3):
        scene.all_read_on()
    for kind, reader in scene.readers.items():
        if len(reader.events("stale")) != before[kind]:
            raise Failed(reader.process.words(f"over {kind}: told stale"))
    for number in REMOTE.values():
        lab.host(number).undeafen()
    scene.end()
