# SPDX-License-Identifier: Apache-2.0
"""The publishing thread's user time per record: the same with 0 and with 4 remote subscribers."""
import cpu
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
ON_DEMAND = True  # instructions_per_record shows it without the noise
BOUND = 1.5  # readers share the processors' caches, and emulated processors this machine's with other work


def run(lab):
    alone, watched = cpu.user_us(lab, 0), cpu.user_us(lab, 4)
    lab.note(f"{alone:.1f} us a record with 0 subscribers, {watched:.1f} with 4")
    if watched > alone * BOUND or not alone:
        raise Failed(f"found {alone:.1f} us a record with 0 subscribers and {watched:.1f} with 4, expected at most "
                     f"{BOUND} times as much")
