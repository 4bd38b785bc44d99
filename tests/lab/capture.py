# SPDX-License-Identifier: Apache-2.0
"""Counts what crosses an interface by what the packets are, until SIGTERM: capture.py INTERFACE

RoCEv2 is UDP to port 4791; the first byte behind its header is the InfiniBand opcode.
"""
import collections
import json
import signal
import socket
import struct
import sys

ROCE_PORT = 4791
OPCODES = {12: "read request", 13: "read response", 14: "read response", 15: "read response", 16: "read response",
           17: "acknowledge", 0x64: "datagram"}


def kind(frame):
    """The words for one Ethernet frame."""
    protocol, = struct.unpack_from(">H", frame, 12)
    if protocol != 0x0800:
        return "not IPv4"
    if frame[23] != socket.IPPROTO_UDP:
        return f"IP protocol {frame[23]}"
    udp = 14 + (frame[14] & 15) * 4
    port, = struct.unpack_from(">H", frame, udp + 2)
    if port != ROCE_PORT:
        return f"UDP port {port}"
    opcode = frame[udp + 8]
    words = OPCODES.get(opcode, "send" if opcode < 6 else "write" if opcode < 12 else f"opcode {opcode}")
    if words == "datagram":
        return "multicast datagram" if 224 <= frame[30] < 240 else "unicast datagram"
    return words


def main():
    count = collections.Counter()

    def end(*_):
        print(json.dumps(count), flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: none is missed
        tap.bind((sys.argv[1], 0))
        print("capturing", flush=True)
        while True:
            count[kind(tap.recv(128))] += 1


main()
