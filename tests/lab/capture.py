# SPDX-License-Identifier: Apache-2.0
"""Counts the packets of an interface by kind, until SIGTERM: capture.py INTERFACE [FILE]

SIGUSR1 prints how many packets there are, those included that wait to be received. RoCEv2 is UDP to port 4791; the
first byte after its header is the InfiniBand opcode. The packets are written to FILE in pcap's format.
"""
import collections
import json
import select
import signal
import socket
import struct
import sys

ROCE_PORT = 4791
SOL_PACKET, PACKET_STATISTICS = 263, 6
LONGEST = 65536
OPCODES = {12: "read request", 13: "read response", 14: "read response", 15: "read response", 16: "read response",
           17: "acknowledge", 100: "datagram"}


def kind(frame):
    """The kind of an Ethernet frame."""
    protocol, = struct.unpack_from(">H", frame, 12)
    if protocol != 0x0800:
        return "not IPv4"
    if frame[23] != socket.IPPROTO_UDP:
        return f"IP protocol {frame[23]}"
    udp = 14 + (frame[14] & 15) * 4
    port, = struct.unpack_from(">H", frame, udp + 2)
    if port != ROCE_PORT:
        return f"UDP port {port} from {socket.inet_ntoa(frame[26:30])}"
    opcode = frame[udp + 8]
    name = OPCODES.get(opcode, "send" if opcode < 6 else "write" if opcode < 12 else f"opcode {opcode}")
    if name == "datagram":
        return "multicast datagram" if 224 <= frame[30] < 240 else "unicast datagram"
    return name


def write(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, LONGEST, 1))
        for frame in frames:
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def received(tap):
    """The frames that are there."""
    while True:
        try:
            yield tap.recv(LONGEST)
        except BlockingIOError:
            return


def expect_all(tap):
    packets, dropped = struct.unpack("II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if dropped:
        sys.exit(f"capture.py: found {dropped} of {packets} packets dropped for lack of room, expected none")


def main():
    kinds, frames, path = collections.Counter(), [], sys.argv[2] if len(sys.argv) > 2 else None

    def end(*_):
        if path:
            write(path, frames)
            kinds.update(map(kind, frames))
        print(json.dumps(kinds), flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, lambda *_: None)  # its number comes through `asked`
    asked, asker = socket.socketpair()
    asker.setblocking(False)
    signal.set_wakeup_fd(asker.fileno())
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: room for all packets
        tap.setblocking(False)
        tap.bind((sys.argv[1], 0))
        print("capturing", flush=True)
        while True:
            ready, _, _ = select.select([tap, asked], [], [])
            signals = asked.recv(16) if asked in ready else b""
            if path:
                frames.extend(received(tap))  # counted at the end: this has to keep up
            else:
                kinds.update(map(kind, received(tap)))
            if signal.SIGUSR1 in signals:
                expect_all(tap)
                print(f"packets {len(frames) + kinds.total()}", flush=True)


main()
