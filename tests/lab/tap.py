# SPDX-License-Identifier: Apache-2.0
"""A capture of what crosses a host's interface (capture.py), and what tshark, which nobody here wrote, sees in it."""
import collections
import json
import re
import shutil
import subprocess

from guests import Failed
from hosts import Skipped

# What tshark calls the opcodes: of RoCE by infiniband.bth.opcode, of iWARP by iwarp_rdma.opcode.
ROCE = {12: "read request", 13: "read response", 14: "read response", 15: "read response", 16: "read response",
        17: "acknowledge"}
IWARP = {1: "read request", 2: "read response"}
FIELDS = ("infiniband.bth.opcode", "iwarp_rdma.opcode", "udp.dstport", "ip.dst", "tcp.len", "tcp.reassembled_in")
NOTICES_PORT = "7472"


def must_be_software(host, kind):
    """What devices of hardware send and receive never passes the kernel, where it could be captured."""
    interface = re.escape(host.interface(kind))
    found = re.search(rf"^link ([^/ ]+)/.* netdev {interface} *$", host.run("rdma link show"), re.M)
    if not found or "/virtual/" not in host.run(f"readlink -f /sys/class/infiniband/{found[1]}"):
        raise Skipped(f"host {host.number}: what its {kind} device sends cannot be captured: it is not one of software")


class Tap:
    def __init__(self, host, kind, pcap=""):
        """`pcap`: the name of a file in the run's folder that takes all that is captured."""
        must_be_software(host, kind)
        self.path = host.lab.topology.folder / pcap
        self.process = host.start(f"exec python3 -B $SOURCE/tests/lab/capture.py {host.interface(kind)} "
                                  f"{pcap and self.path}")
        self.process.wait_for("capturing")

    def end(self):
        """How many packets there were of each kind."""
        self.process.signal("TERM")
        return json.loads(self.process.wait().splitlines()[-1])


def kinds_of(roce, iwarp, port, to, tcp_bytes, later):
    """The words for one frame, by what tshark says of it: one for each message of iWARP that ends in it."""
    multicast = to and 224 <= int(to.split(".")[0]) < 240
    if iwarp:
        return [IWARP.get(int(opcode, 0), f"iWARP opcode {opcode}") for opcode in iwarp.split(",")]
    if roce:
        opcode = int(roce, 0)
        return ["multicast datagram" if opcode == 100 and multicast else ROCE.get(opcode, f"RoCE opcode {opcode}")]
    if port == NOTICES_PORT and multicast:
        return ["multicast datagram"]
    return ["acknowledge" if tcp_bytes == "0" else "part of a message" if later else "other"]


def tshark(path):
    """How many packets of each kind tshark finds in a capture."""
    if not shutil.which("tshark"):
        raise Skipped("tshark is not there")
    done = subprocess.run(["tshark", "-n", "-2", "-r", path, "-T", "fields", "-E", "separator=;",
                           *(word for field in FIELDS for word in ("-e", field))], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"tshark: {done.stderr}")
    return collections.Counter(word for line in done.stdout.splitlines() for word in kinds_of(*line.split(";")))
