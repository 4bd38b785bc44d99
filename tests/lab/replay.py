# SPDX-License-Identifier: Apache-2.0
"""One file replayed to subscribers on all hosts: rows over RDMA are those over shared memory."""
import bus
from guests import Failed

KINDS = {1: "shm", 2: "rxe", 3: "siw", 4: "rxe"}


def equal_rows(lab, path, topics, slots):
    """Host 1 publishes; everyone joins before the first record and reads to the end."""
    publisher = lab.host(1)
    readers = [host for host in lab.hosts if KINDS.get(host.number) in ("shm", *lab.kinds)]
    daemon = bus.pubd(publisher, bus.itch(path, len(readers) * len(topics)), topics, slots)
    running = [(host, topic, bus.cat(host, publisher, KINDS[host.number], topic, "--until-end",
                                     out=f"{topic}.{host.number}"))
               for host in readers for topic in topics]
    for _, _, process in running:
        process.wait()
    for topic in topics:
        wanted = bus.rows(lab, f"{topic}.1")
        if wanted[0] < 1:
            raise Failed(f"no {topic} over shared memory")
        for host in readers[1:]:
            found = bus.rows(lab, f"{topic}.{host.number}")
            if found != wanted:
                raise Failed(f"{topic} over {KINDS[host.number]} on host {host.number}: found {found[0]} rows that "
                             f"are not the {wanted[0]} over shared memory")
    daemon.signal("TERM")
    daemon.wait()
