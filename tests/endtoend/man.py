#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages: clean, and about what is there.

    man.py SOURCE TICKBUS PUBD PAGE...

Each page passes mandoc's lint and has lines that fit on a screen. Each command's page has exactly
the options of its --help. Section 3 names each call of the library, and no other call. pubd.yaml(5)
has exactly the keys of its tables. tickbus(1) has what an address may have behind its commas. Each
reference among our pages leads to a page.
"""
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE, TICKBUS, PUBD = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
PAGES = [pathlib.Path(page) for page in sys.argv[4:]]
FOUND = []
LINE_MAX = 130


def lint():
    result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *map(str, PAGES)],
                            capture_output=True, text=True, check=False)
    FOUND.extend((result.stdout + result.stderr).splitlines())


def lines():
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if len(line) > LINE_MAX:
                FOUND.append(f"{page.name}:{number}: found {len(line)} characters, expected {LINE_MAX} at most")


def help_of(*command, program=TICKBUS):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True,
                          check=True).stdout


def differ(page, what, in_page, there):
    for missing in sorted(there - in_page):
        FOUND.append(f"{page}: {what} {missing} is there and not in the page")
    for extra in sorted(in_page - there):
        FOUND.append(f"{page}: {what} {extra} is in the page and not there")


def commands():
    names = re.findall(r"^  ([a-z]+) +\S", help_of(), re.M)
    pages = {page.name: page for page in PAGES}
    differ("tickbus.1", "command", set(re.findall(r"^\.It Cm (\S+)", pages["tickbus.1"].read_text(),
                                                  re.M)), set(names))
    for name in names:
        page = pages.get(f"tickbus-{name}.1")
        if not page:
            FOUND.append(f"tickbus-{name}.1: there is no such page")
            continue
        text = page.read_text()
        there = set(re.findall(r"^  --([a-z-]+)", help_of(name), re.M))
        differ(page.name, "option", set(re.findall(r"Fl -([a-z-]+)", text)), there)
        described = re.split(r"^\.Sh DESCRIPTION$", text, flags=re.M)[1]
        differ(page.name, "described option", set(re.findall(r"Fl -([a-z-]+)", described)), there)


def pubd():
    pages = {page.name: page.read_text() for page in PAGES}
    there = set(re.findall(r"^  --([a-z-]+)", help_of(program=PUBD), re.M))
    differ("pubd.8", "option", set(re.findall(r"^\.It Fl -([a-z-]+)", pages["pubd.8"], re.M)), there)
    tables = (SOURCE / "config/tables.c").read_text()
    keys = set(re.findall(r'\{ (?:\.name = )?"([a-z0-9_]+)",(?: \.kind =)? KEY_', tables))
    named = set(re.findall(r"^\.It Ic (?:[a-z_]+\.)?([a-z0-9_]+)", pages["pubd.yaml.5"], re.M))
    differ("pubd.yaml.5", "key", named, keys)


def addresses():
    """What may stand behind the commas of an address, with its bounds and its default."""
    code = (SOURCE / "bus/address.c").read_text()
    constants = dict(re.findall(r"^#define (\w+) +(\d+)", (SOURCE / "bus/bounds.h").read_text() +
                                (SOURCE / "bus/address.h").read_text() + code, re.M))
    there = {name: [constants.get(number, number) for number in numbers] for name, *numbers in re.findall(
        r'\{ "(\w+)",\s+offsetof\(struct address, \w+\),\s+(\w+),\s+(\w+),\s+(\w+),\s+\w+ \}', code)}
    text = next(page for page in PAGES if page.name == "tickbus.1").read_text()
    named = dict(re.findall(r"^\.It Ic (\w+)\n(.*?)(?=^\.It|^\.El)", text, re.M | re.S))
    faults = set(re.findall(r'\[FAULT_[A-Z]+\] = "(\w+)"', (SOURCE / "bus/fault/fault_plan.c").read_text()))
    differ("tickbus.1", "knob", set(named), set(there) | {"source", "user"} | faults | {"seed"})
    for name, (low, high, usual) in there.items():
        words = " ".join(named.get(name, "").split())
        default = f"Default {usual}." if int(low) <= int(usual) <= int(high) else "Default "  # of each program
        if f"{low} to {high}" not in words or default not in words:
            FOUND.append(f"tickbus.1: {name}: expected {low} to {high}, {default}")


def calls():
    there = set(re.findall(r"^\t(tb_[a-z_0-9]+);$", (SOURCE / "lib/libtickbus.map").read_text(),
                           re.M))
    named = set()
    for page in PAGES:
        if page.suffix == ".3":
            name = re.search(r"^\.Sh NAME\n(.*?)^\.Nd", page.read_text(), re.M | re.S).group(1)
            named |= set(re.findall(r"^\.Nm (\S+)", name, re.M))
    differ("section 3", "call", named, there)
    return named


def references(named):
    there = {page.name for page in PAGES} | {name + ".3" for name in named}
    for page in PAGES:
        for name, section in re.findall(r"^\.Xr (\S+) (\d)", page.read_text(), re.M):
            ours = name.startswith(("tb_", "tickbus", "pubd"))
            if ours and f"{name}.{section}" not in there:
                FOUND.append(f"{page.name}: refers to {name}({section}), which is not there")


def main():
    if not shutil.which("mandoc"):
        print("skipped: mandoc is not there")
        return 77
    lint()
    lines()
    commands()
    pubd()
    addresses()
    references(calls())
    print("\n".join(FOUND) if FOUND else f"{len(PAGES)} pages are clean")
    return 1 if FOUND else 0


sys.exit(main())
