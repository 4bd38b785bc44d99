#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A subscriber that is stopped costs nobody anything.

    pace.py PUBD TICKBUS CONTROL COUNTED            exact: instructions of the publishing thread,
                                                    and its wakes
    pace.py PUBD TICKBUS CONTROL COUNTED --measure  times, paired and interleaved: on demand

Times belong to a quiet machine, so the tests count instructions, which are the same on any. The
measurement publishes in pairs of rounds, one with and one without a stopped subscriber beside one that
spins and one that sleeps, and takes the median of the pairs' ratios: of the publisher's time, and of
theirs from the first to the last record. A round fits in the ring: they get all of it. What a stopped one
costs those who sleep is counted by neighbour_cost.c.
"""
import re
import shutil
import signal
import statistics
import subprocess
import sys
import unittest

from scene import Scene, main, seed

COUNTED = sys.argv.pop(4)
MEASURE = "--measure" in sys.argv and not sys.argv.remove("--measure")
RECORDS = 20000
SLEEPS = 3
ROUNDS = 200          # of the measurement, half of them with a stopped subscriber
ROUND_RECORDS = 50000  # the ring has 65536 slots
BOUND = 1.05


class Counted(Scene):
    """The counted publisher, and subscribers of it."""

    def counted(self, records, rounds, prefix=()):
        process = subprocess.Popen([*prefix, COUNTED, str(records), str(rounds)], env=self.env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.stdin.close()
            process.stdout.close()
            process.kill()
            process.wait()
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @staticmethod
    def publish(process):
        """A round; the nanoseconds it took."""
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def join(self, how):
        control = self.control(how=how)
        control.sees("appeared")
        return control

    def asleep(self, count):
        """So many have said that they sleep: the next flush has to wake them."""
        self.until(lambda: self.counters("topic")["sleepers"] == count, f"{count} sleepers")

    def stop(self, controls):
        for control in controls:
            control.signal(signal.SIGSTOP)
            self.until(lambda: control.state() == "T", "stopped", control)


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not there")
class Instructions(Counted):
    def setUp(self):
        super().setUp()
        probe = subprocess.run(["valgrind", "-q", COUNTED], capture_output=True, text=True)
        if probe.returncode != 2 or probe.stderr:
            self.skipTest("callgrind cannot read this build: "
                          + (probe.stderr.splitlines() or ["no reason given"])[0])

    def count(self, subscribers):
        """Instructions in tb_publish for RECORDS records, with these subscribers."""
        report = self.folder / "callgrind"
        process = self.counted(RECORDS, 1, [
            "valgrind", "-q", "--tool=callgrind", "--toggle-collect=tb_publish",
            f"--callgrind-out-file={report}"])
        controls = [self.join(how) for how, _ in subscribers]
        self.asleep(sum(how == "wait" for how, _ in subscribers))
        self.stop(one for one, (_, stopped) in zip(controls, subscribers) if stopped)
        self.publish(process)
        self.assertEqual(process.wait(60), 0)
        for control in controls:
            control.kill()
        count = int(re.search(r"^(?:totals|summary): (\d+)", report.read_text(), re.M).group(1))
        self.assertGreater(count, 50 * RECORDS)
        return count

    def test_spinning_and_stopped_subscribers_cost_no_instruction(self):
        alone = self.count([])
        self.assertEqual(self.count([("spin", True)]), alone)
        self.assertEqual(self.count([("spin", True), ("spin", False), ("spin", False)]), alone)

    def test_subscribers_stopped_in_their_sleep_cost_at_most_a_wake(self):
        alone = self.count([])
        more = self.count([("wait", True), ("wait", True)]) - alone
        self.assertGreater(more, 0)
        self.assertLess(more, 2000)


class Wakes(Counted):
    def counts(self):
        """Flushes, wakes by the publishing thread, sleepers that were woken."""
        topic = self.counters("topic")
        return topic["flushes"], topic["signals"], self.counters()["wakes"]

    def test_two_subscribers_stopped_in_their_sleep_cost_one_wake(self):
        process = self.counted(RECORDS, SLEEPS + 2)  # it ends with its last round
        self.publish(process)  # what is reserved with the first record is a flush of its own
        controls = [self.join("wait") for _ in range(2)]
        for number in range(1, SLEEPS + 1):
            self.asleep(2)
            self.stop(controls)
            before = self.counts()
            self.publish(process)
            self.asleep(0)
            flushes, signals, wakes = (a - b for a, b in zip(self.counts(), before))
            self.assertGreaterEqual(flushes, RECORDS)
            self.assertEqual((signals, wakes), (1, 2))
            for control in controls:
                control.signal(signal.SIGCONT)
                self.until(lambda: control.sum()["total"] == number * RECORDS, "all", control)
                self.assertEqual((control.sum()["lost"], control.sum()["wrong"]), (0, 0))


class Measured(Counted):
    """Run with --measure."""

    def reads(self, other, end):
        """Nanoseconds from its first record of this round to the last."""
        sums = []

        def all_read():
            sums.append(other.sum())
            return sums[-1]["total"] == end
        self.until(all_read, "all of a round", other)
        return sums[-1]["last_ns"] - next(one["first_ns"] for one in sums if one["first_ns"])

    def round(self, process, others):
        """Nanoseconds of a round: the publisher's, and those of who reads it."""
        ends = [other.sum()["total"] + ROUND_RECORDS for other in others]
        took = self.publish(process)
        return took, *map(self.reads, others, ends)

    def test_stopped_subscriber_slows_no_other(self):
        if not MEASURE:
            self.skipTest("a measurement: on demand, --measure, on a quiet machine")
        chance = seed()
        process = self.counted(ROUND_RECORDS, 2 * ROUNDS + 1)  # it ends with its last round
        others = [self.join("spin"), self.join("wait")]
        pairs = []
        for _ in range(ROUNDS // 2):
            pair = {}
            for beside in chance.sample([True, False], 2):
                slow = self.join("spin")  # in both, for what starting one costs
                self.stop([slow])
                if not beside:
                    slow.kill()
                self.round(process, others)  # warms up
                pair[beside] = self.round(process, others)
                slow.kill()
            pairs.append(pair)
        for which, who in enumerate(("publisher", "who spins", "who sleeps")):
            ns = {beside: statistics.median(pair[beside][which] for pair in pairs) / ROUND_RECORDS
                  for beside in (True, False)}
            ratio = statistics.median(pair[True][which] / pair[False][which] for pair in pairs)
            print(f"{who}, ns a record: {ns[True]:.2f} beside a stopped subscriber, {ns[False]:.2f} "
                  f"without, ratio of pairs {ratio:.3f}, bound {BOUND}")
            self.assertLess(ratio, BOUND)


if __name__ == "__main__":
    main()
