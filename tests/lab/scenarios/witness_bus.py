# SPDX-License-Identifier: Apache-2.0
"""mckey joins the bus's group and receives its notices. Many connections in a row by cmtime are refused with a reason
and affect no subscriber, over RoCE and iWARP."""
import os

import bus
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
NOTICES, STORM = 20, int(os.environ.get("TICKBUS_LAB_CONNECTS", 400))
AT_ONCE = 50  # as many queue pairs as Soft-iWARP has


def turned_away(host):
    return sum(bus.counter(host, name) for name in ("refused", "dropped"))


def run(lab):
    scene = failures.Scene(lab, kinds=lab.kinds)
    stranger, publisher = lab.host(4), lab.host(1)
    if "rxe" in lab.kinds:  # mckey knows verbs multicast only
        text = stranger.run(f"mckey -m {bus.GROUP} -b {stranger.rxe} -C {NOTICES}")
        if "data transfers complete" not in text:
            raise Failed(f"expected mckey to receive {NOTICES} notices:\n{text}")
    each, before = STORM // len(lab.kinds), turned_away(publisher)
    for kind in lab.kinds:
        text = stranger.run(f"for i in $(seq {each // AT_ONCE}); do\ntimeout 30 cmtime -b {stranger.address(kind)} "
                            f"-s {publisher.address(kind)} -p {bus.PORT} -c {AT_ONCE}\ndone", status=None)
        after = turned_away(publisher)
        lab.note(f"over {kind}: {after - before} of {each} connects were refused or dropped")
        if after - before < each:
            raise Failed(f"over {kind}: found {after - before} connects refused or dropped, expected {each}:\n{text}")
        before = after
    scene.all_read_on()
    scene.end()
