#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libpcap 1.10.3 cuts a packet of a pcap file that is longer than the file's snapshot length, without a word.
#
# Expected: the snapshot length is what the capture was limited to. A file with a longer packet has more than it promised,
# and all of its bytes are given. Or it is an error, with which the file ends.
# Seen: in a pcap file the packet is cut to the snapshot length: `caplen` says 40 where the file says 60, and `len` is 60,
# as for a packet that the capture cut. A reader cannot distinguish the two, and may report a bad capture where the file
# has all bytes. The next packet is right. In a pcapng with the same packet reading ends with an error. A snapshot length
# of 0 means no limit, in both.
set -eu
. "$(dirname "$0")/unpack.sh"
command -v python3 >/dev/null || { echo 'skipped: needs python3' >&2; exit 77; }
unpack libpcap0.8=1.10.3-1

cat >"$folder/test.py" <<'PYTHON'
import ctypes, struct, sys

class Head(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("us", ctypes.c_long), ("caplen", ctypes.c_uint32), ("len", ctypes.c_uint32)]

def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

form, snaplen, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
packets = [bytes(60), bytes(30)]
with open(path, "wb") as out:
    if form == "pcap":
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, snaplen, 1))
        for data in packets:
            out.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)
    else:
        out.write(block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, snaplen)))
        for data in packets:
            out.write(block(6, struct.pack("<IIIII", 0, 0, 0, len(data), len(data)) + data))
pcap = ctypes.CDLL("libpcap.so.0.8")
pcap.pcap_open_offline.restype = ctypes.c_void_p
pcap.pcap_geterr.restype = ctypes.c_char_p
file = ctypes.c_void_p(pcap.pcap_open_offline(path.encode(), ctypes.create_string_buffer(256)))
head, data, said = ctypes.POINTER(Head)(), ctypes.c_void_p(), []
while (result := pcap.pcap_next_ex(file, ctypes.byref(head), ctypes.byref(data))) == 1:
    said.append(f"{head.contents.caplen} of {head.contents.len}")
print(", ".join(said + ["the end" if result == -2 else pcap.pcap_geterr(file).decode()]))
PYTHON

found() {
	python3 "$folder/test.py" "$1" "$2" "$folder/file"
}
expect 'pcap, 65,535' "$(found pcap 65535)" '60 of 60, 30 of 30, the end'
expect 'pcap, 40' "$(found pcap 40)" '40 of 60, 30 of 30, the end'
expect 'pcap, 0' "$(found pcap 0)" '60 of 60, 30 of 30, the end'
expect 'pcapng, 65,535' "$(found pcapng 65535)" '60 of 60, 30 of 30, the end'
expect 'pcapng, 40' "$(found pcapng 40)" 'invalid packet capture length 60, bigger than snaplen of 40'
expect 'pcapng, 0' "$(found pcapng 0)" '60 of 60, 30 of 30, the end'
