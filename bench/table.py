# SPDX-License-Identifier: Apache-2.0
"""The rows of a run as a table."""

COLUMNS = (  # title, whether it is a number
    ("", False), ("value", True), ("worst", True), ("", False), ("yardstick", True), ("", False),
    ("bare ring's worst", True), ("ratio", True), ("range", False), ("bound", False), ("", False),
    ("worst >= 0.5", False), ("cores", False), ("of --against", True), ("range", False), ("", False))


def number(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def span(values, form=number):
    return f"{form(values[0])} to {form(values[1])}" if values else ""


def ratio(value):
    return f"{value:.2f}"


def line(row):
    """The cells of a row, in the order of COLUMNS."""
    judged = row.get("ratio_range") or (row.get("range") if row["rounds"] > 1 else None)
    return (row["name"], number(row["value"]), number(row["worst"]) if "worst" in row else "", row["unit"],
            number(row["yardstick_value"]) if row["yardstick"] else "", row["yardstick"] or "",
            number(row["bare_worst"]) if "bare_worst" in row else "",
            ratio(row["ratio"]) if row["ratio"] is not None else "", span(judged),
            f"{'>=' if row['least'] else '<='} {row['bound']}" if row["bound"] is not None else "", verdict(row),
            {True: "holds", False: "missed", None: ""}[row.get("steady")], row.get("cores", ""),
            ratio(row["against"]) if "against" in row else "", span(row.get("against_range"), ratio), row["more"])


def verdict(row):
    words = {True: ["holds"], False: ["missed"], None: []}[row["holds"]]
    if row.get("counts") is False:
        words.append("does not count")
    return ", ".join(words)


def lines(rows):
    """The titles and the rows, without the columns that are empty."""
    found = [[title for title, _ in COLUMNS], *map(line, rows)]
    used = [i for i in range(len(COLUMNS)) if any(cells[i] for cells in found[1:])]
    return [[cells[i] for i in used] for cells in found], [COLUMNS[i][1] for i in used]


def text(rows):
    found, numbers = lines(rows)
    widths = [max(map(len, column)) for column in zip(*found)]
    return "".join("  ".join(cell.rjust(width) if right else cell.ljust(width)
                             for cell, width, right in zip(cells, widths, numbers)).rstrip() + "\n"
                   for cells in found)


def summary(rows, cores, thrown):
    """What the rows say together."""
    judged = [row["holds"] for row in rows if row["holds"] is not None and not row["name"].startswith("limit/")]
    steady = [row["steady"] for row in rows if row.get("steady") is not None]
    words = f"{cores} cores, {thrown} runs thrown away, {judged.count(False)} of {len(judged)} bounds missed"
    return words + (f", {steady.count(False)} of {len(steady)} rows have a run below half the median" if steady else "")
