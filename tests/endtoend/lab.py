#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The lab's command line without guests: refused options and exit statuses. docs/lab.md must name every
scenario and option.

    lab.py SOURCE
"""
import contextlib
import io
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "tests/lab"))
PATIENCE_S = 60


def run(*arguments):
    return subprocess.run([SOURCE / "scripts/lab", *arguments], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False)


class Usage(unittest.TestCase):
    def test_wrong_options_are_reported_in_one_line_before_any_work(self):
        hosts = "expected a number from 1 to 99"
        for arguments, message in ((["--hosts", "0"], f"--hosts: found '0', {hosts}"),
                                   (["--hosts", "x", "--run", "true"], f"--hosts: found 'x', {hosts}"),
                                   (["--hosts", "100", "--run", "true"], f"--hosts: found '100', {hosts}"),
                                   (["--hosts", "2", "devices"], "--hosts: found 2, expected 4 or more for scenarios"),
                                   (["--build", "/nowhere", "torn"], "--build: found no build in /nowhere, expected a "),
                                   (["--lanes", "0"], "--lanes: found '0', expected a number from 1 to 64"),
                                   (["--limit", "nan"], "--limit: found 'nan', expected a number from 1 to "),
                                   (["--shell", "5"], "--shell: found host 5, expected a host from 1 to 4"),
                                   (["--shell", "0"], f"--shell: found '0', {hosts}"),
                                   (["--shell"], "--shell: found no terminal as standard input, expected a terminal"),
                                   (["--shell", "--run", "true"], "found --run with --shell, expected only one of them"),
                                   (["--run", "true", "torn"], "found --run with torn, expected only one of them"),
                                   (["nothing"], "found no scenario nothing, expected one of: bench ")):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), (arguments, result.stderr))
            self.assertRegex(result.stderr, r"\Alab: [^\n]*\n\Z", arguments)
            self.assertIn(message, result.stderr, arguments)

    def test_option_without_its_value_is_named(self):
        for option in ("--run", "--hosts", "--limit", "--lanes", "--build"):
            result = run(option)
            self.assertEqual(result.returncode, 2)
            self.assertTrue(result.stderr.startswith(f"scripts/lab: option {option} needs a value, "), result.stderr)

    def test_guests_that_fail_to_boot_are_retried_in_a_new_folder(self):
        import guests
        path = pathlib.Path("/nowhere")
        for failures, boots in ((0, 1), (1, 2), (guests.BOOTS, guests.BOOTS)):
            outcomes = [guests.Failed("no")] * failures + ["up"]
            with mock.patch.object(guests, "Topology", side_effect=outcomes) as topology, \
                    contextlib.redirect_stderr(io.StringIO()):
                if failures < guests.BOOTS:
                    self.assertEqual(guests.boot("kind", 4, guests.folders(path)), "up")
                else:
                    self.assertRaises(guests.Failed, guests.boot, "kind", 4, guests.folders(path))
            self.assertEqual([call.args for call in topology.call_args_list],
                             [("kind", 4, path / f"boot{number}") for number in range(1, boots + 1)])

    def test_limits_do_not_run_while_a_guest_waits_for_a_processor(self):
        import guests
        first, second = (mock.Mock(**{"late_seconds.return_value": 5.0}) for _ in range(2))
        machine, now = [first, second], 100.0
        with mock.patch.object(guests.time, "monotonic", lambda: now):
            clock = guests.Clock(lambda: machine)
            self.assertEqual(clock(), 0)
            now += 10
            self.assertEqual(clock(), 10)
            first.late_seconds.return_value, second.late_seconds.return_value = 13.0, 6.0
            now += 10
            self.assertEqual(clock(), 20 - 8)
            machine = [second, mock.Mock(**{"late_seconds.return_value": 0.0})]  # another guest in place of the first
            now += 10
            self.assertEqual(clock(), 30 - 8)

    def test_time_of_a_thread_without_a_processor_is_counted(self):
        import guests
        guest = object.__new__(guests.Guest)
        guest.late, guest.process = 0.0, mock.Mock(pid="self")
        first = guest.late_seconds()
        waits = [subprocess.Popen(["taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c",
                                   "while :; do :; done"]) for _ in range(2)]
        try:
            guest.process.pid = waits[0].pid
            while guest.late_seconds() < first + 0.01:
                self.assertIsNone(waits[0].poll())
        finally:
            for process in waits:
                process.kill()
                process.wait()

    @unittest.skipUnless(platform.machine() == "x86_64", "guests of other machines measure their clocks")
    def test_rate_of_the_clock_is_the_same_each_time(self):
        import tsc
        first, second = tsc.khz(), tsc.khz()
        self.assertLess(abs(first - second), first / 1000, (first, second))

    def test_emulated_steady_guest_has_the_clock_of_its_instructions(self):
        import guests
        for accel, steady, expected in (("tcg,thread=multi", True, True), ("tcg,thread=multi", False, False),
                                        ("kvm", True, False)):
            with tempfile.TemporaryDirectory(prefix="tickbus-lab-") as folder, \
                    mock.patch.object(guests, "qemu") as qemu:
                qemu.return_value.stdout = []
                guest = guests.Guest(pathlib.Path(folder), "ready", accel, 0, processors=2, steady=steady)
            arguments = qemu.call_args[0][0]
            self.assertEqual(("-icount" in arguments, guest.steady), (expected, expected))
            self.assertEqual(arguments[arguments.index("-smp") + 1], "1" if expected else "2")

    def test_each_conformance_program_runs_over_the_devices_that_it_needs(self):
        import conformance
        sources = {path.stem for path in (SOURCE / "tests/conformance").glob("*.c")}
        self.assertLessEqual(conformance.BOTH | conformance.ONE.keys(), sources)
        for choice, least in ("", 0), ("all", 2):
            with mock.patch.dict(os.environ, TICKBUS_LAB_CONFORMANCE=choice):
                for name in sources:
                    kinds = [kind for kind in ("rxe", "siw") if conformance.is_for(f"test-rdma-{name}", kind)]
                    expected = 2 if name in conformance.BOTH else max(least, name in conformance.ONE)
                    self.assertEqual(len(kinds), expected, name)

    def test_bound_grows_by_the_pace_of_the_run(self):
        import failures
        scene, reader, spun = object.__new__(failures.Scene), mock.Mock(), {"gap_ms": 0}
        scene.stale_ms, scene.publisher = 1000, mock.Mock(guest=reader.host.guest)
        reader.events.return_value = [{"ms": 10, "age_ms": 5.0}, {"ms": 20, "age_ms": 80.0}, {"ms": 30, "age_ms": 9e3}]
        self.assertEqual([scene.pace_ms(reader, since, spun) for since in (9, 10, 29, 30)], [0, 5.0, 80.0, 1000])
        self.assertEqual([scene.pace_ms(reader, 20, {"gap_ms": gap}) for gap in (30, 50, 600)], [80.0, 100, 1000])
        scene.publisher = mock.Mock()
        self.assertEqual([scene.pace_ms(reader, 20, {"gap_ms": gap}) for gap in (0, 30)], [0, 60])

    def test_bound_grows_by_the_lateness_of_the_machine(self):
        import failures
        for took, late, verdict in ((1300, 0, True), (1301, 0, False), (1500, 200, True), (1501, 200, False),
                                    (9000, 7700, True), (9001, 7700, None)):
            if verdict is None:
                self.assertRaises(failures.TooLate, failures.within, took, 1000, late)
            else:
                self.assertEqual(failures.within(took, 1000, late), verdict, (took, late))

    def test_exit_status_of_a_shell_is_that_of_the_lab(self):
        import lab
        for status in (0, 3, 130):
            self.assertEqual(self.shell(lab, status), status)
        with self.assertRaisesRegex(lab.Failed, "the guest died"):
            self.shell(lab, None)

    def shell(self, lab, status):
        """A shell on a guest that prints and ends with this status. None: its guest dies."""
        with tempfile.TemporaryDirectory(prefix="tickbus-lab-") as folder, \
                socket.socket(socket.AF_UNIX) as terminal, mock.patch.object(lab, "boot") as boot, \
                mock.patch.object(lab, "Lab") as hosts, mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO()))), \
                contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())) as out:
            path = pathlib.Path(folder)
            terminal.bind(str(path / "terminal0"))
            terminal.listen()
            printed = threading.Event()

            def guest():
                line, _ = terminal.accept()
                line.sendall(b"host 2:")
                printed.set()
                while status is not None and line.recv(16):
                    pass
                line.close()
            threading.Thread(target=guest).start()
            process = hosts.return_value.host.return_value.start.return_value
            process.guest.status = lambda *_: printed.wait(PATIENCE_S) and status
            process.guest.log = lambda: ""
            options, boot.return_value.folder = mock.Mock(shell=2, hosts=4), path
            try:
                return lab.run_shell(options, path)
            finally:
                hosts.return_value.host.assert_called_with(2)
                self.assertEqual(out.buffer.getvalue(), b"host 2:")


@unittest.skipUnless(shutil.which("cpio"), "cpio is missing")
class Packed(unittest.TestCase):
    """Files that guests have in memory from the start (tests/lab/hot.py)."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tickbus-lab-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name).resolve()

    def test_packed_file_keeps_its_path_and_links(self):
        import hot
        (self.here / "real").mkdir()
        (self.here / "real/program.1").write_bytes(b"\0program")
        (self.here / "real/program.1").chmod(0o755)
        (self.here / "real/program").symlink_to("program.1")
        (self.here / "place").symlink_to("real")
        archive = hot.Archive()
        archive.add(self.here / "place/program")
        archive.add(self.here / "real/program")
        archive.add(self.here / "none/made", b"odd")
        out = self.here / "out"
        out.mkdir()
        subprocess.run(["cpio", "--quiet", "-id"], input=archive.end(), cwd=out, check=True)
        unpacked = out / "hot" / self.here.relative_to("/")
        self.assertEqual(sorted(str(path.relative_to(unpacked)) for path in unpacked.rglob("*")),
                         ["none", "none/made", "place", "real", "real/program", "real/program.1"])
        self.assertEqual((unpacked / "place").readlink(), pathlib.Path("real"))
        self.assertEqual((unpacked / "real/program").readlink(), pathlib.Path("program.1"))
        self.assertEqual((unpacked / "place/program").read_bytes(), b"\0program")
        self.assertEqual((unpacked / "real/program.1").stat().st_mode & 0o777, 0o755)
        self.assertEqual((unpacked / "none/made").read_bytes(), b"odd")


class Page(unittest.TestCase):
    """docs/lab.md against the lab."""

    def setUp(self):
        self.text = (SOURCE / "docs/lab.md").read_text()

    def test_page_names_exactly_the_scenarios(self):
        result = run("--list")
        self.assertEqual(result.returncode, 0, result.stderr)
        listed = set(re.findall(r"^(\w+) +\S", result.stdout, re.M))
        self.assertEqual(listed, {path.stem for path in (SOURCE / "tests/lab/scenarios").glob("*.py")})
        table = "".join(re.findall(r"^\| (`.*?) \|", self.text, re.M))
        on_demand = re.search(r"^On demand, .*?\n\n", self.text, re.M | re.S).group()
        self.assertEqual(listed - set(re.findall(r"`(\w+)`", table + on_demand)), set())
        self.assertEqual(set(re.findall(r"`(\w+)`", table)) - listed, set())

    def test_page_shows_exactly_the_options(self):
        usage = run("--help").stdout
        block = re.search(r"^```\n(scripts/lab .*?)^```$", self.text, re.M | re.S).group(1)
        self.assertEqual(set(re.findall(r"--[a-z]+", block)), set(re.findall(r"--[a-z]+", usage)))


unittest.main(argv=sys.argv[:1], verbosity=2)
