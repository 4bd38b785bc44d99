#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A merged day: the rows of all topics of a feed, in the order that an independent program derives.

    pubd_merge.py PUBD TICKBUS ORACLE CLASS
"""
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from pubd import AAPL, ORACLE, TICKBUS, Bench, itch, settings  # it reads the same arguments

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

    def test_real_day_is_merged_as_the_oracle_says(self):
        self.need_data()
        self.expect_equal(AAPL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
