# SPDX-License-Identifier: Apache-2.0
"""Builds the library of another commit, to be measured beside this build."""
import re
import shutil
import subprocess

import children


class Wrong(Exception):
    pass


def run(command, folder, **more):
    done = children.run(command, cwd=folder, **more)
    if done.returncode:
        raise Wrong(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def soname(library):
    return re.search(r"Library soname: \[(.*)\]", run(["readelf", "-d", library], "/"))[1]


def library_of(build):
    found = [path for path in (build / "lib").glob("libtickbus.so.*") if path.is_file() and not path.is_symlink()]
    if len(found) != 1:
        raise Wrong(f"{build}/lib: found {len(found)} libraries, expected 1")
    return found[0]


def configure(source, made, *options):
    """Makes or updates a build. An interruption may leave a folder without build.ninja, which meson takes for a
    complete build: it is made again."""
    if (made / "build.ninja").exists():
        run(["meson", "configure", made, *options], source)
    else:
        shutil.rmtree(made, ignore_errors=True)
        run(["meson", "setup", made, source, *options], source)
    run(["ninja", "-C", made], source)


def build(root, commit):
    """(the commit's hash, its release build in build/against/HASH). It is made once."""
    found = subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], cwd=root,
                           capture_output=True, text=True)
    if found.returncode:
        raise Wrong(f"--against: found {commit}, expected a commit of this repository")
    name = found.stdout.strip()
    folder = root / "build/against" / name[:12]
    tree, made = folder / "tree", folder / "build"
    if not tree.exists():
        part = folder / "part"  # an interruption leaves no tree that looks whole
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", name], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x"], cwd=part, input=archive, check=True)
        part.rename(tree)
    configure(tree, made, "--buildtype=release", "-Dtests=disabled")
    return name, made


def environment(ours, theirs):
    """What makes a program that was linked to our library use theirs."""
    names = [soname(library_of(build)) for build in (ours, theirs)]
    if names[0] != names[1]:
        raise Wrong(f"{theirs}: found library {names[1]}, expected {names[0]}: the two cannot be exchanged")
    return {"LD_LIBRARY_PATH": str(theirs / "lib")}
