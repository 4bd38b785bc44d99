# SPDX-License-Identifier: Apache-2.0
"""The cable is pulled while many topics catch up over iWARP, whose device reports no failure. The topics are stale
within the bound. A new connection reads them to their ends without loss."""
import bus
import failures
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
TOPICS = [f"quote{number}" for number in range(2, 9)]
KNOBS = ",read_bytes=2048"  # 16 READs per half: those of 4 topics always fill the queue
BATCH = 1024  # more records than a topic's READs fetch at once


class Backlog(failures.Scene):
    """All records are published before the first reader joins."""

    def publish(self):
        feed = "type: synthetic, seed: 1, symbols: 50, messages: 50000, speed: max, at_end: linger"
        more = (f"  - {{ name: nasdaq.{topic}, feed: nasdaq, select: quote, schema: quote, slots: 16384, "
                "instruments: 64, last_value: false }\n" for topic in TOPICS)
        pubd = bus.pubd(self.publisher, feed, slots=16384, kinds=("siw",), below="".join(more))
        pubd.wait_for("to the end")
        return pubd

    def reader(self, host, kind):
        return ControlSubscriber(host, self.publisher, kind, start="oldest", others=TOPICS, knobs=KNOBS)

    def all_read_on(self, kinds=None):
        """Waits for the first record only, so that most records are left."""
        for reader in self.readers.values():
            self.lab.wait_until(lambda reader=reader: reader.sum()["total"], "a record")


def run(lab):
    scene = Backlog(lab, kinds=("siw",))
    reader = scene.readers["siw"]
    lab.wait_until(lambda: len(reader.events("live")) == len(reader.events("stale")), "life")
    # Stopped meanwhile, so that the READs that it posts afterwards are never answered.
    reader.process.signal("STOP")
    lab.host(1).unplug()
    when = reader.process.signal("CONT")
    scene.all_see("stale", when)
    last = reader.events("stale")[-1]
    if last["head"] - last["records"] < BATCH:
        raise Failed(reader.process.report("the reader had caught up before the cable was pulled"))
    lab.host(1).plug()
    scene.event_since(reader, "live", when)
    scene.readers.pop("siw").ends(lost=0)
    scene.end()
