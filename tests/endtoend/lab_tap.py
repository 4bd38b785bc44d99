#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The lab's captures, decoded by tshark: whatever a READ brings and whatever port a client has, each message is counted.

    lab_tap.py SOURCE
"""
import pathlib
import shutil
import socket
import struct
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "tests/lab"))
import tap  # noqa: E402

PUBLISHER, READER = socket.inet_aton("10.9.0.1"), socket.inet_aton("10.9.0.2")
PAYLOAD_BYTES = 64
LISTENER = 18515
ETHERNET_IP = 44818  # a port from which Linux connects, and the registered port of another protocol


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return 0xffff ^ total


def crc32c(octets):
    """The CRC of an FPDU (RFC 5044, RFC 3720)."""
    crc = 0xffffffff
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xffffffff)


def frame(source, to, protocol, data):
    """An Ethernet frame with an IPv4 packet."""
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 1, 0x4000, 64, protocol, 0, source, to)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    return bytes(12) + b"\x08\x00" + header + data


def roce_response(payload):
    """A READ response of one packet: BTH, AETH, payload, and an ICRC that tshark does not check."""
    message = struct.pack(">BBHIII", 16, 0x40, 0xffff, 17, 0, 0) + payload + bytes(4)
    return frame(PUBLISHER, READER, socket.IPPROTO_UDP,
                 struct.pack(">HHHH", 49152, 4791, 8 + len(message), 0) + message)


def fpdu(message):
    framed = struct.pack(">H", len(message)) + message
    framed += bytes(-len(framed) % 4)
    return framed + crc32c(framed)


def iwarp_connection(port, reads):
    """A client at `port` connects over iWARP and reads: RFC 5044 (MPA), 5041 (DDP), 5040 (RDMAP)."""
    sent = {READER: 1000, PUBLISHER: 5000}
    ports = {READER: port, PUBLISHER: LISTENER}

    def segment(source, flags, data=b""):
        to = PUBLISHER if source == READER else READER
        header = struct.pack(">HHIIBBHHH", ports[source], ports[to], sent[source], sent[to], 0x50, flags, 65535, 0, 0)
        sent[source] += len(data) + (flags & 2 != 0)
        return frame(source, to, socket.IPPROTO_TCP, header + data)

    yield from (segment(READER, 0x02), segment(PUBLISHER, 0x12), segment(READER, 0x10))
    for source, key in ((READER, b"MPA ID Req Frame"), (PUBLISHER, b"MPA ID Rep Frame")):
        yield segment(source, 0x18, key + b"\x40\x01\x00\x00")
    for number in range(reads):
        yield segment(READER, 0x18, fpdu(struct.pack(">BBIIII", 0x41, 0x41, 0, 1, number + 1, 0) +
                                         struct.pack(">IQIIQ", 7, 0, PAYLOAD_BYTES, 9, 0)))
        yield segment(PUBLISHER, 0x18, fpdu(struct.pack(">BBIQ", 0xc1, 0x42, 7, 0) + bytes(PAYLOAD_BYTES)))


@unittest.skipUnless(shutil.which("tshark"), "tshark is missing")
class Decoded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tickbus-tap-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "capture"

    def capture(self, frames):
        with self.path.open("wb") as out:
            out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for packet in frames:
                out.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
        return self.path

    def test_slot_whose_sequence_looks_like_an_ethernet_type_is_a_read_response(self):
        # A slot begins with its sequence, little-endian. 8 is 08 00 (IPv4) and two zero bytes, 1544 is 08 06 (ARP). In
        # the last number the first byte of an IPv4 header follows; the bytes behind it mean UDP.
        numbers = (7, 8, 9, 1544, 0x45 << 32 | 8)
        rest = bytes(5) + bytes([socket.IPPROTO_UDP]) + bytes(PAYLOAD_BYTES - 14)
        path = self.capture(roce_response(struct.pack("<Q", number) + rest) for number in numbers)
        self.assertEqual(dict(tap.tshark(path)), {"read response": len(numbers)})
        self.assertEqual(tap.read_bytes(path, 0), len(numbers) * PAYLOAD_BYTES)

    def test_iwarp_reader_at_the_port_of_another_protocol_is_decoded(self):
        for port in (40000, ETHERNET_IP):
            path = self.capture(iwarp_connection(port, 3))
            found = tap.tshark(path)
            self.assertEqual((found["read request"], found["read response"]), (3, 3), port)
            self.assertEqual(tap.read_bytes(path, 0), 3 * PAYLOAD_BYTES, port)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
