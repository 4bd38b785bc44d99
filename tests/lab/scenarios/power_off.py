# SPDX-License-Identifier: Apache-2.0
"""The publisher's host loses power: stale within the bound on the other hosts, although no packet reports it. It
returns with a new pubd, which is found and read from its start."""
import failures

TOPOLOGY = "several guests"
KILLS_HOSTS = True
SECONDS = 180


def run(lab):
    scene = failures.Scene(lab, kinds=lab.kinds)
    when = {kind: reader.host.now() for kind, reader in scene.readers.items()}
    scene.publisher.power_off()
    for kind in scene.readers:
        scene.all_see("stale", when[kind], kinds=(kind,))
    scene.publisher.power_on()
    scene.pubd = scene.publish()
    scene.all_restarted()
    scene.end()
