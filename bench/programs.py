# SPDX-License-Identifier: Apache-2.0
"""Rows that a program of its own measures: joins, memory, images, last values, topics, merges, conflation."""
import os
import random
import statistics

from session import progress

# What the program measures, its row, bound of the ratio.
JOINS = (("rejoin", "again", 2.5), ("other", "other", 4))
CROWD_BOUND = 2.5  # twice the subscribers join in at most so many times the time
# Records of a topic in a row, bound of the ratio.
MERGES = {"each": (1, 4), "runs": (16, 2)}
GET_BOUND = 1.5
# Bounds by the number of names in use: KiB of the publisher and of a subscriber.
MEMORY = {100: (70, 80), 1000: (None, None), 16384: (None, None)}
TOPICS = {16: 3, 256: None, 1024: 12}  # ns that an idle topic may add to a poll, by the number of topics
CONFLATE_RATES = (1000, 10_000, 100_000, 1_000_000, 4_000_000)  # records a second
CONFLATE_WAYS = {"each": "0", "250ms": "250000", "poll": "poll"}
STATES = ("rest", "fresh", "busy")  # of topics


def names():
    return ["joins/again/idle", "joins/again/flowing", "joins/other/idle",
            "joins/other/flowing", "joins/many", "joins/crowd",
            *(f"memory/{used}/{who}" for used in MEMORY for who in ("publisher", "subscriber")), "images/image",
            "images/beside", "get/64", "get/256", *(f"topics/{count}/{state}" for count in TOPICS for state in STATES),
            *(f"merge/4/{state}" for state in MERGES),
            *(f"conflate/{rate}/{way}/{what}" for rate in CONFLATE_RATES for way in CONFLATE_WAYS
              for what in ("time", "bytes"))]


def joins(session):
    if not session.wanted("joins"):
        return
    topics, crowd = (64, 4) if session.options.tiny else (1024, 40)
    progress("joins: a lost connection")
    for measure, row, bound in JOINS if os.geteuid() == 0 else JOINS[:1]:  # the other user needs root
        found = joins_run(session, measure, topics, session.options.rounds)["rounds"]
        bare = [(r["bare"] + r["bare_after"]) / 2000 for r in found]
        for name, more in (("idle", "no records"), ("flowing", "while records flow")):
            session.row(f"joins/{row}/{name}", "ms", [r[name] / 1000 for r in found], "bare loop", bare, bound,
                        f"{topics} topics, {more}")
    values = {(topics, crowd): [], (topics // 2, crowd): [], (topics, crowd // 2): []}
    for turn in range(max(1, session.options.rounds // 2)):
        progress(f"joins: {crowd} subscribers, round {turn + 1}")
        for count, subscribers in random.sample(list(values), len(values)):
            values[count, subscribers].append(joins_run(session, "many", count, subscribers)["value"] / 1000)
    for row, half, words, bound in (("many", (topics // 2, crowd), "half the topics", None),
                                    ("crowd", (topics, crowd // 2), "half the subscribers", CROWD_BOUND)):
        session.row(f"joins/{row}", "ms", values[topics, crowd], words, values[half], bound,
                    f"{crowd} subscribers of {topics} topics each")


def joins_run(session, measure, topics, count):
    return session.in_a_folder("bench/tickbus-bench-joins", measure, topics, count)


def memory(session):
    if not session.wanted("memory"):
        return
    topics, names = (4, 16384) if session.options.tiny else (100, 16384)
    for used, bounds in MEMORY.items():
        progress(f"memory: {used} names")
        found = session.in_a_folder("bench/tickbus-bench-memory", topics, names, used)
        for who, bound in zip(("publisher", "subscriber"), bounds):
            session.row(f"memory/{used}/{who}", "KiB", [found[who]["private"]], bound=bound,
                        more=f"for each of {topics} topics with room for {names} names; "
                             f"{found[who]['shared']:.0f} KiB of their memory touched")


def images(session):
    if not session.wanted("images"):
        return
    instruments = 2000 if session.options.tiny else 100_000
    progress("images")
    found = session.in_a_folder("bench/tickbus-bench-images", instruments, session.options.rounds)["rounds"]
    bare = [(r["bare"] + r["bare_after"]) / 2000 for r in found]
    session.row("images/image", "ms", [r["image"] / 1000 for r in found], "copy and hash", bare, 4,
                f"{instruments} instruments, values and names")
    values = statistics.median(r["values"] for r in found)
    session.row("images/beside", "ms", [r["beside"] / 1000 for r in found], "without an image",
                [r["alone"] / 1000 for r in found], None, f"a backlog of records, and {values:.0f} values")


def get(session):
    for slot_bytes in (64, 256):
        name = f"get/{slot_bytes}"
        if not session.wanted(name):
            continue
        progress(name)
        found = session.in_a_folder("bench/tickbus-bench-get", slot_bytes, session.options.rounds)["rounds"]
        session.row(name, "ns", [r["get"] for r in found], "copy and check", [r["slot"] for r in found], GET_BOUND,
                    "tb_get of a value in the cache")


def topics(session):
    for count, bound in TOPICS.items():
        for state in STATES:
            name = f"topics/{count}/{state}"
            if not session.wanted(name):
                continue
            progress(name)
            found = session.in_a_folder("bench/tickbus-bench-topics", count, state, session.options.rounds)["rounds"]
            poll, one = (statistics.median(r[key] for r in found) for key in ("poll", "one"))
            session.row(name, "ns", [r["topic"] for r in found], bound=bound,
                        more=f"a poll {poll:.0f} ns, of one topic {one:.0f} ns")


def merge(session):
    """A record of a backlog in the order of the group; the yardstick reads topic by topic."""
    for state, (run, bound) in MERGES.items():
        name = f"merge/4/{state}"
        if not session.wanted(name):
            continue
        progress(name)
        found = session.in_a_folder("bench/tickbus-bench-merge", 4, run, session.options.rounds)["rounds"]
        session.row(name, "ns", [r["merged"] for r in found], "topic by topic", [r["apart"] for r in found], bound,
                    f"4 topics, {run} records of a topic in a row")


def conflate(session):
    """A subscriber's time and READ bytes, by the publisher's rate; the yardstick gets each record."""
    if not session.wanted("conflate"):
        return
    ms = 50 if session.options.tiny else 1000
    for rate in (1000, 100_000) if session.options.tiny else CONFLATE_RATES:
        found = {way: {"time": [], "bytes": []} for way in CONFLATE_WAYS}
        for turn in range(max(1, session.options.rounds // 2)):
            progress(f"conflate: {rate} records a second, round {turn + 1}")
            for way, scheme in random.sample([(w, s) for w in CONFLATE_WAYS for s in ("shm", "bytewise")], 6):
                what = "time" if scheme == "shm" else "bytes"
                values = session.in_a_folder("bench/tickbus-bench-conflate", scheme, rate, CONFLATE_WAYS[way], ms)
                found[way][what].append(values[what])
        for way, values in found.items():
            for what, unit, scale in (("time", "us/s", 1e3), ("bytes", "KiB/s", 1024)):
                rows = [[v / scale for v in f[what]] for f in (values, found["each"])]
                yardstick = ("each record", rows[1]) if way != "each" else (None, None)
                session.row(f"conflate/{rate}/{way}/{what}", unit, rows[0], *yardstick)
