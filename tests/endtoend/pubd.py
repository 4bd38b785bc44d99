#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pubd and the tickbus command, end to end: every message of a feed reaches its readers as a row.

    pubd.py PUBD TICKBUS ORACLE CLASS

ORACLE is the program that derives the rows of an ITCH file from the rules alone.
"""
import bz2
import contextlib
import csv
import datetime
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile

PUBD, TICKBUS, ORACLE = sys.argv[1:4]
PATIENCE_S = 120
DATA = os.environ.get("TICKBUS_TEST_DATA", "")
AAPL = pathlib.Path(DATA) / "itch/itch50_aapl_20191230_0935.bin"
TOPIC = "{{ name: {feed}.{select}, feed: {feed}, select: {select}, schema: {select}{more} }}"


def settings(feed, selects=("quote", "trade", "depth10"), more="", bus="", name="nasdaq"):
    topics = "\n".join("  - " + TOPIC.format(feed=name, select=s, more=more) for s in selects)
    return f"""bus: {{ name: b{bus} }}
schemas: [ quote, trade, depth10, status, imbalance, definition ]
feeds:
  - {{ name: {name}, {feed} }}
topics:
{topics}
"""


def itch(path, more=""):
    return f"type: itch50, path: {path}, date: 2019-12-30{more}"


class Bench(unittest.TestCase):
    """A folder, processes that end with the test, and waiting for their messages."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tickbus-pubd-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.env = dict(os.environ, TICKBUS_RUNTIME_DIR=str(self.folder))
        self.prefix = []
        self.maxDiff = None
        self.counter = 0

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    def begin(self, *command, out=None):
        """Starts a program with its standard output and error in files."""
        self.counter += 1
        paths = [self.folder / f"{self.counter}.{kind}" for kind in ("out", "err")]
        with open(out or paths[0], "w") as stdout, open(paths[1], "w") as stderr:
            process = subprocess.Popen([*self.prefix, *map(str, command)], stdout=stdout,
                                       stderr=stderr, stdin=subprocess.DEVNULL, env=self.env)
        process.out, process.err = paths

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.addCleanup(end)
        return process

    def until(self, condition, what, process=None):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not reached in {PATIENCE_S} s: {what}\n{process.err.read_text() if process else ''}")
            time.sleep(0.005)

    def says(self, process, pattern):
        self.until(lambda: re.search(pattern, process.err.read_text()), pattern, process)

    def ends(self, process, status):
        self.assertEqual(process.wait(PATIENCE_S), status, process.err.read_text())
        return process.out.read_text()

    def pubd(self, text, name="pubd.yaml", expect=r"bus b\S*: "):
        process = self.begin(PUBD, self.file(name, text))
        if expect:
            self.until(lambda: re.search(expect, process.err.read_text())
                       or process.poll() is not None, expect, process)
            self.assertRegex(process.err.read_text(), expect)
        return process

    def cat(self, topic, *more, start="oldest", form="csv"):
        return self.begin(TICKBUS, "cat", "shm:b", topic, "--from", start, "--format", form, "--wait",
                          *more)

    def stop(self, pubd, status=0):
        pubd.send_signal(signal.SIGTERM)
        self.ends(pubd, status)

    def oracle(self, path, select, rows):
        """A day without its beginning begins with the record that says so."""
        first = 1 if path.read_bytes()[2:14:11] == b"SO" else 2
        result = subprocess.run([sys.executable, ORACLE, str(path), "--select", select, "--date",
                                 "2019-12-30", "--compare", str(rows), "--first", str(first)], text=True,
                                capture_output=True, timeout=600)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def synth(self, *options, name="synthetic.bin"):
        path = self.folder / name
        subprocess.run([TICKBUS, "synth", *map(str, options), str(path)], check=True,
                       timeout=PATIENCE_S)
        return path

    def need_data(self):
        if not AAPL.exists():
            self.skipTest("TICKBUS_TEST_DATA names no folder with " + AAPL.name)

    def need_root(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv to become another user")


def frame(body):
    return struct.pack(">H", len(body)) + body


OPEN_NS = 34200 * 10**9
HOUR_NS = 3600 * 10**9  # a feed with a pace waits for no more


def message(kind, body, time_ns=OPEN_NS, locate=1):
    return frame(kind + struct.pack(">HH", locate, 0) + time_ns.to_bytes(6, "big") + body)


def add(reference, side=b"B", shares=100, price=1_0000, stock=b"AAA     ", time_ns=OPEN_NS):
    return message(b"A", struct.pack(">Q", reference) + side + struct.pack(">I", shares) + stock
                   + struct.pack(">I", price), time_ns)


def event(code, time_ns=OPEN_NS):
    """A system event: O begins a day, C ends it."""
    return message(b"S", code, time_ns, 0)


class Rows(Bench):
    """Every reader gets the rows that an independent program derives from the same file."""

    def compare(self, path, select, readers=1, plain=None):
        """Reads a topic from its first record to its end. `plain`: the uncompressed file of `path`."""
        more = f", at_end: exit, start: {{ subscribers: {readers} }}"
        pubd = self.pubd(settings(itch(path, more), [select], ", slots: 1048576"))
        cats = [self.cat(f"nasdaq.{select}", "--until-end") for _ in range(readers)]
        rows = [self.ends(cat, 0) for cat in cats]
        self.ends(pubd, 0)
        for cat in cats:
            self.assertNotIn("gap", cat.err.read_text())
        self.assertEqual(len(set(rows)), 1)
        self.oracle(plain or path, select, cats[0].out)

    def test_quotes_of_a_real_file_reach_three_readers(self):
        self.need_data()
        self.compare(AAPL, "quote", 3)

    def test_trades_of_a_real_file_reach_three_readers(self):
        self.need_data()
        self.compare(AAPL, "trade", 3)

    def test_depth_of_a_real_file_reaches_three_readers(self):
        self.need_data()
        self.compare(AAPL, "depth10", 3)

    def test_synthetic_file_of_8000_symbols_is_published(self):
        path = self.synth("--seed", 7, "--symbols", 8000, "--messages", 100000)
        for select in ("quote", "trade", "depth10", "status", "imbalance", "definition"):
            self.compare(path, select, 3 if select == "quote" else 1)

    def test_compressed_files_are_recognised_by_content(self):
        options = ("--seed", 8, "--symbols", 20, "--messages", 5000)
        plain, packed = self.synth(*options), self.synth(*options, name="day.zst")
        self.assertEqual(packed.read_bytes()[:4], b"\x28\xb5\x2f\xfd")
        self.compare(packed.rename(self.folder / "day.gz"), "quote", plain=plain)
        self.compare(self.file("day.zst", gzip.compress(plain.read_bytes())), "quote", plain=plain)

    def stopped_reader(self, path):
        """A reader that was stopped for more than a lap of a small ring."""
        more = ", start: { subscribers: 2 }"
        pubd = self.pubd(settings(itch(path, more), ["quote"], ", slots: 64"))
        slow = self.cat("nasdaq.quote", "--until-end")
        self.says(slow, "appeared")
        slow.send_signal(signal.SIGSTOP)
        fast = self.cat("nasdaq.quote", "--until-end")
        self.says(pubd, "to the end")
        slow.send_signal(signal.SIGCONT)
        for cat in (slow, fast):
            self.ends(cat, 0)
        self.stop(pubd)
        return slow

    def test_stopped_reader_gets_the_rest_of_the_ring_and_exact_gap(self):
        path = self.synth("--seed", 9, "--symbols", 50, "--messages", 20000)
        slow = self.stopped_reader(path)
        with open(slow.out) as file:
            rows = list(csv.DictReader(file))
        lost = [(int(first), int(last)) for first, last in
                re.findall(r"gap .*first=(\d+) last=(\d+)", slow.err.read_text())]
        head = int(re.search(r"ended .*head=(\d+)", slow.err.read_text()).group(1))
        seen = [int(row["sequence"]) for row in rows]
        for first, last in lost:
            seen.extend(range(first, last + 1))
        self.assertEqual(sorted(seen), list(range(1, head + 1)))
        self.assertGreaterEqual(len(rows), 64 - 64 // 8)  # an eighth of the ring may be reserved
        self.assertGreater(sum(last - first + 1 for first, last in lost), 0)
        # The rows equal those of the whole stream at the same sequences.
        more = ", at_end: exit, start: { subscribers: 1 }"
        pubd = self.pubd(settings(itch(path, more), ["quote"], ", slots: 65536"))
        whole = self.cat("nasdaq.quote", "--until-end")
        self.ends(whole, 0)
        self.ends(pubd, 0)
        with open(whole.out) as file:
            expected = {row["sequence"]: row for row in csv.DictReader(file)}
        for row in rows:
            self.assertEqual({**row, "time_ns": ""}, {**expected[row["sequence"]], "time_ns": ""})

    def test_formats_print_the_same_values_to_the_last_digit(self):
        path = self.synth("--seed", 10, "--symbols", 20, "--messages", 3000)
        pubd = self.pubd(settings(itch(path), ["quote", "trade"]))
        self.says(pubd, "to the end")
        for select in ("quote", "trade"):
            outputs = {form: self.ends(self.cat(f"nasdaq.{select}", "--until-end", form=form), 0)
                       for form in ("csv", "json", "text")}
            rows = list(csv.DictReader(outputs["csv"].splitlines()))
            objects = [json.loads(line) for line in outputs["json"].splitlines()]
            objects = [record for record in objects if "event" not in record]
            lines = outputs["text"].splitlines()
            self.assertEqual((len(objects), len(lines)), (len(rows), len(rows)))
            for row, record, line in zip(rows, objects, lines):
                values = {name: "" if value is None else str(value) for name, value in record.items()}
                self.assertEqual(values, row)
                self.assertEqual(self.from_text(line), row)
        self.stop(pubd)

    def from_text(self, line):
        """Converts a text row, which has ISO 8601 times, to its CSV row."""
        columns = line.split(" ")
        row = dict(zip(("sequence", "time_ns", "instrument", "kind"), columns))
        row.update(word.split("=", 1) for word in columns[4:])
        row = {name: "" if value == "-" else value for name, value in row.items()}
        for name in ("time_ns", "source_time"):
            moment, fraction = re.fullmatch(r"(.{19})\.(\d{9})Z", row[name]).groups()
            since = datetime.datetime.fromisoformat(moment + "+00:00").timestamp()
            row[name] = f"{int(since)}{fraction}"
        return row

    def test_source_time_is_date_plus_time_of_the_message(self):
        # 2019-12-30 09:30:00.123456789 in New York is 14:30 UTC.
        path = self.file("one.bin", message(b"P", struct.pack(">Q", 0) + b"B" + struct.pack(">I", 5)
                                            + b"ZVZZT   " + struct.pack(">IQ", 12345678, 99),
                                            34200_123456789))
        pubd = self.pubd(settings(itch(path, ", at_end: exit, start: { subscribers: 1 }"),
                                  ["trade"]))
        row = self.ends(self.cat("nasdaq.trade", "--until-end"), 0).splitlines()[1]
        self.ends(pubd, 0)
        self.assertEqual(row.split(",")[2:], ["ZVZZT", "update", "1234.5678", "99",
                                              "1577716200123456789", "5", "", ""])


class Days(Bench):
    """A day without its beginning or its end is reported, and its topics are suspect."""

    START, END = event(b"O", 11072057543747), event(b"C", 72000000000001)
    NO_START = r"begins at offset {} of the uncompressed stream, with a message of 09:30:00\.000000000, expected the " \
               r"start of the day's messages \(system event O\); the feed's topics are suspect\n"
    NO_END = r"ends at offset {} of the uncompressed stream, after a message of 09:30:00\.000000000, expected the " \
             r"end of the day's messages \(system event C\); the feed's topics are suspect\n"

    def publish(self, data, more="", at_end="exit", status=0):
        """Publishes bytes as a day. Returns the log, and the lines of a reader of both topics."""
        path = self.file("day.bin", data)
        pubd = self.pubd(settings(itch(path, f", at_end: {at_end}, start: {{ subscribers: 2 }}{more}"),
                                  ["quote", "trade"]))
        cats = [self.cat(f"nasdaq.{select}", "--until-end", form="json") for select in ("quote", "trade")]
        texts = [self.ends(cat, 0) for cat in cats]
        self.stop(pubd, status) if at_end != "exit" else self.ends(pubd, status)
        return pubd.err.read_text(), [[json.loads(line) for line in text.splitlines()] for text in texts]

    @staticmethod
    def qualities(lines):
        return [(line["sequence"], line["quality"], line["cause"]) for line in lines
                if line.get("event") == "quality"]

    def expect(self, data, levels, more="", at_end="exit", status=0):
        """Publishes a day of one order, and expects a report of this level at its beginning and at its end."""
        log, readers = self.publish(data, more, at_end, status)
        start, end = levels
        order = 1 + bool(start)
        for lines, records in zip(readers, (1, 0)):
            expected = [(1, "suspect", "no_start")] * bool(start)
            expected += [(1 + len(expected) + records, "suspect", "no_end")] * bool(end)
            self.assertEqual(self.qualities(lines), expected)
            self.assertEqual([line["sequence"] for line in lines if "instrument" in line], [order][:records])
            self.assertEqual(lines[-1], {"event": "ended", "head": records + len(expected)})
        for level, pattern in zip(levels, (self.NO_START.format(0), self.NO_END.format(len(data)))):
            if level:
                self.assertRegex(log, rf"{level} feed nasdaq: \S*day\.bin: {pattern}")
            else:
                self.assertNotRegex(log, pattern)
        return log

    def test_whole_day_is_good(self):
        self.expect(self.START + add(1) + self.END, (None, None), ", incomplete: fail")

    def test_day_cut_between_messages_is_reported(self):
        self.expect(self.START + add(1), (None, "warning"))

    def test_day_without_its_beginning_is_reported(self):
        self.expect(add(1) + self.END, ("warning", None))

    def test_day_without_both_is_reported_twice(self):
        self.expect(add(1), ("warning", "warning"))

    def test_frame_of_length_0_is_no_end_of_the_day(self):
        log, readers = self.publish(self.START + add(1) + bytes(2))
        self.assertEqual(self.qualities(readers[0]), [(2, "suspect", "no_end")])
        self.assertRegex(log, self.NO_END.format(len(self.START + add(1))))

    def test_incomplete_day_can_set_the_exit_status(self):
        whole, fails = self.START + add(1) + self.END, ", incomplete: fail"
        self.expect(self.START + add(1), (None, "error"), fails, status=3)
        self.expect(add(1) + self.END, ("error", None), fails, status=3)
        self.expect(self.START + add(1), (None, "error"), fails, at_end="linger", status=3)
        self.expect(whole, (None, None), fails, at_end="linger")
        self.expect(self.START + add(1), (None, "warning"), ", incomplete: warn", at_end="linger")

    def test_incomplete_day_that_fails_does_not_restart(self):
        log = self.expect(self.START + add(1), (None, "error"), ", incomplete: fail", at_end="restart", status=3)
        self.assertEqual(log.count("to the end"), 1)

    def test_incomplete_day_restarts_and_begins_good_again(self):
        path = self.file("day.bin", self.START + add(1))
        pubd = self.pubd(settings(itch(path, ", at_end: restart, start: { subscribers: 1 }"), ["quote"]))
        lines = [json.loads(line) for line in
                 self.ends(self.cat("nasdaq.quote", "--count", 3, form="json"), 0).splitlines()]
        self.stop(pubd)
        self.assertEqual(self.qualities(lines), [(2, "suspect", "no_end")] * 2)
        self.assertEqual([line.get("event", "record") for line in lines],
                         ["appeared", "record", "quality", "restart", "record", "quality", "restart", "record"])

    def test_compressed_days_cut_between_messages_are_reported(self):
        whole = self.START + add(1) + self.END
        for name, pack in (("day.gz", gzip.compress), ("day.zst", self.zstd)):
            cut = self.START + add(1)
            log, readers = self.publish(pack(cut))
            self.assertEqual(self.qualities(readers[0]), [(2, "suspect", "no_end")], name)
            self.assertRegex(log, self.NO_END.format(len(cut)))
            # Whole members, of which the last is missing.
            log, readers = self.publish(pack(self.START) + pack(add(1)))
            self.assertEqual(self.qualities(readers[0]), [(2, "suspect", "no_end")], name)
            log, readers = self.publish(pack(whole))
            self.assertEqual(self.qualities(readers[0]), [], name)

    def zstd(self, data):
        if not shutil.which("zstd"):
            self.skipTest("needs the program zstd")
        return subprocess.run(["zstd", "-qc"], input=data, check=True, capture_output=True).stdout

    def test_damaged_days_are_suspect_and_fail_in_any_case(self):
        good = self.START + add(1)
        for data, words in ((good + add(2)[:-5], "ends in the middle of a message"),
                            (good + struct.pack(">H", 300) + bytes(299), "ends in the middle of a message"),
                            (good + bytes(300) + b"x", "found a message length of 0"),
                            (gzip.compress(good + self.END) + bytes(9) + b"x", "found byte 0x78 at byte"),
                            (gzip.compress(good + self.END)[:-9], "in the middle of gzip data")):
            log, readers = self.publish(data, status=1)
            self.assertRegex(log, rf"error feed nasdaq: .*{words}.*; stopped after \d messages, the last of \d\d:\d\d")
            quality, = self.qualities(readers[1])
            self.assertEqual(quality[1:], ("suspect", "damaged"))

    def test_unknown_message_of_any_length_is_counted_and_the_day_goes_on(self):
        unknown = [frame(b"~" * length) for length in (1, 50, 51, 300, 65535, 65535)]
        path = self.file("day.bin", self.START + b"".join(unknown) + add(1) + self.END)
        pubd = self.pubd(settings(itch(path), ["quote"]))
        self.says(pubd, "to the end")
        self.assertIn(f"read {3 + len(unknown)} messages, to the end", pubd.err.read_text())
        self.assertEqual(pubd.err.read_text().count("found message type 0x7e, expected a type of ITCH 5.0; skipped"),
                         len(unknown))
        self.assertEqual(len(self.ends(self.cat("nasdaq.quote", "--count", 1), 0).splitlines()), 2)
        counters = self.ends(self.begin(TICKBUS, "stat", "shm:b", "--format", "csv"), 0)
        self.assertRegex(counters, rf"unknown_type,{len(unknown)},messages\n")
        self.stop(pubd)

    def test_unusable_message_is_reported_at_its_place_and_can_set_the_status(self):
        unusable = add(2, stock=b"OTHER   ")
        data = self.START + add(1) + unusable * 20 + add(3) + self.END
        for more, level, status in ((", incomplete: warn", "warning", 0), (", incomplete: fail", "error", 3)):
            log, readers = self.publish(data, more, status=status)
            for lines, place in zip(readers, (2, 1)):
                self.assertEqual(self.qualities(lines), [(place, "suspect", "missing")])
            place = len(self.START + add(1))
            self.assertRegex(log, rf"{level} feed nasdaq: \S*day\.bin: message at byte {place}: symbol: found OTHER, "
                                  r"expected AAA, the name of locate 1; the feed's topics are suspect\n")
            self.assertEqual(log.count("topics are suspect"), 1)

    def test_two_days_in_one_file_are_two_days(self):
        """Under the names and the date of each. 2019-12-31 follows 2019-12-30."""
        monday = self.START + add(1) + self.END
        tuesday = self.START + add(1, stock=b"OTHER   ") + self.END
        for data in (monday + tuesday, gzip.compress(monday) + gzip.compress(tuesday)):
            path = self.file("days.bin", data)
            pubd = self.pubd(settings(itch(path, ", at_end: exit, start: { subscribers: 1 }, incomplete: fail"), ["quote"]))
            lines = [json.loads(line) for line in
                     self.ends(self.cat("nasdaq.quote", "--until-end", form="json"), 0).splitlines()]
            self.ends(pubd, 0)
            self.assertIn("another day begins with message 4: 2019-12-31", pubd.err.read_text())
            last = [line for line in lines if "instrument" in line][-1]
            self.assertEqual((last["sequence"], last["instrument"]), (1, "OTHER"))
            self.assertEqual(last["source_time"], (1577716200 + 86400) * 10**9)
            self.assertEqual([line["event"] for line in lines if "event" in line][-2:], ["restart", "ended"])
            self.assertEqual(self.qualities(lines), [])

    def test_second_day_without_its_beginning_is_reported_at_its_offset(self):
        """By the feed's thread, and by a reading thread if two processors are there."""
        monday = self.START + add(1) + self.END
        for more in ("", ", speed: 1000x"):
            log, _ = self.publish(monday + add(1) + self.END, more)
            self.assertRegex(log, rf"warning feed nasdaq: \S*day\.bin: {self.NO_START.format(len(monday))}")

    def test_time_of_no_day_is_no_time(self):
        log, _ = self.publish(add(1, time_ns=27 * HOUR_NS) + add(2) + self.END)
        self.assertRegex(log, r"begins at offset 0 of the uncompressed stream, with a message of 97200000000000 ns "
                              r"\(no time of day\), expected the start")

    def test_dates_of_an_endless_exchange_are_rising_weekdays(self):
        pubd = self.pubd(settings("type: synthetic, symbols: 2, rate: 1, speed: max, date: 2020-01-02", ["quote"]))
        self.says(pubd, "another day begins with message .*: 2020-01-07")
        dates = re.findall(r"another day begins with message \d+: (\S+)", pubd.err.read_text())
        self.assertEqual(dates[:3], ["2020-01-03", "2020-01-06", "2020-01-07"])
        self.assertEqual(dates, sorted(dates))
        self.stop(pubd)

    def test_zeros_behind_the_day_are_its_end(self):
        whole = self.START + add(1) + self.END
        for data in (whole + bytes(2), whole + bytes(512), gzip.compress(whole) + bytes(512),
                     gzip.compress(whole + bytes(7))):
            self.publish_good(data)

    def publish_good(self, data):
        log, readers = self.publish(data, ", incomplete: fail")
        self.assertEqual([self.qualities(lines) for lines in readers], [[], []])
        self.assertNotRegex(log, "warning|error")

    def test_file_without_a_valid_message_fails_in_any_case(self):
        wrong = frame(b"~" * 40) + frame(b"A" * 12) + frame(b"P" * 300)
        for more in (", incomplete: warn", ", incomplete: fail", ", speed: realtime"):
            for at_end in ("exit", "linger", "restart"):
                log, readers = self.publish(wrong, more, at_end=at_end, status=1)
                self.assertRegex(log, r"error feed nasdaq: \S*day\.bin: found 3 messages and no valid one of ITCH 5\.0, "
                                      r"expected at least 1; .*; stopped after 3 messages")
                for lines in readers:
                    self.assertEqual(self.qualities(lines)[-1][1:], ("suspect", "damaged"))
                    self.assertEqual([line for line in lines if "instrument" in line], [])

    def foreign_files(self):
        """A name and the bytes of each foreign file, and what it looks like."""
        day = self.START + add(1) + self.END
        tar, archive = io.BytesIO(), io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as file:
            file.add(self.file("member", day), "day.bin")
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("day.bin", day)
        bodies = [day[2:14], day[16:-14], day[-12:]]
        self.assertEqual(b"".join(frame(body) for body in bodies), day)
        packet = b"SESSION1  " + struct.pack(">QH", 1, 3) + day
        yield "xz", lzma.compress(day), "xz data, .*xz -d"
        yield "bz2", bz2.compress(day), "bzip2 data, .*bzip2 -d"
        yield "zip", archive.getvalue(), "a zip archive"
        yield "tar", tar.getvalue(), "a tar archive"
        yield "tar.gz", gzip.compress(tar.getvalue()), "a tar archive"
        yield "gz.gz", gzip.compress(gzip.compress(day)), "gzip data inside compressed data"
        yield "csv.gz", gzip.compress(b"time,price\n1,2\n"), "CSV"
        yield "json", b'{"error": 404}', "JSON"
        yield "html", b"<!doctype html>\n<title>Not found</title>", "HTML"
        yield "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a git-lfs pointer"
        for order, magics in (("<", ("", "")), (">", (", big-endian", ", big-endian"))):
            for magic, unit in ((0xa1b2c3d4, "micro"), (0xa1b23c4d, "nano")):
                head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
                yield "pcap", head + packet, rf"a capture \(pcap, {unit}seconds{magics[0]}\)"
        yield "pcapng", struct.pack("<IIIHHqI", 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, -1, 28), r"a capture \(pcapng\)"
        yield "dbn", b"DBN\1" + struct.pack("<I", 100) + bytes(100), "DBN"
        yield "mold", packet, "MoldUDP64"
        yield "soup", b"".join(frame(b"S" + body) for body in bodies), "SoupBinTCP"
        yield "little", b"".join(struct.pack("<H", len(body)) + body for body in bodies), "ITCH 5.0 with little-endian lengths"
        yield "zero", b"".join(bytes(2) + body for body in bodies), "ITCH 5.0 with lengths that are all 0"
        yield "missing", b"".join(bodies), "ITCH 5.0 without lengths"
        yield "itch41", frame(b"T" + bytes(4)) + frame(b"S" + bytes(4) + b"O"), r"ITCH 4\.1"
        yield "holes", bytes(5000), "zeros without a message"
        yield "elf", pathlib.Path(PUBD).read_bytes()[:100000], r"a program \(ELF\)"
        yield "utf16.csv", "time,price\n1,2\n".encode("utf-16"), "UTF-16 text"
        yield "sqlite", self.database(), "an SQLite database"
        yield "parquet", b"PAR1\x15\x04\x15\x10" + bytes(100) + b"PAR1", "a Parquet file"
        yield "arrow", b"ARROW1\0\0" + struct.pack("<iI", -1, 100) + bytes(100), "an Arrow file"

    def database(self):
        path = self.folder / "database"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("create table trades (price)")
            connection.commit()
        return path.read_bytes()

    def test_foreign_file_is_named_before_a_start(self):
        for name, data, what in self.foreign_files():
            path = self.file(f"day.{name}", data)
            text = settings(itch(path), ["quote"])
            for options in (["--check"], []):
                with self.subTest(name=name, options=options):
                    pubd = self.begin(PUBD, *options, self.file("pubd.yaml", text))
                    self.ends(pubd, 2)
                    self.assertRegex(pubd.err.read_text(),
                                     rf"\A\S*pubd\.yaml:4:\d+: feeds\[0\]\.path: \S*day\.{name}: looks like {what}")
                    self.assertRegex(pubd.err.read_text(), r", expected a BinaryFILE of ITCH 5\.0, plain .*; .*\n\Z")

    def test_foreign_file_is_reported_at_its_path(self):
        path = self.file("t.csv", "time,price\n")
        text = settings(itch(path), ["quote"]).replace("type: itch50, path: ", "type: itch50,\n      path: ")
        pubd = self.begin(PUBD, "--check", self.file("pubd.yaml", text))
        self.ends(pubd, 2)
        self.assertRegex(pubd.err.read_text(), r"\A\S*pubd\.yaml:5:13: feeds\[0\]\.path: \S*t\.csv: looks like CSV")

    def test_random_bytes_are_refused_before_a_start(self):
        noise = random.Random(7)
        for first in (1, 0x50, 255):
            path = self.file("noise", bytes([first]) + noise.randbytes(100000))
            pubd = self.begin(PUBD, "--check", self.file("pubd.yaml", settings(itch(path), ["quote"])))
            self.ends(pubd, 2)
            self.assertRegex(pubd.err.read_text(),
                             r"\A\S*pubd\.yaml:4:\d+: feeds\[0\]\.path: \S*noise: found \d+ bytes as the length of the "
                             r"first message, expected at most 255 in a BinaryFILE of ITCH 5\.0, .*; is it a file of "
                             r"another format\?\n\Z")

    def test_file_that_may_still_grow_passes_the_check(self):
        day = self.START + add(1)
        for data in (day[:2], day[:13], day[:-5], frame(b"~" * 40)[:20], frame(b"~" * 40) + add(1)):
            path = self.file("day.bin", data)
            pubd = self.begin(PUBD, "--check", self.file("pubd.yaml", settings(itch(path), ["quote"])))
            self.ends(pubd, 0)

    def test_file_that_cannot_be_opened_is_reported_once(self):
        for path in (self.folder / "missing", self.folder, self.file("empty", ""), self.file("one", "x")):
            pubd = self.begin(PUBD, "--check", self.file("pubd.yaml", settings(itch(path), ["quote"])))
            self.ends(pubd, 2)
            self.assertEqual(pubd.err.read_text().count("feeds[0].path: "), 1, pubd.err.read_text())
            self.assertEqual(pubd.err.read_text().count("\n"), 1, pubd.err.read_text())

    def test_check_of_a_file_reads_its_head_only(self):
        path = self.file("day.zst", struct.pack("<II", 0x184d2a50, 0xffffffff))
        os.truncate(path, 2**32 + 7)  # a frame that zstd skips
        pubd = self.begin(PUBD, "--check", self.file("pubd.yaml", settings(itch(path), ["quote"])))
        self.ends(pubd, 0)

    def test_file_that_becomes_foreign_fails_its_feed(self):
        path = self.file("day.bin", self.START + add(1) + self.END)
        pubd = self.pubd(settings(itch(path, ", at_end: restart, start: { subscribers: 1 }"), ["quote"]))
        self.file("new", lzma.compress(b"day")).rename(path)
        cat = self.cat("nasdaq.quote", "--until-end")
        self.ends(cat, 0)
        self.says(pubd, r"error feed nasdaq: \S*day\.bin: looks like xz data, .*; decompress it with xz -d")
        self.stop(pubd, 1)

    def test_file_without_a_message_has_no_last_message(self):
        log, readers = self.publish(struct.pack(">H", 0), status=1)
        self.assertRegex(log, r"error feed nasdaq: .*found no message, expected at least 1; "
                              r"stopped before the first message\n")
        self.assertEqual(self.qualities(readers[0]), [(1, "suspect", "damaged")])

    def test_stop_in_mid_day_is_no_defect(self):
        path = self.file("day.bin", self.START + add(1) + add(2, time_ns=OPEN_NS + HOUR_NS) + self.END)
        pubd = self.pubd(settings(itch(path, ", speed: realtime, from: '09:30', incomplete: fail"), ["quote"]))
        cat = self.cat("nasdaq.quote", "--until-end", form="json")
        self.until(lambda: '"instrument"' in cat.out.read_text(), "a record", cat)
        self.stop(pubd)
        self.assertNotIn("quality", self.ends(cat, 0))

    def test_time_far_ahead_is_not_waited_for(self):
        order = [add(i, time_ns=OPEN_NS + ahead) for i, ahead in enumerate((0, 13 * 3600 * 10**9, 10**6, 2 * 10**6))]
        path = self.file("day.bin", self.START + b"".join(order) + event(b"C", OPEN_NS + 3 * 10**6))
        pubd = self.pubd(settings(itch(path, ", speed: realtime, from: '09:30', incomplete: fail"), ["quote"]))
        self.says(pubd, "read 6 messages, to the end")
        at = len(self.START + order[0])
        self.assertEqual(re.findall(r"warning (.*)", pubd.err.read_text()),
                         [f"feed nasdaq: {path}: message at byte {at}: found the time 22:30:00.000000000 behind a message of "
                          "09:30:00.000000000, expected at most 1 hour between them; not waited for"])
        self.assertRegex(self.ends(self.begin(TICKBUS, "stat", "shm:b", "--format", "csv"), 0), r"time_ahead,1,messages\n")
        self.stop(pubd)

    def test_first_trade_is_a_trade_that_is_published(self):
        def cross(shares):
            return message(b"Q", struct.pack(">Q", shares) + b"AAA     " + struct.pack(">IQ", 0, 1) + b"O")

        def execution(printable):
            return message(b"C", struct.pack(">QIQ", 1, 5, 2) + printable + struct.pack(">I", 1_0000))
        trades = (cross(1), execution(b"Y"), message(b"E", struct.pack(">QIQ", 1, 5, 2)),
                  message(b"P", struct.pack(">Q", 0) + b"B" + struct.pack(">I", 5) + b"AAA     " + struct.pack(">IQ", 1, 9)))
        nothing = message(b"E", struct.pack(">QIQ", 1, 0, 2))
        for trade in trades:
            path = self.file("day.bin", self.START + add(1) + cross(0) + execution(b"N") + nothing + trade + self.END[:7] +
                             OPEN_NS.to_bytes(6, "big") + self.END[13:])
            pubd = self.pubd(settings(itch(path, ", speed: realtime, from: first_trade, at_end: exit"), ["quote"]))
            self.ends(pubd, 0)
            self.assertIn("runs at the set speed from 09:30:00 (message 6)", pubd.err.read_text())

    def test_from_that_never_comes_is_reported(self):
        path = self.file("day.bin", self.START + add(1) + event(b"C"))
        for start, words in (("'17:30'", "found no message of 17:30:00 (from) or later"),
                             ("first_trade", "found no trade for from: first_trade")):
            pubd = self.pubd(settings(itch(path, f", speed: realtime, from: {start}, at_end: exit"), ["quote"]))
            self.ends(pubd, 0)
            self.assertEqual(re.findall(r"warning (.*)", pubd.err.read_text()),
                             [f"feed nasdaq: {path}: {words}, the last message is of 09:30:00.000000000; "
                              "the day was read at full speed"])

    def test_real_files_lack_what_they_lack(self):
        self.need_data()
        for name, causes in (("itch50_aapl_20191230_0935", ["no_start", "no_end"]),
                             ("itch50_start_of_day_1000", ["no_end"])):
            data = (AAPL.parent / (name + ".bin")).read_bytes()
            log, readers = self.publish(data)
            self.assertEqual([quality[2] for quality in self.qualities(readers[1])], causes)
            self.assertIn(f"ends at offset {len(data)} of the uncompressed stream", log)

    def test_synthetic_feed_is_a_whole_day(self):
        pubd = self.pubd(settings("type: synthetic, messages: 2000, at_end: exit, incomplete: fail, "
                                  "start: { subscribers: 1 }", ["trade"]))
        text = self.ends(self.cat("nasdaq.trade", "--until-end", form="json"), 0)
        self.ends(pubd, 0)
        self.assertNotIn("quality", text)
        self.assertNotIn("suspect", pubd.err.read_text())

    def test_late_reader_and_tables_show_the_state(self):
        path = self.file("day.bin", self.START + add(1))
        pubd = self.pubd(settings(itch(path), ["quote"]))
        self.says(pubd, "to the end")
        self.until(lambda: "suspect" in self.ends(self.begin(TICKBUS, "topics", "shm:b"), 0), "suspect")
        counters = self.ends(self.begin(TICKBUS, "stat", "shm:b", "--format", "csv"), 0)
        self.assertIn("topic,nasdaq.quote,quality,1,state\n", counters)
        cat = self.cat("nasdaq.quote", "--until-end", start="newest", form="json")
        lines = [json.loads(line) for line in self.ends(cat, 0).splitlines()]
        self.assertEqual(lines[1:], [{"event": "quality", "quality": "suspect"}, {"event": "ended", "head": 2}])
        self.stop(pubd)


class Feeds(Bench):
    """Wrong files, and feeds that wait, restart, or run out of instruments."""

    def test_truncated_file_is_published_to_its_last_whole_message(self):
        whole = add(1) + add(2, b"S", 100, 2_0000)
        path = self.file("cut.bin", whole + add(3)[:-5])
        pubd = self.pubd(settings(itch(path, ", at_end: exit, start: { subscribers: 1 }"),
                                  ["quote"]))
        rows = self.ends(self.cat("nasdaq.quote", "--until-end"), 0).splitlines()
        self.assertEqual(len(rows), 3)
        self.ends(pubd, 1)
        self.assertRegex(pubd.err.read_text(), rf"error feed nasdaq: .*cut\.bin.*\b{len(whole)}\b")

    def test_unknown_types_and_wrong_lengths_are_counted(self):
        first = add(1)
        path = self.file("odd.bin", first + frame(b"zjunkjunkjunk") + frame(b"A" + bytes(20))
                         + add(2, b"S", 100, 2_0000))
        pubd = self.pubd(settings(itch(path), ["quote"]))
        self.says(pubd, "to the end")
        message = pubd.err.read_text()
        self.assertRegex(message, rf"warning feed nasdaq: .*odd\.bin.*\b{len(first)}\b")
        self.assertRegex(message, rf"warning feed nasdaq: .*odd\.bin.*\b{len(first) + 15}\b")
        counters = self.counters()
        self.assertEqual((counters["unknown_type"], counters["wrong_length"]), (1, 1))
        self.stop(pubd)

    def counters(self):
        result = self.begin(TICKBUS, "stat", "shm:b", "--format", "json")
        lines = [json.loads(line) for line in self.ends(result, 0).splitlines()]
        self.stat = lines
        return {line["counter"]: line["value"] for line in lines if line["scope"] == "feed"}

    def test_instruments_beyond_the_directory_are_named_and_counted(self):
        path = self.file("many.bin", b"".join(
            message(b"P", struct.pack(">Q", 0) + b"B" + struct.pack(">I", 5) + b"S%-7d" % i
                    + struct.pack(">IQ", 10000, i), locate=i) for i in (1, 2, 3, 4, 4)))
        wide = "  - { name: wide, feed: nasdaq, select: trade, schema: trade }\n"
        pubd = self.pubd(settings(itch(path), ["trade"], ", instruments: 2") + wide)
        self.says(pubd, "to the end")
        self.assertEqual(pubd.err.read_text().count("cannot add instrument"), 1)
        for topic, names in (("nasdaq.trade", ["S1", "S2"]),
                             ("wide", ["S1", "S2", "S3", "S4", "S4"])):  # not affected
            rows = self.ends(self.cat(topic, "--until-end"), 0).splitlines()
            self.assertEqual([row.split(",")[2] for row in rows[1:]], names)
        self.counters()
        left_out = {line["counter"]: line["value"] for line in self.stat
                    if line["scope"] == "unpublished"}
        self.assertEqual(left_out, {"S3": 1, "S4": 2})
        self.stop(pubd)

    def test_restarted_feed_has_a_new_epoch_that_readers_see(self):
        path = self.synth("--seed", 3, "--symbols", 5, "--messages", 2000)
        pubd = self.pubd(settings(itch(path, ", at_end: restart, start: { subscribers: 1 }"),
                                  ["trade"]))
        cat = self.cat("nasdaq.trade", "--until-end", form="json")
        self.says(pubd, "(?s)to the end.*to the end")
        self.until(lambda: cat.out.read_text().count('"event":"restart"') >= 2, "two restarts", cat)
        self.stop(pubd)
        self.ends(cat, 0)
        lines = [json.loads(line) for line in cat.out.read_text().splitlines()]
        epochs, rows, following = [lines[0]["epoch"]], {}, 1
        for line in lines[1:]:
            if line.get("event") == "restart":
                self.assertEqual(line["old_epoch"], epochs[-1])
                epochs.append(line["epoch"])
                following = 1
            elif "sequence" in line:  # each epoch begins with the same market
                self.assertEqual(line["sequence"], following)
                following += 1
                row = {**line, "time_ns": 0}
                self.assertEqual(rows.setdefault(line["sequence"], row), row)
        self.assertEqual(len(set(epochs)), len(epochs))
        self.assertGreater(len(rows), 50)

    VALUES = ("quote", "trade", "status", "definition")

    def late_joiners(self, feed):
        """A reader of the whole stream and a late joiner of each topic: both have the same last values. Returns how
        many values each topic has."""
        more = ", start: { subscribers: %d }" % len(self.VALUES)
        pubd = self.pubd(settings(feed + more, self.VALUES, ", slots: 65536"))
        streams = [self.cat(f"nasdaq.{select}", "--until-end", form="json") for select in self.VALUES]
        counts = {}
        for select, stream in zip(self.VALUES, streams):
            whole = [json.loads(line) for line in self.ends(stream, 0).splitlines()]
            late = self.cat(f"nasdaq.{select}", "--until-end", start="image", form="json")
            image = [json.loads(line) for line in self.ends(late, 0).splitlines()]
            self.assertNotIn("gap", [line.get("event") for line in whole])
            self.assertTrue(all(line.pop("image") for line in image if "sequence" in line))
            head = whole[-1]["head"]
            self.assertEqual([line for line in image if line.get("event") in ("image", "complete")],
                             [{"event": "image", "up_to": head}, {"event": "complete", "delivered": head}])
            self.assertEqual(sorted((line for line in image if "sequence" in line), key=lambda row: row["sequence"]),
                             self.last_values(whole))
            counts[select] = sum("sequence" in line for line in image)
        self.stop(pubd)
        return counts

    @staticmethod
    def last_values(lines):
        values = {}
        for row in lines:
            if row.get("kind") in ("update", "correction"):
                values[row["instrument"]] = row
            elif row.get("kind") == "clear":
                values.pop(row["instrument"], None)
        return sorted(values.values(), key=lambda row: row["sequence"])

    def test_late_joiner_has_the_last_values_of_a_synthetic_day(self):
        counts = self.late_joiners("type: synthetic, seed: 11, symbols: 300, messages: 20000")
        self.assertEqual((counts["quote"], counts["definition"]), (300, 300))
        self.assertGreater(counts["trade"], 100)

    def test_late_joiner_has_the_last_values_of_the_start_of_a_day(self):
        self.need_data()
        counts = self.late_joiners(itch(AAPL.parent / "itch50_start_of_day_1000.bin"))
        self.assertGreater(counts["definition"], 900)

    def test_restarting_feed_shorter_than_a_batch_can_be_stopped(self):
        path = self.file("one.bin", add(1))
        pubd = self.pubd(settings(itch(path, ", at_end: restart"), ["quote"]))
        self.says(pubd, "(?s)to the end.*to the end")
        self.stop(pubd)

    def test_feed_starts_when_enough_subscribers_joined(self):
        path = self.file("one.bin", add(1))
        pubd = self.pubd(settings(itch(path, ", start: { subscribers: 2 }"), ["quote", "trade"]))
        self.says(pubd, "waits for 2 subscribers")
        cat = self.cat("nasdaq.quote", "--until-end")
        self.says(cat, "appeared")
        self.assertNotIn("to the end", pubd.err.read_text())
        other = self.cat("nasdaq.trade", "--until-end")
        self.says(pubd, "to the end")
        self.ends(cat, 0)
        self.ends(other, 0)
        self.stop(pubd)

    def test_quiet_topics_and_waiting_feeds_are_not_stale(self):
        """A feed has orders every 10 ms for four times the stale bound, and no trade. Another feed waits."""
        path = self.file("quiet.bin", b"".join(
            add(i, time_ns=OPEN_NS + i * 10**7) for i in range(1, 401)))
        pubd = self.pubd(f"""bus: {{ name: b }}
schemas: [ quote, trade ]
feeds:
  - {{ name: runs, {itch(path, ", speed: realtime, start: { subscribers: 1 }")} }}
  - {{ name: waits, {itch(path, ", start: { subscribers: 2 }")} }}
topics:
  - {{ name: waits.quote, feed: waits, select: quote, schema: quote }}
  - {{ name: runs.quote, feed: runs, select: quote, schema: quote }}
  - {{ name: runs.trade, feed: runs, select: trade, schema: trade }}
""")
        waits = self.cat("waits.quote")
        self.says(waits, "appeared")
        quiet = self.cat("runs.trade", "--until-end")
        self.says(pubd, "feed runs: read 400 messages, to the end")
        self.ends(quiet, 0)
        for cat in (quiet, waits):
            self.assertNotIn("stale", cat.err.read_text())
        self.stop(pubd)

    def test_messages_before_from_are_unpaced_and_later_ones_paced(self):
        """A factor of 1000 turns an hour into three seconds. The half day before `from` is not paced."""
        path = self.file("day.bin", b"".join(
            add(i, time_ns=time_s * 10**9) for i, time_s in enumerate((1, 20000, 39599, 39600, 43200), 1)))
        pubd = self.pubd(settings(itch(path, ", speed: 1000x, from: '11:00', at_end: exit, start: "
                                             "{ subscribers: 1 }"), ["quote"]))
        cat = self.cat("nasdaq.quote", "--until-end")
        self.ends(cat, 0)
        self.ends(pubd, 0)
        self.assertRegex(pubd.err.read_text(), r"runs at the set speed from 11:00:00 \(message 4\)\n")
        with open(cat.out) as file:
            times = [int(row["time_ns"]) for row in csv.DictReader(file)]
        self.assertEqual(len(times), 5)
        self.assertGreaterEqual(times[4] - times[3], 3_590_000_000)
        self.assertLess(times[3] - times[0], 30_000_000_000)

    @staticmethod
    def processors(pubd):
        """The allowed processors of each thread, by its name."""
        found = {}
        for task in pathlib.Path(f"/proc/{pubd.pid}/task").iterdir():
            status = (task / "status").read_text()
            found[re.search(r"^Name:\s(.*)", status, re.M).group(1)] = \
                re.search(r"^Cpus_allowed_list:\s(.*)", status, re.M).group(1)
        return found

    def test_thread_of_a_feed_stays_on_its_processor(self):
        cpu = max(os.sched_getaffinity(0))
        path = self.file("slow.bin", add(1) + add(2, time_ns=OPEN_NS + HOUR_NS))
        for more, expected in ((f", cpu: {cpu}", {str(cpu)}), ("", set())):
            pubd = self.pubd(settings(itch(path, ", speed: realtime" + more), ["quote"]))
            self.says(pubd, "at the set speed from")
            found = self.processors(pubd)
            others = found[pathlib.Path(f"/proc/{pubd.pid}/comm").read_text().strip()]
            self.assertEqual(found["feed"], expected.pop() if expected else others)
            self.stop(pubd)

    @staticmethod
    def ticks(pubd, name):
        """The time that the threads of this name have run, in ticks of the kernel."""
        stats = [(task / "stat").read_text() for task in pathlib.Path(f"/proc/{pubd.pid}/task").iterdir()]
        return sum(int(stat.rpartition(")")[2].split()[11]) for stat in stats if f"({name})" in stat)

    def test_feed_without_a_pace_has_a_reading_thread_where_a_core_is_free(self):
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < 2:
            self.skipTest("found 1 processor, expected 2 or more")
        one, two = set(usable[:1]), set(usable[:2])
        exchange = "type: synthetic, seed: 1"
        both = settings(exchange, ["quote"]).replace("topics:", f"  - {{ name: other, {exchange} }}\ntopics:") + \
            "  - " + TOPIC.format(feed="other", select="quote", more="") + "\n"
        self.addCleanup(os.sched_setaffinity, 0, usable)
        for text, cores, reading in ((settings(exchange, ["quote"]), two, True),
                                     (settings(exchange + f", cpu: {usable[1]}", ["quote"]), two, True),
                                     (settings(exchange, ["quote"]), one, False),
                                     (settings(exchange + ", speed: 1000x", ["quote"]), two, False),
                                     (both, two, False)):
            os.sched_setaffinity(0, cores)
            pubd = self.pubd(text)
            os.sched_setaffinity(0, usable)
            self.until(lambda: self.ticks(pubd, "feed") > 3 or "reading" in self.processors(pubd),
                       "a running feed", pubd)
            self.assertEqual("reading" in self.processors(pubd), reading, text)
            if "cpu: " in text:
                self.until(lambda: self.processors(pubd)["reading"] == str(usable[0]), "another processor", pubd)
                self.assertEqual(self.processors(pubd)["feed"], str(usable[1]))
            self.stop(pubd)

    def test_control_thread_and_memory_follow_the_settings(self):
        cpu = max(os.sched_getaffinity(0))
        nodes = pathlib.Path("/sys/devices/system/node/has_memory")
        path = self.file("slow.bin", add(1) + add(2, time_ns=OPEN_NS + HOUR_NS))
        numa = ", numa: 0" if nodes.exists() and os.path.exists("/proc/self/numa_maps") else ""
        pubd = self.pubd(settings(itch(path, ", speed: realtime"), ["quote"], bus=f", cpu: {cpu}{numa}"))
        self.says(pubd, "at the set speed from")
        self.assertEqual(self.processors(pubd)["tickbus-control"], str(cpu))
        if numa:
            maps = pathlib.Path(f"/proc/{pubd.pid}/numa_maps").read_text()
            self.assertRegex(maps, r"(?m)^\S+ prefer:0 file=/memfd:nasdaq\.quote")
        self.stop(pubd)
        for wrong, message in (("cpu: 1000", "publisher options: cpu: found processor 1000, expected one of "),
                             ("numa: 777", "publisher options: numa: found node 777, expected one of ")):
            pubd = self.pubd(settings(itch(path, ""), ["quote"], bus=f", {wrong}"), "wrong.yaml", None)
            self.ends(pubd, 1)
            self.assertIn(message, pubd.err.read_text())

    def test_paced_feed_can_be_stopped_while_it_waits(self):
        path = self.file("slow.bin", add(1) + message(b"D", struct.pack(">Q", 1), OPEN_NS + HOUR_NS))
        pubd = self.pubd(settings(itch(path, ", speed: realtime"), ["quote"]))
        cat = self.cat("nasdaq.quote", "--count", "1")
        self.assertEqual(len(self.ends(cat, 0).splitlines()), 2)
        self.stop(pubd)

    def test_synthetic_feed_equals_the_file_of_the_same_seed(self):
        path = self.synth("--seed", 5, "--symbols", 100, "--messages", 20000)
        feed = ("type: synthetic, seed: 5, symbols: 100, messages: 20000, date: 2019-12-30, "
                "at_end: exit, start: { subscribers: 1 }")
        pubd = self.pubd(settings(feed, ["quote"], ", slots: 65536"))
        cat = self.cat("nasdaq.quote", "--until-end")
        self.ends(cat, 0)
        self.ends(pubd, 0)
        self.oracle(path, "quote", cat.out)


OWN = """name: wide
version: {version}
fields:
  - {{ name: source_time, type: time, doc: When. }}
  - {{ name: bid_price, type: decimal64(6), optional: true, doc: Best bid. }}
  - {{ name: ask_price, type: {type}, optional: true, doc: Best ask. }}
  - {{ name: number, type: u64, role: source_sequence, doc: Number of the message. }}
{more}"""
APPENDED = "  - { name: bid_size, type: u32, doc: Size of it. }\n  - type: pad[4]\n"
LEVELS = """name: levels
version: 1
fields:
  - name: bids
    type: group[3]
    doc: The three best.
    fields:
      - { name: price, type: decimal64(4), optional: true, doc: Price. }
      - { name: orders, type: u32, doc: Orders. }
      - { name: size, type: u32, doc: Size. }
"""


class Schemas(Bench):
    """A user's schema works from YAML to rows, and can be extended at its end."""

    def publish(self, schema, select="quote"):
        self.file("own.yaml", schema)
        name = re.match("name: (.*)", schema).group(1)
        path = self.file("day.bin", add(1, b"B", 100, 1_2345) + add(2, b"S", 7, 2_0000))
        return self.pubd(f"""bus: {{ name: b }}
schemas: [ ./own.yaml ]
feeds: [ {{ name: f, {itch(path)} }} ]
topics: [ {{ name: t, feed: f, select: {select}, schema: {name} }} ]
""")

    def rows(self, *more):
        return self.ends(self.cat("t", "--until-end", *more), 0).splitlines()

    def test_own_schema_sets_fields_scales_and_feed_sequence(self):
        pubd = self.publish(OWN.format(version=1, type="decimal64(4)", more=""))
        rows = self.rows()
        self.assertEqual(rows[0], "sequence,time_ns,instrument,kind,source_time,bid_price,ask_price,"
                                  "number")
        self.assertEqual([row.split(",")[5:] for row in rows[1:]],
                         [["1.234500", "", "1"], ["1.234500", "2.0000", "2"]])
        self.stop(pubd)

    def test_own_schema_groups_pick_levels_and_members(self):
        pubd = self.publish(LEVELS, "depth10")
        rows = self.rows()
        self.assertEqual(rows[0].split(",")[4:7], ["bids[0].price", "bids[0].orders",
                                                   "bids[0].size"])
        self.assertEqual(rows[1].split(",")[4:], ["1.2345", "1", "100"] + ["", "0", "0"] * 2)
        self.stop(pubd)

    def test_wide_schemas_hold_fractions_of_a_unit(self):
        path = self.file("day.bin", add(1, b"B", 100, 1_2345) + add(2, b"S", 7, 2_0000))
        selects = ("quote", "trade", "depth10")
        topics = "".join(f"  - {{ name: {s}, feed: f, select: {s}, schema: {s}_wide }}\n" for s in selects)
        pubd = self.pubd(f"bus: {{ name: b }}\nschemas: [ {', '.join(s + '_wide' for s in selects)} ]\n"
                         f"feeds: [ {{ name: f, {itch(path)} }} ]\ntopics:\n{topics}")
        rows = [self.ends(self.cat(name, "--until-end"), 0).splitlines() for name in ("quote", "depth10")]
        self.assertEqual([row.split(",")[4:8] for row in rows[0][1:]],
                         [["1.23450000", "", "100.00000000", "0.00000000"],
                          ["1.23450000", "2.00000000", "100.00000000", "7.00000000"]])
        self.assertEqual(rows[1][1].split(",")[5:11], ["1.23450000", "100.00000000", "1", "", "0.00000000", "0"])
        self.stop(pubd)

    def test_appended_field_keeps_an_older_reader_working(self):
        old = self.file("old.yaml", OWN.format(version=1, type="decimal64(4)", more=""))
        pubd = self.publish(OWN.format(version=2, type="decimal64(4)", more=APPENDED))
        self.assertEqual(len(self.rows("--schema", old)), 3)
        self.stop(pubd)

    def test_any_other_change_is_refused_at_join_naming_both_sides(self):
        for version, kind, more, message in (
                (2, "decimal64(5)", "", r"wide.*ask_price.*decimal64"),
                (2, "i64", "", r"wide.*ask_price.*i64"),
                (1, "decimal64(4)", APPENDED, r"wide.*bid_size")):
            other = self.file("other.yaml", OWN.format(version=version, type=kind, more=more))
            pubd = self.publish(OWN.format(version=1, type="decimal64(4)", more=""))
            cat = self.cat("t", "--schema", str(other))
            self.ends(cat, 3)
            self.assertRegex(cat.err.read_text(), message)
            self.stop(pubd)

    def test_reader_without_nulls_is_refused_by_a_publisher_with_nulls(self):
        schema = "name: when\nversion: 1\nfields:\n  - {{ name: source_time, type: time, optional: {} }}\n"
        for publisher, reader in (("true", "false"), ("true", "true"), ("false", "true")):
            path = self.file("reader.yaml", schema.format(reader))
            pubd = self.publish(schema.format(publisher))
            if publisher == "true" and reader == "false":
                cat = self.cat("t", "--schema", str(path))
                self.ends(cat, 3)
                self.assertIn("publisher has optional source_time time, subscriber expects source_time time",
                              cat.err.read_text())
            else:
                self.assertEqual(len(self.rows("--schema", str(path))), 3)
            self.stop(pubd)

    def test_unfit_schema_is_refused_before_anything_runs(self):
        self.file("own.yaml", OWN.format(version=1, type="u64", more=""))
        path = self.file("day.bin", add(1))
        pubd = self.pubd(f"""bus: {{ name: b }}
schemas: [ ./own.yaml ]
feeds: [ {{ name: f, {itch(path)} }} ]
topics: [ {{ name: t, feed: f, select: quote, schema: wide }} ]
""", expect=None)
        self.ends(pubd, 2)
        self.assertRegex(pubd.err.read_text(), r"pubd\.yaml:4:\d+: topics\[0\]\.schema: schema wide "
                                               r"does not fit select quote: field ask_price: found "
                                               r"u64")

    def test_errors_of_every_check_are_in_one_run(self):
        path = self.file("day.bin", add(1))
        self.file("own.yaml", OWN.format(version=1, type="u64", more=""))
        settings_file = self.file("pubd.yaml", f"""bus: {{ name: b, cpu: x, access: {{ users: [ [], nobody-of-this-name ] }} }}
schemas: [ ./own.yaml, trade ]
feeds: [ {{ name: f, type: synthetic, symbols: 60000, messages: 1 }},
         {{ name: g, type: itch50, path: {path}, date: 30.12.2019 }} ]
topics: [ {{ name: t, feed: f, select: quote, schema: wide }},
          {{ name: u, feed: g, select: trade, schema: nothing }} ]
""")
        pubd = self.begin(PUBD, "--check", settings_file)
        self.ends(pubd, 2)
        places = re.findall(r"^\S*pubd\.yaml:(\d+):\d+: (.*?): ", pubd.err.read_text(), re.M)
        self.assertEqual(places, [("1", "bus.access.users[0]"), ("1", "bus.cpu"), ("4", "feeds[1].date"), ("6", "topics[1].schema"),
                                  ("1", "bus.access.users[1]"), ("5", "topics[0].schema"), ("3", "feeds[0]")])

    def test_group_of_many_members_is_known(self):
        """Its line in the system's list is longer than any buffer of a usual size."""
        text = settings("type: synthetic, messages: 600, at_end: exit", ["quote"]).replace(
            "name: b ", "name: b, access: { groups: [ traders ] } ")
        groups = self.file("group", pathlib.Path("/etc/group").read_text() + "traders:x:70001:" +
                           ",".join(f"user{i:08}" for i in range(6000)) + "\n")
        alone = ["unshare", "--mount", "sh", "-ec", f'mount --bind {groups} /etc/group; exec "$@"', "sh"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode:
            self.skipTest("no file can be mounted here (unshare --mount)")
        self.prefix = alone
        self.ends(self.begin(PUBD, self.file("pubd.yaml", text)), 0)

    def test_unknown_user_or_group_is_reported_with_its_line(self):
        for options in ((), ("--check",)):
            path = self.file("day.bin", add(1))
            settings_file = self.file("pubd.yaml", f"""bus:
  name: b
  access:
    users: [ root, nobody-of-this-name ]
    groups: [ no-such-group ]
schemas: [ quote ]
feeds: [ {{ name: f, {itch(path)} }} ]
topics: [ {{ name: t, feed: f, select: quote, schema: quote }} ]
""")
            pubd = self.begin(PUBD, *options, settings_file)
            self.ends(pubd, 2)
            message = pubd.err.read_text()
            self.assertIn('pubd.yaml:4:20: bus.access.users[1]: found "nobody-of-this-name", '
                          'expected the name of a user of this machine\n', message)
            self.assertIn('pubd.yaml:5:15: bus.access.groups[0]: found "no-such-group", '
                          'expected the name of a group of this machine\n', message)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
