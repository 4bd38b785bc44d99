#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tshark 4.0.17 decodes nothing of an iWARP connection whose client happens to have port 44818.
#
# Expected: tshark knows an iWARP stream by its first bytes ("MPA ID Req Frame"), whatever the ports are.
# Seen: 44818 is registered for EtherNet/IP, and a dissector for a port goes before a guess by content. 44818 is among
# the ports from which Linux connects (32768 to 60999), so one connection in some 28,000 cannot be read in a capture: no
# READ request and no response is found, and tshark says nothing. `-o tcp.try_heuristic_first:TRUE` asks the content
# first.
set -eu
. "$(dirname "$0")/unpack.sh"
unpack tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3

cat >"$folder/connection.py" <<'PYTHON'
import struct, sys
LISTENER, CLIENT = 18515, int(sys.argv[2])
PORTS, SENT = (CLIENT, LISTENER), [1000, 5000]

def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xffffffff)

def segment(side, flags, data=b""):
    tcp = struct.pack(">HHIIBBHHH", PORTS[side], PORTS[1 - side], SENT[side], SENT[1 - side], 0x50, flags, 65535, 0, 0)
    hosts = [bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))]
    SENT[side] += len(data) + (flags & 2 != 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 1, 0x4000, 64, 6, 0, hosts[side], hosts[1 - side])
    return bytes(12) + b"\x08\x00" + ip + tcp + data

def fpdu(message):
    framed = struct.pack(">H", len(message)) + message
    framed += bytes(-len(framed) % 4)
    return framed + crc32c(framed)

frames = [segment(0, 0x02), segment(1, 0x12), segment(0, 0x10),
          segment(0, 0x18, b"MPA ID Req Frame\x40\x01\x00\x00"), segment(1, 0x18, b"MPA ID Rep Frame\x40\x01\x00\x00"),
          segment(0, 0x18, fpdu(struct.pack(">BBIIIIIQIIQ", 0x41, 0x41, 0, 1, 1, 0, 7, 0, 64, 9, 0))),
          segment(1, 0x18, fpdu(struct.pack(">BBIQ", 0xc1, 0x42, 7, 0) + bytes(64)))]
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    for frame in frames:
        out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
PYTHON

opcodes() { # opcodes PORT [OPTION...]: what tshark finds; 0x01 is a READ request, 0x02 a response
	python3 "$folder/connection.py" "$folder/capture" "$1"
	tshark -n "${@:2}" -r "$folder/capture" -T fields -e iwarp_rdma.opcode 2>/dev/null | paste -s -d ' ' | xargs
}
expect 'client at port 40000' "$(opcodes 40000)" '0x01 0x02'
expect 'client at port 44818' "$(opcodes 44818)" ''
expect 'client at port 44818, content first' "$(opcodes 44818 -o tcp.try_heuristic_first:TRUE)" '0x01 0x02'
