# SPDX-License-Identifier: Apache-2.0
"""Every multicast filtered away: subscribers find all records by looking, within the interval, and are never told stale."""
import bus
import failures
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
STALE_MS = 2000  # until it is over, silence means nothing: the bus page tells, written four times in it, READ eight times
PAGE_MS = STALE_MS / 4 + STALE_MS / 8
LOOK_MS = 1  # from then on READs of the progress line are so far apart
REMOTE = {"rxe": 2, "siw": 3}
HEARD = ("notices", "heartbeats")


def heard(books):
    return {name: books["counters"][name] for name in HEARD}


def in_time(lab, lateness, kind, reader, since, bound_ms, what):
    age, when = reader.oldest(since)
    late = lateness.ms(when - age, when)
    words = f"over {kind}, {what}: a record was {age:.0f} ms old at most, on a machine that was {late:.0f} ms late"
    lab.note(words)
    if not failures.within(age, bound_ms, late):
        raise Failed(reader.process.words(f"{words}; expected {bound_ms:.0f}"))


def run(lab):
    daemon = bus.pubd(lab.host(1), bus.market(100), stale_ms=STALE_MS)
    lateness = failures.Lateness(lab.host(1))
    readers = {kind: ControlSubscriber(lab.host(number), lab.host(1), kind, how="spin") for kind, number in REMOTE.items()}
    for reader in readers.values():
        reader.sees("appeared")
        lab.wait_until(lambda: heard(reader.sum())["notices"], "a notice")
    for number in REMOTE.values():
        lab.host(number).block_multicast()
    deaf = {kind: reader.reads_on() for kind, reader in readers.items()}  # what was on its way has come
    for kind, reader in readers.items():
        lab.wait_until(lambda: reader.sum()["ms"] > deaf[kind]["ms"] + STALE_MS, "notices to be missed", every=0.2)
        in_time(lab, lateness, kind, reader, deaf[kind], PAGE_MS, "before notices were missed")
    for kind, reader in readers.items():
        since = reader.sum()
        books = reader.reads_on(100)
        if heard(books) != heard(deaf[kind]):
            raise Failed(reader.process.words(f"over {kind}: notices came through the filter, from {heard(deaf[kind])}"))
        in_time(lab, lateness, kind, reader, since, LOOK_MS, "by looking alone")
        if reader.events("stale"):
            raise Failed(reader.process.words(f"over {kind}: told stale"))
    for kind, number in REMOTE.items():
        lab.host(number).unblock_multicast()
        lab.wait_until(lambda: heard(readers[kind].sum()) != heard(deaf[kind]), f"a notice over {kind}")
        readers[kind].end(lost=0)
    lateness.process.kill()
    daemon.signal("TERM")
    daemon.wait()
