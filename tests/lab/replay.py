# SPDX-License-Identifier: Apache-2.0
"""Replays a file to subscribers on all hosts: rows over RDMA equal those over shared memory."""
import bus
from guests import Failed

LOCAL = (1, "shm")
HOSTS = (LOCAL, (2, "rxe"), (3, "siw"))


def equal_rows(lab, path, topics, slots, hosts=HOSTS):
    """Host 1 publishes. A subscriber on each (host, kind) joins before the first record and reads to the end."""
    publisher = lab.host(1)
    hosts = [(number, kind) for number, kind in hosts if kind in ("shm", *lab.kinds)]
    daemon = bus.pubd(publisher, bus.itch(path, len(hosts) * len(topics)), topics, slots)
    running = [bus.cat(lab.host(number), publisher, kind, topic, "--until-end", out=f"{topic}.{number}.{kind}")
               for number, kind in hosts for topic in topics]
    for process in running:
        process.wait()
    for topic in topics:
        wanted = bus.rows(lab, f"{topic}.1.shm")
        if wanted[0] < 1:
            raise Failed(f"no {topic} over shared memory")
        for number, kind in hosts:
            found = bus.rows(lab, f"{topic}.{number}.{kind}")
            if found != wanted:
                raise Failed(f"{topic} over {kind} on host {number}: found {found[0]} rows that differ from the {wanted[0]} "
                             "over shared memory")
    daemon.signal("TERM")
    daemon.wait()
