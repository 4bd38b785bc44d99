# SPDX-License-Identifier: Apache-2.0
"""Counts what crosses an interface by what the packets are, until SIGTERM: capture.py INTERFACE [FROM ADDRESS]

RoCEv2 is UDP to port 4791; the first byte behind its header is the InfiniBand opcode. READs that the host
FROM asks for at ADDRESS are counted apart, with the time that they took, and how many came less than half a
millisecond after the one before; and those that its device sent again, as no answer had come in time.
"""
import collections
import json
import signal
import socket
import struct
import sys

ROCE_PORT = 4791
SO_TIMESTAMPNS = 35
READ_REQUEST = 12
OPCODES = {READ_REQUEST: "read request", 13: "read response", 14: "read response", 15: "read response",
           16: "read response", 17: "acknowledge", 0x64: "datagram"}


def kind(frame, watched):
    """The words for one Ethernet frame; watched: who READs what, see above."""
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
    if opcode == READ_REQUEST and (frame[26:30], frame[udp + 20:udp + 28]) == watched:
        return "watched read"
    words = OPCODES.get(opcode, "send" if opcode < 6 else "write" if opcode < 12 else f"opcode {opcode}")
    if words == "datagram":
        return "multicast datagram" if 224 <= frame[30] < 240 else "unicast datagram"
    return words


def request(frame):
    """Queue pair and packet sequence number: a request that is sent again has the same."""
    transport = 14 + (frame[14] & 15) * 4 + 8
    return frame[transport + 5:transport + 8], frame[transport + 9:transport + 12]


def main():
    count, times, asked = collections.Counter(), [], set()
    watched = (socket.inet_aton(sys.argv[2]), struct.pack(">Q", int(sys.argv[3]))) if len(sys.argv) > 2 else None

    def end(*_):
        if times:
            count["watched ms"] = (times[-1] - times[0]) / 1e6
            count["watched close"] = sum(b - a < 500000 for a, b in zip(times, times[1:]))
        print(json.dumps(count), flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: none is missed
        tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # when it came, not when it is looked at
        tap.bind((sys.argv[1], 0))
        print("capturing", flush=True)
        while True:
            frame, more, _, _ = tap.recvmsg(128, 64)
            words = kind(frame, watched)
            if words == "watched read":
                words = "watched read again" if request(frame) in asked else words
                asked.add(request(frame))
            count[words] += 1
            if words == "watched read":
                seconds, ns = struct.unpack("qq", more[0][2])
                times.append(seconds * 10 ** 9 + ns)


main()
