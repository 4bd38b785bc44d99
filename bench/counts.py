# SPDX-License-Identifier: Apache-2.0
"""Rows of counted instructions, and of records by batches. Counting needs valgrind."""
import shutil

import children
from session import SETTINGS, Failed, progress

COUNT_THOUSANDS = 64
COUNT_BATCH = 64  # records a flush
DRAIN_MS = 2000  # under callgrind


def names():
    settings = (*SETTINGS, "marked")
    return ([f"instructions/{setting}/{function}" for setting in settings for function in ("tb_publish", "tb_flush")] +
            [f"instructions/{setting}{more}" for setting in SETTINGS for more in ("", "/more/1", "/more/3")] +
            [f"batches/{setting}{more}" for setting in SETTINGS for more in ("", "/instructions")])


def counted(session, function, measure, transport, readers, ms):
    """(instructions in this function and what it calls, what the program printed)."""
    with children.folder() as folder:
        out = folder / "callgrind"
        found = session.measure(measure, transport, 32, readers, ms=ms, wrap=(
            "valgrind", "--tool=callgrind", f"--toggle-collect={function}", f"--callgrind-out-file={out}"))
        for line in out.read_text().splitlines():
            if line.startswith(("totals:", "summary:")) and int(line.split()[1]):
                return int(line.split()[1]), found
    raise Failed("callgrind counted no instructions")


def published(session, setting, readers, function="bench_counted"):
    """Instructions of the publishing thread for a record."""
    count, found = counted(session, function, "count", setting, readers, COUNT_THOUSANDS)
    return count / found["value"]


def drained(session, transport):
    """Instructions of a subscriber for a record."""
    count, found = counted(session, "bench_drained", "drain", transport, 0, DRAIN_MS)
    return count / found["messages"]


def instructions(session):
    if not session.wanted("instructions"):
        return
    if not shutil.which("valgrind"):
        print("instructions: skipped: valgrind is not installed")
        return
    for setting in (*SETTINGS, "marked"):
        for function, unit, times in (("tb_publish", "a record", 1), ("tb_flush", "a flush", COUNT_BATCH)):
            progress(f"instructions: {setting}, {function}")
            session.row(f"instructions/{setting}/{function}", unit, [published(session, setting, 0, function) * times])
    for setting in SETTINGS:
        alone = published(session, setting, 0)
        session.row(f"instructions/{setting}", "a record", [alone], more="no subscriber")
        for readers in (1, 3):
            progress(f"instructions: {setting}, {readers} subscribers")
            extra = (published(session, setting, readers) - alone) * COUNT_THOUSANDS * 1000
            session.row(f"instructions/{setting}/more/{readers}", "in all", [extra], bound=0,
                        more=f"with {readers} subscribers")


def batches(session):
    """A record by on_batch; the yardstick is a record by on_record."""
    for setting in SETTINGS:
        if not session.wanted(f"batches/{setting}"):
            continue
        single, several = [], []
        for _ in range(session.options.rounds):
            single.append(session.measure("drain", setting, 32, 0)["value"])
            several.append(session.measure("drain", f"{setting}_batches", 32, 0)["value"])
        session.row(f"batches/{setting}", "ns", several, "on_record", single, 1.0)
        if shutil.which("valgrind") and not session.options.tiny:
            session.row(f"batches/{setting}/instructions", "a record", [drained(session, f"{setting}_batches")],
                        "on_record", [drained(session, setting)], 1.0)
