#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Derives the output of `tickbus cat --format csv --from oldest` for an ITCH 5.0 file.

Written only from the exchange's message layouts and the rules of the feed. The books are as simple as possible: a
dictionary of orders and a dictionary of levels, sorted for each message. It shares no code with the feed handler, so
an error would have to be made twice.

    itch_oracle.py FILE --select quote --date 2019-12-30            prints the rows without time_ns.
    itch_oracle.py FILE --select quote --date ... --compare ROWS    compares: - is standard input.
    itch_oracle.py FILE --merge quote,trade --prefix nasdaq.        prints or compares the rows of several topics.
    itch_oracle.py FILE --summary                                   prints the counters as JSON.

With --merge the rows are those of `tickbus cat PATTERN --merge`: in the order of the messages. Rows of one message are
in the order in which the topics are listed; that is a convention. The first column is the topic. A topic's header row
precedes its first row.

The column time_ns, the time of publication, is not compared. A null is an empty column, and so is a text of spaces:
Day.nulls counts the nulls.
Exit status: 0 done or equal, 1 a difference, 2 usage.
"""
import argparse
import csv
import datetime
import gzip
import json
import re
import struct
import subprocess
import sys
import zoneinfo

U32 = 2**32 - 1
DAY_NS = 86400 * 10**9

# type -> length, and the struct format of the fields after the 11 bytes that all messages begin with
LAYOUT = {
    b"S": (12, "c"),
    b"R": (39, "8sccIcc2scccccIc"),
    b"H": (25, "8scc4s"),
    b"Y": (20, "8sc"),
    b"L": (26, "4s8sccc"),
    b"V": (35, "QQQ"),
    b"W": (12, "c"),
    b"K": (28, "8sIcI"),
    b"J": (35, "8sIIII"),
    b"h": (21, "8scc"),
    b"A": (36, "QcI8sI"),
    b"F": (40, "QcI8sI4s"),
    b"E": (31, "QIQ"),
    b"C": (36, "QIQcI"),
    b"X": (23, "QI"),
    b"D": (19, "Q"),
    b"U": (35, "QQII"),
    b"P": (44, "QcI8sIQ"),
    b"Q": (40, "Q8sIQc"),
    b"B": (19, "Q"),
    b"I": (50, "QQc8sIIIcc"),
    b"N": (20, "8sc"),
    b"O": (48, "8scIIIQII"),
}
STOCK_FIELD = {b"R": 0, b"H": 0, b"Y": 0, b"L": 1, b"K": 0, b"J": 0, b"h": 0, b"A": 3, b"F": 3,
               b"P": 3, b"Q": 1, b"I": 3, b"N": 0, b"O": 0}

DEPTH_COLUMNS = [f"{side}[{i}].{field}" for side in ("bids", "asks") for i in range(10)
                 for field in ("price", "size", "orders")]
COLUMNS = {
    "quote": ["bid_price", "ask_price", "bid_size", "ask_size", "source_time"],
    "trade": ["price", "match_id", "source_time", "size", "aggressor", "condition"],
    "depth10": ["source_time"] + DEPTH_COLUMNS,
    "status": ["source_time", "reference_price", "upper_price", "lower_price", "level1", "level2",
               "level3", "extension", "reason", "message", "state", "reg_sho", "halt_nasdaq",
               "halt_bx", "halt_psx", "breach", "phase"],
    "imbalance": ["source_time", "paired_size", "imbalance_size", "far_price", "near_price",
                  "reference_price", "direction", "cross_type", "price_variation"],
    "definition": ["source_time", "round_lot", "leverage", "category", "financial_status",
                   "round_lots_only", "classification", "subtype", "authenticity",
                   "short_sale_threshold", "ipo", "luld_tier", "etp", "inverse"],
}
MARKETS = {b"Q": "halt_nasdaq", b"B": "halt_bx", b"X": "halt_psx"}
TRADES_KEPT = 8


def read_all(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE,
                              check=True).stdout
    return data


def frames(data):
    """The messages of a BinaryFILE, up to its end or the first frame that is not whole."""
    at = 0
    while at + 2 <= len(data):
        length = int.from_bytes(data[at:at + 2], "big")
        if length == 0 or at + 2 + length > len(data):
            return
        yield data[at + 2:at + 2 + length]
        at += 2 + length


def decimal(units, digits=4):
    return f"{units // 10**digits}.{units % 10**digits:0{digits}d}"


def below(number, null):
    """A number that equals the null of its type becomes the number before it."""
    return min(number, null - 1)


def word(raw):
    return raw.rstrip(b" \0").decode("ascii")


def code(raw):
    """Zero bytes in an optional field are its null."""
    return word(raw) if any(raw) else None


def given(raw):
    """A text of spaces says that there is no value."""
    return code(raw) if raw.strip(b" ") else None


class Day:
    """A day of messages. Each row goes to rows as (instrument, kind, fields). messages has the number of each row's
    message. values has the sequence and kind of the record that is each instrument's value. A clear says that the
    value is gone. nulls has the number of nulls in each column."""

    def __init__(self, select, midnight_ns):
        self.select = select
        self.midnight_ns = midnight_ns
        self.rows = []
        self.messages = []
        self.values = {}
        self.nulls = {}
        self.number = 0     # of the current message.
        self.standing = {}  # locate -> rows of its last trades that stand.
        self.status = {}    # locate or "market" -> part -> text.
        self.names = {}     # locate -> the 8 bytes of its name.
        self.listed = set() # locates whose name is the directory's.
        self.orders = {}    # reference -> [locate, side, price, shares]
        self.levels = {}    # (locate, side) -> {price: [size, orders]}
        self.shown = {}     # locate -> what the last evaluation saw
        self.touched = []   # locates whose book the message changed, in order
        self.counts = {"types": {}, "unknown_type": 0, "wrong_length": 0, "bad_value": 0,
                       "unknown_reference": 0, "clamped": 0, "live_reference": 0,
                       "name_conflict": 0, "unknown_market": 0}

    # The book

    def change(self, locate, side, price, size, orders):
        levels = self.levels.setdefault((locate, side), {})
        level = levels.setdefault(price, [0, 0])
        level[0] += size
        level[1] += orders
        if level[1] == 0:
            del levels[price]
        if locate not in self.touched:
            self.touched.append(locate)

    def take(self, reference, shares):
        """Takes shares off an existing order. Returns the shares that were taken."""
        order = self.orders[reference]
        if shares > order[3]:
            self.counts["clamped"] += 1
        shares = min(shares, order[3])
        order[3] -= shares
        gone = order[3] == 0
        if gone:
            del self.orders[reference]
        self.change(order[0], order[1], order[2], -shares, -1 if gone else 0)
        return shares

    def add(self, reference, locate, side, price, shares):
        if reference in self.orders:
            self.counts["live_reference"] += 1
            self.take(reference, self.orders[reference][3])
        self.orders[reference] = [locate, side, price, shares]
        self.change(locate, side, price, shares, 1)

    def known(self, reference, locate):
        """Whether the symbol has that order."""
        if reference in self.orders and self.orders[reference][0] == locate:
            return True
        self.counts["unknown_reference"] += 1
        return False

    def best(self, locate, side):
        """Levels of a side as (price, size, orders), the best first."""
        levels = self.levels.get((locate, side), {})
        prices = sorted(levels, reverse=side == b"B")[:10]
        return tuple((price, *levels[price]) for price in prices)

    # Rows

    def row(self, locate, kind, fields):
        name = word(self.names[locate]) if locate in self.names else "market"
        self.rows.append([name, kind] + ["" if field is None else str(field) for field in fields])
        for column, field in zip(COLUMNS[self.select], fields):
            if field is None:
                column = re.sub(r"\[\d+\]", "", column)
                self.nulls[column] = self.nulls.get(column, 0) + 1
        self.messages.append(self.number)
        if kind in ("update", "correction", "clear"):
            self.values[name] = (len(self.rows), kind)

    def marks(self):
        """Whether each row is the last of its message."""
        following = self.messages[1:] + [None]
        return [number != after for number, after in zip(self.messages, following)]

    def evaluate(self, locate, time):
        bids, asks = self.best(locate, b"B"), self.best(locate, b"S")
        if self.select == "quote":
            seen = (bids[0][:2] if bids else None, asks[0][:2] if asks else None)
            empty = (None, None)
            fields = [decimal(side[0]) if side else None for side in seen] + \
                     [min(side[1], U32) if side else 0 for side in seen] + [time]
        else:
            seen = (bids, asks)
            empty = ((), ())
            fields = [time]
            for side in seen:
                for price, size, orders in side:
                    fields += [decimal(price), min(size, U32), orders]
                fields += [None, 0, 0] * (10 - len(side))
        if seen != self.shown.get(locate, empty):
            self.shown[locate] = seen
            self.row(locate, "update", fields)

    def trade(self, locate, price, match, time, size, aggressor=None, condition=""):
        if self.select != "trade":
            return
        fields = [decimal(price), match, time, below(size, U32), aggressor, condition]
        self.row(locate, "update", fields)
        self.standing[locate] = (self.standing.get(locate, []) + [fields])[-TRADES_KEPT:]

    def broken(self, locate, match, time):
        """The last trade that stands is the value. If it is broken, the trade before it becomes the value. Without a
        name the message is about no known trade."""
        if locate not in self.names:
            self.counts["unknown_reference"] += 1
            return
        if self.select != "trade":
            return
        nothing = [None, match, time, None, None, None]
        self.row(locate, "cancel", nothing)
        before = self.standing.get(locate, [])
        after = [fields for fields in before if fields[1] != match]
        self.standing[locate] = after
        if before[-1:] == after[-1:]:
            return
        if after:
            self.row(locate, "correction", after[-1])
        else:
            self.row(locate, "clear", nothing)

    def change_status(self, locate, time, message, **parts):
        if self.select != "status":
            return
        status = self.status.setdefault(locate, {})
        status.update(parts, message=message, source_time=time)
        self.row(locate, "update", [status.get(column) for column in COLUMNS["status"]])

    # Messages

    def message(self, raw):
        kind = raw[:1]
        self.number += 1
        if kind not in LAYOUT:
            self.counts["unknown_type"] += 1
            return
        length, layout = LAYOUT[kind]
        if len(raw) != length:
            self.counts["wrong_length"] += 1
            return
        locate = int.from_bytes(raw[1:3], "big")
        nanoseconds = int.from_bytes(raw[5:11], "big")
        fields = struct.unpack(">" + layout, raw[11:])
        stock = fields[STOCK_FIELD[kind]] if kind in STOCK_FIELD else None
        wrong = "bad_value" if nanoseconds >= DAY_NS or (kind in b"AF" and fields[1] not in (b"B", b"S")) else \
            self.learn(kind, locate, stock)
        if wrong:
            self.counts[wrong] += 1
            return
        letter = kind.decode()
        self.counts["types"][letter] = self.counts["types"].get(letter, 0) + 1
        self.touched = []
        if stock is not None and self.names[locate] != stock:
            self.rename(locate, stock, self.midnight_ns + nanoseconds)
        if kind == b"R":
            self.listed.add(locate)
        self.apply(kind, locate, self.midnight_ns + nanoseconds, fields)
        if self.select in ("quote", "depth10"):
            for changed in self.touched:
                self.evaluate(changed, self.midnight_ns + nanoseconds)

    def learn(self, kind, locate, stock):
        """The counter of a message whose symbol is invalid or not that of its locate; None: it is good."""
        if stock is None or self.names.get(locate) == stock:
            return None
        symbol = stock.rstrip(b" ")
        if symbol in (b"", b"market") or any(not 0x21 <= byte <= 0x7e for byte in symbol):
            return "bad_value"
        if locate in self.names and kind != b"R":
            return "name_conflict"
        self.names.setdefault(locate, stock)
        return None

    def rename(self, locate, stock, time):
        """Another instrument from here on: nothing of the instrument before is left."""
        for reference in [key for key, order in self.orders.items() if order[0] == locate]:
            self.take(reference, self.orders[reference][3])
        if self.select in ("quote", "depth10"):
            self.evaluate(locate, time)
        for known in (self.standing, self.status, self.shown):
            known.pop(locate, None)
        self.touched = []
        self.names[locate] = stock
        self.counts["name_conflict"] += locate not in self.listed

    def apply(self, kind, locate, time, fields):
        if kind in (b"A", b"F"):
            reference, side, shares, _, price = fields[:5]
            self.add(reference, locate, side, price, shares)
        elif kind in (b"E", b"C"):
            self.execute(kind, locate, time, fields)
        elif kind == b"X":
            if self.known(fields[0], locate):
                self.take(*fields)
        elif kind == b"D":
            if self.known(fields[0], locate):
                self.take(fields[0], self.orders[fields[0]][3])
        elif kind == b"U":
            old, new, shares, price = fields
            if self.known(old, locate):
                _, side, _, left = self.orders[old]
                self.take(old, left)
                self.add(new, locate, side, price, shares)
        elif kind == b"P":
            _, _, shares, _, price, match = fields
            self.trade(locate, price, match, time, shares)
        elif kind == b"Q":
            shares, _, price, match, cross = fields
            if shares:
                self.trade(locate, price, match, time, shares, condition=word(cross))
        elif kind == b"B":
            self.broken(locate, fields[0], time)
        else:
            self.announce(kind, locate, time, fields)

    def execute(self, kind, locate, time, fields):
        """A trade of the message's shares. Only C says the price itself, so only its order may be unknown."""
        reference, shares, match = fields[:3]
        aggressor, price = None, None
        if self.known(reference, locate):
            _, side, price, _ = self.orders[reference]
            aggressor = "S" if side == b"B" else "B"
            self.take(reference, shares)
        elif kind == b"E" or locate not in self.names:
            return
        if kind == b"E":
            self.trade(locate, price, match, time, shares, aggressor)
        elif fields[3] == b"Y":
            self.trade(locate, fields[4], match, time, shares, aggressor)

    def announce(self, kind, locate, time, fields):
        if kind == b"H":
            self.change_status(locate, time, "H", state=code(fields[1]), reason=code(fields[3]))
        elif kind == b"h" and fields[1] in MARKETS:
            self.change_status(locate, time, "h", **{MARKETS[fields[1]]: code(fields[2])})
        elif kind == b"h":
            self.counts["unknown_market"] += self.select == "status"
        elif kind == b"Y":
            self.change_status(locate, time, "Y", reg_sho=code(fields[1]))
        elif kind == b"J":
            reference, upper, lower = map(decimal, fields[1:4])
            self.change_status(locate, time, "J", reference_price=reference, upper_price=upper,
                               lower_price=lower, extension=below(fields[4], U32))
        elif kind == b"S":
            self.change_status("market", time, "S", phase=code(fields[0]))
        elif kind == b"V":
            first, second, third = (decimal(min(level, 2**63 - 1), 8) for level in fields)
            self.change_status("market", time, "V", level1=first, level2=second, level3=third)
        elif kind == b"W":
            self.change_status("market", time, "W", breach=code(fields[0]))
        elif kind == b"R" and self.select == "definition":
            lot, leverage = fields[3], fields[12]
            codes = fields[1:3] + fields[4:12] + fields[13:]
            self.row(locate, "update", [time, lot, leverage, *map(given, codes)])
        elif kind == b"I" and self.select == "imbalance":
            paired, imbalance, direction, _, far, near, reference, cross, variation = fields
            self.row(locate, "update",
                     [time, paired, imbalance,
                      *(decimal(price) if price else None for price in (far, near, reference)),
                      word(direction), word(cross), given(variation)])

    def summary(self):
        return {**self.counts, "orders": len(self.orders), "symbols": len(self.names)}


def midnight_ns(date, zone):
    begin = datetime.datetime.combine(date, datetime.time(), zoneinfo.ZoneInfo(zone))
    return int(begin.timestamp()) * 10**9


def run(data, select, begin_ns):
    day = Day(select, begin_ns)
    for raw in frames(data):
        day.message(raw)
    return day


def compare(day, select, file, first=1):
    """A message about the first difference between the expected rows and a CSV, or None."""
    reader = csv.reader(file)
    header = ["sequence", "time_ns", "instrument", "kind"] + COLUMNS[select]
    found = next(reader, None)
    if found != header:
        return f"header\n  found    {found}\n  expected {header}"
    for sequence, expected in enumerate(day.rows, first):
        found = next(reader, None)
        if found is None:
            return f"ends before row {sequence}, expected {len(day.rows)} rows from {first}"
        if len(found) < 2 or found[:1] + found[2:] != [str(sequence)] + expected:
            return f"row {sequence} without time_ns\n  found    {found[:1] + found[2:]}\n" \
                   f"  expected {[str(sequence)] + expected}"
    found = next(reader, None)
    return f"row {found} after the last of {len(day.rows)}" if found else None


class Merge:
    """The rows of several topics of a feed, in one order. lines has them with their header rows, without time_ns."""

    def __init__(self, data, selects, prefix, begin_ns, first=1):
        rows = []
        for topic, select in enumerate(selects):
            day = run(data, select, begin_ns)
            for number, (message, row) in enumerate(zip(day.messages, day.rows)):
                rows.append(((message, topic, number), [prefix + select, str(first + number)] + row))
        self.number = len(rows)
        self.lines, self.messages, headed = [], [], set()
        for (message, topic, _), row in sorted(rows, key=lambda pair: pair[0]):
            if topic not in headed:
                headed.add(topic)
                self.lines.append([row[0], "sequence", "instrument", "kind"] + COLUMNS[selects[topic]])
                self.messages.append(None)
            self.lines.append(row)
            self.messages.append(message)

    def times(self, found):
        """A message about times that do not rise from message to message, or differ inside a message, or None."""
        last = (None, 0)
        for message, time in zip(self.messages, found):
            if message is None:
                if time != "time_ns":
                    return f"found {time} in a header row, expected time_ns"
                continue
            time = int(time)
            if time != last[1] if message == last[0] else time <= last[1]:
                return f"time {time} of message {message} after {last[1]} of message {last[0]}"
            last = (message, time)
        return None

    def compare(self, file):
        """A message about the first difference from CSV rows, or None."""
        times = []
        rows = csv.reader(file)
        for at, expected in enumerate(self.lines, 1):
            found = next(rows, None)
            if found is None:
                return f"ends before line {at}, expected {len(self.lines)} lines"
            if len(found) < 3 or found[:2] + found[3:] != expected:
                return f"line {at} without time_ns\n  found    {found[:2] + found[3:]}\n  expected {expected}"
            times.append(found[2])
        found = next(rows, None)
        return f"line {found} after the last of {len(self.lines)}" if found else self.times(times)


def merge(options):
    merged = Merge(read_all(options.file), options.merge, options.prefix,
                   midnight_ns(options.date, options.time_zone), options.first)
    if options.compare is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(merged.lines)
        return 0
    with sys.stdin if options.compare == "-" else open(options.compare, newline="") as file:
        difference = merged.compare(file)
    if difference:
        print(f"{options.compare}: {difference}")
        return 1
    print(f"{merged.number} rows of {len(options.merge)} topics in {len(set(merged.messages) - {None})} messages, all equal")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file")
    parser.add_argument("--select", choices=COLUMNS, default="quote")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default="1970-01-02")
    parser.add_argument("--time-zone", default="America/New_York")
    parser.add_argument("--compare", metavar="ROWS")
    parser.add_argument("--first", type=int, default=1, help="sequence of the first row to compare")
    parser.add_argument("--merge", metavar="SELECT,...", type=lambda text: text.split(","))
    parser.add_argument("--prefix", default="", help="what the topics' names have before SELECT")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.merge:
        return merge(options)
    day = run(read_all(options.file), options.select,
              midnight_ns(options.date, options.time_zone))
    if options.summary:
        print(json.dumps(day.summary(), sort_keys=True))
        return 0
    if options.compare is None:
        print(",".join(["sequence", "instrument", "kind"] + COLUMNS[options.select]))
        for sequence, row in enumerate(day.rows, 1):
            print(",".join([str(sequence)] + row))
        return 0
    with sys.stdin if options.compare == "-" else open(options.compare, newline="") as file:
        difference = compare(day, options.select, file, options.first)
    if difference:
        print(f"{options.compare}: {difference}")
        return 1
    print(f"{len(day.rows)} rows of {options.select}, all equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
