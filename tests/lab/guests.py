# SPDX-License-Identifier: Apache-2.0
"""Guests under QEMU, and the network between them.

A guest runs commands as tests/lab/guest says. All its files are in the run's folder, which it sees under
the same path. No network of this machine is touched: guests are joined by Unix sockets.
"""
import itertools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
BOOT_SECONDS = 120
ONE, BYTEWISE, SEVERAL = "one guest", "one guest, bytewise", "several guests"
ALL_MB, ALONE_MB = 2048, 1024
APART = 3  # hosts of several guests: a publisher, and two others
CORES = len(os.sched_getaffinity(0))
LEAN = "init_on_alloc=0 hardened_usercopy=off audit=0 lsm= psi=0 cgroup_disable=memory randomize_kstack_offset=off"


class Failed(Exception):
    """The lab or a scenario did not do what it should."""


class TooLate(Failed):
    """The machine itself was so late that nothing can be said of what runs on it."""


def qemu(arguments, cwd, **pipes):
    """A lab that was killed leaves no guest behind."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-display", "none", "-no-reboot",
                             "-nodefaults", *arguments], cwd=cwd, start_new_session=True, **pipes)


def wait_until(condition, seconds, what, every=0.02):
    """Returns the first true value of condition(); fails once so many seconds passed."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:g} s for {what}")
        time.sleep(every)


class Guest:
    """One virtual machine. Number 0 holds all hosts, any other is the host of that number.

    Under emulation, page tables of four levels and a kernel without mitigations are more than twice as fast, and
    so is copying in words: where a processor says that its string instructions are fast, the kernel uses them, and
    the emulator executes them byte by byte. That is what a guest is for that shall copy so. A processor that does not
    come at all for seconds, as on a busy machine, is nothing for the kernel to warn of, nor a timer that comes late a
    broken one. Its ciphers need no test here; what hardens a kernel, or accounts for its users, costs a tenth.
    """

    def __init__(self, folder, ready, accel, number, network=(), processors=1, bytewise=False, spent=0):
        self.folder, self.number, self.spent = folder, number, spent
        self.console = folder / f"console{number}"
        self.ended, self.when_ms, self.over, self.cpu = {}, {}, False, spent
        self.news = threading.Condition()
        emulated = "max,la57=off" + ("" if bytewise else ",erms=off,fsrm=off")
        words = "" if bytewise else "clearcpuid=rep_good "
        self.began = time.monotonic()
        self.process = qemu(
            ["-machine", "q35", "-accel", accel, "-cpu", emulated if accel.startswith("tcg") else "host",
             "-smp", str(processors), "-m", str(ALL_MB if number == 0 else ALONE_MB),
             "-kernel", f"{ready}/vmlinux", "-initrd", f"{ready}/initramfs",
             "-append", f"console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check cryptomgr.notests "
             f"rcupdate.rcu_cpu_stall_suppress=1 {LEAN} {words}lab.guest={number}",
             "-serial", f"file:console{number}", "-chardev", "stdio,id=agent,signal=off",
             "-serial", "chardev:agent",
             "-serial", f"unix:terminal{number},server=on,wait=off",
             "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
             "-virtfs", f"local,path={folder},mount_tag=lab,security_model=none,multidevs=remap",
             *network], folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=(folder / f"qemu{number}.log").open("w"))
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            found = re.search(rb"([\w-]+) (\d+) ([\d.]+)\r?\n$", line)
            if found:
                with self.news:
                    self.when_ms[found[1].decode()] = float(found[3]) * 1000
                    self.ended[found[1].decode()] = int(found[2])
                    self.news.notify_all()
        with self.news:
            self.over = True
            self.news.notify_all()

    def alive(self):
        return not self.over

    def tell(self, *words):
        self.process.stdin.write(" ".join(words).encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, name, signal, pid, seconds):
        """Signals a command's processes without starting a program; returns (status, when), as Host.now does."""
        self.tell(name, signal, pid)
        return self.status(name, seconds), self.when_ms.get(name)

    def cpu_seconds(self):
        """Of this machine, so far; with what was spent on those that were this host before."""
        if self.process.poll() is None:
            words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            self.cpu = self.spent + (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return self.cpu

    def pid(self, name):
        """A command's process and group, once it has them; nothing before."""
        path = self.folder / f"{name}.pid"
        return path.exists() and path.read_text().strip()

    def status(self, name, seconds):
        """The exit status of a command; None where the guest died first or the time is over."""
        with self.news:
            self.news.wait_for(lambda: name in self.ended or not self.alive(), seconds)
            return self.ended.get(name)

    def wait_up(self):
        status = self.status("up", BOOT_SECONDS)
        if status != 0:
            why = "did not come up" if status is None else f"could not make its devices (status {status})"
            raise Failed(f"guest {self.number} {why}:\n{self.log() or 'it printed nothing'}")
        self.clock_check()

    def clock_check(self):
        """The kernel finds out how fast its clock runs by another one, in milliseconds of its start in which a busy
        machine may do something else: then its seconds are too short, and everything in it is late for good."""
        lived, found = time.monotonic() - self.began, self.when_ms["up"] / 1000
        if found > lived:
            raise Failed(f"guest {self.number} says that it is up for {found:.1f} s, {lived:.1f} s after its start: its "
                         "clock is fast")

    def log(self):
        """The last lines of QEMU's words and the guest's."""
        paths = (self.folder / f"qemu{self.number}.log", self.console)
        lines = [line for path in paths if path.exists() for line in path.read_text(errors="replace").splitlines()]
        return "\n".join(lines[-20:])

    def close(self):
        self.cpu_seconds()
        self.process.kill()
        self.process.wait()


class Switch:
    """Joins guests: a QEMU without a machine, so that any guest may be killed. A cable is pulled here,
    where the guest does not see it."""

    def __init__(self, folder, hosts):
        self.folder = folder
        arguments = ["-machine", "none", "-monitor", "unix:switch,server=on,wait=off"]
        for name in [f"cable{i}{kind}" for i in range(1, hosts + 1) for kind in "hw"]:
            hub = 0 if name.endswith("h") else 1
            arguments += ["-netdev", f"stream,id={name},server=on,addr.type=unix,addr.path={name}",
                          "-netdev", f"hubport,hubid={hub},id={name}p,netdev={name}"]
        self.process = qemu(arguments, folder, stdin=subprocess.DEVNULL, stderr=(folder / "switch.log").open("w"))
        wait_until(lambda: (folder / "switch").exists() or self.process.poll() is not None, 20, "the switch")
        if self.process.poll() is not None:
            raise Failed("the switch did not start: " + (folder / "switch.log").read_text())

    @staticmethod
    def cables(number):
        """QEMU's arguments for the two interfaces of a host."""
        for place, kind in enumerate("hw"):
            yield from ["-netdev", f"stream,id={kind},server=off,addr.type=unix,addr.path=cable{number}{kind}",
                        "-device", f"virtio-net-pci,netdev={kind},host_mtu=4200,mac=52:54:00:09:{place:02x}:{number:02x}"]

    def monitor(self, command):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self.folder / "switch"))
            text = b""
            for request in (b"", command.encode() + b"\n"):
                link.sendall(request)
                text = b""
                while not text.endswith(b"(qemu) "):
                    text += link.recv(4096) or self.gone()
        return text

    def gone(self):
        raise Failed("the switch is gone")

    def cable(self, number, state):
        for kind in "hw":
            self.monitor(f"set_link cable{number}{kind}p {state}")

    def close(self):
        self.process.kill()
        self.process.wait()


class Topology:
    """Guests that are up: one with several hosts in it, or several with a host each; of so many lanes."""

    def __init__(self, kind, hosts, folder, ready, accel, lanes=1):
        self.kind, self.hosts, self.folder = kind, APART if kind == SEVERAL else hosts, folder
        self.ready, self.accel = ready, accel
        self.guests, self.switch = [], None
        folder.mkdir()
        (folder / "path").write_text(f"{folder}\n")
        (folder / "hosts").write_text(f"{self.hosts}\n")
        shutil.copy(HERE / "guest", folder / "guest")
        try:
            if kind != SEVERAL:
                self.guests.append(Guest(folder, ready, accel, 0, processors=min(max(CORES // lanes, 2), 8),
                                         bytewise=kind == BYTEWISE))
            else:
                self.switch = Switch(folder, self.hosts)
                for number in range(1, self.hosts + 1):
                    self.guests.append(self.alone(number))
            for guest in self.guests:
                guest.wait_up()
            self.cables_check()
        except BaseException:
            self.close()
            raise

    def alone(self, number, spent=0):
        return Guest(self.folder, self.ready, self.accel, number, Switch.cables(number), spent=spent)

    def cables_check(self):
        """Guests have come up of whom one heard nothing of the others over either cable, for minutes."""
        (self.folder / "cables.sh").write_text("for net in 0 1; do busybox ping -c 1 -W 10 10.9.$net.1 || exit; done\n")
        for guest in self.guests[1:]:
            guest.tell("cables")
            if guest.status("cables", BOOT_SECONDS) != 0:
                raise Failed(f"guest {guest.number} does not reach the first:\n{(self.folder / 'cables.out').read_text()}")

    def guest(self, number):
        return self.guests[number - 1 if self.kind == SEVERAL else 0]

    def boot_again(self, number):
        """A host that lost its power comes back: a guest with its cables, and nothing of what it was."""
        self.guests[number - 1] = self.alone(number, self.guest(number).cpu_seconds())
        self.guest(number).wait_up()

    def close(self):
        for part in [*self.guests, *([self.switch] if self.switch else [])]:
            part.close()


def folders(place):
    """For one topology after another, whoever asks: each has its own."""
    return map(lambda number: place / f"boot{number}", itertools.count(1))


def boot(kind, hosts, places, *how):
    """A topology in the next of these folders. On a busy machine a guest's timer may come so late that its kernel
    takes it for broken: once more, in the one behind it."""
    try:
        return Topology(kind, hosts, next(places), *how)
    except Failed:
        return Topology(kind, hosts, next(places), *how)
