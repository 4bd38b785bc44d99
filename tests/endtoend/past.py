#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tickbus cat --at and --last: records of the past, by their time and by their number.

    past.py TICKBUS TOOLS_BUS
"""
import csv
import datetime
import io
import random
import sys
import unittest

sys.dont_write_bytecode = True
from tools import Bench  # it reads the same arguments

DAY_NS = 86400 * 10**9


def iso(time_ns):
    second, rest = divmod(time_ns, 10**9)
    day = datetime.datetime.fromtimestamp(second, datetime.timezone.utc)
    return f"{day:%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


class Past(Bench):

    def group(self, messages):
        bus = self.bus()
        bus.ask(f"group {messages}")
        return bus

    def rows(self, *args, topic="t.group"):
        """(sequence, time, instrument) of the rows."""
        table = csv.DictReader(io.StringIO(self.done("cat", "shm:b", topic, "--format=csv", *args)))
        return [(int(row["sequence"]), int(row["time_ns"]), row["instrument"]) for row in table]

    def refused(self, status, words, *args, topic="t.group"):
        result = self.run_tool("cat", "shm:b", topic, *args)
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        self.assertIn(words, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    # -- the last records -------------------------------------------------------------------------

    def test_last_records_are_printed_in_order(self):
        self.bus()
        self.assertEqual([row[0] for row in self.rows("--last=3", topic="t.small")], [998, 999, 1000])
        self.assertEqual([row[0] for row in self.rows("--last=9", topic="t.quote")], [1, 2, 3, 4])

    def test_last_records_of_names_are_printed_in_their_common_order(self):
        self.group(20)
        everything = self.rows("--last=40")
        self.assertEqual([row[0] for row in everything], list(range(1, 41)))
        for names, chosen in (("BB", {"BB"}), ("AA,CC", {"AA", "CC"}), ("[AB]*", {"AA", "BB"})):
            expected = []
            for name in chosen:
                expected += [row for row in everything if row[2] == name][-3:]
            self.assertEqual(self.rows("--last=3", "--names=" + names), sorted(expected), names)

    def test_name_without_a_record_is_reported_with_5(self):
        self.group(2)
        for name, words in (("DD", "no record of DD was found down to record 1"), ("EE", "no instrument EE"),
                            ("Z*", "no instrument matches Z*")):
            result = self.run_tool("cat", "shm:b", "t.group", "--last=1", "--names=BB," + name)
            self.assertEqual(result.returncode, 5, name)
            self.assertIn(words, result.stderr)
            self.assertEqual([row.split()[2] for row in result.stdout.splitlines()], ["BB"])

    # -- by time ----------------------------------------------------------------------------------

    def test_each_form_of_a_time_finds_its_record(self):
        self.group(20)
        everything = self.rows("--last=40")
        newest = everything[-1][1]
        times = sorted({row[1] for row in everything})
        for time_ns in (times[0], times[7], times[7] + 1, newest, newest + DAY_NS // 2):
            expected = [row for row in everything if row[1] <= time_ns][-1:]
            forms = [str(time_ns), iso(time_ns), iso(time_ns)[:-1]]
            if time_ns // DAY_NS == newest // DAY_NS:
                forms += [iso(time_ns)[11:], iso(time_ns)[11:-1]]
            for form in forms:
                self.assertEqual(self.rows("--at", form), expected, form)

    def test_random_times_equal_a_scan(self):
        self.group(500)
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        everything = self.rows("--last=64")
        for _ in range(20):
            time_ns = chance.randrange(everything[0][1], everything[-1][1] + 2)
            back = chance.randrange(1, 5)
            before = [row for row in everything if row[1] <= time_ns]
            found = self.rows(f"--at={time_ns}", f"--back={back}")
            self.assertEqual(found, before[-back - 1:], f"seed {seed}")
            cc = [row for row in before if row[2] == "CC"]
            self.assertEqual(self.rows(f"--at={time_ns}", "--names=CC"), cc[-1:], f"seed {seed}")

    def test_back_0_is_the_default(self):
        self.group(5)
        everything = self.rows("--last=40")
        time_ns = everything[4][1]
        self.assertEqual(self.rows(f"--at={time_ns}", "--back=0"), self.rows(f"--at={time_ns}"))

    def test_seconds_need_no_fraction(self):
        self.group(1)
        first, newest = self.rows("--last=2")
        after = (newest[1] // 10**9 + 1) * 10**9
        self.assertEqual(self.rows("--at", iso(after)[:19]), [newest])
        self.assertEqual(self.rows("--at", iso(after)[:19] + ".5Z"), [newest])

    # -- errors -----------------------------------------------------------------------------------

    def test_time_before_the_oldest_record_names_both_times(self):
        self.group(500)
        oldest = self.rows("--last=64")[0]
        time_ns = oldest[1] - 1
        self.refused(1, f"found time {iso(time_ns)}, expected {iso(oldest[1])} or later: record {oldest[0]}",
                     f"--at={time_ns}")

    def test_topic_without_rising_times_is_refused_with_3(self):
        self.bus()
        self.refused(3, "topic t.small: its times need not rise", "--at=5", topic="t.small")
        self.refused(1, "topic t.empty: it has no record yet", "--last=5", topic="t.empty")
        self.refused(3, "has no topic t.none", "--last=5", topic="t.none")

    def test_wrong_times_are_usage_errors(self):
        for text in ("", "now", "9:30:00", "24:00:00", "09:30", "09:30:60", "09:30:00.", "09:30:00.1234567890",
                     "09:30:00.1x", "2026-02-30T00:00:00", "2026-01-30", "2026-01-30T09:30:00+01:00",
                     "1969-12-31T23:59:59Z", "2600-01-01T00:00:00Z", "18446744073709551616", "-1", "1e9"):
            self.refused(2, f"--at: found \"{text}\", expected a time in UTC", "--at=" + text)

    def test_times_out_of_range_name_the_range(self):
        for text, words in (("2600-01-01T00:00:00Z", "on a day from 1970-01-01T00:00:00Z to 2554-07-21T23:34:32Z"),
                            ("2026-02-30T00:00:00.5", "on a day from 1970"), ("24:00:00", "from 00:00:00 to 23:59:59.9"),
                            ("18446744073709551616", "at most 18446744073709551615 nanoseconds"),
                            ("9:30:00", "as 2026-01-30T09:30:00.0012Z"), ("09:30:00.1x", "as 2026-01-30T09:30:00.0012Z")):
            self.refused(2, f"found \"{text}\", expected a time in UTC" + (" " if words[:3] == "as " else ", ") + words,
                         "--at=" + text)

    def test_options_that_follow_a_topic_are_refused(self):
        for option in ("--from=oldest", "--gap=newest", "--count=3", "--until-end", "--conflate=1s", "--merge"):
            self.refused(2, f"found {option.split('=')[0]} with --last, expected one of them", "--last=3", option)
        self.refused(2, "found --at with --last", "--last=3", "--at=5")
        self.refused(2, "found --back without --at", "--back=3")
        self.refused(2, "found --back without --at", "--back=0")
        self.refused(2, "found --back without --at", "--back=3", "--last=3")
        self.refused(2, "found pattern \"t.*\" with --at", "--at=5", topic="t.*")

    # -- waiting ----------------------------------------------------------------------------------

    def test_last_records_are_waited_for_until_the_topic_is_there(self):
        process = self.begin("cat", "shm:b", "t.group", "--last=1", "--wait")
        self.assertIn("waits: address shm:b: no publisher listens there", process.stderr.readline())
        self.group(1)
        out, _ = process.communicate()
        self.assertIn(process.returncode, (0, 1), "the topic had no record yet")
        self.assertEqual(out.count("\n"), 1 - process.returncode)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
