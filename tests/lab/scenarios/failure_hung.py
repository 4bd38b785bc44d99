# SPDX-License-Identifier: Apache-2.0
"""pubd stopped (its memory still answers READs): stale within the bound, live when it goes on, nothing lost."""
import failures

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    scene = failures.Scene(lab)
    when = scene.pubd.signal("STOP")
    scene.all_told("stale", when)
    when = scene.pubd.signal("CONT")
    scene.all_told("live", when)
    scene.all_read_on()
    scene.end()
