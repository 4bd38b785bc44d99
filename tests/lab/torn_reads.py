# SPDX-License-Identifier: Apache-2.0
"""A reader over RoCE and iWARP at once, lapped all the time by a writer at full speed.

Most READs are short, and many in a list: many READs meet the writer more often than few. READs of LONG bytes take
long, so each of them meets the writer most often.
"""
import collections
import json
import os

import bus
from guests import BYTEWISE, Failed
from hosts import Skipped

SHARES = {64: 0.3, 256: 0.5, 1024: 0.15, 4096: 0.05}  # share of READs by slot size; those of 256 bytes cost the least
LONG, LONG_READS = 65536, 200  # bytes of a long READ; how many for each slot size


def reads_wanted(usual):
    """How many READs of records in all."""
    return int(os.environ.get("TICKBUS_LAB_READS", usual))


def short(slot_bytes, reads):
    read_bytes = max(256, slot_bytes)  # the least that read_bytes= allows
    return read_bytes, max(8192, 16 * read_bytes), reads


def long(reads):
    return LONG, 2 * LONG, reads


def reading_host(lab, kind):
    """The host that reads. Within a guest, Soft-RoCE serves a host's READs of itself without a network, at half the
    cost and with the same copies. Over Soft-iWARP, TCP would copy late and only once."""
    return lab.host(1 if kind == "rxe" and lab.topology.kind == BYTEWISE else 2)


def readings(lab, slot_bytes, shapes, program="lab-torn"):
    """The reader's account by kind of device, for all shapes: (bytes of a READ, bytes of a batch, READs)."""
    folder = lab.build / "tests/lab"
    if not (folder / program).exists():
        raise Skipped(f"{lab.build} holds no tests")
    source, host = lab.host(1), lab.host(2)
    writer = source.start(f"exec {folder}/lab-torn publish {slot_bytes} " +
                          " ".join(bus.address(source, kind) for kind in lab.kinds))
    writer.wait_for("publishing")
    addresses = " ".join(bus.address_on(reading_host(lab, kind), source, kind) for kind in lab.kinds)
    found = {kind: collections.Counter() for kind in lab.kinds}
    for shape in shapes:
        text = host.run(f"exec {folder}/{program} read {' '.join(map(str, shape))} {addresses}")
        for kind, line in zip(lab.kinds, text.splitlines(), strict=True):
            found[kind].update(json.loads(line))
    writer.signal("TERM")
    lab.note(f"{slot_bytes:5} bytes: {writer.wait().splitlines()[-1]} written")
    for kind, account in found.items():
        lab.note(f"      over {kind}: " + ", ".join(f"{count} {what}" for what, count in account.items()))
    return found


def unproven(lab, text):
    """Fails in a bytewise guest, whose devices copy byte by byte. Other devices may copy whole cache lines."""
    if lab.topology.kind == BYTEWISE:
        raise Failed(text)
    lab.note(text)


def none_wrong(lab, reads):
    """No wrong record, and every sequence accounted for. The reader was lapped over each kind of device at each slot
    size, and its torn copies were refused. Some of them mixed two records, which only the check finds. Over each kind
    some records were delivered; their number is chance."""
    seen, mixed = collections.Counter(), 0
    for size, share in SHARES.items():
        for kind, account in readings(lab, size, (short(size, int(reads * share)), long(LONG_READS))).items():
            where = f"{size} bytes over {kind}: {dict(account)}"
            if account["wrong"] or account["astray"]:
                raise Failed(where)
            if not all(account[what] for what in ("reads", "lost", "torn")):
                raise Failed(f"{where}: no READ met the writer")
            seen[kind] += account["records"]
            mixed += account["mixed"]
    if not all(seen.values()):
        raise Failed(f"found {dict(seen)} records delivered, expected some over each kind")
    if not mixed:
        unproven(lab, "found no copy that mixes two records, expected some")


def some_wrong_without_the_check(lab):
    """A library that does not compare the check must deliver a wrong record over each kind of device."""
    found = readings(lab, 4096, [long(100 * LONG_READS)], "lab-torn-unchecked")
    if not all(account["wrong"] for account in found.values()):
        unproven(lab, f"found {found}, expected a wrong record over each kind without the check")
