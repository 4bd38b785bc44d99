# SPDX-License-Identifier: Apache-2.0
"""Runs commands and scenarios on hosts with real verbs, for scripts/lab."""
import argparse
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import termios
import threading
import time
import tty

import hot
import lanes
from guests import ALONE_MB, APART, CORES, ONE, Failed, boot, folders
from hosts import Lab

HERE = pathlib.Path(__file__).resolve().parent
FOREVER = 1e9
HOSTS = 4  # that scenarios need
LANES_MAX = 4
HOSTS_MAX = 99  # host numbers are part of addresses and of routing tables' numbers


def run_command(options, folder):
    """Runs a command on host 1 and shows its output as it comes. Returns its exit status."""
    topology = boot(ONE, options.hosts, folders(folder), options.ready, options.accel)
    try:
        lab = Lab(topology, options.source, options.build, options.limit or FOREVER)
        process = lab.host(1).start(f"exec bash -c {shlex.quote(options.run)}")
        shown = 0
        while True:
            over = not process.running()
            text = process.output()
            sys.stdout.write(text[shown:])
            sys.stdout.flush()
            shown = len(text)
            if over or lab.left() < 0.01:
                break
            time.sleep(0.02)
        status = topology.guests[0].status(process.name, 0.1)
        if status is None:
            print("lab: " + ("the time limit is over" if not over else "the guest died:\n" + topology.guests[0].log()),
                  file=sys.stderr)
        return 1 if status is None else status
    finally:
        topology.close()


def bridge_terminal(link):
    """Copies between this terminal and a guest's until the guest's side ends."""
    def to_guest():
        while True:
            data = sys.stdin.buffer.raw.read(1024)
            if not data:
                return
            link.sendall(data)
    threading.Thread(target=to_guest, daemon=True).start()
    while True:
        data = link.recv(4096)
        if not data:
            return
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def hang_up(shell, link):
    """Ends the terminal's copying when the shell has ended, or its guest has."""
    shell.guest.status(shell.name, FOREVER)
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # QEMU has closed it already


def run_shell(options, folder):
    """Runs a shell on a host, with the environment of a scenario's commands. Returns its exit status."""
    topology = boot(ONE, options.hosts, folders(folder), options.ready, options.accel)
    saved = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    link = socket.socket(socket.AF_UNIX)
    try:
        lab = Lab(topology, options.source, options.build, FOREVER)
        size = shutil.get_terminal_size()
        link.connect(str(topology.folder / "terminal0"))
        if saved:
            tty.setraw(sys.stdin)
        shell = lab.host(options.shell).start(
            f"stty -F /dev/ttyS2 sane cols {size.columns} rows {size.lines}; export TERM=vt100\n"
            f"PS1='host {options.shell}:\\w# ' setsid -c -w bash --norc -i <>/dev/ttyS2 >&0 2>&1")
        threading.Thread(target=hang_up, args=(shell, link), daemon=True).start()
        bridge_terminal(link)
        status = shell.guest.status(shell.name, 1)
        if status is None:
            raise Failed("the guest died:\n" + shell.guest.log())
        return status
    finally:
        if saved:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        link.close()
        topology.close()


def run_scenarios(options, folder):
    known = lanes.scenarios()
    chosen = options.scenarios or [name for name in known if not getattr(known[name], "ON_DEMAND", False)]
    began = time.monotonic()
    try:
        count = lanes.Lanes({name: known[name] for name in chosen}, folder, options).run()
    finally:
        keep_logs(folder, options)
    guests = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"in {time.monotonic() - began:.0f} s; the guests used {guests.ru_utime + guests.ru_stime:.0f} s of "
          "processor time")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


def keep_logs(folder, options):
    """Keeps the output of every command and console, to find out why a scenario failed."""
    logs = options.build / "lab-logs"
    shutil.rmtree(logs, ignore_errors=True)
    for path in folder.glob("*/*"):
        if path.suffix in (".sh", ".out", ".log") or path.name.startswith("console"):
            (logs / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, logs / path.parent.name / path.name)


def number(kind, low, high):
    """Reads an option's value."""
    def read(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected a number from {low} to {high}")
        return value
    return read


def lanes_usual():
    """As many lanes as processors: with more, a guest waits for a processor while its programs' time runs. At most as many
    as there is memory for three guests each."""
    found = re.search(r"^MemAvailable: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return max(1, min(CORES, LANES_MAX, int(found[1]) // (APART * ALONE_MB * 1024)))


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"lab: {message}\n")


def parse():
    parser = Parser(add_help=False)
    parser.add_argument("--run")
    parser.add_argument("--shell", type=number(int, 1, HOSTS_MAX))
    parser.add_argument("--hosts", type=number(int, 1, HOSTS_MAX), default=HOSTS)
    parser.add_argument("--limit", type=number(float, 1, FOREVER))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--lanes", type=number(int, 1, 64), default=lanes_usual())
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--ready")
    parser.add_argument("--accel")
    parser.add_argument("--ssh", action="append", default=[])
    parser.add_argument("scenarios", nargs="*")
    options = parser.parse_args()
    options.source = HERE.parent.parent
    options.build = (options.build or options.source / "build/gcc").resolve()
    return options


def wrong(options):
    """A message about wrong options, or None."""
    known, usual = lanes.scenarios(), options.source / "build/gcc"
    unknown = [name for name in options.scenarios if name not in known]
    alone = [f"--{name}" for name in ("run", "shell") if getattr(options, name) is not None]
    if len(alone) > 1 or (alone and options.scenarios):
        return f"found {alone[0]} with {(alone + options.scenarios)[1]}, expected only one of them"
    if unknown:
        return f"found no scenario {unknown[0]}, expected one of: {' '.join(known)}"
    if options.build != usual and not options.ssh and not (options.build / "build.ninja").exists():
        return f"--build: found no build in {options.build}, expected a folder that meson has set up"
    if not alone and options.hosts < HOSTS:
        return f"--hosts: found {options.hosts}, expected {HOSTS} or more for scenarios"
    if options.shell is None:
        return None
    if options.shell > options.hosts:
        return f"--shell: found host {options.shell}, expected a host from 1 to {options.hosts}"
    return None if sys.stdin.isatty() else ("--shell: found no terminal as standard input, expected a terminal; "
                                            "--run works without")


def main():
    options = parse()
    message = wrong(options)
    if message:
        print(f"lab: {message}", file=sys.stderr)
        return 2
    if options.check:
        return 0
    if options.list:
        for name, scenario in lanes.scenarios().items():
            print(f"{name:24} {' '.join(scenario.__doc__.split())}")
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="tickbus-lab-", ignore_cleanup_errors=True) as name:
        try:
            folder = pathlib.Path(name) / "run"
            folder.mkdir()
            if options.ready:
                options.ready = hot.boot_files(pathlib.Path(name) / "boot", options.ready, options.build)
            if options.run is not None:
                return run_command(options, folder)
            if options.shell is not None:
                return run_shell(options, folder)
            return run_scenarios(options, folder)
        except Failed as failure:
            print(f"lab: {failure}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
