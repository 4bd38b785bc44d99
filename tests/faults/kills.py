#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 and SIGSTOP at any moment: the other processes go on, and no resource stays behind.

    kills.py PUBD TICKBUS CONTROL [CASE...]
"""
import signal
import time

from scene import Scene, growth_kb, main, seed, settings, synthetic

TIMES = 100
REPORTED_MS = 1000  # the bound for the stale event
MORE = 15  # connections of a victim: so many that a leak shows


class Publisher(Scene):
    def stale_in_time(self, control, since_ms):
        """The stale event, which must be in time. It depends on two polls: the first to see the last
        pulse, and the first that comes long enough after it. Each is late by at most the longest time
        between two polls. A sleeper polls ten times within the bound."""
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
            time.sleep(chance.uniform(0, 0.01))  # a random moment
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
            self.assertTrue(all(event["epoch"] != event["old_epoch"] for event in restarts))
            # Each restart continues from the epoch before.
            self.assertEqual([event["epoch"] for event in restarts][:-1],
                             [event["old_epoch"] for event in restarts][1:])
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
            account = control.events("sum")[-1]
            self.assertEqual((account["lost"], account["wrong"]), (0, 0), control.events("gap"))


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
            if number % 4:  # otherwise it is killed while it connects and joins
                self.until(lambda: all(victim.events("appeared") for victim in victims), "a join")
            time.sleep(chance.uniform(0, 0.005))
            for victim in victims:
                victim.kill()
            if number == TIMES // 5:
                self.until(lambda: self.counters()["joins"] == 1, "one join left", pubd)
                before = self.descriptors(pubd), pubd.memory_kb()
        # `tickbus stat`, which reads the counters, is connected too.
        self.until(lambda: self.counters()["subscribers"] == 2, "two subscribers left", pubd)
        self.assertEqual(self.counters()["joins"], 1)
        self.until(lambda: self.descriptors(pubd) == before[0], "as few descriptors as before", pubd)
        self.assertLess(pubd.memory_kb() - before[1], growth_kb(64))
        account = other.reads_on()
        self.assertEqual((account["lost"], account["wrong"]), (0, 0), other.events("gap"))
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
            account = victim.reads_on(100)  # live again
            self.assertEqual((gap["first"], gap["last"]), (account["before"] + 1, account["after"] - 1))
            self.assertEqual(len(victim.events("gap")), 1)
        pubd.stop()
        for control in (slow, sleeper, other):
            control.ends(0)
            account, ended = control.events("sum")[-1], control.events("ended")[0]
            self.assertEqual(account["records"] + account["lost"], ended["head"])
            self.assertEqual(account["wrong"], 0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)


if __name__ == "__main__":
    main()
