# SPDX-License-Identifier: Apache-2.0
"""A subscriber that stands still: one on another host has all rows at the pace of before; it is told the exact gap."""
import time

import failures
from control_subscriber import ControlSubscriber
from guests import Failed
from same_rows import SameRows

TOPOLOGY = "one guest"
SECONDS = 180
SLOTS, RATE, RECORDS = 128, 100, 200
SLOW, FAST = 2, 3
PACE = 0.9  # of that before, or of the market's where one caught up before
WAITED_MS = 1000  # who waited for one that stands still would wait for as long as that does, which is seconds


def rate(before, after, end_ns=0):
    """By when the last record of each came: the books themselves are asked for by a signal, which may be late. Who had
    none any more has the time until end_ns against him."""
    if after["total"] == before["total"]:
        raise Failed(f"no record came after {before}")
    return (after["total"] - before["total"]) / (max(after["last_ns"], end_ns) - before["last_ns"])


def pace(lab, scene, fast, where):
    """Of each of the fast ones, while RECORDS records are published: its records per second, to those of the one over
    shared memory, which are the market's own pace; and how late the oldest came, but for what the machine was late."""
    local = scene.readers["shm"]
    before = {kind: reader.sum() for kind, reader in fast.items()}
    began = local.sum()
    ended = local.reads_on(RECORDS)
    found = {}
    for kind, reader in fast.items():
        share = rate(before[kind], reader.sum(), ended["last_ns"]) / rate(began, ended)
        age, when = reader.oldest(before[kind])
        late = scene.lateness[local.host.guest].ms(when - age, when)
        lab.note(f"over {kind}, {where}: {share:.3f} of the market's pace, a record was {age:.0f} ms old at most, on a "
                 f"machine that was {late:.0f} ms late")
        found[kind] = share, age, late
    return found


def seconds_to_start(host):
    """More than readers need that are started now: over ssh each command takes its time."""
    began = time.monotonic()
    host.run(":")
    return 4 + 4 * (time.monotonic() - began)


def unaffected(lab, scene, fast, slow):
    alone = pace(lab, scene, fast, "beside another one")
    ahead = int(seconds_to_start(lab.host(FAST)) * RATE)
    rows = SameRows(lab, scene.readers["shm"], ahead, RECORDS, dict.fromkeys(fast, FAST))
    for reader in slow.values():
        reader.process.signal("STOP")
    beside = pace(lab, scene, fast, "beside one that stands still")
    rows.wait()
    rows.compare()
    for kind, (share, age, late) in beside.items():
        if share < PACE * min(alone[kind][0], 1) or not failures.within(age, alone[kind][1] + WAITED_MS, late):
            raise Failed(f"over {kind}: {beside[kind]} beside one that stands still, {alone[kind]} before: "
                         "share of the pace, ms old, ms late")


def run(lab):
    scene = failures.Scene(lab, kinds=("shm",), slots=SLOTS, rate=RATE)
    slow, fast = ({kind: ControlSubscriber(lab.host(number), lab.host(1), kind) for kind in lab.kinds} for number in (SLOW, FAST))
    for reader in (*slow.values(), *fast.values()):
        reader.sees("appeared")
    unaffected(lab, scene, fast, slow)
    for reader in slow.values():
        reader.process.signal("CONT")
        reader.reads_on()
        if not reader.end()["lost"]:
            raise Failed(reader.process.words("it lost nothing: it was not slow"))
    for reader in fast.values():
        reader.end(lost=0)
    scene.end()
