# SPDX-License-Identifier: Apache-2.0
"""Shared by the fault tests: a folder, processes that end with the test, and waiting for what they do.
The control subscriber accounts for every record.

    PROGRAM PUBD TICKBUS CONTROL [CASE...]
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from wire import Peer, catalogue

PUBD, TICKBUS, CONTROL = sys.argv[1:4]
PATIENCE_S = 120
SANITIZED = os.environ.get("TICKBUS_SANITIZED") == "1"


def seed():
    """The seed of a test's random numbers, printed so that a run can be repeated."""
    value = int(os.environ.get("TICKBUS_TEST_SEED") or time.time_ns())
    print(f"seed: TICKBUS_TEST_SEED={value}", file=sys.stderr)
    return random.Random(value)


def synthetic(more=""):
    """A synthetic feed without an end, at full speed."""
    return f"type: synthetic, seed: 1, symbols: 10, date: 2024-01-02{more}"


def settings(feed=synthetic(), topics=("t",), bus="", more="slots: 4096, instruments: 64", log=""):
    lines = "\n".join(f"  - {{ name: {topic}, feed: f, select: quote, schema: quote, {more} }}"
                      for topic in topics)
    return f"""bus: {{ name: b{bus} }}
schemas: [ quote, trade ]
{log}
feeds:
  - {{ name: f, {feed} }}
topics:
{lines}
"""


def growth_kb(limit):
    """The allowed growth of memory in KiB. A sanitizer keeps freed memory."""
    return limit + (64 << 10 if SANITIZED else 0)


class Process:
    """A program that was started; its standard output and error are files."""

    count = 0

    def __init__(self, scene, command, env, prefix, pass_fds=()):
        Process.count += 1
        self.out, self.err = (scene.folder / f"{Process.count}.{kind}" for kind in ("out", "err"))
        self.scene = scene
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.popen = subprocess.Popen([*prefix, *map(str, command)], stdout=out, stderr=err,
                                          stdin=subprocess.DEVNULL, env=env, pass_fds=pass_fds)
        self.pid = self.popen.pid

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()

    def began(self):
        """Whether it has logged that its bus is open."""
        return re.search("info bus b: [0-9]+ topics?", self.messages())

    def running(self):
        return self.popen.poll() is None

    def messages(self):
        return self.err.read_text(errors="replace")

    def says(self, pattern):
        """Waits until standard error has the pattern."""
        self.scene.until(lambda: re.search(pattern, self.messages()), pattern, self)

    def ends(self, status):
        self.scene.assertEqual(self.popen.wait(PATIENCE_S), status, self.messages())
        return self.out.read_text()

    def stop(self, status=0):
        self.signal(signal.SIGTERM)
        self.ends(status)

    # -- from /proc

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory_kb(self):
        """Its private memory in KiB, without the memory shared with subscribers."""
        text = pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return next(int(line.split()[1]) for line in text.splitlines()
                    if line.startswith("Anonymous:"))

    def state(self):
        return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class Control(Process):
    """The control subscriber: its events and its account."""

    def __init__(self, *args):
        super().__init__(*args)
        self.read_to, self.read, self.state_now = 0, {}, None

    def events(self, kind):
        """All events of a kind so far."""
        with open(self.out, "rb") as file:
            file.seek(self.read_to)
            fresh = file.read()
        whole = fresh[:fresh.rfind(b"\n") + 1]
        self.read_to += len(whole)
        for event in map(json.loads, whole.splitlines()):
            self.read.setdefault(event["event"], []).append(event)
            if event["event"] in ("appeared", "live", "restart", "stale"):
                self.state_now = event
        return self.read.get(kind, [])

    def sees(self, kind, count=1):
        """Waits for the count-th event of a kind."""
        self.scene.until(lambda: len(self.events(kind)) >= count, f"{count} x {kind}", self)
        return self.events(kind)[count - 1]

    def becomes(self, state):
        """Waits until it sees the publisher live or stale. Returns the event."""
        self.scene.until(lambda: self.events(state) and self.state_now["event"] == state, state, self)
        return self.state_now

    def sum(self):
        """The account as it is now."""
        before = len(self.events("sum"))
        self.signal(signal.SIGUSR1)
        return self.sees("sum", before + 1)

    def reads_on(self, records=1):
        """Waits until it has received this many more records. Returns the account then."""
        begun = self.sum()["total"]
        self.scene.until(lambda: self.sum()["total"] >= begun + records, f"{records} records", self)
        return self.events("sum")[-1]


class Scene(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tickbus-faults-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.env = dict(os.environ, TICKBUS_RUNTIME_DIR=str(self.folder))
        self.maxDiff = None

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content) if isinstance(content, str) else path.write_bytes(content)
        return path

    def begin(self, *command, kind=Process, prefix=(), pass_fds=()):
        process = kind(self, command, self.env, prefix, pass_fds)
        self.addCleanup(process.kill)
        return process

    def until(self, condition, what, process=None):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                output = process.messages() + process.out.read_text()[-2000:] if process else ""
                self.fail(f"not reached in {PATIENCE_S} s: {what}\n{output}")
            time.sleep(0.002)

    def pubd(self, text, name="pubd.yaml", prefix=()):
        """A pubd whose bus is open."""
        pubd = self.begin(PUBD, self.file(name, text), prefix=prefix)
        self.until(lambda: pubd.began() or not pubd.running(), "an open bus", pubd)
        self.assertTrue(pubd.began(), pubd.messages())
        return pubd

    def refused(self, text, status=1, prefix=()):
        """The messages of a pubd that cannot start."""
        pubd = self.begin(PUBD, self.file("refused.yaml", text), prefix=prefix)
        pubd.ends(status)
        return pubd.messages()

    def control(self, topic="t", start="newest", how="wait", more=0):
        control = self.begin(CONTROL, "shm:b", topic, start, how, more, kind=Control)
        control.how = how
        control.sees("ready")
        return control

    def peer(self):
        """A connection whose every byte the test sends."""
        peer = Peer(self.folder)
        self.addCleanup(peer.close)
        return peer

    def settled_peer(self):
        """A connection made after the bus has handled all earlier messages and closed connections.
        Its second answer comes from a later turn of the control thread."""
        peer = self.peer()
        peer.greet()
        for _ in range(2):
            peer.ask(catalogue())
        return peer

    def descriptors(self, pubd):
        """How many descriptors pubd has, with this test's connection and no other change."""
        peer = self.settled_peer()
        count = pubd.descriptors()
        peer.close()
        return count

    def counters(self, scope="bus", name=None):
        """Counters by name, of the first or the named block of a scope."""
        result = subprocess.run([TICKBUS, "stat", "shm:b", "--format=json", "--timeout=60000"],
                                env=self.env, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        return {line["counter"]: line["value"] for line in lines
                if line["scope"] == scope and name in (None, line["name"])}

    def need_root(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv to become another user")


class TapResult(unittest.TextTestResult):
    """Writes a TAP line for each case, so that a skipped case shows its reason."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.lines = []

    def add_line(self, good, test, why=""):
        name = test.id().removeprefix("__main__.")
        self.lines.append(f"{good} {len(self.lines) + 1} - {name}{why}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.add_line("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.add_line("ok", test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.add_line("not ok", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.add_line("not ok", test)


def main():
    """Runs the cases named on the command line, and reports them in TAP."""
    runner = unittest.TextTestRunner(verbosity=2, resultclass=TapResult)
    result = unittest.main(argv=[sys.argv[0], *sys.argv[4:]], module="__main__", exit=False,
                           testRunner=runner).result
    print("TAP version 13", *result.lines, f"1..{len(result.lines)}", sep="\n")
    sys.exit(not result.wasSuccessful())
