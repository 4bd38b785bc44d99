# SPDX-License-Identifier: Apache-2.0
"""Strangers of all kinds (garbage.py) at a bus that others read: what they are told, what they cost."""
import re

import bus
from books import Books
from guests import Failed

HELLOS, MESSAGES, GREEDY, SILENT, RECORDS = 20, 25, 1, 10, 1000
GROWTH_KB = 512  # a connection that is kept has more than 20 KiB of receives


def stranger(lab, kind, what, count):
    host = lab.host(4)
    return host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/garbage.py {what} {host.address(kind)} "
                      f"{lab.host(1).address(kind)} {bus.PORT} {count + 7} {count}")


def all_at_once(lab, what, count):
    """The same over every kind of device; fails where not all of it was answered as it has to be."""
    for process in [stranger(lab, kind, what, count) for kind in lab.kinds]:
        if not re.search(rf"^{what}: {count}$", process.wait(), re.M):
            raise Failed(process.words(f"expected {count}"))


def resident_kb(daemon):
    return int(daemon.host.run(f"grep VmRSS /proc/{daemon.guest.pid(daemon.name)}/status").split()[1])


def reasons(daemon, words, count):
    """Each has a line in the log, with its reason."""
    found = len(re.findall(rf" {words}: \S", daemon.output()))
    if found < count:
        raise Failed(daemon.words(f"found {found} lines \"{words}: ...\", expected {count}"))


def affect_nobody(lab, connects):
    """`connects`: good connections that are made and ended in a row, over each kind of device."""
    publisher, kinds = lab.host(1), len(lab.kinds)
    daemon = bus.pubd(publisher, bus.market(100), level="debug")
    readers = {kind: Books(lab.host(number), publisher, kind) for kind, number in zip(lab.kinds, (2, 3))}
    silent = [stranger(lab, kind, "silent", SILENT) for kind in lab.kinds]
    for process in silent:
        process.wait_for(rf"silent {SILENT}")
    all_at_once(lab, "hellos", HELLOS)
    reasons(daemon, "was refused", HELLOS * kinds)
    all_at_once(lab, "messages", MESSAGES)
    all_at_once(lab, "greedy", GREEDY)
    reasons(daemon, "(was dropped|left)", (MESSAGES + GREEDY) * kinds)
    before = resident_kb(daemon)
    all_at_once(lab, "storm", connects)
    growth = resident_kb(daemon) - before
    lab.note(f"{growth} KiB more after {connects * kinds} connects")
    if growth > GROWTH_KB:
        raise Failed(f"pubd grew by {growth} KiB in {connects * kinds} connects, expected {GROWTH_KB} at most")
    for process in silent:
        process.kill()
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == len(readers), "all strangers to be gone",
                   every=0.3)
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
