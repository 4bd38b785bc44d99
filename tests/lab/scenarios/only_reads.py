# SPDX-License-Identifier: Apache-2.0
"""The publisher's interfaces carry READs and multicast notices, and no other packets per record. tshark counts the
same."""
import failures
import tap
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS, RATE = 150, 150  # a subscriber joins the group before 1 in 100 of its first 1,000 notices is missing
OTHER, OTHER_PER_SECOND = 50, 3  # allowed for connecting, and for keep-alives
EXPECTED = {"read request", "read response", "multicast datagram"}
BY_RECORD = {"rxe": EXPECTED, "siw": EXPECTED | {"acknowledge", "part of a message"}}  # of TCP


def nothing_else(lab, counter, kind, found, records, seconds):
    lab.note(f"over {kind}, by {counter}, {records} records in {seconds:.0f} s: " +
             ", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    for what in EXPECTED:
        if not found.get(what):
            raise Failed(f"over {kind}: found no {what}, expected some")
    other = sum(count for what, count in found.items() if what not in BY_RECORD[kind])
    if other > OTHER + OTHER_PER_SECOND * seconds:
        raise Failed(f"over {kind}: {other} other packets for {records} records in {seconds:.1f} s: {found}")


def run(lab):
    publisher = lab.host(1)
    began_ms = publisher.now()
    taps = {kind: tap.Tap(publisher, kind, f"only_reads.{kind}") for kind in lab.kinds}  # before they connect
    scene = failures.Scene(lab, kinds=lab.kinds, rate=RATE)
    for reader in scene.readers.values():
        reader.reads_on(RECORDS)
    sums = {kind: reader.sum() for kind, reader in scene.readers.items()}
    counted = {kind: capture.end() for kind, capture in taps.items()}
    scene.end()
    for kind, last in sums.items():
        how_many = last["total"], (last["ms"] - began_ms) / 1000
        if kind == "rxe":  # only tshark can decode iWARP's messages inside the TCP stream
            nothing_else(lab, "capture.py", kind, counted[kind], *how_many)
        found = tap.tshark(taps[kind].path)
        nothing_else(lab, "tshark", kind, found, *how_many)
        if kind == "rxe" and any(found[what] != counted[kind].get(what, 0) for what in (*EXPECTED, "acknowledge")):
            raise Failed(f"tshark counted {found}, capture.py {counted[kind]}")
