# SPDX-License-Identifier: Apache-2.0
"""The cable out while many topics are caught up, over iWARP, where no device tells: within the bound all the same,
and the connection is given up for one over which they are read to their ends, nothing lost."""
import bus
import failures
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
TOPICS = [f"quote{number}" for number in range(2, 9)]
KNOBS = ",read_bytes=2048"  # 16 READs of each half: whatever has landed, those of 4 topics fill the queue
BATCH = 1024  # more records than are READ of a topic at once


class Behind(failures.Scene):
    """All was published before anyone reads."""

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
        """No longer than until they have begun: there has to be something left."""
        for reader in self.readers.values():
            self.lab.wait_until(lambda reader=reader: reader.sum()["total"], "a record")


def run(lab):
    scene = Behind(lab, kinds=("siw",))
    reader = scene.readers["siw"]
    lab.wait_until(lambda: len(reader.events("live")) == len(reader.events("stale")), "life")
    # Stopped meanwhile, so that what it posts when it goes on is answered by nobody.
    reader.process.signal("STOP")
    lab.host(1).unplug()
    when = reader.process.signal("CONT")
    scene.all_told("stale", when)
    last = reader.events("stale")[-1]
    if last["head"] - last["records"] < BATCH:
        raise Failed(reader.process.words("there was nothing left to be caught up"))
    lab.host(1).plug()
    scene.told(reader, "live", when)
    scene.readers.pop("siw").ends(lost=0)
    scene.end()
