#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the list of decisions, docs/decisions/README.md, to the pages beside it.

Each decision of a page is in the list, and each entry of the list names a decision. A decision is a heading
without further headings below it. Prints every breach; the exit status is 1 if there is a breach.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/decisions"
ENTRY = re.compile(r"^- \[(.*)\]\((\w+\.md)#(\S*)\)$", re.MULTILINE)
HEADING = re.compile(r"^(##+) (.*)$", re.MULTILINE)


def anchor(heading):
    """The fragment that a heading has in a rendered page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def decisions(text):
    """The headings of a page without further headings below them."""
    found = [(len(marks), words) for marks, words in HEADING.findall(text)] + [(0, "")]
    return [words for (depth, words), (following, _) in zip(found, found[1:]) if following <= depth]


def breaches(listed, pages):
    """What is wrong with the list, for pages {name: text}."""
    entries = ENTRY.findall(listed)
    named = {(page, words) for words, page, _ in entries}
    made = {(page, words) for page, text in pages.items() for words in decisions(text)}
    wrong = [f"README.md: lacks the decision \"{words}\" of {page}" for page, words in sorted(made - named)]
    wrong += [f"README.md: names \"{words}\", found no such decision in {page}" for page, words in sorted(named - made)]
    return wrong + [f"README.md: \"{words}\" points to #{place}, expected #{anchor(words)}"
                    for words, page, place in entries if place != anchor(words)]


def main():
    pages = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"}
    wrong = breaches((FOLDER / "README.md").read_text(), pages)
    print("\n".join(wrong) if wrong else f"the decisions of {len(pages)} pages are listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
