#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 and SIGSTOP, at any moment: who is left goes on, and nothing is left over.

    kills.py PUBD TICKBUS CONTROL [CASE...]
"""
import signal
import time

from scene import Scene, growth_kb, main, seed, settings, synthetic

TIMES = 100
REPORTED_MS = 1000  # stale has to be told by then
MORE = 15  # connections of a victim: what one leaves behind is not much, what all leave is


class Publisher(Scene):
    def stale_in_time(self, control, since_ms):
        """The event. Two looks decide when it is told: the first that the last pulse is seen at, and the
        first that comes long enough behind it. Each was late by no more than the longest time between
        two polls; one that sleeps polls ten times in the bound when nothing else happens."""
        stale = control.becomes("stale")
        late_ms = stale["gap_ms"] - (REPORTED_MS // 10 if control.how == "wait" else 0)
        self.assertLess(stale["ms"] - since_ms, REPORTED_MS + 2 * max(late_ms, 0), stale)
        return stale

    def test_each_of_100_kills_is_reported_and_succeeded(self):
        chance = seed()
        text = settings(synthetic(), bus=", stale_ms: 100", more="slots: 1024, instruments: 64")
        controls = [self.control(how="wait"), self.control(how="spin")]
        epochs = []
        for number in range(TIMES):
            pubd = self.pubd(text)
            for control in controls:
                control.sees("restart" if number else "appeared", number or 1)
                control.reads_on()
            time.sleep(chance.uniform(0, 0.01))  # any moment will do: this draws it
            for control in controls:
                control.sum()
            killed_ms = time.monotonic() * 1000
            pubd.kill()
            for control in controls:
                epochs.append(self.stale_in_time(control, killed_ms)["epoch"])
        last = self.pubd(text)
        for control in controls:
            control.sees("restart", TIMES)
            self.assertEqual(control.reads_on()["wrong"], 0)
            restarts = control.events("restart")
            self.assertEqual(len(restarts), TIMES)
            self.assertTrue(all(one["epoch"] != one["old_epoch"] for one in restarts))
            # Each took over where the one before was left.
            self.assertEqual([one["epoch"] for one in restarts][:-1],
                             [one["old_epoch"] for one in restarts][1:])
        self.assertEqual(len(set(epochs)), TIMES)
        last.stop()
        for control in controls:
            control.ends(0)
        self.assertEqual(list(self.folder.glob("b.*")), [])

    def test_publisher_stopped_at_any_moment_is_stale_then_live(self):
        chance = seed()
        pubd = self.pubd(settings(synthetic(", rate: 1000, speed: realtime"), bus=f", stale_ms: {REPORTED_MS}",
                                  more="slots: 65536, instruments: 64"))
        controls = [self.control(how=how) for how in ("spin", "wait", "wait", "wait", "wait")]
        for control in controls:
            control.reads_on()
        for _ in range(5):
            time.sleep(chance.uniform(0, REPORTED_MS / 4000))  # anywhere between two pulses
            for control in controls:
                control.sum()
            pubd.signal(signal.SIGSTOP)
            stopped_ms = time.monotonic() * 1000
            for control in controls:
                self.stale_in_time(control, stopped_ms)
            self.assertEqual(pubd.state(), "T")
            pubd.signal(signal.SIGCONT)
            for control in controls:
                control.becomes("live")
                control.reads_on()
        pubd.stop()
        for control in controls:
            control.ends(0)
            books = control.events("sum")[-1]
            self.assertEqual((books["lost"], books["wrong"]), (0, 0), control.events("gap"))


class Subscriber(Scene):
    def test_subscriber_killed_at_any_moment_is_freed(self):
        chance = seed()
        pubd = self.pubd(settings(synthetic(", rate: 1000, speed: realtime"), topics=("t", "u"),
                                  more="slots: 65536, instruments: 64"))
        other = self.control()
        other.reads_on()
        before = None
        for number in range(TIMES):
            victims = [self.control(topic=">", how=how, more=MORE) for how in ("wait", "spin")]
            if number % 4:  # else it is killed while it connects and joins
                self.until(lambda: all(victim.events("appeared") for victim in victims), "a join")
            time.sleep(chance.uniform(0, 0.005))
            for victim in victims:
                victim.kill()
            if number == TIMES // 5:
                self.until(lambda: self.counters()["joins"] == 1, "one join left", pubd)
                before = self.descriptors(pubd), pubd.memory_kb()
        # The one that asks is connected too.
        self.until(lambda: self.counters()["subscribers"] == 2, "two subscribers left", pubd)
        self.assertEqual(self.counters()["joins"], 1)
        self.until(lambda: self.descriptors(pubd) == before[0], "as few descriptors as before", pubd)
        self.assertLess(pubd.memory_kb() - before[1], growth_kb(64))
        books = other.reads_on()
        self.assertEqual((books["lost"], books["wrong"]), (0, 0), other.events("gap"))
        pubd.stop()
        other.ends(0)

    def test_stopped_subscriber_gets_its_exact_gap(self):
        pubd = self.pubd(settings(
            synthetic(", rate: 8000, speed: realtime, start: { subscribers: 3 }"),
            more="slots: 16384, instruments: 64"))
        slow, sleeper, other = (self.control(start="oldest", how=how)
                                for how in ("spin", "wait", "wait"))
        other.reads_on(100)
        for victim in (slow, sleeper):
            victim.signal(signal.SIGSTOP)
        other.reads_on(3 * 16384)
        for victim in (slow, sleeper):
            victim.signal(signal.SIGCONT)
            gap = victim.sees("gap")
            self.assertGreater(gap["last"] - gap["first"], 16384)
            self.assertEqual(gap["lost"], gap["last"] - gap["first"] + 1)
            books = victim.reads_on(100)  # live again
            self.assertEqual((gap["first"], gap["last"]), (books["before"] + 1, books["after"] - 1))
            self.assertEqual(len(victim.events("gap")), 1)
        pubd.stop()
        for control in (slow, sleeper, other):
            control.ends(0)
            books, ended = control.events("sum")[-1], control.events("ended")[0]
            self.assertEqual(books["records"] + books["lost"], ended["head"])
            self.assertEqual(books["wrong"], 0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)


if __name__ == "__main__":
    main()
