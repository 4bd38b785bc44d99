#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pubd as a process: its exit statuses, signals, addresses and users.

    pubd_daemon.py PUBD TICKBUS ORACLE CLASS
"""
import errno
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from pubd import HOUR_NS, OPEN_NS, PATIENCE_S, PUBD, TICKBUS, Bench, add, itch, settings  # it reads the same arguments


LISTENER = """
import os, socket, sys, time
address = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
address.bind(sys.argv[1])
address.listen()
if os.fork() == 0:
    while os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    os._exit(0)
print("listens", flush=True)
"""  # the child ends with the folder of its test


class Daemon(Bench):

    def quiet(self, bus=""):
        return settings("type: synthetic, messages: 5000, symbols: 10, date: 2024-01-02", ["quote"],
                        bus=bus)

    def test_second_pubd_on_an_address_reports_it_and_exits_1(self):
        first = self.pubd(self.quiet())
        second = self.pubd(self.quiet(), "second.yaml", None)
        self.ends(second, 1)
        self.assertRegex(second.err.read_text(), "error address shm:b: another publisher")
        os.kill(first.pid, signal.SIGSTOP)  # else it makes the lock again with its next pulse
        next(self.folder.rglob("b.lock")).unlink()
        third = self.pubd(self.quiet(), "third.yaml", None)
        self.ends(third, 1)
        os.kill(first.pid, signal.SIGCONT)
        self.assertRegex(third.err.read_text(),
                         rf"error address shm:b: another process \(pid {first.pid}\) listens there")
        self.stop(first)

    def test_dead_holder_of_an_address_is_not_called_its_listener(self):
        """A child may hold the lock, or the socket, after its parent has ended."""
        with subprocess.Popen(["true"]) as dead:
            pass
        with open(self.folder / "b.lock", "w") as lock:
            lock.write(f"{dead.pid}\n")
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            pubd = self.pubd(self.quiet(), expect=None)
            self.ends(pubd, 1)
            self.assertRegex(pubd.err.read_text(), rf"another publisher \(a child of pid {dead.pid}, which has ended\) listens there")
        listener = self.begin(sys.executable, "-c", LISTENER, self.folder / "b.sock")
        self.until(lambda: "\n" in listener.out.read_text(), "a listener", listener)
        self.ends(listener, 0)
        pubd = self.pubd(self.quiet(), expect=None)
        self.ends(pubd, 1)
        self.assertRegex(pubd.err.read_text(),
                         rf"another process \(a child of pid {listener.pid}, which has ended\) listens there")

    def test_log_names_the_bus_before_its_feeds(self):
        feeds = [f"f{i}" for i in range(32)]
        listed = "".join(f"  - {{ name: {name}, type: synthetic, messages: 600 }}\n" for name in feeds)
        topics = "".join(f"  - {{ name: {name}, feed: {name}, select: quote, schema: quote, slots: 64, instruments: 16 }}\n"
                         for name in feeds)
        pubd = self.pubd(f"bus: {{ name: b }}\nschemas: [ quote ]\nfeeds:\n{listed}topics:\n{topics}")
        for name in feeds:
            self.says(pubd, f"feed {name}: .*to the end")
        lines = re.findall(r"^\S+ info (\w+)", pubd.err.read_text(), re.M)
        self.assertEqual((lines[:3], lines.count("bus")), (["address", "creating", "bus"], 1))
        self.stop(pubd)

    def test_client_during_the_start_is_answered_with_all_topics(self):
        topics = "".join(f"  - {{ name: t{i}, feed: f, select: quote, schema: quote, slots: 8192 }}\n"
                         for i in range(200))
        path = self.file("slow.bin", add(1) + add(2, time_ns=OPEN_NS + HOUR_NS))
        pubd = self.begin(PUBD, self.file("pubd.yaml", f"""bus: {{ name: b }}
schemas: [ quote ]
feeds: [ {{ name: f, {itch(path, ", speed: realtime")} }} ]
topics:
{topics}"""))
        self.says(pubd, "info address shm:b: listens at ")  # the file is there a moment before
        patience = ("--timeout", "60000")
        asked = [self.begin(TICKBUS, "topics", "shm:b", "--format", "csv", *patience),
                 self.begin(TICKBUS, "cat", "shm:b", "t199", "--from", "oldest", "--count", "1", *patience)]
        self.assertEqual(len(self.ends(asked[0], 0).splitlines()), 1 + 200)
        self.assertEqual(len(self.ends(asked[1], 0).splitlines()), 1)
        self.stop(pubd)

    def test_sigterm_during_the_start_begins_no_feed(self):
        pending = ("import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "
                   "os.kill(os.getpid(), signal.SIGTERM); os.execv(sys.argv[1], sys.argv[1:])")
        self.prefix = [sys.executable, "-c", pending]
        pubd = self.begin(PUBD, self.file("pubd.yaml", self.quiet()))
        self.ends(pubd, 0)
        message = pubd.err.read_text()
        self.assertRegex(message, r"info address shm:b: listens at " + re.escape(str(self.folder)) +
                         r"/b.sock\n.*info creating 1 topic, \d+ bytes\n.*SIGTERM from pid \d+; exiting\n$")
        self.assertEqual(message.count("\n"), 3, message)
        self.assertEqual(list(self.folder.glob("b.*")), [])

    def test_second_sigterm_waits_for_no_subscriber(self):
        feed = "type: synthetic, symbols: 10, rate: 20000, speed: realtime, date: 2024-01-02"
        pubd = self.pubd(settings(feed, ["quote"], bus=", exit_wait_ms: 600000"))
        cat = self.cat("nasdaq.quote")
        self.says(cat, "appeared")
        cat.send_signal(signal.SIGSTOP)
        pubd.send_signal(signal.SIGTERM)
        self.says(pubd, "; exiting\n")
        pubd.send_signal(signal.SIGTERM)
        self.ends(pubd, 0)
        self.assertRegex(pubd.err.read_text(), r"; exiting without waiting for subscribers\n.*had not read to the end")
        cat.send_signal(signal.SIGCONT)

    def test_closed_standard_output_is_an_error(self):
        path = self.file("pubd.yaml", self.quiet())
        self.prefix = ["sh", "-c", 'exec "$0" "$@" >&-']
        for arguments in (("--print-effective", path), ("--version",), ("--help",)):
            pubd = self.begin(PUBD, *arguments)
            self.ends(pubd, 1)
            self.assertIn("pubd: standard output: Bad file descriptor", pubd.err.read_text())

    def test_help_version_and_slips(self):
        def output_of(*arguments):
            pubd = subprocess.run([PUBD, *arguments], capture_output=True, text=True, check=False, timeout=60)
            return pubd.returncode, pubd.stdout, pubd.stderr
        self.assertEqual(output_of("-h"), output_of("--help"))
        self.assertEqual(output_of("-V"), output_of("--version"))
        self.assertRegex(output_of("--version")[1], r"^pubd \d+\.\d+\.\d+\n$")
        for arguments, found in (([], "found 0 files"), (["a", "b"], "found 2 files"), (["--nothing"], "found --nothing"),
                                 (["-qz"], "unknown option -q"), (["--check=1", "a"], "found --check=1")):
            self.assertRegex(output_of(*arguments)[2], rf"\Apubd: {found}[^\n]*'pubd --help' shows the usage\n\Z")
            self.assertEqual(output_of(*arguments)[:2], (2, ""))

    def test_sigterm_ends_topics_and_readers_reach_their_end(self):
        feed = "type: synthetic, symbols: 10, rate: 100000, speed: realtime, date: 2024-01-02"
        pubd = self.pubd(settings(feed, ["quote"]))
        cat = self.cat("nasdaq.quote", "--until-end")
        self.until(lambda: cat.out.exists() and cat.out.stat().st_size > 1000, "rows", cat)
        self.stop(pubd)
        self.ends(cat, 0)
        self.assertEqual(list(self.folder.glob("b.*")), [])

    def test_sighup_opens_the_log_again(self):
        log = self.folder / "pubd.log"
        text = self.quiet() + f"log: {{ file: {log} }}\n"
        pubd = self.begin(PUBD, self.file("pubd.yaml", text))
        self.until(lambda: log.exists() and "bus b" in log.read_text(), "a log", pubd)
        log.rename(self.folder / "old.log")
        pubd.send_signal(signal.SIGHUP)
        self.until(lambda: log.exists() and "log file reopened" in log.read_text(), "a new log", pubd)
        self.stop(pubd)

    def test_killed_pubd_leaves_no_files_and_is_succeeded(self):
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

    def test_reader_of_a_replaced_bus_logs_why_it_stays_stale(self):
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

    def test_closed_standard_descriptors_are_not_reused_for_output(self):
        self.prefix = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-']
        pubd = self.begin(PUBD, self.file("pubd.yaml", self.quiet()))
        self.prefix = []
        rows = self.ends(self.cat("nasdaq.quote", "--until-end"), 0).splitlines()
        self.assertGreater(len(rows), 10)
        for number in range(3):
            self.assertEqual(os.readlink(f"/proc/{pubd.pid}/fd/{number}"), "/dev/null")
        self.stop(pubd)

    def test_no_publisher_is_status_4_and_unknown_topic_3(self):
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quote")
        self.ends(cat, 4)
        self.assertIn("no publisher listens", cat.err.read_text())
        pubd = self.pubd(self.quiet())
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quotes")
        self.ends(cat, 3)
        self.assertIn("no topic nasdaq.quotes", cat.err.read_text())
        self.stop(pubd)

    def as_user(self, user):
        """Runs later programs as another user with 8 MiB of lockable memory."""
        os.chmod(self.folder, 0o755)
        limit = ["prlimit", f"--memlock={8 << 20}"]
        self.prefix = [*limit, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]

    def test_user_without_permission_is_refused_with_status_3(self):
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

    def test_user_with_8_mib_lockable_memory_runs_everything(self):
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

    def test_wrong_settings_are_status_2_with_every_mistake(self):
        pubd = self.pubd("bus: {}\nfeds: []\n", expect=None)
        self.ends(pubd, 2)
        self.assertRegex(pubd.err.read_text(), r"pubd\.yaml:1:6: bus\.name: found nothing")
        self.assertRegex(pubd.err.read_text(), r"pubd\.yaml:2:1: feds: found an unknown key, did you "
                                               "mean feeds")
        for arguments in ([], ["--nonsense", "x"], ["a", "b"]):
            self.ends(self.begin(PUBD, *arguments), 2)
        self.ends(self.begin(PUBD, "--help"), 0)

    def test_client_with_a_ticket_reads_topics_of_its_realm(self):
        ticket = self.file("desk.ticket", "0123456789abcdef" * 4 + "\n")
        ticket.chmod(0o600)
        realms = "realms: [ { name: desk, ticket_file: desk.ticket, topics: [ nasdaq.quote ] } ]\n"
        pubd = self.pubd(self.quiet() + realms)
        cat = self.begin(TICKBUS, "cat", "shm:b", "nasdaq.quote", "--count", 1)
        self.ends(cat, 3)
        self.assertIn("has no ticket", cat.err.read_text())
        cat = self.cat("nasdaq.quote", "--until-end", "--ticket", ticket)
        self.assertGreater(len(self.ends(cat, 0).splitlines()), 10)
        self.stop(pubd)
        ticket.chmod(0o644)
        self.ends(self.begin(PUBD, "--check", self.folder / "pubd.yaml"), 2)

    def ticket(self, name, digits):
        path = self.file(name, digits * 8 + "\n")
        path.chmod(0o600)
        return path

    def hang_up(self, pubd, message):
        """SIGHUP, and what the log says then."""
        before = pubd.err.read_text().count(message)
        pubd.send_signal(signal.SIGHUP)
        self.until(lambda: pubd.err.read_text().count(message) > before, message, pubd)

    def expect_ticket(self, ticket, status):
        """The status of a client that shows this ticket: 0, or 3 if it is refused."""
        topics = self.begin(TICKBUS, "topics", "shm:b", "--ticket", ticket)
        self.ends(topics, status)
        if status:
            self.assertIn("does not know the ticket", topics.err.read_text())

    def test_sighup_reads_the_ticket_files_again(self):
        ticket, other = self.ticket("desk.ticket", "01234567"), self.ticket("risk.ticket", "89abcdef")
        first, second = self.ticket("first", "01234567"), self.ticket("second", "fedcba98")
        realms = ("realms: [ { name: desk, ticket_file: desk.ticket, topics: [ nasdaq.quote ] },\n"
                  "          { name: risk, ticket_file: risk.ticket, topics: [ nasdaq.quote ] } ]\n")
        pubd = self.pubd(self.quiet(", ticket_overlap_s: 86400") + realms)
        self.expect_ticket(second, 3)
        self.hang_up(pubd, "info SIGHUP: the log has no file that could be reopened")
        self.assertNotIn("log file reopened", pubd.err.read_text())
        self.assertNotIn("new ticket", pubd.err.read_text())
        self.ticket("desk.ticket", "fedcba98")
        self.hang_up(pubd, "info realm desk: has a new ticket; the old ticket stays valid for 86400 s")
        for good in (first, second, other):
            self.expect_ticket(good, 0)
        self.assertNotIn("realm risk: has", pubd.err.read_text())
        for spoil, message in ((lambda: ticket.write_text("fedcba98\n"), "found 8 hexadecimal digits, expected 64"),
                               (lambda: ticket.chmod(0o644), "error realm desk: ticket .*desk.ticket: "),
                               (lambda: ticket.unlink(), "No such file or directory"),
                               (lambda: self.ticket("desk.ticket", "89abcdef"),
                                "realm risk has the same ticket, expected a ticket of its own")):
            spoil()
            self.hang_up(pubd, "; the ticket is not changed")
            self.assertRegex(pubd.err.read_text().splitlines()[-1], message)
            for good in (first, second, other):
                self.expect_ticket(good, 0)
        self.stop(pubd)

    def test_old_ticket_without_overlap_ends_at_once(self):
        self.ticket("desk.ticket", "01234567")
        first, second = self.ticket("first", "01234567"), self.ticket("second", "fedcba98")
        realms = "realms: [ { name: desk, ticket_file: desk.ticket, topics: [ nasdaq.quote ] } ]\n"
        feed = "type: synthetic, symbols: 10, rate: 20000, speed: realtime, date: 2024-01-02"
        pubd = self.pubd(settings(feed, ["quote"], bus=", ticket_overlap_s: 0") + realms)
        cat = self.cat("nasdaq.quote", "--until-end", "--ticket", first)
        self.until(lambda: cat.out.stat().st_size > 1000, "rows", cat)
        self.ticket("desk.ticket", "fedcba98")
        self.hang_up(pubd, "the old ticket stays valid for 0 s")
        self.expect_ticket(first, 3)
        self.expect_ticket(second, 0)
        self.assertIsNone(cat.poll())  # a connection stays
        self.stop(pubd)
        self.ends(cat, 0)

    def in_memory(self, process, wanted):
        """Whether the writable memory of a process holds these bytes. The shadow memory of a sanitizer is one mapping
        of terabytes, and has no data."""
        with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", 0) as memory:
            for line in maps:
                bounds, access = line.split()[:2]
                begin, end = (int(bound, 16) for bound in bounds.split("-"))
                if access.startswith("rw-p") and end - begin < 2 ** 30:
                    memory.seek(begin)
                    if wanted in memory.read(end - begin):
                        return True
        return False

    def test_ticket_that_ended_is_nowhere_in_memory(self):
        self.ticket("desk.ticket", "01234567")
        realms = "realms: [ { name: desk, ticket_file: desk.ticket, topics: [ nasdaq.quote ] } ]\n"
        pubd = self.pubd(self.quiet(", ticket_overlap_s: 0") + realms)
        first, second = bytes.fromhex("01234567" * 8), bytes.fromhex("fedcba98" * 8)
        try:
            self.assertTrue(self.in_memory(pubd, first))
        except PermissionError:
            self.skipTest("this user may not read the memory of its own processes")
        self.ticket("desk.ticket", "fedcba98")
        self.hang_up(pubd, "the old ticket stays valid for 0 s")
        self.assertTrue(self.in_memory(pubd, second))
        self.assertFalse(self.in_memory(pubd, first), "the old ticket is in memory")
        self.stop(pubd)

    def test_effective_settings_read_back_unchanged(self):
        path = self.file("pubd.yaml", self.quiet())
        once = self.ends(self.begin(PUBD, "--print-effective", path), 0)
        twice = self.ends(self.begin(PUBD, "--print-effective", self.file("2.yaml", once)), 0)
        self.assertEqual(once, twice)
        self.ends(self.begin(PUBD, "--check", path), 0)

    def test_feature_left_out_of_the_build_is_a_plain_error(self):
        for line, message in ((', listen: [ "rdma:10.0.0.1" ]', r'address rdma:10\.0\.0\.1: found "10\.0\.0\.1", expected'),
                            (', hop_limit: 3', "hop_limit: found an unknown key")):
            pubd = self.pubd(self.quiet(line), expect=None)
            self.ends(pubd, 2)
            self.assertRegex(pubd.err.read_text(), message)
        cat = self.begin(TICKBUS, "cat", "tcp:10.0.0.1:7471", "a.b")
        self.ends(cat, 2)
        self.assertIn("expected shm:NAME or rdma:HOST:PORT", cat.err.read_text())

    def test_rdma_address_without_a_device_is_a_plain_error(self):
        pubd = self.pubd(self.quiet(', listen: [ "shm:", "rdma:192.0.2.1:7471" ]'), expect=None)
        self.ends(pubd, 1)
        self.assertIn("address rdma:192.0.2.1:7471", pubd.err.read_text())
        cat = self.begin(TICKBUS, "cat", "rdma:192.0.2.1:7471", "a.b")
        self.assertIn(cat.wait(PATIENCE_S), (1, 4))
        self.assertIn("rdma:192.0.2.1:7471", cat.err.read_text())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[4:]])
