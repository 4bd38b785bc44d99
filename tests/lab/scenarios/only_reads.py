# SPDX-License-Identifier: Apache-2.0
"""The publisher's interfaces carry READs and multicast notices, and no other packets per record. tshark counts the
same."""
import failures
import tap
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS, RATE = 150, 150
SETTLED = 1000  # notices; then those before a subscriber joined the group no longer count as missing
OTHER, OTHER_PER_SECOND = 10, 3  # allowed for keep-alives

# A look before its notice makes the reader ask for a wake-up: four packets. On a busy machine 11 % of the records had a
# packet, with keep-alives. With a wake-up for each record there would be four times as many packets as records.
OTHER_BY_RECORD = 0.2
EXPECTED = {"read request", "read response", "multicast datagram"}
BY_RECORD = {"rxe": EXPECTED, "siw": EXPECTED | {"acknowledge", "part of a message"}}  # of TCP


def nothing_else(lab, kind, found, records, seconds):
    """False: there are more other packets than expected."""
    lab.note(f"over {kind}, {records} records in {seconds:.0f} s: " +
             ", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    for what in EXPECTED:
        if not found.get(what):
            raise Failed(f"over {kind}: found no {what}, expected some")
    other = sum(count for what, count in found.items() if what not in BY_RECORD[kind])
    return other <= OTHER + OTHER_PER_SECOND * seconds + OTHER_BY_RECORD * records


def part(captures, scene):
    """Where the captures and the readers' accounts are now."""
    return {kind: (captures[kind].packets(), reader.sum()) for kind, reader in scene.readers.items()}


def only_reads(lab, settled):
    """Whether nothing else crossed."""
    captures = {kind: tap.Tap(lab.host(1), kind, f"only_reads.{kind}.{settled}")  # before they connect
                for kind in lab.kinds}
    scene = failures.Scene(lab, kinds=lab.kinds, rate=RATE)
    for reader in scene.readers.values():
        while reader.sum()["counters"]["notices"] < settled:
            reader.reads_on(RECORDS)
    first = part(captures, scene)
    for reader in scene.readers.values():
        reader.reads_on(RECORDS)
    last = part(captures, scene)
    counted = {kind: capture.end() for kind, capture in captures.items()}
    scene.end()
    if "rxe" in counted:  # only tshark can decode iWARP's messages inside the TCP stream
        found = tap.tshark(captures["rxe"].path)
        if any(found[what] != counted["rxe"].get(what, 0) for what in (*EXPECTED, "acknowledge")):
            raise Failed(f"tshark counted {found}, capture.py {counted['rxe']}")
    clean = True
    for kind in scene.readers:
        (begin, before), (end, after) = first[kind], last[kind]
        clean &= nothing_else(lab, kind, tap.tshark(captures[kind].path, begin, end), after["total"] - before["total"],
                              (after["ms"] - before["ms"]) / 1000)
    return clean


def run(lab):
    """A subscriber that joined the group late misses notices, and asks for wake-ups until these are long past."""
    if not only_reads(lab, 0) and not only_reads(lab, SETTLED):
        raise Failed("found other packets than READs and notices for each record, see above")
