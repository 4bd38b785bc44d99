# SPDX-License-Identifier: Apache-2.0
"""The same records to come, by `tickbus cat` over each fabric: rows over RDMA are those over shared memory."""
import bus
from guests import Failed


class SameRows:
    """Begun when its readers have joined, on a machine that is not too slow before the first record was published."""

    def __init__(self, lab, reader, ahead, count, places, name="rows"):
        """From the record on that is so far ahead of what `reader` has; `places`: hosts' numbers by kind of device."""
        self.lab, self.count, self.name = lab, count, name
        first = reader.sum()["next"] + ahead
        joins = bus.counter(lab.host(1), "joins")
        self.cats = {kind: bus.cat(lab.host(number), lab.host(1), kind, "quote", f"--from {first} --count {count}",
                                   out=f"{name}.{kind}") for kind, number in {"shm": 1, **places}.items()}
        lab.wait_until(lambda: bus.counter(lab.host(1), "joins") - joins + self.ended() >= len(self.cats), "cats to join",
                       every=0.2)

    def ended(self):
        return sum(not cat.running() for cat in self.cats.values())

    def wait(self):
        for cat in self.cats.values():
            cat.wait()

    def compare(self):
        wanted = bus.rows(self.lab, f"{self.name}.shm")
        for kind in self.cats:
            found = bus.rows(self.lab, f"{self.name}.{kind}")
            if found != wanted or found[0] != self.count:
                raise Failed(f"over {kind}: found {found[0]} rows, expected the {self.count} over shared memory")
