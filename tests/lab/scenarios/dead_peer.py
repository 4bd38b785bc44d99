# SPDX-License-Identifier: Apache-2.0
"""Dead subscribers are removed and their places freed, although the publisher's device would retry for ever. Stopped
subscribers keep their places."""
import bus

TOPOLOGY = "one guest"
SECONDS = 150
GUESTS_ONLY = True
TCP_RETRIES = "/proc/sys/net/ipv4/tcp_retries2"  # TCP gives up after minutes by default, after seconds with 3


def dead_peers(host, publisher):
    processes = [host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/dead_peer.py {host.address(kind)} "
                            f"{publisher.address(kind)} {bus.PORT}") for kind in host.lab.kinds]
    for process in processes:
        process.wait_for("connected")
    return processes


def subscribers(lab, count):
    lab.wait_until(lambda: bus.counter(lab.host(1), "subscribers") == count, f"{count} subscribers", 90, every=0.5)


def run(lab):
    publisher, gone, stopped = lab.host(1), lab.host(4), lab.host(3)
    usual = publisher.run(f"cat {TCP_RETRIES}; echo 3 >{TCP_RETRIES}")
    daemon = bus.pubd(publisher, bus.market(50))
    dying, staying = dead_peers(gone, publisher), dead_peers(stopped, publisher)
    subscribers(lab, 2 * len(lab.kinds))
    for process in staying:
        process.signal("STOP")
    gone.unplug()
    for process in dying:
        process.kill()
    subscribers(lab, len(lab.kinds))
    gone.plug()
    for process in staying:
        process.signal("CONT")
    daemon.signal("TERM")
    daemon.wait()
    publisher.run(f"echo {usual.strip()} >{TCP_RETRIES}")
