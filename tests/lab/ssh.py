# SPDX-License-Identifier: Apache-2.0
"""Real hosts over ssh instead of guests: the same scenarios run on them.

A host is given as NAME=ADDRESS[,ADDRESS]. NAME is its name for ssh. The first address is of a device with UD multicast
(RoCE, InfiniBand), the second of an iWARP device. Either may be empty. The first is host 1. If a scenario
needs more hosts than given, the last host stands for all the others. The source tree and its build are at the same
path on each host. TICKBUS_SSH replaces ssh; it is run with the name and a command.
"""
import io
import os
import shlex
import subprocess
import tarfile
import threading

from guests import Failed
from hosts import Host, Skipped


def ssh(name, command, **pipes):
    program = shlex.split(os.environ.get("TICKBUS_SSH", "ssh -o BatchMode=yes"))
    return subprocess.Popen([*program, name, command], **pipes)


class Machine:
    """A real host with the interface of a guest. The run's folder has the same path there. New files on either side
    are copied when a command starts or ends."""

    def __init__(self, folder, text):
        self.folder = folder
        self.name, _, addresses = text.partition("=")
        rxe, _, siw = addresses.partition(",")
        self.addresses = {kind: address for kind, address in (("rxe", rxe), ("siw", siw)) if address}
        if not self.name or not self.addresses:
            raise Failed(f"found host {text!r}, expected NAME=ADDRESS[,ADDRESS]")
        self.ended, self.pushed = {}, {}
        self.news = threading.Condition()
        self.done(f"mkdir -p {folder}")

    def done(self, command, **more):
        process = ssh(self.name, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, _ = process.communicate(more.get("data"))
        if process.returncode:
            raise Failed(f"{self.name}: {command}: status {process.returncode}")
        return out

    def push(self):
        fresh = {path: path.stat().st_mtime_ns for path in self.folder.iterdir()
                 if path.is_file() and path.suffix not in (".out", ".pid")}
        fresh = {path: time for path, time in fresh.items() if self.pushed.get(path) != time}
        if not fresh:
            return
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for path in fresh:
                archive.add(path, path.name)
        self.done(f"tar -C {self.folder} -xf -", data=data.getvalue())
        self.pushed |= fresh

    def pull(self, name):
        """Copies what the command wrote into the folder. tar exits 1 if other commands write there meanwhile."""
        data = self.done(f"cd {self.folder} && find . -maxdepth 1 -type f -newer {name}.pid ! -name '*.pid' -print0 |"
                         " tar --null -T - -cf - || [ $? = 1 ]")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(self.folder)
        self.pushed |= {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}

    def send(self, name):
        self.push()
        threading.Thread(target=self.run, args=(name,), daemon=True).start()

    def run(self, name):
        with (self.folder / f"{name}.out").open("wb") as out:
            status = ssh(self.name, f"setsid -w bash {self.folder}/{name}.sh 2>&1", stdin=subprocess.DEVNULL,
                         stdout=out).wait()
        try:
            self.pull(name)
        except (Failed, tarfile.TarError) as failure:
            (self.folder / f"{name}.out").open("a").write(f"\n{failure}\n")
            status = 255
        with self.news:
            self.ended[name] = status
            self.news.notify_all()

    def status(self, name, seconds):
        with self.news:
            self.news.wait_for(lambda: name in self.ended, seconds)
            return self.ended.get(name)

    def signal(self, _, signal, pid, __):
        now = self.done(f"cut -d ' ' -f 1 /proc/uptime; kill -{signal} -- -{pid} || [ ! -d /proc/{pid} ]")
        return 0, float(now) * 1000

    def cpu_seconds(self):
        return 0

    def late_seconds(self):
        return 0.0  # not counted there

    def pid(self, name):
        return self.done(f"cat {self.folder}/{name}.pid 2>/dev/null || :").decode().strip()

    def alive(self):
        return True

    def close(self):
        self.done(f"rm -rf {self.folder}")


class MachineHost(Host):
    """A host whose cables, devices and power are left alone: scenarios that need them are skipped."""
    alone = False

    def address(self, kind):
        if kind not in self.guest.addresses:
            raise Skipped(f"{self.guest.name} has no address of kind {kind}")
        return self.guest.addresses[kind]

    def environment(self):
        """Without the preload: only software devices need their descriptors replaced."""
        own = super().environment() | {"TICKBUS_RUNTIME_DIR": f"{self.lab.topology.folder}/host{self.number}"}
        return {key: value for key, value in own.items() if key != "LD_PRELOAD"}

    def interface(self, kind):
        return self.run(f"ip -o addr show to {self.address(kind)} | awk '{{print $2}}'").strip()

    def left_alone(self, *_):
        raise Skipped(f"{self.guest.name} is a real host: its cables, devices and power are left alone")

    unplug = plug = shape = block_multicast = unblock_multicast = left_alone
    remove_device = return_device = power_off = power_on = left_alone


class Machines:
    """A topology of real hosts."""
    kind, host_class = "real hosts", MachineHost

    def __init__(self, folder, texts, hosts):
        self.folder, self.hosts = folder, hosts
        folder.mkdir(parents=True)
        self.guests = [Machine(folder, text) for text in texts]
        self.kinds = tuple(kind for kind in ("rxe", "siw") if all(kind in guest.addresses for guest in self.guests))

    def guest(self, number):
        return self.guests[min(number, len(self.guests)) - 1]

    def close(self):
        for machine in self.guests:
            machine.close()
