# SPDX-License-Identifier: Apache-2.0
"""1 % and 10 % of all packets are lost, with delay: the rows equal those over shared memory, and every record is
accounted for."""
import failures
from same_rows import SameRows

TOPOLOGY = "one guest"
SECONDS = 240
RATE = 100
HOSTS = {"rxe": 2, "siw": 3}


def dropped(lab):
    return {kind: lab.host(number).dropped(kind) for kind, number in HOSTS.items()}


def shaped(lab, scene, name, how, records):
    rows = SameRows(lab, scene.readers["shm"], 2 * RATE, records, HOSTS, name)
    for number in (1, *HOSTS.values()):
        lab.host(number).shape(how)
    rows.wait()
    lab.wait_until(lambda: all(dropped(lab).values()), f"packets for each reader to be lost by {how}", every=0.5)
    lab.note(f"{how}: " + ", ".join(f"{count} packets for the reader over {kind} lost"
                                    for kind, count in dropped(lab).items()))
    for number in (1, *HOSTS.values()):
        lab.host(number).shape("")
    rows.compare()


def run(lab):
    scene = failures.Scene(lab, kinds=("shm", *HOSTS), rate=RATE)
    shaped(lab, scene, "one", "loss 1% delay 1ms", 200)
    shaped(lab, scene, "ten", "loss 10% delay 2ms", 100)
    scene.all_read_on()
    scene.end()
