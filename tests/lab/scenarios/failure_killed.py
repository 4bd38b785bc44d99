# SPDX-License-Identifier: Apache-2.0
"""pubd is killed: stale within the bound over every fabric. Its successor is found and read from its start."""
import failures

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    scene = failures.Scene(lab)
    when = scene.pubd.signal("KILL")
    scene.all_see("stale", when)
    scene.pubd = scene.publish()
    scene.all_restarted()
    scene.end()
