#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the market's rows of ITCH files with the oracle's, and so the marks and values that a feed publishes.

itch_compare.py MARKET-ROWS FEED-ROWS random | synthetic SYNTHETIC-WRITE | real

random: days of seeded random messages. With few symbols and references, messages meet live, removed and unknown
orders; sizes and prices collide and saturate; books empty and cross. There are also unknown types, wrong lengths and
impossible values.
synthetic: days of the synthetic exchange, as SYNTHETIC-WRITE writes them, compressed or not.
real: every *.bin in the folder itch/ of TICKBUS_TEST_DATA. Without a file, the exit status is 77 (skipped).
"""
import io
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import itch_oracle as oracle

DATE, ZONE = "2019-12-30", "America/New_York"
BEGIN_NS = 1577682000 * 10**9
NAMES = {letter: name for letter, name in zip(
    "SRHYLVWKJhAFECXDUPQBINO",
    "system_event stock_directory trading_action reg_sho_restriction participant_position "
    "mwcb_decline_levels mwcb_status ipo_quoting_period auction_collar operational_halt add_order "
    "add_order_mpid order_executed order_executed_with_price order_cancel order_delete "
    "order_replace trade cross_trade broken_trade net_order_imbalance retail_interest "
    "direct_listing".split())}


CASES = ("update", "cancel", "correction", "clear", "inside a message", "no value at the end")


class RandomDay:
    """A stream of random messages, which a file can hold though no exchange would send them."""

    WEIGHTS = {"A": 30, "F": 3, "E": 10, "C": 4, "X": 6, "D": 14, "U": 14}
    MATCH = {"E": 2, "C": 2, "P": 5, "Q": 3, "B": 0}  # field with the match number

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.references = self.random.choice([5, 40, 400])
        self.symbols = self.random.choice([1, 2, 4])
        self.matches = self.random.choice([1, 4, 40])
        self.prices = self.random.choice([3, 15, 60])
        self.sizes = self.random.choice([[100, 200, 300], [2**32 - 1, 2**31, 1], list(range(9))])
        self.time = 0

    def value(self, kind, field, code):
        pick = self.random
        if code == "c":
            if kind in "AF" and field == 1:
                return pick.choice([b"B", b"S"])
            return pick.choice([b"Y", b"N", b" ", b"O", b"C", b"B", b"Q", b"X", b"\0"])
        if code.endswith("s"):
            size = int(code[:-1])
            return b"".join(pick.choice([b"A", b"b", b"7"]) for _ in range(pick.randint(1, size))) \
                .ljust(size)
        if code == "I":
            return pick.choice(self.sizes)
        return pick.choice([0, 1, pick.getrandbits(64), pick.getrandbits(33)])

    def fields(self, kind, locate):
        codes = []
        number = ""
        for letter in oracle.LAYOUT[kind.encode()][1]:
            if letter.isdigit():
                number += letter
                continue
            codes.append(number + letter)
            number = ""
        fields = [self.value(kind, i, code) for i, code in enumerate(codes)]
        stock = oracle.STOCK_FIELD.get(kind.encode())
        if stock is not None and self.random.random() < 0.99:
            fields[stock] = f"SYM{locate}".encode().ljust(8)
        pick = self.random.randrange
        if kind in self.WEIGHTS:
            fields[0] = pick(self.references)
        if kind == "U":
            fields[1] = pick(self.references)
        if kind in self.MATCH:
            fields[self.MATCH[kind]] = pick(self.matches)
        if kind in "AFPUC":
            at = {"A": 4, "F": 4, "P": 4, "U": 3, "C": 4}[kind]
            fields[at] = self.random.choice([0, 2**32 - 1] + [1000000 + i * 100 for i in
                                                             range(self.prices)])
        return fields

    def message(self):
        self.time += self.random.randrange(1000000)
        everything = "".join(letter.decode() for letter in oracle.LAYOUT)
        kind = self.random.choices([*self.WEIGHTS, "B", *everything],
                                   [*self.WEIGHTS.values(), 2, *[0.3] * len(everything)])[0]
        locate = self.random.randrange(self.symbols) * 21845
        raw = kind.encode() + struct.pack(">HHHI", locate, 0, self.time >> 32,
                                          self.time & 0xffffffff)
        raw += struct.pack(">" + oracle.LAYOUT[kind.encode()][1], *self.fields(kind, locate))
        return self.spoil(raw) if self.random.random() < 0.01 else raw

    def spoil(self, raw):
        damage = self.random.randrange(5)
        if damage == 0:
            return bytes([self.random.randrange(256)]) + raw[1:]
        if damage == 1:
            return raw[:self.random.randint(1, len(raw))]
        if damage == 2:
            return raw[:5] + b"\xff" + raw[6:]
        if damage == 3:
            return (raw + b"\0" * 50)[:self.random.randint(1, 50)]
        at = self.random.randrange(len(raw))
        return raw[:at] + self.random.choice([b"A", b"z", b"5", b" "]) + raw[at + 1:]

    def file(self, messages):
        """A single day: the marks of a day would begin another."""
        return b"".join(len(raw).to_bytes(2, "big") + raw for raw in (self.message() for _ in range(messages))
                        if not (len(raw) == 12 and raw[:1] == b"S" and raw[11:] in (b"O", b"C")))


def counters(text):
    return {name: int(value) for name, value in
            (line.split() for line in text.splitlines() if not line.startswith(("malformed ", "null ")))}


def nulls(text):
    """The number of nulls in each column, as market-rows prints it."""
    return {line.split()[1]: int(line.split()[2]) for line in text.splitlines() if line.startswith("null ")}


def fires(day, select, text):
    """Checks that the comparison finds a wrong byte in the last row, a missing row, and a row too many."""
    last = text.rstrip("\n").rsplit("\n", 1)[-1]
    wrong = last[:-1] + ("8" if last[-1] != "8" else "9")
    return all(oracle.compare(day, select, io.StringIO(changed)) for changed in
               (text[:-len(last) - 1] + wrong + "\n", text[:-len(last) - 1], text + last + "\n"))


def run(program, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([program, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "TICKBUS_RUNTIME_DIR": folder})


def published(text):
    """Marks and values as feed-rows prints them. Sequences are without the records of quality."""
    marks, values, skipped = [], {}, []
    for line in text.splitlines():
        what, *words = line.split(" ")
        if what == "record":
            marks.append(words[1] == "last")
        elif what == "quality":
            skipped.append(int(words[0]))
        else:
            name, sequence, kind = words
            values[name] = (int(sequence) - sum(at < int(sequence) for at in skipped), kind)
    return marks, values


def unlike(found, expected):
    """A message if the marks or values differ."""
    for what, one, other in zip(("marks", "values"), found, expected):
        if one != other:
            pairs = enumerate(zip(one, other), 1) if what == "marks" else \
                ((name, (one.get(name), other.get(name))) for name in {**one, **other})
            first = next((pair for pair in pairs if pair[1][0] != pair[1][1]), "their number")
            return f"{what}: found {len(one)}, expected {len(other)}; first difference {first}"
    return None


def feed_differences(program, path, day, cases):
    """Compares what a feed publishes, and checks that this finds a wrong mark and a wrong value."""
    done, apart = (run(program, path, day.select, DATE, ZONE, threads) for threads in "12")
    if done.returncode:
        yield f"{day.select}: {program}: exit status {done.returncode}: {done.stderr}"
        return
    if (apart.returncode, apart.stdout) != (0, done.stdout):
        yield f"{day.select}: two threads: found exit status {apart.returncode} and {len(apart.stdout)} bytes, " \
              f"expected the records of one thread: {apart.stderr}"
    found, expected = published(done.stdout), (day.marks(), day.values)
    difference = unlike(found, expected)
    if difference:
        yield f"{day.select}: {difference}"
    elif day.rows:
        changed = expected[0][:-1] + [not expected[0][-1]]
        fewer = dict(list(day.values.items())[1:])
        if not unlike((changed, found[1]), expected) or (day.values and not unlike((found[0], fewer), expected)):
            yield f"{day.select}: a wrong mark or value is not found"
    cases["inside a message"] = cases.get("inside a message", 0) + expected[0].count(False)
    for _, kind, *_ in day.rows:
        cases[kind] = cases.get(kind, 0) + 1
    cleared = sum(kind == "clear" for _, kind in day.values.values())
    cases["no value at the end"] = cases.get("no value at the end", 0) + cleared


def differences(programs, path, data, totals, cases):
    for select in oracle.COLUMNS:
        done = run(programs[0], path, select, DATE, ZONE)
        if done.returncode:
            yield f"{select}: exit status {done.returncode}: {done.stderr}"
            continue
        day = oracle.run(data, select, BEGIN_NS)
        difference = oracle.compare(day, select, io.StringIO(done.stdout))
        if difference:
            yield f"{select}: {difference}"
        elif day.rows and not fires(day, select, done.stdout):
            yield f"{select}: a wrong row is not found"
        if nulls(done.stderr) != day.nulls:
            yield f"{select}: nulls: found {nulls(done.stderr)}, expected {day.nulls}"
        found, expected = counters(done.stderr), day.summary()
        types = expected.pop("types")
        expected.update({name: types.get(letter, 0) for letter, name in NAMES.items()})
        for name, value in expected.items():
            totals[name] = totals.get(name, 0) + value
            if found[name] != value:
                yield f"{select}: counter {name}: found {found[name]}, expected {value}"
        yield from feed_differences(programs[1], path, day, cases)
        print(f"#   {select}: {len(day.rows)} rows")


def check(programs, name, path, totals, cases):
    data = oracle.read_all(path)
    found = list(differences(programs, path, data, totals, cases))
    print(f"# {name}: {len(data)} bytes, {'equal to the oracle' if not found else 'DIFFERENT'}")
    for difference in found:
        print(f"# {difference}")
    return not found


def covered(totals, *names):
    never = [name for name in names if not totals.get(name)]
    print(f"# all cases covered: {totals}" if not never else f"# cases not covered: {never}")
    return not never


def random_days(programs, seeds):
    good, totals, cases = True, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "random.bin")
        for seed in seeds:
            pathlib.Path(path).write_bytes(RandomDay(seed).file(3000))
            good &= check(programs, f"seed {seed}", path, totals, cases)
    return covered(totals, *totals) and covered(cases, *CASES) and good


def synthetic(programs, writer):
    good, totals, cases = True, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, messages, symbols, suffix in ((1, 5000, 40, ""), (2, 20000, 3, ".zst"),
                                                (3, 30000, 500, ".zst")):
            path = os.path.join(folder, f"day-{seed}.bin{suffix}")
            subprocess.run([writer, str(seed), str(messages), "0", "0", str(symbols), "0", path],
                           check=True)
            good &= check(programs, f"seed {seed}", path, totals, cases)
    wrong = {name: totals[name] for name in ("unknown_type", "wrong_length", "bad_value",
                                             "unknown_reference", "clamped", "live_reference",
                                             "name_conflict") if totals[name]}
    print(f"# messages no exchange would send: {wrong or 0}")
    return covered(cases, *CASES) and good and not wrong


def main():
    programs, what = sys.argv[1:3], sys.argv[3]
    if what == "synthetic":
        return 0 if synthetic(programs, sys.argv[4]) else 1
    if what == "random":
        first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
        return 0 if random_days(programs, range(first, first + 12)) else 1
    folder = os.environ.get("TICKBUS_TEST_DATA")
    files = sorted(pathlib.Path(folder, "itch").glob("*.bin")) if folder else []
    if not files:
        print("skipped: TICKBUS_TEST_DATA names no folder with itch/*.bin")
        return 77
    return 0 if all([check(programs, file.name, str(file), {}, {}) for file in files]) else 1


sys.exit(main())
