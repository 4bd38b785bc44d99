# SPDX-License-Identifier: Apache-2.0
"""Real hosts, reached over ssh, in the place of guests: the same scenarios run on them.

A host is given as NAME=ADDRESS[,ADDRESS]: what ssh calls it, the address of a device that knows UD multicast
(RoCE, InfiniBand), and one of an iWARP device; either may be empty. The first is host 1, and where a scenario
wants more hosts than there are, the last one is all the others. The source tree and its build are at the
same path on each. TICKBUS_SSH is run in the place of ssh, with the name and a command.
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
    words = shlex.split(os.environ.get("TICKBUS_SSH", "ssh -o BatchMode=yes"))
    return subprocess.Popen([*words, name, command], **pipes)


class Machine:
    """What a guest is to a scenario. The run's folder is at the same path there; files that are new on either
    side are copied when a command starts or ends."""

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
        """What the command wrote into the folder. Other commands may write there still, of which tar warns by 1."""
        data = self.done(f"cd {self.folder} && find . -maxdepth 1 -type f -newer {name}.pid ! -name '*.pid' -print0 |"
                         " tar --null -T - -cf - || [ $? = 1 ]")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(self.folder)
        self.pushed |= {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}

    def tell(self, name):
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

    def pid(self, name):
        return self.done(f"cat {self.folder}/{name}.pid 2>/dev/null || :").decode().strip()

    def alive(self):
        return True

    def close(self):
        self.done(f"rm -rf {self.folder}")


class MachineHost(Host):
    """Its cables and its power are not ours: scenarios that want to pull them are skipped."""
    alone = False

    def address(self, kind):
        if kind not in self.guest.addresses:
            raise Skipped(f"{self.guest.name} was given no address of kind {kind}")
        return self.guest.addresses[kind]

    def environment(self):
        return super().environment() | {"TICKBUS_RUNTIME_DIR": f"{self.lab.topology.folder}/host{self.number}"}

    def interface(self, kind):
        return self.run(f"ip -o addr show to {self.address(kind)} | awk '{{print $2}}'").strip()

    def not_ours(self, *_):
        raise Skipped(f"{self.guest.name} is a real host: its cables, devices and power are not ours")

    unplug = plug = shape = block_multicast = unblock_multicast = remove_device = return_device = power_off = power_on = not_ours


class Machines:
    """A topology of real hosts."""
    kind, host_class = "real hosts", MachineHost

    def __init__(self, folder, texts, hosts):
        self.folder, self.hosts = folder, hosts
        folder.mkdir(parents=True)
        self.guests = [Machine(folder, text) for text in texts]
        self.kinds = tuple(kind for kind in ("rxe", "siw") if all(kind in one.addresses for one in self.guests))

    def guest(self, number):
        return self.guests[min(number, len(self.guests)) - 1]

    def close(self):
        for machine in self.guests:
            machine.close()
