# SPDX-License-Identifier: Apache-2.0
"""The control subscriber on a host (tests/faults/control_subscriber.c). It prints its events with their times, and
accounts for every record: a record that is missing, doubled or out of order is counted. `watched`: it watches the
values of these instruments instead."""
import json

import bus
from guests import Failed
from hosts import Skipped


class ControlSubscriber:
    def __init__(self, host, source, kind, how="wait", start="newest", topic="quote", prefix="", others=(), knobs="",
                 watched=()):
        program = host.lab.build / "tests/faults/faults-control-subscriber"
        if not program.exists():
            raise Skipped(f"{host.lab.build} holds no tests")
        self.host, self.kind = host, kind
        address = bus.address_on(host, source, kind) + knobs
        topics = ",".join(f"nasdaq.{name}" for name in (topic, *others))
        watch = f"CONTROL_WATCH={','.join(watched)}" if watched else ""
        self.process = host.start(f"{watch} exec {prefix} {program} {address} {topics} {start} {how}")

    def events(self, kind=None):
        lines = self.process.output().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("}\n") and line.startswith("{")]
        return [event for event in found if kind in (None, event["event"])]

    def sees(self, kind, count=1, seconds=None):
        """Waits for the count-th event of a kind and returns it."""
        def seen():
            if not self.process.running():
                raise Failed(self.process.report("ended early"))
            return len(self.events(kind)) >= count
        try:
            self.host.lab.wait_until(seen, f"{count} x {kind}", seconds)
        except Failed as failure:
            raise Failed(self.process.report(f"over {self.kind}: {failure}")) from None
        return self.events(kind)[count - 1]

    def sum(self):
        self.sees("ready")  # before that, the signal would end it
        before = len(self.events("sum"))
        self.process.signal("USR1")
        return self.sees("sum", before + 1)

    def reads_on(self, records=10):
        """Waits until it has received so many more records. Returns its account then."""
        wanted = self.sum()["total"] + records

        def received():
            last = self.sum()
            return last["total"] >= wanted and last
        return self.host.lab.wait_until(received, f"{records} more records over {self.kind}", every=0.25)

    def receives_notice(self):
        """Waits until another notice arrives."""
        before = self.sum()["counters"]["notices"]
        self.host.lab.wait_until(lambda: self.sum()["counters"]["notices"] > before,
                                 f"a notice over {self.kind}", 30)

    def oldest(self, since):
        """The greatest age of a record at its delivery since this account, and when that was."""
        self.sum()
        return max((account["age_ms"], account["age_at"]) for account in self.events("sum") if account["ms"] > since["ms"])

    def end(self, lost=None):
        """Ends it. Its last account must be without a fault."""
        self.process.signal("TERM")
        return self.ends(lost)

    def ends(self, lost=None):
        """Waits for its end, with the same check."""
        self.process.wait()
        account = self.events("sum")[-1]
        if account["wrong"] or lost not in (None, account["lost"]):
            raise Failed(self.process.report(f"over {self.kind}: {account['wrong']} records out of place, "
                                            f"{account['lost']} lost"))
        return account
