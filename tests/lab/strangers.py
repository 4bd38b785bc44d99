# SPDX-License-Identifier: Apache-2.0
"""Peers that break the protocol (garbage.py) or connect in a row (storm.c): how a bus with subscribers answers, and
what they cost."""
import collections
import re

import bus
from control_subscriber import ControlSubscriber
from guests import Failed

HELLOS, MESSAGES, GREEDY, SILENT, RECORDS = 14, 14, 1, 10, 300
SEED = 27
GROWTH_KB = 5  # allowed per closed connection; an open connection has more than 20 KiB of receives.
ROUNDS = 3     # A leak grows in each. Connections that end late on a busy machine raise the peak once.
HELD = 60      # Connections at once, then in a row, before growth is measured: pubd may keep their memory


def all_at_once(lab, **what):
    """Runs garbage.py over every kind of device. Fails unless each connection was answered as expected."""
    host, wanted = lab.host(4), " ".join(f"{name}={count}" for name, count in what.items())
    running = [host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/garbage.py {host.address(kind)} "
                          f"{lab.host(1).address(kind)} {bus.PORT} {SEED} {wanted}") for kind in lab.kinds]
    for process in running:
        for name, count in what.items():
            process.wait_for(rf"^{name}: {count}$")
    return running


def storm(lab, connects, how):
    """Good connections over every kind of device at once: all `held` open until the last, or in a `row`."""
    host, each = lab.host(4), connects // len(lab.kinds)
    for process in [host.start(f"exec $BUILD/tests/lab/lab-storm {host.address(kind)} {lab.host(1).address(kind)} "
                               f"{bus.PORT} {each} {how}") for kind in lab.kinds]:
        said = collections.Counter(process.wait().splitlines())
        if said.pop(f"storm: {each}", 0) != 1:
            raise Failed(process.report(f"expected {each}"))
        for line, times in said.items():
            lab.note(f"{times} x {line}")


def subscribers_left(lab, count):
    lab.wait_until(lambda: bus.counter(lab.host(1), "subscribers") == count, f"{count} subscribers", every=0.3)


def resident_kb(daemon):
    return int(daemon.host.run(f"grep VmRSS /proc/{daemon.guest.pid(daemon.name)}/status").split()[1])


def expect_reasons(daemon, message, count):
    """The log has a line with a reason for each."""
    found = len(re.findall(rf" {message}: \S", daemon.output()))
    if found < count:
        raise Failed(daemon.report(f"found {found} lines \"{message}: ...\", expected {count}"))


def others_unaffected(lab, connects):
    """`connects`: number of good connections that are opened and closed in a row."""
    publisher, kinds = lab.host(1), len(lab.kinds)
    daemon = bus.pubd(publisher, bus.market(100), level="debug")
    readers = {kind: ControlSubscriber(lab.host(number), publisher, kind) for kind, number in zip(lab.kinds, (2, 3))}
    running = all_at_once(lab, silent=SILENT, hellos=HELLOS, messages=MESSAGES, greedy=GREEDY)
    expect_reasons(daemon, "was refused", HELLOS * kinds)
    expect_reasons(daemon, "(was dropped|left)", (MESSAGES + GREEDY) * kinds)
    others = len(readers) + SILENT * kinds
    storm(lab, HELD, "held")
    storm(lab, HELD, "row")
    subscribers_left(lab, others)
    growths = []
    while not growths or (growths[-1] > GROWTH_KB * connects and len(growths) < ROUNDS):
        before = resident_kb(daemon)
        storm(lab, connects, "row")
        subscribers_left(lab, others)
        growths.append(resident_kb(daemon) - before)
    lab.note(f"{growths} KiB more after {connects} connects each")
    if growths[-1] > GROWTH_KB * connects:
        raise Failed(f"pubd grew by {growths} KiB in {connects} connects each, expected {GROWTH_KB} for each at most")
    for process in running:
        process.kill()
    subscribers_left(lab, len(readers))
    rows = {kind: bus.cat(lab.host(number), publisher, kind, "quote", f"--count {RECORDS}", out=f"garbage.{kind}")
            for kind, number in zip(("shm", *lab.kinds), (1, 2, 3))}
    for process in rows.values():
        process.wait()
    for kind, reader in readers.items():
        if bus.rows(lab, f"garbage.{kind}") != bus.rows(lab, "garbage.shm"):
            raise Failed(f"over {kind}: the rows differ from those over shared memory")
        reader.reads_on(100)
        reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
