# SPDX-License-Identifier: Apache-2.0
"""The rows of the ITCH feed: decoding, books and publishing of a synthetic day."""
import json
import os
import pathlib
import random
import shutil
import tempfile

from session import progress

BEFORE = "555e65e5"  # the commit before the work on speed
BEFORE_BOUND = 2.5


def itch(session):
    if not session.wanted("itch"):
        return
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = folder / "tickbus-bench" / f"synthetic-1-{session.options.itch_messages}.itch"
    if not path.exists():
        progress(f"makes {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        session.command([session.build / "tools/tickbus", "synth", "--seed", 1, "--messages",
                         session.options.itch_messages, path])
    rates = {"books": [], "publish": [], **({"theirs": []} if session.theirs else {})}
    session.environment["TICKBUS_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="tickbus-bench-")
    try:
        for turn in range(max(1, session.options.rounds // 2)):
            progress(f"itch: round {turn + 1}")
            for what in random.sample(list(rates), len(rates)):
                found = itch_run(session, what, path)
                rates[what].append(session.options.itch_messages / found["seconds"] / 1e6)
        memory = itch_run(session, "memory", path)["memory"]
    finally:
        shutil.rmtree(session.environment.pop("TICKBUS_RUNTIME_DIR"))
    session.row("itch/rate", "M/s", rates["publish"], "decode and books alone", rates["books"], 0.5,
                "messages; quotes and trades published")
    if session.theirs:
        bound = BEFORE_BOUND if session.their_commit.startswith(BEFORE) else None
        session.row("itch/against", "M/s", rates["publish"], session.their_commit[:8], rates["theirs"], bound)
    session.row("itch/memory", "bytes", [memory], bound=200, more="for each order when most are live")


def itch_run(session, what, path):
    build, what = (session.their_build, "publish") if what == "theirs" else (session.build, what)
    return json.loads(session.command([build / "bench/tickbus-bench-itch", what, path]))
