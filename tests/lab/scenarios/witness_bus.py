# SPDX-License-Identifier: Apache-2.0
"""mckey joins our group and sees our notices; cmtime's connects in a row are refused with a reason and harm nobody,
over RoCE and iWARP."""
import os

import bus
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
NOTICES, STORM = 20, int(os.environ.get("TICKBUS_LAB_CONNECTS", 400))
AT_ONCE = 50  # more queue pairs Soft-iWARP does not have


def turned_away(host):
    return sum(bus.counter(host, name) for name in ("refused", "dropped"))


def run(lab):
    scene = failures.Scene(lab, kinds=lab.kinds)
    stranger, publisher = lab.host(4), lab.host(1)
    if "rxe" in lab.kinds:  # mckey knows no multicast but that of verbs
        text = stranger.run(f"mckey -m {bus.GROUP} -b {stranger.rxe} -C {NOTICES}")
        if "data transfers complete" not in text:
            raise Failed(f"mckey did not see {NOTICES} notices:\n{text}")
    each, before = STORM // len(lab.kinds), turned_away(publisher)
    for kind in lab.kinds:
        text = stranger.run(f"for i in $(seq {each // AT_ONCE}); do\ntimeout 30 cmtime -b {stranger.address(kind)} "
                            f"-s {publisher.address(kind)} -p {bus.PORT} -c {AT_ONCE}\ndone", status=None)
        after = turned_away(publisher)
        lab.note(f"over {kind}: {after - before} of {each} connects were refused or dropped")
        if after - before < each:
            raise Failed(f"over {kind}: {after - before} connects were refused or dropped, expected {each}:\n{text}")
        before = after
    scene.all_read_on()
    scene.end()
