# SPDX-License-Identifier: Apache-2.0
"""A reader over RoCE and iWARP at once that meets a writer at full speed, in a ring that it laps all the time.

The most READs are as short as can be, many in a list: whether a READ meets the writer depends on when it is made, so
that many of them see the most. Those of LONG bytes take long to be answered, and so meet it most often each.
"""
import collections
import json
import os

import bus
from guests import BYTEWISE, Failed
from hosts import Skipped

SHARES = {64: 0.3, 256: 0.5, 1024: 0.15, 4096: 0.05}  # of the READs, by bytes of a slot: those of 256 cost the least
LONG, LONG_READS = 65536, 200  # bytes; of each size of slot


def reads_wanted(usual):
    """How many READs of records in all."""
    return int(os.environ.get("TICKBUS_LAB_READS", usual))


def short(slot_bytes, reads):
    read_bytes = max(256, slot_bytes)  # the least that a subscriber takes
    return read_bytes, max(8192, 16 * read_bytes), reads


def long(reads):
    return LONG, 2 * LONG, reads


def place(lab, kind):
    """The host that reads. Within one guest Soft-RoCE hands what a host asks of itself from queue to queue, without a
    network: each READ copies as any other does, at half the cost. Soft-iWARP's TCP would copy late, and once."""
    return lab.host(1 if kind == "rxe" and lab.topology.kind == BYTEWISE else 2)


def readings(lab, slot_bytes, shapes, program="lab-torn"):
    """ControlSubscriber by kind of device, over all shapes: bytes of a READ, bytes of a batch, READs."""
    folder = lab.build / "tests/lab"
    if not (folder / program).exists():
        raise Skipped(f"{lab.build} holds no tests")
    source, host = lab.host(1), lab.host(2)
    writer = source.start(f"exec {folder}/lab-torn publish {slot_bytes} " +
                          " ".join(bus.address(source, kind) for kind in lab.kinds))
    writer.wait_for("publishing")
    addresses = " ".join(bus.address_on(place(lab, kind), source, kind) for kind in lab.kinds)
    found = {kind: collections.Counter() for kind in lab.kinds}
    for shape in shapes:
        text = host.run(f"exec {folder}/{program} read {' '.join(map(str, shape))} {addresses}")
        for kind, line in zip(lab.kinds, text.splitlines(), strict=True):
            found[kind].update(json.loads(line))
    writer.signal("TERM")
    lab.note(f"{slot_bytes:5} bytes: {writer.wait().splitlines()[-1]} written")
    for kind, books in found.items():
        lab.note(f"      over {kind}: " + ", ".join(f"{count} {what}" for what, count in books.items()))
    return found


def unproven(lab, words):
    """Guests for this have devices that copy byte by byte, where it has to be seen. Others may copy whole lines."""
    if lab.topology.kind == BYTEWISE:
        raise Failed(words)
    lab.note(words)


def none_wrong(lab, reads):
    """Not one wrong record, no sequence unaccounted for; the reader was lapped over each kind of device at each size,
    and its torn copies were caught. Some of them were of two records, which only the check told. How many records it
    was in time for is chance, but for some over each."""
    seen, mixed = collections.Counter(), 0
    for size, share in SHARES.items():
        for kind, books in readings(lab, size, (short(size, int(reads * share)), long(LONG_READS))).items():
            where = f"{size} bytes over {kind}: {dict(books)}"
            if books["wrong"] or books["astray"]:
                raise Failed(where)
            if not all(books[what] for what in ("reads", "lost", "torn")):
                raise Failed(f"{where}: the writer was not met")
            seen[kind] += books["records"]
            mixed += books["mixed"]
    if not all(seen.values()):
        raise Failed(f"found records delivered: {dict(seen)}, expected some over each")
    if not mixed:
        unproven(lab, "found not one copy of two records: this proves nothing")


def some_wrong_without_the_check(lab):
    """The same reader on a library that does not compare the check: over each kind a wrong record has to show, soon
    or later."""
    found = readings(lab, 4096, [long(100 * LONG_READS)], "lab-torn-unchecked")
    if not all(books["wrong"] for books in found.values()):
        unproven(lab, f"without the check, found no wrong record over each: {found}")
