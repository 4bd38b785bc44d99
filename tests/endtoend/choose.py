#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tickbus cat with chosen instruments: names, watch lists, conflation and their accounts.

    choose.py TICKBUS TOOLS_BUS
"""
import json
import os
import re
import signal
import sys
import unittest

sys.dont_write_bytecode = True
from tools import PATIENCE_S, Bench  # it reads the same arguments


class Choose(Bench):

    def file(self, text, name="names"):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def live(self, *lines):
        """A bus, and what its topic t.live publishes."""
        bus = self.bus()
        for line in lines:
            bus.ask(line)
        return bus

    def read(self, *args, topic="t.live"):
        """The instruments of the rows, and the messages, of a topic that has ended."""
        out, events = self.events("shm:b", topic, *args, "--until-end")
        return [row.split()[2] for row in out.splitlines()], events

    @staticmethod
    def account(events):
        line, = (line for line in events if line.startswith("account "))
        return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}

    def expect_sum(self, events, published):
        counts = self.account(events)
        found = sum(number for name, number in counts.items() if name in ("records", "skipped") or "lost_" in name)
        self.assertEqual(found, published, counts)
        return counts

    # -- names ------------------------------------------------------------------------------------

    def test_only_records_of_the_names_are_printed(self):
        self.live(*("name " + name for name in ("AA", "B", "AB", "C", "AA", "D")), "end")
        path = self.file("# a comment\n\n  D \r\nC\n")
        for names, expected in ((["AA,C"], ["AA", "C", "AA"]), (["A*"], ["AA", "AB", "AA"]),
                                (["@" + path], ["C", "D"]), (["@" + path, "B, AB"], ["B", "AB", "C", "D"]),
                                (["[!A]"], ["B", "C", "D"]), (["@/dev/null"], [])):
            rows, events = self.read("--from=oldest", *(f"--names={name}" for name in names))
            self.assertEqual(rows, expected, names)
            counts = self.expect_sum(events, 6)
            self.assertEqual(counts["records"], len(expected))

    def test_account_with_names_adds_up_after_an_overrun(self):
        self.live("mix 1000", "end")
        rows, events = self.read("--from=oldest", "--names=M1,M3")
        self.assertEqual(set(rows), {"M1", "M3"})
        counts = self.expect_sum(events, 1000)
        self.assertEqual((counts["records"], counts["lost_before_join"]), (len(rows), 936))
        self.assertGreater(counts["skipped"], 0)

    def test_account_is_the_last_object_of_json(self):
        self.live("name A", "name B", "end")
        out = self.done("cat", "shm:b", "t.live", "--from=oldest", "--until-end", "--names=A", "--format=json")
        account = json.loads(out.splitlines()[-1])
        self.assertEqual((account["event"], account["records"], account["skipped"]), ("account", 1, 1))

    def test_name_that_is_not_there_is_reported_and_awaited(self):
        bus = self.live("name A")
        process = self.begin("cat", "shm:b", "t.live", "--names=LATE,X*,A", "--count=2")
        self.assertIn("appeared", process.stderr.readline())
        missing = {re.search(r" no_instrument topic=t\.live name=(\S+)\n", process.stderr.readline())[1] for _ in "12"}
        self.assertEqual(missing, {"LATE", "X*"})
        for name in ("OTHER", "LATE", "XY"):
            bus.ask("name " + name)
        out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual([row.split()[2] for row in out.splitlines()], ["LATE", "XY"])

    def test_required_name_that_is_not_there_is_refused_with_3(self):
        self.live("name A")
        result = self.run_tool("cat", "shm:b", "t.live", "--names=A,NONE", "--names-required")
        self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
        self.assertIn("NONE", result.stderr)

    def test_required_name_is_refused_once_also_with_a_pattern(self):
        self.live("name A")
        result = self.run_tool("cat", "shm:b", "t.live", "--names=NONE", "--names-required")
        self.assertEqual(result.stderr.count("found no instrument NONE"), 1, result.stderr)
        process = self.begin("cat", "shm:b", "t.*", "--names=A", "--names-required")
        lines = [process.stderr.readline() for _ in range(5)]
        self.assertEqual(sum(" refused topic=" in line for line in lines), 4, lines)
        self.assertEqual(sum(" appeared topic=t.live " in line for line in lines), 1, lines)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertNotIn("refused", err)

    def test_list_without_names_is_reported(self):
        self.live("name A", "end")
        path = self.file("# AAPL\n")
        _, events = self.read("--from=oldest", "--names=@" + path)
        self.assertIn("--names: found no names, so no records are printed", events)

    def test_wrong_file_of_names_is_reported_with_its_line(self):
        for text, message in (("A\n" + "N" * 25 + "\n", ':2: found "NNNNNNNNNNNNNNNNNNNNNNNNN" of 25 bytes'),
                              ("\n\n" + "*" * 128, ":3: found "), (b"A\nB\x00C\n", ":2: found a byte that is not"),
                              (b"\xff\n", ":1: found a byte that is not"),
                              (b"\xef\xbb\xbfA\n", ":1: found a byte order mark, expected"),
                              ("A\n".encode("utf-16"), ":1: found a byte order mark of UTF-16, expected"),
                              ("A\nB\xa0\n", ":2: found a non-breaking space, expected"),
                              ("\n".join(map(str, range(65537))), "found 65537 names, expected at most 65536"),
                              (b"#" * (16 << 20) + b"#", "found more than 16 MiB")):
            path = self.file(text)
            result = self.run_tool("cat", "shm:b", "t.live", "--names=@" + path)
            self.assertEqual((result.returncode, result.stdout), (1, ""), message)
            self.assertEqual(len(result.stderr.splitlines()), 1)
            self.assertTrue(result.stderr.startswith(f"tickbus cat: --names: {path}:"), result.stderr)
            self.assertIn(message, result.stderr)
        for path, message in (("/nowhere", "No such file"), (self.folder, "Is a directory")):
            result = self.run_tool("cat", "shm:b", "t.live", "--names=@" + path)
            self.assertEqual(result.returncode, 1)
            self.assertTrue(result.stderr.startswith(f"tickbus cat: --names: {path}: "), result.stderr)
            self.assertIn(message, result.stderr)

    def hang_up(self, process, expected):
        process.send_signal(signal.SIGHUP)
        self.assertIn(expected, process.stderr.readline())

    def test_hangup_reads_the_names_again(self):
        bus = self.live("known A", "known B", "known C")
        path = self.file("A\nB\n")
        process = self.begin("cat", "shm:b", "t.live", "--names=@" + path, "--names=C")
        self.assertIn("appeared", process.stderr.readline())

        def printed(*names):
            """Publishes D, A, B and C. The last of them, always in the list, proves that no other was printed."""
            for name in "DABC":
                bus.ask("name " + name)
            self.assertEqual([process.stdout.readline().split()[2] for _ in names], list(names))
        printed("A", "B", "C")
        self.file("B\nD\n")
        self.hang_up(process, "names: 1 added, 1 removed, now 3\n")
        printed("D", "B", "C")
        self.file("B\n" + "N" * 25)
        self.hang_up(process, ":2: found ")
        printed("D", "B", "C")
        os.unlink(path)
        self.hang_up(process, "No such file")
        printed("D", "B", "C")
        self.file("")
        self.hang_up(process, "names: 0 added, 2 removed, now 1\n")
        printed("C")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out), (0, ""))
        self.expect_sum([line.replace("tickbus cat: ", "") for line in err.splitlines()], 20)

    def test_hangup_leaves_the_names_of_a_pipe(self):
        bus = self.live("known A", "known B")
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        process = self.begin("cat", "shm:b", "t.live", "--names=@" + pipe)
        with open(pipe, "w") as file:
            file.write("B\n")
        self.assertIn("appeared", process.stderr.readline())
        self.hang_up(process, f"tickbus cat: --names: {pipe}: found a pipe or device, expected a regular file")
        bus.ask("name A")
        bus.ask("name B")
        self.assertEqual(process.stdout.readline().split()[2], "B")

    def test_hangup_reports_the_line_of_a_required_name(self):
        bus = self.live("known A", "known B")
        path = self.file("A\n")
        process = self.begin("cat", "shm:b", "t.live", "--names=@" + path, "--names-required")
        self.assertIn("appeared", process.stderr.readline())
        self.file("# two\nB\nNONE\n")
        self.hang_up(process, f"tickbus cat: --names: {path}:3: ")
        bus.ask("name B")
        bus.ask("name A")
        self.assertEqual(process.stdout.readline().split()[2], "A")

    def test_interrupt_beside_a_hangup_ends_the_command(self):
        self.live("known A")
        path = self.file("A\n")
        process = self.begin("cat", "shm:b", "t.live", "--names=@" + path)
        self.assertIn("appeared", process.stderr.readline())
        process.send_signal(signal.SIGSTOP)  # so that both signals are there when it goes on
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0)

    def test_hangup_without_a_file_ends_the_command(self):
        # The test may run under nohup: its children must not ignore the signal.
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))
        self.live("known A")
        process = self.begin("cat", "shm:b", "t.live", "--names=A")
        self.assertIn("appeared", process.stderr.readline())
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(PATIENCE_S), -signal.SIGHUP)

    # -- watch lists ------------------------------------------------------------------------------

    def test_watch_prints_values_and_what_changed(self):
        bus = self.live("name A", "name B", "name C", "name A")
        process = self.begin("cat", "shm:b", "t.live", "--names=A,B", "--watch=poll", "--format=csv")
        self.assertEqual(process.stdout.readline().split(",")[:2], ["sequence", "time_ns"])

        def rows(count):
            found = [process.stdout.readline().split(",") for _ in range(count)]
            return sorted((row[2], int(row[0]), row[3]) for row in found)
        self.assertEqual(rows(2), [("A", 4, "update"), ("B", 2, "update")])
        bus.ask("name C")
        bus.ask("name B")
        self.assertEqual(rows(1), [("B", 6, "update")])
        bus.ask("clear A")
        self.assertEqual(rows(1), [("A", 7, "clear")])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out), (0, ""))
        counts = self.account([line.replace("tickbus cat: ", "") for line in err.splitlines()])
        self.assertEqual((counts["records"], counts["values"]), (0, 4))

    def test_watch_takes_an_interval(self):
        self.live("name A", "name B")
        out, _ = self.events("shm:b", "t.live", "--names=*", "--watch=20ms", "--count=2")
        self.assertEqual(sorted(row.split()[2:4] for row in out.splitlines()), [["A", "update"], ["B", "update"]])

    def test_watch_of_a_topic_without_values_is_refused_with_3(self):
        bus = self.live()
        bus.ask("plain")
        result = self.run_tool("cat", "shm:b", "t.plain", "--names=ACME", "--watch=poll")
        self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
        self.assertIn("no last values", result.stderr)

    # -- conflation -------------------------------------------------------------------------------

    def newest(self, *args):
        """The rows of a conflated day of 60 mixed records, and the account."""
        self.live("mix 60", "end")
        out, events = self.events("shm:b", "t.live", "--from=oldest", "--until-end", *args)
        counts = self.expect_sum(events, 60)
        return [(int(row.split()[0]), *row.split()[2:4]) for row in out.splitlines()], counts

    def test_conflation_prints_the_newest_record_of_each_instrument(self):
        rows, counts = self.newest("--conflate=20ms")
        values = {}
        for n in range(1, 61):
            if n % 7 or n % 11 == 0:
                values[f"M{n * n % 13}"] = (n, "clear" if n % 11 == 0 else "update")
        last = {name: (sequence, kind) for sequence, name, kind in rows}
        self.assertEqual({name: value for name, value in last.items() if value[1] != "clear"},
                         {name: value for name, value in values.items() if value[1] != "clear"})
        self.assertEqual(len(rows), len(last))
        self.assertEqual(counts["records"] + counts["image_records"], len(rows))

    def test_exempt_kind_is_printed_completely(self):
        rows, _ = self.newest("--conflate=20ms", "--exempt=cancel,130")
        cancels = [sequence for sequence, _, kind in rows if kind == "cancel"]
        self.assertEqual(cancels, [n for n in range(1, 61) if n % 7 == 0 and n % 11])

    def test_exempt_topic_is_printed_completely(self):
        rows, counts = self.newest("--conflate=20ms", "--exempt-topic=t.l*")
        self.assertEqual([row[0] for row in rows], list(range(1, 61)))
        self.assertEqual(counts["skipped"], 0)

    def test_wrong_pattern_of_exempt_topics_is_named(self):
        self.live()
        result = self.run_tool("cat", "shm:b", "t.live", "--conflate=1s", "--exempt-topic=t.*", "--exempt-topic=A..b")
        self.assertEqual(result.returncode, 2)
        self.assertIn('exempt topic 2: topic pattern: found "A..b"', result.stderr)

    def test_lap_inside_an_interval_is_no_loss(self):
        bus = self.live()
        process = self.begin("cat", "shm:b", "t.live", "--conflate=60s", "--until-end")
        self.assertIn("appeared", process.stderr.readline())
        bus.ask("mix 1000")  # the ring has 64 slots
        bus.ask("end")       # and with it the interval
        out, err = process.communicate(timeout=PATIENCE_S)
        events = [line.replace("tickbus cat: ", "") for line in err.splitlines()]
        self.assertFalse(any(line.startswith("gap") for line in events), err)
        counts = self.expect_sum(events, 1000)
        self.assertEqual((counts["lost_overrun"], counts["records"]), (0, len(out.splitlines())))

    def test_merge_of_a_topic_without_a_group_is_refused_with_3(self):
        self.live()
        result = self.run_tool("cat", "shm:b", "t.live", "--merge")
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("topic t.live: found no group, expected a topic of a group", result.stderr)

    def test_conflation_as_fast_as_it_polls(self):
        rows, counts = self.newest("--conflate=poll", "--names=M1,M3")
        self.assertLessEqual({name for _, name, _ in rows}, {"M1", "M3"})
        self.assertEqual(counts["records"] + counts["image_records"], len(rows))

    # -- which options go together ----------------------------------------------------------------

    def test_wrong_options_are_named(self):
        for args, message in (
                (["--names=A,,B"], '--names: found "" of 0 bytes'), (["--names="], '--names: found "" of 0'),
                (["--names=@"], '--names: found "@", expected the path of a file'),
                (["--names=" + "N" * 25], "of 25 bytes, expected a name of 1 to 24"),
                (["--names-required"], "found --names-required without --names"),
                (["--watch=poll"], "found --watch without --names"),
                (["--names=A", "--watch=1m"], '--watch: found "1m"'), (["--conflate=0ms"], '--conflate: found "0ms"'),
                (["--conflate=61s"], '--conflate: found "61s"'), (["--conflate=250"], '--conflate: found "250"'),
                (["--conflate="], '--conflate: found ""'), (["--conflate=-1s"], '--conflate: found "-1s"'),
                (["--exempt=cancel"], "found --exempt without --conflate"),
                (["--exempt-topic=>"], "found --exempt-topic without --conflate"),
                (["--conflate=1s", "--exempt=canceled"], '--exempt: found "canceled"'),
                (["--conflate=1s", "--exempt=256"], '--exempt: found "256"'),
                (["--conflate=1s", "--exempt=0"], '--exempt: found "0"'),
                (["--names=A", "--watch=1s", "--conflate=1s"], "found --watch with --conflate"),
                (["--names=A", "--watch=1s", "--merge"], "found --watch with --merge"),
                (["--names=A", "--watch=1s", "--strict"], "found --watch with --strict"),
                (["--names=A", "--watch=1s", "--from=oldest"], "found --watch with another start"),
                (["--names=A", "--watch=1s", "--gap=newest"], "found --watch with --gap"),
                (["--conflate=1s", "--merge"], "found --conflate with --merge"),
                (["--conflate=1s", "--strict"], "found --conflate with --strict"),
                (["--conflate=1s", "--gap=image"], "found --conflate with --gap"),
                (["--merge", "--strict"], "found --merge with --strict"),
                (["--merge", "--gap=image"], "found --merge with --gap image"),
                (["--merge", "--from=3"], "found --merge with --from with a sequence"),
                (["--conflate=1s"] + ["--exempt-topic=t"] * 257, "found more than 256 --exempt-topic")):
            result = self.run_tool("cat", *args, "shm:b", "t")
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertIn(message, result.stderr)
            self.assertRegex(result.stderr, r"\Atickbus cat: [^\n]*'tickbus cat --help' [^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
