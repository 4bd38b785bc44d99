# SPDX-License-Identifier: Apache-2.0
"""A peer that breaks the protocol: garbage.py SOURCE HOST PORT SEED WHAT=COUNT...

WHAT is hellos, messages, greedy or silent. Each prints how many connections were refused or dropped. The exit
status is 1 if a connection was accepted that must not be. `silent` connections stay open until SIGTERM.
"""
import faulthandler
import functools
import random
import signal
import struct
import sys

from verbs_peer import FRAME, Gone, Peer, Refused, protocol, run

LONGEST = 56  # bytes of private data that the connection manager can carry
HELD = []


def bad_hellos(rng, exact):
    """Hellos with a wrong field, cut hellos, and noise. `exact`: hellos arrive without padding, so also wrong lengths."""
    good = protocol.hello()
    for which in (dict(low=3, high=9), dict(low=1, high=1), dict(magic=b"HTTP"), dict(low=0, high=0),
                  dict(cookie=rng.randbytes(16), proof=rng.randbytes(16))):
        yield protocol.hello(**which)
    yield good[:6] + struct.pack("<H", 57) + good[8:]
    yield good[:rng.randint(1, 6)]
    if exact:
        yield good[:rng.randint(7, 55)]
        yield good + rng.randbytes(rng.randint(1, 100))
    while True:
        yield rng.randbytes(rng.randint(1, LONGEST))


def wrong_handshakes(rng, exact):
    """What a Peer does with them is refused: the second hello, or the first."""
    yield dict(second=protocol.hello(cookie=rng.randbytes(16), proof=rng.randbytes(16)))
    yield dict(ticket=b"t" * 32)
    for first in bad_hellos(rng, exact):
        yield dict(first=first)


def hellos(connect, rng, count, exact):
    reasons = set()
    for _, wrong in zip(range(count), wrong_handshakes(rng, exact)):
        try:
            connect(**wrong)
            sys.exit(f"garbage: {wrong} was welcomed")
        except Refused as refused:
            reasons.add(refused.args)
    for code, text in sorted(reasons):
        print(f"    {code}: {text}")
    nonce = rng.randbytes(16)
    for again in [connect(nonce=nonce) for _ in range(3)]:  # a repeated first hello is legal: nothing is kept of it
        again.catalogue("nasdaq.*")
        again.close()
    return count


def bad_message(rng, number):
    """What is SENT on a good connection, in turn: noise, a false frame, an invalid message."""
    kinds = (
        lambda: rng.randbytes(rng.randint(1, 7)),
        lambda: rng.randbytes(rng.randint(8, FRAME)),
        lambda: struct.pack("<II", 0, 1) + rng.randbytes(8),
        lambda: struct.pack("<II", rng.randint(1, 2 ** 32 - 1), 0),
        lambda: struct.pack("<II", 0, 0) + rng.randbytes(rng.randint(1, FRAME - 8)),
        lambda: struct.pack("<IIHHI", 0, 0, rng.randint(1, 16), 0, 1) + rng.randbytes(rng.randint(100, 900)),
        lambda: rng.randbytes(rng.randint(FRAME + 1, 4096)))
    return kinds[number % len(kinds)]()


def messages(connect, rng, count, _):
    for number in range(count):
        peer = connect()
        try:
            peer.post(bad_message(rng, number))
        except Gone:
            pass  # the bus dropped it before the SEND was acknowledged
        peer.wait_dropped()
        peer.close()
    return count


def greedy(connect, _, count, __):
    """Sends requests and takes no answer."""
    for _ in range(count):
        peer = connect()
        body = struct.pack("<IIHHI", 0, 0, protocol.CATALOGUE, 0, 1) + struct.pack("<I", 0) + protocol.text(">")
        try:
            while True:
                peer.post(body)
        except Gone:
            pass
        peer.wait_dropped()
        peer.close()
    return count


def silent(connect, _, count, __):
    HELD.extend(connect(silent=True) for _ in range(count))
    return count


def main():
    source, host, port, seed = sys.argv[1:5]
    print(f"seed {seed}", flush=True)
    faulthandler.dump_traceback_later(200, repeat=True)  # shows where it hangs
    connect, exact = functools.partial(Peer, source, host, port), source.startswith("10.9.1.")
    for what, _, count in (word.partition("=") for word in sys.argv[5:]):
        done = {"hellos": hellos, "messages": messages, "greedy": greedy, "silent": silent}[what](
            connect, random.Random(int(seed)), int(count), exact)
        print(f"{what}: {done}", flush=True)
    signal.pause()


run(main)
