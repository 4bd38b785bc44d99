#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Resources that run out, and files that change under a feed: a clear error, and no harm to others.

    limits.py PUBD TICKBUS CONTROL [CASE...]
"""
import contextlib
import errno
import grp
import gzip
import json
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess

import wire
from scene import PATIENCE_S, PUBD, SANITIZED, TICKBUS, Scene, main, seed, settings, synthetic

FEED = synthetic(", rate: 5000, speed: realtime")


class Limited(Scene):
    """A pubd with too little of a resource, or just enough. Root ignores most limits, so pubd runs as
    another user. Some limits count per user, so each run of this test takes a user id of its own."""

    def setUp(self):
        super().setUp()
        self.user, self.as_user = os.geteuid(), []
        if self.user == 0:
            self.need_root()
            self.user = 20000 + os.getpid() % 40000
            os.chown(self.folder, self.user, self.user)
            self.as_user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]

    def begin(self, *command, prefix=(), **more):
        return super().begin(*command, prefix=[*prefix, *self.as_user], **more)

    def outcome(self, limit):
        """Exit status and messages of a pubd that gets SIGTERM once its bus is open. A feed that cannot
        start fails only later."""
        pubd = self.begin(PUBD, self.file("pubd.yaml", settings(FEED)), prefix=["prlimit", limit])
        self.until(lambda: pubd.began() or not pubd.running(), "an open bus", pubd)
        pubd.signal(signal.SIGTERM)
        return pubd.popen.wait(PATIENCE_S), pubd.messages()


class Descriptors(Limited):
    def test_too_few_descriptors_at_start_is_an_error(self):
        errors = 0
        for limit in range(4, 60):
            status, log = self.outcome(f"--nofile={limit}")
            if status == 0:  # it serves few subscribers or no subscriber
                self.assertIn(f"warning the limit of open files is {limit}, but 1024 subscribers", log)
                break
            if re.search("error while loading shared libraries", log):
                continue  # too few even for the system's libraries
            errors += 1
            self.assertEqual(status, 1, log)
            self.assertRegex(log, "descriptors|Too many open files")
            self.assertNotIn("cannot allocate", log)
            self.assertNotRegex(log, r"error address \S+ Too many")  # the message must name the resource
        else:
            self.fail("no limit was enough")
        self.assertGreater(errors, 5)

    def test_subscriber_beyond_the_limit_is_refused_and_logged_once(self):
        pubd = self.pubd(settings(FEED, more="slots: 65536, instruments: 64"),
                         prefix=["prlimit", "--nofile=40"])
        other = self.control()
        other.reads_on()
        peers, refused = [], []
        for _ in range(60):
            peers.append(self.peer())
            peers[-1].raw(struct.pack("<I", wire.HELLO) + wire.hello())
        for peer in peers:
            frame = peer.prove()
            if frame[0] == wire.REFUSE:
                refused.append((*struct.unpack_from("<I", frame[1]), frame[1][4:].decode()))
        self.assertGreater(len(refused), 20)
        self.assertEqual(set(refused), {(errno.EAGAIN, "the publisher has no descriptor left")})
        self.assertEqual(pubd.messages().count("no descriptor is left"), len(refused))
        other.reads_on(100)
        for peer in peers:
            peer.close()
        late = self.control()  # the descriptors are free again
        late.reads_on()
        pubd.stop()
        for control in (other, late):
            control.ends(0)
            self.assertEqual(control.events("sum")[-1]["wrong"], 0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)

    def limit(self, pubd, most):
        """Sets the limit of a running pubd, as its own user."""
        subprocess.run([*self.as_user, "prlimit", f"--pid={pubd.pid}", f"--nofile={most}:"], check=True)

    def test_reader_survives_a_join_refused_for_lack_of_descriptors(self):
        first = self.pubd(settings(FEED))
        cat = self.begin(TICKBUS, "cat", "shm:b", "t", "--format=json")
        self.until(lambda: '"event":"appeared"' in cat.out.read_text(), "appeared", cat)
        cat.signal(signal.SIGSTOP)
        first.kill()
        second = self.pubd(settings(FEED), "second.yaml")
        taken = {int(number) for number in os.listdir(f"/proc/{second.pid}/fd")}
        free = next(number for number in range(10000) if number not in taken)
        self.limit(second, free + 1)  # the connection takes the last descriptor
        cat.signal(signal.SIGCONT)
        self.until(lambda: '"event":"refused"' in cat.out.read_text(), "refused", cat)
        self.assertRegex(cat.out.read_text(), rf'"code":{errno.EMFILE},"words":"topic t: at the '
                         'publisher: no descriptor for shared memory: Too many open files"')
        second.says("warning pid [0-9]+ of user [0-9]+ was refused a join: topic t: at the publisher: "
                    "no descriptor for shared memory")
        self.limit(second, free + 20)
        self.until(lambda: '"event":"restart"' in cat.out.read_text(), "restart", cat)
        cat.stop()
        second.stop()

    def test_limit_below_the_settings_is_warned_with_remedy(self):
        words = (r"warning the limit of open files is 100, but 1024 subscribers \(subscribers_max\) need "
                 r"[0-9]+; raise the limit \(ulimit -Hn\), or lower subscribers_max")
        pubd = self.pubd(settings(FEED), prefix=["prlimit", "--nofile=100"])
        self.assertEqual(len(re.findall(words, pubd.messages())), 1, pubd.messages())
        pubd.stop()
        pubd = self.pubd(settings(FEED, bus=", subscribers_max: 10"), prefix=["prlimit", "--nofile=100"])
        self.assertNotIn("the limit of open files", pubd.messages())
        pubd.stop()

    def ask_much(self, join):
        """A connection that reads no grant, and sends garbage, so that pubd ends it. It stays open here.
        Returns the connection, or None if it was refused."""
        peer = self.peer()
        if peer.greet()[0] == wire.REFUSE:
            return None
        for _ in range(8):
            peer.raw(struct.pack("<I", wire.MESSAGE) + join)
        peer.raw(b"garbage")
        return peer

    def test_user_that_reads_no_grants_leaves_other_users_theirs(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        pubd = self.pubd(settings(FEED, topics=("t", "u")), prefix=["prlimit", "--nofile=100"])
        first = self.peer()
        first.greet()
        epoch, topic = first.first_topic()
        first.close()
        join = wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch))
        greedy = []
        while (peer := self.ask_much(join)) is not None:
            greedy.append(peer)
        self.assertLess(len(greedy), 25)
        pubd.says("of user 0 was refused: user 0 leaves 25 descriptors untaken, expected fewer than 25")
        goods = [self.control("t"), self.control("u")]  # of another user
        for good in goods:
            good.reads_on(100)
        self.assertNotIn("too many descriptors are in flight", pubd.messages())
        for peer in greedy:
            peer.close()
        again = self.peer()
        self.assertEqual(again.greet()[0], wire.WELCOME)
        pubd.stop()
        for good in goods:
            good.ends(0)
            self.assertEqual(good.events("sum")[-1]["lost"], 0)


class Memory(Limited):
    BIG = "slots: 1048576, instruments: 64"  # 64 MiB

    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("the address sanitizer takes more address space than any limit leaves")

    def test_too_little_memory_for_a_topic_is_an_error_with_bytes(self):
        log = self.refused(settings(FEED, more=self.BIG), prefix=["prlimit", f"--as={60 << 20}"])
        self.assertRegex(log, r"error topic t: memory t: cannot allocate [0-9]{8} bytes: ")

    def test_too_little_memory_for_a_subscriber_harms_no_other(self):
        pubd = self.pubd(settings(FEED, more=self.BIG))
        other = self.control()
        other.reads_on()
        cat = self.begin(TICKBUS, "cat", "shm:b", "t", prefix=["prlimit", f"--as={60 << 20}"])
        cat.ends(1)
        self.assertRegex(cat.messages(), r"topic t: .*[0-9]{8} bytes cannot be mapped: Cannot allocate")
        other.reads_on(100)
        pubd.stop()
        other.ends(0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)

    def group_of_memory(self, limit):
        """The prefix of a command that runs in a new control group with this limit in bytes."""
        self.need_root()
        for parent, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"),
                             ("/sys/fs/cgroup/unified", "memory.max")):
            group = pathlib.Path(parent, f"tickbus-{os.getpid()}")
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(group.rmdir)
            try:
                (group / name).write_text(str(limit))
            except OSError:
                continue
            return ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "sh"]
        self.skipTest("cannot make a control group with a limit of memory here")

    def test_memory_beyond_the_limit_of_the_control_group_is_an_error(self):
        log = self.refused(settings(FEED, more=self.BIG), prefix=self.group_of_memory(48 << 20))
        self.assertRegex(log, r"error topic t: memory t: cannot allocate [0-9]{8} bytes: [0-9]{1,8} bytes are available")

    def test_any_address_space_limit_suffices_or_is_an_error(self):
        errors = 0
        for limit in range(8 << 20, 400 << 20, 3 << 20):
            status, log = self.outcome(f"--as={limit}")
            if status == 0:
                break
            if "loading shared libraries" not in log:
                errors += 1
                self.assertEqual(status, 1, log)
                self.assertRegex(log, "memory|Cannot allocate|create a thread|control thread")
        else:
            self.fail("no limit was enough")
        self.assertGreater(errors, 2)


class Locked(Limited):
    def test_locked_memory_limit_is_one_warning_with_remedy(self):
        if SANITIZED:
            self.skipTest("the address sanitizer makes nothing of a wish to lock memory")
        pubd = self.pubd(settings(FEED, topics=("t", "u")), prefix=["prlimit", "--memlock=65536"])
        self.assertEqual(pubd.messages().count("cannot be pinned"), 1)
        self.assertRegex(pubd.messages(), "warning .*limit of lockable memory is 65536 bytes.*raise the limit "
                                           ".ulimit -l")
        control = self.control("u")
        control.reads_on(100)
        pubd.stop()
        control.ends(0)


class Disk(Limited):
    """The log's disk is full: records flow on, and lost lines are reported once there is room."""

    def complain(self, times):
        """Causes a log line, this many times."""
        for _ in range(times):
            peer = self.peer()
            peer.raw(b"garbage")
            peer.refusal()
            peer.close()

    def goes_on(self, control):
        control.reads_on(100)
        self.complain(5)
        control.reads_on(100)

    def test_log_on_a_full_device_stops_no_reader(self):
        pubd = self.begin(PUBD, self.file("pubd.yaml",
                                          settings(FEED, log="log: { file: /dev/full }")))
        control = self.control()
        control.reads_on()
        self.goes_on(control)
        self.assertEqual(pubd.messages(), "pubd: log file /dev/full: cannot be written: No space left on "
                                       "device\n")
        pubd.stop()
        control.ends(0)

    def may_grow_to(self, pubd, size):
        subprocess.run([*self.as_user, "prlimit", f"--pid={pubd.pid}", f"--fsize={size}:"], check=True)

    def test_log_at_its_size_limit_reports_lost_lines_later(self):
        log = self.folder / "log"
        pubd = self.begin(PUBD, self.file("pubd.yaml",
                                          settings(FEED, log=f"log: {{ file: {log} }}")))
        control = self.control()
        control.reads_on()
        self.assertEqual(log.stat().st_uid, self.user)
        size = log.stat().st_size
        self.may_grow_to(pubd, size)
        self.goes_on(control)
        self.assertEqual(log.stat().st_size, size)
        self.may_grow_to(pubd, "unlimited")
        self.complain(1)
        self.until(lambda: "lines missing above the previous line: 5\n" in log.read_text(),
                   "a report of lost lines", pubd)
        pubd.stop()
        control.ends(0)

    def test_log_on_a_full_file_system_reports_lost_lines_later(self):
        folder = self.folder / "full"
        folder.mkdir()
        alone = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
        mount = alone + ["sh", "-ec", 'mount -t tmpfs -o size=32k,mode=1777 none "$0"; "$@"', folder]
        if subprocess.run([*map(str, mount), "true"], capture_output=True).returncode:
            self.skipTest("no file system can be mounted here (unshare --mount)")
        mount[-2] = mount[-2].replace('"$@"', 'exec "$@"')
        log = folder / "log"
        pubd = self.begin(PUBD, self.file("pubd.yaml",
                                          settings(FEED, log=f"log: {{ file: {log} }}")),
                          prefix=map(str, mount))
        control = self.control()
        control.reads_on()
        inside = pathlib.Path(f"/proc/{pubd.pid}/root{folder}")
        with open(inside / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError:
                pass
        while (inside / "log").stat().st_size % 4096:  # the last page of the log has room
            before = (inside / "log").stat().st_size
            self.complain(1)
            if (inside / "log").stat().st_size == before:
                break
        self.goes_on(control)
        (inside / "filler").unlink()
        self.complain(1)
        self.until(lambda: "missing above the previous line" in (inside / "log").read_text(),
                   "a report of lost lines", pubd)
        pubd.stop()
        control.ends(0)

    def test_unread_standard_error_reports_lost_lines_later(self):
        reading, writing = os.pipe()
        pubd = self.begin(PUBD, self.file("pubd.yaml", settings(FEED)),
                          prefix=["sh", "-c", f'exec "$0" "$@" 2>&{writing}'], pass_fds=[writing])
        os.close(writing)
        control = self.control()
        control.becomes("appeared")  # so the bus is open
        self.complain(3000)  # more than a pipe holds
        self.assertEqual(self.counters()["dropped"], 3000)
        control.reads_on(100)
        text = os.read(reading, 1 << 20)
        self.complain(1)
        while b" lines missing above the previous line" not in text:
            self.assertTrue(select.select([reading], [], [], PATIENCE_S)[0], "no report of lost lines")
            text += os.read(reading, 1 << 16)
        pubd.stop()
        control.ends(0)
        os.close(reading)

    def test_file_size_limit_below_a_topic_is_an_error(self):
        log = self.refused(settings(FEED), prefix=["prlimit", "--fsize=65536"])
        self.assertRegex(log, r"error topic t: memory t: cannot allocate [0-9]+ bytes: File too large "
                                r"\(see ulimit -f\)")


class RuntimeFolder(Limited):
    def test_unwritable_runtime_folder_is_an_error_with_remedy(self):
        folder = self.folder / "closed"
        folder.mkdir(0o555)
        self.env["TICKBUS_RUNTIME_DIR"] = str(folder)
        log = self.refused(settings(FEED))
        self.assertRegex(log, r"error address shm:b: cannot create a socket in \S+: Permission "
                                r"denied; set TICKBUS_RUNTIME_DIR to a folder of yours")

    def test_missing_runtime_folder_is_an_error(self):
        self.env["TICKBUS_RUNTIME_DIR"] = str(self.folder / "nowhere")
        self.assertRegex(self.refused(settings(FEED)), "error address shm:b: TICKBUS_RUNTIME_DIR: "
                                                       "found .*nowhere, expected a folder")


    def both_files(self):
        return [self.folder / "b.sock", self.folder / "b.lock"]

    def test_removed_socket_and_lock_are_made_again(self):
        pubd = self.pubd(settings(FEED))
        other = self.control()
        other.reads_on()
        for removed in (self.both_files(), self.both_files()[:1], self.both_files()[1:]):
            for path in removed:
                path.unlink()
            self.until(lambda: all(path.exists() for path in self.both_files()), "both files again", pubd)
            late = self.control()
            late.reads_on()
            late.kill()
            self.assertIn("another publisher (pid ", self.refused(settings(FEED)))
        self.assertEqual(pubd.messages().count("were removed, and are there again"), 3)
        other.reads_on(100)
        pubd.stop()
        other.ends(0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)
        self.assertFalse(any(path.exists() for path in self.both_files()))

    def test_publisher_whose_address_was_taken_ends_with_a_message(self):
        first = self.pubd(settings(FEED))
        first.signal(signal.SIGSTOP)
        self.until(lambda: first.state() == "T", "stopped", first)
        for path in self.both_files():
            path.unlink()
        second = self.pubd(settings(FEED), name="second.yaml")
        first.signal(signal.SIGCONT)
        first.ends(1)
        self.assertRegex(first.messages(), rf"error address shm:b: another publisher \(pid {second.pid}\) listens there "
                                           r"\(.*b.sock\): files of this publisher were removed, and subscribers "
                                           r"cannot connect to it any more\n.*info the bus lost an address; exiting")
        late = self.control()
        late.reads_on()
        second.stop()
        late.ends(0)

    def other_system_folder(self):
        """The prefix of commands that have a /run/tickbus of their own."""
        self.need_root()
        del self.env["TICKBUS_RUNTIME_DIR"]
        self.env["XDG_RUNTIME_DIR"] = str(self.folder)
        hold = Scene.begin(self, "unshare", "-m", "sh", "-c", "mount -t tmpfs none /run && mkdir /run/tickbus "
                                                              "&& echo ready && exec sleep 600")
        self.until(lambda: hold.out.read_text() or not hold.running(), "a mount namespace", hold)
        if not hold.out.read_text():
            self.skipTest("needs permission for a mount namespace: " + hold.messages())
        return ["nsenter", "-t", str(hold.pid), "-m", f"--wd={os.getcwd()}"]

    def test_session_folder_is_found_without_its_variable(self):
        inside = self.other_system_folder()
        session = f"/run/user/{self.user}"
        del self.env["XDG_RUNTIME_DIR"]
        subprocess.run([*inside, "sh", "-c", f"rmdir /run/tickbus; mkdir -p {session} && chown {self.user} {session}"],
                       check=True)
        own = self.begin(PUBD, self.file("pubd.yaml", settings(FEED)), prefix=inside)
        own.says(rf"info address shm:b: listens at {session}/tickbus/b.sock\n")
        self.until(own.began, "the user's bus", own)
        self.assertEqual(self.topics([*inside, *self.as_user]), (0, self.user))
        self.env["XDG_RUNTIME_DIR"] = session
        self.assertEqual(self.topics([*inside, *self.as_user]), (0, self.user))
        own.stop()

    def topics(self, prefix):
        result = subprocess.run([*prefix, TICKBUS, "topics", "shm:b", "--format=json"], env=self.env,
                                capture_output=True, text=True, timeout=PATIENCE_S)
        return result.returncode, json.loads(result.stdout)["uid"] if result.stdout else result.stderr

    def test_bus_of_root_does_not_hide_the_bus_of_a_user(self):
        inside = self.other_system_folder()
        text = self.file("pubd.yaml", settings(FEED))
        roots = Scene.begin(self, PUBD, text, prefix=inside)
        roots.says("info address shm:b: listens at /run/tickbus/b.sock\n.*creating")
        self.until(roots.began, "root's bus", roots)
        own = self.begin(PUBD, text, prefix=inside)
        own.says(rf"warning address shm:b: subscribers find this name in another folder first, and go on to "
                 rf"{self.folder}/tickbus/b.sock \(/run/tickbus: user {self.user} has no permission to connect to b.sock of user 0\)")
        self.until(own.began, "the user's bus", own)
        self.assertEqual(self.topics(inside), (0, 0))
        self.assertEqual(self.topics([*inside, *self.as_user]), (0, self.user))
        roots.kill()
        self.assertEqual(self.topics([*inside, *self.as_user]), (0, self.user))
        status, words = self.topics(inside)
        self.assertIn("no publisher listens there (/run/tickbus: no process listens at b.sock; ", words)
        self.assertEqual(status, 4)
        own.stop()

    def test_bus_behind_a_bus_that_its_user_may_read_is_an_error(self):
        inside = self.other_system_folder()
        self.as_user[-1] = "--groups=0"
        text = settings(FEED, bus=f", access: {{ groups: [ {grp.getgrgid(0).gr_name} ] }}")
        roots = Scene.begin(self, PUBD, self.file("root.yaml", text), prefix=inside)
        self.until(roots.began, "root's bus", roots)
        log = self.refused(settings(FEED), prefix=inside)
        self.assertRegex(log, rf"error address shm:b: subscribers of user {self.user} look into /run/tickbus before "
                              rf"{self.folder}/tickbus/b.sock: found a bus of user 0, expected no bus there; choose another name")
        self.assertEqual(self.topics([*inside, *self.as_user]), (0, 0))


class File(Limited):
    """A feed's file changes while it is read. The feed waits for a subscriber; by then the file is open
    and its first 128 KiB are read."""

    def setUp(self):
        super().setUp()
        self.day = self.synth("day.bin", 5)
        more = f"path: {self.day}, date: 2019-12-30, start: {{ subscribers: 1 }}"
        self.text = (settings(f"type: itch50, {more}", more="slots: 131072, instruments: 64")
                     .replace("topics:", f"  - {{ name: g, {FEED} }}\ntopics:")
                     + "  - { name: u, feed: g, select: quote, schema: quote }\n")

    def synth(self, name, seed):
        path = self.folder / name
        subprocess.run([TICKBUS, "synth", "--seed", str(seed), "--symbols", "20", "--messages",
                        "40000", path], check=True, env=self.env)
        return path

    def run_feed(self, change, text=None):
        """Changes the file before its first message is published. Returns the log, the number of quotes
        and the exit status. The other feed must lose nothing."""
        pubd = self.pubd(text or self.text)
        pubd.says("waits for 1 subscribers")
        other = self.control("u")
        other.reads_on()
        change()
        control = self.control("t", "oldest")
        control.sees("ended")
        other.reads_on(100)
        self.assertEqual(other.sum()["lost"], 0)
        account = control.events("ended")[-1]
        self.assertEqual(account["wrong"], 0)
        pubd.signal(signal.SIGTERM)
        pubd.popen.wait(60)
        other.ends(0)
        return pubd.messages(), account["total"], pubd.popen.returncode

    def whole(self):
        log, total, status = self.run_feed(lambda: None)
        self.assertEqual(status, 0, log)
        self.assertIn("read 40000 messages, to the end", log)
        return total

    def test_removed_file_is_read_to_its_end(self):
        expected = self.whole()
        log, total, status = self.run_feed(self.day.unlink)
        self.assertIn("read 40000 messages, to the end", log)
        self.assertRegex(log, r"warning feed f: \S+day\.bin was removed while it was read")
        self.assertEqual((total, status), (expected, 0))

    def test_replaced_file_is_read_as_it_was_opened(self):
        expected = self.whole()
        other = self.synth("other.bin", 6)
        log, total, status = self.run_feed(lambda: other.rename(self.day))
        self.assertIn("read 40000 messages, to the end", log)
        self.assertRegex(log, r"warning feed f: \S+day\.bin was replaced by another file while it "
                              "was read")
        self.assertEqual((total, status), (expected, 0))

    def test_file_without_an_end_of_messages_is_left_at_once(self):
        """A hundred frames that zstd skips, of 4 GiB each, all holes."""
        frame = bytes.fromhex("502a4d18ffffffff")
        with open(self.folder / "hollow.zst", "wb") as file:
            for number in range(100):
                file.seek(number * (0xffffffff + len(frame)))
                file.write(frame)
            file.truncate(100 * (0xffffffff + len(frame)))
        pubd = self.pubd(settings(f"type: itch50, path: {self.folder}/hollow.zst, date: 2019-12-30"))
        pubd.says("reads")
        pubd.signal(signal.SIGTERM)
        pubd.popen.wait(PATIENCE_S)
        self.assertEqual(pubd.popen.returncode, 0, pubd.messages())
        self.assertNotIn("stopped after", pubd.messages())

    def test_pipe_in_place_of_any_file_is_an_error(self):
        """Its other end is open, or is not: nothing waits for it."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        day = f"type: itch50, path: {pipe}, date: 2019-12-30"
        self.assertRegex(self.refused(settings(day), 2), "feeds.0..path: .*not a regular file")
        realm = f"realms:\n  - {{ name: r, topics: [ t ], ticket_file: {pipe} }}\n"
        for changed in (settings(FEED).replace("[ quote", f"[ {pipe}, quote"), settings(FEED) + realm):
            self.assertRegex(self.refused(changed, 2), "pipe: found a pipe without bytes|no regular file")
        ended = subprocess.run([PUBD, pipe], capture_output=True, text=True, env=self.env,
                               timeout=PATIENCE_S)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn("pipe: found a pipe without bytes", ended.stderr)

    def test_signal_ends_the_wait_for_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        writer = os.open(pipe, os.O_RDWR)  # it writes nothing
        self.addCleanup(os.close, writer)
        for command in ([PUBD, pipe], [TICKBUS, "schema", "check", pipe]):
            with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=self.env) as process:
                self.until(lambda: str(pipe) in self.open_files(process.pid), "the pipe is open")
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(PATIENCE_S), -signal.SIGTERM)

    def open_files(self, pid):
        """The names of the files that a process has open."""
        names = set()
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                names.add(os.readlink(link))
        return names

    def cut(self, size):
        with open(self.day, "r+b") as file:
            file.truncate(size)

    def test_truncated_file_is_an_error_after_all_records_before_it(self):
        whole = self.day.read_bytes()
        ends = [0]
        while ends[-1] < len(whole):
            ends.append(ends[-1] + 2 + struct.unpack_from(">H", whole, ends[-1])[0])
        boundary = next(end for end in ends if end > 300000)
        expected = self.whole()
        for size in (boundary, boundary + 1, boundary + 7, 0):  # 0: only what was read ahead
            self.day.write_bytes(whole)
            log, total, status = self.run_feed(lambda: self.cut(size))
            self.assertEqual(status, 1, log)
            self.assertRegex(log, rf"error feed f: .*day\.bin: .*expected {len(whole)}")
            self.assertTrue(0 < total < expected)

    def test_truncated_compressed_file_is_an_error(self):
        expected = self.whole()
        for packed in (gzip.compress(self.day.read_bytes()), self.synth("day.zst", 5).read_bytes()):
            self.day.write_bytes(packed)
            size = len(packed) // 2
            self.assertGreater(size, 131072)  # so that the cut is beyond what was read ahead
            log, total, status = self.run_feed(lambda: self.cut(size))
            self.assertEqual(status, 1, log)
            self.assertRegex(log, rf"error feed f: .*day\.bin: .*expected {len(packed)}")
            self.assertTrue(0 < total < expected)

    def test_file_overwritten_in_place_is_an_error(self):
        def overwrite():
            with open(self.day, "r+b") as file:
                file.seek(200000)
                file.write(seed().randbytes(100000))
        # Random bytes frame messages of any length. Either that ends in the middle of a message, or the day goes on.
        log, total, status = self.run_feed(overwrite, self.text.replace("date:", "incomplete: fail, date:"))
        self.assertIn(status, (1, 3), log)
        self.assertRegex(log, r"error feed f: .*day\.bin: message at byte [0-9]+: .*; the feed's topics are suspect")
        self.assertGreater(total, 0)

    def test_file_gone_before_a_restart_is_an_error(self):
        log, _, status = self.run_feed(self.day.unlink,
                                         self.text.replace("date:", "at_end: restart, date:"))
        self.assertEqual(status, 1)
        self.assertRegex(log, r"error feed f: .*day\.bin: No such file or directory")


main()
