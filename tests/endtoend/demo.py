#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: its output with and without a terminal, and how it ends after an error.

    demo.py SCRIPT BUILD TICKBUS
"""
import gzip
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import unittest

SCRIPT, BUILD, TICKBUS = (os.path.abspath(path) for path in sys.argv[1:4])
PATIENCE_S = 120
LINE = (r"^\d\d:\d\d:\d\dZ  \d+ records/s  p50 [\d.]+ [num]s  p99 [\d.]+ [num]s  lost \d+"
        r"  [A-Z]+ bid [\d.-]+ x \d+ ask [\d.-]+ x \d+ last [\d.-]+ x \d+")


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tickbus-demo-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "tmp").mkdir()
        self.env = dict(os.environ, TMPDIR=str(self.folder / "tmp"), TICKBUS_DEMO_BUILD=BUILD,
                        TERM="xterm", NO_COLOR="1")

    def begin(self, *args, **more):
        process = subprocess.Popen([SCRIPT, *map(str, args)], env=self.env, text=True,
                                   start_new_session=True, **more)
        self.addCleanup(self.finish, process)
        return process

    def finish(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def run_demo(self, *args, **more):
        process = self.begin(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.expect_no_files()
        return process.returncode, out, err

    def expect_no_files(self):
        self.assertEqual(os.listdir(self.folder / "tmp"), [])

    def day(self, name):
        """A day of the synthetic exchange: some two seconds of trading."""
        path = self.folder / name
        subprocess.run([TICKBUS, "synth", "--messages=10000", "--symbols=100", "--rate=5000",
                        path], check=True)
        return path

    def begun(self, *args):
        """A demo that has printed its first line."""
        process = self.begin(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in process.stdout:
            if re.match(LINE, line):
                return process
        self.fail("the demo ended without a line of the market")

    # -- output -----------------------------------------------------------------------------------

    def test_demo_without_a_terminal_prints_lines_and_summary(self):
        status, out, err = self.run_demo("--seconds", 1)
        self.assertEqual((status, err), (0, ""))
        lines = out.splitlines()
        self.assertTrue(any(re.match(LINE, line) for line in lines), out)
        self.expect_images(lines)
        self.assertRegex(lines[-4], r"^\d+ records in [\d.]+ s: \d+ records/s$")
        self.assertRegex(lines[-3], r"^  publish to receive: p50 .*, p99 .*, max .*; the view (polls|sleeps) ")
        for line, topic in zip(lines[-2:], ("market.quote", "market.trade")):
            self.assertRegex(line, rf"^  {topic}: [1-9]\d* records, \d+ lost in \d+ gaps, live")

    def expect_images(self, lines):
        """First what a late joiner gets. The view itself joins late, and begins with an image."""
        self.assertEqual(lines[0], "$ tickbus cat shm:demo market.quote --from image --count 5")
        self.assertRegex(lines[1], r"^tickbus cat: appeared topic=market\.quote ")
        self.assertRegex(lines[2], r"^tickbus cat: image topic=market\.quote up_to=[1-9]\d*$")
        for line in lines[3:8]:
            self.assertRegex(line, r"^\d+ 20\S+Z [A-Z]+ update (image )?bid_price=[\d.-]+ ask_price=[\d.-]+ ")
        self.assertTrue(any(" update image " in line for line in lines[3:8]), lines[3:8])
        begin, = (line for line in lines if line.startswith("market.quote: image of "))
        self.assertRegex(begin, r"^market\.quote: image of the values up to record [1-9]\d*$")
        end, = (line for line in lines if line.startswith("market.quote: image complete "))
        values = re.match(r"^market\.quote: image complete at record [1-9]\d*, (\d+) values$", end)
        self.assertGreater(int(values[1]), 1000, lines)

    def test_named_symbols_are_watched(self):
        status, out, err = self.run_demo("--names", "AAPL,MSFT", "--seconds", 1)
        self.assertEqual((status, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], "$ tickbus cat shm:demo market.quote --names AAPL,MSFT --watch poll --count 3")
        values = [line.split()[2] for line in lines if " update bid_price=" in line]
        self.assertEqual(set(values), {"AAPL", "MSFT"}, out)
        account, = (line for line in lines if line.startswith("tickbus cat: account "))
        self.assertRegex(account, rf" records=0 .* values={len(values)}$")
        shown = [line for line in lines if re.match(r"^\d\d:\d\d:\d\dZ  \d+ records/s  lost 0  AAPL bid ", line)]
        self.assertTrue(shown and "  MSFT bid " in shown[-1], out)
        for line, topic in zip(lines[-2:], ("market.quote", "market.trade")):
            self.assertRegex(line, rf"^  {topic}: \d+ records, 0 lost in 0 gaps, (live|joined)$")

    def test_name_without_a_symbol_is_reported(self):
        status, out, err = self.run_demo("--names", "NOSUCH", "--seconds", 1)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("tickbus cat: no_instrument topic=market.quote name=NOSUCH\n", out)
        self.assertIn("market.quote: no symbol NOSUCH yet\n", out)

    def test_conflated_market_shows_fewer_records_than_published(self):
        status, out, err = self.run_demo("--conflate", "250ms", "--seconds", 1)
        self.assertEqual((status, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], "$ tickbus cat shm:demo market.quote --conflate 250ms --count 5")
        found = re.match(r"^  market.quote: (\d+) records of (\d+) published, \d+ lost in \d+ gaps, live", lines[-2])
        self.assertTrue(found and 0 < int(found[1]) < int(found[2]), out)

    def shown_on_a_terminal(self, rows):
        """What a terminal of that many rows gets."""
        keeper, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (rows, 100))
        process = self.begin("--seconds", 1, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        shown = b""
        while True:
            try:
                more = os.read(keeper, 65536)
            except OSError:  # the last process has closed the terminal
                more = b""
            if not more:
                break
            shown += more
        os.close(keeper)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.expect_no_files()
        return shown.decode("ascii")

    def test_terminal_that_cannot_draw_gets_lines(self):
        for name, rows in (("dumb", 24), ("xterm", 5)):
            self.env["TERM"] = name
            shown = self.shown_on_a_terminal(rows)
            self.assertNotIn("\033", shown)
            self.assertTrue(re.search(LINE, shown, re.M), shown)

    def test_demo_on_a_terminal_draws_the_market_and_restores_it(self):
        shown = self.shown_on_a_terminal(24)
        self.assertLess(shown.index("\033[?1049h"), shown.index("\033[?1049l"))
        self.assertLess(shown.index("\033[?1049l"), shown.index("publish to receive"))
        self.assertLess(shown.count("\n"), 24 * shown.count("\033[H") + 10)
        plain = re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", shown)
        self.assertRegex(plain, r"symbol +bid size +bid +ask +ask size +last +last size\r\n")
        self.assertRegex(plain, r"\n[A-Z]+ +\d+ +[\d.]+ +[\d.]+ +\d+ +[\d.-]+ +\d+\r\n")
        self.assertRegex(plain, r"records/s   gaps \d+  lost \d+   latency p50 .* p99 .*   total")

    def test_file_of_any_name_is_shown_from_its_first_trade(self):
        day = self.day("it's a day")
        status, out, err = self.run_demo(day, "--date", "2020-01-02", "--seconds", 1)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.splitlines()[0], "reading it's a day of 2020-01-02, at full speed to "
                         "the first trade ...")
        self.assertRegex(out.splitlines()[1], r"^runs at the set speed from 09:\d\d:\d\d \(message \d+\)$")
        self.assertIn("publish to receive", out)

    def test_relative_path_starts_at_the_working_folder(self):
        name = self.day("20200102.itch").name
        status, out, err = self.run_demo(name, "--from", "16:30", cwd=self.folder)
        self.assertEqual((status, out), (1, f"reading {name} of 2020-01-02, at full speed to 16:30 ...\n"), err)

    def test_date_comes_from_the_name_and_time_from_the_command(self):
        for name, date in (("12302019.NASDAQ_ITCH50.zst", "2019-12-30"),
                           ("S081321-v50.txt.zst", "2021-08-13"),
                           ("20191230.BX_ITCH_50.zst", "2019-12-30")):
            status, out, err = self.run_demo(self.day(name), "--from", "16:30:00")
            self.assertEqual(out, f"reading {name} of {date}, at full speed to 16:30:00 ...\n")
            self.assertEqual(status, 1)
            self.assertIn("found no message of 16:30:00 (from) or later", err)
            self.assertEqual(err.splitlines()[-1], f"scripts/demo: {name}: found no records from 16:30:00 on")

    # -- errors -----------------------------------------------------------------------------------

    def test_wrong_arguments_exit_2_with_what_was_expected(self):
        unreadable = self.folder / "20191230"
        unreadable.touch(mode=0)
        no_file = "found no readable, non-empty file, expected an ITCH 5.0 file"
        cases = [(["--what"], "unknown option --what"), (["--seconds"], "--seconds: the value is missing"),
                 ([SCRIPT, "x"], "found a second file \"x\""), (["--from", "09:35"], "found no file, expected FILE"),
                 (["--names", "A", "--conflate", "1s"], "found --names with --conflate, expected one of them"),
                 (["--names", "A,,B"], '--names: found "A,,B", expected names'),
                 (["--conflate", "250"], '--conflate: found "250", expected a number with us, ms or s'),
                 (["--conflate", "61s"], '--conflate: found "61s", expected'), (["--names"], "--names: the value is missing"),
                 (["--names", ""], '--names: found "", expected a value'),
                 (["--seconds", "0"], 'found "0", expected a whole number from 1'),
                 (["--seconds", "30000"], '--seconds: found "30000", expected at most 23400'),
                 (["/nowhere"], no_file), ([self.folder], no_file), (["/dev/null"], no_file),
                 ([SCRIPT], "found no date in the name, expected --date YYYY-MM-DD"),
                 ([SCRIPT, "--date", "2019-13-30"], 'found the day "2019-13-30", expected --date YYYY-MM-DD'),
                 ([SCRIPT, "--date", "2019-2-3"], 'found the day "2019-2-3", expected --date'),
                 ([SCRIPT, "--date", "2019-12-30", "--from", "25:00"], '--from: found "25:00", expected HH:MM')]
        if os.geteuid() != 0:
            cases.append(([unreadable], no_file))
        for args, message in cases:
            status, _, err = self.run_demo(*args)
            self.assertIn(message, err)
            self.assertEqual(status, 2, err)

    def test_file_without_a_feed_is_reported_with_its_location(self):
        garbage = self.folder / "20191230"
        garbage.write_bytes(b"X" * 1000)
        status, _, err = self.run_demo(garbage)
        self.assertEqual(status, 2)
        self.assertIn("20191230: looks like text, expected a BinaryFILE of ITCH 5.0", err)

    def test_truncated_day_is_reported_at_the_end(self):
        whole = self.day("whole").read_bytes()
        cut = self.folder / "20200102.itch"
        cut.write_bytes(whole[:len(whole) // 2])
        status, out, err = self.run_demo(cut)
        self.assertIn("publish to receive", out)
        self.assertRegex(err, r"^pubd: \S+ error feed market: .*20200102\.itch: .*stopped after")
        self.assertEqual(status, 1)

    def test_damage_before_the_first_trade_is_what_the_demo_ends_with(self):
        cut = self.folder / "20200102.gz"
        cut.write_bytes(gzip.compress(self.day("whole").read_bytes(), mtime=0)[:3000])
        status, out, err = self.run_demo(cut)
        self.assertEqual((status, len(out.splitlines())), (1, 1), out)
        self.assertRegex(err.splitlines()[-1], r"^pubd: \S+ error feed market: .*: the file ends at byte 3000 in the middle"
                         r" of gzip data, expected more")

    # -- end --------------------------------------------------------------------------------------

    def test_interrupt_ends_the_demo_with_its_summary(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.begun()
            os.killpg(process.pid, number)
            out, _ = process.communicate(timeout=PATIENCE_S)
            self.assertIn("publish to receive", out)
            self.assertIn(process.returncode, (0, 128 + number))
            self.expect_no_files()

    @staticmethod
    def daemon(process):
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        pubd, = [int(pid) for pid in children.split()
                 if pathlib.Path(f"/proc/{pid}/comm").read_text() == "pubd\n"]
        return pubd

    def test_daemon_ends_when_its_demo_is_killed(self):
        process = self.begun()
        pubd = os.pidfd_open(self.daemon(process))
        self.addCleanup(os.close, pubd)
        process.kill()
        self.assertTrue(select.select([pubd], [], [], PATIENCE_S)[0])

    def test_death_of_the_daemon_is_reported(self):
        process = self.begun()
        os.kill(self.daemon(process), signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn("publish to receive", out)
        self.assertIn("scripts/demo: SIGKILL ended pubd\n", err)
        self.expect_no_files()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
