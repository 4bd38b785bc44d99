# SPDX-License-Identifier: Apache-2.0
"""Guests under QEMU, and the network between them.

tests/lab/guest runs commands in a guest. A guest's files are in the run's folder, which it sees under the
same path. Guests are connected by Unix sockets and use no network of this machine.
"""
import contextlib
import functools
import itertools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import tsc

HERE = pathlib.Path(__file__).resolve().parent
BOOT_SECONDS, BOOTS = 120, 4
ONE, BYTEWISE, STEADY, SEVERAL = "one guest", "one guest, bytewise", "one guest, steady", "several guests"
ALL_MB, ALONE_MB = 2048, 1024
APART = 3  # guests with a host each: a publisher and two others
CORES = len(os.sched_getaffinity(0))
LEAN = "init_on_alloc=0 hardened_usercopy=off audit=0 lsm= psi=0 cgroup_disable=memory randomize_kstack_offset=off"


class Failed(Exception):
    """The lab or a scenario failed."""


class TooLate(Failed):
    """The machine itself was too late for a verdict."""


def qemu(arguments, cwd, **pipes):
    """Starts QEMU. The guest dies with the lab, also when the lab is killed."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-display", "none", "-no-reboot",
                             "-nodefaults", *arguments], cwd=cwd, start_new_session=True, **pipes)


def wait_until(condition, seconds, what, every=0.02, clock=time.monotonic):
    """Returns the first true value of condition(). Fails after so many seconds of that clock."""
    end = clock() + seconds
    while True:
        value = condition()
        if value:
            return value
        if clock() > end:
            raise Failed(f"waited {seconds:g} s for {what}")
        time.sleep(every)


class Clock:
    """Seconds that guests had for their work: without the time in which a guest waited for a processor of this machine.
    On a busy machine this clock is slow, as its guests are. So limits hold on any machine."""

    def __init__(self, guests):
        self.guests, self.began, self.seen, self.late = guests, time.monotonic(), {}, 0.0
        self.lock = threading.Lock()

    def __call__(self):
        with self.lock:
            now = {guest: guest.late_seconds() for guest in self.guests()}
            self.late += max((late - self.seen.get(guest, late) for guest, late in now.items()), default=0.0)
            self.seen = now
            return time.monotonic() - self.began - self.late


@functools.cache
def clock_rate(steady):
    """The kernel's parameter for the rate of the processor clock, so that no busy machine spoils its measurement. That of
    a steady guest counts nanoseconds."""
    khz = 1000000 if steady else tsc.khz()
    return f"tsc_early_khz={khz} " if khz else ""


class Guest:
    """A virtual machine. Number 0 has all hosts in it; any other number is a single host.

    Settings for speed under emulation: page tables of four levels and no mitigations more than double it. The
    emulator executes string instructions byte by byte, so the kernel must not find them. A bytewise
    guest has them, as torn copies need them. Hardening, accounting and cipher tests would cost a tenth.

    The clock of a steady guest counts its own instructions, 2 ns for each. While it works its time passes by its work
    alone, so its programs meet the same machine however busy this machine is. While it rests its clock follows this
    machine's. It has a single processor, since QEMU would run several processors in the same thread.

    On a busy machine a processor may stop for seconds. So the kernel must not warn of stalls, nor give up a late
    timer as broken.
    """

    def __init__(self, folder, ready, accel, number, network=(), processors=1, bytewise=False, steady=False, spent=0):
        self.folder, self.number, self.spent = folder, number, spent
        self.console = folder / f"console{number}"
        self.ended, self.when_ms, self.over, self.cpu, self.late = {}, {}, False, spent, 0.0
        self.news = threading.Condition()
        emulated = "max,la57=off" + ("" if bytewise else ",erms=off,fsrm=off")
        wordwise = "" if bytewise else "clearcpuid=rep_good "
        self.steady, clock = steady and accel.startswith("tcg"), []
        if self.steady:
            accel, processors, clock = "tcg,thread=single", 1, ["-icount", "shift=1,sleep=on"]
        self.began = time.monotonic()
        self.process = qemu(
            ["-machine", "q35", "-accel", accel, "-cpu", emulated if accel.startswith("tcg") else "host", *clock,
             "-smp", str(processors), "-m", str(ALL_MB if number == 0 else ALONE_MB),
             "-kernel", f"{ready}/vmlinux", "-initrd", f"{ready}/initramfs",
             "-append", f"console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check cryptomgr.notests "
             f"rcupdate.rcu_cpu_stall_suppress=1 {LEAN} {wordwise}{clock_rate(self.steady)}lab.guest={number}",
             "-serial", f"file:console{number}", "-chardev", "stdio,id=agent,signal=off",
             "-serial", "chardev:agent",
             "-serial", f"unix:terminal{number},server=on,wait=off",
             "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
             "-virtfs", f"local,path={folder},mount_tag=lab,security_model=none,multidevs=remap",
             *network], folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=(folder / f"qemu{number}.log").open("w"))
        self.clock = Clock(lambda: [self])
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

    def send(self, *parts):
        self.process.stdin.write(" ".join(parts).encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, name, signal, pid, seconds):
        """Signals a command's processes without starting a program. Returns (status, time as of Host.now)."""
        self.send(name, signal, pid)
        return self.status(name, seconds), self.when_ms.get(name)

    def cpu_seconds(self):
        """Processor time of this machine so far, with that of earlier guests for the same host."""
        if self.process.poll() is None:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            self.cpu = self.spent + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return self.cpu

    def pid(self, name):
        """The process and group id of a command, or nothing before it has started."""
        path = self.folder / f"{name}.pid"
        return path.exists() and path.read_text().strip()

    def late_seconds(self):
        """How long its latest thread has waited for a processor of this machine so far."""
        for path in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):  # it has ended
                self.late = max(self.late, int(path.read_text().split()[1]) / 1e9)
        return self.late

    def status(self, name, seconds):
        """The exit status of a command. None: the guest died first, or so many seconds of its clock are over."""
        end = self.clock() + seconds
        with self.news:
            while name not in self.ended and self.alive() and (left := end - self.clock()) > 0:
                self.news.wait(left)
            return self.ended.get(name)

    def wait_up(self):
        status = self.status("up", BOOT_SECONDS)
        if status != 0:
            why = "did not come up" if status is None else f"could not make its devices (status {status})"
            raise Failed(f"guest {self.number} {why}:\n{self.log() or 'it printed nothing'}")
        if not self.steady:
            self.clock_check()

    def clock_check(self):
        """At boot the kernel calibrates its clock within milliseconds. On a busy machine that may fail: the guest's
        seconds are too short, and everything in it is late for good."""
        lived, found = time.monotonic() - self.began, self.when_ms["up"] / 1000
        if found > lived:
            raise Failed(f"guest {self.number}: found an uptime of {found:.1f} s, {lived:.1f} s after its start: its "
                         "clock is too fast")

    def log(self):
        """The last lines that QEMU and the guest printed."""
        paths = (self.folder / f"qemu{self.number}.log", self.console)
        lines = [line for path in paths if path.exists() for line in path.read_text(errors="replace").splitlines()]
        return "\n".join(lines[-20:])

    def close(self):
        self.cpu_seconds()
        self.process.kill()
        self.process.wait()


class Switch:
    """Connects guests: a QEMU process without a machine, so that any guest may be killed. It also pulls cables
    without the guest seeing it."""

    def __init__(self, folder, hosts):
        self.folder = folder
        arguments = ["-machine", "none", "-monitor", "unix:switch,server=on,wait=off"]
        for name in [f"cable{i}{kind}" for i in range(1, hosts + 1) for kind in "hw"]:
            hub = 0 if name.endswith("h") else 1
            arguments += ["-netdev", f"stream,id={name},server=on,addr.type=unix,addr.path={name}",
                          "-netdev", f"hubport,hubid={hub},id={name}p,netdev={name}"]
        self.process = qemu(arguments, folder, stdin=subprocess.DEVNULL, stderr=(folder / "switch.log").open("w"))
        wait_until(lambda: (folder / "switch").exists() or self.process.poll() is not None, BOOT_SECONDS, "the switch")
        if self.process.poll() is not None:
            raise Failed("the switch did not start: " + (folder / "switch.log").read_text())

    @staticmethod
    def cables(number):
        """QEMU's arguments for the two interfaces of a host."""
        for index, kind in enumerate("hw"):
            yield from ["-netdev", f"stream,id={kind},server=off,addr.type=unix,addr.path=cable{number}{kind}",
                        "-device", f"virtio-net-pci,netdev={kind},host_mtu=4200,"
                        f"mac=52:54:00:09:{index:02x}:{number:02x}"]

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
    """Running guests: one guest with several hosts, or several guests with a host each. `lanes` of them run at
    the same time."""

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
                                         bytewise=kind == BYTEWISE, steady=kind == STEADY))
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
        """Checks that guests reach each other: a guest was seen to boot without any connection for minutes."""
        (self.folder / "cables.sh").write_text("for net in 0 1; do busybox ping -c 1 -W 10 10.9.$net.1 || exit; done\n")
        for guest in self.guests[1:]:
            guest.send("cables")
            if guest.status("cables", BOOT_SECONDS) != 0:
                raise Failed(f"guest {guest.number} does not reach the first:\n"
                             f"{(self.folder / 'cables.out').read_text()}")

    def guest(self, number):
        return self.guests[number - 1 if self.kind == SEVERAL else 0]

    def boot_again(self, number):
        """Power returns to a host: a new guest with the same cables, and no state."""
        self.guests[number - 1] = self.alone(number, self.guest(number).cpu_seconds())
        self.guest(number).wait_up()

    def close(self):
        for part in [*self.guests, *([self.switch] if self.switch else [])]:
            part.close()


def folders(path):
    """Folders for one topology after another."""
    return map(lambda number: path / f"boot{number}", itertools.count(1))


def boot(kind, hosts, paths, *how):
    """A topology in the next of these folders. On a busy machine a guest may fail to boot, since its kernel takes a late
    timer for broken, or calibrates its clock wrongly. Then another is booted."""
    for _ in range(BOOTS - 1):
        try:
            return Topology(kind, hosts, next(paths), *how)
        except Failed as failure:
            print(f"lab: boots again: {failure}", file=sys.stderr)
    return Topology(kind, hosts, next(paths), *how)
