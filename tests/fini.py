#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No check is made in a .fini function: Criterion prints it when it fails, and the test passes all the
same. Follows what that function calls, in its own file and among the functions that files share.
"""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
NAMED = re.compile(r"\.fini = (\w+)")
FUNCTION = re.compile(r"^(static (?!inline))?\w[^\n;{}]*?\b(\w+)\([^;{}]*?\)\n\{\n(.*?)^\}", re.S | re.M)
MACRO = re.compile(r"^#define (\w+)\([^\n]*?\)((?:[^\n]*\\\n)*[^\n]*)", re.M)


def defined(text):
    """What calls by these names do: bodies of all functions and macros, and of those for others."""
    functions = FUNCTION.findall(text)
    own = {name: body for _, name, body in functions} | dict(MACRO.findall(text))
    return own, {name: body for static, name, body in functions if not static}


def check_in(name, own, shared, seen):
    """The call by which a function makes a check, or None."""
    body = own.get(name, shared.get(name, ""))
    seen.add(name)
    for called in re.findall(r"\b(\w+)\(", body):
        if called.startswith("cr_"):
            return f"{name} calls {called}"
        if called not in seen and (found := check_in(called, own, shared, seen)):
            return f"{name} calls {found}"
    return None


def main():
    texts = {path: path.read_text() for path in sorted(TESTS.glob("**/*.[ch]"))}
    own = {path: defined(text)[0] for path, text in texts.items()}
    shared = {name: body for text in texts.values() for name, body in defined(text)[1].items()}
    found = count = 0
    for path, text in texts.items():
        for name in sorted(set(NAMED.findall(text))):
            count += 1
            if name not in own[path] and name not in shared:
                how = f"{name} is not found"
            else:
                how = check_in(name, own[path], shared, set())
            if how:
                print(f"{path.relative_to(TESTS.parent)}: in .fini {how}")
                found += 1
    print(f"{count} functions named by .fini, {found} of them with checks")
    return 1 if found or not count else 0


sys.exit(main())
