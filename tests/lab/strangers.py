# SPDX-License-Identifier: Apache-2.0
"""Strangers of all kinds (garbage.py, storm.c) at a bus that others read: what they are told, what they cost."""
import re

import bus
from control_subscriber import ControlSubscriber
from guests import Failed

HELLOS, MESSAGES, GREEDY, SILENT, RECORDS = 14, 14, 1, 10, 300
SEED = 27
GROWTH_KB = 5  # for each that is gone; a connection that is kept has more than 20 KiB of receives
HELD = 60      # at once, then in a row: what pubd ever had of them, it may keep


def all_at_once(lab, **what):
    """The same over every kind of device; fails where not all of it was answered as it has to be."""
    host, words = lab.host(4), " ".join(f"{name}={count}" for name, count in what.items())
    running = [host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/garbage.py {host.address(kind)} "
                          f"{lab.host(1).address(kind)} {bus.PORT} {SEED} {words}") for kind in lab.kinds]
    for process in running:
        for name, count in what.items():
            process.wait_for(rf"^{name}: {count}$")
    return running


def storm(lab, connects, how):
    """So many good connects over every kind of device at once: each `held` until the last is there, or in a `row`."""
    host, each = lab.host(4), connects // len(lab.kinds)
    for process in [host.start(f"exec $BUILD/tests/lab/lab-storm {host.address(kind)} {lab.host(1).address(kind)} "
                               f"{bus.PORT} {each} {how}") for kind in lab.kinds]:
        if process.wait() != f"storm: {each}\n":
            raise Failed(process.words(f"expected {each}"))


def subscribers_left(lab, count):
    lab.wait_until(lambda: bus.counter(lab.host(1), "subscribers") == count, f"{count} subscribers", every=0.3)


def resident_kb(daemon):
    return int(daemon.host.run(f"grep VmRSS /proc/{daemon.guest.pid(daemon.name)}/status").split()[1])


def reasons(daemon, words, count):
    """Each has a line in the log, with its reason."""
    found = len(re.findall(rf" {words}: \S", daemon.output()))
    if found < count:
        raise Failed(daemon.words(f"found {found} lines \"{words}: ...\", expected {count}"))


def affect_nobody(lab, connects):
    """`connects`: good connections that are made and ended in a row."""
    publisher, kinds = lab.host(1), len(lab.kinds)
    daemon = bus.pubd(publisher, bus.market(100), level="debug")
    readers = {kind: ControlSubscriber(lab.host(number), publisher, kind) for kind, number in zip(lab.kinds, (2, 3))}
    running = all_at_once(lab, silent=SILENT, hellos=HELLOS, messages=MESSAGES, greedy=GREEDY)
    reasons(daemon, "was refused", HELLOS * kinds)
    reasons(daemon, "(was dropped|left)", (MESSAGES + GREEDY) * kinds)
    others = len(readers) + SILENT * kinds
    storm(lab, HELD, "held")
    storm(lab, HELD, "row")
    subscribers_left(lab, others)
    before = resident_kb(daemon)
    storm(lab, connects, "row")
    subscribers_left(lab, others)
    growth = resident_kb(daemon) - before
    lab.note(f"{growth} KiB more after {connects} connects")
    if growth > GROWTH_KB * connects:
        raise Failed(f"pubd grew by {growth} KiB in {connects} connects, expected {GROWTH_KB} for each at most")
    for process in running:
        process.kill()
    subscribers_left(lab, len(readers))
    rows = {kind: bus.cat(lab.host(number), publisher, kind, "quote", f"--count {RECORDS}", out=f"garbage.{kind}")
            for kind, number in zip(("shm", *lab.kinds), (1, 2, 3))}
    for process in rows.values():
        process.wait()
    for kind, reader in readers.items():
        if bus.rows(lab, f"garbage.{kind}") != bus.rows(lab, "garbage.shm"):
            raise Failed(f"over {kind}: other rows than over shared memory")
        reader.reads_on(100)
        reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
