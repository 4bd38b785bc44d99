# SPDX-License-Identifier: Apache-2.0
"""Sends forged notices to a bus's group, until SIGTERM: forger.py SOURCE HOST PORT TOPIC SEED

It forges heads, epochs, buses, records and headers, replays real notices and cuts them short. Every second forgery
has a valid tag, as a client that has joined the topic can make it; the others are a stranger's. It learns what it needs
from the bus, as any client can. Prints the address of the progress line, then the number of datagrams sent.
"""
import random
import signal
import sys

from verbs_peer import NOTICE_MAX, Group, Late, Peer, notice_bytes, run


class Forger:
    def __init__(self, peer, topic, seed):
        self.group, self.topic = Group(topic.shape, peer.source), topic
        self.bus_id, self.bytes_max = peer.welcome["bus_id"], topic.shape["notice_bytes"]
        self.shape, self.random = topic.shape, random.Random(seed)
        self.seen = [self.group.take() for _ in range(8)]
        self.record = topic.memory[topic.ring:topic.ring + 64] if topic.progress()["head"] else bytes(64)
        self.number = 2 ** 40
        self.kinds = [self.head_near, self.head_beyond, self.head_absurd, self.head_back, self.foreign_epoch,
                      self.foreign_bus, self.replayed, self.truncated, self.record_forged, self.lies, self.noise,
                      self.long]

    def forged(self, head, epoch=None, bus_id=None, records=(), **lies):
        self.number += 1
        key = self.shape["notice_key"] if self.number % 2 else bytes(16)
        entry = (self.shape["topic_id"], epoch or self.shape["epoch"], head, list(records))
        return notice_bytes(bus_id or self.bus_id, self.shape["topic_id"], self.number, [entry], key, **lies)

    def head_near(self):
        return self.forged(self.topic.progress()["head"] + self.random.randint(1, 64))

    def head_beyond(self):
        return self.forged(self.topic.progress()["head"] + self.shape["slots"] * self.random.randint(1, 9))

    def head_absurd(self):
        return self.forged(self.random.choice((2 ** 64 - 1, 2 ** 63, 2 ** 32)))

    def head_back(self):
        return self.forged(self.random.randint(0, 1))

    def foreign_epoch(self):
        return self.forged(10 ** 6, epoch=self.shape["epoch"] ^ self.random.randint(1, 2 ** 32))

    def foreign_bus(self):
        return self.forged(10 ** 6, bus_id=self.bus_id ^ self.random.randint(1, 2 ** 32))

    def replayed(self):
        return self.random.choice(self.seen)

    def truncated(self):
        whole = self.random.choice(self.seen)
        return whole[:self.random.randint(1, len(whole) - 1)]

    def record_forged(self):
        """A notice with an earlier record, under the next sequence."""
        head = self.topic.progress()["head"]
        fake = (head + 1).to_bytes(8, "little") + self.record[8:]
        return self.forged(head + 1, records=[fake])

    def lies(self):
        return self.forged(10 ** 6, **self.random.choice(
            ({"size": 41}, {"size": 2 ** 32 - 1}, {"count": 2 ** 16 - 1}, {"count": 0}, {"version": 1})))

    def noise(self):
        return self.random.randbytes(self.random.randint(1, self.bytes_max))

    def long(self):
        """Longer than any notice of the bus: the longest datagram."""
        return self.random.randbytes(NOTICE_MAX)


def main():
    source, host, port, name, seed, enough = sys.argv[1:7]
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    peer = Peer(source, host, port)
    wanted, = peer.catalogue(name)
    topic = peer.join(wanted)
    forger = Forger(peer, topic, int(seed))
    print(f"forging with seed {seed}; progress line at {topic.address + 4096}", flush=True)
    count = 0
    while not stopped:
        try:
            forger.group.send(forger.kinds[count % len(forger.kinds)]())
        except Late:  # or interrupted by SIGTERM
            if not stopped:
                raise
        count += 1
        if count == int(enough):
            print("enough", flush=True)
    print(f"sent {count}", flush=True)


run(main)
