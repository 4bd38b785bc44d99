# SPDX-License-Identifier: Apache-2.0
"""Readers that meet a writer at full speed in a ring of 64 slots, over RoCE and iWARP at once."""
import json

import bus
from guests import Failed
from hosts import Skipped

KINDS = {"rxe": 2, "siw": 3}


def readings(lab, slot_bytes, reads, program="lab-torn"):
    """Books by kind of device."""
    folder = lab.build / "tests/lab"
    if not (folder / program).exists():
        raise Skipped(f"{lab.build} holds no tests")
    source = lab.host(1)
    kinds = {kind: number for kind, number in KINDS.items() if kind in lab.kinds}
    listen = " ".join(bus.address(source, kind) for kind in kinds)
    writer = source.start(f"exec {folder}/lab-torn publish {slot_bytes} {listen}")
    writer.wait_for("publishing")
    readers = {kind: lab.host(number).start(
        f"exec {folder}/{program} read {bus.address_on(lab.host(number), source, kind)} {reads}")
        for kind, number in kinds.items()}
    found = {kind: json.loads(reader.wait().splitlines()[-1]) for kind, reader in readers.items()}
    writer.signal("TERM")
    writer.wait()
    return found


def none_wrong(lab, reads, sizes=(64, 256, 1024, 4096)):
    """Not one wrong record, no sequence unaccounted for, and torn copies did occur."""
    torn = 0
    for size in sizes:
        for kind, books in readings(lab, size, reads).items():
            lab.note(f"{size:5} bytes over {kind}: " + ", ".join(f"{v} {k}" for k, v in books.items()))
            if books["wrong"] or books["astray"] or not books["records"]:
                raise Failed(f"{size} bytes over {kind}: {books}")
            torn += books["torn"]
    if not torn:
        raise Failed("not one torn copy was met: this proves nothing")


def some_wrong_without_the_check(lab, reads, sizes=(4096, 256) * 4):
    """The same readers on a library that does not compare the check: wrong records have to show, soon or later."""
    for size in sizes:
        found = readings(lab, size, reads, "lab-torn-unchecked")
        if any(books["wrong"] for books in found.values()):
            return
    raise Failed(f"no wrong record without the check: {found}")
