# SPDX-License-Identifier: Apache-2.0
"""Watching 50 of 8,000 instruments moves at most 1.5 times the bytes of 50 values for each look. tshark counts the bytes
of READ responses on the publisher's interfaces."""
import csv
import shutil

import bus
import tap
from control_subscriber import ControlSubscriber
from guests import Failed
from hosts import Skipped

TOPOLOGY = "one guest"
SECONDS = 150
SYMBOLS, WATCHED = 8000, 50
TRADING_SECONDS, RATE = 600, 200
LOOKS = 60
BOUND = 1.5
STALE_MS = 60000  # the bus page is READ 8 times in it, and belongs to no look
NUMBERS = {"rxe": 2, "siw": 3}


def watched(host):
    """Instruments far from each other in the topic's table, so that no READ brings two values. The publisher has written
    each of them."""
    names = host.run("until text=$(tickbus get shm:lab nasdaq.quote --format csv 2>/dev/null) && "
                     f"[ $(echo \"$text\" | wc -l) -gt {SYMBOLS} ]; do :; done; echo \"$text\" | cut -d , -f 4")
    return sorted(set(names.split()[1:]))[::SYMBOLS // WATCHED][:WATCHED]


def slot_bytes(host):
    row, = csv.DictReader(host.run("tickbus topics shm:lab --format csv").splitlines())
    return int(row["slot_bytes"])


def looks(reader):
    return reader.sum()["counters"]["value_looks"]


def counted(lab, kind, names, bytes_of_values):
    """A reader looks whenever records were published. The capture holds all looks between the two accounts."""
    publisher = lab.host(1)
    capture = tap.Tap(publisher, kind, f"watch.{kind}")
    reader = ControlSubscriber(lab.host(NUMBERS[kind]), publisher, kind, watched=names)
    reader.sees("appeared")
    lab.wait_until(lambda: reader.sum()["total"] >= WATCHED, f"{WATCHED} values over {kind}", every=0.25)
    first = capture.packets()
    before = looks(reader)
    lab.wait_until(lambda: looks(reader) >= before + LOOKS, f"{LOOKS} looks over {kind}", every=0.25)
    made = looks(reader) - before
    capture.end()
    reader.end()
    moved = tap.read_bytes(capture.path, first)
    lab.note(f"over {kind}: {moved} bytes in {made} looks, {moved / made / bytes_of_values:.2f} times {WATCHED} values")
    if not made * bytes_of_values <= moved <= BOUND * made * bytes_of_values:
        raise Failed(f"over {kind}: found {moved} bytes in {made} looks at {WATCHED} values of "
                     f"{bytes_of_values // WATCHED} bytes, expected 1 to {BOUND} times their bytes")


def run(lab):
    if not shutil.which("tshark"):
        raise Skipped("tshark is missing")
    publisher = lab.host(1)
    path = bus.synthetic_day(lab, TRADING_SECONDS, RATE, SYMBOLS)
    daemon = bus.pubd(publisher, f"type: itch50, path: '{path}', date: 2019-12-30, speed: realtime, from: 09:30:00",
                      stale_ms=STALE_MS)
    names = watched(publisher)
    if len(names) != WATCHED:
        raise Failed(f"found {len(names)} instruments to watch, expected {WATCHED}")
    for kind in lab.kinds:
        counted(lab, kind, names, WATCHED * slot_bytes(publisher))
    daemon.signal("TERM")
    daemon.wait()
