# SPDX-License-Identifier: Apache-2.0
"""A peer that sends messages which invalidate keys: invalidator.py SOURCE HOST PORT TOPIC

It preloads liblab-invalidate.so. It invalidates each key that it was granted, then the keys of a second connection, and
prints what came of each.
"""
import ctypes
import os
import struct
import sys

import verbs_peer
from pyverbs.enums import IBV_WC_SUCCESS
from verbs_peer import Gone, Peer, protocol, run

LIBRARY = ctypes.CDLL(f"{os.environ['BUILD']}/tests/lab/liblab-invalidate.so")
ARM = 9
verbs_peer.COMPLETION_SECONDS = 10  # Soft-iWARP may omit the last completion of a connection that ends


def send_with_invalidate(peer, body, rkey):
    """SENDs a good message that invalidates a key of the publisher."""
    data = struct.pack("<II", peer.taken, 0) + body
    peer.out.write(data, len(data))
    code = LIBRARY.lab_send_with_invalidate(ctypes.c_void_p(peer.out.buf), len(data), peer.out.lkey, rkey)
    if code:
        raise Gone(f"SEND with invalidate: {os.strerror(code)}")
    status = peer.completion()
    if status != IBV_WC_SUCCESS:
        raise Gone(f"SEND with invalidate: status {status}")


def keys(peer, name):
    """The keys of the bus page and of a topic, with what reads the memory."""
    wanted, = peer.catalogue(name)
    topic = peer.join(wanted)
    topic.header()
    peer.pulse()
    arm = struct.pack("<HHIIQQ", ARM, 0, 0, topic.shape["topic_id"], topic.shape["epoch"], 0)
    return arm, {"topic": (topic.rkey, topic.header), "bus page": (peer.page.rkey, peer.pulse)}


def outcome(act):
    try:
        act()
        return "still reads"
    except Gone as gone:
        return f"ended: {gone}"


def main():
    source, host, port, name = sys.argv[1:5]
    for what in ("topic", "bus page"):
        victim = Peer(source, host, port)
        _, theirs = keys(victim, name)
        for whose in ("own", "another's"):
            hostile = Peer(source, host, port)  # its queue pair is the last
            arm, own = keys(hostile, name)
            rkey, read = own[what]

            def attack():
                send_with_invalidate(hostile, arm, rkey if whose == "own" else theirs[what][0])
                read()
            print(f"    {whose} key of the {what}: {outcome(attack)}")
        print(f"    the other connection: {outcome(theirs[what][1])}")
        if outcome(theirs[what][1]) != "still reads":
            sys.exit(f"invalidator: the {what} of another connection cannot be read")
    print("invalidator: done", flush=True)


run(main)
