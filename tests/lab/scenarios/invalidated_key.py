# SPDX-License-Identifier: Apache-2.0
"""A peer SENDs messages that invalidate the keys it was granted: other readers of the realm, and readers that come
later, lose nothing."""
import bus
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS = 60


def run(lab):
    publisher, stranger = lab.host(1), lab.host(4)
    daemon = bus.pubd(publisher, bus.market(100))
    readers = {kind: ControlSubscriber(lab.host(number), publisher, kind) for kind, number in zip(lab.kinds, (2, 3))}
    for reader in readers.values():
        reader.reads_on()
    for kind in lab.kinds:
        found = stranger.run("LD_PRELOAD=$LD_PRELOAD:$BUILD/tests/lab/liblab-invalidate.so "
                             f"/usr/bin/python3 -B $SOURCE/tests/lab/invalidator.py {stranger.address(kind)} "
                             f"{publisher.address(kind)} {bus.PORT} nasdaq.quote")
        print(f"over {kind}:\n{found}", end="")
        if kind == "siw" and "own key of the topic: ended" not in found:
            raise Failed("Soft-iWARP invalidated no key: the scenario shows nothing")
    later = {kind: bus.cat(lab.host(number), publisher, kind, "quote", f"--count {RECORDS}", out=f"invalidated.{kind}")
             for kind, number in zip(("shm", *lab.kinds), (1, 2, 3))}
    for process in later.values():
        process.wait()
    for kind, reader in readers.items():
        if bus.rows(lab, f"invalidated.{kind}") != bus.rows(lab, "invalidated.shm"):
            raise Failed(f"over {kind}: the rows differ from those over shared memory")
        reader.reads_on()
        for event in ("stale", "gap"):
            if reader.events(event):
                raise Failed(reader.process.report(f"over {kind}: found an event {event}"))
        reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
