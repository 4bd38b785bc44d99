#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds each folder to the list of folders that it may use, and each folder's files to one direction.

    layers.py [BUILD]

Includes: a folder's files may include their own folder, what MAY_USE names, and system headers that
CLAIMED gives to no other folder.

Symbols (with BUILD, a build folder; read with nm): an edge leads from an object that uses a symbol to
the object that defines it. Edges to another folder keep to MAY_USE as well; within a folder, edges
form no cycle. An include check alone would not notice a cycle behind one big header.

Callbacks: a call that goes up does so through a function pointer, which no symbol shows. So each header
that declares a function pointer is in CALLBACKS, with the reason.

Prints every breach; the exit status is 1 if there is a breach.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A fabric moves bytes: control messages, records and pulses mean nothing to it.
FABRIC_MAY_USE = ["tickbus", "bus/address.h", "bus/barrier.h", "bus/bounds.h", "bus/clock.h", "bus/error.h", "bus/fabric.h",
                  "bus/memory.h", "bus/no_notices.h", "bus/notice.h", "bus/numa.h", "bus/peers.h", "bus/words.h"]
# The porter is a program of its own: its files and the descriptors of a socket are all that it is made of.
PORTER_MAY_USE = ["bus/fabric.h", "bus/shm/shm_frame.h", "bus/shm/shm_given.h", "bus/shm/shm_rights.h"]
PROTOCOL_MAY_USE = ["publisher/feeds/protocol.h", "publisher/feeds/source.h", "publisher/feeds/market", "schemas",
                    "bus/error.h", "tickbus"]

# folder -> folders and headers that it may include ("tickbus" is include/tickbus)
MAY_USE = {
    "include/tickbus": ["tickbus"],
    "bus": ["tickbus"],
    "bus/shm": FABRIC_MAY_USE + ["bus/shm/porter/message.h"],
    "bus/shm/porter": PORTER_MAY_USE,
    "bus/verbs": FABRIC_MAY_USE,
    "bus/fault": FABRIC_MAY_USE,
    "config/yaml": ["bus/bounds.h", "bus/clock.h", "bus/error.h", "tickbus/error.h"],
    "schemas": ["config/yaml", "bus/bounds.h", "bus/error.h", "tickbus"],
    "config": ["config/yaml", "schemas", "bus/error.h", "bus/bounds.h", "bus/region.h", "bus/address.h",
               "bus/groups.h", "bus/pattern.h", "tickbus"],
    "publisher": ["bus", "schemas", "tickbus"],
    "subscriber": ["bus", "schemas", "tickbus"],
    # A feed knows no protocol, and a market no message.
    "publisher/feeds": ["publisher", "publisher/feeds/market", "schemas", "bus/error.h", "bus/clock.h", "bus/barrier.h",
                        "tickbus"],
    "publisher/feeds/containers": ["bus/error.h", "tickbus"],
    "publisher/feeds/framings": ["publisher/feeds/containers", "publisher/feeds/source.h", "publisher/feeds/itch/itch.h",
                                 "bus/error.h"],
    "publisher/feeds/itch": PROTOCOL_MAY_USE,
    "publisher/feeds/market": ["schemas", "bus/error.h", "bus/keyed.h", "tickbus"],
    "publisher/feeds/synthetic": ["publisher/feeds/source.h", "publisher/feeds/itch/itch.h", "bus/bounds.h",
                                  "bus/error.h"],
    "publisher/feeds/calendar": ["bus/error.h"],
    "publisher/pubd": ["publisher", "publisher/feeds", "publisher/feeds/calendar", "publisher/feeds/framings",
                       "publisher/feeds/itch", "publisher/feeds/market", "publisher/feeds/synthetic", "config", "schemas",
                       "bus/account.h", "bus/error.h", "bus/clock.h", "bus/log.h", "tickbus"],
    "tools": ["tickbus"],
    "examples": ["tickbus", "tickbus/schemas"],
}
# file -> what it alone may include beside its folder's list
ALSO = {
    "bus/fabric.c": ["bus/shm/shm.h", "bus/verbs/verbs.h"],
    "bus/fabric_find.c": ["bus/fault/fault.h", "bus/fault/fault_plan.h"],
    "tools/synth.c": ["publisher/feeds/synthetic/synthetic.h"],
}
# header of a library -> folders that may see it
CLAIMED = {
    "yaml.h": ["config/yaml"],
    "xxhash.h": ["bus", "schemas"],
    "sodium.h": ["bus"],
    "zlib.h": ["publisher/feeds/containers"],
    "zstd.h": ["publisher/feeds/containers", "publisher/feeds/synthetic"],
    "rdma/": ["bus/verbs"],
    "infiniband/": ["bus/verbs"],
    "pcap": [],
}
# folders of programs: what they define is linked into no other folder
PRIVATE = ["examples", "tools", "publisher/pubd"]
# header -> why a call goes up through it
CALLBACKS = {
    "bus/clock.h": "tests and simulations replace the clock",
    "bus/random.h": "tests and simulations replace randomness",
    "bus/record.h": "the code that takes records of one length, chosen once for a topic",
    "bus/fabric.h": "a fabric's operations; a listener and a link call their owner with what arrived",
    "bus/peers.h": "a fabric ends the connection of its own peer",
    "config/forms.h": "a key's own check, from the tables of keys",
    "config/settings.h": "checks that need the feeds, which settings do not know",
    "include/tickbus/doctor.h": "each finding",
    "include/tickbus/inspect.h": "each topic and each counter that is found",
    "include/tickbus/publisher.h": "log lines",
    "include/tickbus/subscriber.h": "records, batches and events",
    "publisher/feeds/feed.h": "a feed's end",
    "publisher/feeds/market/market.h": "what a market makes of a message, to the feed that publishes it",
    "publisher/feeds/protocol.h": "a protocol's operations; what is found in a message, to the feed",
    "publisher/feeds/reading.h": "what the reading thread made, to the feed that publishes it",
    "publisher/feeds/source.h": "a source's operations",
    "publisher/state.h": "what follows each record of a topic; both ends are in writer.c",
    "publisher/pubd/daemon.h": "a feed's end, to the daemon",
    "subscriber/value_reads.h": "what becomes of each copy of a value: an image or a watch list, which stand above",
    "subscriber/collect.h": "the pull that takes records for a batch, which stands above",
    "tools/command.h": "the commands, from their table",
    "subscriber/ask.h": "the loop of a call that runs the program's handler for values or for the past",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
POINTER = re.compile(r"\(\*\w+\)\(|^typedef \w[\w ]*[ *](\w+)\(", re.MULTILINE)


def folder_of(file):
    return str(pathlib.PurePath(file).parent)


def allowed(file, target):
    folder, place = folder_of(file), folder_of(target)
    names = MAY_USE[folder] + ALSO.get(file, [])
    return place == folder or place == "." or target in names or place in names


def header_of(file):
    """The header that declares what a file defines: synthetic_file.c has synthetic.h."""
    stem = file.removesuffix(".c")
    while "_" in stem.rpartition("/")[2] and not (ROOT / f"{stem}.h").exists():
        stem = stem.rpartition("_")[0]
    return stem + ".h"


def include_breaches(folder):
    for path in sorted((ROOT / folder).glob("*.[ch]")):
        file = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            system, target = found.group(1) == "<", found.group(2)
            if not system or target.startswith("tickbus/"):
                if not allowed(file, target):
                    yield f"{file}:{number}: includes {target}, {folder} may use: " \
                          + ", ".join(MAY_USE[folder])
                continue
            for claim, owners in CLAIMED.items():
                if target.startswith(claim) and folder not in owners:
                    yield f"{file}:{number}: includes <{target}>, which is for " \
                          + (", ".join(owners) or "no folder yet")


def callback_breaches():
    found = {str(path.relative_to(ROOT)) for folder in MAY_USE for path in (ROOT / folder).glob("*.h")
             if POINTER.search(path.read_text())}
    for header in sorted(found - set(CALLBACKS)):
        yield f"{header}: declares a callback, expected a line with its reason in CALLBACKS"
    for header in sorted(set(CALLBACKS) - found):
        yield f"{header}: is in CALLBACKS, found no callback in it"


def objects(build):
    """(source file, object) of each file that the library, the daemon and the programs are made of."""
    seen = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        output = build / entry["output"]
        if folder_of(file) in MAY_USE and entry["output"].startswith(file.split("/")[0]) \
                and file not in seen and output.exists():
            seen.add(file)
            yield file, output


def symbols(output):
    """(symbols that an object defines, symbols that it takes from others)."""
    lines = subprocess.run(["nm", str(output)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in lines.splitlines()]
    return ({row[-1] for row in rows if row[-2] in "TDBR"}, {row[-1] for row in rows if row[-2] == "U"})


def edges(build):
    """{(user, definer): symbols} of every two files of which one uses symbols of the other. Two programs
    may define the same name: a file's own folder comes first."""
    found = {file: symbols(output) for file, output in objects(build)}
    definers = {}
    for file, (defined, _) in found.items():
        for symbol in defined:
            definers.setdefault(symbol, []).append(file)
    between = {}
    for user, (_, used) in found.items():
        for symbol in sorted(used & definers.keys()):
            near = [file for file in definers[symbol] if folder_of(file) == folder_of(user)]
            between.setdefault((user, (near or definers[symbol])[0]), []).append(symbol)
    return between


def cycles(graph):
    """Groups of files that all lead to each other."""
    def reach(start):
        found, left = set(), [start]
        while left:
            for file in graph.get(left.pop(), ()):
                if file not in found:
                    found.add(file)
                    left.append(file)
        return found
    reached = {file: reach(file) for file in graph}
    groups = {frozenset(other for other in reached[file] if file in reached.get(other, ()))
              for file in graph if file in reached[file]}
    return sorted(map(sorted, groups))


def symbol_breaches(build):
    graph, between = {}, edges(build)
    for (user, definer), shared in between.items():
        graph.setdefault(user, set()).add(definer)
        hidden = [symbol for symbol in shared if not symbol.startswith("tb_")]
        if hidden and not allowed(user, header_of(definer)) and folder_of(definer) not in PRIVATE:
            yield f"{user}: uses {', '.join(hidden)} of {definer}, {folder_of(user)} may use: " \
                  + ", ".join(MAY_USE[folder_of(user)])
    if not graph:
        yield f"{build}: found no objects, expected a build folder where everything is built"
    for group in cycles(graph):
        yield "a cycle: " + "; ".join(f"{user} uses {', '.join(between[user, definer])} of {definer}"
                                      for user in group for definer in sorted(graph[user])
                                      if definer in group)


def main():
    found = [breach for folder in MAY_USE for breach in include_breaches(folder)]
    found += callback_breaches()
    if len(sys.argv) > 1:
        found += symbol_breaches(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(found) if found else f"{len(MAY_USE)} folders keep to their layers, without a cycle")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
