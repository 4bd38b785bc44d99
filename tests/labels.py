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
FOLDERS = ["bus", "bus/shm", "bus/shm/porter", "bus/verbs", "config", "config/yaml", "schemas", "publisher", "publisher/feeds",
           "publisher/pubd", "subscriber", "tools"]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
LABEL = r"(?<![\w\"'.%-])((?:[A-Z]-I|[A-Z])[1-9])(?![\w-])"
DEFINITION = re.compile(LABEL + r"  (?=\S)")
USE = re.compile(LABEL)


def comments(text):
    """(offset, comment), without string literals that look like a comment."""
    for found in COMMENT.finditer(text):
        yield found.start(), found.group()


def places(pattern, text, file):
    """(label, file:line) of each match in the comments of a text."""
    for offset, comment in comments(text):
        for found in pattern.finditer(comment):
            yield found.group(1), f"{file}:{text.count(chr(10), 0, offset + found.start()) + 1}"


def breaches(texts):
    """What is wrong with the labels of these files, {name: text}; and the number of labels."""
    defined, wrong = {}, []
    for file, text in texts.items():
        for label, where in places(DEFINITION, text, file):
            if label in defined:
                wrong.append(f"{where}: defines {label}, which {defined[label]} defines too")
            defined.setdefault(label, where)
    for file, text in texts.items():
        wrong += [f"{where}: names {label}, found no definition of it"
                  for label, where in places(USE, text, file) if label not in defined]
    return wrong, len(defined)


def main():
    texts = {path.relative_to(ROOT): path.read_text() for folder in FOLDERS
             for path in sorted((ROOT / folder).glob("*.[ch]"))}
    wrong, count = breaches(texts)
    print("\n".join(wrong) if wrong else f"{count} labels have one meaning each")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
