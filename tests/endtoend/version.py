#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One version everywhere, and a version for each symbol.

    version.py SOURCE VERSION TICKBUS PUBD LIBRARY PAGE...

VERSION is the version of meson.build. The header, the commands, their subcommands, the scripts, the manual pages, the
changelog and the loaded library must agree with it. Each symbol that the library exports has a version of its map.
"""
import ctypes
import pathlib
import re
import subprocess
import sys

SOURCE, VERSION, TICKBUS, PUBD, LIBRARY = pathlib.Path(sys.argv[1]), *sys.argv[2:6]
PAGES = [pathlib.Path(page) for page in sys.argv[6:]]
FOUND = []


def expect(what, found, expected):
    if found != expected:
        FOUND.append(f"{what}: found {found}, expected {expected}")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def header():
    text = (SOURCE / "include/tickbus/version.h").read_text()
    macros = dict(re.findall(r"^#define (TB_VERSION\w*)\s+(\S+)$", text, re.M))
    expect("TB_VERSION", macros["TB_VERSION"], f'"{VERSION}"')
    parts = [macros["TB_VERSION_" + part] for part in ("MAJOR", "MINOR", "PATCH")]
    expect("the parts of TB_VERSION", ".".join(parts), VERSION)


def commands():
    expect("pubd --version", run(PUBD, "--version"), f"pubd {VERSION}\n")
    expect("tickbus --version", run(TICKBUS, "--version"), f"tickbus {VERSION}\n")
    names = re.findall(r"^  ([a-z]+) +\S", run(TICKBUS, "--help"), re.M)
    expect("whether tickbus has commands", bool(names), True)
    for name in names:
        expect(f"tickbus {name} --version", run(TICKBUS, name, "--version"), f"tickbus {VERSION}\n")


def scripts():
    for name in ("bench", "demo"):
        expect(f"scripts/{name} --version", run(str(SOURCE / "scripts" / name), "--version"), f"scripts/{name} {VERSION}\n")


def documents():
    for page in PAGES:
        expect(f"{page.name}: .Os", re.findall(r"^\.Os(.*)$", page.read_text(), re.M), [f" tickbus {VERSION}"])
    changes = re.findall(r"^## (\S+?),? ", (SOURCE / "CHANGELOG.md").read_text(), re.M)
    expect("the first version in CHANGELOG.md", changes[:1], [VERSION])


def library():
    loaded = ctypes.CDLL(LIBRARY)
    loaded.tb_version.restype = ctypes.c_char_p
    number = ctypes.c_uint32()
    expect("tb_version", loaded.tb_version(ctypes.byref(number)).decode(), VERSION)
    expect("tb_version without a number", loaded.tb_version(None).decode(), VERSION)
    major, minor, patch = map(int, VERSION.split("."))
    expect("the number of tb_version", number.value, major * 1000000 + minor * 1000 + patch)
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", LIBRARY)).group(1)
    expect("the soname", soname, f"libtickbus.so.{major}")


def symbols():
    """Each stanza of the map, with its calls, is what the library exports."""
    text = re.sub(r"#.*", "", (SOURCE / "lib/libtickbus.map").read_text())
    named = {call: stanza for stanza, body in re.findall(r"^([\w.]+) \{(.*?)^\}", text, re.M | re.S)
             for call in re.findall(r"\b(tb_\w+);", body)}
    exported = dict(re.findall(r" T (\w+)@@(\S+)$", run("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY), re.M))
    bare = re.findall(r" [A-Z] (\w+)$", run("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY), re.M)
    expect("symbols without a version", bare, [])
    for call in sorted(set(named) | set(exported)):
        expect(f"the symbol version of {call}", exported.get(call), named.get(call))


def main():
    if "__asan_init" in run("nm", "-D", LIBRARY) or "__tsan_init" in run("nm", "-D", LIBRARY):
        print("skipped: a library with sanitizers cannot be loaded into Python")
        return 77
    header()
    commands()
    scripts()
    documents()
    library()
    symbols()
    print("\n".join(FOUND) if FOUND else f"version {VERSION} everywhere")
    return 1 if FOUND else 0


sys.exit(main())
