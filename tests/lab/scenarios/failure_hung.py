# SPDX-License-Identifier: Apache-2.0
"""pubd stopped (its memory still answers READs): stale within the bound, live when it goes on, nothing lost; and
the same with another bound, not before it."""
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
LONG_MS = 6000


def hung(lab, stale_ms):
    """After how many ms each was told."""
    scene = failures.Scene(lab, stale_ms=stale_ms)
    when = scene.pubd.signal("STOP")
    took = scene.all_told("stale", when, silent=True)
    when = scene.pubd.signal("CONT")
    scene.all_told("live", when)
    scene.all_read_on()
    scene.end()
    return took


def run(lab):
    hung(lab, failures.STALE_MS)
    took = hung(lab, LONG_MS)
    # No allowance for a late machine may hide that a bound is not kept: these were told by another one.
    if any(failures.within(ms, failures.STALE_MS, failures.LATE_MS) for ms in took):
        raise Failed(f"told after {took} ms, which passes for {failures.STALE_MS}")
