# SPDX-License-Identifier: Apache-2.0
"""Hosts of a scenario, and the programs that it starts on them."""
import itertools
import json
import os
import re
import shlex

from guests import SEVERAL, Clock, Failed, wait_until


class Skipped(Exception):
    """Something that a scenario needs is missing. The message names it."""


class Process:
    """A command on a host, in a process group of its own. It runs in dash, which starts faster than bash."""
    numbers = itertools.count(1)

    def __init__(self, host, command):
        self.host, self.guest, self.command = host, host.guest, command
        self.name = f"command{next(Process.numbers)}"
        self.folder = host.lab.topology.folder
        (self.folder / f"{self.name}.out").touch()
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in host.environment().items())
        (self.folder / f"{self.name}.sh").write_text(
            f"echo $$ >{self.folder}/{self.name}.pid\n{exports}"
            f"[ -d $TICKBUS_RUNTIME_DIR ] || mkdir -p $TICKBUS_RUNTIME_DIR\ncd $BUILD || exit\n{command}\n")
        self.guest.send(self.name)

    def output(self):
        return (self.folder / f"{self.name}.out").read_text(errors="replace")

    def running(self):
        return self.name not in self.guest.ended and self.guest.alive()

    def report(self, problem):
        """The problem with the command and the last lines of its output."""
        last = "\n".join("    " + line for line in self.output().splitlines()[-25:])
        return f"host {self.host.number}: {self.command}\n  {problem}; it printed:\n{last}"

    def where(self):
        """What the kernel shows of its tasks, to find out why it does not end."""
        pid = self.guest.pid(self.name)
        look = Process(self.host, f"for task in /proc/{pid}/task/*; do\n"
                                  "cat $task/comm; grep State $task/status; cat $task/syscall $task/stack\ndone")
        self.guest.status(look.name, 20)
        return "; its tasks are:\n" + look.output()

    def wait(self, status=0):
        """Waits for the end and returns the output. Fails at any other status, unless `status` is None."""
        found = self.guest.status(self.name, self.host.lab.left())
        if found is None:
            raise Failed(self.report("did not end" + self.where() if self.guest.alive() else "its guest died"))
        if status is not None and found != status:
            raise Failed(self.report(f"ended with status {found}, expected {status}"))
        return self.output()

    def wait_for(self, pattern, seconds=None):
        """Waits until the output matches the pattern. Fails if the command ends without it."""
        def seen():
            over = not self.running()
            found = re.search(pattern, self.output(), re.M)
            if over and not found:
                raise Failed(self.report(f"ended without {pattern!r}"))
            return found
        limit = min(seconds or 1e9, self.host.lab.left())
        try:
            return wait_until(seen, limit, repr(pattern), clock=self.host.lab.clock)
        except Failed as failure:
            raise failure if "ended without" in str(failure) else Failed(self.report(str(failure))) from None

    def signal(self, name):
        """Sends a signal to all of the command's processes. Returns the time, as Host.now does."""
        pid = self.host.lab.wait_until(lambda: self.guest.pid(self.name), "a pid")
        if not self.running():
            status = self.guest.ended.get(self.name)
            raise Failed(self.report(f"had ended with status {status} before it was sent {name}"))
        number = f"signal{next(Process.numbers)}"
        status, when = self.guest.signal(number, name, pid, self.host.lab.left())
        if status != 0:
            raise Failed(self.report(f"was not sent {name}: status {status}"))
        return when

    def kill(self):
        self.signal("KILL")
        self.wait(status=None)


class Host:
    """A host: its addresses (`rxe` for RoCE, `siw` for iWARP) and its failures."""

    def __init__(self, lab, number):
        self.lab, self.number = lab, number
        self.processes = []

    @property
    def rxe(self):
        return self.address("rxe")

    @property
    def siw(self):
        return self.address("siw")

    @property
    def guest(self):
        return self.lab.topology.guest(self.number)

    @property
    def alone(self):
        return self.lab.topology.kind == SEVERAL

    def address(self, kind):
        """The address of a kind of device. rxe6 and siw6 are IPv6 addresses, which a scenario has to add."""
        net = ("rxe", "siw").index(kind[:3])
        return f"[fd09:{net}::{self.number}]" if kind.endswith("6") else f"10.9.{net}.{self.number}"

    def interface(self, kind):
        if self.alone:
            return {"rxe": "eth0", "siw": "eth1"}[kind]
        return {"rxe": "h", "siw": "w"}[kind] + str(self.number)

    def environment(self):
        build, path = self.lab.build, os.defpath
        known = {"BUILD": str(build), "SOURCE": str(self.lab.source), "HOST": str(self.number),
                 "OUT": str(self.lab.topology.folder), "LD_PRELOAD": f"{build}/tests/lab/liblab-letgo.so",
                 "TICKBUS_RUNTIME_DIR": f"/run/host{self.number}",
                 "TICKBUS_LIBEXEC_DIR": f"{build}/bus/shm/porter",
                 "PATH": f"{build}/publisher/pubd:{build}/tools:/usr/local/sbin:/usr/local/bin:"
                         "/usr/sbin:/usr/bin:/sbin:" + path}
        known |= {kind.upper(): self.address(kind) for kind in self.lab.kinds}
        passed = {key: value for key, value in os.environ.items() if key.startswith("TICKBUS_TEST")}
        return passed | known

    def start(self, command):
        process = Process(self, command)
        self.processes.append(process)
        return process

    def run(self, command, status=0):
        """Runs a command to its end and returns its output. Any other exit status is a failure."""
        return Process(self, command).wait(status)

    def act(self, command):
        """Runs a command. Returns the host's CLOCK_MONOTONIC just before and after it, in milliseconds."""
        now = "read -r now _ </proc/uptime\necho $now"
        lines = self.run(f"{now}\n{command}\n{now}").splitlines()
        return float(lines[0]) * 1000, float(lines[-1]) * 1000

    def now(self):
        return self.act(":")[0]

    def reaches(self, other):
        ping = self.run(f"busybox ping -c 1 -W 1 -I {self.rxe} {other.rxe}; [ $? -lt 2 ]")
        return " 0% packet loss" in ping

    def unplug(self):
        """Pulls the cable: no packet gets in or out, and the host does not notice. Returns times as act does."""
        if self.alone:
            when = self.now()
            self.lab.topology.switch.cable(self.number, "off")
            return when, when
        return self.act(self.cables("nomaster", "nomaster"))

    def cables(self, *verbs):
        """A single command for both cables, since starting a program takes time."""
        lines = "".join(f"link set {kind}{self.number}p {verb}\n" for kind, verb in zip("hw", verbs))
        return f"ip -batch - <<END\n{lines}END"

    def plug(self):
        if self.alone:
            self.lab.topology.switch.cable(self.number, "on")
        else:
            self.run(self.cables("master br0", "master br1"))

    def shape(self, how):
        """Loses and delays packets to this host, as in "loss 1% delay 1ms". "" ends it."""
        verb = f"add dev {{}} root netem {how}" if how else "del dev {} root"
        cables = (f"h{self.number}p", f"w{self.number}p")
        lines = "".join(f"qdisc {verb.format(cable)}\n" for cable in cables)
        self.run(f"tc -batch - <<END\n{lines}END")

    def dropped(self, kind):
        """How many packets to this address have been dropped so far."""
        found = json.loads(self.run(f"tc -s -j qdisc show dev {self.interface(kind)}p"))
        return sum(queue["drops"] for queue in found if queue["kind"] == "netem")

    def block_multicast(self, groups="224.0.0.0/4"):
        """Filters away multicast to these groups for this host."""
        for cable in (f"h{self.number}p", f"w{self.number}p"):
            self.run(f"tc qdisc add dev {cable} root handle 1: prio && tc filter add dev {cable} parent 1: "
                     f"protocol ip u32 match ip dst {groups} action drop")

    def unblock_multicast(self):
        for cable in (f"h{self.number}p", f"w{self.number}p"):
            self.run(f"tc qdisc del dev {cable} root")

    def remove_device(self, kind):
        """Removes the device. The command blocks until every program has closed it."""
        return self.start(f"read -r now _ </proc/uptime; echo removed at $now\nexec rdma link del {kind}{self.number}")

    def return_device(self, kind):
        self.run(f"rdma link add {kind}{self.number} type {kind} netdev {self.interface(kind)}")

    def power_off(self):
        """Ends the host at once, without a packet. Only for a host that is a guest of its own."""
        self.guest.close()

    def power_on(self):
        self.lab.topology.boot_again(self.number)


class Lab:
    """What a scenario receives: the hosts of its topology, the kinds of their devices, and its time limit."""

    def __init__(self, topology, source, build, seconds):
        self.topology, self.source, self.build = topology, source, build
        self.kinds = getattr(topology, "kinds", ("rxe", "siw"))
        self.hosts = [getattr(topology, "host_class", Host)(self, number) for number in range(1, topology.hosts + 1)]
        self.clock = Clock(lambda: topology.guests)
        self.end = self.clock() + seconds
        self.notes = []

    def note(self, text):
        """Adds a line that is printed with the outcome."""
        self.notes.append(text)

    def host(self, number):
        return self.hosts[number - 1]

    def left(self):
        """Seconds of the hosts' clock until the limit."""
        return max(self.end - self.clock(), 0.001)

    def wait_until(self, condition, what, seconds=None, every=0.02):
        """`every`: seconds between two tries, more if the condition starts a program."""
        return wait_until(condition, min(seconds or 1e9, self.left()), what, every, self.clock)

    def stop(self):
        """Kills processes that the scenario left running."""
        started = [process for host in self.hosts for process in host.processes]
        left = [process for process in started if process.running()]
        for process in left:
            if process.running():
                process.signal("KILL")
        for process in left:
            process.wait(status=None)
