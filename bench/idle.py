# SPDX-License-Identifier: Apache-2.0
"""The rows of programs that have nothing to do."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from session import Failed, progress

IDLE = """
bus: { name: idle }
schemas: [ quote ]
feeds:
  - { name: a, type: synthetic, seed: 1, symbols: 2, rate: 1, speed: realtime }
topics:
  - { name: a.quote, feed: a, select: quote, schema: quote }
"""


def idle(session):
    if not session.wanted("idle"):
        return
    with tempfile.TemporaryDirectory(prefix="tickbus-bench-") as folder:
        settings = pathlib.Path(folder) / "idle.yaml"
        settings.write_text(IDLE)
        environment = dict(os.environ, TICKBUS_RUNTIME_DIR=folder)
        pubd = subprocess.Popen([session.build / "publisher/pubd/pubd", settings],
                                env=environment, stderr=subprocess.DEVNULL)
        cat = subprocess.Popen([session.build / "tools/tickbus", "cat", "--wait", "shm:idle", "a.quote"],
                               env=environment, stdout=subprocess.DEVNULL)
        try:
            seconds = 0.5 if session.options.tiny else 4
            time.sleep(seconds / 2)
            before = [cpu_seconds(pubd.pid), cpu_seconds(cat.pid)]
            progress("idle: waits")
            time.sleep(seconds)
            for name, process, begin in (("pubd", pubd, before[0]), ("subscriber", cat, before[1])):
                if process.poll() is not None:
                    raise Failed(f"idle: {name} ended with status {process.returncode}")
                used = (cpu_seconds(process.pid) - begin) / seconds * 100
                session.row(f"idle/{name}", "% of a core", [used], bound=1.0)
        finally:
            for process in (cat, pubd):
                process.send_signal(signal.SIGTERM)
                process.wait()


def cpu_seconds(pid):
    """Processor time of all threads of a process."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9
