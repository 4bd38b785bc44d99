#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon's whole life: no growth while it runs, and no leak at its end.

    life.py PUBD TICKBUS CONTROL [CASE...]
"""
import re
import shutil
import signal
import struct
import subprocess
import unittest

import wire
from scene import PUBD, Scene, growth_kb, main, settings, synthetic

CONNECTIONS = 2500  # so many that a leak of each exceeds the allowed growth
EACH = 4  # joins per connection
FEED = synthetic(", rate: 2000, speed: realtime")


class Joins(Scene):
    def rounds(self, connections):
        """Connections that join and leave a topic, a few times each."""
        peer = self.settled_peer()
        epoch, topic = peer.first_topic()
        peer.close()
        join = wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch))
        leave = wire.request(wire.LEAVE, struct.pack("<IQQ", topic, epoch, 0))
        for _ in range(connections):
            peer = wire.Peer(self.folder)
            peer.greet()
            for _ in range(EACH):
                peer.send(wire.MESSAGE, join)
                peer.send(wire.MESSAGE, leave)
            for _ in range(EACH):
                self.assertEqual(struct.unpack_from("<H", peer.receive()[1])[0], wire.GRANT)
            peer.close()
        self.until(lambda: self.counters()["joins"] == 0, "no join left")

    def test_ten_thousand_joins_and_leaves_keep_no_resource(self):
        pubd = self.pubd(settings(FEED))
        self.rounds(CONNECTIONS // 10)
        before = self.descriptors(pubd), pubd.memory_kb()
        self.rounds(CONNECTIONS)
        self.assertEqual(self.counters()["subscribers"], 1)  # `tickbus stat` itself
        self.until(lambda: self.descriptors(pubd) == before[0], "as few descriptors as before", pubd)
        self.assertLess(pubd.memory_kb() - before[1], growth_kb(64))
        pubd.stop()


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not there")
class Valgrind(Scene):
    """Start, serve, reopen the log, restart a feed, end: no error, and no leak."""

    def setUp(self):
        super().setUp()
        probe = subprocess.run(["valgrind", "-q", PUBD, "--version"], capture_output=True,
                               text=True)
        if probe.returncode or probe.stderr:
            self.skipTest("pubd does not run under valgrind: "
                          + (probe.stderr.splitlines() or ["no reason given"])[0])

    def begin_life(self, feed, topics=("t",)):
        self.log, self.report = self.folder / "log", self.folder / "report"
        text = settings(feed, topics, log=f"log: {{ file: {self.log} }}")
        self.bus = self.begin(PUBD, self.file("pubd.yaml", text), prefix=[
            "valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
            "--track-fds=yes", "--error-exitcode=99", f"--log-file={self.report}"])
        self.logs("info bus b: ")

    def logs(self, text):
        self.until(lambda: self.log.exists() and text in self.log.read_text(), text, self.bus)

    def end_life(self):
        self.bus.signal(signal.SIGTERM)
        status = self.bus.popen.wait(120)
        report = self.report.read_text()
        self.assertEqual(status, 0, report + self.log.read_text())
        self.assertIn("ERROR SUMMARY: 0 errors", report)
        self.assertRegex(report, r"FILE DESCRIPTORS: \d+ open \(3 std\) at exit")
        left = re.findall(r"(Open .*)\n==\d+==(?! +<inherited from parent>)", report)
        self.assertEqual(left, [], report)

    def test_daemon_with_log_reopened_has_no_error_and_no_leak(self):
        self.begin_life(FEED, ("t", "u"))
        control = self.control("u")
        control.reads_on(100)
        self.log.rename(self.folder / "old")
        self.bus.signal(signal.SIGHUP)
        self.logs("log file reopened")
        peer = self.peer()
        peer.raw(b"garbage")
        peer.refusal()
        peer.close()
        self.counters()
        self.end_life()
        control.ends(0)

    def test_feed_that_restarts_has_no_error_and_no_leak(self):
        self.begin_life(synthetic(", messages: 2000, at_end: restart"))
        control = self.control()
        control.sees("restart", 3)
        self.end_life()


main()
