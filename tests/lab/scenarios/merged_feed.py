# SPDX-License-Identifier: Apache-2.0
"""`tickbus cat` of a feed on other hosts: merged, chosen, conflated and past rows are those over shared memory, and the
accounts add up. A merge goes on when pubd is killed and replaced. It counts each record that a stopped reader lost."""
import collections
import json

import bus
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 180
TOPICS = ("quote", "trade")
MESSAGES, SYMBOLS = 1500, 50
SLOTS_LIVE, RATE = 128, 200
NUMBERS = {"rxe": 2, "siw": 3}
CHOSEN = 5
ON = 5  # records of each topic


def cat(lab, kind, topic, *options):
    """`tickbus cat` of a topic or pattern on the host with this kind of device, with JSON rows and events."""
    host = lab.host(NUMBERS.get(kind, 1))
    where = bus.address_on(host, lab.host(1), kind)
    return host.start(" ".join(("exec tickbus cat", where, f"'{topic}'", "--format json --timeout 20000", *options)))


def lines(process):
    """The lines that are complete; messages of the command are no JSON."""
    return [json.loads(line) for line in process.output().splitlines(keepends=True)
            if line.startswith("{") and line.endswith("}\n")]


def records(found):
    return [line for line in found if "instrument" in line]


def events(found, kind):
    return [line for line in found if line.get("event") == kind]


def in_order(found, what):
    """Times rise from message to message. Within a message topics come in the order of the settings."""
    keys = [(row["time_ns"], TOPICS.index(row["topic"].partition(".")[2]), row["sequence"]) for row in records(found)]
    for before, after in zip(keys, keys[1:]):
        if not before < after:
            raise Failed(f"{what}: {after} (time, topic, sequence) comes after {before}")


def expect(found, wanted, what):
    if found != wanted:
        at = next((i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), min(len(found), len(wanted)))
        raise Failed(f"{what}: found {len(found)} rows, expected {len(wanted)}; the first difference is at {at}: "
                     f"{found[at:at + 1]}, expected {wanted[at:at + 1]}")


def accounted(found, what):
    """What the account of a subscription adds up to."""
    account, = events(found, "account")
    return sum(number for name, number in account.items() if name in ("records", "skipped") or name.startswith("lost_"))


# -- a day that is read to its end --------------------------------------------------------------------------------------

def chosen_names(rows):
    count = collections.Counter(row["instrument"] for row in rows)
    return [name for name, _ in count.most_common(CHOSEN)]


def day(lab):
    publisher = lab.host(1)
    feed = bus.itch(bus.synthetic_file(lab, MESSAGES, SYMBOLS), 2 * (1 + len(lab.kinds)), ", at_end: linger")
    daemon = bus.pubd(publisher, feed, TOPICS, 16384)
    merges = {kind: cat(lab, kind, "nasdaq.*", "--merge --from oldest --until-end --wait") for kind in ("shm", *lab.kinds)}
    for process in merges.values():
        process.wait()
    rows = records(lines(merges["shm"]))
    if {row["topic"] for row in rows} != {f"nasdaq.{topic}" for topic in TOPICS}:
        raise Failed("over shared memory: found no merge of all topics")
    in_order(rows, "over shared memory")
    quotes = [{key: value for key, value in row.items() if key != "topic"} for row in rows
              if row["topic"] == "nasdaq.quote"]
    for kind in lab.kinds:
        expect(records(lines(merges[kind])), rows, f"the merge over {kind}")
        parts(lab, kind, quotes)
        past(lab, kind, quotes)
    daemon.signal("TERM")
    daemon.wait()


def parts(lab, kind, quotes):
    """Rows of some instruments, and conflated rows, of the topic that has ended."""
    names = chosen_names(quotes)
    options = "--from oldest --until-end"
    named = cat(lab, kind, "nasdaq.quote", options, "--names", ",".join(names))
    newest = cat(lab, kind, "nasdaq.quote", options, "--conflate 20ms")
    for process in (named, newest):
        process.wait()
        total = accounted(lines(process), kind)
        if total != len(quotes):
            raise Failed(process.report(f"found an account of {total} records, expected {len(quotes)}"))
    expect(records(lines(named)), [row for row in quotes if row["instrument"] in names], f"chosen rows over {kind}")
    last = {row["instrument"]: row["sequence"] for row in records(lines(newest))}
    wanted = {row["instrument"]: row["sequence"] for row in quotes}
    if last != wanted:
        raise Failed(newest.report(f"found {len(last)} newest rows, expected those of {len(wanted)} instruments"))


def past(lab, kind, quotes):
    middle = quotes[len(quotes) // 2]
    at = max(i for i, row in enumerate(quotes) if row["time_ns"] <= middle["time_ns"])
    runs = {f"--at {middle['time_ns']} --back 9": quotes[at - 9:at + 1], "--last 25": quotes[-25:]}
    started = {options: cat(lab, kind, "nasdaq.quote", options) for options in runs}
    for options, process in started.items():
        process.wait()
        expect(records(lines(process)), runs[options], f"{options} over {kind}")


# -- a market that goes on ------------------------------------------------------------------------------------------------

def market(lab):
    return bus.pubd(lab.host(1), bus.market(RATE), TOPICS, SLOTS_LIVE)


def reads_on(lab, process, count=ON):
    """Waits for more rows of each topic."""
    def seen():
        if not process.running():
            raise Failed(process.report("ended early"))
        return collections.Counter(row["topic"] for row in records(lines(process)))
    before = seen()
    lab.wait_until(lambda: all(seen()[f"nasdaq.{topic}"] >= before[f"nasdaq.{topic}"] + count for topic in TOPICS),
                   f"{count} more rows of each topic", every=0.25)


def complete(found, what):
    """Each record is printed or in a gap, in each epoch, and rows are in order. Returns how many were lost."""
    position, lost = {}, 0
    for line in found:
        topic = line.get("topic")
        if line.get("event") == "appeared":
            position[topic] = line["first"] - 1
        elif line.get("event") == "restart":
            position[topic] = 0
        first = line["sequence"] if "instrument" in line else line.get("first") if line.get("event") == "gap" else None
        if first is None:
            continue
        if first != position[topic] + 1:
            raise Failed(f"{what}: {topic} goes on with {first} after {position[topic]}")
        position[topic] = line.get("last", first)
        lost += position[topic] - first + 1 if line.get("event") == "gap" else 0
    in_order(found, what)
    return lost


def live(lab):
    daemon = market(lab)
    merges = {kind: cat(lab, kind, "nasdaq.*", "--merge --wait") for kind in lab.kinds}
    for process in merges.values():
        reads_on(lab, process)
    daemon.signal("KILL")
    for process in merges.values():
        lab.wait_until(lambda: len(events(lines(process), "stale")) >= len(TOPICS), "stale topics", every=0.25)
    daemon = market(lab)
    for kind, process in merges.items():
        reads_on(lab, process)
        found = lines(process)
        if {line["topic"] for line in events(found, "restart")} != {f"nasdaq.{topic}" for topic in TOPICS}:
            raise Failed(process.report(f"over {kind}: found no restart of each topic"))
        process.signal("STOP")
    held = {kind: lines(process)[-1] for kind, process in merges.items()}
    head = bus.heads(lab.host(1))["nasdaq.quote"]
    lab.wait_until(lambda: bus.heads(lab.host(1))["nasdaq.quote"] > head + 2 * SLOTS_LIVE, "a lap", every=0.5)
    for kind, process in merges.items():
        process.signal("CONT")
        reads_on(lab, process)
        process.signal("TERM")
        process.wait()
        lost = complete(lines(process), f"over {kind}")
        lab.note(f"over {kind}: {len(records(lines(process)))} rows, {lost} lost, held back at {held[kind]['sequence']}")
        if lost < SLOTS_LIVE:
            raise Failed(process.report(f"over {kind}: found {lost} records lost, expected a lap"))
    daemon.signal("TERM")
    daemon.wait()


def run(lab):
    day(lab)
    live(lab)
