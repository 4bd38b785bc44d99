# SPDX-License-Identifier: Apache-2.0
"""Writes a run as a table in figures.md and as plots: a folder of docs/, made by one command.

The plots show the default ring, by payload: the median of the short runs, and a line from the worst run to the best.
gnuplot draws them (package gnuplot-nox). The same rows give the same files.
"""
import json
import pathlib
import platform
import re
import shutil
import subprocess

import rings
import table

PACKAGE = "gnuplot-nox"
KEPT = ("commit", "processor", "cores", "thrown_away", "counts", "realtime", "notes", "results")  # what --json writes
SAME = ("commit", "processor", "cores", "realtime", "tiny")  # for all files of a report
PLOTS = {  # file: title, title of the axis, rows of tickbus, rows of peers
    "throughput": ("Throughput, lossless, one reader", "million messages a second",
                   "throughput/{payload}/{ring}/batch/lossless/{setting}/1", "throughput/{payload}/1"),
    "latency": ("One way from process to process, median", "ns", "latency/{payload}/{setting}", "latency/{payload}/1"),
    "publish-0": ("Publishing in batches of 64, no reader", "ns a message",
                  "publish/{payload}/{ring}/batch/{setting}/0", "publish/{payload}/0"),
    "publish-1": ("Publishing in batches of 64, one reader", "ns a message",
                  "publish/{payload}/{ring}/batch/{setting}/1", "publish/{payload}/1"),
}
SERIES = {  # in the order of the plots: title, colour, gnuplot's type of point
    "local": ("tickbus local", "#0072b2", 7), "checked": ("tickbus checked", "#d55e00", 5),
    "bare": ("bare ring", "#555555", 4), "log": ("log", "#999999", 6), "aeron": ("Aeron IPC", "#009e73", 9),
    "iceoryx": ("iceoryx", "#cc79a7", 11), "zmq": ("ZeroMQ ipc", "#e69f00", 13),
}
SCRIPT = """set terminal svg size 800,400 font "sans-serif,13" background "#ffffff"
set title "{title}"
set xlabel "bytes of a message"
set ylabel "{axis}"
set logscale y
set yrange [{low}:{high}]
set xrange [-0.5:{last}.5]
set xtics ({tics})
set ytics ({steps})
set grid ytics lc rgb "#cccccc"
set key outside right center
set bars 0.6
{data}
plot {parts}
"""


class Wrong(Exception):
    pass


def program():
    found = shutil.which("gnuplot")
    if not found:
        raise Wrong(f"--report: found no program gnuplot, expected package {PACKAGE}")
    return found


def about(root):
    """What was measured, and where."""
    found = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], cwd=root,
                           capture_output=True, text=True).stdout.strip() if shutil.which("git") else ""
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return {"commit": found or "unknown", "processor": model[1] if model else platform.machine()}


def read(path):
    """What is in a file of --from."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as why:
        raise Wrong(f"--from {path}: {why}: expected a file that --json wrote") from why


def load(paths):
    """The run of one or more files, which --json wrote."""
    runs = [read(path) for path in paths]
    for path, run in zip(paths, runs):
        missing = [key for key in KEPT if key not in run] if isinstance(run, dict) else KEPT
        if missing:
            raise Wrong(f"{path}: found no {missing[0]}, expected a file that --json wrote")
        for key in SAME:
            if run.get(key) != runs[0].get(key):
                raise Wrong(f"{path}: found {key} {run.get(key)}, expected {runs[0].get(key)} as in {paths[0]}")
    rows, notes = [row for run in runs for row in run["results"]], {}
    names = [row["name"] for row in rows]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Wrong(f"found row {twice[0]} in two files, expected it in one")
    for run in runs:
        for key, words in run["notes"].items():
            notes[key] = list(dict.fromkeys(notes.get(key, []) + words))
    judged = [run["counts"] for run in runs if run["counts"] is not None]
    return {**runs[0], "thrown_away": sum(run["thrown_away"] for run in runs),
            "counts": all(judged) if judged else None, "notes": notes, "results": rows}


# -- the plots ----------------------------------------------------------------------------------

def points(run, ours, theirs):
    """{series: {payload: median, worst, best}} of a plot. A median of 0 has no place on its axis."""
    rows, found = {row["name"]: row for row in run["results"]}, {name: {} for name in SERIES}
    for payload in rings.PAYLOADS:
        for setting in rings.SETTINGS:
            names = [ours.format(payload=payload, ring=rings.DEFAULT_RING, setting=setting)]
            names += [f"peers/{peer}/{theirs.format(payload=payload)}/{setting}" for peer in SERIES]
            for row in (rows[name] for name in names if name in rows and rows[name]["value"]):
                found[setting].setdefault(payload, row)
                for other, figures in row["beside"].items():
                    if figures["value"]:
                        found[other].setdefault(payload, figures)
    return {name: of_payload for name, of_payload in found.items() if of_payload}


def script(title, axis, series):
    """gnuplot's commands. The line of a worst run of 0 begins at the median."""
    payloads = [payload for payload in rings.PAYLOADS if any(payload in found for found in series.values())]
    data, parts, all_values = [], [], []
    for turn, (name, found) in enumerate(series.items()):
        words, colour, kind = SERIES[name]
        lines = []
        for payload, row in found.items():
            values = [row["value"], *sorted((row["worst"], row["best"]))]
            values[1] = values[1] or values[0]
            all_values += values
            place = payloads.index(payload) + 0.7 * ((turn + 0.5) / len(series) - 0.5)
            lines.append(" ".join(f"{value:.4g}" for value in (place, *values)))
        data.append(f"${name} << END\n" + "\n".join(lines) + "\nEND")
        parts.append(f'${name} with yerrorbars title "{words}" lc rgb "{colour}" lw 2 pt {kind} ps 0.9')
    tics = ", ".join(f'"{payload}" {place}' for place, payload in enumerate(payloads))
    low, high = min(all_values) / 1.5, max(all_values) * 1.5
    steps = [f"{step}e{power}" for power in range(-3, 10) for step in (1, 2, 5) if low < step * 10 ** power < high]
    steps = ", ".join(f'"{float(step):g}" {step}' for step in steps)
    return SCRIPT.format(title=title, axis=axis, low=f"{low:.3g}", high=f"{high:.3g}", last=len(payloads) - 1,
                         tics=tics, steps=steps, data="\n".join(data), parts=", ".join(parts))


def draw(title, axis, series):
    """The SVG of a plot."""
    done = subprocess.run([program()], input=script(title, axis, series), capture_output=True, text=True)
    if done.returncode or not done.stdout:
        raise Wrong(f"gnuplot: exit status {done.returncode}\n{done.stderr}")
    return done.stdout.replace("<title>Gnuplot</title>", f"<title>{title}</title>")


# -- the table ----------------------------------------------------------------------------------

def markdown(run, plots):
    found, numbers = table.lines(run["results"])
    rows = ["| " + " | ".join(cells) + " |" for cells in found]
    rows.insert(1, "|" + "|".join("---:" if right else "---" for right in numbers) + "|")
    about_run = [f"Commit {run['commit']}.", f"{run['processor']}, {run['cores']} cores.",
                 *(["Measured with real-time priority."] if run["realtime"] else []),
                 *(["The run does not count: " + ("it is tiny." if run.get("tiny") else "the bare ring was poor.")]
                   if run["counts"] is False else []),
                 *(f"{words}." for key in sorted(run["notes"]) for words in run["notes"][key]),
                 table.summary(run["results"], run["cores"], run["thrown_away"]) + "."]
    parts = ["# Figures", "`scripts/bench --report` writes this file. `docs/performance.md` explains the "
             "rows.", "\n".join(f"- {words}" for words in about_run)]
    if plots:
        parts += ["The plots have a logarithmic axis. A point is the median of the short runs. Its line goes from the "
                  "worst run to the\nbest.", *(f"![{PLOTS[name][0]}]({name}.svg)" for name in plots)]
    return "\n\n".join([*parts, "\n".join(rows)]) + "\n"


def write(run, folder):
    """figures.md and the plots that the rows allow. Older plots go."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = {}
    for name, (title, axis, ours, theirs) in PLOTS.items():
        series = points(run, ours, theirs)
        (folder / f"{name}.svg").unlink(missing_ok=True)
        if series:
            plots[name] = draw(title, axis, series)
    for name, drawn in plots.items():
        (folder / f"{name}.svg").write_text(drawn)
    (folder / "figures.md").write_text(markdown(run, plots))
