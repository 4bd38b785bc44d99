# SPDX-License-Identifier: Apache-2.0
"""The publisher's cable out: told within the bound; in again: found by itself, nothing lost that the ring holds."""
import failures

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    scene = failures.Scene(lab)
    when, out = lab.host(1).unplug()
    scene.all_told("stale", when, kinds=lab.kinds, done_ms=out)
    scene.all_read_on(kinds=("shm",))
    lab.host(1).plug()
    for kind in lab.kinds:
        scene.told(scene.readers[kind], "live", when)
    scene.all_read_on()
    scene.end()
