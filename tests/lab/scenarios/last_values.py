# SPDX-License-Identifier: Apache-2.0
"""`tickbus get` over both kinds of device while the publisher writes: no value goes back, and each is a record of the
topic."""
import csv

import bus
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
ROUNDS = 5
RATE = 200


def values(host, where, *names, status=0):
    """Rows by instrument: (sequence, the fields of the record)."""
    printed = host.run(f"tickbus get {where} nasdaq.quote {' '.join(names)} --format csv --timeout 20000 2>/dev/null",
                       status)
    rows = list(csv.reader(printed.splitlines()))
    if not rows or rows[0][:5] != ["sequence", "time_ns", "age_ns", "instrument", "kind"]:
        raise Failed(f"found no header of values:\n{printed}")
    return {row[3]: (int(row[0]), [row[1], *row[3:]]) for row in rows[1:]}


def not_older(before, after):
    for name, (sequence, _) in before.items():
        if name not in after or after[name][0] < sequence:
            raise Failed(f"{name}: found {after.get(name)} after record {sequence}")


def run(lab):
    publisher, reader = lab.host(1), lab.host(2)
    daemon = bus.pubd(publisher, bus.market(RATE))
    records = bus.cat(publisher, publisher, "shm", "quote", "--until-end", out="all.csv")
    publisher.run("until [ $(tickbus get shm:lab nasdaq.quote | wc -l) -ge 50 ]; do :; done")
    seen = {}
    for kind in lab.kinds:
        where = bus.address_on(reader, publisher, kind)
        last = {}
        for _ in range(ROUNDS):
            found = values(reader, where)
            not_older(last, found)
            seen.update({sequence: fields for sequence, fields in found.values()})
            last = found
        named = sorted(last)[:3]
        found = values(reader, where, *named, "NOBODY", status=5)
        not_older({name: last[name] for name in named}, found)
        if set(found) != set(named):
            raise Failed(f"over {kind}: found {sorted(found)}, expected {named}")
        said = reader.run(f"tickbus get {where} nasdaq.quote {named[0]} 2>&1 >/dev/null")
        if "synchronised clocks" not in said:
            raise Failed(f"over {kind}: found {said!r}, expected a line about clocks")
        lab.note(f"over {kind}: {len(last)} values, {max(sequence for sequence, _ in last.values())} the newest")
    daemon.signal("TERM")
    daemon.wait()
    records.wait()
    with open(lab.topology.folder / "all.csv", encoding="ascii") as file:
        every = {int(row[0]): row[1:] for row in list(csv.reader(file))[1:]}
    wrong = [sequence for sequence, fields in seen.items() if every.get(sequence) != fields]
    if wrong or len(seen) < 50:
        raise Failed(f"{len(seen)} values, {len(wrong)} are no record of the topic: {wrong[:5]}")
