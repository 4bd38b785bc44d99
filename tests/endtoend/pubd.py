#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pubd and the tickbus command, end to end: what is fed in comes out, whatever happens meanwhile.

    pubd.py PUBD TICKBUS ORACLE CLASS

ORACLE is the program that derives the rows of an ITCH file from the rules alone.
"""
import csv
import datetime
import errno
import gzip
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PUBD, TICKBUS, ORACLE = sys.argv[1:4]
PATIENCE_S = 120
DATA = os.environ.get("TICKBUS_TEST_DATA", "")
AAPL = pathlib.Path(DATA) / "itch/itch50_aapl_20191230_0935.bin"
TOPIC = "{{ name: {feed}.{select}, feed: {feed}, select: {select}, schema: {select}{more} }}"


def settings(feed, selects=("quote", "trade", "depth10"), more="", bus="", name="nasdaq"):
    topics = "\n".join("  - " + TOPIC.format(feed=name, select=s, more=more) for s in selects)
    return f"""bus: {{ name: b{bus} }}
schemas: [ quote, trade, depth10, status, imbalance ]
feeds:
  - {{ name: {name}, {feed} }}
topics:
{topics}
"""


def itch(path, more=""):
    return f"type: itch50, path: {path}, date: 2019-12-30{more}"


class Bench(unittest.TestCase):
    """A folder, processes that end with the test, and waiting for what they say."""

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
        """Starts a program; its standard output and error go to files."""
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
                self.fail(f"never: {what}\n{process.err.read_text() if process else ''}")
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
        result = subprocess.run([sys.executable, ORACLE, str(path), "--select", select, "--date",
                                 "2019-12-30", "--compare", str(rows)], text=True,
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


def message(kind, body, time_ns=OPEN_NS, locate=1):
    return frame(kind + struct.pack(">HH", locate, 0) + time_ns.to_bytes(6, "big") + body)


def add(reference, side=b"B", shares=100, price=1_0000, stock=b"AAA     ", time_ns=OPEN_NS):
    return message(b"A", struct.pack(">Q", reference) + side + struct.pack(">I", shares) + stock
                   + struct.pack(">I", price), time_ns)


class Rows(Bench):
    """Every reader gets the rows that an independent program derives from the same file."""

    def compare(self, path, select, readers=1, plain=None):
        """Reads a topic from its first record to its end. plain: the file, if path is compressed."""
        more = f", at_end: exit, start: {{ subscribers: {readers} }}"
        pubd = self.pubd(settings(itch(path, more), [select], ", slots: 1048576"))
        cats = [self.cat(f"nasdaq.{select}", "--until-end") for _ in range(readers)]
        rows = [self.ends(cat, 0) for cat in cats]
        self.ends(pubd, 0)
        for cat in cats:
            self.assertNotIn("gap", cat.err.read_text())
        self.assertEqual(len(set(rows)), 1)
        self.oracle(plain or path, select, cats[0].out)

    def test_quotes_of_a_real_file_for_three_readers(self):
        self.need_data()
        self.compare(AAPL, "quote", 3)

    def test_trades_of_a_real_file_for_three_readers(self):
        self.need_data()
        self.compare(AAPL, "trade", 3)

    def test_depth_of_a_real_file_for_three_readers(self):
        self.need_data()
        self.compare(AAPL, "depth10", 3)

    def test_a_synthetic_file_of_8000_symbols(self):
        path = self.synth("--seed", 7, "--symbols", 8000, "--messages", 100000)
        for select in ("quote", "trade", "depth10", "status", "imbalance"):
            self.compare(path, select, 3 if select == "quote" else 1)

    def test_compressed_files_are_told_by_content_not_by_name(self):
        options = ("--seed", 8, "--symbols", 20, "--messages", 5000)
        plain, packed = self.synth(*options), self.synth(*options, name="day.zst")
        self.assertEqual(packed.read_bytes()[:4], b"\x28\xb5\x2f\xfd")
        self.compare(packed.rename(self.folder / "day.gz"), "quote", plain=plain)
        self.compare(self.file("day.zst", gzip.compress(plain.read_bytes())), "quote", plain=plain)

    def stopped_reader(self, path):
        """A reader that was stopped while a small ring went round: its rows and its gaps."""
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

    def test_a_stopped_reader_of_a_ring_of_64_slots_gets_what_is_left_and_the_exact_gap(self):
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
        self.assertGreaterEqual(len(rows), 64)
        self.assertGreater(sum(last - first + 1 for first, last in lost), 0)
        # The rows are the whole stream's, at their sequences.
        more = ", at_end: exit, start: { subscribers: 1 }"
        pubd = self.pubd(settings(itch(path, more), ["quote"], ", slots: 65536"))
        whole = self.cat("nasdaq.quote", "--until-end")
        self.ends(whole, 0)
        self.ends(pubd, 0)
        with open(whole.out) as file:
            expected = {row["sequence"]: row for row in csv.DictReader(file)}
        for row in rows:
            self.assertEqual({**row, "time_ns": ""}, {**expected[row["sequence"]], "time_ns": ""})

    def test_formats_tell_the_same_to_the_last_digit(self):
        path = self.synth("--seed", 10, "--symbols", 20, "--messages", 3000)
        pubd = self.pubd(settings(itch(path), ["quote", "trade"]))
        self.says(pubd, "to the end")
        for select in ("quote", "trade"):
            outputs = {form: self.ends(self.cat(f"nasdaq.{select}", "--until-end", form=form), 0)
                       for form in ("csv", "json", "text")}
            rows = list(csv.DictReader(outputs["csv"].splitlines()))
            told = [json.loads(line) for line in outputs["json"].splitlines()]
            told = [one for one in told if "event" not in one]
            lines = outputs["text"].splitlines()
            self.assertEqual((len(told), len(lines)), (len(rows), len(rows)))
            for row, one, line in zip(rows, told, lines):
                self.assertEqual({name: str(value) for name, value in one.items()}, row)
                self.assertEqual(self.from_text(line), row)
        self.stop(pubd)

    def from_text(self, line):
        """A text row as its CSV row; times are ISO 8601 there."""
        words = line.split(" ")
        row = dict(zip(("sequence", "time_ns", "instrument", "kind"), words))
        row.update(word.split("=", 1) for word in words[4:])
        for name in ("time_ns", "source_time"):
            moment, fraction = re.fullmatch(r"(.{19})\.(\d{9})Z", row[name]).groups()
            since = datetime.datetime.fromisoformat(moment + "+00:00").timestamp()
            row[name] = f"{int(since)}{fraction}"
        return row

    def test_source_time_is_the_day_and_the_time_of_the_message(self):
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


class Feeds(Bench):
    """Files that are wrong, feeds that wait, begin again, run out of room."""

    def test_a_file_that_ends_in_mid_message_is_published_to_there_and_the_error_names_the_place(self):
        whole = add(1) + add(2, b"S", 100, 2_0000)
        path = self.file("cut.bin", whole + add(3)[:-5])
        pubd = self.pubd(settings(itch(path, ", at_end: exit, start: { subscribers: 1 }"),
                                  ["quote"]))
        rows = self.ends(self.cat("nasdaq.quote", "--until-end"), 0).splitlines()
        self.assertEqual(len(rows), 3)
        self.ends(pubd, 1)
        self.assertRegex(pubd.err.read_text(), rf"error feed nasdaq: .*cut\.bin.*\b{len(whole)}\b")

    def test_unknown_types_and_wrong_lengths_are_counted_and_located(self):
        first = add(1)
        path = self.file("odd.bin", first + frame(b"zjunkjunkjunk") + frame(b"A" + bytes(20))
                         + add(2, b"S", 100, 2_0000))
        pubd = self.pubd(settings(itch(path), ["quote"]))
        self.says(pubd, "to the end")
        words = pubd.err.read_text()
        self.assertRegex(words, rf"warning feed nasdaq: .*odd\.bin.*\b{len(first)}\b")
        self.assertRegex(words, rf"warning feed nasdaq: .*odd\.bin.*\b{len(first) + 15}\b")
        counters = self.counters()
        self.assertEqual((counters["unknown_type"], counters["wrong_length"]), (1, 1))
        self.stop(pubd)

    def counters(self):
        result = self.begin(TICKBUS, "stat", "shm:b", "--format", "json")
        lines = [json.loads(line) for line in self.ends(result, 0).splitlines()]
        self.stat = lines
        return {line["counter"]: line["value"] for line in lines if line["scope"] == "feed"}

    def test_a_full_directory_leaves_out_by_name_and_counts(self):
        path = self.file("many.bin", b"".join(
            message(b"P", struct.pack(">Q", 0) + b"B" + struct.pack(">I", 5) + b"S%-7d" % i
                    + struct.pack(">IQ", 10000, i), locate=i) for i in (1, 2, 3, 4, 4)))
        wide = "  - { name: wide, feed: nasdaq, select: trade, schema: trade }\n"
        pubd = self.pubd(settings(itch(path), ["trade"], ", instruments: 2") + wide)
        self.says(pubd, "to the end")
        self.assertEqual(pubd.err.read_text().count("no room for instrument"), 1)
        for topic, names in (("nasdaq.trade", ["S1", "S2"]),
                             ("wide", ["S1", "S2", "S3", "S4", "S4"])):  # loses nothing by it
            rows = self.ends(self.cat(topic, "--until-end"), 0).splitlines()
            self.assertEqual([row.split(",")[2] for row in rows[1:]], names)
        self.counters()
        left_out = {line["counter"]: line["value"] for line in self.stat
                    if line["scope"] == "unpublished"}
        self.assertEqual(left_out, {"S3": 1, "S4": 2})
        self.stop(pubd)

    def test_restart_begins_again_with_a_new_epoch_and_readers_are_told(self):
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
            elif "sequence" in line:  # each epoch has the same market from its begin
                self.assertEqual(line["sequence"], following)
                following += 1
                row = {**line, "time_ns": 0}
                self.assertEqual(rows.setdefault(line["sequence"], row), row)
        self.assertEqual(len(set(epochs)), len(epochs))
        self.assertGreater(len(rows), 50)

    def test_a_feed_shorter_than_a_batch_that_begins_again_for_ever_is_stopped(self):
        path = self.file("one.bin", add(1))
        pubd = self.pubd(settings(itch(path, ", at_end: restart"), ["quote"]))
        self.says(pubd, "(?s)to the end.*to the end")
        self.stop(pubd)

    def test_a_feed_starts_when_as_many_joined_as_it_was_told(self):
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

    def test_quiet_topics_and_feeds_that_wait_are_not_stale(self):
        """Orders every 10 ms for four times the stale bound, and no trade; a feed that waits."""
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

    def test_what_is_before_from_comes_at_once_and_the_rest_at_its_pace(self):
        """A factor of 1000 makes three seconds of every hour; half a day before is not waited for."""
        path = self.file("day.bin", b"".join(
            add(i, time_ns=time_s * 10**9) for i, time_s in enumerate((1, 20000, 39599, 39600, 43200), 1)))
        pubd = self.pubd(settings(itch(path, ", speed: 1000x, from: '11:00', at_end: exit, start: "
                                             "{ subscribers: 1 }"), ["quote"]))
        cat = self.cat("nasdaq.quote", "--until-end")
        self.ends(cat, 0)
        self.ends(pubd, 0)
        self.assertRegex(pubd.err.read_text(), "paced from 11:00:00 on, message 4\n")
        with open(cat.out) as file:
            times = [int(row["time_ns"]) for row in csv.DictReader(file)]
        self.assertEqual(len(times), 5)
        self.assertGreaterEqual(times[4] - times[3], 3_590_000_000)
        self.assertLess(times[3] - times[0], 30_000_000_000)

    @staticmethod
    def processors(pubd):
        """Where each of its threads may run, by their names."""
        found = {}
        for task in pathlib.Path(f"/proc/{pubd.pid}/task").iterdir():
            status = (task / "status").read_text()
            found[re.search(r"^Name:\s(.*)", status, re.M).group(1)] = \
                re.search(r"^Cpus_allowed_list:\s(.*)", status, re.M).group(1)
        return found

    def test_a_feeds_thread_stays_on_its_processor(self):
        cpu = max(os.sched_getaffinity(0))
        path = self.file("slow.bin", add(1) + add(2, time_ns=50000 * 10**9))
        for more, expected in ((f", cpu: {cpu}", {str(cpu)}), ("", set())):
            pubd = self.pubd(settings(itch(path, ", speed: realtime" + more), ["quote"]))
            self.says(pubd, "paced from")
            found = self.processors(pubd)
            others = found[pathlib.Path(f"/proc/{pubd.pid}/comm").read_text().strip()]
            self.assertEqual(found["feed"], expected.pop() if expected else others)
            self.stop(pubd)

    def test_the_control_thread_and_the_memory_are_where_the_settings_say(self):
        cpu = max(os.sched_getaffinity(0))
        nodes = pathlib.Path("/sys/devices/system/node/has_memory")
        path = self.file("slow.bin", add(1) + add(2, time_ns=50000 * 10**9))
        numa = ", numa: 0" if nodes.exists() and os.path.exists("/proc/self/numa_maps") else ""
        pubd = self.pubd(settings(itch(path, ", speed: realtime"), ["quote"], bus=f", cpu: {cpu}{numa}"))
        self.says(pubd, "paced from")
        self.assertEqual(self.processors(pubd)["tickbus-control"], str(cpu))
        if numa:
            maps = pathlib.Path(f"/proc/{pubd.pid}/numa_maps").read_text()
            self.assertRegex(maps, r"(?m)^\S+ prefer:0 file=/memfd:nasdaq\.quote")
        self.stop(pubd)
        for wrong, words in (("cpu: 1000", "publisher options: cpu: found processor 1000, expected one of "),
                             ("numa: 777", "publisher options: numa: found node 777, expected one of ")):
            pubd = self.pubd(settings(itch(path, ""), ["quote"], bus=f", {wrong}"), "wrong.yaml", None)
            self.ends(pubd, 1)
            self.assertIn(words, pubd.err.read_text())

    def test_a_paced_feed_is_stopped_while_it_waits(self):
        path = self.file("slow.bin", add(1) + message(b"D", struct.pack(">Q", 1), 50000 * 10**9))
        pubd = self.pubd(settings(itch(path, ", speed: realtime"), ["quote"]))
        cat = self.cat("nasdaq.quote", "--count", "1")
        self.assertEqual(len(self.ends(cat, 0).splitlines()), 2)
        self.stop(pubd)

    def test_the_synthetic_feed_equals_the_file_of_the_same_seed(self):
        path = self.synth("--seed", 5, "--symbols", 100, "--messages", 20000)
        feed = ("type: synthetic, seed: 5, symbols: 100, messages: 20000, date: 2019-12-30, "
                "at_end: exit, start: { subscribers: 1 }")
        pubd = self.pubd(settings(feed, ["quote"], ", slots: 65536"))
        cat = self.cat("nasdaq.quote", "--until-end")
        self.ends(cat, 0)
        self.ends(pubd, 0)
        self.oracle(path, "quote", cat.out)


class Daemon(Bench):
    """pubd as a process: its exit statuses, signals, addresses, users."""

    def quiet(self, bus=""):
        return settings("type: synthetic, messages: 5000, symbols: 10, date: 2024-01-02", ["quote"],
                        bus=bus)

    def test_a_second_pubd_on_one_address_says_so_and_exits_1(self):
        first = self.pubd(self.quiet())
        second = self.pubd(self.quiet(), "second.yaml", None)
        self.ends(second, 1)
        self.assertRegex(second.err.read_text(), "error address shm:b: another publisher")
        next(self.folder.rglob("b.lock")).unlink()
        third = self.pubd(self.quiet(), "third.yaml", None)
        self.ends(third, 1)
        self.assertRegex(third.err.read_text(),
                         rf"error address shm:b: another process \(pid {first.pid}\) listens there")
        self.stop(first)

    def test_the_bus_comes_before_its_feeds_in_the_log(self):
        feeds = [f"f{i}" for i in range(32)]
        listed = "".join(f"  - {{ name: {name}, type: synthetic, messages: 600 }}\n" for name in feeds)
        topics = "".join(f"  - {{ name: {name}, feed: {name}, select: quote, schema: quote, slots: 64, instruments: 16 }}\n"
                         for name in feeds)
        pubd = self.pubd(f"bus: {{ name: b }}\nschemas: [ quote ]\nfeeds:\n{listed}topics:\n{topics}")
        for name in feeds:
            self.says(pubd, f"feed {name}: .*to the end")
        lines = re.findall(r"^\S+ info (\w+)", pubd.err.read_text(), re.M)
        self.assertEqual((lines[:2], lines.count("bus")), (["makes", "bus"], 1))
        self.stop(pubd)

    def test_whoever_asks_during_the_start_is_answered_when_all_topics_are_there(self):
        topics = "".join(f"  - {{ name: t{i}, feed: f, select: quote, schema: quote, slots: 8192 }}\n"
                         for i in range(200))
        path = self.file("slow.bin", add(1) + add(2, time_ns=50000 * 10**9))
        pubd = self.begin(PUBD, self.file("pubd.yaml", f"""bus: {{ name: b }}
schemas: [ quote ]
feeds: [ {{ name: f, {itch(path, ", speed: realtime")} }} ]
topics:
{topics}"""))
        self.until((self.folder / "b.sock").exists, "a socket", pubd)
        patience = ("--timeout", "60000")
        asked = [self.begin(TICKBUS, "topics", "shm:b", "--format", "csv", *patience),
                 self.begin(TICKBUS, "cat", "shm:b", "t199", "--from", "oldest", "--count", "1", *patience)]
        self.assertEqual(len(self.ends(asked[0], 0).splitlines()), 1 + 200)
        self.assertEqual(len(self.ends(asked[1], 0).splitlines()), 1)
        self.stop(pubd)

    def test_an_end_that_is_asked_for_during_the_start_begins_nothing(self):
        pending = ("import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "
                   "os.kill(os.getpid(), signal.SIGTERM); os.execv(sys.argv[1], sys.argv[1:])")
        self.prefix = [sys.executable, "-c", pending]
        pubd = self.begin(PUBD, self.file("pubd.yaml", self.quiet()))
        self.ends(pubd, 0)
        words = pubd.err.read_text()
        self.assertRegex(words, r"info makes 1 topics, \d+ bytes\n.*Terminated from pid \d+; ends\n$")
        self.assertEqual(words.count("\n"), 2, words)
        self.assertEqual(list(self.folder.glob("b.*")), [])

    def test_a_second_sigterm_waits_for_no_subscriber(self):
        feed = "type: synthetic, symbols: 10, rate: 20000, speed: realtime, date: 2024-01-02"
        pubd = self.pubd(settings(feed, ["quote"], bus=", exit_wait_ms: 600000"))
        cat = self.cat("nasdaq.quote")
        self.says(cat, "appeared")
        cat.send_signal(signal.SIGSTOP)
        pubd.send_signal(signal.SIGTERM)
        self.says(pubd, "; ends\n")
        pubd.send_signal(signal.SIGTERM)
        self.ends(pubd, 0)
        self.assertRegex(pubd.err.read_text(), r"; waits for no subscriber\n.*had not read to the end")
        cat.send_signal(signal.SIGCONT)

    def test_an_output_that_is_closed_is_an_error(self):
        path = self.file("pubd.yaml", self.quiet())
        self.prefix = ["sh", "-c", 'exec "$0" "$@" >&-']
        for arguments in (("--print-effective", path), ("--version",), ("--help",)):
            pubd = self.begin(PUBD, *arguments)
            self.ends(pubd, 1)
            self.assertIn("pubd: standard output: Bad file descriptor", pubd.err.read_text())

    def test_sigterm_ends_topics_and_readers_read_to_their_end(self):
        feed = "type: synthetic, symbols: 10, rate: 100000, speed: realtime, date: 2024-01-02"
        pubd = self.pubd(settings(feed, ["quote"]))
        cat = self.cat("nasdaq.quote", "--until-end")
        self.until(lambda: cat.out.exists() and cat.out.stat().st_size > 1000, "rows", cat)
        self.stop(pubd)
        self.ends(cat, 0)
        self.assertEqual(list(self.folder.glob("b.*")), [])

    def test_sighup_opens_the_log_anew(self):
        log = self.folder / "pubd.log"
        text = self.quiet() + f"log: {{ file: {log} }}\n"
        pubd = self.begin(PUBD, self.file("pubd.yaml", text))
        self.until(lambda: log.exists() and "bus b" in log.read_text(), "a log", pubd)
        log.rename(self.folder / "old.log")
        pubd.send_signal(signal.SIGHUP)
        self.until(lambda: log.exists() and "log opened anew" in log.read_text(), "a new log", pubd)
        self.stop(pubd)

    def test_a_killed_pubd_leaves_nothing_to_remove_and_its_successor_is_found(self):
        feed = "type: synthetic, symbols: 10, rate: 20000, speed: realtime, date: 2024-01-02"
        first = self.pubd(settings(feed, ["quote"]))
        cat = self.cat("nasdaq.quote", form="json", start="newest")
        self.until(lambda: cat.out.exists() and cat.out.stat().st_size > 1000, "rows", cat)
        first.kill()
        first.wait()
        self.until(lambda: '"event":"stale"' in cat.out.read_text(), "stale", cat)
        second = self.pubd(settings(feed, ["quote"]), "again.yaml")
        self.until(lambda: '"event":"restart"' in cat.out.read_text(), "restart", cat)
        events = [json.loads(line) for line in cat.out.read_text().splitlines()
                  if '"event":"restart"' in line]
        self.assertNotEqual(events[0]["epoch"], events[0]["old_epoch"])
        self.stop(second)

    def test_a_reader_whose_place_was_taken_is_told_why_it_stays_stale(self):
        feed = "type: synthetic, symbols: 10, rate: 20000, speed: realtime, date: 2024-01-02"
        first = self.pubd(settings(feed, ["quote"]))
        cat = self.cat("nasdaq.quote", form="json", start="newest")
        self.until(lambda: cat.out.exists() and cat.out.stat().st_size > 1000, "rows", cat)
        cat.send_signal(signal.SIGSTOP)
        first.kill()
        first.wait()
        second = self.pubd(settings(feed, ["quote"], bus=", subscribers_max: 1"), "again.yaml")
        other = self.cat("nasdaq.quote", form="json", start="newest")
        self.until(lambda: other.out.exists() and other.out.stat().st_size > 1000, "rows", other)
        cat.send_signal(signal.SIGCONT)
        why = (f'{{"event":"stale","code":{errno.EUSERS},"words":"the publisher has its '
               'maximum number of subscribers"}\n')
        self.until(lambda: why in cat.out.read_text(), "why", cat)
        doctor = self.begin(TICKBUS, "doctor", "shm:b", "--format", "csv")
        doctor.wait(PATIENCE_S)
        self.assertRegex(doctor.out.read_text(), '(?m)^advice,"?shm:b"?,.*its maximum number of subscribers.*subscribers_max')
        other.kill()
        self.until(lambda: '"event":"restart"' in cat.out.read_text(), "restart", cat)
        self.assertEqual(cat.out.read_text().count(why), 1)
        cat.kill()
        self.stop(second)

    def test_closed_standard_descriptors_are_not_mistaken_for_its_own(self):
        self.prefix = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-']
        pubd = self.begin(PUBD, self.file("pubd.yaml", self.quiet()))
        self.prefix = []
        rows = self.ends(self.cat("nasdaq.quote", "--until-end"), 0).splitlines()
        self.assertGreater(len(rows), 10)
        for number in range(3):
            self.assertEqual(os.readlink(f"/proc/{pubd.pid}/fd/{number}"), "/dev/null")
        self.stop(pubd)

    def test_nobody_there_is_status_4_and_an_unknown_topic_3(self):
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quote")
        self.ends(cat, 4)
        self.assertIn("nobody listens", cat.err.read_text())
        pubd = self.pubd(self.quiet())
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quotes")
        self.ends(cat, 3)
        self.assertIn("no topic nasdaq.quotes", cat.err.read_text())
        self.stop(pubd)

    def as_user(self, user):
        """What follows is run by another user, with 8 MiB of lockable memory."""
        os.chmod(self.folder, 0o755)
        limit = ["prlimit", f"--memlock={8 << 20}"]
        self.prefix = [*limit, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]

    def test_a_user_without_permission_is_refused_with_status_3(self):
        self.need_root()
        pubd = self.pubd(self.quiet())
        self.as_user("65534")
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quote")
        self.ends(cat, 3)
        self.assertRegex(cat.err.read_text(), "permission")
        self.prefix = []
        self.stop(pubd)
        allowed = self.quiet(", access: { users: [ nobody ] }")
        pubd = self.pubd(allowed)
        self.as_user("65534")
        cat = self.cat("nasdaq.quote", "--until-end")
        self.assertGreater(len(self.ends(cat, 0).splitlines()), 10)
        self.prefix = []
        self.stop(pubd)

    def test_an_ordinary_user_with_8_mib_of_lockable_memory_runs_everything(self):
        if os.geteuid() == 0:
            self.need_root()
            os.chown(self.folder, 65534, 65534)
            self.as_user("65534")
        else:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))
        path = self.synth("--seed", 2, "--symbols", 50, "--messages", 5000)
        os.chmod(path, 0o644)
        pubd = self.pubd(settings(itch(path), ["quote", "trade"]))
        self.says(pubd, "to the end")
        rows = self.ends(self.cat("nasdaq.quote", "--until-end"), 0).splitlines()
        self.assertGreater(len(rows), 100)
        self.ends(self.begin(TICKBUS, "topics", "shm:b"), 0)
        self.ends(self.begin(TICKBUS, "stat", "shm:b"), 0)
        self.stop(pubd)

    def test_settings_that_are_wrong_are_status_2_with_all_that_is_wrong(self):
        pubd = self.pubd("bus: {}\nfeds: []\n", expect=None)
        self.ends(pubd, 2)
        self.assertRegex(pubd.err.read_text(), r"pubd\.yaml:1:6: bus\.name: found nothing")
        self.assertRegex(pubd.err.read_text(), r"pubd\.yaml:2:1: feds: found an unknown key, did you "
                                               "mean feeds")
        for arguments in ([], ["--nonsense", "x"], ["a", "b"]):
            self.ends(self.begin(PUBD, *arguments), 2)
        self.ends(self.begin(PUBD, "--help"), 0)

    def test_who_shows_a_ticket_reads_the_topics_of_its_realm(self):
        ticket = self.file("desk.ticket", "0123456789abcdef" * 4 + "\n")
        ticket.chmod(0o600)
        realms = "realms: [ { name: desk, ticket_file: desk.ticket, topics: [ nasdaq.quote ] } ]\n"
        pubd = self.pubd(self.quiet() + realms)
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quote", "--count", 1)
        self.ends(cat, 3)
        self.assertIn("shows no ticket", cat.err.read_text())
        cat = self.cat("nasdaq.quote", "--until-end", "--ticket", ticket)
        self.assertGreater(len(self.ends(cat, 0).splitlines()), 10)
        self.stop(pubd)
        ticket.chmod(0o644)
        self.ends(self.begin(PUBD, "--check", self.folder / "pubd.yaml"), 2)

    def test_effective_settings_read_back_to_the_same(self):
        path = self.file("pubd.yaml", self.quiet())
        once = self.ends(self.begin(PUBD, "--print-effective", path), 0)
        twice = self.ends(self.begin(PUBD, "--print-effective", self.file("2.yaml", once)), 0)
        self.assertEqual(once, twice)
        self.ends(self.begin(PUBD, "--check", path), 0)

    def test_what_is_not_built_is_a_plain_error(self):
        for line, words in ((', listen: [ "rdma:10.0.0.1" ]', r'found "rdma:10\.0\.0\.1", expected'),
                            (', hop_limit: 3', "hop_limit: found an unknown key")):
            pubd = self.pubd(self.quiet(line), expect=None)
            self.ends(pubd, 2)
            self.assertRegex(pubd.err.read_text(), words)
        cat = self.begin(TICKBUS, "cat", "tcp:10.0.0.1:7471", "a.b")
        self.ends(cat, 2)
        self.assertIn("expected shm:NAME or rdma:HOST:PORT", cat.err.read_text())

    def test_an_rdma_address_that_no_device_has_is_a_plain_error(self):
        pubd = self.pubd(self.quiet(', listen: [ "shm:", "rdma:192.0.2.1:7471" ]'), expect=None)
        self.ends(pubd, 1)
        self.assertIn("address rdma:192.0.2.1:7471", pubd.err.read_text())
        cat = self.begin(TICKBUS, "cat", "rdma:192.0.2.1:7471", "a.b")
        self.assertIn(cat.wait(PATIENCE_S), (1, 4))
        self.assertIn("rdma:192.0.2.1:7471", cat.err.read_text())


OWN = """name: wide
version: {version}
fields:
  - {{ name: source_time, type: time, doc: When. }}
  - {{ name: bid_price, type: decimal64(6), doc: Best bid. }}
  - {{ name: ask_price, type: {type}, doc: Best ask. }}
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
      - { name: price, type: decimal64(4), doc: Price. }
      - { name: orders, type: u32, doc: Orders. }
      - { name: size, type: u32, doc: Size. }
"""


class Schemas(Bench):
    """A schema that a user wrote works from YAML to rows, and grows at its end."""

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

    def test_own_fields_scales_and_the_feeds_sequence(self):
        pubd = self.publish(OWN.format(version=1, type="decimal64(4)", more=""))
        rows = self.rows()
        self.assertEqual(rows[0], "sequence,time_ns,instrument,kind,source_time,bid_price,ask_price,"
                                  "number")
        self.assertEqual([row.split(",")[5:] for row in rows[1:]],
                         [["1.234500", "0.0000", "1"], ["1.234500", "2.0000", "2"]])
        self.stop(pubd)

    def test_own_groups_pick_levels_and_members(self):
        pubd = self.publish(LEVELS, "depth10")
        rows = self.rows()
        self.assertEqual(rows[0].split(",")[4:7], ["bids[0].price", "bids[0].orders",
                                                   "bids[0].size"])
        self.assertEqual(rows[1].split(",")[4:], ["1.2345", "1", "100"] + ["0.0000", "0", "0"] * 2)
        self.stop(pubd)

    def test_an_appended_field_keeps_an_older_reader_reading(self):
        old = self.file("old.yaml", OWN.format(version=1, type="decimal64(4)", more=""))
        pubd = self.publish(OWN.format(version=2, type="decimal64(4)", more=APPENDED))
        self.assertEqual(len(self.rows("--schema", old)), 3)
        self.stop(pubd)

    def test_any_other_change_is_refused_at_join_and_both_sides_are_named(self):
        for version, kind, more, words in (
                (2, "decimal64(5)", "", r"wide.*ask_price.*decimal64"),
                (2, "i64", "", r"wide.*ask_price.*i64"),
                (1, "decimal64(4)", APPENDED, r"wide.*bid_size")):
            other = self.file("other.yaml", OWN.format(version=version, type=kind, more=more))
            pubd = self.publish(OWN.format(version=1, type="decimal64(4)", more=""))
            cat = self.cat("t", "--schema", str(other))
            self.ends(cat, 3)
            self.assertRegex(cat.err.read_text(), words)
            self.stop(pubd)

    def test_a_schema_that_does_not_fit_is_refused_before_anything_runs(self):
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

    def test_a_user_or_group_that_is_not_there_is_told_with_its_place(self):
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
            words = pubd.err.read_text()
            self.assertIn('pubd.yaml:4:20: bus.access.users[1]: found "nobody-of-this-name", '
                          'expected the name of a user of this machine\n', words)
            self.assertIn('pubd.yaml:5:15: bus.access.groups[0]: found "no-such-group", '
                          'expected the name of a group of this machine\n', words)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
