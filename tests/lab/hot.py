# SPDX-License-Identifier: Apache-2.0
"""Packs the files that guests open often, so that guests have them in memory from the start.

Each file opened over 9p is five requests to this machine, and each link on its path is a further request. A start of
`tickbus` makes 57, a start of Python hundreds. So a second archive behind the initramfs has the programs of scenarios,
their libraries, Python's modules, and the lab's own modules compiled. All other files come over 9p.
"""
import os
import pathlib
import re
import shutil
import stat
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
PROGRAMS = ("bash", "dash", "busybox", "ip", "tc", "rdma", "ss", "stty", "setsid", "cat", "rm", "cp", "mkdir", "grep",
            "env", "rping", "mckey", "cmtime", "ibv_devinfo", "ib_read_lat", "ib_send_lat", "ib_read_bw", PYTHON)
BUILT = ("tools/tickbus", "publisher/pubd/pubd", "tests/faults/faults-control-subscriber", "tests/lab/lab-late",
         "tests/lab/lab-storm", "tests/lab/liblab-slow.so", "tests/lab/liblab-posts.so", "tests/lab/liblab-nogit.so",
         "tests/lab/liblab-letgo.so", "tests/lab/liblab-invalidate.so")
CONFORMANCE = "tests/conformance/test-rdma-*"
OTHERS = ("/etc/ld.so.cache", "/etc/libibverbs.d/rxe.driver", "/etc/libibverbs.d/siw.driver")
DRIVERS = "usr/lib/*/libibverbs/lib[rs][xi][ew]-*.so"
MODULES = """import sys
sys.path.insert(0, sys.argv[1])
import json, collections, verbs_peer
for module in list(sys.modules.values()):
    for name in ("__file__", "__cached__"):
        if path := getattr(module, name, None):
            print(path)
"""


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def needed(programs):
    """These files and the libraries that they load."""
    return [*programs, *re.findall(r"(/\S+) \(0x", printed("ldd", *programs))]


def found(build):
    """Absolute paths of these files, without the missing files."""
    programs = [path for name in PROGRAMS if (path := shutil.which(name))]
    programs += [str(build / name) for name in BUILT] + list(map(str, pathlib.Path("/").glob(DRIVERS)))
    programs += [str(path) for path in build.glob(CONFORMANCE) if path.is_file()]
    modules = printed(PYTHON, "-B", "-c", MODULES, str(HERE)).splitlines()
    load = [path for path in programs + modules if os.path.exists(path) and (path in programs or path.endswith(".so"))]
    return [path for path in {*needed(load), *modules, *OTHERS} if os.path.isfile(path)]


def compiled(folder):
    """The lab's Python modules, compiled: (path, bytes)."""
    sources = [*HERE.glob("*.py"), *(HERE.parent / "endtoend").glob("protocol_*.py")]
    subprocess.run([PYTHON, "-m", "compileall", "-q", *sources], env=os.environ | {"PYTHONPYCACHEPREFIX": str(folder)})
    for path in folder.rglob("*.pyc"):
        yield pathlib.Path("/", path.parent.relative_to(folder), "__pycache__", path.name), path.read_bytes()


class Archive:
    """A cpio archive for the kernel. Each path is below `hot`, with its folders and links."""

    def __init__(self):
        self.data, self.seen = bytearray(), set()
        self.entry("hot", stat.S_IFDIR | 0o755)

    def entry(self, name, mode, data=b"", mtime=0):
        fields = (len(self.seen) + 1, mode, 0, 0, 1, mtime, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        for part in (b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0", data):
            self.data += part + bytes(-len(part) % 4)
        self.seen.add(name)

    def add(self, path, data=None):
        """Adds an existing file, or a file with this data. Returns its real path."""
        if path == path.parent:
            return path
        path = self.add(path.parent) / path.name
        link = path.is_symlink() and os.readlink(path)
        if f"hot{path}" not in self.seen:
            self.new(path, link.encode() if link else data)
        return self.add(pathlib.Path(os.path.normpath(path.parent / link))) if link else path

    def new(self, path, data):
        """Adds a path: an existing path as it is, else a file with the data, or a folder without data."""
        status = path.lstat() if path.is_symlink() or path.exists() else None
        mode = status.st_mode if status else stat.S_IFDIR | 0o755 if data is None else stat.S_IFREG | 0o644
        if data is None and stat.S_ISREG(mode):
            data = path.read_bytes()
        self.entry(f"hot{path}", mode, data or b"", int(status.st_mtime) if status else 0)

    def end(self):
        self.entry("TRAILER!!!", 0)
        return self.data


def boot_files(folder, ready, build):
    """Makes a folder to boot guests from: the files of `ready`, with these files behind its initramfs."""
    folder.mkdir()
    archive = Archive()
    for path in found(build):
        archive.add(pathlib.Path(path))
    for path, data in compiled(folder / "compiled"):
        archive.add(path, data)
    (folder / "vmlinux").symlink_to(f"{ready}/vmlinux")
    first = pathlib.Path(ready, "initramfs").read_bytes()
    (folder / "initramfs").write_bytes(first + bytes(-len(first) % 512) + archive.end())
    return folder
