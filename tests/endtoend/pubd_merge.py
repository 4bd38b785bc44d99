#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A merged day: the rows of all topics of a feed, in the order that an independent program derives.

    pubd_merge.py PUBD TICKBUS ORACLE CLASS
"""
import errno
import json
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from pubd import AAPL, ORACLE, TICKBUS, TOPIC, Bench, itch, settings  # it reads the same arguments

SELECTS = ("quote", "trade", "status", "definition")


class Merges(Bench):

    def merged(self, path, selects):
        """The file of a recorder that reads all topics of a day from their first record to their end."""
        more = f", at_end: exit, start: {{ subscribers: {len(selects)} }}"
        pubd = self.pubd(settings(itch(path, more), selects, ", slots: 131072"))
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.*", "--merge", "--format", "csv", "--from", "oldest",
                         "--until-end", "--wait")
        self.ends(cat, 0)
        self.ends(pubd, 0)
        self.assertNotRegex(cat.err.read_text(), " (gap|left|refused) ")
        return cat.out

    def judge(self, path, selects, rows):
        """The oracle's exit status, and what it found. A day without its beginning begins with a record that says so."""
        first = 1 if path.read_bytes()[2:14:11] == b"SO" else 2
        done = subprocess.run([sys.executable, ORACLE, str(path), "--merge", ",".join(selects), "--prefix", "nasdaq.",
                               "--date", "2019-12-30", "--compare", str(rows), "--first", str(first)], text=True,
                              capture_output=True, timeout=600)
        return done.returncode, done.stdout + done.stderr

    def expect_equal(self, path, selects=SELECTS):
        rows = self.merged(path, selects)
        status, found = self.judge(path, selects, rows)
        self.assertEqual(status, 0, found)
        return rows

    def expect_fires(self, path, selects, rows):
        """The comparison finds rows in another order, a wrong byte, a missing row, and a time that does not rise."""
        lines = rows.read_text().splitlines()
        at = next(i for i in range(len(lines) - 2, 0, -1)
                  if lines[i].split(",")[0] != lines[i + 1].split(",")[0]
                  and "sequence" not in (lines[i].split(",")[1], lines[i + 1].split(",")[1]))
        late = lines[-1].split(",")
        late[2] = lines[1].split(",")[2]
        for changed in (lines[:at] + [lines[at + 1], lines[at]] + lines[at + 2:], lines[:-1],
                        lines[:-1] + [lines[-1] + "1"], lines[:-1] + [",".join(late)]):
            status, found = self.judge(path, selects, self.file("changed", "\n".join(changed) + "\n"))
            self.assertEqual(status, 1, found)

    def test_synthetic_day_is_merged_as_the_oracle_says(self):
        self.expect_equal(self.synth("--seed", 21, "--symbols", 300, "--messages", 40000))

    def test_order_in_a_message_is_that_of_the_settings(self):
        path, selects = self.synth("--seed", 22, "--symbols", 20, "--messages", 5000), ("trade", "depth10", "quote")
        self.expect_fires(path, selects, self.expect_equal(path, selects))

    def two_feeds(self):
        """A bus with two feeds that are read to their ends."""
        feed = "type: synthetic, messages: 5000, symbols: 10, date: 2024-01-02"
        topics = [TOPIC.format(feed=feed, select=select, more="") for feed, select in
                  (("one", "quote"), ("one", "trade"), ("two", "quote"))]
        pubd = self.pubd("bus: { name: b }\nschemas: [ quote, trade ]\nfeeds:\n" +
                         "".join(f"  - {{ name: {name}, {feed} }}\n" for name in ("one", "two")) +
                         "topics:\n" + "".join(f"  - {topic}\n" for topic in topics))
        for name in ("one", "two"):
            self.says(pubd, f"feed {name}: read 5000 messages, to the end")
        return pubd

    def read(self, *args, form="json"):
        cat = self.begin(TICKBUS, "cat", "shm:b", *args, "--merge", "--until-end", "--format", form)
        self.ends(cat, 0)
        return [json.loads(line) for line in cat.out.read_text().splitlines()] if form == "json" else cat

    def test_topics_of_another_group_are_refused(self):
        pubd = self.two_feeds()
        lines = self.read("*.quote", "--from", "oldest")
        kept, = {line["topic"] for line in lines if "instrument" in line}
        refused, = [line for line in lines if line.get("event") == "refused"]
        self.assertEqual({kept, refused["topic"]}, {"one.quote", "two.quote"})
        self.assertEqual(refused["code"], errno.EINVAL)
        self.assertRegex(refused["words"], "found group [12], expected group [12] ")
        self.stop(pubd)

    def test_image_of_a_merge_is_complete_at_one_time(self):
        pubd = self.two_feeds()
        lines = self.read("one.*", "--from", "image")
        complete, = [line for line in lines if line.get("event") == "complete"]
        values = [line for line in lines if "instrument" in line]
        self.assertEqual(complete["topic"], "one.*")
        self.assertGreaterEqual(complete["time_ns"], max(line["time_ns"] for line in values))
        self.assertEqual({line["image"] for line in values}, {True})
        self.assertEqual({line["topic"] for line in values}, {"one.quote", "one.trade"})
        cat = self.read("one.*", "--from", "image", form="text")
        self.assertRegex(cat.err.read_text(), r"\btickbus cat: complete topic=one\.\* time=20\S+T\S+\.\d{9}Z\n")
        self.stop(pubd)

    def test_real_day_is_merged_as_the_oracle_says(self):
        self.need_data()
        self.expect_equal(AAPL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
