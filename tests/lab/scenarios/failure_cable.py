# SPDX-License-Identifier: Apache-2.0
"""The publisher's cable is pulled: stale within the bound. It is plugged in again: live without help, and no record
that the ring holds is lost."""
import failures

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    scene = failures.Scene(lab)
    when, out = lab.host(1).unplug()
    scene.all_see("stale", when, kinds=lab.kinds, done_ms=out)
    scene.all_read_on(kinds=("shm",))
    lab.host(1).plug()
    for kind in lab.kinds:
        scene.event_since(scene.readers[kind], "live", when)
    scene.all_read_on()
    scene.end()
