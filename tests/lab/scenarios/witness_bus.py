# SPDX-License-Identifier: Apache-2.0
"""mckey joins our group and sees our notices; cmtime's storm of strangers is refused and harms nobody."""
import bus
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
NOTICES, STORM = 20, 50


def run(lab):
    scene = failures.Scene(lab, kinds=("rxe",))
    stranger = lab.host(4)
    text = stranger.run(f"mckey -m {bus.GROUP} -b {stranger.rxe} -C {NOTICES}")
    if "data transfers complete" not in text:
        raise Failed(f"mckey did not see {NOTICES} notices:\n{text}")
    stranger.run(f"timeout 30 cmtime -b {stranger.rxe} -s {lab.host(1).rxe} -p {bus.PORT} -c {STORM}", status=None)
    if not any(bus.counter(lab.host(1), name) for name in ("refused", "dropped")):
        raise Failed("the storm was not refused")
    scene.all_read_on()
    scene.end()
