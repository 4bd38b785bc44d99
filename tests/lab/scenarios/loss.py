# SPDX-License-Identifier: Apache-2.0
"""1 % and 10 % of all packets lost, with delay: every record is delivered, and the books are right."""
import failures

TOPOLOGY = "one guest"
SECONDS = 180


def run(lab):
    scene = failures.Scene(lab, kinds=("rxe", "siw"))
    for how in ("loss 1% delay 1ms", "loss 10% delay 2ms"):
        for host in lab.hosts[:3]:
            host.shape(how)
        for _ in range(2):
            scene.all_read_on()
        for host in lab.hosts[:3]:
            host.shape("")
    scene.all_read_on()
    scene.end()
