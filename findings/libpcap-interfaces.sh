#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libpcap 1.10.3 ends a pcapng at an interface with another snapshot length, and at a section of another byte order.
#
# Expected: pcapng lets each interface have a link type and a snapshot length of its own, and each section a byte order of
# its own. A reader gets the packets of all of them, as in tshark. An error was expected for the link type alone, since
# pcap_datalink() has a single answer.
# Seen: an interface with another snapshot length is an error like that of another link type. The packets before it were
# given, and no packet after it. Merged captures of two hosts may differ in it. A section of the other byte order is an
# error of its block length: 469762048 is 28 read backwards. Units of time may differ: they belong to the interface.
set -eu
. "$(dirname "$0")/unpack.sh"
command -v python3 >/dev/null || { echo 'skipped: needs python3' >&2; exit 77; }
unpack tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 libpcap0.8=1.10.3-1

python3 - "$folder" <<'PYTHON'
import struct, sys

def block(order, kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length

def section(order="<"):
    return block(order, 0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1))

def interface(order="<", link=1, snaplen=65535, unit=6):
    options = struct.pack(order + "HHB3xHH", 9, 1, unit, 0, 0)  # if_tsresol, end
    return block(order, 1, struct.pack(order + "HHI", link, 0, snaplen) + options)

def packet(number=0, unit=6, order="<"):
    time = 1700000000 * 10 ** unit
    data = bytes(12) + b"\x88\xb5" + bytes(46)  # Ethernet, an experimental type
    return block(order, 6, struct.pack(order + "IIIII", number, time >> 32, time & 0xffffffff, len(data), len(data)) + data)

files = {
    "same": interface() + interface() + packet() + packet(1),
    "unit": interface() + interface(unit=9) + packet() + packet(1, unit=9),
    "snaplen": interface() + packet() + interface(snaplen=262144) + packet(1),
    "link": interface() + packet() + interface(link=101) + packet(1),
    "section": interface() + packet() + section() + interface() + packet(),
    "order": interface() + packet() + section(">") + interface(">") + packet(order=">"),
}
for name, rest in files.items():
    with open(f"{sys.argv[1]}/{name}", "wb") as out:
        out.write(section() + rest)
PYTHON

cat >"$folder/read.py" <<'PYTHON'
import ctypes, sys
pcap = ctypes.CDLL("libpcap.so.0.8")
pcap.pcap_open_offline.restype = ctypes.c_void_p
pcap.pcap_geterr.restype = ctypes.c_char_p
why = ctypes.create_string_buffer(256)
file = ctypes.c_void_p(pcap.pcap_open_offline(sys.argv[1].encode(), why))
head, data, count = ctypes.c_void_p(), ctypes.c_void_p(), 0
while (result := pcap.pcap_next_ex(file, ctypes.byref(head), ctypes.byref(data))) == 1:
    count += 1
print(count, "the end" if result == -2 else pcap.pcap_geterr(file).decode(), sep=", ")
PYTHON

found() { # packets that libpcap gives, and how it ends; packets that tshark gives
	echo "$(python3 "$folder/read.py" "$folder/$1"); tshark $(tshark -n -r "$folder/$1" 2>/dev/null | wc -l)"
}
expect 'two equal interfaces' "$(found same)" '2, the end; tshark 2'
expect 'another unit of time' "$(found unit)" '2, the end; tshark 2'
expect 'another snapshot length' "$(found snaplen)" \
	'1, an interface has a snapshot length 262144 different from the snapshot length of the first interface; tshark 2'
expect 'another link type' "$(found link)" \
	'1, an interface has a type 101 different from the type of the first interface; tshark 2'
expect 'another section' "$(found section)" '2, the end; tshark 2'
expect 'a section of the other byte order' "$(found order)" '1, pcapng block size 469762048 > maximum 16777216; tshark 2'
