#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tshark 4.0.17 shows a RoCEv2 READ response as IPv4 or ARP if its payload begins like an Ethernet type.
#
# Expected: BTH says that the packet is a READ response, so its payload is data.
# Seen: a payload that begins with 08 00 00 00 (the number 8, little-endian) is shown as a packet of IPv4, and 08 06 00 00
# (1544) as ARP, in the summary line too; 7 and 9 are data. The fields of the inner packet appear beside those of the
# outer packet, so `-e ip.dst` may print two addresses. A memory that begins with a counter passes through both numbers.
# The guess is the heuristic eth_over_ib; `--disable-heuristic eth_over_ib` switches it off.
set -eu
. "$(dirname "$0")/unpack.sh"
unpack tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3

python3 - "$folder/capture" <<'PYTHON'
import struct, sys
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    for number in (7, 8, 9, 1544):
        data = struct.pack("<Q", number) + bytes(range(56))
        # BTH: READ response only, a queue pair, a sequence; AETH; data; an ICRC that tshark does not check
        data = struct.pack(">BBHIII", 16, 0x40, 0xffff, 17, 0, 0) + data + bytes(4)
        data = struct.pack(">HHHH", 49152, 4791, 8 + len(data), 0) + data
        data = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 1, 0x4000, 64, 17, 0,
                           bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))) + data
        data = bytes(12) + b"\x08\x00" + data
        out.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)
PYTHON

shown() { # the last protocol that tshark finds in each packet
	tshark -n "$@" -r "$folder/capture" -T fields -e frame.protocols 2>/dev/null | sed 's/.*://' | paste -s -d ' '
}
expect 'numbers 7, 8, 9 and 1544 are shown as' "$(shown)" 'data ip data arp'
expect 'without the heuristic' "$(shown --disable-heuristic eth_over_ib)" 'data data data data'
