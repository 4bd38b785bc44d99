# SPDX-License-Identifier: Apache-2.0
"""The publishing thread's user time per record is the same with 0 and with 4 remote subscribers."""
import cpu
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
ON_DEMAND = True  # instructions_per_record shows the same without noise
BOUND = 1.5  # readers share caches with the publisher, and emulated processors share this machine's


def run(lab):
    alone, watched = cpu.user_us(lab, 0), cpu.user_us(lab, 4)
    lab.note(f"{alone:.1f} us per record with 0 subscribers, {watched:.1f} with 4")
    if watched > alone * BOUND or not alone:
        raise Failed(f"found {alone:.1f} us per record with 0 subscribers and {watched:.1f} with 4, expected at most "
                     f"{BOUND} times as much")
