# SPDX-License-Identifier: Apache-2.0
"""Two peers of different realms that share their keys, written from docs/protocol.md alone.

    realms_client.py SOURCE OTHER_SOURCE HOST PORT SECOND_PORT OWN_TICKET OTHER_TICKET [own-keys]

The bus has nasdaq.quote in the realm of the first ticket, nasdaq.trade in that of the other, and nasdaq.depth10 in
both. OTHER_SOURCE is a second address of this machine, or `-`. SECOND_PORT is another address of the publisher on the
same device. own-keys: over iWARP each connection has keys of its own. Prints how the device answered each READ with a
key of another realm.
"""
import errno
import sys

from verbs_peer import Gone, Peer, Refused, run

QUOTE, TRADE, DEPTH = ("nasdaq." + name for name in ("quote", "trade", "depth10"))


def require(condition, what):
    if not condition:
        sys.exit(f"realms_client: {what}")


def expect_refused(connect, ticket):
    try:
        connect(ticket)
        require(False, "an unknown ticket was welcomed")
    except Refused as refused:
        code, text = refused.args
        require(code == errno.EACCES and "ticket" in text, f"{code}: {text}")


def expect_replay_refused(sources, host, port, ticket):
    """A second hello works only from the address of the first. From there it may come again within the window."""
    first, other = (Peer(source, host, port, ticket=ticket) for source in sources)
    hello, nonce = first.proven, first.handshake.nonce
    try:
        Peer(sources[1], host, port, ticket=ticket, nonce=nonce, second=hello)
        require(False, "a second hello was welcomed from another address")
    except Refused as refused:
        code, text = refused.args
        require(code == errno.ETIMEDOUT and "another address" in text, f"{code}: {text}")
    again = Peer(sources[0], host, port, ticket=ticket, nonce=nonce, second=hello)
    for peer in (first, other, again):
        peer.catalogue(">")
        peer.close()


def join_all(peer, names):
    """Joins these topics, which must be all that the peer sees, also on the bus page."""
    found = peer.catalogue(">")
    require([topic["name"] for topic in found] == names, f"found {found}, expected {names}")
    joined = {topic["name"]: peer.join(topic) for topic in found}
    for topic in joined.values():
        topic.header()  # verifies its check
    ids = {topic["topic_id"] for topic in found}
    _, _, entries = peer.pulse()
    require(len(entries) == max(ids), f"the bus page has {len(entries)} topics")
    require(all(entry[2] == (at if at in ids else 0) for at, entry in enumerate(entries, 1)), "entries of other realms")
    return joined


def expect_unreadable(connect, ticket, topic):
    """A peer with key and address of another realm's topic can read only its own topics."""
    peer = connect(ticket)
    peer.join(peer.catalogue(DEPTH)[0]).header()
    try:
        peer.read(topic.address, 64, topic.rkey)
    except Gone as gone:
        return gone
    return require(False, f"{topic.shape['name']} was read from another realm")


def main():
    source, other, host, port, second = sys.argv[1:6]
    tickets = [bytes.fromhex(ticket) for ticket in sys.argv[6:8]]
    own_keys = sys.argv[8:] == ["own-keys"]

    def connect(ticket, at=port):
        return Peer(source, host, at, ticket=ticket)

    for wrong in (bytes(32), bytes([1] * 32), tickets[0][:31] + bytes([tickets[0][31] ^ 1])):
        expect_refused(connect, wrong)
    if other != "-":
        expect_replay_refused((source, other), host, port, tickets[0])
    peers = [connect(ticket) for ticket in tickets]
    joined = [join_all(peers[0], [QUOTE, DEPTH]), join_all(peers[1], [TRADE, DEPTH])]
    require(joined[0][DEPTH].address == joined[1][DEPTH].address, "found two addresses for the same memory")
    require(joined[0][DEPTH].rkey != joined[1][DEPTH].rkey, "found the same key in two realms")
    for ticket, foreign in zip(tickets, reversed(joined)):
        for topic in foreign.values():
            found = expect_unreadable(connect, ticket, topic)
            print(f"         {topic.shape['name']} by a key of another realm: {found}")
    for topics in joined:
        for topic in topics.values():
            topic.header()  # with its own key it is still readable
    again = join_all(connect(tickets[0], second), [QUOTE, DEPTH])
    for name, topic in again.items():
        same = (topic.address, topic.rkey) == (joined[0][name].address, joined[0][name].rkey)
        if own_keys:
            require(not same, f"{name} has the same key in two connections")
        else:
            require(same and topic.address == 0, f"{name} is registered twice for one device and realm")


run(main)
