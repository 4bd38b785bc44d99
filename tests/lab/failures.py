# SPDX-License-Identifier: Apache-2.0
"""What failures have in common: a bus on host 1 with a reader on each kind of fabric, and the bound in which
each of them has to be told."""
import bus
from books import Books
from guests import Failed

STALE_MS = 1000   # pubd's setting
SLACK_MS = 1000   # emulated processors and a busy machine are late by so much at most


class Scene:
    def __init__(self, lab, kinds=("shm", "rxe", "siw"), slots=65536):
        self.lab, self.publisher, self.slots = lab, lab.host(1), slots
        self.pubd = self.publish()
        places = {"shm": 1, "rxe": 2, "siw": 3}
        self.readers = {kind: Books(lab.host(places[kind]), self.publisher, kind) for kind in kinds
                        if kind in ("shm", *lab.kinds)}
        self.all_read_on()

    def publish(self):
        return bus.pubd(self.publisher, bus.market(), slots=self.slots)

    def all_read_on(self, kinds=None):
        for kind, reader in self.readers.items():
            if kinds is None or kind in kinds:
                reader.sees("appeared")
                reader.reads_on()

    def all_told(self, event, since_ms, count=1, kinds=None):
        """Every reader is told the event within the bound."""
        for kind, reader in self.readers.items():
            if kinds is not None and kind not in kinds:
                continue
            found = reader.sees(event, count)["ms"] - since_ms
            if found > STALE_MS + SLACK_MS:
                raise Failed(reader.process.words(f"over {kind}: {event} after {found:.0f} ms, "
                                                  f"expected {STALE_MS} at most"))

    def end(self, lost=0):
        for reader in self.readers.values():
            reader.end(lost)
        self.pubd.signal("TERM")
        self.pubd.wait()
