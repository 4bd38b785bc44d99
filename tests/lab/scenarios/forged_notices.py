# SPDX-License-Identifier: Apache-2.0
"""Forged, replayed, cut and foreign notices: rows as without, no gap, one look at the progress line per interval."""
import json

import bus
from books import Books
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 150
RECORDS, FORGED, SEED = 1500, 1000, 20241
INTERVAL_MS = 1  # readers look at a progress line no more often


def forge(lab, kind, number):
    host = lab.host(number)
    forger = host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/forger.py {host.address(kind)} "
                        f"{lab.host(1).address(kind)} {bus.PORT} nasdaq.quote {SEED}")
    return forger, int(forger.wait_for(r"progress line at (\d+)")[1])


def looks_are_few(lab, tap):
    tap.signal("TERM")
    found = json.loads(tap.wait().splitlines()[-1])
    looks, ms = found.get("watched read", 0), found.get("watched ms", 0)
    close = found.get("watched close", 0)
    lab.note(f"{looks} looks at the progress line in {ms:.0f} ms, {close} of them close to another; "
             f"{found.get('watched read again', 0)} were asked again by the device")
    if not looks:
        raise Failed("not one look at the progress line: this proves nothing")
    # Packets wait for emulated processors: some come closer than they were sent.
    if looks > ms / INTERVAL_MS + 1 or close > 1 + looks / 200:
        raise Failed(f"{looks} looks in {ms:.0f} ms, {close} of them close: expected one per {INTERVAL_MS} ms at most")


def run(lab):
    publisher, places = lab.host(1), {"rxe": 2, "siw": 3}
    daemon = bus.pubd(publisher, bus.market())
    readers = {kind: Books(lab.host(number), publisher, kind) for kind, number in places.items()}
    for reader in readers.values():
        reader.reads_on()
    forgers = {kind: forge(lab, kind, 4) for kind in places}
    tap = publisher.start(f"exec python3 $SOURCE/tests/lab/capture.py {publisher.interface('rxe')} "
                          f"{lab.host(2).rxe} {forgers['rxe'][1]}")
    tap.wait_for("capturing")
    rows = {kind: bus.cat(lab.host(number), publisher, kind, "quote", f"--count {RECORDS}", out=f"forged.{kind}")
            for kind, number in (("shm", 1), ("rxe", 3), ("siw", 2))}  # not on the host that is watched
    for process in rows.values():
        process.wait()
    for reader in readers.values():
        reader.reads_on(100)
    looks_are_few(lab, tap)
    for kind, (forger, _) in forgers.items():
        forger.signal("TERM")
        sent = int(forger.wait().rpartition("sent ")[2])
        lab.note(f"{sent} forged over {kind}")
        if sent < FORGED:
            raise Failed(forger.words(f"sent {sent} datagrams, expected {FORGED}"))
        if bus.rows(lab, f"forged.{kind}") != bus.rows(lab, "forged.shm"):
            raise Failed(f"over {kind}: other rows than over shared memory")
        readers[kind].end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
