# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios side by side: each lane has guests of its own, in which it runs a scenario after another.

So scenarios that run at the same time do not share guests. Lanes share this machine's processors: most scenarios
wait most of the time.
"""
import importlib.util
import pathlib
import threading
import time
import traceback

from guests import ONE, Failed, TooLate, boot, folders
from hosts import Lab, Skipped
from ssh import Machines

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60  # the default limit of a scenario
LATE_TIMES = 2
END_SECONDS = 120  # to end what it left running, and to check the state: each command may take seconds


def scenarios():
    """All scenarios by name."""
    found = {}
    for path in sorted((HERE / "scenarios").glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[path.stem] = module
    return found


def state_left(lab):
    """A report of what differs from the state at boot. "": no difference."""
    found = []
    seen = set()
    for host in lab.hosts:
        if host.guest in seen:
            continue
        seen.add(host.guest)
        if not host.guest.alive():
            found.append(f"host {host.number} is off")
            continue
        mine = [h.number for h in lab.hosts if h.guest is host.guest]
        found.append(host.run(f"exec bash $SOURCE/tests/lab/state {' '.join(map(str, mine))}").strip())
    return "\n".join(filter(None, found))


def run_scenario(scenario, topology, options):
    """Returns (outcome, why, notes). A scenario that leaves something behind has failed."""
    if options.ssh and getattr(scenario, "GUESTS_ONLY", False):
        return "skipped", "it needs guests", []
    lab = Lab(topology, options.source, options.build, options.limit or getattr(scenario, "SECONDS", SECONDS))
    try:
        scenario.run(lab)
        outcome, why = "passed", ""
    except Skipped as reason:
        outcome, why = "skipped", str(reason)
    except TooLate as reason:
        outcome, why = "late", str(reason)
    except Failed as failure:
        outcome, why = "failed", str(failure)
    except Exception:
        outcome, why = "failed", traceback.format_exc()
    lab.end = lab.clock() + END_SECONDS
    try:
        lab.stop()
        left = "" if options.ssh or getattr(scenario, "KILLS_HOSTS", False) else state_left(lab)
    except Failed as failure:
        left = str(failure)
    if left and outcome != "late":
        outcome, why = "failed", "\n".join(filter(None, [why, "left behind:\n" + left]))
    return outcome, why, lab.notes


class Lane:
    """A thread with a topology. After a failure it boots a new topology, so that the next scenario is not affected."""

    def __init__(self, lanes):
        self.lanes, self.options, self.topology = lanes, lanes.options, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while name := self.lanes.take(self):
                self.run_named(name, self.lanes.chosen[name])
        except BaseException:
            self.lanes.broken = True
            raise
        finally:
            self.leave()

    def leave(self):
        if self.topology:
            self.topology.close()
        self.topology = None

    def cpu_seconds(self):
        return sum(guest.cpu_seconds() for guest in self.topology.guests) if self.topology else 0

    def enter(self, scenario):
        began = time.monotonic()
        if self.topology and not self.options.ssh and self.topology.kind != scenario.TOPOLOGY:
            self.leave()
        if not self.topology:
            self.topology = self.lanes.open(scenario)
            self.lanes.say("booted", time.monotonic() - began, self.cpu_seconds(), self.topology.kind)

    def run_named(self, name, scenario, late=0, again=False):
        """Runs a scenario. Repeats it on new hosts if the machine was too late for a verdict, and with --again once if
        it failed."""
        began, before, notes = time.monotonic(), 0, []
        try:
            self.enter(scenario)
            began, before = time.monotonic(), self.cpu_seconds()
            outcome, why, notes = run_scenario(scenario, self.topology, self.options)
        except Failed as failure:
            outcome, why = "failed", str(failure)
        if outcome == "late" and late == LATE_TIMES:
            outcome = "failed"
        if outcome == "failed" and self.options.again and not again:
            outcome = "unsteady"
        self.lanes.say(outcome, time.monotonic() - began, self.cpu_seconds() - before, name, why, notes)
        if outcome in ("failed", "late", "unsteady") or getattr(scenario, "KILLS_HOSTS", False):
            self.leave()
        if outcome in ("late", "unsteady"):
            self.run_named(name, scenario, late + (outcome == "late"), again or outcome == "unsteady")


class Lanes:
    def __init__(self, chosen, folder, options):
        self.options, self.broken = options, False
        self.chosen, self.owners = chosen, {}
        # Long scenarios first, but those that kill hosts last of their kind.
        self.waiting = sorted(chosen, key=lambda name: (
            chosen[name].TOPOLOGY == ONE, getattr(chosen[name], "KILLS_HOSTS", False),
            -getattr(chosen[name], "SECONDS", SECONDS)))
        self.lock = threading.Lock()
        self.folders = folders(folder)
        self.lanes = 1 if options.ssh else max(1, min(options.lanes, len(chosen) // 3))
        self.count = {"passed": 0, "failed": 0, "skipped": 0}

    def take(self, lane):
        """The next scenario for a lane: of the kind that it has booted. Else of a kind that no other lane owns, or of
        the kind that any lane may boot."""
        with self.lock:
            kind = lane.topology and lane.topology.kind
            mine = [name for name in self.waiting
                    if self.options.ssh or self.chosen[name].TOPOLOGY == ONE or
                    self.owners.get(self.chosen[name].TOPOLOGY, lane) is lane]
            mine.sort(key=lambda name: self.chosen[name].TOPOLOGY != kind)
            if not mine:
                return None
            self.waiting.remove(mine[0])
            self.owners[self.chosen[mine[0]].TOPOLOGY] = lane
            return mine[0]

    def open(self, scenario):
        if self.options.ssh:
            return Machines(next(self.folders), self.options.ssh, self.options.hosts)
        return boot(scenario.TOPOLOGY, self.options.hosts, self.folders, self.options.ready, self.options.accel,
                    self.lanes)

    def say(self, outcome, seconds, cpu_seconds, name, why="", notes=()):
        with self.lock:
            if outcome in self.count:
                self.count[outcome] += 1
            for note in notes:
                print(f"         {note}")
            text = f"{name}: {why}" if why else name
            print(f"{outcome:8} {seconds:6.1f} s {cpu_seconds:6.1f} s  {text}", flush=True)

    def run(self):
        """Returns the number of scenarios by outcome."""
        lanes = [Lane(self) for _ in range(self.lanes)]
        for lane in lanes:
            lane.thread.join()
        if self.broken:
            raise Failed("a lane failed, see above")
        return self.count
