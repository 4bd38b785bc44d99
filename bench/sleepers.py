# SPDX-License-Identifier: Apache-2.0
"""Readers that sleep: how late they are, and what processors that takes. ZeroMQ and Aeron with its backoff idle strategy
are measured in the same rounds, as far as they are installed. Nothing is pinned."""
import contextlib
import random
import statistics

import peers
from session import progress

RATES = (1000, 5000, 20_000, 100_000)  # records a second
READERS = (1, 3, 50)
WAYS = ("wait", "epoll")
MS = 1000
# Microseconds; processor time in microseconds for each second: of the writing thread, and of all other threads.
WHAT = {"p50": "us", "p90": "us", "p99": "us", "writer": "us/s", "others": "us/s"}
BOUNDS = {"p50": 1, "p99": 3}  # of the ratio to ZeroMQ, for one reader
CPU_RATE, CPU_BOUND = 20_000, 1  # the same, of the other threads
FLUSH_BOUND = 1.1  # of the ratio to a single reader


def names():
    return [*(name(rate, readers, way, what) for rate in RATES for readers in READERS for way in WAYS for what in WHAT),
            *(f"sleepers/{rate}/flush" for rate in RATES)]


def name(rate, readers, way, what):
    return f"sleepers/{rate}/{readers}/{way}/{what}"


def rows(session):
    if not session.wanted_part("sleepers"):
        return
    tiny, built = session.options.tiny, session.measure("peers", "none", 32, 0)
    for rate in RATES[:1] if tiny else RATES:
        for readers in READERS[:1] if tiny else READERS:
            ways = [way for way in WAYS if any(session.wanted(name(rate, readers, way, what)) for what in WHAT)]
            if ways:
                rows_of(session, built, rate, readers, ways)
        if session.wanted(f"sleepers/{rate}/flush"):
            flush(session, rate)


def rows_of(session, built, rate, readers, ways):
    """built: the peers that the measuring program was built with."""
    aeron = session.options.aeron
    others = [peer for peer in ("zmq", "aeron") if peer in built and (peer != "aeron" or aeron)]
    found = {key: [] for key in [("checked", way) for way in ways] + [(peer, "wait") for peer in others]}
    with contextlib.ExitStack() as daemons:
        beside = {peer: daemons.enter_context(peers.daemon(peer, aeron, False)) for peer in others}
        for turn in range(session.options.rounds):
            progress(f"sleepers: {rate} records a second, {readers} readers, round {turn + 1}")
            for transport, way in random.sample(list(found), len(found)):
                with beside[transport].used() if transport in beside else contextlib.nullcontext({}) as environment:
                    found[transport, way].append(run(session, transport, way, rate, readers, environment))
    for way in ways:
        for what, unit in WHAT.items():
            ours, zmq, theirs = ([spent(one, what, readers) for one in found.get(key, [])]
                                 for key in (("checked", way), ("zmq", "wait"), ("aeron", "wait")))
            bound = BOUNDS.get(what) if readers == 1 else None
            if (rate, readers, what) == (CPU_RATE, 1, "others"):
                bound = CPU_BOUND
            more = f"worst {max(ours):.0f}" + (f", Aeron {statistics.median(theirs):.0f}" if theirs else "")
            yardstick = ("ZeroMQ", zmq, bound) if zmq else ()
            session.row(name(rate, readers, way, what), unit, ours, *yardstick, more=more)


def run(session, transport, way, rate, readers, environment=None):
    return session.in_a_folder("bench/tickbus-bench-sleepers", transport, way, rate, readers,
                               50 if session.options.tiny else MS, environment=environment, named=True)


def flush(session, rate):
    """What a flush costs the writing thread, with most readers and with a single reader by turns."""
    few, most = READERS[0], READERS[-1] if not session.options.tiny else READERS[1]
    found = {few: [], most: []}
    for turn in range(session.options.rounds):
        progress(f"sleepers: flushes at {rate} records a second, round {turn + 1}")
        for readers in random.sample(list(found), 2):
            found[readers].append(run(session, "checked", "wait", rate, readers)["flush"])
    session.row(f"sleepers/{rate}/flush", "ns", found[most], f"{few} reader", found[few], FLUSH_BOUND,
                f"{most} readers; processor time with the sleep before it")


def spent(one, what, readers):
    return one["others"] + readers * one["reader"] if what == "others" else one[what]
