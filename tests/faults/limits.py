#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What runs out, and files that change under a feed: a clear error each, and nobody else harmed.

    limits.py PUBD TICKBUS CONTROL [CASE...]
"""
import errno
import gzip
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
    """A pubd that has too little of something, or just enough; of a user who is nobody, since root is
    held to few limits. Some are the user's, not the program's, so each run of this has one of its own."""

    def setUp(self):
        super().setUp()
        self.user, self.nobody = os.geteuid(), []
        if self.user == 0:
            self.need_root()
            self.user = 20000 + os.getpid() % 40000
            os.chown(self.folder, self.user, self.user)
            self.nobody = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]

    def begin(self, *command, prefix=(), **more):
        return super().begin(*command, prefix=[*prefix, *self.nobody], **more)

    def outcome(self, limit):
        """Its exit status, if it is told to end when its bus is there, and its words: that a feed
        cannot begin comes after that."""
        pubd = self.begin(PUBD, self.file("pubd.yaml", settings(FEED)), prefix=["prlimit", limit])
        self.until(lambda: pubd.began() or not pubd.running(), "a bus", pubd)
        pubd.signal(signal.SIGTERM)
        return pubd.popen.wait(PATIENCE_S), pubd.words()


class Descriptors(Limited):
    def test_too_few_to_begin_is_an_error_in_words(self):
        errors = 0
        for limit in range(4, 60):
            status, words = self.outcome(f"--nofile={limit}")
            if status == 0:
                break
            if re.search("error while loading shared libraries", words):
                continue  # not even the system's libraries
            errors += 1
            self.assertEqual(status, 1, words)
            self.assertRegex(words, "descriptors|Too many open files")
            self.assertNotRegex(words, r"error address \S+ Too many")  # which, is to be said
        else:
            self.fail("never enough")
        self.assertGreater(errors, 5)

    def test_none_left_for_further_subscribers_is_told_to_them_and_logged_once_each(self):
        pubd = self.pubd(settings(FEED, more="slots: 65536, instruments: 64"),
                         prefix=["prlimit", "--nofile=40"])
        other = self.control()
        other.reads_on()
        peers, refused = [], []
        for _ in range(60):
            peers.append(self.peer())
            peers[-1].raw(struct.pack("<I", wire.HELLO) + wire.hello())
        for peer in peers:
            frame = peer.receive()
            if frame[0] == wire.REFUSE:
                refused.append((*struct.unpack_from("<I", frame[1]), frame[1][4:].decode()))
        self.assertGreater(len(refused), 20)
        self.assertEqual(set(refused), {(errno.EAGAIN, "the publisher has no descriptor left")})
        self.assertEqual(pubd.words().count("no descriptor is left"), len(refused))
        other.reads_on(100)
        for peer in peers:
            peer.close()
        late = self.control()  # they are given back
        late.reads_on()
        pubd.stop()
        for control in (other, late):
            control.ends(0)
            self.assertEqual(control.events("sum")[-1]["wrong"], 0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)

    def limit(self, pubd, most):
        """The limit of a pubd that runs: its user may set it."""
        subprocess.run([*self.nobody, "prlimit", f"--pid={pubd.pid}", f"--nofile={most}:"], check=True)

    def test_a_reader_of_one_topic_outlives_a_publisher_that_has_none_for_its_join(self):
        first = self.pubd(settings(FEED))
        cat = self.begin(TICKBUS, "cat", "shm:b", "t", "--format=json")
        self.until(lambda: '"event":"appeared"' in cat.out.read_text(), "appeared", cat)
        cat.signal(signal.SIGSTOP)
        first.kill()
        second = self.pubd(settings(FEED), "second.yaml")
        taken = {int(number) for number in os.listdir(f"/proc/{second.pid}/fd")}
        free = next(number for number in range(10000) if number not in taken)
        self.limit(second, free + 1)  # its connection takes that one
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

    def test_too_many_on_their_way_to_who_does_not_read_are_told_by_name(self):
        pubd = self.pubd(settings(FEED), prefix=["prlimit", "--nofile=100"])
        greedy = [self.peer() for _ in range(10)]
        for peer in greedy:
            peer.greet()
        epoch, topic = greedy[0].first_topic()
        join = wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch))
        for peer in greedy:
            for _ in range(15):  # as many as it may leave unread
                peer.raw(struct.pack("<I", wire.MESSAGE) + join)
        pubd.says("was dropped: too many descriptors are in flight to subscribers that do not "
                  r"read \(see ulimit -n\)")
        late = self.begin(TICKBUS, "topics", "shm:b")
        late.ends(1)
        self.assertIn("too many descriptors are in flight", late.words())
        for peer in greedy:
            peer.close()
        self.control().reads_on()
        pubd.stop()


class Memory(Limited):
    BIG = "slots: 1048576, instruments: 64"  # 64 MiB

    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("the address sanitizer takes more address space than any limit leaves")

    def test_too_little_for_a_topic_is_an_error_that_names_the_bytes(self):
        words = self.refused(settings(FEED, more=self.BIG), prefix=["prlimit", f"--as={60 << 20}"])
        self.assertRegex(words, r"error topic t: memory t: [0-9]{8} bytes cannot be had: ")

    def test_too_little_for_a_subscriber_is_its_error_alone(self):
        pubd = self.pubd(settings(FEED, more=self.BIG))
        other = self.control()
        other.reads_on()
        cat = self.begin(TICKBUS, "cat", "shm:b", "t", prefix=["prlimit", f"--as={60 << 20}"])
        cat.ends(1)
        self.assertRegex(cat.words(), r"topic t: .*[0-9]{8} bytes cannot be mapped: Cannot allocate")
        other.reads_on(100)
        pubd.stop()
        other.ends(0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)

    def test_any_limit_of_address_space_is_an_error_or_enough(self):
        errors = 0
        for limit in range(8 << 20, 400 << 20, 3 << 20):
            status, words = self.outcome(f"--as={limit}")
            if status == 0:
                break
            if "loading shared libraries" not in words:
                errors += 1
                self.assertEqual(status, 1, words)
                self.assertRegex(words, "memory|Cannot allocate|no thread")
        else:
            self.fail("never enough")
        self.assertGreater(errors, 2)


class Locked(Limited):
    def test_a_limit_of_locked_memory_is_one_warning_with_the_remedy_and_all_goes_on(self):
        if SANITIZED:
            self.skipTest("the address sanitizer makes nothing of a wish to lock memory")
        pubd = self.pubd(settings(FEED, topics=("t", "u")), prefix=["prlimit", "--memlock=65536"])
        self.assertEqual(pubd.words().count("cannot be pinned"), 1)
        self.assertRegex(pubd.words(), "warning .*limit of lockable memory is 65536 bytes.*remedy: "
                                       ".*ulimit -l")
        control = self.control("u")
        control.reads_on(100)
        pubd.stop()
        control.ends(0)


class Disk(Limited):
    """The log's disk is full: nobody waits for it, and what was lost is told when there is room."""

    def complain(self, times):
        """Things worth a line in the log."""
        for _ in range(times):
            peer = self.peer()
            peer.raw(b"garbage")
            peer.refusal()
            peer.close()

    def goes_on(self, control):
        control.reads_on(100)
        self.complain(5)
        control.reads_on(100)

    def test_a_device_that_is_always_full(self):
        pubd = self.begin(PUBD, self.file("pubd.yaml",
                                          settings(FEED, log="log: { file: /dev/full }")))
        control = self.control()
        control.reads_on()
        self.goes_on(control)
        self.assertEqual(pubd.words(), "pubd: log file /dev/full: cannot be written: No space left on "
                                       "device\n")
        pubd.stop()
        control.ends(0)

    def may_grow_to(self, pubd, size):
        subprocess.run([*self.nobody, "prlimit", f"--pid={pubd.pid}", f"--fsize={size}:"], check=True)

    def test_a_file_that_may_not_grow_and_then_may(self):
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
        self.until(lambda: "5 lines before the last could not be written" in log.read_text(),
                   "what was lost", pubd)
        pubd.stop()
        control.ends(0)

    def test_a_file_system_without_room_and_then_with(self):
        place = self.folder / "full"
        place.mkdir()
        alone = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
        mount = alone + ["sh", "-ec", 'mount -t tmpfs -o size=32k,mode=1777 none "$0"; "$@"', place]
        if subprocess.run([*map(str, mount), "true"], capture_output=True).returncode:
            self.skipTest("no file system can be mounted here (unshare --mount)")
        mount[-2] = mount[-2].replace('"$@"', 'exec "$@"')
        log = place / "log"
        pubd = self.begin(PUBD, self.file("pubd.yaml",
                                          settings(FEED, log=f"log: {{ file: {log} }}")),
                          prefix=map(str, mount))
        control = self.control()
        control.reads_on()
        inside = pathlib.Path(f"/proc/{pubd.pid}/root{place}")
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
        self.until(lambda: "before the last could not be written" in (inside / "log").read_text(),
                   "what was lost", pubd)
        pubd.stop()
        control.ends(0)

    def test_a_standard_error_that_nobody_reads(self):
        reading, writing = os.pipe()
        pubd = self.begin(PUBD, self.file("pubd.yaml", settings(FEED)),
                          prefix=["sh", "-c", f'exec "$0" "$@" 2>&{writing}'], pass_fds=[writing])
        os.close(writing)
        control = self.control()
        control.becomes("appeared")  # so the bus is there
        self.complain(3000)  # more than a pipe holds
        self.assertEqual(self.counters()["dropped"], 3000)
        control.reads_on(100)
        text = os.read(reading, 1 << 20)
        self.complain(1)
        while b" lines before the last could not be written" not in text:
            self.assertTrue(select.select([reading], [], [], PATIENCE_S)[0], "never: what was lost")
            text += os.read(reading, 1 << 16)
        pubd.stop()
        control.ends(0)
        os.close(reading)

    def test_memory_that_may_not_be_so_large_a_file_is_an_error(self):
        words = self.refused(settings(FEED), prefix=["prlimit", "--fsize=65536"])
        self.assertRegex(words, r"error topic t: memory t: [0-9]+ bytes cannot be had: File too large "
                                r"\(see ulimit -f\)")


class Place(Limited):
    def test_a_folder_that_cannot_be_written_is_an_error_with_the_remedy(self):
        place = self.folder / "closed"
        place.mkdir(0o555)
        self.env["TICKBUS_RUNTIME_DIR"] = str(place)
        words = self.refused(settings(FEED))
        self.assertRegex(words, r"error address shm:b: cannot create a socket in \S+: Permission "
                                r"denied; set TICKBUS_RUNTIME_DIR to a folder of yours")

    def test_a_folder_that_is_not_there(self):
        self.env["TICKBUS_RUNTIME_DIR"] = str(self.folder / "nowhere")
        self.assertRegex(self.refused(settings(FEED)), "error address shm:b: cannot create a socket "
                                                       "in .*nowhere: No such file")


class File(Limited):
    """The file of a feed is taken away while it is read. It is open, and read to 128 KiB, when the
    subscriber comes for whom the feed waits."""

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
        """Reads the file, changed before its first message is asked for: the log, and how many
        quotes came. The other feed must not feel it."""
        pubd = self.pubd(text or self.text)
        pubd.says("waits for 1 subscribers")
        other = self.control("u")
        other.reads_on()
        change()
        control = self.control("t", "oldest")
        control.sees("ended")
        other.reads_on(100)
        self.assertEqual(other.sum()["lost"], 0)
        books = control.events("ended")[-1]
        self.assertEqual(books["wrong"], 0)
        pubd.signal(signal.SIGTERM)
        pubd.popen.wait(60)
        other.ends(0)
        return pubd.words(), books["total"], pubd.popen.returncode

    def whole(self):
        words, total, status = self.run_feed(lambda: None)
        self.assertEqual(status, 0, words)
        self.assertIn("read 40000 messages, to the end", words)
        return total

    def test_removed_is_read_to_its_end_all_the_same(self):
        expected = self.whole()
        words, total, status = self.run_feed(self.day.unlink)
        self.assertIn("read 40000 messages, to the end", words)
        self.assertEqual((total, status), (expected, 0))

    def test_replaced_by_another_the_one_that_was_opened_is_read(self):
        expected = self.whole()
        other = self.synth("other.bin", 6)
        words, total, status = self.run_feed(lambda: other.rename(self.day))
        self.assertIn("read 40000 messages, to the end", words)
        self.assertEqual((total, status), (expected, 0))

    def cut(self, size):
        with open(self.day, "r+b") as file:
            file.truncate(size)

    def test_truncated_is_an_error_that_names_the_place_after_all_before_it(self):
        whole = self.day.read_bytes()
        ends = [0]
        while ends[-1] < len(whole):
            ends.append(ends[-1] + 2 + struct.unpack_from(">H", whole, ends[-1])[0])
        boundary = next(end for end in ends if end > 300000)
        expected = self.whole()
        for size in (boundary, boundary + 1, boundary + 7, 0):  # 0: what was read ahead is left
            self.day.write_bytes(whole)
            words, total, status = self.run_feed(lambda: self.cut(size))
            self.assertEqual(status, 1, words)
            self.assertRegex(words, rf"error feed f: .*day\.bin: .*expected {len(whole)}")
            self.assertTrue(0 < total < expected)

    def test_truncated_in_the_middle_of_compressed_data_is_the_same(self):
        expected = self.whole()
        for packed in (gzip.compress(self.day.read_bytes()), self.synth("day.zst", 5).read_bytes()):
            self.day.write_bytes(packed)
            size = len(packed) // 2
            self.assertGreater(size, 131072)  # so that it was not read when it is cut
            words, total, status = self.run_feed(lambda: self.cut(size))
            self.assertEqual(status, 1, words)
            self.assertRegex(words, rf"error feed f: .*day\.bin: .*expected {len(packed)}")
            self.assertTrue(0 < total < expected)

    def test_overwritten_in_place_is_counted_or_an_error_and_nothing_worse(self):
        def overwrite():
            with open(self.day, "r+b") as file:
                file.seek(200000)
                file.write(seed().randbytes(100000))
        words, total, status = self.run_feed(overwrite)
        self.assertEqual(status, 1, words)
        self.assertRegex(words, r"error feed f: .*day\.bin: offset [0-9]+ of the uncompressed stream")
        self.assertGreater(total, 0)

    def test_gone_when_it_is_to_be_read_again_is_an_error(self):
        words, _, status = self.run_feed(self.day.unlink,
                                         self.text.replace("date:", "at_end: restart, date:"))
        self.assertEqual(status, 1)
        self.assertRegex(words, r"error feed f: .*day\.bin: No such file or directory")


main()
