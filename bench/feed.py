# SPDX-License-Identifier: Apache-2.0
"""The rows of the ITCH feed: decoding, books and publishing of a synthetic day."""
import json
import os
import pathlib
import random

import children
from session import progress

BEFORE = "555e65e5"  # the commit before the work on speed
BEFORE_BOUND = 2.5
DAY_MESSAGES = 300_000_000

NAMES = ("itch/rate", "itch/single", "itch/against", "itch/memory", "itch/day")


def itch(session):
    if any(session.wanted(name) for name in NAMES if name != "itch/day"):
        rates_and_memory(session)
    if "itch/day" in session.options.names:  # it takes minutes, so it needs its whole name
        day(session)


def rates_and_memory(session):
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = folder / "tickbus-bench" / f"synthetic-1-{session.options.itch_messages}.itch"
    if not path.exists():
        progress(f"makes {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        session.command([session.build / "tools/tickbus", "synth", "--seed", 1, "--messages",
                         session.options.itch_messages, path])
    rates = {"books": [], "publish": [], "single": [], **({"theirs": []} if session.theirs else {})}
    for turn in range(max(1, session.options.rounds // 2)):
        progress(f"itch: round {turn + 1}")
        for what in random.sample(list(rates), len(rates)):
            found = itch_run(session, what, path)
            rates[what].append(session.options.itch_messages / found["seconds"] / 1e6)
    memory = itch_run(session, "memory", path)["memory"]
    session.row("itch/rate", "M/s", rates["publish"], "decode and books alone", rates["books"], 0.5,
                "messages; quotes and trades published" + ("" if session.cores < 2 else " by a second thread"))
    session.row("itch/single", "M/s", rates["single"], more="the same by one thread, on one core")
    if session.theirs:
        bound = BEFORE_BOUND if session.their_commit.startswith(BEFORE) else None
        session.row("itch/against", "M/s", rates["publish"], session.their_commit[:8], rates["theirs"], bound)
    session.row("itch/memory", "bytes", [memory], bound=200, more="for each order when most are live")


def day(session):
    """A whole day's count of messages: some minutes, so it needs its name."""
    progress(f"itch/day: {DAY_MESSAGES} messages")
    made, taken = (itch_run(session, what, DAY_MESSAGES)["seconds"] for what in ("messages", "day"))
    session.row("itch/day", "s", [taken], more=f"for {DAY_MESSAGES // 10**6} million messages, quotes and trades "
                                               f"published; making the messages alone takes {made:.0f} s")


def itch_run(session, what, path):
    build, what = (session.their_build, "publish") if what == "theirs" else (session.build, what)
    with children.folder() as folder:
        return json.loads(session.command([build / "bench/tickbus-bench-itch", what, path],
                                          {"TICKBUS_RUNTIME_DIR": str(folder)}))
