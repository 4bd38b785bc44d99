# SPDX-License-Identifier: Apache-2.0
"""All multicast is filtered away: subscribers find all records by polling, within the interval, and never see a stale
topic."""
import bus
import failures
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest, steady"
SECONDS = 120
STALE_MS = 2000  # in this time the bus page, written 4 times and READ 8 times, has to show records
PAGE_MS = STALE_MS / 4 + STALE_MS / 8
LOOK_MS = 1  # afterwards the interval of READs of the progress line
REMOTE = {"rxe": 2, "siw": 3}
RECEIVED = ("notices", "heartbeats")


def received(account):
    return {name: account["counters"][name] for name in RECEIVED}


def in_time(lab, lateness, kind, reader, since, bound_ms, what):
    age, when = reader.oldest(since)
    late = lateness.ms(when - age, when)
    text = f"over {kind}, {what}: a record was {age:.0f} ms old at most, on a machine that was {late:.0f} ms late"
    lab.note(text)
    if not failures.within(age, bound_ms, late):
        raise Failed(reader.process.report(f"{text}; expected {bound_ms:.0f}"))


def run(lab):
    daemon = bus.pubd(lab.host(1), bus.market(100), stale_ms=STALE_MS)
    lateness = failures.Lateness(lab.host(1))
    readers = {kind: ControlSubscriber(lab.host(number), lab.host(1), kind, how="spin")
               for kind, number in REMOTE.items()}
    for reader in readers.values():
        reader.sees("appeared")
        lab.wait_until(lambda: received(reader.sum())["notices"], "a notice")
    for number in REMOTE.values():
        lab.host(number).block_multicast()
    filtered = {kind: reader.reads_on() for kind, reader in readers.items()}  # datagrams in flight have arrived
    for kind, reader in readers.items():
        lab.wait_until(lambda: reader.sum()["ms"] > filtered[kind]["ms"] + STALE_MS, "the loss of notices to be noticed",
                       every=0.2)
        in_time(lab, lateness, kind, reader, filtered[kind], PAGE_MS, "before the loss was noticed")
    for kind, reader in readers.items():
        since = reader.sum()
        account = reader.reads_on(100)
        if received(account) != received(filtered[kind]):
            raise Failed(reader.process.report(f"over {kind}: found notices despite the filter, from "
                                               f"{received(filtered[kind])}"))
        in_time(lab, lateness, kind, reader, since, LOOK_MS, "by polling alone")
        if reader.events("stale"):
            raise Failed(reader.process.report(f"over {kind}: found a stale topic"))
    for kind, number in REMOTE.items():
        lab.host(number).unblock_multicast()
        lab.wait_until(lambda: received(readers[kind].sum()) != received(filtered[kind]), f"a notice over {kind}")
        readers[kind].end(lost=0)
    lateness.process.kill()
    daemon.signal("TERM")
    daemon.wait()
