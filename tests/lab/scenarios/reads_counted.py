# SPDX-License-Identifier: Apache-2.0
"""A reader that spins posts one list of READs for a look and its record, and one for three topics. tshark counts READ
requests and bytes of READ responses on the publisher's interfaces, posts.c counts the lists."""
import csv
import shutil

import bus
import tap
from control_subscriber import ControlSubscriber
from guests import Failed
from hosts import Skipped

TOPOLOGY = "one guest"
SECONDS = 200
SYMBOLS, TRADING_SECONDS, RATE = 100, 600, 200
RECORDS = 150
TOPICS = ("quote", "trade", "depth10")
STALE_MS = 60000  # the bus page is READ 8 times in it
LINE = 64
PAUSE_LOOKS = 64  # a topic with longer pauses is READ by lines alone for most of the time
POSTS, PRELOAD = "/tmp/posts", "$BUILD/tests/lab/liblab-posts.so"
NUMBERS = {"rxe": 2, "siw": 3}
SPIN = ",poll_us=0,notices=0"
OTHER_LISTS = 50  # of messages, of names
PAGE_READS, PAGE_BYTES = 100, 65536  # READs of headers, names and the bus page
TOLERANCE = 1.02  # the device repeats a READ that times out


def slot_bytes(host, topic):
    rows = csv.DictReader(host.run("tickbus topics shm:lab --format csv").splitlines())
    return next(int(row["slot_bytes"]) for row in rows if row["topic"] == f"nasdaq.{topic}")


def snapshot(reader, capture):
    """While the reader stands still: how many lists of READs it has posted, and the packets so far. Then its account."""
    reader.process.signal("STOP")
    made = int(reader.host.run(f"od -An -td8 {POSTS}"))
    packets = capture.packets()
    sums = len(reader.events("sum"))
    reader.process.signal("USR1")
    reader.process.signal("CONT")
    return made, packets, reader.sees("sum", sums + 1)


def counted(lab, kind, others=()):
    """What RECORDS records of the first topic cost: READ requests and bytes on the wire, lists of READs, and what the
    reader counts itself."""
    publisher = lab.host(1)
    capture = tap.Tap(publisher, kind, f"reads.{kind}.{len(others)}")
    reader = ControlSubscriber(lab.host(NUMBERS[kind]), publisher, kind, "spin", topic=TOPICS[0], others=others,
                               knobs=SPIN, prefix=f"env LAB_POSTS={POSTS} LD_PRELOAD=$LD_PRELOAD:{PRELOAD}")
    reader.reads_on()
    made, first, before = snapshot(reader, capture)
    reader.reads_on(RECORDS)
    made_then, last, after = snapshot(reader, capture)
    capture.end()
    reader.end(lost=0)
    count = {name: after["counters"][name] - before["counters"][name] for name in ("looks", "reads")}
    count["records"] = after["total"] - before["total"]
    count["lists"] = made_then - made
    count["requests"] = tap.tshark(capture.path, first, last)["read request"]
    count["bytes"] = tap.read_bytes(capture.path, first, last)
    lab.note(f"over {kind}, {1 + len(others)} topics: " + ", ".join(f"{number} {what}" for what, number in count.items()))
    return count


def expect_at_most(kind, count, what, most):
    if count[what] > most:
        raise Failed(f"over {kind}: found {count[what]} {what}, expected at most {most:.0f}")


def one_topic(lab, kind):
    """If each READ were posted alone, there would be as many lists as READs."""
    count = counted(lab, kind)
    slot = slot_bytes(lab.host(1), TOPICS[0])
    expect_at_most(kind, count, "lists", count["looks"] + count["records"] + OTHER_LISTS)
    if count["looks"] <= PAUSE_LOOKS * count["records"]:
        expect_at_most(kind, count, "lists", 0.75 * count["reads"] + OTHER_LISTS)
    expect_at_most(kind, count, "reads", 2 * count["looks"] + count["records"] / 2)
    expect_at_most(kind, count, "requests", TOLERANCE * count["reads"] + PAGE_READS)
    expect_at_most(kind, count, "bytes", TOLERANCE * (count["looks"] * LINE + (count["reads"] - count["looks"]) * slot) +
                   count["records"] * slot + PAGE_BYTES)
    if count["requests"] < count["reads"] - PAGE_READS:
        raise Failed(f"over {kind}: the reader counts {count['reads']} READs, tshark {count['requests']} requests")


def three_topics(lab, kind):
    count = counted(lab, kind, TOPICS[1:])
    expect_at_most(kind, count, "lists", count["requests"] / 1.5 + OTHER_LISTS)


def run(lab):
    if not shutil.which("tshark"):
        raise Skipped("tshark is missing")
    path = bus.synthetic_day(lab, TRADING_SECONDS, RATE, SYMBOLS)
    daemon = bus.pubd(lab.host(1), f"type: itch50, path: '{path}', date: 2019-12-30, speed: realtime, from: 09:30:00",
                      topics=TOPICS, stale_ms=STALE_MS)
    for kind in lab.kinds:
        one_topic(lab, kind)
        three_topics(lab, kind)
    daemon.signal("TERM")
    daemon.wait()
