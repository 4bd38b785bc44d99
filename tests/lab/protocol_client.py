# SPDX-License-Identifier: Apache-2.0
"""A subscriber written from docs/protocol.md alone: reads quotes and prints them like `tickbus cat --format csv`.

    protocol_client.py SOURCE HOST PORT TOPIC COUNT NOTICES

Prints COUNT records from the oldest on, as they come, and waits for at least NOTICES notices. Everything found is
compared with the protocol.
"""
import re
import struct
import sys

import verbs_peer
from verbs_peer import Gone, Group, Peer, protocol, run

COLUMNS = "sequence,time_ns,instrument,kind,bid_price,ask_price,bid_size,ask_size,source_time"


def require(condition, what):
    if not condition:
        sys.exit(f"protocol_client: {what}")


def decimal(number):
    if number == -2**63:  # null: there is no price
        return ""
    return f"{'-' if number < 0 else ''}{abs(number) // 10000}.{abs(number) % 10000:04}"


def row(topic, record, names):
    index = record["instrument"]
    if index not in names:
        names[index] = topic.name(index)
    bid, ask, bid_size, ask_size, time_ns = struct.unpack("<qqIIQ", record["payload"])
    require(record["kind"] == 1, f"found kind {record['kind']}, expected an update")
    return (f"{record['sequence']},{record['time_ns']},{names[index]},update,{decimal(bid)},{decimal(ask)},"
            f"{bid_size},{ask_size},{time_ns}")


def check_shape(peer, wanted, topic):
    """Catalogue, schema, grant, header and bus page agree."""
    shape = topic.shape
    text = peer.schema(wanted).decode("ascii")
    meaning = re.sub(r"^ *(version|doc):.*\n", "", text, flags=re.M)
    require(protocol.xxh3(meaning.encode()) == shape["fingerprint"], "the schema does not match its fingerprint")
    require(shape["flags"] & 1, "the topic is not checked")
    require(topic.header() == (
        b"tickbus2", 2, shape["flags"], shape["epoch"], shape["topic_id"], shape["slot_bytes"], shape["slots"],
        shape["capacity"], shape["group_id"], shape["fingerprint"], 4096, topic.directory,
        topic.last_value if shape["flags"] & 2 else 0, topic.ring, topic.size,
        shape["name"].encode().ljust(64, b"\0")), "the header differs from the grant")
    count, _, entries = peer.pulse()
    require(entries[shape["topic_id"] - 1][0] == shape["epoch"], "the bus page names another epoch")
    while peer.pulse()[0] == count:
        pass


class Notices:
    """Checks each datagram, and keeps the highest head announced."""

    def __init__(self, peer, topic):
        self.group, self.peer, self.topic = Group(topic.shape, peer.source), peer, topic
        shape = topic.shape
        self.numbers = {shape["topic_id"]: shape["topic_notices"], 0: shape["heads_notices"]}
        self.count, self.head = 0, 0

    def take(self):
        data = self.group.take()
        require(len(data) <= self.topic.shape["notice_bytes"], f"a notice of {len(data)} bytes")
        found = verbs_peer.notice(data)
        require(found["bus_id"] == self.peer.welcome["bus_id"], "a notice of another bus")
        require(found["number"] > self.numbers.get(found["sender"], 0), "a notice's number goes back")
        self.numbers[found["sender"]] = found["number"]
        for topic_id, epoch, head, _, tag, tagged in found["entries"]:
            if topic_id == self.topic.shape["topic_id"]:
                require(tag == protocol.notice_tag(self.topic.shape["notice_key"], *tagged), "a notice's tag is wrong")
                require(epoch == self.topic.shape["epoch"], "a notice of another epoch")
                self.head = max(self.head, head)
                self.count += 1


def deliver(topic, first, last, names):
    """Checks and prints records first to last."""
    for sequence in range(first, last + 1):
        record = topic.slot(sequence)
        require(record["sequence"] == sequence, f"found {record['sequence']} in the slot of {sequence}")
        print(row(topic, record, names))


def only_reading_is_permitted(source, host, port, name):
    """The grant allows only READs of the region: each other access ends its connection."""
    for forbidden in (lambda topic, peer: peer.write(topic.address + 4096, topic.rkey),
                      lambda topic, peer: peer.read(topic.address + topic.size - 64, 128, topic.rkey),
                      lambda topic, peer: peer.read(topic.address, 64, topic.rkey ^ 1)):
        peer = Peer(source, host, port)
        wanted, = peer.catalogue(name)
        topic = peer.join(wanted)
        topic.header()
        try:
            forbidden(topic, peer)
            topic.header()  # over iWARP a WRITE is refused by ending the connection
            require(False, "an access outside the grant succeeded")
        except Gone:
            pass


def main():
    source, host, port, name, count, notices_wanted = sys.argv[1:7]
    peer = Peer(source, host, port)
    wanted, = peer.catalogue(name)
    topic = peer.join(wanted)
    check_shape(peer, wanted, topic)
    notices = Notices(peer, topic)
    print(COLUMNS)
    names, at, head = {}, 1, topic.progress()["head"]
    while at <= int(count) or notices.count < int(notices_wanted):
        if at > head:
            notices.take()
            head = max(head, notices.head)
            require(notices.head <= topic.progress()["head"], "a notice's head is beyond the progress line's")
        last = min(head, int(count))
        deliver(topic, at, last, names)
        at = max(at, last + 1)
        if at > int(count):
            notices.take()
    require(topic.progress()["oldest"] == 1, "the ring was lapped: make the test shorter")
    peer.send(protocol.LEAVE, struct.pack("<IQQ", topic.shape["topic_id"], topic.shape["epoch"], 0))
    only_reading_is_permitted(source, host, port, name)
    print(f"protocol_client: {notices.count} notices", file=sys.stderr)


run(main)
