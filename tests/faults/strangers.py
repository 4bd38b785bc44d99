#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that break the protocol: they are refused or dropped with a logged reason. Memory stays
bounded, and other subscribers are not affected.

    strangers.py PUBD TICKBUS CONTROL [CASE...]
"""
import errno
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys

import wire
from scene import PATIENCE_S, TICKBUS, Scene, growth_kb, main, seed, settings, synthetic

FEED = synthetic(", rate: 5000, speed: realtime")


class Strangers(Scene):
    """A bus with a subscriber that must not be affected."""

    def setUp(self):
        super().setUp()
        # A bound so long that a late machine does not look like a peer's effect.
        self.bus = self.pubd(settings(FEED, bus=", stale_ms: 10000, subscribers_per_host: 1024",
                                      more="slots: 65536, instruments: 64"))
        self.other = self.control()
        self.other.reads_on()
        self.until(lambda: self.counters()["subscribers"] == 2, "two subscribers", self.bus)
        self.before = self.bus.descriptors(), self.bus.memory_kb()

    def expect_no_harm(self, more_kb=256):
        """The bus holds what it held before, and the subscriber lost nothing."""
        self.until(lambda: self.counters()["subscribers"] == 2, "two subscribers", self.bus)
        self.until(lambda: self.bus.descriptors() <= self.before[0], "as few descriptors", self.bus)
        self.assertLess(self.bus.memory_kb() - self.before[1], growth_kb(more_kb))
        self.other.reads_on(100)
        self.bus.stop()
        self.other.ends(0)
        account = self.other.events("sum")[-1]
        self.assertEqual((account["lost"], account["wrong"]), (0, 0))
        self.assertEqual(self.other.events("stale"), [])

    def test_garbage_instead_of_a_hello_is_refused(self):
        chance, empty = seed(), 0
        for number in range(500):
            peer = self.peer()
            data = chance.randbytes(chance.choice([0, 1, 3, 4, 5, 59, 60, 61, 1028, 1029, 5000]))
            if number % 2:
                data = struct.pack("<I", wire.HELLO) + data
            empty += not data  # on this socket an empty message looks like an end
            peer.raw(data)
            peer.refusal()  # the connection ends, with any reason
            peer.close()
        log, counters = self.bus.messages(), self.counters()
        self.assertIn("was dropped: it sent a frame of", log)
        for kind in ("dropped", "refused"):
            self.assertEqual(counters[kind], log.count(f" was {kind}: "))
        self.assertEqual(counters["dropped"] + counters["refused"], 500 - empty)
        self.assertRegex(log, "was refused: hello message of [0-9]+ bytes: ")
        self.assertLessEqual(len(log.splitlines()), 500 + 10)
        self.expect_no_harm()

    def test_log_lines_beyond_the_rate_are_counted_not_written(self):
        sent = 0
        while "more lines" not in self.bus.messages():
            self.bus.signal(signal.SIGSTOP)  # so that they all arrive at once
            for _ in range(1020):
                peer = wire.Peer(self.folder)
                peer.raw(b"garbage")
                peer.close()
                sent += 1
            self.bus.signal(signal.SIGCONT)
            self.until(lambda: self.counters()["dropped"] == sent, "all dropped", self.bus)
        more = re.compile("([0-9]+) more lines about clients were left out")
        self.until(lambda: self.bus.messages().count("was dropped: ") +
                   sum(map(int, more.findall(self.bus.messages()))) == sent, "all counted", self.bus)
        self.expect_no_harm()

    def test_hello_with_any_wrong_field_is_refused_with_reason(self):
        for how, expected in (({"magic": 1}, "has no tickbus magic"),
                              ({"low": 3, "high": 9}, "no common version: the subscriber speaks 3 "
                                                      "to 9, the publisher 2 to 2"),
                              ({"low": 1, "high": 1}, "no common version: the subscriber speaks 1 "
                                                      "to 1, the publisher 2 to 2"),
                              ({"low": 0}, "has no valid range of versions"),
                              ({"low": 3, "high": 2}, "has no valid range of versions"),
                              ({"length": 55}, "has a length other than 56")):
            peer = self.peer()
            peer.send(wire.HELLO, wire.hello(**how))
            self.assertIn(expected, peer.refusal())
            self.assertIn(expected, self.bus.messages())
            peer.close()
        for second, expected in ((wire.second(b"x" * 16), "the second hello is too late"),
                                 (wire.hello(), "it sent a first hello again")):
            peer = self.peer()
            peer.send(wire.HELLO, wire.hello())
            self.assertEqual(peer.receive()[0], wire.CHALLENGE)
            peer.send(wire.HELLO, second)
            self.assertIn(expected, peer.refusal())
            peer.close()
        peer = self.peer()
        kind, body = peer.greet(ticket=b"t" * 32)
        self.assertEqual(kind, wire.REFUSE)
        self.assertIn(b"the bus takes no tickets", body)
        peer.close()
        self.expect_no_harm()

    def test_cut_messages_and_huge_lengths_drop_the_peer(self):
        whole = [wire.catalogue(), wire.request(wire.SCHEMA, struct.pack("<II", 1, 0)),
                 wire.request(wire.JOIN, struct.pack("<IQ", 1, 5)),
                 wire.request(wire.ARM, struct.pack("<IQQ", 1, 5, 9))]
        wrong = [message[:cut] for message in whole for cut in range(1, len(message))]
        wrong += [message + b"\0" for message in whole]
        wrong += [wire.request(wire.CATALOGUE, struct.pack("<IH", 0, length) + b">")
                  for length in (0x7fff, 0xffff, 128, 2)]
        wrong += [wire.request(kind) for kind in (0, 2, 17, 255, 0xffff)]
        wrong += [wire.request(wire.SCHEMA, struct.pack("<II", 1, 0xffffffff)), b"x" * 1024]
        for message in wrong:
            peer = self.peer()
            peer.greet()
            peer.send(wire.MESSAGE, message)
            self.assertEqual(peer.refusal(), "")  # dropped
            peer.close()
        counters = self.counters()
        self.assertEqual((counters["malformed"], counters["dropped"]), (len(wrong),) * 2)
        self.assertEqual(self.bus.messages().count("was dropped: "), len(wrong))
        self.assertRegex(self.bus.messages(), "was dropped: control message of [0-9]+ bytes: ")
        self.expect_no_harm()

    def test_unknown_ids_are_refused_and_the_connection_stays(self):
        peer = self.peer()
        peer.greet()
        epoch, topic = peer.first_topic()
        for message in (wire.request(wire.JOIN, struct.pack("<IQ", 9, epoch)),
                        wire.request(wire.JOIN, struct.pack("<IQ", 0, epoch)),
                        wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch + 1)),
                        wire.request(wire.SCHEMA, struct.pack("<II", 0xffffffff, 0)),
                        wire.request(wire.SCHEMA, struct.pack("<II", topic, 65000)),
                        wire.catalogue("a..b"), wire.catalogue("")):
            self.assertEqual(peer.ask(message)[0], wire.REFUSED)
        self.assertEqual(peer.first_topic(), (epoch, topic))
        peer.close()
        self.expect_no_harm()

    def test_replayed_joins_count_once_and_a_second_hello_drops(self):
        peer = self.peer()
        peer.greet()
        epoch, topic = peer.first_topic()
        join = wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch))
        for _ in range(500):
            self.assertEqual(peer.ask(join)[0], wire.GRANT)
        self.assertEqual(self.counters()["joins"], 2)
        leave = wire.request(wire.LEAVE, struct.pack("<IQQ", topic, epoch, 0))
        for _ in range(500):
            peer.send(wire.MESSAGE, leave)
        self.until(lambda: self.counters()["joins"] == 1, "one join", self.bus)
        peer.send(wire.HELLO, wire.hello())
        self.assertEqual(peer.refusal(), "")
        self.assertIn("it sent a frame of another kind, expected a control message",
                      self.bus.messages())
        peer.close()
        self.expect_no_harm()

    def test_descriptors_sent_by_a_peer_are_closed(self):
        given = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
        for count in (1, 4, 20):
            for _ in range(20):
                peer = self.peer()
                if not peer.raw(struct.pack("<I", wire.HELLO) + wire.hello(), given[:count]):
                    peer.send(wire.HELLO, wire.hello())
                self.assertEqual(peer.prove()[0], wire.WELCOME)
                peer.raw(struct.pack("<I", wire.MESSAGE) + wire.catalogue(), given[:count])
                peer.close()
        for descriptor in given:
            os.close(descriptor)
        self.expect_no_harm()

    def test_close_of_a_lingering_socket_does_not_block(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            stuck = socket.create_connection(server.getsockname())
            other, _ = server.accept()
        stuck.setblocking(False)
        try:
            while True:
                stuck.send(bytes(65536))
        except BlockingIOError:
            pass
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 50))
        first, second = self.peer(), self.peer()
        self.bus.signal(signal.SIGSTOP)  # so that the bus closes the socket last
        self.until(lambda: self.bus.state() == "T", "stopped", self.bus)
        sent = [first.raw(struct.pack("<I", wire.HELLO) + wire.hello(), [stuck.fileno()]),
                second.raw(b"garbage", [stuck.fileno()])]
        if not any(sent):  # if no descriptor could be sent, the close below would wait
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stuck.close()
        self.bus.signal(signal.SIGCONT)
        self.other.reads_on(100)
        for peer in (first, second):
            peer.close()
        self.expect_no_harm()
        other.close()

    def test_silent_peer_is_refused_after_the_timeout(self):
        peers = [self.peer() for _ in range(20)]
        for peer in peers:
            self.assertIn("it connected and sent no hello", peer.refusal())
            peer.close()
        self.assertEqual(self.counters()["refused"], len(peers))
        self.expect_no_harm()

    def storm(self):
        """A process that only connects and closes."""
        loop = ("import socket\n"
                "while True:\n"
                "    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)\n"
                f"    peer.connect_ex('{self.folder}/b.sock')\n"
                "    peer.close()\n")
        return self.begin(sys.executable, "-c", loop)

    def get(self):
        """The result of a command that opens a subscriber."""
        return subprocess.run([TICKBUS, "get", "shm:b", "t", "--timeout=60000"], env=self.env, capture_output=True,
                              text=True, timeout=PATIENCE_S)

    def test_connections_that_only_come_and_go_keep_nobody_from_opening(self):
        loops = [self.storm() for _ in range(2)]
        for _ in range(20):
            result = self.get()
            self.assertEqual(result.returncode, 0, result.stderr)
            self.counters()  # a command that only looks
        for loop in loops:
            self.assertTrue(loop.running(), loop.messages())
            loop.kill()
        self.expect_no_harm()

    def test_open_waits_while_the_queue_of_connections_is_full(self):
        self.bus.signal(signal.SIGSTOP)
        self.until(lambda: self.bus.state() == "T", "stopped", self.bus)
        peers, full = [], 0
        while not full:
            peers.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
            full = peers[-1].connect_ex(str(self.folder / "b.sock"))
        self.assertEqual(full, errno.EAGAIN)
        waits = self.begin(TICKBUS, "get", "shm:b", "t", "--timeout=60000")
        refused = subprocess.run([TICKBUS, "get", "shm:b", "t", "--timeout=1"], env=self.env, capture_output=True,
                                 text=True, timeout=PATIENCE_S)
        self.assertRegex(refused.stderr, "tried for 1 ms: .*b.sock: Resource temporarily unavailable")
        for peer in peers:
            peer.close()
        self.bus.signal(signal.SIGCONT)
        waits.ends(0)
        self.expect_no_harm()

    def test_a_thousand_connections_at_once_are_bounded(self):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 2000:
            self.skipTest(f"the hard limit of descriptors is {most}, expected 2000 or more")
        resource.setrlimit(resource.RLIMIT_NOFILE, (2000, most))
        self.bus.stop()  # setUp began it with the old limit
        self.other.ends(0)
        self.setUp()
        peers = []
        for _ in range(1000):
            peers.append(self.peer())
            peers[-1].send(wire.HELLO, wire.hello())  # at once: a hello is due within two seconds
        for peer in peers:
            self.assertEqual(peer.prove()[0], wire.WELCOME)
        epoch, topic = peers[0].first_topic()
        for peer in peers:
            kind, _ = peer.ask(wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch)))
            self.assertEqual(kind, wire.GRANT)
        self.assertLess(self.bus.memory_kb() - self.before[1], growth_kb(4096))
        self.assertEqual(self.counters()["joins"], 1001)
        # The settings allow 1,024 subscribers.
        more = [self.peer() for _ in range(40)]
        for peer in more:
            peer.raw(struct.pack("<I", wire.HELLO) + wire.hello())
        refused = [peer for peer in more if peer.prove()[0] == wire.REFUSE]
        self.assertEqual(len(refused), 40 - (1024 - 1001))
        for peer in peers + more:
            peer.close()
        self.expect_no_harm(more_kb=1024)

    def test_peer_that_never_reads_its_answers_is_dropped(self):
        for message in (wire.catalogue(), wire.request(wire.SCHEMA, struct.pack("<II", 1, 0))):
            peer = self.peer()
            peer.greet()
            while peer.raw(struct.pack("<I", wire.MESSAGE) + message):
                pass
            peer.close()
        self.assertEqual(self.bus.messages().count("was dropped: it does not read its messages"), 2)
        self.expect_no_harm()


class Sleepers(Scene):
    """A subscriber that leaves its wakes unread costs the publishing thread nothing."""

    def signals(self):
        """The publishing thread's wakes, and its flushes."""
        topic = self.counters("topic")
        return topic["signals"], topic["flushes"]

    def test_sleeper_with_a_full_queue_is_not_woken_at_every_flush(self):
        bus = self.pubd(settings(FEED, more="slots: 65536, instruments: 64"))
        other = self.control(how="spin")  # never sleeps
        other.reads_on()
        peer = self.peer()
        peer.greet()
        epoch, topic = peer.first_topic()
        peer.ask(wire.request(wire.JOIN, struct.pack("<IQ", topic, epoch)))
        arm = wire.request(wire.ARM, struct.pack("<IQQ", topic, epoch, 0))
        for _ in range(2000):
            peer.raw(struct.pack("<I", wire.MESSAGE) + arm)
        self.until(lambda: self.counters()["messages"] > 2000, "all messages read", bus)
        before = self.signals()
        self.until(lambda: self.signals()[1] > before[1] + 2000, "2000 flushes", bus)
        self.assertLess(self.signals()[0] - before[0], 200)
        sleepers = self.counters("topic")["sleepers"]  # 1: its wake cannot be sent
        if sleepers != 1:  # on a late machine the connection was full for too long
            self.assertIn("was dropped: it has not read its messages", bus.messages())
        other.reads_on(100)
        bus.stop()
        other.ends(0)
        self.assertEqual(other.events("sum")[-1]["lost"], 0)


main()
