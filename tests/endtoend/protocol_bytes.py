# SPDX-License-Identifier: Apache-2.0
"""The bytes of docs/protocol.md, read and written from that page alone: no code of the project, the system's XXH3 as
its hash. Its users carry them over shared memory or RDMA.
"""
import ctypes
import ctypes.util
import functools
import hmac
import os
import re
import struct

LIBRARY = ctypes.util.find_library("xxhash")
WORD = 2 ** 64 - 1
RECORD, PROGRESS, DIRECTORY, PULSE, ENTRY, HEADER = range(6)
(CATALOGUE, TOPICS, SCHEMA, SCHEMA_PART, JOIN, GRANT, REFUSE, LEAVE, ARM, WAKE, COUNTERS, VALUES,
 UNPUBLISHED, UNPUBLISHED_NAMES, REVOKE, ENDING) = range(1, 17)


@functools.cache
def xxh3_call():
    call = ctypes.CDLL(LIBRARY).XXH3_64bits
    call.restype, call.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    return call


def xxh3(data):
    return xxh3_call()(bytes(data), len(data))


def salt(identity, topic_id, tag):
    return xxh3(struct.pack("<QQQ", identity, topic_id, 2 | tag << 32))


def check(data, at, with_salt):
    """Whether the check at `at` is that of data."""
    found, = struct.unpack_from("<Q", data, at)
    return found == xxh3(data[:at] + struct.pack("<Q", with_salt) + data[at + 8:])


def siphash(key, data):
    """SipHash-2-4, from the paper (Aumasson, Bernstein 2012)."""
    def rotated(word, by):
        return (word << by | word >> (64 - by)) & WORD

    def turn():
        for a, b, by in ((0, 1, 13), (2, 3, 16)):
            v[a] = (v[a] + v[b]) & WORD
            v[b] = rotated(v[b], by) ^ v[a]
        v[0] = rotated(v[0], 32)
        for a, b, by in ((0, 3, 21), (2, 1, 17)):
            v[a] = (v[a] + v[b]) & WORD
            v[b] = rotated(v[b], by) ^ v[a]
        v[2] = rotated(v[2], 32)

    keys = struct.unpack("<QQ", key) * 2
    v = [word ^ part for word, part in zip(struct.unpack(">4Q", b"somepseudorandomlygeneratedbytes"), keys)]
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for word, in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        turn()
        turn()
        v[0] ^= word
    v[2] ^= 0xff
    for _ in range(4):
        turn()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def notice_tag(key, bus_id, sender, number, sent_ns, entry):
    """The tag of an entry of a notice; the entry's 24 bytes before the tag."""
    return siphash(key, struct.pack("<QIQQ", bus_id, sender, number, sent_ns) + entry)


def page_up(size):
    return (size + 4095) // 4096 * 4096


class Reader:
    """Reads the fields of a message in order."""

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
    names = ("epoch fingerprint slots group_id slot_bytes capacity topic_id flags state quality version "
             "text_bytes notices notice_bytes group port more_zero")
    topic = dict(zip(names.split(), reader.take("QQ6IBB2x4I16sHH")))
    assert topic["quality"] <= 2
    assert topic["more_zero"] == 0 and topic["flags"] < 16
    assert (topic["group_id"] > 0) == (topic["flags"] & 8 > 0)  # times rise in groups
    topic["name"], topic["schema"] = reader.text(), reader.text()
    return topic


def text(string):
    return struct.pack("<H", len(string)) + string.encode("ascii")


def hello(low=2, high=2, magic=b"TBUS", nonce=b"sixteen bytes...", cookie=bytes(16), proof=bytes(16)):
    """A first hello, unless it has a cookie and a proof."""
    return struct.pack("<4sBBH16s16s16s", magic, low, high, 56, nonce, cookie, proof)


class Handshake:
    """The subscriber's side of a handshake with the publisher at an address, which is a text without its scheme."""

    CLIENT, PUBLISHER = 1, 2

    def __init__(self, address, ticket=bytes(32), low=2, high=2, nonce=None):
        self.address, self.ticket, self.low, self.high = address.encode("ascii"), ticket, low, high
        self.nonce = os.urandom(16) if nonce is None else nonce

    def proof(self, role, welcome=b""):
        covered = struct.pack("<BBBB16s16s", role, self.low, self.high, len(self.address), self.nonce, self.cookie)
        return hmac.digest(self.ticket, covered + self.address + welcome, "sha256")[:16]

    def first(self):
        return hello(self.low, self.high, nonce=self.nonce)

    def second(self, challenge):
        self.cookie = challenge
        return hello(self.low, self.high, nonce=self.nonce, cookie=self.cookie, proof=self.proof(self.CLIENT))

    def check(self, data):
        """The publisher must prove that it knows the ticket, before the welcome is used."""
        assert data[68:84] == self.proof(self.PUBLISHER, data[:68] + bytes(16) + data[84:]), "no proof of the publisher"


def welcome(data):
    """The fields of a welcome, by name."""
    reader = Reader(data)
    names = "magic version features bus_id stale_ms topics_max address rkey notices notice_bytes group port zero proof"
    fields = dict(zip(names.split(), reader.take("4sBB2xQIIQQII16sHH16s")))
    fields["name"] = reader.text()
    reader.end()
    assert (fields["magic"], fields["version"], fields["zero"]) == (b"TBUS", 2, 0), fields
    assert fields["features"] in (0, 1), fields
    return fields


def pulse(page, bus_id):
    """(count, changes, entries) of a bus page. Reads again while the check fails, since the page is being written.
    Topics of other realms have an entry of zeros."""
    for _ in range(1000000):
        line = page[:64]
        count, found, topics, changes = struct.unpack_from("<QQII", line)
        entries = [page[64 + 40 * i:104 + 40 * i] for i in range(min(topics, 1024))]
        if check(line, 56, salt(bus_id, 0, PULSE)) and all(
                not any(entry) or check(entry, 32, salt(bus_id, i + 1, ENTRY)) for i, entry in enumerate(entries)):
            assert found == bus_id
            return count, changes, [struct.unpack_from("<QQIIQ", entry) for entry in entries]
    raise AssertionError("found no bus page with a valid check")


class Topic:
    """A granted topic. Its memory is any object that gives bytes for a slice."""

    def __init__(self, shape, region_bytes, memory):
        self.shape = shape
        self.directory = 8192
        self.last_value = self.directory + page_up(shape["capacity"] * 32)
        self.ring = self.last_value
        if shape["flags"] & 2:
            self.ring += page_up(shape["capacity"] * shape["slot_bytes"])
        size = self.ring + page_up(shape["slots"] * shape["slot_bytes"])
        assert size == region_bytes, (size, region_bytes)
        self.memory, self.size = memory, size

    def salt(self, tag):
        return salt(self.shape["epoch"], self.shape["topic_id"], tag)

    def header(self):
        header = self.memory[:168]
        assert check(header, 160, self.salt(HEADER))
        return struct.unpack_from("<8sIIQIIQIIQQQQQQ64s", header)

    def progress(self):
        """The progress line. Reads again while the check fails, since the line is being written."""
        for _ in range(1000000):
            line = self.memory[4096:4160]
            if check(line, 56, self.salt(PROGRESS)):
                break
        else:
            raise AssertionError("found no progress line with a valid check")
        head, reserved, first, epoch, instruments, state, quality, zero, complete, whole = struct.unpack_from(
            "<QQQQIBBHQQ", line)
        assert quality <= 2 and zero == 0
        assert complete == 0 or self.shape["group_id"] > 0
        assert whole <= head if self.shape["flags"] & 4 else whole == 0  # the topic marks messages
        assert epoch == self.shape["epoch"] and instruments <= self.shape["capacity"]
        assert head <= reserved <= head + self.shape["slots"]
        assert max(reserved, first) <= 2**64 - 1 - 2 * self.shape["slots"]
        return dict(head=head, instruments=instruments, state=state, quality=quality,
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


SIZES = dict(i8=1, i16=2, i32=4, i64=8, u8=1, u16=2, u32=4, u64=8, f64=8, time=8, decimal64=8, char=1, pad=1)


def schema_fields(lines, indent=""):
    """The fields below the line `fields:` of a canonical text, by name: (type, offset, bytes). Takes their lines, and
    returns the bytes of all fields too."""
    fields, offset = {}, 0
    while lines and lines[0].startswith(f"{indent}  - type: "):
        kind = lines.pop(0)[len(indent) + len("  - type: "):]
        attributes = {}
        while lines and lines[0].startswith(f"{indent}    ") and lines[0] != f"{indent}    fields:":
            key, _, value = lines.pop(0).strip().partition(": ")
            attributes[key] = value
        counts = [int(part.rstrip("]")) for part in kind.split("[")[1:]]
        name = re.split(r"[\[(]", kind)[0]
        size = SIZES.get(name)
        if name == "group":
            assert lines.pop(0) == f"{indent}    fields:"
            _, size = schema_fields(lines, indent + "    ")
        for count in counts:
            size *= count
        if name != "pad":
            fields[attributes["name"]] = kind, offset, size
        offset += size
    return fields, offset


class Requests:
    """A subscriber's requests. Subclasses carry messages: send(kind, body, request), and message(), which
    returns type, request, fields and an attachment."""
    asked = 0

    def ask(self, kind, body):
        """Sends a request. Returns the answer's type, fields and attachment."""
        self.asked += 1
        self.send(kind, body, self.asked)
        kind, request, reader, fd = self.message()
        assert request == self.asked
        return kind, reader, fd

    def notification(self):
        """An unrequested message about a topic: type and fields."""
        kind, request, reader, _ = self.message()
        assert request == 0
        fields = reader.take("IQQ")
        reader.end()
        return kind, fields

    def refused(self, kind, body):
        kind, reader, _ = self.ask(kind, body)
        assert kind == REFUSE, kind
        topic_id, code = reader.take("II")
        text = reader.text()
        reader.end()
        return topic_id, code, text

    def catalogue(self, pattern):
        topics, more = [], 1
        while more:
            kind, reader, _ = self.ask(CATALOGUE, struct.pack(
                "<I", topics[-1]["topic_id"] if topics else 0) + text(pattern))
            assert kind == TOPICS
            count, more = reader.take("II")
            assert count <= 12
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

    def grant(self, topic):
        """Joins. Returns the granted topic, bytes of the region, head, address, rkey and attachment."""
        kind, reader, more = self.ask(JOIN, struct.pack("<IQ", topic["topic_id"], topic["epoch"]))
        assert kind == GRANT, kind
        shape = description(reader)
        region_bytes, head, address, rkey = reader.take("QQQQ")
        shape["notice_key"], shape["topic_notices"], shape["heads_notices"] = reader.take("16sQQ")
        reader.end()
        assert (shape["name"], shape["epoch"]) == (topic["name"], topic["epoch"])
        return shape, region_bytes, head, address, rkey, more
