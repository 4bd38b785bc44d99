#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A subscriber written from docs/protocol.md alone: no code of the project, the system's XXH3 as its hash.

    protocol.py TICKBUS TOOLS_BUS

It reads the memory and the messages of a bus whose every byte is known. They are compared with the output of
`tickbus cat` and with the protocol.
"""
import errno
import fcntl
import hmac
import json
import mmap
import os
import pathlib
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
from protocol_bytes import (ARM, COUNTERS, ENDING, JOIN, LIBRARY, RECORD, REVOKE, UNPUBLISHED,
                            UNPUBLISHED_NAMES, VALUES, WAKE, Handshake, Reader, Requests, Topic, check,
                            hello, notice_tag, page_up, pulse, schema_fields, siphash, welcome, xxh3)

ALL_SEALS_BUT_WRITE = 0x10 | 0x4 | 0x2 | 0x1  # FUTURE_WRITE, GROW, SHRINK, SEAL


class Subscriber(Requests):
    def __init__(self, path, first=None, **handshake):
        self.handshake = Handshake("b", **handshake)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(tools.PATIENCE_S)
        self.socket.connect(path)
        self.socket.sendall(struct.pack("<I", 1) + (first or self.handshake.first()))

    def close(self):
        self.socket.close()

    def frame(self):
        data, fds, _, _ = socket.recv_fds(self.socket, 2048, 4)
        if not data:
            return None, None, None
        return struct.unpack_from("<I", data)[0], Reader(data[4:]), fds[0] if fds else None

    def challenge(self):
        kind, reader, fd = self.frame()
        assert (kind, len(reader.data), fd) == (5, 16, None), kind
        return reader.data

    def prove(self):
        self.socket.sendall(struct.pack("<I", 1) + self.handshake.second(self.challenge()))
        return self.frame()

    def welcome(self):
        kind, reader, fd = self.prove()
        assert kind == 2, kind
        self.handshake.check(reader.data)
        fields = welcome(reader.data)
        self.bus_id, self.stale_ms, self.name = fields["bus_id"], fields["stale_ms"], fields["name"]
        assert (fields["address"], fields["rkey"]) == (0, 0)
        assert (fields["notices"], fields["notice_bytes"], fields["group"], fields["port"]) == (
            0, 0, bytes(16), 0), fields
        self.page_fd = fd
        self.page = mmap.mmap(fd, page_up(64 + 40 * fields["topics_max"]), mmap.MAP_SHARED,
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

    def join(self, topic):
        shape, region_bytes, head, address, rkey, fd = self.grant(topic)
        assert (address, rkey) == (0, 0)
        assert head <= 1000, head
        assert region_bytes <= os.fstat(fd).st_size
        return Topic(shape, region_bytes, mmap.mmap(fd, region_bytes, mmap.MAP_SHARED,
                                                    mmap.PROT_READ)), fd

    def pulse(self):
        return pulse(self.page, self.bus_id)


class Image:
    """An image of a topic, by section 6.1. The table has the delivered values by instrument: sequence, payload."""

    def __init__(self, topic):
        self.topic, self.table, self.seen, self.delivered = topic, {}, {}, set()
        self.position = topic.progress()["head"]
        self.begin(self.position)

    def begin(self, base):
        self.base, self.largest = base, 0
        self.open = {i for i in range(self.topic.progress()["instruments"]) if self.seen.get(i, 0) <= base}

    def take(self, record):
        i, sequence = record["instrument"], record["sequence"]
        assert sequence > self.seen.get(i, 0), "a value goes back"
        self.seen[i] = sequence
        self.delivered.add(i)
        if record["kind"] == 4:
            self.table.pop(i, None)
        else:
            self.table[i] = sequence, record["payload"]

    def copy_slot(self):
        """The next open slot. The publisher rests meanwhile, so the copy is good."""
        i = min(self.open)
        self.open.remove(i)
        copy = self.topic.last(i)
        if copy["kind"] == 0:
            return
        assert copy["instrument"] == i and copy["kind"] in (1, 2, 4)
        self.largest = max(self.largest, copy["sequence"])
        if self.seen.get(i, 0) < copy["sequence"] <= self.base and (copy["kind"] != 4 or i in self.delivered):
            self.take(copy)

    def follow(self):
        """Reads the ring up to its head. Returns the lost sequences."""
        lost = []
        while self.position < self.topic.progress()["head"]:
            oldest = self.topic.progress()["oldest"]
            if self.position + 1 < oldest:
                lost += range(self.position + 1, oldest)
                self.position = oldest - 1
                self.begin(self.position)
            record = self.topic.slot(self.position + 1)
            self.position += 1
            assert record["sequence"] == self.position
            if record["kind"] in (1, 2, 4):
                self.take(record)
                self.open.discard(record["instrument"])
        return lost

    def complete(self):
        return not self.open and self.position >= self.largest


@unittest.skipUnless(LIBRARY, "libxxhash is missing as a shared library")
class Protocol(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickbus-protocol-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.bus = tools.Bus("b", self.folder)
        self.addCleanup(self.bus.close)
        self.path = os.path.join(self.folder, "b.sock")
        self.subscriber = self.connect().welcome()
        self.topics = {topic["name"]: topic for topic in self.subscriber.catalogue("t.*")}

    def connect(self, first=None, **handshake):
        subscriber = Subscriber(self.path, first, **handshake)
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

    def test_welcome_and_bus_page_are_as_specified(self):
        self.assertEqual((self.subscriber.name, self.subscriber.stale_ms), ("b", 200))
        count, _, entries = self.subscriber.pulse()
        while self.subscriber.pulse()[0] == count:
            pass
        self.assertEqual([(entry[0], entry[2], entry[3]) for entry in entries],
                         [(topic["epoch"], topic["topic_id"], topic["state"])
                          for topic in self.topics.values()])
        self.assertEqual([entry[1] for entry in entries], [4, 1000, 4, 0, 0])

    def test_tag_of_the_documented_notice_is_computed(self):
        self.assertEqual(siphash(bytes(range(16)), bytes(range(15))), 0xa129ca6149be45e5)  # the paper's example
        page = (pathlib.Path(__file__).parents[2] / "docs/protocol.md").read_text(encoding="utf-8")
        data, tag = re.search(r"the bytes `([0-9a-f\s]+)` have the tag `(0x[0-9a-f]+)`", page).groups()
        data = bytes.fromhex(re.sub(r"\s", "", data))
        self.assertEqual(notice_tag(bytes(range(16)), *struct.unpack_from("<QIQQ", data), data[28:]), int(tag, 16))

    def test_headers_equal_the_grant(self):
        for name in self.topics:
            topic = self.join(name)
            shape = topic.shape
            self.assertEqual([shape[key] for key in ("notice_key", "topic_notices", "heads_notices")], [bytes(16), 0, 0])
            self.assertEqual(topic.header(), (
                b"tickbus2", 2, shape["flags"], shape["epoch"], shape["topic_id"],
                shape["slot_bytes"], shape["slots"], shape["capacity"], 0, shape["fingerprint"],
                4096, topic.directory, topic.last_value, topic.ring, topic.size,
                name.encode().ljust(64, b"\0")))

    def test_records_equal_the_output_of_tickbus_cat(self):
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

    def test_text_of_a_schema_gives_the_layout_of_payloads(self):
        for topic in self.topics.values():
            lines = self.subscriber.schema(topic).decode().splitlines()
            fields, size = schema_fields(lines[lines.index("fields:") + 1:])
            self.assertEqual(topic["slot_bytes"], (32 + size + 63) // 64 * 64, topic["name"])
            if topic["name"] == "t.quote":
                self.assertEqual([(name, *where) for name, where in fields.items()], [
                    ("bid_price", "decimal64(4)", 0, 8), ("ask_price", "decimal64(4)", 8, 8), ("bid_size", "u32", 16, 4),
                    ("ask_size", "u32", 20, 4), ("source_time", "time", 24, 8)])

    def test_payloads_hold_the_fields_of_the_schema(self):
        record = self.join("t.quote").slot(1)
        self.assertEqual(struct.unpack("<qqIIQ", record["payload"]),
                         (2866701, -5, 1, 2 ** 32 - 1, 1577716500000000000))

    def test_last_values_equal_the_last_value_records(self):
        topic = self.join("t.quote")
        self.assertEqual([topic.last(i)["sequence"] for i in range(3)], [3, 2, 0])
        self.assertEqual(topic.last(0), topic.slot(3))
        self.assertEqual(self.join("t.small").last(0)["sequence"], 1000)

    def table_of_cat(self):
        """As an image has it: by instrument, the sequence of the value."""
        reader = subprocess.Popen([tools.TICKBUS, "cat", "shm:b", "t.live", "--from=image", "--format=json"],
                                  env=self.bus.env, stdout=subprocess.PIPE, text=True)
        lines = []
        for line in reader.stdout:
            lines.append(json.loads(line))
            if lines[-1].get("event") == "complete":
                break
        reader.kill()
        reader.wait()
        reader.stdout.close()
        return {row["instrument"]: row["sequence"] for row in lines if row.get("kind") == "update"}

    def expect_table(self, image):
        self.assertEqual({image.topic.name(i): sequence for i, (sequence, _) in image.table.items()}, self.table_of_cat())

    def test_image_by_the_rules_of_the_page_is_the_table_of_cat(self):
        topic = self.join("t.live")
        for line in "name OLD", "name GONE", "known NEVER", "mix 100":
            self.bus.ask(line)
        image = Image(topic)
        while image.open:  # the publisher writes between copies, half a ring in all
            image.copy_slot()
            self.bus.ask("mix 3")
        self.assertFalse(image.complete())  # copies above base wait for the ring
        self.assertEqual(image.follow(), [])
        self.assertTrue(image.complete())
        self.expect_table(image)
        for line in "clear GONE", "name OLD", "mix 300":
            self.bus.ask(line)
        lost = image.follow()
        self.assertGreater(len(lost), 200)
        self.assertFalse(image.complete())
        while image.open:
            image.copy_slot()
        self.assertTrue(image.complete())
        self.expect_table(image)

    def test_any_changed_byte_fails_the_check(self):
        topic = self.join("t.quote")
        slot = bytearray(topic.memory[topic.ring + 64:topic.ring + 64 + 64])
        self.assertTrue(check(bytes(slot), 24, topic.salt(RECORD)))
        for at in range(64):
            slot[at] ^= 1
            self.assertFalse(check(bytes(slot), 24, topic.salt(RECORD)), at)
            slot[at] ^= 1

    def test_joined_memory_cannot_be_written(self):
        _, fd = self.subscriber.join(self.topics["t.live"])
        self.addCleanup(os.close, fd)
        for one in (fd, self.subscriber.page_fd):
            self.assertEqual(fcntl.fcntl(one, 1034), ALL_SEALS_BUT_WRITE)  # F_GET_SEALS
            with self.assertRaises(PermissionError):
                mmap.mmap(one, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    # -- messages ---------------------------------------------------------------------------------

    def test_schema_matches_its_fingerprint(self):
        topic = self.topics["t.quote"]
        schema = self.subscriber.schema(topic).decode()
        self.assertTrue(schema.startswith("name: quote\nversion: 1\n"))
        meaning = re.sub(r"^ *(version|doc):.*\n", "", schema, flags=re.M)
        self.assertEqual(xxh3(meaning.encode()), topic["fingerprint"])

    def test_optional_fields_have_a_line_in_the_text_and_its_fingerprint(self):
        """The text is written from the page. The file has the keys in another order, and false where there is no line."""
        text = ("name: own\nversion: 1\nfields:\n"
                "  - type: decimal64(8)\n    name: price\n    optional: true\n    doc: \"D.\"\n"
                "  - type: group[2]\n    name: levels\n    fields:\n"
                "      - type: u32[2]\n        name: size\n        optional: true\n")
        plain = text.replace("        optional: true\n", "")
        path, fingerprints = os.path.join(self.folder, "own.yaml"), set()
        for expected, optional in ((text, "true"), (plain, "false")):
            with open(path, "w", encoding="ascii") as file:
                file.write("name: own\nversion: 1\nfields:\n"
                           "- {optional: true, doc: D., name: price, type: decimal64(8)}\n"
                           "- {name: levels, type: 'group[2]', fields: [\n"
                           f"   {{optional: {optional}, name: size, type: 'u32[2]'}}]}}\n")
            printed, checked = (subprocess.run(
                [tools.TICKBUS, "schema", command, path], env=self.bus.env, capture_output=True, text=True, check=True,
                timeout=tools.PATIENCE_S).stdout for command in ("print", "check"))
            self.assertEqual(printed, expected)
            meaning = re.sub(r"^ *(version|doc):.*\n", "", expected, flags=re.M)
            fingerprints.add(f"{xxh3(meaning.encode()):016x}")
            self.assertIn(checked.split()[-1], fingerprints)
        self.assertEqual(len(fingerprints), 2)

    def test_catalogue_comes_in_pages_and_by_pattern(self):
        self.assertEqual(list(self.topics), ["t.quote", "t.small", "t.hole", "t.empty", "t.live"])
        names = [topic["name"] for topic in self.subscriber.catalogue("t.*l*")]
        self.assertEqual(names, ["t.small", "t.hole", "t.live"])
        for topic in self.topics.values():  # shared memory has no notices
            self.assertEqual([topic[key] for key in ("notices", "notice_bytes", "group", "port")],
                             [0, 0, bytes(16), 0])

    def test_arm_is_answered_by_one_wake(self):
        topic = self.join("t.live")
        self.subscriber.send(ARM, struct.pack("<IQQ", 5, topic.shape["epoch"], 0))
        self.bus.ask("publish 1")
        self.assertEqual(self.subscriber.notification(), (WAKE, (5, topic.shape["epoch"], 1)))
        self.bus.ask("publish 2")
        self.subscriber.send(ARM, struct.pack("<IQQ", 5, topic.shape["epoch"], 1))
        self.assertEqual(self.subscriber.notification(), (WAKE, (5, topic.shape["epoch"], 3)))
        self.assertEqual(topic.slot(3)["sequence"], 3)
        self.bus.ask("end")
        self.assertEqual(self.subscriber.notification(), (ENDING, (5, topic.shape["epoch"], 3)))
        self.assertEqual(topic.progress(), dict(head=3, instruments=1, state=2, quality=0, oldest=1))

    def test_quality_is_a_record_and_a_state(self):
        topic = self.join("t.live")
        self.bus.ask("publish 1")
        self.bus.ask("quality 1 2")
        record = topic.slot(2)
        self.assertEqual((record["kind"], record["flags"], record["instrument"], record["payload"]),
                         (7, 1, 2**32 - 1, struct.pack("<II", 1, 2)))
        self.assertEqual(topic.progress(), dict(head=2, instruments=1, state=1, quality=1, oldest=1))
        self.assertEqual(topic.last(0)["sequence"], 1)
        described, = self.subscriber.catalogue("t.live")
        self.assertEqual((described["state"], described["quality"]), (1, 1))
        self.bus.ask("quality 0 0")
        self.assertEqual(topic.progress(), dict(head=3, instruments=1, state=1, quality=0, oldest=1))

    def test_restart_revokes_and_keeps_old_memory_readable(self):
        topic = self.join("t.live")
        changes = self.subscriber.pulse()[1]
        self.bus.ask("publish 2")
        self.bus.ask("restart")
        self.assertEqual(self.subscriber.notification()[:1] + self.subscriber.pulse()[1:2],
                         (REVOKE, changes + 1))
        self.assertEqual(topic.progress(), dict(head=2, instruments=1, state=1, quality=0, oldest=1))
        refusal = self.subscriber.refused(JOIN, struct.pack("<IQ", 5, topic.shape["epoch"]))
        self.assertEqual(refusal[:2], (5, errno.ESTALE))
        fresh, = self.subscriber.catalogue("t.live")
        self.assertNotEqual(fresh["epoch"], topic.shape["epoch"])
        again, fd = self.subscriber.join(fresh)
        self.addCleanup(os.close, fd)
        self.assertEqual(again.progress(), dict(head=0, instruments=0, state=1, quality=0, oldest=1))

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

    def test_refusals_have_a_code_and_text(self):
        topic_id, code, message = self.subscriber.refused(JOIN, struct.pack("<IQ", 9, 1))
        self.assertEqual((topic_id, code), (9, errno.ENOENT))
        self.assertIn("found topic id 9, expected an id from the catalogue", message)

    def expect_refused(self, subscriber, frame, code, message):
        kind, reader, _ = frame
        self.assertEqual((kind, reader.take("I")), (3, code))
        self.assertIn(message, reader.raw(len(reader.data) - 4).decode("ascii"))
        self.assertEqual(subscriber.frame()[0], None)

    def test_wrong_first_hello_is_refused_with_text(self):
        for first, message in ((hello(low=3, high=9), "speaks 3 to 9, the publisher 2 to 2"),
                               (hello(low=1, high=1), "speaks 1 to 1, the publisher 2 to 2"),
                               (hello(magic=b"HTTP"), "tickbus")):
            subscriber = self.connect(first)
            self.expect_refused(subscriber, subscriber.frame(), errno.EPROTO, message)

    def test_wrong_second_hello_is_refused_with_text(self):
        stranger = self.connect(ticket=b"t" * 32)
        self.expect_refused(stranger, stranger.prove(), errno.EACCES, "the bus takes no tickets")
        elsewhere = self.connect()
        elsewhere.handshake.address = b"c"
        self.expect_refused(elsewhere, elsewhere.prove(), errno.EACCES, "the dialled address was not b")
        late = self.connect()
        late.challenge()
        late.socket.sendall(struct.pack("<I", 1) + late.handshake.second(bytes(15) + b"c"))
        self.expect_refused(late, late.frame(), errno.ETIMEDOUT, "connect again")

    def test_connection_takes_two_hellos(self):
        subscriber = self.connect()
        subscriber.challenge()
        subscriber.socket.sendall(struct.pack("<I", 1) + hello())
        self.expect_refused(subscriber, subscriber.frame(), errno.EPROTO, "first hello again")

    def test_vector_of_the_document_holds(self):
        handshake = Handshake("10.9.0.1:7471", bytes(range(32)), nonce=bytes(range(100, 116)))
        secret, origin, now_ms = bytes(range(64, 96)), struct.pack("<II", 1000, 4321), 1234567890
        cookie = hmac.digest(secret, handshake.nonce + struct.pack("<Q", now_ms // 10000) + origin, "sha256")[:16]
        self.assertEqual(cookie.hex(), "c61897ecf5aa71ea0bbb0e1c01d0bc69")
        self.assertEqual(handshake.second(cookie)[40:].hex(), "0a47a7373cdf33146a20f9eb84a933d3")
        welcome = bytes(0 if 68 <= i < 84 else i * 7 % 256 for i in range(100))
        self.assertEqual(handshake.proof(handshake.PUBLISHER, welcome).hex(), "747f7f9d12179cfc98b2dbcc9bc1a645")

    def test_higher_version_range_gets_the_common_version(self):
        self.assertEqual(self.connect(high=9).welcome().name, "b")

    def test_invalid_request_ends_the_connection(self):
        for body in (struct.pack("<IHHI", 4, 99, 0, 1), struct.pack("<IHHI", 4, JOIN, 0, 1),
                     struct.pack("<IHHIIQ", 4, JOIN, 1, 1, 1, 1),
                     struct.pack("<IHHIIQB", 4, JOIN, 0, 1, 1, 1, 0),
                     struct.pack("<IHHIIQQ", 4, WAKE, 0, 1, 1, 1, 1), bytes(1029)):
            subscriber = self.connect().welcome()
            subscriber.socket.sendall(body)
            self.assertEqual(subscriber.message()[0], None, body)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
