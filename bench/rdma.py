#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rounds of measurements over RDMA on this machine's own devices: tickbus and perftest in turns.

  rdma.py [--tiny] BUILD PUBLISHER SUBSCRIBER ROUNDS MEASURE...

PUBLISHER and SUBSCRIBER are addresses of RoCE devices of this machine, which may be the same. MEASURE is a measure of
rdma.c, a slash, and the bytes of a slot. Compared values are measured in turn, in shuffled order. Prints the number
of each round, and a line of JSON at the end: whether the devices are software, and a list of rounds. A round is a
dictionary of values by MEASURE/NAME. scripts/bench makes rows of them.
"""
import ipaddress
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

PORT = 7477
NOTICE_BYTES = 72  # of a notice about one topic
READ_BYTES, READ_DEPTH = 8192, 32  # as in rdma.c
OUTSTANDING = 16  # READs that the library has outstanding at most
SECONDS = 60


class Failed(Exception):
    pass


class Device:
    """The RoCE device with this address."""

    def __init__(self, address):
        self.address = address
        parsed = ipaddress.ip_address(address)
        gid = (b"\0" * 10 + b"\xff\xff" + parsed.packed if parsed.version == 4 else parsed.packed).hex()
        for path in sorted(pathlib.Path("/sys/class/infiniband").glob("*/ports/*/gids/*")):
            port = path.parent.parent
            kind = port / "gid_attrs/types" / path.name
            try:
                if path.read_text().strip().replace(":", "") == gid and kind.read_text().strip() == "RoCE v2":
                    self.name, self.port, self.index = port.parent.parent.name, port.name, path.name
                    break
            except OSError:  # an unused entry of the table
                continue
        else:
            raise Failed(f"found no RoCE v2 device with the address {address}")
        self.software = "/virtual/" in os.path.realpath(f"/sys/class/infiniband/{self.name}")


def listening():
    tables = "".join(pathlib.Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return re.search(rf":{PORT:04X} [0-9A-F]+:0000 0A ", tables)


def pinned(index):
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cores[index % len(cores)])]


class Bench:
    def __init__(self, build, publisher, subscriber, tiny):
        self.program = f"{build}/bench/tickbus-bench-rdma"
        self.server, self.client = Device(publisher), Device(subscriber)
        self.software = self.server.software or self.client.software
        self.records = 20 if tiny else 1000 if self.software else 20000
        self.image_bytes = 1 << 15 if tiny else 5 << 18 if self.software else 1 << 22  # of all values
        self.reads = 64 if tiny else 1024 if self.software else 16384

    def perftest(self, column, tool, *options):
        """Runs the tool on both sides, on the same cores as tickbus. Returns the value in a column of its row."""
        def command(index, device):
            return [*pinned(index), tool, "-F", "-p", str(PORT), "-d", device.name, "-i", device.port,
                    "-x", device.index, *map(str, options)]
        server = subprocess.Popen(command(0, self.server), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            end = time.monotonic() + SECONDS
            while not listening():
                if server.poll() is not None or time.monotonic() > end:
                    raise Failed(f"{tool} does not listen: {server.stdout.read() if server.poll() is not None else ''}")
                time.sleep(0.01)
            done = subprocess.run([*command(1, self.client), self.server.address], capture_output=True, text=True,
                                  timeout=SECONDS)
            row = re.search(r"^ *\d+ +\d+ +[\d.]+ .*$", done.stdout, re.M)
            if done.returncode or not row:
                raise Failed(f"{tool}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
            server.communicate(timeout=SECONDS)
            return float(row[0].split()[column])
        finally:
            server.kill()
            server.communicate()

    def tickbus(self, measure, slot_bytes, count):
        done = subprocess.run([self.program, measure, self.server.address, self.client.address, slot_bytes,
                               str(count)], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{self.program} {measure}: exit status {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def latency(self, tool, size, *options):
        return {tool: self.perftest(4, tool, "-s", size, "-n", self.records, *options)}

    def bandwidth(self):
        """Without completion moderation, so that the queue of READs stays full."""
        return {"ib_read_bw": self.perftest(3, "ib_read_bw", "-s", READ_BYTES, "-t", READ_DEPTH, "-o", OUTSTANDING,
                                            "-Q", 1, "-n", self.reads)}

    def group(self, measure, slot_bytes):
        """The calls to compare. Each returns values by name."""
        yardsticks = {
            "notice": [lambda: self.latency("ib_read_lat", slot_bytes),
                       lambda: self.latency("ib_send_lat", NOTICE_BYTES, "-c", "UD")],
            "known": [lambda: self.latency("ib_read_lat", READ_BYTES)],
            "bulk": [self.bandwidth],
            "image": [self.bandwidth],
        }
        count = {"notice": self.records, "image": self.image_bytes // int(slot_bytes)}.get(measure, self.reads)
        return [lambda: self.tickbus(measure, slot_bytes, count), *yardsticks[measure]]

    def round(self, measures):
        found = {}
        for name in random.sample(measures, len(measures)):
            calls = self.group(*name.split("/"))
            for call in random.sample(calls, len(calls)):
                found |= {f"{name}/{key}": value for key, value in call().items()}
        return found


def main(arguments):
    tiny = arguments[:1] == ["--tiny"]
    build, publisher, subscriber, rounds, *measures = arguments[1:] if tiny else arguments
    bench = Bench(build, publisher, subscriber, tiny)
    found = []
    for turn in range(int(rounds)):
        print(f"round {turn + 1} of {rounds}", flush=True)
        found.append(bench.round(measures))
    print(json.dumps({"software": bench.software, "rounds": found}))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Failed, subprocess.TimeoutExpired) as why:
        print(f"bench/rdma.py: {why}", file=sys.stderr)
        sys.exit(1)
