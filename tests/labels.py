#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the labels of invariants and memory-order edges ("R2", "L4", "P-I1") to a single meaning.

A comment defines a label by the label and two spaces, then the sentence. Each label is defined once in the
tree, and each label that a comment names is defined. Prints every breach; the exit status is 1 if there is
a breach.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["bus", "bus/shm", "bus/verbs", "config", "config/yaml", "schemas", "publisher", "publisher/feeds",
           "publisher/pubd", "subscriber", "tools"]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
LABEL = r"(?<![\w\"'.%-])((?:[A-Z]-I|[A-Z])[1-9])(?![\w-])"
DEFINITION = re.compile(LABEL + r"  (?=\S)")
USE = re.compile(LABEL)


def comments(text):
    """(offset, comment), without string literals that look like a comment."""
    for found in COMMENT.finditer(text):
        yield found.start(), found.group()


def places(pattern, path):
    text = path.read_text()
    file = path.relative_to(ROOT)
    for offset, comment in comments(text):
        for found in pattern.finditer(comment):
            yield found.group(1), f"{file}:{text.count(chr(10), 0, offset + found.start()) + 1}"


def main():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.[ch]"))]
    defined, breaches = {}, []
    for path in paths:
        for label, where in places(DEFINITION, path):
            if label in defined:
                breaches.append(f"{where}: defines {label}, which {defined[label]} defines too")
            defined.setdefault(label, where)
    for path in paths:
        breaches += [f"{where}: names {label}, found no definition of it"
                     for label, where in places(USE, path) if label not in defined]
    print("\n".join(breaches) if breaches else f"{len(defined)} labels have one meaning each")
    return 1 if breaches else 0


sys.exit(main())
