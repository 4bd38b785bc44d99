# SPDX-License-Identifier: Apache-2.0
"""Two topics with a group each: a reader of one gets no datagrams of the other. When a group is lost, the other's
notices still arrive."""
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


def expect_groups_in_stat(lab, kind):
    """`tickbus stat` shows the bus's group, and the groups of topics that have their own."""
    host, publisher = lab.host(NUMBERS[kind]), lab.host(1)
    where = bus.address_on(host, publisher, kind)
    # Repeated, as its timeout may be too short on an emulated processor.
    found = host.run(f"until text=$(tickbus stat {where} --format csv 2>/dev/null); do :; done\n"
                     "echo \"$text\" | grep ^group").splitlines()
    wanted = [f"group,{name},{group}:7472,1024,{UNITS[kind]}" for name, group in
              (("lab", bus.GROUP), *((f"nasdaq.{topic}", group) for topic, group in GROUPS.items()))]
    if found != wanted:
        raise Failed(f"over {kind}: `tickbus stat` shows {found}, expected {wanted}")


def counters(reader):
    return reader.sum()["counters"]


def expect_no_others(readers):
    for (kind, topic), reader in readers.items():
        found = counters(reader)
        print(f"         {kind} {topic}: {found['records']} records, {found['notices']} notices, "
              f"{found['notices_others']} of others")
        if found["notices_others"]:
            raise Failed(reader.process.report(f"over {kind}: found {found['notices_others']} datagrams of the other "
                                               "topic"))


def filter_a_group(lab, hosts, readers):
    for kind, number in hosts.items():
        lab.host(number).block_multicast(f"{GROUPS['trade']}/32")
    before = {kind: counters(readers[kind, "trade"])["notices"] for kind in hosts}
    for kind in hosts:
        for topic in GROUPS:
            readers[kind, topic].reads_on(30)
        readers[kind, "quote"].receives_notice()
    for kind, number in hosts.items():
        quiet = readers[kind, "trade"]
        # Two datagrams may have been in flight when the filter was set.
        if counters(quiet)["notices"] > before[kind] + 2:
            raise Failed(quiet.process.report(f"over {kind}: found notices despite the filter"))
        lab.host(number).unblock_multicast()
        quiet.receives_notice()


def run(lab):
    publisher, hosts = lab.host(1), {kind: NUMBERS[kind] for kind in lab.kinds}
    daemon = bus.pubd(publisher, bus.market(250), topics=tuple(GROUPS), groups=GROUPS)
    readers = {(kind, topic): ControlSubscriber(lab.host(number), publisher, kind, topic=topic)
               for kind, number in hosts.items() for topic in GROUPS}
    for reader in readers.values():
        reader.sees("appeared")
        reader.receives_notice()
    for kind in hosts:
        expect_groups_in_stat(lab, kind)
    rows = {kind: bus.cat(lab.host(number), publisher, kind, "trade", f"--count {RECORDS}", out=f"groups.{kind}")
            for kind, number in (("shm", 1), *hosts.items())}
    for process in rows.values():
        process.wait()
    for kind in hosts:
        if bus.rows(lab, f"groups.{kind}") != bus.rows(lab, "groups.shm"):
            raise Failed(f"over {kind}: the rows differ from those over shared memory")
    expect_no_others(readers)
    try:
        filter_a_group(lab, hosts, readers)
    except Skipped as why:
        lab.note(f"groups were not filtered: {why}")
    expect_no_others(readers)
    for reader in readers.values():
        reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
