# SPDX-License-Identifier: Apache-2.0
"""The rows of pubd with a feed at its pace: processors used, and how late readers are that sleep or spin. Nothing is
pinned."""
import contextlib
import json
import os
import pathlib
import subprocess
import time

import children
from session import Failed, progress

SETTINGS = """
bus: {{ name: paced }}
schemas: [ quote, trade ]
feeds:
  - {{ name: a, {feed}, speed: realtime }}
topics:
  - {{ name: a.quote, feed: a, select: quote, schema: quote }}
  - {{ name: a.trade, feed: a, select: trade, schema: trade }}
"""
FEEDS = {  # by records a second: the feed with its messages a second, and a bound of processors
    "1000": ("type: synthetic, seed: 1, symbols: 1000, seconds: 600, rate: 3200", 0.05),
    "22000": ("type: synthetic, seed: 1, symbols: 1000, seconds: 600, rate: 70000", 0.35),
    "day": ("type: itch50, path: '{day}', date: 2019-12-30, from: 09:30:00", None),
}
DAY = ("--seed", 1, "--seconds", 60, "--rate", 13000)  # a message count as on the real exchange
WAYS = ("wait", "spin")  # of a reader
LATE_BOUND = {"22000": 60}  # us
MS = 2000
WHAT = ("p50", "p99", "late")

NAMES = [f"pubd/{feed}/{row}" for feed in FEEDS
         for row in ("alone", *(f"{way}/{what}" for way in WAYS for what in ("processors", *WHAT)))]


def pubd(session):
    if not session.wanted_part("pubd"):
        return
    for name in list(FEEDS)[:1] if session.options.tiny else FEEDS:
        if any(session.wanted(row) for row in NAMES if row.startswith(f"pubd/{name}/")):
            rows(session, name)


def rows(session, name):
    feed, bound = FEEDS[name]
    found = {way: [] for way in ("alone", *WAYS)}
    for turn in range(session.options.rounds):
        progress(f"pubd: {name}, round {turn + 1}")
        for way, one in run(session, feed).items():
            found[way].append(one)
    alone = [one["processors"] for one in found["alone"]]
    session.row(f"pubd/{name}/alone", "processors", alone, bound=bound, more=threads(found["alone"][-1]))
    for way in WAYS:
        of_way = found[way]
        more = f"{of_way[-1]['records'] * 1000 // ms(session)} records a second; {threads(of_way[-1])}"
        session.row(f"pubd/{name}/{way}/processors", "processors", [one["processors"] for one in of_way], more=more)
        for what in WHAT:
            values = [one[what] for one in of_way]
            session.row(f"pubd/{name}/{way}/{what}", "us", values, more=f"worst {max(values):.1f}",
                        bound=LATE_BOUND.get(name) if what == "late" else None)


def ms(session):
    return 50 if session.options.tiny else MS


def threads(one):
    return ", ".join(f"{name} {used:.3f}" for name, used in sorted(one["threads"].items()))


def run(session, feed):
    """pubd alone, then with a reader of each way."""
    with children.folder() as folder, contextlib.ExitStack() as running:
        settings, environment = folder / "paced.yaml", dict(os.environ, TICKBUS_RUNTIME_DIR=str(folder))
        if "{day}" in feed:
            session.command([session.build / "tools/tickbus", "synth", *DAY, folder / "day"])
        settings.write_text(SETTINGS.format(feed=feed.format(day=folder / "day")))
        with open(folder / "said", "w+", encoding="utf-8") as said:
            daemon = children.start([session.build / "publisher/pubd/pubd", settings], env=environment, stderr=said)
            running.callback(children.end, daemon)
            children.Held.end()
            found = {way: beside(session, daemon, environment, way) for way in ("alone", *WAYS)}
            if daemon.poll() is not None:
                said.seek(0)
                raise Failed(f"pubd ended with status {daemon.returncode}, expected it to run\n{said.read()}")
    return found


def beside(session, daemon, environment, way):
    if way == "alone":
        time.sleep(ms(session) / 1000)
    began, before = time.monotonic(), used(daemon)
    if way == "alone":
        time.sleep(ms(session) / 1000)
        found = {}
    else:
        found = json.loads(session.command([session.build / "bench/tickbus-bench-paced", "shm:paced", "a.*",
                                            way, ms(session)],
                                           {"TICKBUS_RUNTIME_DIR": environment["TICKBUS_RUNTIME_DIR"]}))
    seconds, after = time.monotonic() - began, used(daemon)
    each = {name: (after[name] - before.get(name, 0)) / seconds for name in after}
    return {**found, "processors": sum(each.values()), "threads": each}


def used(daemon):
    """Processor time of each thread of a process, by name."""
    spent = {}
    for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        spent[name] = spent.get(name, 0) + int((task / "schedstat").read_text().split()[0]) / 1e9
    return spent
