# SPDX-License-Identifier: Apache-2.0
"""A device taken from under the publisher, then from under a subscriber: the others go on, and it is used
again when it is back."""
import failures

TOPOLOGY = "one guest"
SECONDS = 180


def run(lab):
    scene = failures.Scene(lab)
    for count, number in enumerate((1, 2), 1):
        host = lab.host(number)
        removal = host.remove_device("rxe")
        when = float(removal.wait_for(r"removed at ([\d.]+)")[1]) * 1000
        scene.all_told("stale", when, count, kinds=("rxe",))
        removal.wait()
        scene.all_read_on(kinds=("shm", "siw"))
        host.return_device("rxe")
        scene.readers["rxe"].sees("live", count)
        scene.all_read_on()
    scene.end()
