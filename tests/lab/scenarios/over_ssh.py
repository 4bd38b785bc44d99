# SPDX-License-Identifier: Apache-2.0
"""scripts/lab-ssh runs scenarios on hosts that it knows by name only, with no file in common but the build."""
import shlex

from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 600
ON_DEMAND = True
GUESTS_ONLY = True
SCENARIOS = ("witness_protocol", "failure_hung", "failure_cable")
# A host is a place of its own for the run's files; all else of ssh is that it runs a command.
SSH = """unshare -m sh -c 'mkdir -p /run/ssh-$0 && mount --bind /run/ssh-$0 /run/lab && exec bash -c "$1"'"""


def run(lab):
    hosts = " ".join(f"host{host.number}={host.rxe},{host.siw}" for host in lab.hosts[:2])
    text = lab.host(1).run(f"mkdir -p /run/lab\nexport TMPDIR=/run/lab TICKBUS_SSH={shlex.quote(SSH)}\n"
                           f"$SOURCE/scripts/lab-ssh {hosts} --build $BUILD {' '.join(SCENARIOS)}", status=None)
    if "2 passed, 0 failed, 1 skipped" not in text:
        raise Failed(f"found, expected 2 passed and 1 skipped:\n{text}")
