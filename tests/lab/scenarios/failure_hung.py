# SPDX-License-Identifier: Apache-2.0
"""pubd is stopped while its memory still answers READs: stale within the bound, live when it goes on, no loss. With a
longer bound, stale does not come early."""
import failures
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
LONG_MS = 6000


def hung(lab, stale_ms):
    """Returns after how many ms each reader saw the stale event."""
    scene = failures.Scene(lab, stale_ms=stale_ms)
    when = scene.pubd.signal("STOP")
    took = scene.all_see("stale", when, silent=True)
    when = scene.pubd.signal("CONT")
    scene.all_see("live", when)
    scene.all_read_on()
    scene.end()
    return took


def run(lab):
    hung(lab, failures.STALE_MS)
    took = hung(lab, LONG_MS)
    # The allowance for a late machine must not hide a missed bound: these times must fail the shorter bound.
    if any(failures.within(ms, failures.STALE_MS, failures.LATE_MS) for ms in took):
        raise Failed(f"stale after {took} ms passes for a bound of {failures.STALE_MS} ms, expected not to")
