# SPDX-License-Identifier: Apache-2.0
"""Two topics with a group each: who reads one gets none of the other's datagrams; one group lost, the other's come."""
import bus
from control_subscriber import ControlSubscriber
from guests import Failed
from hosts import Skipped

TOPOLOGY = "one guest"
SECONDS = 150
RECORDS = 100
GROUPS = {"quote": "239.10.0.2", "trade": "239.10.0.3"}
NUMBERS = {"rxe": 2, "siw": 3}
UNITS = {"rxe": "ud bytes", "siw": "udp bytes"}


def told(lab, kind):
    """`tickbus stat` shows the bus's group, and each topic's that is another."""
    host, publisher = lab.host(NUMBERS[kind]), lab.host(1)
    where = bus.address_on(host, publisher, kind)
    # A second is not always enough for all that it asks, on an emulated processor.
    found = host.run(f"until text=$(tickbus stat {where} --format csv 2>/dev/null); do :; done\n"
                     "echo \"$text\" | grep ^group").splitlines()
    wanted = [f"group,{name},{group}:7472,1024,{UNITS[kind]}" for name, group in
              (("lab", bus.GROUP), *((f"nasdaq.{topic}", group) for topic, group in GROUPS.items()))]
    if found != wanted:
        raise Failed(f"over {kind}: `tickbus stat` shows {found}, expected {wanted}")


def counters(reader):
    return reader.sum()["counters"]


def none_of_others(readers):
    for (kind, topic), reader in readers.items():
        found = counters(reader)
        print(f"         {kind} {topic}: {found['records']} records, {found['notices']} notices, "
              f"{found['notices_others']} of others")
        if found["notices_others"]:
            raise Failed(reader.process.words(f"over {kind}: {found['notices_others']} datagrams of others"))


def one_filtered_away(lab, places, readers):
    for kind, number in places.items():
        lab.host(number).block_multicast(f"{GROUPS['trade']}/32")
    before = {kind: counters(readers[kind, "trade"])["notices"] for kind in places}
    for kind in places:
        for topic in GROUPS:
            readers[kind, topic].reads_on(30)
        readers[kind, "quote"].hears()
    for kind, number in places.items():
        quiet = readers[kind, "trade"]
        # What was on its way when the filter came may have arrived.
        if counters(quiet)["notices"] > before[kind] + 2:
            raise Failed(quiet.process.words(f"over {kind}: notices came through the filter"))
        lab.host(number).unblock_multicast()
        quiet.hears()


def run(lab):
    publisher, places = lab.host(1), {kind: NUMBERS[kind] for kind in lab.kinds}
    daemon = bus.pubd(publisher, bus.market(250), topics=tuple(GROUPS), groups=GROUPS)
    readers = {(kind, topic): ControlSubscriber(lab.host(number), publisher, kind, topic=topic)
               for kind, number in places.items() for topic in GROUPS}
    for reader in readers.values():
        reader.sees("appeared")
        reader.hears()
    for kind in places:
        told(lab, kind)
    rows = {kind: bus.cat(lab.host(number), publisher, kind, "trade", f"--count {RECORDS}", out=f"groups.{kind}")
            for kind, number in (("shm", 1), *places.items())}
    for process in rows.values():
        process.wait()
    for kind in places:
        if bus.rows(lab, f"groups.{kind}") != bus.rows(lab, "groups.shm"):
            raise Failed(f"over {kind}: other rows than over shared memory")
    none_of_others(readers)
    try:
        one_filtered_away(lab, places, readers)
    except Skipped as why:
        lab.note(f"no group was filtered away: {why}")
    none_of_others(readers)
    for reader in readers.values():
        reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
