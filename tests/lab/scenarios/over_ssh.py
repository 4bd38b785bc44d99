# SPDX-License-Identifier: Apache-2.0
"""scripts/lab-ssh runs scenarios on hosts that it knows by name only and that share only the build. They have devices
of both kinds, of a single kind, and devices that look like hardware."""
import shlex

from guests import Failed

TOPOLOGY = "one guest"
SECONDS, LIMIT = 4000, 800  # so long because each command starts further programs
READS = 20000  # torn
ON_DEMAND = True
GUESTS_ONLY = True
# Stands for ssh: runs a command, with a folder of its own for the run's files on each host.
SSH = """unshare -m sh -c 'mkdir -p /run/ssh-$0 && mount --bind /run/ssh-$0 /run/lab && {}exec bash -c "$1"'"""
UNSEEN = "mount -t tmpfs none /sys/class/infiniband && "  # hides that a device is a software device
CALLS = (
    (("rxe", "siw"), UNSEEN, ("only_reads", "notices_resume"), "0 passed, 0 failed, 2 skipped"),
    (("rxe",), "", ("topic_groups", "only_reads"), "2 passed, 0 failed, 0 skipped"),
    (("siw",), "", ("forged_notices", "only_reads"), "2 passed, 0 failed, 0 skipped"),
    (("rxe", "siw"), "", ("protocol_client", "failure_killed", "device_released"), "2 passed, 0 failed, 1 skipped"),
    (("rxe", "siw"), "", ("slow_reader", "torn"), "2 passed, 0 failed, 0 skipped"),
)


def call(lab, kinds, more, scenarios, expected):
    hosts = " ".join(f"host{host.number}=" + ",".join(host.address(kind) if kind in kinds else ""
                                                     for kind in ("rxe", "siw")) for host in lab.hosts[:2])
    text = lab.host(1).run(
        f"mkdir -p /run/lab\nexport TMPDIR=/run/lab TICKBUS_LAB_READS={READS}\n"
        f"export TICKBUS_SSH={shlex.quote(SSH.format(more))}\n"
        f"$SOURCE/scripts/lab-ssh {hosts} --build $BUILD --limit {LIMIT} {' '.join(scenarios)}", status=None)
    lab.note(f"{' '.join(scenarios)}: {text.splitlines()[-1]}")
    if expected not in text:
        raise Failed(f"expected {expected}, found:\n{text}")


def run(lab):
    for arguments in CALLS:
        call(lab, *arguments)
