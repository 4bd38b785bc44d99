#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stopped subscriber slows neither the publisher nor other subscribers.

    pace.py PUBD TICKBUS CONTROL COUNTED            counts the publishing thread's instructions and wakes
    pace.py PUBD TICKBUS CONTROL COUNTED --measure  measures times, on demand

The tests count instructions, which are the same on every machine; times need a quiet machine. The
measurement publishes in pairs of rounds: with and without a stopped subscriber. A spinning and a
sleeping subscriber read both rounds. Each round fits in the ring, so they get every record. The result
is the median of the pairs' ratios: of the publisher's time, and of each reader's time from its first
record to its last. neighbour_cost.c counts what a stopped subscriber costs sleepers.
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
MARK_BOUND = 12     # instructions of a record that ends a message


class Counted(Scene):
    """The publisher whose work is counted, and its subscribers."""

    def counted(self, records, rounds, prefix=(), more=()):
        process = subprocess.Popen([*prefix, COUNTED, str(records), str(rounds), *more], env=self.env,
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
        """Publishes a round. Returns the nanoseconds it took."""
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def join(self, how):
        control = self.control(how=how)
        control.sees("appeared")
        return control

    def asleep(self, count):
        """Waits until this many subscribers have announced their sleep. The next flush has to wake them."""
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

    def count(self, subscribers, *more):
        """Instructions in tb_publish for RECORDS records, with these subscribers: (wait or spin, stopped)."""
        report = self.folder / "callgrind"
        process = self.counted(RECORDS, 1, [
            "valgrind", "-q", "--tool=callgrind", "--toggle-collect=tb_publish",
            f"--callgrind-out-file={report}"], more)
        controls = [self.join(how) for how, _ in subscribers]
        self.asleep(sum(how == "wait" for how, _ in subscribers))
        self.stop(control for control, (_, stopped) in zip(controls, subscribers) if stopped)
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

    def test_marks_of_messages_cost_few_instructions(self):
        marked = self.count([], "marks")
        more = (marked - self.count([])) / RECORDS
        self.assertGreater(more, 0)
        self.assertLessEqual(more, MARK_BOUND)
        self.assertEqual(self.count([("spin", True)], "marks"), marked)

    def test_subscribers_stopped_in_their_sleep_cost_at_most_a_wake(self):
        alone = self.count([])
        more = self.count([("wait", True), ("wait", True)]) - alone
        self.assertGreater(more, 0)
        self.assertLess(more, 2000)


class Wakes(Counted):
    def counts(self):
        """Flushes, wakes by the publishing thread, and sleepers that were woken."""
        topic = self.counters("topic")
        return topic["flushes"], topic["signals"], self.counters()["wakes"]

    def test_two_subscribers_stopped_in_their_sleep_cost_one_wake(self):
        process = self.counted(RECORDS, SLEEPS + 2)  # it ends with its last round
        self.publish(process)  # the first record also reserves slots, which is a flush of its own
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
        return sums[-1]["last_ns"] - next(account["first_ns"] for account in sums if account["first_ns"])

    def round(self, process, others):
        """Nanoseconds of a round: the publisher's, then each reader's."""
        ends = [other.sum()["total"] + ROUND_RECORDS for other in others]
        took = self.publish(process)
        return took, *map(self.reads, others, ends)

    def test_stopped_subscriber_slows_no_other(self):
        if not MEASURE:
            self.skipTest("a measurement: on demand, --measure, on a quiet machine")
        chance = seed()
        process = self.counted(ROUND_RECORDS, 2 * ROUNDS + 1)  # the program ends with its last round
        others = [self.join("spin"), self.join("wait")]
        pairs = []
        for _ in range(ROUNDS // 2):
            pair = {}
            for with_stopped in chance.sample([True, False], 2):
                slow = self.join("spin")  # in both rounds, as its start costs something
                self.stop([slow])
                if not with_stopped:
                    slow.kill()
                self.round(process, others)  # warms up
                pair[with_stopped] = self.round(process, others)
                slow.kill()
            pairs.append(pair)
        for which, name in enumerate(("publisher", "spinning subscriber", "sleeping subscriber")):
            ns = {with_stopped: statistics.median(pair[with_stopped][which] for pair in pairs) / ROUND_RECORDS
                  for with_stopped in (True, False)}
            ratio = statistics.median(pair[True][which] / pair[False][which] for pair in pairs)
            print(f"{name}, ns per record: {ns[True]:.2f} with a stopped subscriber, {ns[False]:.2f} "
                  f"without, ratio of pairs {ratio:.3f}, bound {BOUND}")
            self.assertLess(ratio, BOUND)


if __name__ == "__main__":
    main()
