#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tickbus command against a bus whose every byte is known: its output and its exit statuses.

    tools.py TICKBUS TOOLS_BUS
"""
import errno
import fcntl
import itertools
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TICKBUS, TOOLS_BUS = sys.argv[1:3]
PATIENCE_S = 60
UID = os.geteuid()
USER = pwd.getpwuid(UID).pw_name
QUOTE = "bid_price,ask_price,bid_size,ask_size,source_time"
HEADER = "sequence,time_ns,instrument,kind," + QUOTE + "\n"


class Bus:
    def __init__(self, name, folder, *more):
        self.env = dict(os.environ, TICKBUS_RUNTIME_DIR=folder)
        self.process = subprocess.Popen([TOOLS_BUS, name, *more], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env=self.env)
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(PATIENCE_S) == 0


class Bench(unittest.TestCase):
    """A folder, a bus in it, and commands that end with the test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickbus-tools-")
        self.env = dict(os.environ, TICKBUS_RUNTIME_DIR=self.folder)
        self.addCleanup(shutil.rmtree, self.folder)
        self.maxDiff = None

    def bus(self, *more):
        bus = Bus("b", self.folder, *more)
        self.addCleanup(bus.close)
        return bus

    def run_tool(self, *args, **more):
        more = dict(dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE), **more)
        return subprocess.run([TICKBUS, *args], text=True, env=self.env, timeout=PATIENCE_S, **more)

    def begin(self, *args, **more):
        more = dict(dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE), **more)
        process = subprocess.Popen([TICKBUS, *args], text=True, env=self.env, **more)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
        self.addCleanup(end)
        return process

    def done(self, *args):
        result = self.run_tool(*args)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        return result.stdout

    def events(self, *args):
        """Standard output, and the events of standard error."""
        result = self.run_tool("cat", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = re.sub(r"epoch=[0-9a-f]{16}", "epoch=E", result.stderr)
        return result.stdout, lines.replace("tickbus cat: ", "").splitlines()


class Tools(Bench):

    # -- usage ------------------------------------------------------------------------------------

    def test_usage_errors_exit_2_in_one_line_with_a_hint(self):
        for args in (["nothing"], ["-z"], ["cat"], ["cat", "shm:b"], ["cat", "shm:b", "t", "more"],
                     ["cat", "--nothing", "shm:b", "t"], ["cat", "-z", "shm:b", "t"],
                     ["cat", "shm:b", "t", "--count"], ["cat", "--count=0", "shm:b", "t"],
                     ["cat", "--count=-1", "shm:b", "t"], ["cat", "--count=1x", "shm:b", "t"],
                     ["cat", "--count=18446744073709551616", "shm:b", "t"],
                     ["cat", "--wait=1", "shm:b", "t"],
                     ["cat", "--timeout=0", "shm:b", "t"], ["topics", "--timeout=60001", "shm:b"],
                     ["stat", "--timeout=1s", "shm:b"], ["doctor", "--timeout=", "shm:b"],
                     ["cat", "--from=images", "shm:b", "t"], ["cat", "--from=0", "shm:b", "t"],
                     ["cat", "--from=12:1", "shm:b", "t"], ["cat", "--from=:1", "shm:b", "t"],
                     ["cat", "--from=7a060e162dabe845:", "shm:b", "t"],
                     ["cat", "--gap=both", "shm:b", "t"], ["cat", "--gap=", "shm:b", "t"],
                     ["cat", "--from=image", "--strict", "shm:b", "t"], ["cat", "--gap=image", "--strict", "shm:b", "t"],
                     ["cat", "--from=7a060e162dabe845:0", "shm:b", "t"],
                     ["cat", "--from=0000000000000000:1", "shm:b", "t"],
                     ["cat", "--format=xml", "shm:b", "t"],
                     ["cat", "--spreadsheet", "shm:b", "t"], ["topics", "--spreadsheet", "shm:b"],
                     ["stat", "--spreadsheet", "--format=json", "shm:b"], ["stat", "--count=2", "shm:b"],
                     ["stat", "--interval=0.09", "shm:b"], ["stat", "--interval=86400.1", "shm:b"],
                     ["stat", "--interval=-1", "shm:b"], ["stat", "--interval=1s", "shm:b"],
                     ["stat", "--interval=0.1234", "shm:b"], ["stat", "--interval=", "shm:b"],
                     ["topics"], ["stat", "shm:b", "t"], ["schema", "check"],
                     ["schema", "burn", "quote"],
                     ["synth", "f"], ["synth", "--messages=9", "--seconds=9", "f"],
                     ["synth", "--messages=1000", "--burst=1", "f"]):
            result = self.run_tool(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertRegex(result.stderr, r"\Atickbus[^\n]*'tickbus[^\n]* --help' [^\n]*\n\Z", args)

    def test_no_command_exits_2_and_prints_the_usage(self):
        result = self.run_tool()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", self.done("--help")))

    def test_wrong_address_or_pattern_exits_2(self):
        self.bus()
        for args in (["topics", "tcp:b"], ["stat", "b"], ["cat", "tcp:b", "t"], ["doctor", "b"],
                     ["cat", "shm:b", "T"], ["topics", "shm:b", "a..b"]):
            result = self.run_tool(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertRegex(result.stderr, "expected", args)

    def test_help_and_version_exit_0(self):
        self.assertRegex(self.done("--version"), r"^tickbus \d+\.\d+\.\d+\n$")
        commands = re.findall(r"^  ([a-z]+) +\S", self.done("--help"), re.M)
        self.assertEqual(commands, ["topics", "cat", "get", "stat", "schema", "synth", "doctor"])
        for command in commands:
            self.assertRegex(self.done(command, "--help"), r"^usage: tickbus " + command)
            self.assertEqual(self.done(command, "-h"), self.done(command, "--help"))
            for option in "--version", "-V":
                self.assertEqual(self.done(command, option), self.done("--version"))
        self.assertEqual((self.done("-h"), self.done("-V")), (self.done("--help"), self.done("--version")))

    # -- tickets ----------------------------------------------------------------------------------

    def ticket(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_client_with_a_ticket_sees_topics_of_its_realm(self):
        ticket = self.ticket("desk", "5a" * 32 + "\n")
        self.bus(ticket)
        show = "--ticket=" + ticket
        rows = self.done("topics", "shm:b", show, "--format=csv").splitlines()[1:]
        self.assertEqual([row.split(",")[0] for row in rows], ["t.quote", "t.live"])
        rows = self.done("stat", "shm:b", show, "--format=csv").splitlines()
        self.assertEqual({row.split(",")[1] for row in rows if row.startswith("topic,")}, {"t.quote", "t.live"})
        self.assertEqual([row for row in rows if row.startswith(("feed,", "unpublished,"))], [])
        out = self.run_tool("cat", "shm:b", "t.quote", show, "--from=oldest", "--until-end", "--format=csv")
        self.assertEqual((out.returncode, len(out.stdout.splitlines())), (0, 5), out.stderr)
        result = self.run_tool("cat", "shm:b", "t.small", show)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("no topic t.small", result.stderr)

    def test_client_without_a_valid_ticket_is_refused_with_3(self):
        self.bus(self.ticket("desk", "5a" * 32))
        other = self.ticket("other", "5b" * 32)
        for shown, message in (([], "has no ticket"), (["--ticket", other], "does not know the ticket")):
            for args in (["topics", "shm:b"], ["stat", "shm:b"], ["cat", "shm:b", "t.quote"],
                     ["get", "shm:b", "t.quote"]):
                result = self.run_tool(*args, *shown)
                self.assertEqual((result.returncode, result.stdout), (3, ""), args)
                self.assertIn(message, result.stderr, args)

    def test_client_refused_by_the_next_publisher_ends_with_3(self):
        bus = Bus("b", self.folder)
        readers = [self.begin("cat", "shm:b", what, "--from=oldest") for what in ("t.quote", "t.*", ">")]
        for reader in readers:  # a record is printed once all present topics are joined
            self.assertTrue(reader.stdout.readline())
        bus.close()
        self.bus(self.ticket("desk", "5a" * 32))
        for reader in readers:
            message = reader.communicate(timeout=PATIENCE_S)[1]
            self.assertEqual(reader.returncode, 3, message)
            self.assertIn("has no ticket", message.splitlines()[-1])

    def test_unreadable_ticket_is_reported_before_connecting(self):
        good = "5a" * 32
        for name, text, mode, message in (("open", good, 0o644, "permissions 644"), ("short", good[1:], 0o600, "found 63 hexadecimal digits, expected 64")):
            path = self.ticket(name, text, mode)
            for args in (["topics", "shm:b"], ["stat", "shm:b"], ["cat", "shm:b", "t"], ["get", "shm:b", "t"]):
                result = self.run_tool(*args, "--ticket", path)
                self.assertEqual((result.returncode, result.stdout), (1, ""), args)
                self.assertIn(message, result.stderr)
                self.assertNotIn(good[1:], result.stderr)

    # -- missing or silent publishers -------------------------------------------------------------

    def test_without_a_publisher_the_status_is_4(self):
        for args in (["topics", "shm:b"], ["stat", "shm:b"], ["cat", "shm:b", "t"], ["get", "shm:b", "t"]):
            result = self.run_tool(*args)
            self.assertEqual((result.returncode, result.stdout), (4, ""), args)
            self.assertIn("no publisher listens there", result.stderr)

    def test_silent_publisher_is_waited_for_as_long_as_given(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.bind(os.path.join(self.folder, "b.sock"))
            silent.listen(16)
            for args in (["topics", "shm:b"], ["stat", "shm:b"], ["cat", "shm:b", "t"], ["get", "shm:b", "t"]):
                result = self.run_tool(*args, "--timeout", "70")
                self.assertEqual((result.returncode, result.stdout), (4, ""), args)
                self.assertEqual(result.stderr, f"tickbus {args[0]}: shm:b: no answer within 70 ms\n")
            result = self.run_tool("doctor", "shm:b", "--timeout", "80", "--format=json")
            rows = [json.loads(line) for line in result.stdout.splitlines()]
            self.assertEqual([(row["verdict"], row["found"]) for row in rows if row["about"] == "shm:b"],
                             [("bad", "shm:b: no answer within 80 ms")])
            for args in (["topics", "shm:b"], ["cat", "shm:b", "t"], ["get", "shm:b", "t"]):
                self.assertIn("no answer within 3000 ms", self.run_tool(*args).stderr)

    def test_options_of_one_name_have_the_same_text(self):
        texts = {}
        for command in ("topics", "cat", "get", "stat", "doctor"):
            for option, message in re.findall(r"^  --(\S+) +(.*)$", self.done(command, "--help"), re.M):
                texts.setdefault(option, {})[command] = message
        for option in ("timeout=MS", "ticket=FILE"):
            self.assertEqual(set(texts[option]), {"topics", "cat", "get", "stat", "doctor"})
            self.assertEqual(len(set(texts[option].values())), 1, option)

    def test_unknown_topic_is_refused_with_3(self):
        self.bus()
        for command in ("cat", "topics", "get"):
            result = self.run_tool(command, "shm:b", "t.none")
            self.assertEqual((result.returncode, result.stdout), (3, ""), command)
            self.assertTrue(result.stderr.endswith("no topic t.none\n"), result.stderr)

    def test_topic_of_another_realm_suggests_a_ticket(self):
        ticket = self.ticket("desk", "5a" * 32)
        self.bus(ticket, "t.small")
        for command in ("cat", "topics", "get"):
            for shown, topic, message in (([], "t.quote", "for clients without a ticket"),
                                          (["--ticket", ticket], "t.small", "for this ticket")):
                result = self.run_tool(command, "shm:b", topic, *shown)
                self.assertEqual((result.returncode, result.stdout), (3, ""), command)
                self.assertTrue(result.stderr.endswith(f"no topic {topic} {message}\n"), result.stderr)
        rows = self.done("topics", "shm:b", "--format=csv").splitlines()[1:]
        self.assertEqual([row.split(",")[0] for row in rows], ["t.small"])

    def test_unfit_schema_is_refused_with_3(self):
        self.bus()
        result = self.run_tool("cat", "shm:b", "t.quote", "--schema", "trade")
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("schema quote version 1", result.stderr)
        self.assertIn("trade version 1", result.stderr)
        out, _ = self.events("shm:b", "t.quote", "--schema", "quote", "--from=oldest", "--count=1")
        self.assertTrue(out.startswith("1 "))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_another_user_is_refused_with_3(self):
        self.bus()
        os.chmod(self.folder, 0o755)
        try:
            self.run_tool("--version", user=65534, group=65534, extra_groups=[])
        except PermissionError:
            self.skipTest("another user cannot reach the command")
        for args in (["topics", "shm:b"], ["stat", "shm:b"], ["cat", "shm:b", "t.quote"],
                     ["get", "shm:b", "t.quote"]):
            result = self.run_tool(*args, user=65534, group=65534, extra_groups=[])
            self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
            self.assertIn("permission", result.stderr)

    # -- rows -------------------------------------------------------------------------------------

    def test_csv_rows_are_exact(self):
        self.bus()
        out, _ = self.events("shm:b", "t.quote", "--from=oldest", "--until-end", "--format=csv")
        self.assertEqual(out, HEADER + (
            "1,1577716500000000001,ACME,update,286.6701,-0.0005,1,4294967295,1577716500000000000\n"
            '2,1577716500000000002,"A,""B\\\\",correction,'
            "286.6702,-0.0005,2,4294967295,1577716500000000000\n"
            "3,1577716500000000003,ACME,130,286.6703,,,,\n"
            "4,1577716500000000004,ACME,cancel,,,,,\n"))

    def test_text_rows_are_exact(self):
        self.bus()
        out, events = self.events("shm:b", "t.quote", "--from=oldest", "--until-end")
        self.assertEqual(out.splitlines(), [
            "1 2019-12-30T14:35:00.000000001Z ACME update bid_price=286.6701 ask_price=-0.0005 "
            "bid_size=1 ask_size=4294967295 source_time=2019-12-30T14:35:00.000000000Z",
            '2 2019-12-30T14:35:00.000000002Z A,"B\\\\ correction bid_price=286.6702 '
            "ask_price=-0.0005 bid_size=2 ask_size=4294967295 "
            "source_time=2019-12-30T14:35:00.000000000Z",
            "3 2019-12-30T14:35:00.000000003Z ACME 130 bid_price=286.6703 ask_price=- bid_size=- "
            "ask_size=- source_time=-",
            "4 2019-12-30T14:35:00.000000004Z ACME cancel bid_price=- ask_price=- bid_size=- "
            "ask_size=- source_time=-"])
        self.assertEqual(events, [f"appeared topic=t.quote epoch=E first=1 user={USER} uid={UID}",
                                  "ended topic=t.quote head=4"])

    def test_json_rows_are_exact_and_hold_the_events(self):
        self.bus()
        out = self.done("cat", "shm:b", "t.quote", "--from=oldest", "--until-end", "--format=json")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertRegex(lines[0].pop("epoch"), "^[0-9a-f]{16}$")
        self.assertEqual(lines[0], {"event": "appeared", "first": 1, "user": USER, "uid": UID})
        self.assertEqual(lines[1], {
            "sequence": 1, "time_ns": 1577716500000000001, "instrument": "ACME", "kind": "update",
            "bid_price": "286.6701", "ask_price": "-0.0005", "bid_size": 1, "ask_size": 4294967295,
            "source_time": 1577716500000000000})
        self.assertEqual(lines[2]["instrument"], 'A,"B\\')
        self.assertEqual((lines[3]["kind"], lines[3]["bid_price"], lines[3]["ask_price"]),
                         ("130", "286.6703", None))
        self.assertEqual(lines[4]["bid_price"], None)
        self.assertEqual(lines[5:], [{"event": "ended", "head": 4}])

    # -- values -----------------------------------------------------------------------------------

    def get(self, status, *args):
        """Standard output with the ages in text as AGE, and the messages."""
        before = time.time_ns()
        result = self.run_tool("get", "shm:b", *args)
        after = time.time_ns()
        self.assertEqual(result.returncode, status, result.stderr)

        def age(found):
            ns, published = int(found[1].replace(".", "")), 1577716500000000000 + int(found.string.split()[0])
            self.assertTrue(before - published <= ns <= after - published, found.string)
            return " AGE "
        lines = [re.sub(r" (\d+\.\d{9})s ", age, line) for line in result.stdout.splitlines()]
        return lines, result.stderr.replace("tickbus get: ", "").splitlines()

    def test_get_prints_each_value_in_text(self):
        self.bus()
        found = ["3 2019-12-30T14:35:00.000000003Z AGE ACME 130 bid_price=286.6703 ask_price=- bid_size=- "
                 "ask_size=- source_time=-",
                 '2 2019-12-30T14:35:00.000000002Z AGE A,"B\\\\ correction bid_price=286.6702 '
                 "ask_price=-0.0005 bid_size=2 ask_size=4294967295 "
                 "source_time=2019-12-30T14:35:00.000000000Z"]
        self.assertEqual(self.get(0, "t.quote"), (found, []))
        self.assertEqual(self.get(0, "t.quote", 'A,"B\\', "ACME", "ACME"), ([found[1], found[0], found[0]], []))

    def test_get_prints_csv_and_json(self):
        self.bus()
        out, _ = self.get(0, "t.quote", "--format=csv")
        self.assertEqual(out[0], "sequence,time_ns,age_ns,instrument,kind," + QUOTE)
        self.assertRegex(out[1], r"^3,1577716500000000003,\d+,ACME,130,286.6703,,,,$")
        before = time.time_ns()
        lines = [json.loads(line) for line in self.done("get", "shm:b", "t.quote", "ACME", "--format=json").splitlines()]
        self.assertTrue(before - 1577716500000000003 <= lines[0].pop("age_ns") <= time.time_ns() - 1577716500000000003)
        self.assertEqual(lines, [{"sequence": 3, "time_ns": 1577716500000000003, "instrument": "ACME", "kind": "130",
                                  "bid_price": "286.6703", "ask_price": None, "bid_size": None, "ask_size": None,
                                  "source_time": None}])

    def test_get_names_what_has_no_value_and_exits_5(self):
        bus = self.bus()
        for line in ("name LIVE", "name GONE", "clear GONE", "known NEVER"):
            bus.ask(line)
        bus.ask("publish 64")
        out, messages = self.get(5, "t.live", "GONE", "LIVE", "NEVER", "UNKNOWN", "")
        self.assertEqual([line.split()[0] for line in out], ["1"])
        self.assertEqual(messages, ["topic t.live: found no instrument UNKNOWN among its 4",
                                    'topic t.live: instrument name: found "", expected 1 to 24 bytes',
                                    "topic t.live: GONE has no value: record 3 cleared it",
                                    "topic t.live: NEVER has no value: no record of it is a value"])
        out, messages = self.get(0, "t.live")
        self.assertEqual(([line.split()[0] for line in out], messages), (["1", "67"], []))

    def test_get_of_a_topic_without_instruments_prints_nothing(self):
        self.bus()
        self.assertEqual(self.get(0, "t.empty"), ([], []))
        self.assertEqual(self.get(0, "t.empty", "--format=csv")[0], ["sequence,time_ns,age_ns,instrument,kind," + QUOTE])

    def test_get_of_a_topic_without_values_is_refused_with_3(self):
        bus = self.bus()
        bus.ask("plain")
        for names in ([], ["ACME"], ["NOSUCH"], ["ACME", "NOSUCH"]):
            out, messages = self.get(3, "t.plain", *names)
            self.assertEqual(out, [])
            self.assertEqual(messages, ["topic t.plain has no last values; its publisher decides that "
                                        "(last_value, TB_TOPIC_NO_LAST_VALUE)"])

    def test_get_of_a_pattern_is_a_usage_error(self):
        self.bus()
        _, messages = self.get(2, "t.*")
        self.assertIn('found pattern "t.*", expected one topic\'s name', messages[0])

    def test_get_waits_for_publisher_and_topic(self):
        process = self.begin("get", "shm:b", "t.quote", "ACME", "--wait")
        self.assertIn("waits: ", process.stderr.readline())
        self.bus()
        out, messages = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, messages), (0, ""))
        self.assertTrue(out.startswith("3 2019-"), out)

    def test_get_names_the_topic_that_it_waits_for(self):
        self.bus()
        process = self.begin("get", "shm:b", "t.none", "--wait")
        self.assertIn("waits: shm:b: bus b has no topic t.none", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)

    def test_interrupt_ends_a_get_that_waits(self):
        process = self.begin("get", "shm:b", "t.quote", "--wait")
        self.assertIn("waits: ", process.stderr.readline())
        self.wait_in_poll(process)
        process.send_signal(signal.SIGINT)
        out, messages = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out, messages), (1, "", ""))

    def test_records_overwritten_before_the_join_are_a_gap(self):
        self.bus()
        out, events = self.events("shm:b", "t.small", "--from=oldest", "--until-end",
                                  "--format=csv")
        self.assertEqual([int(row.split(",")[0]) for row in out.splitlines()[1:]],
                         list(range(937, 1001)))
        self.assertEqual(events[1], "gap topic=t.small first=1 last=936 cause=before_join")
        out = self.done("cat", "shm:b", "t.small", "--from=oldest", "--count=1", "--format=json")
        self.assertEqual(out.splitlines()[1],
                         '{"event":"gap","first":1,"last":936,"cause":"before_join"}')

    def test_quality_is_an_event_at_its_place_in_each_format(self):
        bus = self.bus()
        for line in ("publish 1", "quality 1 2", "publish 1", "quality 2 200", "quality 0 0", "end"):
            bus.ask(line)
        events = [{"quality": "suspect", "sequence": 2, "cause": "no_end"},
                  {"quality": "rebuilding", "sequence": 4, "cause": 200},
                  {"quality": "good", "sequence": 5, "cause": "none"}]
        rows, _ = self.events("shm:b", "t.live", "--from=oldest", "--until-end", "--format=json")
        lines = [json.loads(row) for row in rows.splitlines()]
        self.assertEqual([line for line in lines if line.get("event") == "quality"],
                         [{"event": "quality", **event} for event in events])
        self.assertEqual([line["sequence"] for line in lines[1:-1]], [1, 2, 3, 4, 5])
        for form in ("text", "csv"):
            out, found = self.events("shm:b", "t.live", "--from=oldest", "--until-end", "--format=" + form)
            self.assertEqual(found[1:-1], [
                f"quality topic=t.live quality={event['quality']} sequence={event['sequence']} cause={event['cause']}"
                for event in events])
            self.assertEqual([re.split("[ ,]", row)[0] for row in out.splitlines()],
                             ["1", "3"] if form == "text" else ["sequence", "1", "3"])

    def test_state_of_quality_is_shown_to_latecomers(self):
        bus = self.bus()
        bus.ask("quality 1 2")
        rows = self.done("topics", "shm:b", "t.live", "--format=csv").splitlines()
        self.assertEqual(rows[1].split(",")[-3], "suspect")
        self.assertIn("topic,t.live,quality,1,state", self.done("stat", "shm:b", "--format=csv").splitlines())
        bus.ask("end")
        _, events = self.events("shm:b", "t.live", "--until-end")
        self.assertEqual(events[1:], ["quality topic=t.live quality=suspect", "ended topic=t.live head=1"])
        rows = self.done("topics", "shm:b", "t.live", "--format=csv").splitlines()
        self.assertEqual(rows[1].split(",")[-3], "suspect")

    def test_holes_are_gaps_in_order(self):
        self.bus()
        out = self.done("cat", "shm:b", "t.hole", "--from=oldest", "--until-end", "--format=json")
        lines = [json.loads(line) for line in out.splitlines()][1:]
        self.assertEqual([line.get("sequence", line.get("event")) for line in lines],
                         [1, "gap", 4, "ended"])
        self.assertEqual(lines[1], {"event": "gap", "first": 2, "last": 3, "cause": "upstream"})

    def test_from_and_count_choose_records(self):
        self.bus()
        out, _ = self.events("shm:b", "t.small", "--from=940", "--count=3", "--format=csv")
        self.assertEqual([row.split(",")[0] for row in out.splitlines()[1:]],
                         ["940", "941", "942"])
        events = self.run_tool("cat", "shm:b", "t.small", "--from=940", "--count=1").stderr
        epoch = re.search("epoch=([0-9a-f]{16})", events)[1]
        out, _ = self.events("shm:b", "t.small", f"--from={epoch}:941", "--count=1", "--format=csv")
        self.assertEqual(out.splitlines()[1].split(",")[0], "941")
        another = f"{int(epoch, 16) ^ 1:016x}"
        result = self.run_tool("cat", "shm:b", "t.small", f"--from={another}:941", "--count=1",
                               "--format=csv")
        self.assertEqual(result.stdout.splitlines()[1].split(",")[0], "937")
        self.assertRegex(result.stderr, f"restart topic=t.small old_epoch={another} .*delivered=0 ")
        out, events = self.events("shm:b", "t.small", "--until-end")
        self.assertEqual((out, events[1:]), ("", ["ended topic=t.small head=1000"]))

    def test_pattern_reads_several_topics_and_names_them(self):
        self.bus()
        process = self.begin("cat", "shm:b", "t.*", "--from=oldest", "--count=70", "--format=json")
        out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(all("topic" in row for row in rows))
        counts = {name: sum(row["topic"] == name for row in rows if "sequence" in row)
                  for name in ("t.quote", "t.small", "t.hole", "t.empty", "t.live")}
        self.assertEqual(counts, {"t.quote": 4, "t.small": 64, "t.hole": 2, "t.empty": 0,
                                  "t.live": 0})

    def test_csv_of_a_pattern_has_a_header_row_for_each_topic(self):
        self.bus()
        out = self.run_tool("cat", "shm:b", "t.*", "--from=oldest", "--count=70", "--format=csv").stdout
        for topic, rows in (("t.quote", 4), ("t.small", 64), ("t.hole", 2), ("t.empty", 0)):
            found = [line for line in out.splitlines(True) if line.startswith(topic + ",")]
            self.assertEqual(found[:1], [topic + "," + HEADER] if rows else [])
            alone, _ = self.events("shm:b", topic, "--from=oldest", "--until-end", "--format=csv")
            self.assertEqual("".join(line.split(",", 1)[1] for line in found), alone)

    # -- while it runs ----------------------------------------------------------------------------

    def test_records_are_printed_on_arrival_until_the_end(self):
        bus = self.bus()
        process = self.begin("cat", "shm:b", "t.live", "--until-end")
        self.assertIn("appeared", process.stderr.readline())
        for n in range(1, 4):
            bus.ask("publish 1")
            self.assertTrue(process.stdout.readline().startswith(f"{n} "))
        bus.ask("end")
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out), (0, ""))
        self.assertIn("ended topic=t.live head=3", err)

    def test_doctor_reports_trouble_by_its_exit_status(self):
        self.bus()
        for address, bad in (([], 0), (["shm:b"], 0), (["shm:nobody"], 1)):
            found = self.run_tool("doctor", "--format=json", *address)
            rows = [json.loads(line) for line in found.stdout.splitlines()]
            self.assertTrue(all(set(row) == {"verdict", "about", "found", "remedy"} for row in rows))
            self.assertTrue({"locked memory", "huge pages"} < {row["about"] for row in rows})
            self.assertEqual([row["verdict"] for row in rows if row["about"] in address],
                             [("good", "bad")[bad]] * len(address))
            some = any(row["verdict"] == "bad" for row in rows)
            self.assertEqual((found.returncode, found.stderr), (int(some), ""))

    def test_doctor_accepts_a_bus_that_asks_for_a_ticket(self):
        ticket, other = self.ticket("desk", "5a" * 32), self.ticket("other", "5b" * 32)
        self.bus(ticket)
        for shown, expected in (([], ("advice", "shm:b: the subscriber has no ticket, but the publisher requires a ticket")),
                                (["--ticket", other], ("advice", "shm:b: the publisher does not know the ticket, or the dialled address was not b")),
                                (["--ticket", ticket], ("good", f"a bus with 2 topics answers, run by user {USER}"))):
            found = self.run_tool("doctor", "--format=json", *shown, "shm:b")
            rows = [json.loads(line) for line in found.stdout.splitlines()]
            self.assertEqual([(row["verdict"], row["found"]) for row in rows if row["about"] == "shm:b"], [expected])
            self.assertEqual("--ticket" in rows[-1]["remedy"], expected[0] == "advice", rows[-1])
            some = any(row["verdict"] == "bad" for row in rows)
            self.assertEqual((found.returncode, found.stderr), (int(some), ""))

    def test_interrupt_ends_cat_with_whole_rows(self):
        bus = self.bus()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.begin("cat", "shm:b", "t.live")
            process.stderr.readline()
            bus.ask("publish 5")
            rows = [process.stdout.readline() for _ in range(5)]
            process.send_signal(number)
            self.assertEqual((process.wait(PATIENCE_S), process.stdout.read()), (0, ""))
            self.assertTrue(all(row.endswith("Z\n") for row in rows), rows)

    def test_interrupt_in_a_running_stream_ends_with_whole_rows(self):
        bus = self.bus()
        path = os.path.join(self.folder, "rows")
        with open(path, "w", encoding="ascii") as file:
            process = self.begin("cat", "shm:b", "t.live", "--format=csv", stdout=file)
        process.stderr.readline()
        # A reader that is lapped often prints many events: a full pipe would block it.
        reader = threading.Thread(target=lambda: list(process.stderr))
        reader.start()
        self.addCleanup(reader.join)
        bus.process.stdin.write("publish 200000\n")
        bus.process.stdin.flush()
        while os.path.getsize(path) == 0 and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        reader.join()
        self.assertEqual(bus.process.stdout.readline(), "ok\n")
        with open(path, encoding="ascii") as file:
            text = file.read()
        self.assertTrue(text.startswith(HEADER) and text.endswith("\n"))
        self.assertEqual({row.count(",") for row in text.splitlines()}, {8})

    def test_slow_reader_gets_its_exact_gap(self):
        bus = self.bus()
        process = self.begin("cat", "shm:b", "t.live", "--until-end", "--format=json")
        self.assertIn("appeared", process.stdout.readline())
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        bus.ask("publish 1000")
        bus.ask("end")
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=PATIENCE_S)
        rows = [json.loads(line) for line in out.splitlines()]
        following = 1
        for row in rows[:-1]:
            self.assertEqual(row.get("sequence", row.get("first")), following)
            following = row.get("last", row.get("sequence")) + 1
        gaps = [row for row in rows if row.get("event") == "gap"]
        self.assertTrue(gaps and all(gap["cause"] == "overrun" for gap in gaps), rows[:3])
        self.assertEqual((following, rows[-1]), (1001, {"event": "ended", "head": 1000}))

    # -- images -----------------------------------------------------------------------------------

    def test_image_rows_are_exact_in_each_format(self):
        self.bus()
        head = [f"appeared topic=t.quote epoch=E first=5 head=4 user={USER} uid={UID}"]
        events = ["image topic=t.quote up_to=4", "complete topic=t.quote delivered=4", "ended topic=t.quote head=4"]
        image = "t.quote", "--from=image", "--until-end"
        out, found = self.events("shm:b", *image)
        self.assertEqual(found, [head[0].replace(" head=4", "")] + events)
        self.assertEqual(out.splitlines(), [
            "3 2019-12-30T14:35:00.000000003Z ACME 130 image bid_price=286.6703 ask_price=- bid_size=- "
            "ask_size=- source_time=-",
            '2 2019-12-30T14:35:00.000000002Z A,"B\\\\ correction image bid_price=286.6702 '
            "ask_price=-0.0005 bid_size=2 ask_size=4294967295 "
            "source_time=2019-12-30T14:35:00.000000000Z"])
        out, _ = self.events("shm:b", *image, "--format=csv")
        self.assertEqual(out, HEADER.replace("kind,", "kind,image,") + (
            "3,1577716500000000003,ACME,130,true,286.6703,,,,\n"
            '2,1577716500000000002,"A,""B\\\\",correction,true,286.6702,-0.0005,2,4294967295,1577716500000000000\n'))
        lines = [json.loads(line) for line in self.done("cat", "shm:b", *image, "--format=json").splitlines()]
        self.assertEqual([line.get("event") for line in lines], ["appeared", "image", None, None, "complete", "ended"])
        self.assertEqual((lines[1], lines[4]), ({"event": "image", "up_to": 4}, {"event": "complete", "delivered": 4}))
        self.assertEqual([(line["instrument"], line["image"]) for line in lines[2:4]], [("ACME", True), ('A,"B\\', True)])

    def test_correction_of_the_past_has_a_kind_of_its_own(self):
        bus = self.bus()
        for line in "name OLD", "past OLD", "end":
            bus.ask(line)
        cat = "cat", "shm:b", "t.live", "--from=oldest", "--until-end"  # events are on standard error
        for form, part in ("text", " past_correction "), ("csv", ",past_correction,"), ("json", '"past_correction"'):
            rows = [row for row in self.run_tool(*cat, "--format=" + form).stdout.splitlines() if "OLD" in row]
            self.assertEqual([part in row for row in rows], [False, True], rows)
        self.assertTrue(self.run_tool("get", "shm:b", "t.live", "OLD").stdout.startswith("1 "))

    def test_records_behind_an_image_are_marked_as_records(self):
        bus = self.bus()
        bus.ask("name OLD")
        for form, marks in (("csv", ["true", "false"]), ("json", [True, False])):
            process = self.begin("cat", "shm:b", "t.live", "--from=image", "--count=2", "--format=" + form)
            self.until_complete(process, form)
            bus.ask("name NEW")
            rows = (process.image + process.stdout.read()).splitlines()
            self.assertEqual(process.wait(PATIENCE_S), 0)
            found = [row.split(",")[4] for row in rows[1:]] if form == "csv" else [
                row["image"] for row in map(json.loads, rows) if "image" in row]
            self.assertEqual(found[-1], marks[1], rows)
            self.assertIn(marks[0], found)
            bus.ask("restart")
            bus.ask("name OLD")

    def until_complete(self, process, form="json"):
        """Reads standard output in process.image, or the events of standard error, up to complete."""
        process.image = ""
        while line := (process.stdout if form == "json" else process.stderr).readline():
            if form == "json":
                process.image += line
            if "complete" in line:
                return
        self.fail("the output ended before the image was complete: " + process.image)

    def test_values_of_an_image_count(self):
        bus = self.bus()
        for name in "A", "B", "C":
            bus.ask("name " + name)
        out, events = self.events("shm:b", "t.live", "--from=image", "--count=2")
        self.assertEqual([line.split()[2:5] for line in out.splitlines()],
                         [["A", "update", "image"], ["B", "update", "image"]])
        self.assertEqual(events[1:], ["image topic=t.live up_to=3"])

    def test_topic_without_values_is_refused_with_3(self):
        bus = self.bus()
        bus.ask("plain")
        for option in "--from=image", "--gap=image":
            result = self.run_tool("cat", "shm:b", "t.plain", option)
            self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
            self.assertIn("topic t.plain: it has no last values, which an image needs\n", result.stderr)

    def test_pattern_refuses_topics_without_values_alone(self):
        bus = self.bus()
        bus.ask("plain")
        bus.ask("publish 1")
        bus.ask("end")
        out = self.done("cat", "shm:b", "t.*", "--from=image", "--until-end", "--format=json")
        lines = [json.loads(line) for line in out.splitlines()]
        refused = [line for line in lines if line.get("event") == "refused"]
        self.assertEqual([(line["topic"], line["code"]) for line in refused], [("t.plain", errno.EOPNOTSUPP)])
        self.assertIn("has no last values", refused[0]["words"])
        found = {(line["topic"], line["sequence"]) for line in lines if line.get("image")}
        self.assertEqual(found, {("t.quote", 3), ("t.quote", 2), ("t.small", 1000), ("t.hole", 4), ("t.live", 1)})
        self.assertEqual(sum(line.get("event") == "complete" for line in lines), 5)

    @staticmethod
    def table(lines):
        """What a program knows after these rows: the present value of each instrument."""
        values = {}
        for row in lines:
            if row.get("kind") == "clear":
                values.pop(row["instrument"], None)
            elif row.get("kind") == "update":
                values[row["instrument"]] = {key: row[key] for key in row if key != "image"}
            elif row.get("event") == "restart":
                values.clear()
        return values

    def lapped(self, bus, policy):
        """Stops a reader until its publisher has lapped it. Returns its process and lines up to the gap."""
        process = self.begin("cat", "shm:b", "t.live", "--from=oldest", "--gap=" + policy, "--until-end", "--format=json")
        self.assertIn("appeared", process.stdout.readline())
        for line in "mix 20", "name A", "name B":
            bus.ask(line)
        lines = [json.loads(process.stdout.readline()) for _ in range(22)]
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        for line in "name A", "clear B", "name C", "mix 1000":
            bus.ask(line)
        self.assertIn("topic,t.live,records,1025,records", self.done("stat", "shm:b", "--format=csv").splitlines())
        process.send_signal(signal.SIGCONT)
        while lines[-1].get("event") != "gap":
            lines.append(json.loads(process.stdout.readline()))
        self.assertEqual((lines[-1]["first"], lines[-1]["cause"]), (23, "overrun"))
        return process, lines

    def expect_accounting(self, lines, head):
        """Each sequence is a record, lost or skipped, once and in order."""
        position = 0
        for row in lines:
            if row.get("event") == "gap":
                self.assertEqual(row["first"], position + 1)
                position = row["last"] + row.get("skipped", 0)
            elif "sequence" in row and not row.get("image"):
                self.assertEqual(row["sequence"], position + 1)
                position += 1
        self.assertEqual(position, head)

    def after_the_gap(self, bus, process, lines):
        """Lets the reader reach the head and the end. Returns all its lines."""
        for line in "mix 30", "end":
            bus.ask(line)
        lines += [json.loads(line) for line in process.stdout]
        self.assertEqual((process.wait(PATIENCE_S), lines[-1]), (0, {"event": "ended", "head": 1055}))
        self.expect_accounting(lines, 1055)
        return lines

    def test_stopped_reader_goes_on_with_the_oldest_record(self):
        bus = self.bus()
        lines = self.after_the_gap(bus, *self.lapped(bus, "oldest"))
        gap = next(line for line in lines if line.get("event") == "gap")
        self.assertNotIn("skipped", gap)
        self.assertGreaterEqual(gap["last"], 1025 - 64)
        self.assertLess(gap["last"], 1025)
        self.assertEqual(lines[lines.index(gap) + 1]["sequence"], gap["last"] + 1)

    def test_stopped_reader_goes_on_behind_the_head(self):
        bus = self.bus()
        lines = self.after_the_gap(bus, *self.lapped(bus, "newest"))
        gap = next(line for line in lines if line.get("event") == "gap")
        self.assertEqual(gap["last"] + gap["skipped"], 1025)
        self.assertEqual([line["sequence"] for line in lines[lines.index(gap) + 1:-1]], list(range(1026, 1056)))

    def test_image_after_a_gap_makes_the_table_right(self):
        bus = self.bus()
        process, lines = self.lapped(bus, "image")
        image = json.loads(process.stdout.readline())
        self.assertEqual(image, {"event": "image", "up_to": lines[-1]["last"]})
        self.until_complete(process)
        lines += [image] + [json.loads(line) for line in process.image.splitlines()]
        brought = {line["instrument"]: line["kind"] for line in lines if line.get("image")}
        self.assertEqual(brought, {"A": "update", "B": "clear", "C": "update"})
        self.assertEqual(lines[-1], {"event": "complete", "delivered": 1025})
        late = self.begin("cat", "shm:b", "t.live", "--from=image", "--format=json")
        self.until_complete(late)
        fresh = self.table(json.loads(line) for line in late.image.splitlines())
        self.assertEqual(sorted(fresh)[:3], ["A", "C", "M0"])
        self.assertEqual(self.table(lines), fresh)
        lines = self.after_the_gap(bus, process, lines)
        out = self.done("cat", "shm:b", "t.live", "--from=image", "--until-end", "--format=json")
        self.assertEqual(self.table(lines), self.table(json.loads(line) for line in out.splitlines()))

    def test_restarted_topic_is_read_on(self):
        bus = self.bus()
        process = self.begin("cat", "shm:b", "t.live", "--until-end", "--format=json")
        self.assertIn("appeared", process.stdout.readline())
        bus.ask("publish 2")
        rows = [json.loads(process.stdout.readline()) for _ in range(2)]
        bus.ask("restart")
        bus.ask("publish 1")
        restart, row = [json.loads(process.stdout.readline()) for _ in range(2)]
        self.assertEqual([r["sequence"] for r in rows] + [row["sequence"]], [1, 2, 1])
        self.assertEqual((restart["event"], restart["delivered"], restart["head"]),
                         ("restart", 2, 2))
        self.assertNotEqual(restart["epoch"], restart["old_epoch"])
        bus.ask("end")
        process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0)

    def test_wait_without_a_publisher_reports_it_once(self):
        process = self.begin("cat", "shm:b", "t.quote", "--wait", "--from=oldest", "--count=1")
        self.assertEqual(process.stderr.readline(), "tickbus cat: waits: address shm:b: no publisher listens there "
                                                    f"({self.folder}: no b.sock)\n")
        self.bus()
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out[:2]), (0, "1 "))
        self.assertRegex(err, r"\Atickbus cat: appeared topic=t\.quote epoch=\w+ first=1 user=\S+ uid=\d+\n\Z")

    def test_wait_names_a_missing_topic_and_no_present_topic(self):
        self.bus()
        process = self.begin("cat", "shm:b", "t.none", "--wait")
        self.assertEqual(process.stderr.readline(),
                         "tickbus cat: waits: shm:b: bus b has no topic t.none\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=PATIENCE_S), ("", ""))
        result = self.run_tool("cat", "shm:b", "t.quote", "--wait", "--from=oldest", "--count=1")
        self.assertNotIn("waits", result.stderr)

    def test_address_requires_the_user_that_listens(self):
        self.bus()
        for user in USER, UID:
            self.assertEqual(self.done("topics", f"shm:b,user={user}", "t.live", "--format=csv").count("t.live"), 1)
            self.assertEqual(self.events(f"shm:b,user={user}", "t.quote", "--from=oldest", "--count=1")[0][:2], "1 ")
        for command in ["topics"], ["stat"], ["cat", "t.quote", "--from=oldest"]:
            other = self.run_tool(command[0], "shm:b,user=65421", *command[1:])
            self.assertIn(f"user {UID} listens at b.sock, expected user 65421", other.stderr)
            self.assertEqual((other.returncode, other.stdout), (3, ""))
            unknown = self.run_tool(command[0], "shm:b,user=no-such-user", *command[1:])
            self.assertIn("user: found \"no-such-user\", expected a user of this host, by name or id", unknown.stderr)
            self.assertEqual((unknown.returncode, unknown.stdout), (2, ""))

    def test_faults_of_an_address_change_no_record(self):
        self.bus()
        plain = self.events("shm:b", "t.quote", "--from=oldest", "--count=3")[0]
        faults = "fault:seed=7,tear=0.5,delay=0.5,fail=0.2,stall=0.05,drop=0.5"
        self.assertEqual(self.events(f"{faults}/shm:b", "t.quote", "--from=oldest", "--count=3")[0], plain)
        self.assertEqual(self.done("topics", f"{faults}/shm:b", "--format=csv").count("t.live"), 1)
        self.assertEqual(self.done("topics", f"fault:seed=7/shm:b,user={USER}", "--format=csv").count("t.live"), 1)

    def test_lost_connections_of_an_address_lose_no_record(self):
        bus = self.bus()
        process = self.begin("cat", "fault:seed=7,disconnect=0.05/shm:b", "t.live", "--wait", "--from=oldest",
                             "--count=75")
        for event in "stale", "live", "stale":
            while event not in process.stderr.readline():
                self.assertIsNone(process.poll())
            bus.ask("publish 25")
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, [int(line.split()[0]) for line in out.splitlines()]),
                         (0, list(range(1, 76))), err)

    def test_frozen_publisher_of_an_address_is_stale(self):
        self.bus()
        process = self.begin("cat", "fault:seed=7,freeze=1/shm:b", "t.live", "--from=oldest")
        while "stale" not in process.stderr.readline():
            self.assertIsNone(process.poll())

    def test_wrong_faults_are_a_usage_error(self):
        self.bus()
        for address, message in (("fault:shm:b", "found no / with an address, expected fault:FAULTS/ADDRESS"),
                                 ("fault:seed=1,tear=2/shm:b", 'tear: found "2", expected a probability from 0 to 1'),
                                 ("fault:tear=1/shm:b", "found no seed, expected seed=NUMBER"),
                                 ("fault:seed=1,torn=1/shm:b", 'found "torn", expected seed, drop, dup'),
                                 ("fault:seed=1/fault:seed=1/shm:b", "found fault: twice"),
                                 ("fault:seed=1/shm:b,user=no-such-user", 'user: found "no-such-user"')):
            for command in ["topics"], ["stat"], ["cat", "t.live"], ["cat", "t.live", "--wait"]:
                result = self.run_tool(command[0], address, *command[1:])
                self.assertIn(message, result.stderr)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        other = self.run_tool("topics", "fault:seed=1/shm:b,user=65421")
        self.assertIn(f"user {UID} listens at b.sock, expected user 65421", other.stderr)
        self.assertEqual(other.returncode, 3)

    def test_folder_of_others_is_refused_or_waited_out(self):
        self.bus()
        os.chmod(self.folder, 0o777)
        result = self.run_tool("cat", "shm:b", "t.quote", "--from=oldest", "--count=1")
        self.assertIn("found mode 0777, expected a folder that only its owner may write to", result.stderr)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        process = self.begin("cat", "shm:b", "t.quote", "--wait", "--from=oldest", "--count=1")
        self.assertIn("waits: address shm:b: no bus there", process.stderr.readline())
        os.chmod(self.folder, 0o700)
        out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out[:2]), (0, "1 "))

    def test_file_as_runtime_folder_is_named(self):
        self.env["TICKBUS_RUNTIME_DIR"] = __file__
        for command in ["topics"], ["stat"], ["cat", "t.quote"]:
            result = self.run_tool(command[0], "shm:b", *command[1:])
            self.assertIn(f"TICKBUS_RUNTIME_DIR: found {__file__}, expected a folder", result.stderr)
            self.assertEqual((result.returncode, result.stdout), (1, ""))

    def impostor_answers(self, body):
        """Answers the next hello at shm:b with this refusal."""
        path = os.path.join(self.folder, "b.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(PATIENCE_S)
            with listener.accept()[0] as peer:
                peer.recv(64)
                peer.send(struct.pack("<I", 3) + body)
        os.unlink(path)

    def test_cat_ends_after_an_impostor_unless_it_waits(self):
        for body in struct.pack("<I", errno.EACCES) + b"no", b"":  # EPROTO: a refusal without a reason
            for more in [], ["--wait"]:
                bus = Bus("b", self.folder)
                process = self.begin("cat", "shm:b", "t.live", "--count=1", *more)
                self.assertIn("appeared", process.stderr.readline())
                bus.close()
                self.impostor_answers(body)
                if more:
                    bus = Bus("b", self.folder)
                    while "restart topic" not in process.stderr.readline():
                        self.assertIsNone(process.poll())
                    bus.ask("publish 1")
                out, err = process.communicate(timeout=PATIENCE_S)
                self.assertEqual((process.returncode, out[:2]), (0, "1 ") if more else (3, ""), err)
                if more:
                    bus.close()

    def test_contradictory_address_is_a_usage_error(self):
        for knobs, message in (("retries=2,retries=3", "found retries= twice"),
                             ("read_bytes=100", "expected a multiple of 64"),
                             ("batch_bytes=65536,read_bytes=64", "found 64, expected 2048 to 65536"),
                             ("poll_us=1000001", "poll_us: found \"1000001\", expected 0 to 1000000")):
            for command in ["topics"], ["stat"], ["cat", "t"]:
                result = self.run_tool(command[0], f"rdma:192.0.2.1:7471,{knobs}", *command[1:])
                self.assertIn(message, result.stderr)
                self.assertEqual(result.returncode, 2, result.stderr)

    def test_pattern_without_a_match_reports_that_it_waits(self):
        self.bus()
        for more in [], ["--wait"]:
            process = self.begin("cat", "shm:b", "none.*", *more)
            self.assertEqual(process.stderr.readline(), "tickbus cat: waits: shm:b: bus b has no topic that matches "
                                                        "none.*\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=PATIENCE_S), ("", ""))
            result = self.run_tool("cat", "shm:b", "t.*", "--from=oldest", "--count=1", *more)
            self.assertNotIn("waits", result.stderr)

    def test_killed_publisher_is_reported_stale(self):
        bus = Bus("b", self.folder)
        process = self.begin("cat", "shm:b", "t.live")
        process.stderr.readline()
        bus.process.kill()
        bus.process.wait()
        bus.process.stdin.close()
        bus.process.stdout.close()
        self.assertRegex(process.stderr.readline(),
                         rf'stale topic=t.live code={errno.ECONNRESET} words=.*closed the connection$')

    # -- standard output fails --------------------------------------------------------------------

    def test_full_disk_is_reported_and_exits_1(self):
        self.bus()
        for args in (["--help"], ["--version"], ["cat", "--help"], ["cat", "--version"], ["topics", "shm:b"],
                     ["stat", "shm:b", "--interval=0.1"],
                     ["stat", "shm:b"], ["schema", "header", "quote"],
                     ["cat", "shm:b", "t.quote", "--from=oldest", "--until-end"],
                     ["cat", "shm:b", "t.small", "--from=oldest", "--until-end",
                      "--format=json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = self.run_tool(*args, stdout=full)
            self.assertEqual(result.returncode, 1, args)
            self.assertIn("standard output: No space left on device", result.stderr)

    def test_file_size_limit_is_reported_and_exits_1(self):
        self.bus()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        out = os.path.join(self.folder, "out")
        for args in (["--help"], ["topics", "shm:b"],
                     ["cat", "shm:b", "t.quote", "--from=oldest", "--until-end"]):
            with open(out, "w", encoding="ascii") as file:
                result = self.run_tool(*args, stdout=file, preexec_fn=limit)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("standard output: File too large", result.stderr)
        os.remove(out)
        for name in "day.itch", "day.itch.zst":
            result = self.run_tool("synth", "--messages=1000", os.path.join(self.folder, name), preexec_fn=limit)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"{name}: cannot write: File too large", result.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("day")])

    def test_closed_standard_output_is_reported_and_exits_1(self):
        self.bus()
        for args in ("--help", "topics shm:b", "cat shm:b t.quote --from=oldest --until-end"):
            result = subprocess.run(["sh", "-c", f'exec "$0" {args} >&-', TICKBUS], env=self.env,
                                    stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
            self.assertEqual(result.returncode, 1, args)
            self.assertIn("standard output: Bad file descriptor", result.stderr)

    def test_closed_pipe_ends_cat_without_any_record(self):
        self.bus()
        process = self.begin("cat", "shm:b", "t.live")
        process.stderr.readline()
        process.stdout.close()
        process.stdout = None
        self.assertEqual(process.wait(PATIENCE_S), 1)
        self.assertIn("standard output: Broken pipe", process.stderr.read())

    def test_reader_of_a_socket_that_left_ends_every_command(self):
        self.bus()
        for args in (["cat", "shm:b", "t.live"], ["cat", "shm:b", "t.small", "--from=oldest"],
                     ["stat", "shm:b", "--interval=0.1"], ["topics", "shm:b"], ["schema", "header", "quote"]):
            reader, writer = socket.socketpair()
            if args[0] in ("topics", "schema"):  # they end by themselves
                reader.close()
            process = self.begin(*args, stdout=writer)
            writer.close()
            if args[:3] == ["cat", "shm:b", "t.live"]:
                self.assertIn("appeared", process.stderr.readline())
            reader.close()
            self.assertEqual(process.wait(PATIENCE_S), 1, args)
            self.assertIn("standard output: Broken pipe", process.stderr.read(), args)

    def full_pipe(self):
        """A pipe of a page that does not block, and has no room."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.assertEqual(fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096), 4096)
        self.assertEqual(os.write(writer, b"x" * 4096), 4096)
        return reader, writer

    def wait_in_poll(self, process):
        """Waits until the process sleeps in poll or ended. Without the right to look, until it sleeps."""
        while process.poll() is None:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                asleep = file.read().rpartition(") ")[2][0] == "S"
            try:
                with open(f"/proc/{process.pid}/syscall", encoding="ascii") as file:
                    asleep = file.read().split()[0] in ("7", "271", "73")
            except PermissionError:
                pass
            if asleep:
                return

    def catches(self, process, number):
        """Whether the process has a handler for the signal. The tool removes it with the first signal."""
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            caught = re.search(r"^SigCgt:\s+(\w+)$", file.read(), re.M)
        return caught and int(caught.group(1), 16) >> (number - 1) & 1

    def read_to_end(self, reader):
        found = b""
        os.set_blocking(reader, True)
        while part := os.read(reader, 65536):
            found += part
        os.close(reader)
        self.assertEqual(found[:4096], b"x" * 4096)
        return found[4096:].decode()

    def test_full_pipe_that_does_not_block_gets_everything(self):
        self.bus()
        for args in (["cat", "shm:b", "t.small", "--from=oldest", "--until-end", "--format=csv"],
                     ["cat", "shm:b", "t.small", "--from=oldest", "--count=30", "--format=csv"],
                     ["topics", "shm:b", "--format=json"], ["schema", "header", "depth10"], ["cat", "--help"]):
            reader, writer = self.full_pipe()
            process = self.begin(*args, stdout=writer)
            os.close(writer)
            self.wait_in_poll(process)
            found = self.read_to_end(reader)
            self.assertEqual(process.wait(PATIENCE_S), 0, args)
            self.assertEqual(found, self.done(*args) if args[0] != "cat" else self.run_tool(*args).stdout, args)

    def test_interrupt_at_a_full_pipe_still_writes_whole_rows(self):
        bus = self.bus()
        reader, writer = self.full_pipe()
        process = self.begin("cat", "shm:b", "t.live", "--format=csv", stdout=writer)
        os.close(writer)
        self.assertIn("appeared", process.stderr.readline())
        bus.ask("publish 5")
        self.wait_in_poll(process)
        process.send_signal(signal.SIGTERM)
        rows = self.read_to_end(reader)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertTrue(rows == "" or rows.startswith(HEADER) and rows.endswith("\n"), rows)
        self.assertLessEqual({row.count(",") for row in rows.splitlines()}, {8})

    def test_second_signal_ends_a_command_whose_reader_is_stuck(self):
        bus = self.bus()
        signals = signal.SIGINT, signal.SIGTERM
        for first, second in itertools.product(signals, repeat=2):
            reader, writer = self.full_pipe()
            process = self.begin("cat", "shm:b", "t.live", stdout=writer)
            os.close(writer)
            self.assertIn("appeared", process.stderr.readline())
            bus.ask("publish 5")
            self.wait_in_poll(process)
            process.send_signal(first)
            while self.catches(process, first):
                pass
            process.send_signal(second)
            self.assertIn(process.wait(PATIENCE_S), (0, -second), (first, second))
            os.close(reader)

    # -- spreadsheets -----------------------------------------------------------------------------

    FORMULAS = {"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "A;=1": "A;'=1",
                "=A,B": "\"'=A,B\"", '="x"': "\"'=\"\"x\"\"\"", "A=1": "A=1", ";": ";"}

    def test_spreadsheet_option_defuses_names_and_leaves_numbers(self):
        bus = self.bus()
        for name in self.FORMULAS:
            bus.ask("name " + name)
        bus.ask("end")
        plain = self.done_rows("--format=csv")
        safe = self.done_rows("--format=csv", "--spreadsheet")
        quoted = {name: '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name for name in self.FORMULAS}
        self.assertEqual([row[2] for row in plain], list(quoted.values()))
        self.assertEqual([row[2] for row in safe], list(self.FORMULAS.values()))
        self.assertEqual([row[:2] + row[3:] for row in safe], [row[:2] + row[3:] for row in plain])
        self.assertTrue(all(row[5] == "-0.0005" for row in safe), safe)

    def done_rows(self, *options):
        result = self.run_tool("cat", "shm:b", "t.live", "--from=oldest", "--until-end", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [re.findall(r'("(?:[^"]|"")*"|[^,]*)(?:,|$)', row) for row in result.stdout.splitlines()[1:]]

    def test_spreadsheet_option_defuses_tables(self):
        bus = self.bus()
        bus.ask("lost =cmd|' /C calc'!A0")
        for options, name in (([], "=cmd|' /C calc'!A0"), (["--spreadsheet"], "'=cmd|' /C calc'!A0")):
            rows = self.done("stat", "shm:b", "--format=csv", *options).splitlines()
            self.assertIn(f"unpublished,t.live,{name},1,records", rows)
        self.assertEqual(self.done("topics", "shm:b", "--format=csv", "--spreadsheet"),
                         self.done("topics", "shm:b", "--format=csv"))

    # -- tables -----------------------------------------------------------------------------------

    def test_topics_are_equal_in_all_formats(self):
        self.bus()
        names = ("topic schema schema_version head slots slot_bytes instruments checked last_value "
                 "state epoch fingerprint quality user uid").split()
        rows = [line.split(",") for line in self.done("topics", "shm:b", "--format=csv").split()]
        self.assertEqual(rows[0], names)
        self.assertEqual([row[:10] for row in rows[1:]], [
            f"{topic} quote 1 {head} 64 64 16 true true {state}".split()
            for topic, head, state in (("t.quote", 4, "ended"), ("t.small", 1000, "ended"),
                                       ("t.hole", 4, "ended"), ("t.empty", 0, "ended"),
                                       ("t.live", 0, "live"))])
        for row in rows[1:]:
            self.assertRegex(" ".join(row[10:]),
                             f"^[0-9a-f]{{16}} [0-9a-f]{{16}} good {re.escape(USER)} {UID}$")
        text = [line.split() for line in self.done("topics", "shm:b").splitlines()]
        self.assertEqual(text, rows)
        for line, row in zip(self.done("topics", "shm:b", "--format=json").splitlines(), rows[1:]):
            found = json.loads(line)
            self.assertEqual(list(found), names)
            self.assertEqual((found["head"], found["checked"], found["uid"]), (int(row[3]), True, UID))

    def test_topics_takes_a_pattern(self):
        self.bus()
        def names(pattern):
            rows = self.done("topics", "shm:b", pattern, "--format=csv").splitlines()[1:]
            return [row.split(",")[0] for row in rows]
        self.assertEqual(names("t.*e"), ["t.quote", "t.hole", "t.live"])
        self.assertEqual(names("t.live"), ["t.live"])
        self.assertEqual(names("x.>"), [])

    def test_stat_shows_bus_topics_feeds_and_unpublished_messages(self):
        self.bus()
        out = self.done("stat", "shm:b", "--format=csv").splitlines()
        self.assertEqual(out[0], "scope,name,counter,value,unit")
        for row in ("bus,b,subscribers,1,peers", "topic,t.small,records,1000,records",
                    "topic,t.quote,instruments,2,names", "topic,t.quote,capacity,16,names",
                    "topic,t.hole,unpublished,3,records", "feed,feed-1,messages,42,messages",
                    "unpublished,t.hole,LOST,3,records"):
            self.assertIn(row, out)
        rows = [json.loads(line) for line in self.done("stat", "shm:b", "--format=json").splitlines()]
        self.assertEqual(len(rows), len(out) - 1)
        self.assertIn({"scope": "feed", "name": "feed-1", "counter": "messages", "value": 42,
                       "unit": "messages"}, rows)

    # -- rates ------------------------------------------------------------------------------------

    RATED = "time_ns,scope,name,counter,value,unit,rate,note"

    @staticmethod
    def cell(row):
        return dict(zip(Tools.RATED.split(","), row.split(",")))

    def test_stat_repeats_with_rates_until_the_count(self):
        self.bus()
        rows = self.done("stat", "shm:b", "--interval=0.1", "--count=3", "--format=csv").splitlines()
        self.assertEqual((rows[0], rows.count(rows[0])), (self.RATED, 1))
        found = [self.cell(row) for row in rows[1:] if ",bus,b,connections," in row]
        self.assertEqual([row["note"] for row in found], ["first", "", ""])
        self.assertEqual(found[0]["rate"], "")
        self.assertTrue(all(float(row["rate"]) > 0 for row in found[1:]), found)  # its own connections
        quiet = [self.cell(row) for row in rows[1:] if ",topic,t.quote,records," in row]
        self.assertEqual([(row["value"], row["rate"]) for row in quiet], [("4", ""), ("4", "0.0"), ("4", "0.0")])
        levels = [self.cell(row) for row in rows[1:]
                  if re.search(",topic,t.quote,(instruments|capacity|subscribers|sleepers|quality),", row)]
        self.assertEqual([(row["rate"], row["note"]) for row in levels], [("", "")] * 15)
        lines = self.done("stat", "shm:b", "--interval=0.1", "--count=2", "--format=json").splitlines()
        parsed = [json.loads(line) for line in lines if '"counter":"connections"' in line]
        self.assertEqual([list(row) for row in parsed], [self.RATED.split(",")] * 2)
        self.assertIsNone(parsed[0]["rate"])
        text = self.done("stat", "shm:b", "--interval=0.1", "--count=2")
        tables = text.split("\n\n")
        self.assertEqual(len(tables), 2)
        for table, last in zip(tables, (["-", "first"], [])):
            time, head, *lines = table.splitlines()
            self.assertRegex(time, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(head.split(), self.RATED.split(",")[1:])
            self.assertEqual(lines[0].split()[6 if last else 7:], last[1:] if last else [])

    def begin_stat(self):
        process = self.begin("stat", "shm:b", "--interval=0.1", "--format=csv")
        self.assertEqual(process.stdout.readline(), self.RATED + "\n")
        return process

    def next_row(self, process, what, note):
        while line := process.stdout.readline():
            row = self.cell(line.rstrip("\n"))
            if (row["name"], row["counter"]) == what and row["note"] == note:
                return row
        self.fail(process.stderr.read())

    def test_stat_shows_a_restarted_publisher_and_no_negative_rate(self):
        bus = Bus("b", self.folder)
        bus.ask("publish 7")
        process = self.begin_stat()
        what = ("t.live", "records")
        self.assertEqual(self.next_row(process, what, "first")["value"], "7")
        bus.ask("restart")  # the topic alone: its records count from 0 again
        fell = self.next_row(process, what, "fell")
        self.assertEqual((fell["value"], fell["rate"]), ("0", ""))
        bus.close()
        self.assertRegex(process.stderr.readline(), r"^tickbus stat: .*; will try again at each interval\n$")
        bus = self.bus()
        again = self.next_row(process, what, "restart")
        self.assertEqual((again["value"], again["rate"]), ("0", ""))
        bus.ask("publish 3")
        while (row := self.next_row(process, what, ""))["value"] != "3":
            self.assertEqual(row["rate"], "0.0")
        self.assertGreater(float(row["rate"]), 0)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, errors), (0, ""))
        self.assertTrue(rest == "" or rest.endswith("\n"))

    def test_stat_without_a_first_answer_ends_at_once(self):
        result = self.run_tool("stat", "shm:b", "--interval=0.1")
        self.assertEqual((result.returncode, result.stdout), (4, ""))

    # -- synthetic days ---------------------------------------------------------------------------

    def test_synth_writes_the_same_bytes_for_the_same_seed(self):
        def written(name, *args):
            path = os.path.join(self.folder, name)
            self.assertEqual(self.done("synth", "--messages=2000", *args, path), "")
            with open(path, "rb") as file:
                return file.read()
        first = written("a", "--seed=7")
        self.assertEqual(written("b", "--seed=7"), first)
        self.assertNotEqual(written("c", "--seed=8"), first)
        self.assertLess(len(written("d.zst", "--seed=7")), len(first) // 2)
        self.assertEqual(written("e"), written("f", "--seed=1"))
        at = count = 0
        while at < len(first):
            at += 2 + int.from_bytes(first[at:at + 2], "big")
            count += 1
        self.assertEqual((at, count), (len(first), 2000))

    def test_synth_reports_wrong_arguments(self):
        path = os.path.join(self.folder, "f")
        result = self.run_tool("synth", "--messages=1000", "--symbols=8000", path)
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected at least", result.stderr)
        for target in (os.path.join(path, "none"), "/dev/full"):
            result = self.run_tool("synth", "--messages=1000", target)
            self.assertEqual(result.returncode, 1, target)
            self.assertIn(target, result.stderr)
        self.assertFalse(os.path.exists(path))

    # -- schemas ----------------------------------------------------------------------------------

    def test_schema_check_print_and_header_agree(self):
        for name in ("quote", "trade", "depth10", "status", "imbalance", "definition", "quote_wide", "trade_wide",
                     "depth10_wide"):
            path = os.path.join(self.folder, name + ".yaml")
            with open(path, "w", encoding="ascii") as file:
                file.write(self.done("schema", "print", name))
            checked = self.done("schema", "check", name)
            self.assertEqual(self.done("schema", "check", path), checked)
            self.assertEqual(self.done("schema", "print", path), self.done("schema", "print", name))
            fingerprint = re.search(r"fingerprint ([0-9a-f]{16})$", checked).group(1)
            self.assertIn(f"FINGERPRINT UINT64_C(0x{fingerprint})",
                          self.done("schema", "header", path))
        self.assertRegex(self.done("schema", "check", "quote"),
                         r"^quote: version 1, 5 fields, 32 bytes, fingerprint [0-9a-f]{16}\n$")

    def test_wrong_schema_reports_every_location_and_exits_1(self):
        path = os.path.join(self.folder, "wrong.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write("name: wrong\nversion: x\nfields:\n  - name: a\n    type: u33\n    doc: a\n")
        for command in ("check", "header", "print"):
            result = self.run_tool("schema", command, path)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(path + ":2:10: ", result.stderr)
            self.assertIn(path + ":5:11: ", result.stderr)
        result = self.run_tool("schema", "check", path + ".none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected a file or a built-in schema", result.stderr)
        result = self.run_tool("cat", "shm:b", "t", "--schema", path)
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
