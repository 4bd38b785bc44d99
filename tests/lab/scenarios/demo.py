# SPDX-License-Identifier: Apache-2.0
"""scripts/demo --rdma on hosts of the lab: rows flow, no row is lost, no latency is printed. `tickbus topics`, `stat`
and `doctor` print the same over RoCE and iWARP as over shared memory."""
import re

import bus
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 150
GUESTS_ONLY = True
SHOWN_SECONDS = 2
LINE = r"^\d\d:\d\d:\d\dZ  [1-9]\d* records/s  lost 0  [A-Z]+ bid "
SUM = r"^  market\.(?:quote|trade): [1-9]\d* records, 0 lost in 0 gaps, live$"
MESSAGES, SYMBOLS = 2000, 50


def shown(lab):
    """Runs the demo as scripts/demo runs itself on a host of the lab."""
    publisher, host = lab.host(1), lab.host(2)
    address = bus.address(publisher, "rxe")
    text = host.run(f"cd $SOURCE && TICKBUS_DEMO_BUILD=$BUILD TICKBUS_DEMO_LISTEN={address} "
                    f"TICKBUS_DEMO_VIEW={address},source={host.rxe} scripts/demo --rdma --seconds {SHOWN_SECONDS}")
    if not re.search(LINE, text, re.M) or len(re.findall(SUM, text, re.M)) != 2:
        raise Failed(f"expected lines of rows, and no row lost:\n{text}")
    if re.search(r"\bp50\b", text):
        raise Failed(f"found a latency:\n{text}")
    lab.note(re.search(r"^\d+ records in .*", text, re.M)[0])


def cli(host, what, where):
    """What `tickbus` prints. Repeated, as its timeout may be too short on an emulated processor."""
    return host.run(f"until text=$(tickbus {what} {where} --format csv); do :; done 2>/dev/null\necho \"$text\"")


def same_everywhere(lab):
    publisher, host = lab.host(1), lab.host(2)
    path = bus.synthetic_file(lab, MESSAGES, SYMBOLS)
    daemon = bus.pubd(publisher, bus.itch(path, 0, ", at_end: linger"), topics=("quote", "trade"))
    daemon.wait_for("to the end")
    topics = cli(publisher, "topics", "shm:lab")
    counters = re.findall(r"^(?:topic|feed),.*", cli(publisher, "stat", "shm:lab"), re.M)
    if topics.count("\n") != 3 or not counters:
        raise Failed(f"over shared memory: found {topics}{counters}, expected two topics and counters")
    for kind in lab.kinds:
        where = bus.address_on(host, publisher, kind)
        found = cli(host, "topics", where)
        # The kernel says over shared memory alone which user listens.
        if re.sub(",user,uid$|,,$", "", found, flags=re.M) != re.sub(",user,uid$|,root,0$", "", topics, flags=re.M):
            raise Failed(f"over {kind}: topics are\n{found}over shared memory\n{topics}")
        found = re.findall(r"^(?:topic|feed),.*", cli(host, "stat", where), re.M)
        if found != counters:
            raise Failed(f"over {kind}: counters are {found}, over shared memory {counters}")
        found = host.run(f"tickbus doctor {where} --format csv")
        if f'good,"{where}",a bus with 2 topics answers' not in found:
            raise Failed(f"over {kind}: doctor says\n{found}")
    daemon.signal("TERM")
    daemon.wait()


def run(lab):
    shown(lab)
    same_everywhere(lab)
