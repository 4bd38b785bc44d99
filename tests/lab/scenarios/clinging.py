# SPDX-License-Identifier: Apache-2.0
"""Subscribers that had the publisher's device ask for ever whether they are there, and died: their places are free
again. One that only stopped keeps its own.
"""
import bus

TOPOLOGY = "one guest"
SECONDS = 150


def run(lab):
    publisher, gone, stopped = lab.host(1), lab.host(4), lab.host(3)
    daemon = bus.pubd(publisher, bus.market(50))

    def clinger(host, kind):
        process = host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/clinger.py {host.address(kind)} "
                             f"{publisher.address(kind)} {bus.PORT}")
        process.wait_for("connected")
        return process
    clingers = [clinger(host, kind) for kind in lab.kinds for host in (gone, stopped)]
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == len(clingers), "all subscribers", every=0.3)
    for one in clingers[1::2]:
        one.signal("STOP")
    gone.unplug()
    for one in clingers[::2]:
        one.kill()
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == len(lab.kinds), "their places to be free", 60,
                   every=0.5)
    gone.plug()
    for one in clingers[1::2]:
        one.signal("CONT")
    daemon.signal("TERM")
    daemon.wait()
