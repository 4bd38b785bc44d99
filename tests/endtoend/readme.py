#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents show is so: compiled, run, and compared with the output.

    readme.py MESON SOURCE BUILD

Runs README.md, docs/schemas.md and docs/api.md, in the order of their text, against an install in a
folder of its own:
  c      a program (it has a main) is compiled; anything else is declarations: compiled after the
         headers, each structure and enumeration compared with the header's
  yaml   settings pass `pubd --check`, a schema passes `tickbus schema check`
  sh     is run; a command that builds or tests the whole tree only has to exist
  text   after a sh that ran: its output, except for epochs, fingerprints and times of today.

A program or file has the last name in backquotes before it.

docs/api.md shows every name of the public headers. The README has at most README_LINES_MAX lines.
Its table of calls has each call of the library once, with the manual page that documents it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import staging  # it reads the same arguments

HEADERS = ("counters", "doctor", "error", "inspect", "publisher", "record", "schema", "subscriber",
           "ticket", "version")
README_LINES_MAX = 200
WHOLE_TREE = ("scripts/", "meson ", "ninja ", "ldconfig")
WARNINGS = ["-std=gnu17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def fail(where, message):
    sys.exit(f"{where}: {message}")


class Block:
    def __init__(self, document, language, text, line, before):
        self.document, self.language, self.text, self.line = document, language, text, line
        names = re.findall(r"`([\w.]+\.(?:c|yaml))`", before)
        self.name = names[-1] if names else None

    def fail(self, message):
        fail(f"{self.document}:{self.line}", message)


def read(document):
    return (staging.SOURCE / document).read_text()


def blocks(document):
    text, at = read(document), 0
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        before = text[at:found.start()].strip().rsplit("\n\n", 1)[-1]
        line = text.count("\n", 0, found.start(2)) + 1
        yield Block(document, found.group(1), found.group(2), line, before)
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
    source.write_text(includes + f'#line {block.line} "{block.document}"\n' +
                      beside_the_headers(block.text))
    staging.run(["cc", *WARNINGS, *flags, "-c", "-o", "/dev/null", str(source)])


def nothing_left_out(shown):
    """Every name of the headers is shown: calls, constants, members."""
    for header in HEADERS:
        text = bare(read(f"include/tickbus/{header}.h"))
        wanted = set(re.findall(r"\b(?:tb_\w+|TB_\w+)\b", text))
        wanted -= {name for name in wanted if re.match(r"TB_API$|TICKBUS_", name)}
        wanted |= {name for _, _, names in definitions(text) for name in names}
        missing = sorted(name for name in wanted if not re.search(rf"\b{name}\b", shown))
        if missing:
            fail("docs/api.md", f"tickbus/{header}.h also has {', '.join(missing)}")


# -- the table of calls ---------------------------------------------------------------------------

def pages():
    """The manual page of each call, by the names in its NAME section."""
    documented = {}
    for page in (staging.SOURCE / "docs/man").glob("*.3"):
        name = re.search(r"^\.Sh NAME\n(.*?)^\.Nd", page.read_text(), re.M | re.S).group(1)
        documented.update({call: page.stem for call in re.findall(r"^\.Nm (\S+)", name, re.M)})
    return documented


def calls():
    """README.md has each public call in one row, and no other call. A row has one call or several of a kind."""
    table = re.findall(r"^\| (`tb_\w+`(?:, `tb_\w+`)*) \| [^|]+ \| (\S+)\(3\) \|$", read("README.md"), re.M)
    rows = [(call, page) for names, page in table for call in re.findall(r"\w+", names)]
    public = re.findall(r"^\t(tb_[a-z_0-9]+);$", read("lib/libtickbus.map"), re.M)
    documented = pages()
    if not public:
        fail("lib/libtickbus.map", "found no calls")
    for call in sorted(set(public) | {call for call, _ in rows}):
        found = [page for name, page in rows if name == call]
        expected = [documented.get(call)] if call in public else []
        if found != expected:
            fail("README.md", f"{call}: found rows with manual pages {found}, expected {expected}")


def length():
    lines = len(read("README.md").splitlines())
    if lines > README_LINES_MAX:
        fail("README.md", f"found {lines} lines, expected at most {README_LINES_MAX}")


# -- files and commands ---------------------------------------------------------------------------

def settings(block, work, env):
    path = work / (block.name or "unnamed.yaml")
    path.write_text(block.text)
    is_schema = re.search(r"^fields:", block.text, re.M)
    staging.run(["tickbus", "schema", "check", path] if is_schema else ["pubd", "--check", path],
                env=env)


def shell(block, work, env):
    """Its output; None if it is about the whole tree."""
    lines = block.text.splitlines()
    if all(line.startswith(WHOLE_TREE) for line in lines):
        for line in lines:
            script = staging.SOURCE / line.split()[0]
            if line.startswith("scripts/") and not os.access(script, os.X_OK):
                block.fail(f"{line.split()[0]} is no program that can be run")
        return None
    result = subprocess.run(["bash", "-eu", "-c", block.text], cwd=work, env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                            timeout=staging.PATIENCE_S)
    if result.returncode:
        block.fail(f"status {result.returncode}:\n{result.stdout}")
    return result.stdout


def same_on_any_day(text):
    """Hides epochs, fingerprints, times of today, the user, and whether `tickbus cat` had to wait."""
    text = re.sub(r"^tickbus cat: waits: .*\n", "", text, flags=re.M)
    text = re.sub(r" user=\S+ uid=\d+$", " USER", text, flags=re.M)
    text = re.sub(r"\b20(?!20-)[0-9-]+T[0-9:.]+Z", "NOW", text)  # synthetic markets are of 2020
    return re.sub(r"\b[0-9a-f]{16}\b", "IDENTITY", text)


def printed(block, output):
    expected, found = same_on_any_day(block.text), same_on_any_day(output)
    if found != expected:
        block.fail(f"expected this output:\n{expected}found:\n{found}")


def check(document, work, env):
    """Returns the declarations shown, and the number of blocks of each language."""
    flags = staging.run(["pkg-config", "--cflags", "tickbus"], env=env).split()
    shown, output, counts = "", None, {}
    for block in blocks(document):
        counts[block.language] = counts.get(block.language, 0) + 1
        if block.language == "c" and re.search(r"\bmain\(", block.text):
            (work / block.name).write_text(block.text)
            staging.run(["cc", *WARNINGS, *flags, "-c", "-o", "/dev/null", str(work / block.name)])
        elif block.language == "c":
            declarations(block, work, flags)
            shown += bare(block.text)
        elif block.language == "yaml":
            settings(block, work, env)
        elif block.language == "sh":
            output = shell(block, work, env)
        elif block.language == "text" and output is not None:
            printed(block, output)
            output = None
        elif block.language != "text":
            block.fail(f"found a block of {block.language}, expected c, yaml, sh or text")
    return shown, counts


def main():
    length()
    calls()
    staging.needs("cc", "bash", "pkg-config")
    with tempfile.TemporaryDirectory(prefix="tickbus-readme-") as folder:
        work = pathlib.Path(folder)
        env = staging.install(work)
        env["PATH"] = f"{pathlib.Path(env['TICKBUS']).parent}:{env['PATH']}"
        shown = {}
        for document in ("README.md", "docs/schemas.md", "docs/api.md"):
            shown[document], counts = check(document, work, env)
            print(f"{document}:", ", ".join(f"{count} {language}" for language, count in
                                            counts.items()), "as shown")
    nothing_left_out(shown["docs/api.md"])


main()
