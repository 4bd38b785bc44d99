# SPDX-License-Identifier: Apache-2.0
"""pubd killed: told within the bound over every fabric, and its successor is found and read from its start."""
import failures

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    scene = failures.Scene(lab)
    when = scene.pubd.signal("KILL")
    scene.all_told("stale", when)
    scene.pubd = scene.publish()
    scene.all_restarted()
    scene.end()
