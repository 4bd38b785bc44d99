# SPDX-License-Identifier: Apache-2.0
"""A subscriber that connects with 7 retries, which some devices take for "for ever", and then stays silent:
dead_peer.py SOURCE HOST PORT
"""
import signal
import sys

import verbs_peer

usual = verbs_peer.ConnParam
verbs_peer.ConnParam = lambda **how: usual(**how | {"retry": 7})
peer = verbs_peer.Peer(sys.argv[1], sys.argv[2], int(sys.argv[3]))
print("connected", flush=True)
signal.pause()
