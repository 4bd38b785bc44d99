# SPDX-License-Identifier: Apache-2.0
"""Captures the packets of a host's interface (capture.py), and counts them independently with tshark."""
import collections
import json
import re
import shutil
import subprocess

from guests import Failed
from hosts import Skipped

# Names of opcodes: tshark's infiniband.bth.opcode for RoCE, iwarp_rdma.opcode for iWARP.
ROCE = {12: "read request", 13: "read response", 14: "read response", 15: "read response", 16: "read response",
        17: "acknowledge"}
IWARP = {1: "read request", 2: "read response"}
FIELDS = ("infiniband.bth.opcode", "iwarp_rdma.opcode", "udp.dstport", "ip.dst", "tcp.len", "tcp.reassembled_in")
BYTES_FIELDS = ("infiniband.bth.opcode", "udp.length", "iwarp_rdma.opcode", "iwarp_mpa.ulpdulength")
NOTICES_PORT = "7472"
ROCE_BYTES, AETH_BYTES = 24, 4  # UDP, BTH and ICRC; the first and last packet of a response have an AETH
ROCE_MIDDLE = 14
# tshark takes a READ's bytes for Ethernet if they begin like it, and an iWARP client's port for that of a protocol.
# Both are guesses that the capture's owner knows to be wrong.
TSHARK = ("tshark", "-n", "--disable-heuristic", "eth_over_ib", "-o", "tcp.try_heuristic_first:TRUE")
IWARP_BYTES = 14  # DDP and RDMAP of a tagged message


def must_be_software(host, kind):
    """Skips for a hardware device, whose packets bypass the kernel and cannot be captured."""
    interface = re.escape(host.interface(kind))
    found = re.search(rf"^link ([^/ ]+)/.* netdev {interface} *$", host.run("rdma link show"), re.M)
    if not found or "/virtual/" not in host.run(f"readlink -f /sys/class/infiniband/{found[1]}"):
        raise Skipped(f"host {host.number}: its {kind} device is hardware, whose packets cannot be captured")


class Tap:
    def __init__(self, host, kind, pcap=""):
        """`pcap`: the name of a file in the run's folder for the packets."""
        must_be_software(host, kind)
        self.path = host.lab.topology.folder / pcap
        self.process = host.start(f"exec python3 -B $SOURCE/tests/lab/capture.py {host.interface(kind)} "
                                  f"{pcap and self.path}")
        self.process.wait_for("capturing")

    def packets(self):
        """How many packets there are so far."""
        before = len(re.findall("^packets", self.process.output(), re.M))
        self.process.signal("USR1")
        self.process.wait_for(rf"(?s)(packets \d+\n.*){{{before + 1}}}")
        return int(re.findall(r"^packets (\d+)", self.process.output(), re.M)[-1])

    def end(self):
        """Ends the capture. Returns the number of packets by kind."""
        self.process.signal("TERM")
        return json.loads(self.process.wait().splitlines()[-1])


def kinds_of(roce, iwarp, port, to, tcp_bytes, later):
    """The kinds of a frame by tshark's fields: a kind for each iWARP message that ends in it."""
    multicast = to and 224 <= int(to.split(".")[0]) < 240
    if iwarp:
        return [IWARP.get(int(opcode, 0), f"iWARP opcode {opcode}") for opcode in iwarp.split(",")]
    if roce:
        opcode = int(roce, 0)
        return ["multicast datagram" if opcode == 100 and multicast else ROCE.get(opcode, f"RoCE opcode {opcode}")]
    if port == NOTICES_PORT and multicast:
        return ["multicast datagram"]
    return ["acknowledge" if tcp_bytes == "0" else "part of a message" if later else "other"]


def decoded(path, *options, fields):
    """The fields of each frame in a capture, by tshark."""
    if not shutil.which("tshark"):
        raise Skipped("tshark is missing")
    done = subprocess.run([*TSHARK, *options, "-r", path, "-T", "fields", "-E", "separator=;",
                           *(word for field in fields for word in ("-e", field))], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"tshark: {done.stderr}")
    return [line.split(";") for line in done.stdout.splitlines()]


def tshark(path, first=0, last=None):
    """The number of packets by kind that tshark finds in a capture, or in a part of it."""
    return collections.Counter(word for frame in decoded(path, "-2", fields=FIELDS)[first:last]
                               for word in kinds_of(*frame))


def read_bytes(path, first, last=None):
    """The bytes of memory that READ responses in a part of a capture brought, by tshark. tshark decodes
    iWARP only if it sees the connection's start. Headers do not count: they add 62 bytes to a RoCE response."""
    total = 0
    for roce, udp, iwarp, lengths in decoded(path, fields=BYTES_FIELDS)[first:last]:
        if roce and ROCE.get(int(roce, 0)) == "read response":
            total += int(udp) - ROCE_BYTES - (0 if int(roce, 0) == ROCE_MIDDLE else AETH_BYTES)
        for opcode, length in zip(filter(None, iwarp.split(",")), filter(None, lengths.split(","))):
            total += int(length) - IWARP_BYTES if IWARP.get(int(opcode, 0)) == "read response" else 0
    return total
