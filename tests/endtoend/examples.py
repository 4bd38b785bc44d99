#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The example programs and configurations of the tree do what they say.

    examples.py PUBD TICKBUS ORACLE EXAMPLES SOURCE

EXAMPLES is the folder of the built programs, SOURCE the folder of the sources.
"""
import fcntl
import gzip
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.dont_write_bytecode = True
import pubd  # it reads the same arguments

EXAMPLES, SOURCE = map(pathlib.Path, sys.argv[4:6])
ROWS, COLUMNS = 12, 60
# From the second call on, the time of day is an hour back.
LEAP = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int looks;
	const int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_REALTIME && looks++)
		now->tv_sec -= 3600;
	return result;
}
"""
ENDING = ", at_end: exit, start: { subscribers: %d }"


def trade(price, shares, match):
    return pubd.message(b"P", struct.pack(">Q", 0) + b"B" + struct.pack(">I", shares) + b"AAA     "
                        + struct.pack(">IQ", price, match))


def other(reference):
    """An order of another symbol."""
    return pubd.message(b"A", struct.pack(">Q", reference) + b"B" + struct.pack(">I", 9)
                        + b"BBB     " + struct.pack(">I", 1_5000), locate=2)


class Examples(pubd.Bench):
    def market(self, readers):
        """A bus whose feed publishes five quotes of AAA, one of BBB and two trades, all at once. It waits for its
        readers, and then ends. Without readers it starts at once and stays."""
        ending = ENDING % readers if readers else ""
        path = self.file("day.bin", b"".join((
            pubd.add(1), pubd.add(2, b"S", 7, 2_0001), pubd.add(3, b"B", 50),
            other(4), trade(1_9999, 30, 1), trade(2_0000, 31, 2),
            pubd.add(5, b"B", 1, 1_0001), pubd.add(6, b"S", 3, 1_9000))))
        return self.pubd(pubd.settings(pubd.itch(path, ending + ", speed: realtime"),
                                       ["quote", "trade"]))

    def test_best_quotes_prints_when_a_watched_price_moves(self):
        daemon = self.market(1)
        watch = self.begin(EXAMPLES / "best_quotes", "shm:b", "nasdaq.quote", "AAA", "ZZZ")
        self.assertEqual(self.ends(watch, 0).splitlines(), [
            "AAA bid 1.0000 x 100 ask - x 0", "AAA bid 1.0000 x 100 ask 2.0001 x 7",
            "AAA bid 1.0001 x 1 ask 2.0001 x 7", "AAA bid 1.0001 x 1 ask 1.9000 x 3"])
        self.assertEqual(watch.err.read_text(), "")
        self.ends(daemon, 0)
        late = self.begin(EXAMPLES / "best_quotes", "shm:b", "nasdaq.quote", "AAA")
        self.ends(late, 1)
        self.assertIn("no publisher listens", late.err.read_text())

    def test_group_is_merged_from_one_cut_on(self):
        publisher = subprocess.Popen([EXAMPLES / "group_publisher", "b"], stdin=subprocess.PIPE, text=True,
                                     stdout=subprocess.PIPE, env=self.env)
        self.addCleanup(publisher.kill)
        self.assertEqual(publisher.stdout.readline(), "published; press Enter to publish more\n")
        reader = self.begin(EXAMPLES / "group_subscriber", "shm:b")
        self.until(lambda: "cut: " in reader.out.read_text(), "the cut", reader)
        publisher.stdin.write("\n")
        publisher.stdin.flush()
        self.assertEqual(self.ends(reader, 0).splitlines(), [
            "cut: trade 5 leaves 950", "trade 6 leaves 940", "trade 7 leaves 930", "trade 8 leaves 920"])
        self.assertEqual(reader.err.read_text(), "")
        publisher.communicate("\n", timeout=pubd.PATIENCE_S)
        self.assertEqual(publisher.returncode, 0)

    def view(self):
        return [EXAMPLES / "market_view", "shm:b", "--quotes", "nasdaq.quote", "--trades",
                "nasdaq.trade"]

    def expect_summary(self, text):
        """The feed begins once both topics are joined. A view that is slow then begins with an image of what the feed
        has published meanwhile, and gets fewer records."""
        found = re.search(r"(?m)^(\d+) records in \d+\.\d{3} s: \d+ records/s\s+"
                          r"(?:publish to receive: p50 \S+ \Ss, p99 \S+ \Ss, max \S+ \Ss; the view [^\n]+\s+)?"
                          r"nasdaq\.quote: (\d+) records, 0 lost in 0 gaps, ended, suspect(?: \(no end\))?\s+"
                          r"nasdaq\.trade: (\d+) records, 0 lost in 0 gaps, ended, suspect(?: \(no end\))?\s+$", text)
        self.assertTrue(found, text)
        both, quotes, trades = map(int, found.groups())
        self.assertEqual(both, quotes + trades, text)
        for count, topic, whole in ((quotes, "quote", 6), (trades, "trade", 2)):
            if f"nasdaq.{topic}: image of the values up to record 0\n" in text:
                self.assertEqual(count, whole, text)
                self.assertRegex(text, rf"nasdaq\.{topic}: \d+ records, 0 lost in 0 gaps, ended, suspect \(no end\)\n")
            else:
                self.assertLessEqual(count, whole, text)

    def test_market_view_prints_plain_lines_without_a_terminal(self):
        view = self.begin(*self.view())  # before the publisher starts
        daemon = self.market(2)
        output = self.ends(view, 0)
        self.assertNotIn("\033", output)
        self.expect_summary(output)
        self.ends(daemon, 0)

    def test_market_view_says_once_what_it_waits_for(self):
        alone = self.begin(*self.view())
        self.says(alone, "waits")
        self.until(lambda: "waiting" in alone.out.read_text(), "a line", alone)
        alone.send_signal(signal.SIGTERM)
        self.ends(alone, 0)
        self.assertEqual(alone.err.read_text(), "market_view: waits: address shm:b: no publisher listens there "
                         f"({self.folder}: no b.sock)\n")
        self.standing("day")
        command = [*self.view()[:3], "no.quote", "--trades", "no.trade"]
        lost = self.begin(*command)
        self.says(lost, "no.trade")
        lost.send_signal(signal.SIGTERM)
        self.ends(lost, 0)
        self.assertEqual(lost.err.read_text(), "".join(f"market_view: waits: shm:b: bus b has no topic no.{select}\n"
                                                       for select in ("quote", "trade")))

    def test_late_market_view_begins_with_the_present_market(self):
        daemon = self.market(0)
        self.says(daemon, "to the end")
        output = self.ends(self.begin(*self.view()), 0)
        for line in ("nasdaq.quote: image of the values up to record 8", "nasdaq.quote: image complete at record 8, 2 values",
                     "nasdaq.trade: image complete at record 4, 1 values", "0 records in "):
            self.assertIn(line, output)
        self.stop(daemon)

    def standing(self, name, *messages):
        """A bus whose feed publishes these messages at once, and then waits for an hour."""
        path = self.file(name, b"".join(messages) + pubd.add(99, time_ns=pubd.OPEN_NS + pubd.HOUR_NS))
        return self.pubd(pubd.settings(pubd.itch(path, ", speed: realtime"), ["quote", "trade"]), name + ".yaml")

    def test_market_view_shows_no_symbol_of_an_earlier_day(self):
        day = self.standing("first", *(pubd.add(reference) for reference in range(1, 90)), trade(1_9999, 30, 1))
        view = self.begin(*self.view())
        self.until(lambda: "AAA bid 1.0000" in view.out.read_text(), "a line of AAA", view)
        day.kill()
        day.wait()
        self.standing("second", other(1))
        shown = r"restarts 2  (\S+) bid .*\n"
        self.until(lambda: re.search(shown, view.out.read_text()), "a line of the new day", view)
        view.send_signal(signal.SIGTERM)
        self.assertEqual(set(re.findall(shown, self.ends(view, 0))), {"BBB"})

    def test_market_view_says_that_records_are_suspect(self):
        self.standing("day", pubd.add(1), trade(1_9999, 30, 1))
        output = self.ends(self.begin(*self.view(), "--seconds", 2), 0)
        suspect = r"nasdaq\.(?:quote|trade) suspect(?: \(no start\))?"
        self.assertRegex(output, rf"(?m)Z  \d+ records/s .*  {suspect}  {suspect}$")
        self.assertEqual(len(re.findall(r"0 lost in 0 gaps, live, suspect(?: \(no start\))?\n", output)), 2, output)
        shown = self.on_a_terminal(*self.view(), "--seconds", 1)
        self.assertRegex(shown, r"\033\[31mnasdaq\.quote suspect(?: \(no start\))? +\033\[0m")

    def test_market_view_does_not_cover_what_it_waits_for(self):
        shown = self.on_a_terminal(*self.view(), until="no b.sock)")
        self.assertNotIn("\033", shown)
        self.standing("day")
        shown = self.on_a_terminal(*self.view()[:4], "--trades", "no.trade", until="bus b has no topic no.trade")
        self.assertNotIn("\033", shown)

    def test_market_view_counts_seconds_while_the_clock_is_set_back(self):
        leap, library = self.file("leap.c", LEAP), self.folder / "leap.so"
        if not shutil.which("cc"):
            self.skipTest("no compiler")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, leap], check=True)
        self.env["LD_PRELOAD"] = str(library)
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        view = self.begin(*self.view())
        del self.env["LD_PRELOAD"]
        daemon = self.market(2)
        output = self.ends(view, 0)
        self.expect_summary(output)
        self.assertLess(int(re.search(r"records in (\d+)", output)[1]), 2 * pubd.PATIENCE_S)
        self.ends(daemon, 0)

    def on_a_terminal(self, *command, until=None):
        """What a program draws until it ends. It is terminated once it has written this text."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        view = subprocess.Popen(list(map(str, command)), stdin=theirs, stdout=theirs,
                                env={**self.env, "TERM": "xterm"}, stderr=theirs)
        os.close(theirs)
        text = ""
        deadline = time.monotonic() + pubd.PATIENCE_S
        while view.poll() is None or select.select([ours], [], [], 0)[0]:
            self.assertLess(time.monotonic(), deadline, text[-2000:])
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    text += os.read(ours, 65536).decode()
                except OSError:
                    break  # the other side is closed
                if until and until in text:
                    view.terminate()
        self.assertEqual(view.wait(pubd.PATIENCE_S), 0)
        return text

    def test_market_view_draws_in_the_terminal_and_restores_it(self):
        feed = "type: synthetic, symbols: 50, rate: 2000, seconds: 2, speed: realtime" + ENDING % 2
        daemon = self.pubd(pubd.settings(feed, ["quote", "trade"]))
        drawn, summary = self.on_a_terminal(*self.view()).split("\033[?1049l")
        self.ends(daemon, 0)
        self.assertIn("nasdaq.quote: ", summary)
        self.assertTrue(drawn.startswith("\033[?1049h\033[?25l"))
        frames = drawn.split("\033[H")[1:]
        self.assertGreater(len(frames), 2)
        for frame in frames:
            lines = re.sub(r"\033\[[?0-9;]*[a-zA-Z]", "", frame).replace("\r", "").split("\n")
            self.assertLessEqual(len(lines), ROWS)
            self.assertLessEqual(max(map(len, lines)), COLUMNS)
        self.assertRegex(frames[-1].replace("\033[0m\033[7m", ""), r"symbol +bid size +bid +ask +ask size")
        self.assertRegex(frames[-1], r"\033\[1m[A-Z]{1,5} +\033\[0m +\d+")

    def test_each_configuration_runs_and_serves_its_topics(self):
        folder = self.folder / "pubd"
        shutil.copytree(SOURCE / "examples/pubd", folder)
        day = self.synth("--seed", 4, "--symbols", 20, "--messages", 3000)
        (folder / "12302019.NASDAQ_ITCH50.gz").write_bytes(gzip.compress(day.read_bytes()))
        (self.folder / "tickbus").symlink_to(pathlib.Path(pubd.TICKBUS).absolute())
        self.env["PATH"] = f"{self.folder}:{self.env['PATH']}"
        found = 0
        for path in sorted(folder.glob("*.yaml")):
            self.ends(self.begin(pubd.PUBD, "--check", path), 0)
            command = re.search(r"^#   (tickbus cat .*)$", path.read_text(), re.M)
            daemon = self.begin(pubd.PUBD, path)
            self.says(daemon, r"bus \w+: \d+ topics?,")
            cat = self.begin("bash", "-c", command.group(1) + " --count 20")
            self.assertGreaterEqual(len(self.ends(cat, 0).splitlines()), 20, path.name)
            self.stop(daemon)
            found += 1
        self.assertEqual(found, 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
