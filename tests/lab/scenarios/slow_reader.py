# SPDX-License-Identifier: Apache-2.0
"""A stopped subscriber gets its exact gap. A subscriber on another host gets all rows at the same pace as before."""
import time

import failures
from control_subscriber import ControlSubscriber
from guests import Failed
from same_rows import SameRows

TOPOLOGY = "one guest"
SECONDS = 180
SLOTS, RATE, RECORDS = 128, 100, 200
SLOW, FAST = 2, 3
PACE = 0.9  # the least share of the pace before, or of the market's if the reader caught up before.
WAITED_MS = 1000  # A reader that waits for the stopped reader would be late by seconds


def rate(before, after, end_ns=0):
    """Records per nanosecond between two accounts, by the times of their last records: the signal that asks for an
    account may be late. If no more records came, the time counts until end_ns."""
    if after["total"] == before["total"]:
        raise Failed(f"no record arrived after {before}")
    return (after["total"] - before["total"]) / (max(after["last_ns"], end_ns) - before["last_ns"])


def pace(lab, scene, fast, where):
    """Measures each fast reader while RECORDS records are published. Returns its pace as a share of the market's (the
    pace over shared memory), the greatest age of a record, and the machine's lateness."""
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
    """More seconds than readers need to start: over ssh each command takes time."""
    began = time.monotonic()
    host.run(":")
    return 4 + 4 * (time.monotonic() - began)


def unaffected(lab, scene, fast, slow):
    alone = pace(lab, scene, fast, "with another running reader")
    ahead = int(seconds_to_start(lab.host(FAST)) * RATE)
    rows = SameRows(lab, scene.readers["shm"], ahead, RECORDS, dict.fromkeys(fast, FAST))
    for reader in slow.values():
        reader.process.signal("STOP")
    stopped = pace(lab, scene, fast, "with a stopped reader")
    rows.wait()
    rows.compare()
    for kind, (share, age, late) in stopped.items():
        if share < PACE * min(alone[kind][0], 1) or not failures.within(age, alone[kind][1] + WAITED_MS, late):
            raise Failed(f"over {kind}: found {stopped[kind]} with a stopped reader, {alone[kind]} before: "
                         "(share of the pace, ms old, ms late)")


def run(lab):
    scene = failures.Scene(lab, kinds=("shm",), slots=SLOTS, rate=RATE)
    slow, fast = ({kind: ControlSubscriber(lab.host(number), lab.host(1), kind) for kind in lab.kinds}
                  for number in (SLOW, FAST))
    for reader in (*slow.values(), *fast.values()):
        reader.sees("appeared")
    unaffected(lab, scene, fast, slow)
    for reader in slow.values():
        reader.process.signal("CONT")
        reader.reads_on()
        if not reader.end()["lost"]:
            raise Failed(reader.process.report("the stopped reader lost no record, expected a gap"))
    for reader in fast.values():
        reader.end(lost=0)
    scene.end()
