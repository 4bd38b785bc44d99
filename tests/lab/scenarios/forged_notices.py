# SPDX-License-Identifier: Apache-2.0
"""Forged, replayed, cut and foreign notices: the rows stay the same, no gap, and at most one look at the progress
line per interval."""
import bus
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 150
RATE, RECORDS, FORGED, SEED = 20, 100, 500, 20241
INTERVAL_MS = 1  # readers look at a progress line at most once per interval
STALE_MS = 200   # a reader with a slow clock reads the publisher's pulse four times in it
SLOW = "env LD_PRELOAD=$BUILD/tests/lab/liblab-slow.so"


def forge(lab, kind, number):
    host = lab.host(number)
    forger = host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/forger.py {host.address(kind)} "
                        f"{lab.host(1).address(kind)} {bus.PORT} nasdaq.quote {SEED} {FORGED}")
    forger.wait_for("forging")
    return forger


def looks_are_few(lab, kind, reader, before, after):
    """Counts by the reader's slow clock, in whose milliseconds an emulated machine could look far more often."""
    looks, heads = (after["counters"][name] - before["counters"][name] for name in ("looks", "false_hints"))
    ms, records = after["ms"] - before["ms"], after["records"] - before["records"]
    lab.note(f"over {kind}: {looks} looks at the progress line in {ms} ms of a slow clock, {heads} false heads, "
             f"{records} records")
    if not looks:
        raise Failed(reader.process.report("found no look at the progress line, expected some"))
    if looks > ms / INTERVAL_MS + 1:
        raise Failed(reader.process.report(f"found {looks} looks in {ms} ms, expected at most one per "
                                           f"{INTERVAL_MS} ms"))


def run(lab):
    publisher, hosts = lab.host(1), dict(zip(lab.kinds, (2, 3)))
    daemon = bus.pubd(publisher, bus.market(RATE), stale_ms=STALE_MS)
    readers = {kind: ControlSubscriber(lab.host(number), publisher, kind, prefix=SLOW)
               for kind, number in hosts.items()}
    before = {}
    for kind, reader in readers.items():
        reader.reads_on()
        before[kind] = reader.sum()
    forgers = {kind: forge(lab, kind, 4) for kind in hosts}
    rows = {kind: bus.cat(lab.host(number), publisher, kind, "quote", f"--count {RECORDS}", out=f"forged.{kind}")
            for kind, number in {"shm": 1, **hosts}.items()}
    for process in rows.values():
        process.wait()
    for forger in forgers.values():
        forger.wait_for("^enough$")
    for kind, reader in readers.items():
        looks_are_few(lab, kind, reader, before[kind], reader.reads_on())
    for kind, forger in forgers.items():
        forger.signal("TERM")
        sent = int(forger.wait().rpartition("sent ")[2])
        lab.note(f"{sent} forged notices over {kind}")
        if bus.rows(lab, f"forged.{kind}") != bus.rows(lab, "forged.shm"):
            raise Failed(f"over {kind}: the rows differ from those over shared memory")
        readers[kind].end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
