# SPDX-License-Identifier: Apache-2.0
"""A device of each kind is removed under the publisher, then under its subscriber: stale within the bound, the other
readers go on. The device is used again when it returns."""
import failures

TOPOLOGY = "one guest"
SECONDS = 180


def taken(scene, kind, host):
    reader = scene.readers[kind]
    removal = host.remove_device(kind)
    when = float(removal.wait_for(r"removed at ([\d.]+)")[1]) * 1000
    scene.all_see("stale", when, kinds=(kind,))
    removal.wait()
    scene.all_read_on(kinds=[other for other in scene.readers if other != kind])
    host.return_device(kind)
    scene.event_since(reader, "live", when)
    scene.all_read_on(kinds=(kind,))


def run(lab):
    scene = failures.Scene(lab)
    for kind in lab.kinds:
        taken(scene, kind, scene.publisher)
        taken(scene, kind, scene.readers[kind].host)
    scene.end()
