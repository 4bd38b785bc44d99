#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds each folder to the list of whom it may include. Prints every breach; exit status 1 if any.

A folder's files may include their own folder, what the list names, and system headers that no list
claims. Libraries of a field are claimed: only the folders named beside them may see their headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A fabric moves bytes: what control messages, notices and records mean is not for it.
FABRIC_MAY_USE = ["tickbus", "bus/address.h", "bus/clock.h", "bus/error.h", "bus/fabric.h", "bus/bounds.h", "bus/memory.h",
                  "bus/notice.h", "bus/numa.h", "bus/words.h"]

# folder -> folders whose headers it may include ("tickbus" is include/tickbus)
MAY_USE = {
    "include/tickbus": ["tickbus"],
    "bus": ["tickbus"],
    "bus/shm": FABRIC_MAY_USE,
    "bus/verbs": FABRIC_MAY_USE,
    "config/yaml": ["bus/bounds.h", "bus/error.h", "tickbus/error.h"],
    "schemas": ["config/yaml", "bus/bounds.h", "bus/error.h", "tickbus"],
    "config": ["config/yaml", "schemas", "bus/error.h", "bus/bounds.h", "bus/region.h", "bus/address.h", "bus/groups.h",
               "bus/pattern.h", "tickbus"],
    "publisher": ["bus", "schemas", "tickbus"],
    "subscriber": ["bus", "schemas", "tickbus"],
    "publisher/feeds": ["publisher", "subscriber", "schemas", "bus/bounds.h", "bus/error.h", "bus/clock.h", "tickbus"],
    "publisher/pubd": ["publisher", "publisher/feeds", "config", "schemas", "bus/error.h",
                       "bus/clock.h", "bus/log.h", "tickbus"],
    "tools": ["tickbus"],
    "examples": ["tickbus", "tickbus/schemas"],
}
# file -> what it alone may include beside its folder's list
ALSO = {
    "bus/fabric.c": ["bus/shm/shm.h", "bus/verbs/verbs.h"],
    "bus/verbs/verbs_listener.c": ["bus/control.h"],
    "tools/synth.c": ["publisher/feeds/synthetic.h"],
}
# header -> folders, or how the names of the files begin that may see it
CLAIMED = {
    "yaml.h": ["config/yaml"],
    "xxhash.h": ["bus", "schemas"],
    "zlib.h": ["publisher/feeds"],
    "zstd.h": ["publisher/feeds"],
    "rdma/": ["bus/verbs"],
    "infiniband/": ["bus/verbs"],
    "pcap": [],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed(folder, file, target):
    names = MAY_USE[folder] + ALSO.get(file, [])
    place = str(pathlib.PurePath(target).parent)
    return place == folder or place == "." or target in names or place in names


def breaches(folder):
    for path in sorted((ROOT / folder).glob("*.[ch]")):
        file = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            system, target = found.group(1) == "<", found.group(2)
            if not system or target.startswith("tickbus/"):
                if not allowed(folder, file, target):
                    yield f"{file}:{number}: includes {target}, {folder} may use: " \
                          + ", ".join(MAY_USE[folder])
                continue
            for claim, owners in CLAIMED.items():
                if target.startswith(claim) and folder not in owners \
                        and not any(file.startswith(owner) for owner in owners):
                    yield f"{file}:{number}: includes <{target}>, which is for " \
                          + (", ".join(owners) or "nobody yet")


def main():
    found = [breach for folder in MAY_USE for breach in breaches(folder)]
    print("\n".join(found) if found else f"{len(MAY_USE)} folders keep to their layers")
    return 1 if found else 0


sys.exit(main())
