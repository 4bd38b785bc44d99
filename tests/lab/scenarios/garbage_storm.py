# SPDX-License-Identifier: Apache-2.0
"""As garbage_connections, with a thousand good connections in a row."""
import strangers

TOPOLOGY = "one guest"
SECONDS = 300
ON_DEMAND = True


def run(lab):
    strangers.others_unaffected(lab, 1000)
