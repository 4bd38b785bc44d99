# SPDX-License-Identifier: Apache-2.0
"""Ends a run early: on SIGINT, SIGTERM or SIGHUP children end, folders are removed, and the script exits."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_S = 5  # for a child that was asked to end
REMOVE_TRIES = 200  # of a folder, until the last child of a child has ended
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
    Held.number = number
    if not Held.held:
        raise Stopped(number)


class Held:
    """While a child starts or a folder is made, a signal waits: the script would forget what it has to clean up."""
    held = False
    number = None  # of the signal that came

    @classmethod
    def begin(cls):
        cls.held = cls.number is None  # cleaning up starts no child that could be forgotten

    @classmethod
    def end(cls):
        waited, cls.held = cls.held, False
        if waited and cls.number is not None:
            raise Stopped(cls.number)


def start(command, **more):
    """A child. Call Held.end() where the child's end is sure."""
    Held.begin()
    try:
        return subprocess.Popen(list(map(str, command)), **more)
    except BaseException:
        Held.held = False
        raise


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
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    try:
        Held.end()
        out, err = child.communicate()
    except BaseException:
        end(child)
        raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


@contextlib.contextmanager
def folder(parent=None, prefix="tickbus-bench-"):
    """A folder for a measurement."""
    path = None
    Held.begin()
    try:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)
        folders.add(path)
        Held.end()
        yield pathlib.Path(path)
    finally:
        Held.held = False
        if path:
            remove(path)
            folders.discard(path)


def remove(path):
    """Removes a folder, into which a child of an ended child may still write for a moment."""
    for _ in range(REMOVE_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path):
            return
        time.sleep(0.01)


def remove_folders():
    """Removes those that a signal left, because it came while they were removed."""
    for path in folders:
        remove(path)
