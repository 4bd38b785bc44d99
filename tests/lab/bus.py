# SPDX-License-Identifier: Apache-2.0
"""A bus in the lab: pubd on one host, `tickbus` on any, over shared memory, RoCE and iWARP."""
import csv
import hashlib
import os
import pathlib
import re
import subprocess

from guests import Failed
from hosts import Skipped

PORT = 7471
GROUP = "239.10.0.1"
BUS = """bus: {{ name: lab, listen: [ {listen} ], stale_ms: {stale_ms}{more} }}
log: {{ level: {level} }}
schemas: [ quote, trade, depth10 ]
feeds:
  - {{ name: nasdaq, {feed} }}
{feeds}topics:
"""
TOPIC = "  - {{ name: nasdaq.{0}, feed: nasdaq, select: {0}, schema: {0}, slots: {1}, instruments: 16384{2} }}\n"


def address(host, kind):
    """The address of the bus on `host`: for a subscriber on any host, or on the same host with `shm`."""
    return "shm:lab" if kind == "shm" else f"rdma:{host.address(kind)}:{PORT}"


def pubd(host, feed, topics=("quote",), slots=65536, kinds=("shm", "rxe", "siw"), more="", level="info",
         prefix="", group=GROUP, groups=None, also=(), feeds="", below="", stale_ms=1000):
    """Starts pubd, and waits until it listens.

    `more`: further keys of the bus. `level`: of the log. `prefix`: a program that runs pubd. `group`: of the bus;
    None: the group that follows from its name. `groups`: groups of topics. `also`: further addresses. `feeds`:
    further lines of feeds. `below`: further lines after the topics."""
    own = {topic: f', multicast: "{group}:7472"' for topic, group in (groups or {}).items()}
    addresses = [address(host, kind) for kind in kinds if kind in ("shm", *host.lab.kinds)]
    listen = ", ".join(f'"{where}"' for where in (*addresses, *also))
    path = host.lab.topology.folder / f"pubd{host.number}.yaml"
    more = (f', multicast: "{group}:7472"' if group else "") + more
    path.write_text(BUS.format(listen=listen, feed=feed, feeds=feeds, more=more, level=level, stale_ms=stale_ms) +
                    "".join(TOPIC.format(topic, slots, own.get(topic, "")) for topic in topics) + below)
    daemon = host.start(f"exec {prefix} $(command -v pubd) {path}")
    daemon.wait_for(r"bus lab: ")
    return daemon


def address_on(host, source, kind):
    """The address of the bus on `source` for a subscriber on `host`. With all hosts in one guest, source= puts the
    subscriber on its host."""
    if kind == "shm" or host.alone:
        return address(source, kind)
    return f"{address(source, kind)},source={host.address(kind)}"


def cat(host, source, kind, topic, *options, out=None):
    """Starts `tickbus cat` of the topic. At the end its rows are copied to the file `out` in the run's folder: each
    write there is a request to this machine."""
    where = address_on(host, source, kind)
    command = " ".join(("tickbus cat", where, f"nasdaq.{topic}", "--format csv", "--from oldest", "--wait", *options))
    if not out:
        return host.start(f"exec {command}")
    rows = f"/tmp/$$.{out}"
    return host.start(f"{command} >{rows}\nstatus=$?\ncp {rows} $OUT/{out} && rm {rows}\nexit $status")


def stat(host):
    """What `tickbus stat` prints for the bus on that host. On an emulated processor its timeout may be too short, so it
    is repeated."""
    return host.run("until text=$(tickbus stat shm:lab --format csv 2>&1); do :; done; echo \"$text\"")


def counter(host, name):
    """A counter of the bus on that host, without the connection of `tickbus stat` itself."""
    found = re.search(rf"^bus,lab,{name},(\d+)", stat(host), re.M)
    return int(found[1]) - (name in ("subscribers", "connections"))


def heads(host):
    """The number of the last record of each topic on that host."""
    text = host.run("until text=$(tickbus topics shm:lab --format csv 2>&1); do :; done; echo \"$text\"")
    return {row["topic"]: int(row["head"]) for row in csv.DictReader(text.splitlines())}


def rows(lab, name):
    """(number of rows, digest) of a file of rows in the run's folder."""
    data = (lab.topology.folder / name).read_bytes()
    return data.count(b"\n") - 1, hashlib.sha256(data).hexdigest()


def real_file():
    path = pathlib.Path(os.environ.get("TICKBUS_TEST_DATA", "/nowhere")) / "itch/itch50_aapl_20191230_0935.bin"
    if not path.exists():
        raise Skipped(f"TICKBUS_TEST_DATA names no folder with itch/{path.name}")
    return path


def synthetic_file(lab, messages, symbols=8000):
    """Made on this machine: the same seed gives the same bytes everywhere."""
    return synthetic(lab, f"synthetic-{messages}-{symbols}.bin", f"--messages={messages}", f"--symbols={symbols}")


def synthetic_day(lab, seconds, rate, symbols=8000):
    """A day of so many seconds of trading. The symbols' first quotes come before the trading."""
    return synthetic(lab, f"day-{seconds}-{rate}-{symbols}.bin", f"--seconds={seconds}", f"--rate={rate}",
                     f"--symbols={symbols}")


def synthetic(lab, name, *options):
    path = lab.topology.folder / name
    if not path.exists():
        done = subprocess.run([lab.build / "tools/tickbus", "synth", "--seed", "7", *options, path],
                              capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"tickbus synth: {done.stderr}")
    return path


def market(rate=500):
    """A small market at its own pace, for minutes. The rate is low, as a record takes milliseconds of an emulated
    processor."""
    return f"type: synthetic, seed: 1, symbols: 100, rate: {rate}, seconds: 600, speed: realtime"


def itch(path, subscribers, more=""):
    return (f"type: itch50, path: '{path}', date: 2019-12-30, speed: max, "
            f"start: {{ subscribers: {subscribers} }}{more}")
