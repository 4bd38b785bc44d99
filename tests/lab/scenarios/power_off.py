# SPDX-License-Identifier: Apache-2.0
"""The publisher's host loses power: stale within the bound on the other hosts, although no packet reports it. It
returns with a new pubd, which is found and read from its start."""
import time

import failures

TOPOLOGY = "several guests"
KILLS_HOSTS = True
SECONDS = 180


def run(lab):
    scene = failures.Scene(lab, kinds=lab.kinds)
    asked, before = {}, {}
    for kind, reader in scene.readers.items():
        asked[kind] = time.monotonic()
        before[kind] = reader.host.now()
    off = time.monotonic()
    scene.publisher.power_off()
    for kind in scene.readers:  # the command for the time itself may take long, so its time does not count
        scene.all_see("stale", before[kind], kinds=(kind,), done_ms=before[kind] + (off - asked[kind]) * 1000)
    scene.publisher.power_on()
    scene.pubd = scene.publish()
    scene.all_restarted()
    scene.end()
