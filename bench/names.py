# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/bench, the names of all their rows on any machine, and the check of a name."""
import counts
import feed
import idle
import limits
import peers
import programs
import pubd
import rings
import sleepers
import wire
from session import SETTINGS

PARTS = {  # the first word of the rows' names: what measures them
    "limit": limits.rows, "publish": rings.rows, "caught": rings.rows, "throughput": rings.rows,
    "latency": rings.rows, "open": rings.rows,
    "instructions": counts.instructions, "batches": counts.batches, "itch": feed.itch, "joins": programs.joins, "memory": programs.memory,
    "images": programs.images, "get": programs.get, "conflate": programs.conflate, "topics": programs.topics,
    "merge": programs.merge, "sleepers": sleepers.rows, "pubd": pubd.pubd, "rdma": wire.rdma, "idle": idle.idle, "peers": peers.measure,
}
ALL = (*limits.names(), *(group.name(setting) for group in rings.groups(rings.READERS_MAX + 1, True)
                          for setting in SETTINGS),
       *counts.names(), *feed.NAMES, *programs.names(), *sleepers.names(), *pubd.NAMES, *wire.RDMA, *idle.NAMES, *peers.names())


def wrong(name):
    """What is wrong with a name: where it leaves the rows' names, and which words are expected there. "" if a row's
    name begins so."""
    if any(row.startswith(name) for row in ALL):
        return ""
    words = name.split("/")
    for count in range(len(words) - 1, -1, -1):
        known = words[:count]
        rows = [row.split("/") for row in ALL if row.split("/")[:count] == known]
        if rows:
            break
    expected = list(dict.fromkeys(row[count] for row in rows if len(row) > count))
    after = f" after {'/'.join(known)}/" if known else ""
    if not expected:
        return f"found row {name}, expected {'/'.join(known)}"
    return f"found row {name}, expected{after} one of: {', '.join(expected)}"
