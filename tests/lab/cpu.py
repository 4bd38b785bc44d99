# SPDX-License-Identifier: Apache-2.0
"""What a record costs the publishing thread with remote subscribers: time and instructions.

The time is user time: utime in /proc of the task called feed. Software devices work in the kernel, partly in the
sender's name. Emulated processors have no instruction counter, so callgrind counts the instructions of
tb_publish and tb_flush, for the same records in two threads.
"""
import re

import bus

TICKS = 100  # a second, in /proc
RATE, RECORDS = 2000, 10000
MESSAGES = 1000


def readers_start(lab, count, *options):
    """Starts `count` subscribers on hosts 2, 3, 4 and 2, over each kind of device in turn."""
    hosts = [(lab.host(number), lab.kinds[number % len(lab.kinds)]) for number in (2, 3, 4, 2)]
    return [bus.cat(host, lab.host(1), kind, "quote", *options, out=f"cpu.{i}")
            for i, (host, kind) in enumerate(hosts[:count])]


def all_joined(lab, count):
    lab.wait_until(lambda: bus.counter(lab.host(1), "joins") == count, f"{count} joins", every=0.3)


def ticks(daemon):
    """User time of the publishing thread so far."""
    return int(daemon.host.run(
        f"for task in /proc/{daemon.guest.pid(daemon.name)}/task/*; do\n"
        "[ $(cat $task/comm) != feed ] || cut -d ' ' -f 14 $task/stat\ndone"))


def user_us(lab, subscribers):
    """User time per record at RATE, in microseconds."""
    daemon = bus.pubd(lab.host(1), bus.market(RATE))
    readers = readers_start(lab, subscribers, "--from newest")
    all_joined(lab, subscribers)
    before = ticks(daemon)
    lab.host(1).run(f"tickbus cat shm:lab nasdaq.quote --from newest --count {RECORDS} >/dev/null")
    spent = ticks(daemon) - before
    for reader in readers:
        reader.signal("KILL")
    daemon.signal("TERM")
    daemon.wait()
    return spent * 1e6 / TICKS / RECORDS


def instructions(lab, subscribers):
    """User instructions of two feeds' threads that publish the same file at the same time: a feed without subscribers,
    and a feed with this many. The smaller number first."""
    host = lab.host(1)
    path = bus.synthetic_file(lab, MESSAGES, symbols=50)
    daemon = bus.pubd(
        host, bus.itch(path, subscribers), slots=8192,
        feeds=f"  - {{ name: alone, {bus.itch(path, 0)} }}\n",
        below="  - { name: alone.quote, feed: alone, select: quote, schema: quote, slots: 8192, instruments: 16384 }\n",
        prefix="valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file=$OUT/callgrind "
               "--toggle-collect=tb_publish --toggle-collect=tb_flush")
    for reader in readers_start(lab, subscribers, "--until-end"):
        reader.wait()
    daemon.wait_for("to the end(.|\\n)*to the end")
    daemon.signal("TERM")
    daemon.wait()
    counts = re.findall(r"^totals: (\d+)", host.run("cat $OUT/callgrind*; rm $OUT/callgrind*"), re.M)
    return sorted(int(count) for count in counts)[-2:]
