# SPDX-License-Identifier: Apache-2.0
"""pubd killed: told within the bound over every fabric, and its successor is found and read from its start."""
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    scene = failures.Scene(lab)
    when = scene.pubd.signal("KILL")
    scene.all_told("stale", when)
    scene.pubd = scene.publish()
    for reader in scene.readers.values():
        restart = reader.sees("restart")
        if restart["epoch"] == restart["old_epoch"]:
            raise Failed(reader.process.words("the epoch is the old one"))
    scene.all_read_on()
    scene.end()
