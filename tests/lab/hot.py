# SPDX-License-Identifier: Apache-2.0
"""The files that guests open all the time, packed for them to have in memory from the beginning.

Each file that is opened over 9p is five requests to this machine, and a link that leads there one more: 57 in a
start of `tickbus`, hundreds where Python starts. So programs that scenarios start, their libraries and Python's modules
are in a second archive behind the initramfs, and the lab's own modules are there compiled. All else comes over 9p.
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
         "tests/lab/lab-storm", "tests/lab/liblab-slow.so", "tests/lab/liblab-nogit.so",
         *(f"tests/conformance/test-rdma-{name}" for name in ("fabric", "notices", "realms", "stream")))
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
    """Absolute paths of these files, as programs call them; what is not there is not needed."""
    programs = [path for name in PROGRAMS if (path := shutil.which(name))]
    programs += [str(build / name) for name in BUILT] + list(map(str, pathlib.Path("/").glob(DRIVERS)))
    modules = printed(PYTHON, "-B", "-c", MODULES, str(HERE)).splitlines()
    load = [path for path in programs + modules if os.path.exists(path) and (path in programs or path.endswith(".so"))]
    return [path for path in {*needed(load), *modules, *OTHERS} if os.path.isfile(path)]


def compiled(folder):
    """The lab's modules of Python, which have no compiled ones beside them: (path, bytes)."""
    sources = [*HERE.glob("*.py"), *(HERE.parent / "endtoend").glob("protocol_*.py")]
    subprocess.run([PYTHON, "-m", "compileall", "-q", *sources], env=os.environ | {"PYTHONPYCACHEPREFIX": str(folder)})
    for path in folder.rglob("*.pyc"):
        yield pathlib.Path("/", path.parent.relative_to(folder), "__pycache__", path.name), path.read_bytes()


class Archive:
    """A cpio archive, as the kernel unpacks it; each path is below `hot`, and its folders and links come with it."""

    def __init__(self):
        self.data, self.seen = bytearray(), set()
        self.entry("hot", stat.S_IFDIR | 0o755)

    def entry(self, name, mode, data=b"", mtime=0):
        fields = (len(self.seen) + 1, mode, 0, 0, 1, mtime, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        for part in (b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0", data):
            self.data += part + bytes(-len(part) % 4)
        self.seen.add(name)

    def add(self, path, data=None):
        """A file that is there, or one with this data; returns where it really is."""
        if path == path.parent:
            return path
        path = self.add(path.parent) / path.name
        link = path.is_symlink() and os.readlink(path)
        if f"hot{path}" not in self.seen:
            self.new(path, link.encode() if link else data)
        return self.add(pathlib.Path(os.path.normpath(path.parent / link))) if link else path

    def new(self, path, data):
        """A path that is not there is that of the data, or a folder on its way."""
        there = path.lstat() if path.is_symlink() or path.exists() else None
        mode = there.st_mode if there else stat.S_IFDIR | 0o755 if data is None else stat.S_IFREG | 0o644
        if data is None and stat.S_ISREG(mode):
            data = path.read_bytes()
        self.entry(f"hot{path}", mode, data or b"", int(there.st_mtime) if there else 0)

    def end(self):
        self.entry("TRAILER!!!", 0)
        return self.data


def boot_files(folder, ready, build):
    """Makes a folder with what a guest boots from: that of `ready`, and these files behind its initramfs."""
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
