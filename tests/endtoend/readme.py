#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the README shows is so: compiled, run, and compared with what came out.

    readme.py MESON SOURCE BUILD

Against an install in a folder of its own, in the order of the text:
  c      a program (it has a main) is compiled; anything else is declarations: compiled behind the
         headers, each structure and enumeration compared with the one there, nothing left out
  yaml   settings pass `pubd --check`, a schema `tickbus schema check`
  sh     is run; what builds and tests the whole tree is looked for only, since this is part of it
  text   behind a sh that ran: what it printed, but for epochs, fingerprints and times of today
A program or file is called as the backquoted name before it says.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import staging  # it reads the same arguments

README = staging.SOURCE / "README.md"
HEADERS = ("publisher", "record", "subscriber")
WHOLE_TREE = ("scripts/", "meson ", "ninja ", "ldconfig")
WARNINGS = ["-std=gnu17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


class Block:
    def __init__(self, language, text, line, before):
        self.language, self.text, self.line = language, text, line
        names = re.findall(r"`([\w.]+\.(?:c|yaml))`", before)
        self.name = names[-1] if names else None

    def fail(self, words):
        sys.exit(f"README.md:{self.line}: {words}")


def blocks():
    text, at = README.read_text(), 0
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        before = text[at:found.start()].strip().rsplit("\n\n", 1)[-1]
        yield Block(found.group(1), found.group(2), text.count("\n", 0, found.start(2)) + 1, before)
        at = found.end()


# -- declarations ---------------------------------------------------------------------------------

def bare(code):
    return re.sub(r"/\*.*?\*/", " ", code, flags=re.S)


def definitions(code):
    """(keyword, tag, names) of each structure's members and each enumeration's constants."""
    for keyword, tag, body in re.findall(r"\b(struct|enum) (\w+) \{(.*?)\};?", bare(code), re.S):
        parts = body.split(";" if keyword == "struct" else ",")
        if keyword == "struct":
            parts = [name for part in parts for name in part.split(",")]
            names = [re.search(r"(\w+)\s*$", part) for part in parts if part.strip()]
        else:
            names = [re.search(r"(\w+)", part) for part in parts if part.strip()]
        yield keyword, tag, [name.group(1) for name in names]


def beside_the_headers(code):
    """The same declarations under other tags, and assertions that they are the headers'."""
    asserts = []
    for keyword, tag, names in definitions(code):
        code = re.sub(rf"\b{keyword} {tag} \{{", f"{keyword} shown_{tag} {{", code)
        for name in names if keyword == "enum" else []:
            code = re.sub(rf"\b{name}\b(?=[^{{}}]*\}})", "shown_" + name, code)
            asserts.append(f'_Static_assert((int)shown_{name} == (int){name}, "{name}");')
        for name in names if keyword == "struct" else []:
            ours, theirs = f"struct shown_{tag}", f"struct {tag}"
            asserts.append(f"_Static_assert(offsetof({ours}, {name}) == offsetof({theirs}, {name}) "
                           f"&& __builtin_types_compatible_p(__typeof__((({ours} *)0)->{name}), "
                           f'__typeof__((({theirs} *)0)->{name})), "{tag}.{name}");')
        asserts.append(f'_Static_assert(sizeof({keyword} shown_{tag}) == sizeof({keyword} {tag}), '
                       f'"{tag}");')
    return code + "\n" + "\n".join(asserts) + "\n"


def declarations(block, work, flags):
    source = work / "declarations.c"
    includes = "".join(f"#include <tickbus/{name}.h>\n" for name in HEADERS)
    source.write_text(includes + f'#line {block.line} "README.md"\n' +
                      beside_the_headers(block.text))
    staging.run(["cc", *WARNINGS, *flags, "-c", "-o", "/dev/null", str(source)])


def nothing_left_out(shown):
    """Every name of the headers is shown: calls, constants, members."""
    for header in HEADERS:
        text = bare((staging.SOURCE / f"include/tickbus/{header}.h").read_text())
        wanted = set(re.findall(r"\b(?:tb_\w+|TB_\w+)\b", text))
        wanted -= {name for name in wanted if re.match(r"TB_API$|TICKBUS_", name)}
        wanted |= {name for _, _, names in definitions(text) for name in names}
        missing = sorted(name for name in wanted if not re.search(rf"\b{name}\b", shown))
        if missing:
            sys.exit(f"README.md: of tickbus/{header}.h it does not show: {', '.join(missing)}")


# -- files and commands ---------------------------------------------------------------------------

def settings(block, work, env):
    path = work / (block.name or "unnamed.yaml")
    path.write_text(block.text)
    is_schema = re.search(r"^fields:", block.text, re.M)
    staging.run(["tickbus", "schema", "check", path] if is_schema else ["pubd", "--check", path],
                env=env)


def shell(block, work, env):
    """What it printed; None where it is about the whole tree."""
    lines = block.text.splitlines()
    if all(line.startswith(WHOLE_TREE) for line in lines):
        for line in lines:
            script = staging.SOURCE / line.split()[0]
            if line.startswith("scripts/") and not os.access(script, os.X_OK):
                block.fail(f"{line.split()[0]} is not there to be run")
        return None
    result = subprocess.run(["bash", "-eu", "-c", block.text], cwd=work, env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                            timeout=staging.PATIENCE_S)
    if result.returncode:
        block.fail(f"status {result.returncode}:\n{result.stdout}")
    return result.stdout


def same_on_any_day(text):
    """Epochs and fingerprints are alike, and so are times of a clock that runs; who waited is left out."""
    text = re.sub(r"^tickbus cat: waits: .*\n", "", text, flags=re.M)  # whoever comes first
    text = re.sub(r"\b20(?!20-)[0-9-]+T[0-9:.]+Z", "NOW", text)  # made-up markets live in 2020
    return re.sub(r"\b[0-9a-f]{16}\b", "IDENTITY", text)


def printed(block, output):
    expected, found = same_on_any_day(block.text), same_on_any_day(output)
    if found != expected:
        block.fail(f"what it shows:\n{expected}what came out:\n{found}")


def check(work, env):
    flags = staging.run(["pkg-config", "--cflags", "tickbus"], env=env).split()
    shown, output, counts = "", None, {}
    for block in blocks():
        counts[block.language] = counts.get(block.language, 0) + 1
        if block.language == "c" and re.search(r"\bmain\(", block.text):
            (work / block.name).write_text(block.text)
            staging.run(["cc", *WARNINGS, *flags, "-c", "-o", "/dev/null", str(work / block.name)])
        elif block.language == "c":
            declarations(block, work, flags)
            shown += block.text
        elif block.language == "yaml":
            settings(block, work, env)
        elif block.language == "sh":
            output = shell(block, work, env)
        elif block.language == "text" and output is not None:
            printed(block, output)
            output = None
        elif block.language != "text":
            block.fail(f"found a block of {block.language}, expected c, yaml, sh or text")
    nothing_left_out(shown)
    return counts


def main():
    staging.needs("cc", "bash", "pkg-config")
    with tempfile.TemporaryDirectory(prefix="tickbus-readme-") as folder:
        work = pathlib.Path(folder)
        env = staging.install(work)
        env["PATH"] = f"{pathlib.Path(env['TICKBUS']).parent}:{env['PATH']}"
        counts = check(work, env)
    print(", ".join(f"{count} {language}" for language, count in counts.items()), "as shown")


main()
