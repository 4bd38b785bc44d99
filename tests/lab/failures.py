# SPDX-License-Identifier: Apache-2.0
"""What failures have in common: a bus on host 1 with a reader on each kind of fabric, and the bound in which
each of them has to be told."""
import bus
from books import Books
from guests import Failed

STALE_MS = 1000  # pubd's setting
SLACK_MS = 1000  # programs start and run slowly under emulation
LATE_MS = 5000   # where the machine stood still for longer, nothing can be said


class Lateness:
    """How long the processors of a guest did not do what they should have (late.c)."""

    def __init__(self, host):
        self.process = host.start("exec $BUILD/tests/lab/lab-late")
        self.process.wait_for("ticking")

    def ms(self, from_ms, to_ms):
        """Of the processor that was latest in that time."""
        found = {}
        for line in self.process.output().splitlines()[1:]:
            cpu, due, late = line.split()
            if from_ms - float(late) <= float(due) <= to_ms:
                found[cpu] = found.get(cpu, 0) + min(float(late), to_ms - from_ms)
        return max(found.values(), default=0)


class Scene:
    def __init__(self, lab, kinds=("shm", "rxe", "siw"), slots=65536, rate=100):
        self.lab, self.publisher, self.slots, self.rate = lab, lab.host(1), slots, rate
        self.pubd = self.publish()
        places = {"shm": 1, "rxe": 2, "siw": 3}
        self.readers = {kind: Books(lab.host(places[kind]), self.publisher, kind) for kind in kinds
                        if kind in ("shm", *lab.kinds)}
        self.lateness = {}
        for reader in self.readers.values():
            if reader.host.guest not in self.lateness:
                self.lateness[reader.host.guest] = Lateness(reader.host)
        self.all_read_on()

    def publish(self):
        return bus.pubd(self.publisher, bus.market(self.rate), slots=self.slots)

    def all_read_on(self, kinds=None):
        for kind, reader in self.readers.items():
            if kinds is None or kind in kinds:
                reader.sees("appeared")
                reader.reads_on()

    def all_told(self, event, since_ms, count=1, kinds=None):
        """Every reader is told the event within the bound, which grows by what the machine was late meanwhile."""
        for kind, reader in self.readers.items():
            if kinds is not None and kind not in kinds:
                continue
            found = reader.sees(event, count)["ms"] - since_ms
            late = self.lateness[reader.host.guest].ms(since_ms, since_ms + found)
            words = f"over {kind}: {event} after {found:.0f} ms, on a machine that was {late:.0f} ms late"
            self.lab.note(words)
            if found > STALE_MS + SLACK_MS + min(late, LATE_MS):
                raise Failed(reader.process.words(f"{words}; expected {STALE_MS} at most"))

    def end(self, lost=0):
        for reader in self.readers.values():
            reader.end(lost)
        for lateness in self.lateness.values():
            lateness.process.kill()
        self.pubd.signal("TERM")
        self.pubd.wait()
