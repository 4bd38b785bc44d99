# SPDX-License-Identifier: Apache-2.0
"""The publisher's host loses power: told within the bound on the other hosts, though nothing says goodbye."""
import failures

TOPOLOGY = "several guests"
KILLS_HOSTS = True
SECONDS = 180


def run(lab):
    scene = failures.Scene(lab, kinds=("rxe", "siw"))
    when = {kind: reader.host.act("") for kind, reader in scene.readers.items()}
    lab.host(1).power_off()
    for kind, reader in scene.readers.items():
        scene.all_told("stale", when[kind], kinds=(kind,))
        reader.end(lost=0)
