# SPDX-License-Identifier: Apache-2.0
"""Ends a run early: on SIGINT, SIGTERM or SIGHUP children end, folders are removed, and the script exits."""
import contextlib
import pathlib
import shutil
import signal
import subprocess
import tempfile

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_S = 5  # for a child that was asked to end
folders = set()  # of this run


class Stopped(BaseException):
    """No part of the script may take it for an error of a measurement."""

    def __init__(self, number):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.status = 128 + number


def catch_signals():
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, stop)


def stop(number, _frame):
    """The first signal counts. Cleaning up takes at most END_S for each child."""
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number)


def end(child):
    """Ends a child; without an answer it is killed."""
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def run(command, **more):
    """subprocess.run with captured output, which ends the child if the script is stopped."""
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, **more)
    try:
        out, err = child.communicate()
    except BaseException:
        end(child)
        raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


@contextlib.contextmanager
def folder(parent=None, prefix="tickbus-bench-"):
    """A folder for a measurement."""
    path = tempfile.mkdtemp(prefix=prefix, dir=parent)
    folders.add(path)
    try:
        yield pathlib.Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        folders.discard(path)


def remove_folders():
    """Removes those that a signal left, because it came while they were removed."""
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
