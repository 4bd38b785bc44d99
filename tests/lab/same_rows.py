# SPDX-License-Identifier: Apache-2.0
"""Reads the same records by `tickbus cat` over each fabric: rows over RDMA equal those over shared memory."""
import bus
from guests import Failed


class SameRows:
    """Starts its readers and waits until they have joined; usually before the first of the records is published."""

    def __init__(self, lab, reader, ahead, count, hosts, name="rows"):
        """Reads `count` records, from `ahead` records after the next of `reader`. `hosts`: host numbers by kind."""
        self.lab, self.count, self.name = lab, count, name
        first = reader.sum()["next"] + ahead
        joins = bus.counter(lab.host(1), "joins")
        self.cats = {kind: bus.cat(lab.host(number), lab.host(1), kind, "quote", f"--from {first} --count {count}",
                                   out=f"{name}.{kind}") for kind, number in {"shm": 1, **hosts}.items()}
        lab.wait_until(lambda: bus.counter(lab.host(1), "joins") - joins + self.ended() >= len(self.cats),
                       "cats to join", every=0.2)

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
