# SPDX-License-Identifier: Apache-2.0
"""Shared by the failure scenarios: a bus on host 1 with a reader over each fabric. Each reader must see the failure
within a bound."""
import bus
from control_subscriber import ControlSubscriber
from guests import Failed, TooLate
from hosts import Skipped

STALE_MS = 1000  # pubd's setting, unless a scenario has another.
SLACK_MS = 300   # A READ and a turn of each program, under emulation.
LATE_MS = 1000   # A machine that stood still for longer allows no verdict.


class Lateness:
    """How late the processors of a guest were (late.c)."""

    def __init__(self, host):
        self.process = host.start("exec $BUILD/tests/lab/lab-late")
        self.process.wait_for("ticking")

    def ms(self, from_ms, to_ms):
        """The lateness of the latest processor in that time."""
        found = {}
        for line in self.process.output().splitlines()[1:]:
            cpu, due, late = line.split()
            if from_ms - float(late) <= float(due) <= to_ms:
                found[cpu] = found.get(cpu, 0) + min(float(late), to_ms - from_ms)
        return max(found.values(), default=0)


def within(took_ms, bound_ms, late_ms):
    """Whether an event was within the bound, less the time by which the machine was late. On a machine that was very late
    an exceeded bound proves nothing."""
    over = took_ms - bound_ms - SLACK_MS
    if over <= max(late_ms, 0):
        return True
    if late_ms > LATE_MS:
        raise TooLate(f"{took_ms:.0f} ms on a machine that was {late_ms:.0f} ms late: no verdict on a bound of "
                      f"{bound_ms} ms")
    return False


class Scene:
    def __init__(self, lab, kinds=None, slots=65536, rate=100, stale_ms=STALE_MS):
        missing = [kind for kind in kinds or () if kind not in ("shm", *lab.kinds)]
        if missing:
            raise Skipped(f"the hosts have no {missing[0]} device each")
        self.lab, self.publisher, self.slots, self.rate, self.stale_ms = lab, lab.host(1), slots, rate, stale_ms
        self.pubd = self.publish()
        hosts = {"shm": lab.host(1), "rxe": lab.host(2), "siw": lab.host(3)}
        kinds = kinds or ("shm", *lab.kinds)
        self.lateness = {guest: Lateness(host) for guest, host in
                         {hosts[kind].guest: hosts[kind] for kind in kinds}.items()}
        self.readers = {kind: self.reader(hosts[kind], kind) for kind in kinds}
        self.all_read_on()

    def publish(self):
        return bus.pubd(self.publisher, bus.market(self.rate), slots=self.slots, stale_ms=self.stale_ms)

    def reader(self, host, kind):
        return ControlSubscriber(host, self.publisher, kind)

    def all_read_on(self, kinds=None):
        for kind, reader in self.readers.items():
            if kinds is None or kind in kinds:
                reader.sees("appeared")
                reader.reads_on()

    @staticmethod
    def event_since(reader, event, since_ms):
        """The first event of this kind since then: a late machine may have caused earlier events."""
        return reader.sees(event, sum(earlier["ms"] < since_ms for earlier in reader.events(event)) + 1)

    def pace_ms(self, reader, since_ms, event):
        """How long a READ and a turn of each program take in this run. In a guest with both programs, which has one
        clock for both, the greatest age of a record at its delivery shows it. In any guest the longest time between
        two polls of the reader shows it. Two of them pass: its last look was one poll ago, and the next poll
        reports."""
        ages = [account["age_ms"] for account in reader.events("sum") if account["ms"] <= since_ms]
        age = ages[-1] if ages and reader.host.guest is self.publisher.guest else 0
        return min(max(age, 2 * event["gap_ms"]), self.stale_ms)

    def all_see(self, event, since_ms, kinds=None, silent=False, done_ms=None):
        """Every reader sees the event within the bound, which grows by the lateness of the machine. Returns after
        how many ms each did. The cause began at since_ms and was done at `done_ms`. `silent`: only the missing
        pulse shows the failure, so the event must not come long before the bound either."""
        took, from_ms = [], done_ms or since_ms
        for kind, reader in self.readers.items():
            if kinds is not None and kind not in kinds:
                continue
            seen = self.event_since(reader, event, since_ms)
            found = max(seen["ms"] - from_ms, 0)
            late = self.lateness[reader.host.guest].ms(from_ms, from_ms + found)
            text = f"over {kind}: {event} after {found:.0f} ms, on a machine that was {late:.0f} ms late"
            self.lab.note(text)
            if not within(found, self.stale_ms, late + self.pace_ms(reader, since_ms, seen)):
                raise Failed(reader.process.report(f"{text}; expected {self.stale_ms} at most"))
            if silent and found + late + SLACK_MS < self.stale_ms / 2:
                raise Failed(reader.process.report(f"{text}; expected {self.stale_ms}, less a pulse"))
            took.append(found)
        return took

    def all_restarted(self):
        """Every reader sees another epoch, and reads it from its first record."""
        for reader in self.readers.values():
            restart = reader.sees("restart")
            if restart["epoch"] == restart["old_epoch"] or restart["next"] != 1:
                raise Failed(reader.process.report("found no restart at sequence 1 of another epoch"))
        self.all_read_on()

    def end(self, lost=0):
        for reader in self.readers.values():
            reader.end(lost)
        for lateness in self.lateness.values():
            lateness.process.kill()
        self.pubd.signal("TERM")
        self.pubd.wait()
