#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The installation is complete: the examples build against it with pkg-config alone, and run.

    staging.py MESON SOURCE BUILD

Installs into a folder of its own, and copies the examples out of the tree. Builds them against the shared and the
static library, and runs publishers with subscribers.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MESON, SOURCE, BUILD = sys.argv[1].split(), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
HEADERS = ("counters", "error", "inspect", "publisher", "record", "schema", "subscriber", "version")
PATIENCE_S = 120


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def run(command, **more):
    result = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE_S, **more)
    if result.returncode:
        sys.exit(f"{command}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def one(stage, pattern):
    found = sorted(stage.rglob(pattern))
    if not found:
        sys.exit(f"{pattern} was not installed")
    return found[0]


def environment(stage, work):
    library = one(stage, "libtickbus.so").parent
    paths = {
        "PKG_CONFIG_PATH": one(stage, "tickbus.pc").parent,
        "PKG_CONFIG_SYSROOT_DIR": stage,
        "LD_LIBRARY_PATH": library,
        "TICKBUS": one(stage, "bin/tickbus"),
        "TICKBUS_LIBEXEC_DIR": one(stage, "libexec/tickbus/tickbus-porter").parent,
        "TICKBUS_RUNTIME_DIR": work,
    }
    return dict(os.environ, **{key: str(value) for key, value in paths.items()})


def expect(what, condition):
    if not condition:
        sys.exit("expected: " + what)


def meet(examples, env, publisher, subscriber, expected):
    """Runs the publisher, then the subscriber against it. Returns the subscriber's lines."""
    process = subprocess.Popen(publisher, cwd=examples, env=env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        expect("a publisher that is ready", "press Enter to close the bus" in process.stdout.readline())
        lines = run(subscriber, cwd=examples, env=env).splitlines()
    finally:
        process.communicate("\n", timeout=PATIENCE_S)
    expect("a publisher that ends well", process.returncode == 0)
    expect(f"{expected} lines from {subscriber}", len(lines) == expected)
    return lines


def build(stage, work, env, name, *options):
    examples = work / name
    shutil.copytree(SOURCE / "examples", examples, ignore=shutil.ignore_patterns("tickbus"))
    for minimal in examples.glob("minimal_*.c"):
        expect(f"{minimal.name} of under 60 lines", len(minimal.read_text().splitlines()) < 60)
    run(["make", "-C", str(examples), *options], env=env)
    needed = run(["readelf", "-d", str(examples / "market_view")])
    expect(f"{name}: libtickbus is needed when run only where it is shared",
           ("libtickbus" in needed) == (not options))
    lines = meet(examples, env, ["./minimal_publisher", name], ["./minimal_subscriber", "shm:" + name],
                 10)
    expect("the last of ten quotes", lines[-1] == "ACME 10 109 x 100.0900  100.1200 x 200")
    expect("both programs of the group", all(os.access(examples / f"group_{side}", os.X_OK)
                                             for side in ("publisher", "subscriber")))
    lines = meet(examples, env, ["./own_schema_publisher", "own_schema.yaml", name],
                 [env["TICKBUS"], "cat", "shm:" + name, "demo.basket", "--from=oldest", "--count=5",
                  "--format=json"], 6)
    last = json.loads(lines[-1])
    expect("the own schema's fields", last["sectors"] == ["2100.14", "987.65", None] and
           last["members"][1] == {"symbol": "GLOBEX", "weight": "0.048250"})


def headers(stage, work, env):
    """Each header compiles alone, in C and in C++. Headers of schemas equal the command's output."""
    flags = run(["pkg-config", "--cflags", "tickbus"], env=env).split()
    installed = [f"tickbus/{name}.h" for name in HEADERS]
    for path in sorted(one(stage, "tickbus/schemas/quote.h").parent.glob("*.h")):
        installed.append(f"tickbus/schemas/{path.name}")
        printed = run([env["TICKBUS"], "schema", "header", path.stem], env=env)
        expect(f"{path.name} as printed", printed == path.read_text())
    for header in installed:
        for compiler, standard in (("cc", "c11"), ("c++", "c++17")):
            if not shutil.which(compiler):
                continue
            source = work / ("alone.c" if compiler == "cc" else "alone.cc")
            source.write_text(f"#include <{header}>\nint main(void) {{ return 0; }}\n")
            run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                 "-fsyntax-only", *flags, str(source)])


def exceptions(work, env):
    """A C++ program throws out of a handler, with the shared library and with the static library."""
    if not shutil.which("c++"):
        return
    source = SOURCE / "tests/endtoend/leaves_handler.cc"
    for name, options in (("shared", []), ("static", ["--static"])):
        flags = run(["pkg-config", *options, "--cflags", "--libs", "tickbus"], env=env).split()
        flags = ["-l:libtickbus.a" if flag == "-ltickbus" and options else flag for flag in flags]
        program = work / f"leaves-handler-{name}"
        run(["c++", "-std=c++17", "-O2", "-Wall", "-Werror", "-o", str(program), str(source), *flags], env=env)
        expect("a subscriber that closes after an exception",
               run([str(program)], env=env) == "closed after each exception\n")


def exported(stage):
    """The shared library exports exactly the names of its map, and so does the static library."""
    named = set(re.findall(r"^\t(tb_[a-z_0-9]+);$", (SOURCE / "lib/libtickbus.map").read_text(),
                           re.M))
    shared = run(["nm", "-D", "--defined-only", str(one(stage, "libtickbus.so"))])
    found = {word.split("@")[0] for word in re.findall(r" T (\S+)", shared)}
    expect(f"exactly the map's names, found {found ^ named}", found == named)
    static = run(["nm", "-g", "--defined-only", str(one(stage, "libtickbus.a"))])
    found = set(re.findall(r" [A-TV-Z] (\S+)", static))
    expect(f"static: exactly the map's names, found {found ^ named}", found == named)


def needs(*programs):
    options = json.loads(run([*MESON, "introspect", "--buildoptions", str(BUILD)]))
    if {o["name"]: o["value"] for o in options}["b_sanitize"] != "none":
        skip("a library with sanitizers needs programs with them")
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is missing")


def install(work):
    """Installs into work/stage. Returns an environment with its programs and library in the search paths."""
    stage = work / "stage"
    run([*MESON, "install", "-C", str(BUILD), "--no-rebuild", "--destdir", str(stage)])
    return environment(stage, work)


def main():
    needs("make", "cc", "pkg-config", "nm", "readelf")
    with tempfile.TemporaryDirectory(prefix="tickbus-staging-") as folder:
        work = pathlib.Path(folder)
        stage = work / "stage"
        env = install(work)
        headers(stage, work, env)
        exported(stage)
        exceptions(work, env)
        build(stage, work, env, "shared")
        build(stage, work, env, "static", "STATIC=1")
        one(stage, "man1/tickbus.1*")
        one(stage, "man3/tb_wait.3*")
    print("installed, built and run: shared and static")


if __name__ == "__main__":
    main()
