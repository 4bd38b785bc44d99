# SPDX-License-Identifier: Apache-2.0
"""A subscriber that keeps the books (tests/faults/control_subscriber.c): what it was told, when, and that no record is
missing, twice or out of place without a word."""
import json

import bus
from guests import Failed
from hosts import Skipped


class ControlSubscriber:
    def __init__(self, host, source, kind, how="wait", start="newest", topic="quote", prefix="", others=(), knobs=""):
        program = host.lab.build / "tests/faults/faults-control-subscriber"
        if not program.exists():
            raise Skipped(f"{host.lab.build} holds no tests")
        self.host, self.kind = host, kind
        address = bus.address_on(host, source, kind) + knobs
        topics = ",".join(f"nasdaq.{one}" for one in (topic, *others))
        self.process = host.start(f"exec {prefix} {program} {address} {topics} {start} {how}")

    def events(self, kind=None):
        lines = self.process.output().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("}\n") and line.startswith("{")]
        return [one for one in found if kind in (None, one["event"])]

    def sees(self, kind, count=1, seconds=None):
        """The count-th event of a kind, once it is there."""
        def seen():
            if not self.process.running():
                raise Failed(self.process.words("ended early"))
            return len(self.events(kind)) >= count
        try:
            self.host.lab.wait_until(seen, f"{count} x {kind}", seconds)
        except Failed as failure:
            raise Failed(self.process.words(f"over {self.kind}: {failure}")) from None
        return self.events(kind)[count - 1]

    def sum(self):
        self.sees("ready")  # before that, the signal would end it
        before = len(self.events("sum"))
        self.process.signal("USR1")
        return self.sees("sum", before + 1)

    def reads_on(self, records=10):
        """Waits until it was given so many more records than now; its books then."""
        wanted = self.sum()["total"] + records

        def there():
            last = self.sum()
            return last["total"] >= wanted and last
        return self.host.lab.wait_until(there, f"{records} more records over {self.kind}", every=0.25)

    def hears(self):
        """Waits until a notice came that had not before."""
        before = self.sum()["counters"]["notices"]
        self.host.lab.wait_until(lambda: self.sum()["counters"]["notices"] > before, f"a notice over {self.kind}", 30)

    def oldest(self, since):
        """How old the oldest record was when it was delivered, behind these books of its own; and when that was."""
        self.sum()
        return max((books["age_ms"], books["age_at"]) for books in self.events("sum") if books["ms"] > since["ms"])

    def end(self, lost=None):
        """Ends it; its last books have to be without a fault."""
        self.process.signal("TERM")
        return self.ends(lost)

    def ends(self, lost=None):
        """Waits until it ends; as end."""
        self.process.wait()
        books = self.events("sum")[-1]
        if books["wrong"] or lost not in (None, books["lost"]):
            raise Failed(self.process.words(f"over {self.kind}: {books['wrong']} records out of place, "
                                            f"{books['lost']} lost"))
        return books
