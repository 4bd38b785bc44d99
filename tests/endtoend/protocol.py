#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A subscriber written from docs/protocol.md alone: no code of ours, the system's XXH3 as its hash.

    protocol.py TICKBUS TOOLS_BUS

What it finds in the memory and in the messages of a bus of which every byte is known is compared
with what `tickbus cat` prints, and with the words of the protocol.
"""
import ctypes
import ctypes.util
import errno
import fcntl
import json
import mmap
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tools  # it reads the same arguments

LIBRARY = ctypes.util.find_library("xxhash")
ALL_SEALS_BUT_WRITE = 0x10 | 0x4 | 0x2 | 0x1  # FUTURE_WRITE, GROW, SHRINK, SEAL
RECORD, PROGRESS, DIRECTORY, PULSE, ENTRY, HEADER = range(6)
(CATALOGUE, TOPICS, SCHEMA, SCHEMA_PART, JOIN, GRANT, REFUSE, LEAVE, ARM, WAKE, COUNTERS, VALUES,
 UNPUBLISHED, UNPUBLISHED_NAMES, REVOKE, ENDING) = range(1, 17)


def xxh3(data):
    call = ctypes.CDLL(LIBRARY).XXH3_64bits
    call.restype, call.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    return call(bytes(data), len(data))


def salt(identity, topic_id, tag):
    return xxh3(struct.pack("<QQQ", identity, topic_id, 1 | tag << 32))


def check(data, at, with_salt):
    """Whether the check at `at` is that of data."""
    found, = struct.unpack_from("<Q", data, at)
    return found == xxh3(data[:at] + struct.pack("<Q", with_salt) + data[at + 8:])


def page_up(size):
    return (size + 4095) // 4096 * 4096


class Reader:
    """A message's fields, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def raw(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def text(self):
        return self.raw(self.take("H")).decode("ascii")

    def end(self):
        assert self.at == len(self.data), (self.at, len(self.data))


def description(reader):
    names = "epoch fingerprint slots zero slot_bytes capacity topic_id flags state version text_bytes"
    topic = dict(zip(names.split(), reader.take("QQ9I")))
    assert topic["zero"] == 0
    topic["name"], topic["schema"] = reader.text(), reader.text()
    return topic


def text(words):
    return struct.pack("<H", len(words)) + words.encode("ascii")


class Topic:
    """A granted topic's memory."""

    def __init__(self, shape, region_bytes, fd):
        self.shape = shape
        self.directory = 8192
        self.last_value = self.directory + page_up(shape["capacity"] * 32)
        self.ring = self.last_value
        if shape["flags"] & 2:
            self.ring += page_up(shape["capacity"] * shape["slot_bytes"])
        size = self.ring + page_up(shape["slots"] * shape["slot_bytes"])
        assert size == region_bytes <= os.fstat(fd).st_size
        self.memory = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        self.size = size

    def salt(self, tag):
        return salt(self.shape["epoch"], self.shape["topic_id"], tag)

    def header(self):
        header = self.memory[:168]
        assert check(header, 160, self.salt(HEADER))
        return struct.unpack_from("<8sIIQIIQIIQQQQQQ64s", header)

    def progress(self):
        line = self.memory[4096:4160]
        assert check(line, 56, self.salt(PROGRESS))
        head, reserved, first, epoch, instruments, state = struct.unpack_from("<QQQQII", line)
        assert epoch == self.shape["epoch"] and instruments <= self.shape["capacity"]
        assert head <= reserved <= head + self.shape["slots"]
        return dict(head=head, instruments=instruments, state=state,
                    oldest=max(first, reserved - self.shape["slots"] + 1))

    def name(self, index):
        entry = self.memory[self.directory + index * 32:self.directory + index * 32 + 32]
        own = 0x9e3779b97f4a7c15 * (index + 1) % 2 ** 64
        assert check(entry, 24, self.salt(DIRECTORY) ^ own)
        return entry[:24].rstrip(b"\0").decode("ascii")

    def record(self, offset):
        slot = self.memory[offset:offset + self.shape["slot_bytes"]]
        sequence, time_ns, instrument, length, kind, flags, _ = struct.unpack_from("<QQIHBBQ", slot)
        assert length <= self.shape["slot_bytes"] - 32
        if sequence:
            assert check(slot[:32 + length], 24, self.salt(RECORD))
            assert not any(slot[32 + length:32 + (length + 7) // 8 * 8])
        return dict(sequence=sequence, time_ns=time_ns, instrument=instrument, kind=kind,
                    flags=flags, payload=slot[32:32 + length])

    def slot(self, sequence):
        return self.record(self.ring + sequence % self.shape["slots"] * self.shape["slot_bytes"])

    def last(self, instrument):
        return self.record(self.last_value + instrument * self.shape["slot_bytes"])


class Subscriber:
    def __init__(self, path, hello=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(tools.PATIENCE_S)
        self.socket.connect(path)
        self.asked = 0
        hello = hello or struct.pack("<4sBBHQQ32s", b"TBUS", 1, 1, 56, 0, 12345, bytes(32))
        self.socket.sendall(struct.pack("<I", 1) + hello)

    def close(self):
        self.socket.close()

    def frame(self):
        data, fds, _, _ = socket.recv_fds(self.socket, 2048, 4)
        if not data:
            return None, None, None
        return struct.unpack_from("<I", data)[0], Reader(data[4:]), fds[0] if fds else None

    def welcome(self):
        kind, reader, fd = self.frame()
        assert kind == 2, kind
        magic, version, self.bus_id, self.stale_ms, self.topics_max, address, rkey = \
            reader.take("4sB3xQIIQI")
        notices = reader.take("II16sHH")
        self.name = reader.text()
        reader.end()
        assert (magic, version, address, rkey) == (b"TBUS", 1, 0, 0)
        assert notices == (0, 0, bytes(16), 0, 0), notices
        self.page_fd = fd
        self.page = mmap.mmap(fd, page_up(64 + 40 * self.topics_max), mmap.MAP_SHARED,
                              mmap.PROT_READ)
        return self

    def send(self, kind, body, request=0):
        self.socket.sendall(struct.pack("<IHHI", 4, kind, 0, request) + body)

    def message(self):
        kind, reader, fd = self.frame()
        if kind is None:
            return None, 0, None, None
        assert kind == 4
        kind, zero, request = reader.take("HHI")
        assert zero == 0
        return kind, request, reader, fd

    def ask(self, kind, body):
        """The answer's type, fields and descriptor."""
        self.asked += 1
        self.send(kind, body, self.asked)
        kind, request, reader, fd = self.message()
        assert request == self.asked
        return kind, reader, fd

    def told(self):
        """A message about a topic that nobody asked for."""
        kind, request, reader, _ = self.message()
        assert request == 0
        fields = reader.take("IQQ")
        reader.end()
        return kind, fields

    def refused(self, kind, body):
        kind, reader, _ = self.ask(kind, body)
        assert kind == REFUSE, kind
        topic_id, code = reader.take("II")
        words = reader.text()
        reader.end()
        return topic_id, code, words

    def catalogue(self, pattern):
        topics, more = [], 1
        while more:
            kind, reader, _ = self.ask(CATALOGUE, struct.pack(
                "<I", topics[-1]["topic_id"] if topics else 0) + text(pattern))
            assert kind == TOPICS
            count, more = reader.take("II")
            assert count <= 4
            topics += [description(reader) for _ in range(count)]
            reader.end()
        return topics

    def schema(self, topic):
        whole = b""
        while len(whole) < topic["text_bytes"]:
            kind, reader, _ = self.ask(SCHEMA, struct.pack("<II", topic["topic_id"], len(whole)))
            topic_id, total, offset, count = reader.take("IIII")
            assert (kind, topic_id, total, offset) == (SCHEMA_PART, topic["topic_id"],
                                                       topic["text_bytes"], len(whole))
            whole += reader.raw(count)
            reader.end()
        return whole

    def join(self, topic):
        kind, reader, fd = self.ask(JOIN, struct.pack("<IQ", topic["topic_id"], topic["epoch"]))
        assert kind == GRANT, kind
        shape = description(reader)
        region_bytes, head, address, rkey = reader.take("QQQI")
        reader.end()
        assert (shape["name"], shape["epoch"]) == (topic["name"], topic["epoch"])
        assert (address, rkey) == (0, 0)
        assert head <= 1000, head
        return Topic(shape, region_bytes, fd), fd

    def pulse(self):
        """Read again while it is being written: the check tells."""
        for _ in range(1000000):
            pulse = self.page[:64]
            count, bus_id, topics, changes = struct.unpack_from("<QQII", pulse)
            entries = [self.page[64 + 40 * i:104 + 40 * i] for i in range(min(topics, 1024))]
            if check(pulse, 56, salt(self.bus_id, 0, PULSE)) and all(
                    check(entry, 32, salt(self.bus_id, i + 1, ENTRY))
                    for i, entry in enumerate(entries)):
                assert bus_id == self.bus_id
                return count, changes, [struct.unpack_from("<QQIIQ", entry) for entry in entries]
        raise AssertionError("a bus page that never is whole")


@unittest.skipUnless(LIBRARY, "libxxhash is not there as a shared library")
class Protocol(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickbus-protocol-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.bus = tools.Bus("b", self.folder)
        self.addCleanup(self.bus.close)
        self.path = os.path.join(self.folder, "b.sock")
        self.subscriber = self.connect().welcome()
        self.topics = {topic["name"]: topic for topic in self.subscriber.catalogue("t.*")}

    def connect(self, hello=None):
        subscriber = Subscriber(self.path, hello)
        self.addCleanup(subscriber.close)
        return subscriber

    def join(self, name):
        topic, fd = self.subscriber.join(self.topics[name])
        self.addCleanup(os.close, fd)
        return topic

    def cat(self, name):
        out = subprocess.run([tools.TICKBUS, "cat", "shm:b", name, "--from=oldest", "--until-end",
                              "--format=json"], env=self.bus.env, capture_output=True, text=True,
                             check=True, timeout=tools.PATIENCE_S).stdout
        return [json.loads(line) for line in out.splitlines()]

    # -- memory -----------------------------------------------------------------------------------

    def test_the_welcome_and_the_bus_page(self):
        self.assertEqual((self.subscriber.name, self.subscriber.stale_ms), ("b", 200))
        count, _, entries = self.subscriber.pulse()
        while self.subscriber.pulse()[0] == count:
            pass
        self.assertEqual([(entry[0], entry[2], entry[3]) for entry in entries],
                         [(topic["epoch"], topic["topic_id"], topic["state"])
                          for topic in self.topics.values()])
        self.assertEqual([entry[1] for entry in entries], [4, 1000, 4, 0, 0])

    def test_headers_are_what_was_granted(self):
        for name in self.topics:
            topic = self.join(name)
            shape = topic.shape
            self.assertEqual(topic.header(), (
                b"tickbus1", 1, shape["flags"], shape["epoch"], shape["topic_id"],
                shape["slot_bytes"], shape["slots"], shape["capacity"], 0, shape["fingerprint"],
                4096, topic.directory, topic.last_value, topic.ring, topic.size,
                name.encode().ljust(64, b"\0")))

    def test_records_are_those_that_tickbus_cat_prints(self):
        kinds = {1: "update", 2: "correction", 3: "cancel"}
        for name in ("t.quote", "t.small", "t.hole"):
            topic, rows = self.join(name), []
            progress = topic.progress()
            for sequence in range(progress["oldest"], progress["head"] + 1):
                record = topic.slot(sequence)
                self.assertEqual(record["sequence"], sequence)
                if record["kind"] != 6:
                    rows.append((sequence, record["time_ns"], topic.name(record["instrument"]),
                                 kinds.get(record["kind"], str(record["kind"]))))
            shown = [(row["sequence"], row["time_ns"], row["instrument"], row["kind"])
                     for row in self.cat(name) if "sequence" in row]
            self.assertEqual(rows, shown)
            self.assertEqual(progress["state"], 2)

    def test_payloads_are_the_schemas_fields(self):
        record = self.join("t.quote").slot(1)
        self.assertEqual(struct.unpack("<qqIIQ", record["payload"]),
                         (2866701, -5, 1, 2 ** 32 - 1, 1577716500000000000))

    def test_last_values_are_the_last_records_that_are_values(self):
        topic = self.join("t.quote")
        self.assertEqual([topic.last(i)["sequence"] for i in range(3)], [3, 2, 0])
        self.assertEqual(topic.last(0), topic.slot(3))
        self.assertEqual(self.join("t.small").last(0)["sequence"], 1000)

    def test_a_changed_byte_anywhere_is_found(self):
        topic = self.join("t.quote")
        slot = bytearray(topic.memory[topic.ring + 64:topic.ring + 64 + 64])
        self.assertTrue(check(bytes(slot), 24, topic.salt(RECORD)))
        for at in range(64):
            slot[at] ^= 1
            self.assertFalse(check(bytes(slot), 24, topic.salt(RECORD)), at)
            slot[at] ^= 1

    def test_what_is_handed_over_cannot_be_written(self):
        _, fd = self.subscriber.join(self.topics["t.live"])
        self.addCleanup(os.close, fd)
        for one in (fd, self.subscriber.page_fd):
            self.assertEqual(fcntl.fcntl(one, 1034), ALL_SEALS_BUT_WRITE)  # F_GET_SEALS
            with self.assertRaises(PermissionError):
                mmap.mmap(one, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    # -- messages ---------------------------------------------------------------------------------

    def test_the_schema_is_what_its_fingerprint_says(self):
        topic = self.topics["t.quote"]
        schema = self.subscriber.schema(topic).decode()
        self.assertTrue(schema.startswith("name: quote\nversion: 1\n"))
        meaning = re.sub(r"^ *(version|doc):.*\n", "", schema, flags=re.M)
        self.assertEqual(xxh3(meaning.encode()), topic["fingerprint"])

    def test_a_catalogue_comes_in_pages_and_by_pattern(self):
        self.assertEqual(list(self.topics), ["t.quote", "t.small", "t.hole", "t.empty", "t.live"])
        names = [topic["name"] for topic in self.subscriber.catalogue("t.*l*")]
        self.assertEqual(names, ["t.small", "t.hole", "t.live"])

    def test_an_arm_is_answered_by_one_wake(self):
        topic = self.join("t.live")
        self.subscriber.send(ARM, struct.pack("<IQQ", 5, topic.shape["epoch"], 0))
        self.bus.ask("publish 1")
        self.assertEqual(self.subscriber.told(), (WAKE, (5, topic.shape["epoch"], 1)))
        self.bus.ask("publish 2")
        self.subscriber.send(ARM, struct.pack("<IQQ", 5, topic.shape["epoch"], 1))
        self.assertEqual(self.subscriber.told(), (WAKE, (5, topic.shape["epoch"], 3)))
        self.assertEqual(topic.slot(3)["sequence"], 3)
        self.bus.ask("end")
        self.assertEqual(self.subscriber.told(), (ENDING, (5, topic.shape["epoch"], 3)))
        self.assertEqual(topic.progress(), dict(head=3, instruments=1, state=2, oldest=1))

    def test_a_restart_revokes_and_leaves_the_old_memory_readable(self):
        topic = self.join("t.live")
        changes = self.subscriber.pulse()[1]
        self.bus.ask("publish 2")
        self.bus.ask("restart")
        self.assertEqual(self.subscriber.told()[:1] + self.subscriber.pulse()[1:2],
                         (REVOKE, changes + 1))
        self.assertEqual(topic.progress(), dict(head=2, instruments=1, state=1, oldest=1))
        refusal = self.subscriber.refused(JOIN, struct.pack("<IQ", 5, topic.shape["epoch"]))
        self.assertEqual(refusal[:2], (5, errno.ESTALE))
        fresh, = self.subscriber.catalogue("t.live")
        self.assertNotEqual(fresh["epoch"], topic.shape["epoch"])
        again, fd = self.subscriber.join(fresh)
        self.addCleanup(os.close, fd)
        self.assertEqual(again.progress(), dict(head=0, instruments=0, state=1, oldest=1))

    def test_counters_carry_their_names(self):
        kind, reader, _ = self.subscriber.ask(COUNTERS, struct.pack("<III", 3, 0, 0))
        self.assertEqual((kind, reader.take("IIIII"), reader.text()),
                         (VALUES, (3, 0, 1, 1, 1), "feed-1"))
        self.assertEqual((reader.text(), reader.text(), reader.take("Q")),
                         ("messages", "messages", 42))
        reader.end()
        kind, reader, _ = self.subscriber.ask(UNPUBLISHED, struct.pack("<II", 3, 0))
        self.assertEqual((kind, reader.take("III"), reader.text(), reader.take("Q")),
                         (UNPUBLISHED_NAMES, (3, 1, 1), "LOST", 3))
        reader.end()

    def test_refusals_have_a_code_and_words(self):
        topic_id, code, words = self.subscriber.refused(JOIN, struct.pack("<IQ", 9, 1))
        self.assertEqual((topic_id, code), (9, errno.ENOENT))
        self.assertIn("found topic id 9, expected one of 1 to 5", words)

    def test_another_hello_is_refused_with_words(self):
        for hello, words in (
                (struct.pack("<4sBBHQQ32s", b"TBUS", 2, 9, 56, 0, 1, bytes(32)), "version"),
                (struct.pack("<4sBBHQQ32s", b"TBUS", 1, 1, 56, 4, 1, bytes(32)), "features"),
                (struct.pack("<4sBBHQQ32s", b"TBUS", 1, 1, 56, 0, 1, b"t" * 32), "ticket"),
                (struct.pack("<4sBBHQQ32s", b"HTTP", 1, 1, 56, 0, 1, bytes(32)), "tickbus")):
            subscriber = self.connect(hello)
            kind, reader, _ = subscriber.frame()
            self.assertEqual(kind, 3)
            code = reader.take("I")
            self.assertIn(code, (errno.EPROTO, errno.EACCES))
            self.assertIn(words, reader.raw(len(reader.data) - 4).decode("ascii"))
            self.assertEqual(subscriber.frame()[0], None)

    def test_a_higher_version_range_is_answered_with_what_both_speak(self):
        hello = struct.pack("<4sBBHQQ32s", b"TBUS", 1, 9, 56, 0, 1, bytes(32))
        self.assertEqual(self.connect(hello).welcome().name, "b")

    def test_what_is_no_request_ends_the_connection(self):
        for body in (struct.pack("<IHHI", 4, 99, 0, 1), struct.pack("<IHHI", 4, JOIN, 0, 1),
                     struct.pack("<IHHIIQ", 4, JOIN, 1, 1, 1, 1),
                     struct.pack("<IHHIIQB", 4, JOIN, 0, 1, 1, 1, 0),
                     struct.pack("<IHHIIQQ", 4, WAKE, 0, 1, 1, 1, 1), bytes(1029)):
            subscriber = self.connect().welcome()
            subscriber.socket.sendall(body)
            self.assertEqual(subscriber.message()[0], None, body)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
