# SPDX-License-Identifier: Apache-2.0
"""The rows over RDMA, measured by bench/rdma.py in a guest or on this machine's device."""
import json
import shlex
import subprocess

import children
from session import ROOT, Failed, progress

RDMA = {  # row: measure of bench/rdma.py, value, unit, the tools whose sum is the yardstick, bound
    "rdma/record/one": ("notice/64", "record", "us", ("ib_read_lat",), 1.10),
    "rdma/record/known": ("known/4096", "record", "us", ("ib_read_lat",), 1.10),
    "rdma/notice": ("notice/64", "notice", "us", ("ib_send_lat", "ib_read_lat"), 1.15),
    "rdma/bulk/64": ("bulk/64", "rate", "MiB/s", ("ib_read_bw",), 0.90),
    "rdma/bulk/1024": ("bulk/1024", "rate", "MiB/s", ("ib_read_bw",), 0.90),
    "rdma/image/64": ("image/64", "rate", "MiB/s", ("ib_read_bw",), 0.77),  # 1.3 times its time
    "rdma/image/1024": ("image/1024", "rate", "MiB/s", ("ib_read_bw",), 0.77),
}
LAB_ADDRESSES = ("10.9.0.1", "10.9.0.2")


def rdma(session):
    rows = {name: how for name, how in RDMA.items() if session.options.names and session.wanted(name)}
    if not rows:
        return
    found = rdma_rounds(session, sorted({how[0] for how in rows.values()}))
    for name, (measure, value, unit, tools, bound) in rows.items():
        session.row(name, unit, [r[f"{measure}/{value}"] for r in found["rounds"]], " + ".join(tools),
                    [sum(r[f"{measure}/{tool}"] for tool in tools) for r in found["rounds"]], bound)
        if found["software"]:  # only their ratios have a meaning
            session.rows[-1].update(value=None, yardstick_value=None, range=None,
                                    more="software device: ratios only")


def rdma_rounds(session, measures):
    """The output of bench/rdma.py, run here or in a guest with two hosts."""
    device = session.options.device or LAB_ADDRESSES
    command = ["python3", ROOT / "bench/rdma.py", *["--tiny"] * session.options.tiny, session.build,
               device[0], device[-1], session.options.rounds, *measures]
    if not session.options.device:
        command = [ROOT / "scripts/lab", "--build", session.build, "--hosts", 2, "--run",
                   shlex.join(map(str, command))]
    printed = []
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as running:
        try:
            for line in running.stdout:
                printed.append(line)
                progress(f"rdma: {line.strip()}" if line.startswith("round") else "rdma")
        except children.Stopped:
            children.end(running)
            raise
    if running.returncode:
        raise Failed(f"{command[0]}: exit status {running.returncode}\n{''.join(printed)}")
    return json.loads(printed[-1])
