# SPDX-License-Identifier: Apache-2.0
"""The rows of programs that have nothing to do."""
import contextlib
import os
import pathlib
import subprocess
import time

import children
from session import Failed, progress

IDLE = """
bus: { name: idle }
schemas: [ quote ]
feeds:
  - { name: a, type: synthetic, seed: 1, symbols: 2, rate: 1, speed: realtime }
topics:
  - { name: a.quote, feed: a, select: quote, schema: quote }
"""

NAMES = ("idle/pubd", "idle/subscriber")


def idle(session):
    if not session.wanted("idle"):
        return
    with children.folder() as folder, contextlib.ExitStack() as running:
        settings = folder / "idle.yaml"
        settings.write_text(IDLE)

        def start(name, *command):
            """A program and the file of what it says."""
            said = running.enter_context(open(folder / name, "w+", encoding="utf-8"))
            child = children.start(command, stdout=subprocess.DEVNULL, stderr=said,
                                   env=dict(os.environ, TICKBUS_RUNTIME_DIR=str(folder)))
            running.callback(children.end, child)
            children.Held.end()
            return name, child, said

        started = [start("pubd", session.build / "publisher/pubd/pubd", settings),
                   start("subscriber", session.build / "tools/tickbus", "cat", "--wait", "shm:idle", "a.quote")]
        seconds = 0.5 if session.options.tiny else 4
        time.sleep(seconds / 2)
        before = [cpu_seconds(child.pid) for _, child, _ in started]
        progress("idle: waits")
        time.sleep(seconds)
        for (name, child, said), begin in zip(started, before):
            if child.poll() is not None:
                said.seek(0)
                raise Failed(f"idle: {name} ended with status {child.returncode}, expected it to run\n{said.read()}")
            used = (cpu_seconds(child.pid) - begin) / seconds * 100
            session.row(f"idle/{name}", "% of a core", [used], bound=1.0)


def cpu_seconds(pid):
    """Processor time of all threads of a process."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9
