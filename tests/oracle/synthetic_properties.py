#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Judges synthetic days: decodes the ITCH 5.0 files, replays every book like a matching engine, and names the properties
that do not hold.

    synthetic_properties.py FILE...         judges files.
    synthetic_properties.py --make WRITER   lets WRITER write days of several seeds and sizes, and judges them.
    synthetic_properties.py --spoil WRITER  spoils a day in many ways, and checks that each fault is found.
"""
import collections
import itertools
import pathlib
import struct
import subprocess
import sys
import tempfile

# type: (the fields after type, locate, tracking and time, names)
LAYOUTS = {
    "S": ("c", "event"),
    "R": ("8scc I cc2s ccccc I c", "stock category financial lot lots_only classification subtype "
          "authenticity threshold ipo tier etp leverage inverse"),
    "H": ("8scc4s", "stock state reserved reason"),
    "Y": ("8sc", "stock action"),
    "L": ("4s8sccc", "maker stock primary mode state"),
    "V": ("QQQ", "level1 level2 level3"),
    "W": ("c", "level"),
    "K": ("8sIcI", "stock release qualifier price"),
    "J": ("8sIIII", "stock reference upper lower extension"),
    "h": ("8scc", "stock market action"),
    "A": ("QcI8sI", "ref side shares stock price"),
    "F": ("QcI8sI4s", "ref side shares stock price maker"),
    "E": ("QIQ", "ref shares match"),
    "C": ("QIQcI", "ref shares match printable price"),
    "X": ("QI", "ref shares"),
    "D": ("Q", "ref"),
    "U": ("QQII", "ref new shares price"),
    "P": ("QcI8sIQ", "ref side shares stock price match"),
    "Q": ("Q8sIQc", "shares stock price match cross"),
    "B": ("Q", "match"),
    "I": ("QQc8sIIIcc", "paired imbalance direction stock far near reference cross variation"),
    "N": ("8sc", "stock flag"),
    "O": ("8scIIIQII", "stock eligible low high near time lower upper"),
}
STRUCTS = {ord(kind): struct.Struct(">" + layout) for kind, (layout, _) in LAYOUTS.items()}
TUPLES = {ord(kind): collections.namedtuple("type_" + kind, names)
          for kind, (_, names) in LAYOUTS.items()}
# Counted in 49,947 messages of a real symbol.
REAL = {kind: count / 49947 for kind, count in
        {"A": 22121, "D": 24150, "E": 2162, "U": 1130, "P": 281, "X": 98}.items()}
LOT = 100
DAY = 86400 * 10**9


class Broken(Exception):
    """A property that does not hold."""


def require(holds, *parts):
    if not holds:
        raise Broken(" ".join(str(part) for part in parts))


def messages(data):
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at:at + 2], "big")
        require(at + 13 <= end <= len(data), "offset", at, "the file ends in a message")
        length, kind, locate, _, high, low = struct.unpack_from(">HcHHHI", data, at)
        require(kind.decode() in LAYOUTS, "offset", at, "unknown type", kind)
        layout = STRUCTS[kind[0]]
        require(length == 11 + layout.size, "offset", at, kind, "has length", length)
        fields = TUPLES[kind[0]](*layout.unpack_from(data, at + 13))
        yield kind.decode(), locate, high << 32 | low, fields
        at = end


class Book:
    """The book of a symbol: price -> {reference: shares}, each level in order of arrival."""

    def __init__(self, stock):
        self.stock = stock
        self.levels = {b"B": {}, b"S": {}}
        self.state = None
        self.halted_here = False
        self.paired = {}
        self.messages = 0
        self.bids = set()
        self.extremes = None

    def best(self, side):
        levels = self.levels[side]
        if not levels:
            return None
        return max(levels) if side == b"B" else min(levels)

    def trading(self):
        return self.state == b"T" and not self.halted_here

    def add(self, ref, side, shares, price):
        self.levels[side].setdefault(price, {})[ref] = shares
        bid, ask = self.best(b"B"), self.best(b"S")
        require(bid is None or ask is None or bid < ask, self.stock, "crossed:", bid, ask)

    def remove(self, ref, side, price):
        del self.levels[side][price][ref]
        if not self.levels[side][price]:
            del self.levels[side][price]


class Day:
    def __init__(self):
        self.counts = collections.Counter()
        self.events = ""
        self.books = {}
        self.orders = {}    # reference -> (book, side, price)
        self.last_ref = 0
        self.last_match = 0
        self.broken = set()
        self.time = 0
        self.opened = self.closed = None
        self.milliseconds = collections.Counter()
        self.crosses = collections.Counter()
        self.resumed = self.two_sided = self.spreads = self.quotes = 0
        self.stocks = []

    def take(self, kind, locate, time, m):
        require(self.time <= time < DAY, "time", time, "after", self.time)
        self.time = time
        self.counts[kind] += 1
        if "Q" in self.events and "M" not in self.events:
            self.milliseconds[time // 10**6] += 1
        if kind in "SVW":
            require(locate == 0, kind, "with locate", locate)
            if kind == "S":
                self.system(m, time)
            return
        if kind == "R":
            self.directory(locate, m)
        book = self.books.get(locate)
        require(book, kind, "for locate", locate, "without a directory message")
        require(getattr(m, "stock", book.stock) == book.stock, kind, m, "is not of", book.stock)
        book.messages += 1
        handler = getattr(self, "take_" + kind, None)
        if handler:
            handler(book, m)

    def system(self, m, time):
        self.events += m.event.decode()
        if m.event == b"Q":
            self.opened = time
            for book in self.books.values():
                require(book.best(b"B") and book.best(b"S"), book.stock, "opens with no quote")
        if m.event == b"M":
            self.closed = time
            for book in self.books.values():
                require(book.trading(), book.stock, "is halted at the close")

    def directory(self, locate, m):
        name = m.stock.decode().rstrip()
        require(locate not in self.books, "locate", locate, "twice")
        require(1 <= len(name) <= 5 and name.isalpha() and name.isupper(), "name", m.stock)
        require(m.lot == LOT, "round lot", m.lot)
        require(not self.stocks or self.stocks[-1] < name, name, "after", self.stocks[-1:])
        self.stocks.append(name)
        self.books[locate] = Book(m.stock)

    def new_order(self, book, ref, side, shares, price):
        require(ref > self.last_ref, "reference", ref, "after", self.last_ref)
        require(shares and shares % LOT == 0, "order of", shares)
        require(price and price % 100 == 0, "order at", price)
        self.last_ref = ref
        self.orders[ref] = (book, side, price)
        book.add(ref, side, shares, price)
        if "Q" in self.events and "M" not in self.events:
            self.look(book)

    def look(self, book):
        bid, ask = book.best(b"B"), book.best(b"S")
        self.quotes += 1
        if bid is None or ask is None:
            return
        self.two_sided += 1
        self.spreads += (ask - bid) / bid
        book.bids.add(bid)
        low, high = book.extremes or (bid, bid)
        book.extremes = min(low, bid), max(high, bid)

    def take_A(self, book, m):
        require(m.side in (b"B", b"S"), "side", m.side)
        self.new_order(book, m.ref, m.side, m.shares, m.price)

    take_F = take_A

    def known(self, book, ref):
        require(ref in self.orders, "unknown reference", ref)
        owner, side, price = self.orders[ref]
        require(owner is book, "reference", ref, "is of another symbol")
        return side, price

    def reduce(self, book, ref, shares, whole):
        side, price = self.known(book, ref)
        level = book.levels[side][price]
        require(0 < shares <= level[ref] - (not whole), shares, "of", level[ref], "taken off", ref)
        require(shares % LOT == 0, "odd lot", shares)
        level[ref] -= shares
        if not level[ref]:
            self.remove(book, ref)

    def remove(self, book, ref):
        side, price = self.known(book, ref)
        book.remove(ref, side, price)
        del self.orders[ref]
        if "Q" in self.events and "M" not in self.events:
            self.look(book)

    def new_match(self, book, match):
        require(match > self.last_match, "match", match, "after", self.last_match)
        self.last_match = match

    def take_E(self, book, m):
        side, price = self.known(book, m.ref)
        require(book.trading(), book.stock, "trades while halted")
        require("Q" in self.events and "M" not in self.events, "traded outside market hours")
        require(price == book.best(side), m.ref, "executed behind the best price")
        require(next(iter(book.levels[side][price])) == m.ref, m.ref, "executed out of turn")
        self.new_match(book, m.match)
        self.reduce(book, m.ref, m.shares, True)

    def take_C(self, book, m):
        bid, ask = book.best(b"B"), book.best(b"S")
        require(bid <= m.price <= ask, "C at", m.price, "between", bid, ask)
        require(m.printable in (b"Y", b"N"), "printable", m.printable)
        self.take_E(book, m)

    def take_X(self, book, m):
        self.reduce(book, m.ref, m.shares, False)

    def take_D(self, book, m):
        self.remove(book, m.ref)

    def take_U(self, book, m):
        side, price = self.known(book, m.ref)
        book.remove(m.ref, side, price)
        del self.orders[m.ref]
        self.new_order(book, m.new, side, m.shares, m.price)

    def take_P(self, book, m):
        bid, ask = book.best(b"B"), book.best(b"S")
        require(book.trading(), book.stock, "trades while halted")
        require(m.ref == 0 and m.side == b"B" and bid < m.price < ask and m.shares, "P", m)
        self.new_match(book, m.match)

    def take_I(self, book, m):
        require(m.cross in (b"O", b"C", b"H"), "I for", m.cross)
        require((m.direction == b"N") == (m.imbalance == 0), "I", m)
        book.paired[m.cross] = m.paired

    def take_Q(self, book, m):
        bid, ask = book.best(b"B"), book.best(b"S")
        require(book.paired.get(m.cross) == m.shares, "cross of", m.shares, "announced:",
                book.paired.get(m.cross))
        require(bid < m.price < ask, "cross at", m.price, "between", bid, ask)
        require((m.cross == b"H") == (not book.trading()), "cross", m.cross, "while", book.state)
        require(self.events == {b"O": "OSQ", b"H": "OSQ", b"C": "OSQM"}[m.cross], "cross", m.cross)
        self.crosses[m.cross] += 1
        self.new_match(book, m.match)

    def take_B(self, book, m):
        require(0 < m.match <= self.last_match and m.match not in self.broken, "broken", m.match)
        self.broken.add(m.match)

    def take_H(self, book, m):
        require(m.state in (b"H", b"P", b"Q", b"T"), "state", m.state)
        require(book.state is not None or m.state == b"T", book.stock, "begins in", m.state)
        self.resumed += book.state in (b"P", b"Q") and m.state == b"T"
        book.state = m.state

    def take_h(self, book, m):
        require(m.action == (b"T" if book.halted_here else b"H"), "h", m)
        book.halted_here = m.action == b"H"

    def take_J(self, book, m):
        require(book.state == b"P" and m.lower < m.reference < m.upper, "J", m, "in", book.state)

    def finish(self, total):
        require(self.events == "OSQMEC", "system events", self.events)
        require(not self.orders, len(self.orders), "orders are left")
        require(set(self.counts) == set(LAYOUTS), "no", set(LAYOUTS) - set(self.counts))
        require(self.crosses[b"O"] and self.crosses[b"C"] and self.crosses[b"H"], self.crosses)
        require(self.resumed, "no symbol resumed")
        require(self.two_sided == self.quotes, "a side was empty", self.quotes - self.two_sided)
        require(self.spreads < 0.05 * self.quotes, "mean spread", self.spreads / self.quotes)
        for book in self.books.values():
            low, high = book.extremes or (1, 1)
            require(high < 2 * low, book.stock, "went from", low, "to", high)
        if total >= 2000:
            require(max(len(book.bids) for book in self.books.values()) > 5, "prices stand still")

    def check_statistics(self, total, symbols_given):
        if total >= 2000 and not symbols_given:
            for kind, share in REAL.items():
                found = self.counts[kind] / total
                require(abs(found - share) < 0.05, kind, f"is {found:.3f}, really {share:.3f}")
        mean = sum(self.milliseconds.values()) * 10**6 / (self.closed - self.opened)
        busiest = max(self.milliseconds.values())
        require(busiest >= 10 * mean, "busiest millisecond", busiest, "mean", mean)
        if len(self.books) >= 64 and total >= 64 * len(self.books):
            active = sorted((book.messages for book in self.books.values()), reverse=True)
            tenth = sum(active[:len(active) // 10]) / sum(active)
            require(tenth > 0.35, f"the most active tenth has {tenth:.2f} of the messages")
        return mean, busiest


def judge(data, expected=None, symbols=None):
    day = Day()
    number = 0
    for number, message in enumerate(messages(data), 1):
        try:
            day.take(*message)
        except Broken as broken:
            raise Broken(f"message {number}: {broken}") from None
    day.finish(number)
    require(not expected or number == expected, number, "messages, expected", expected)
    require(not symbols or len(day.books) == symbols, len(day.books), "symbols")
    mean, busiest = day.check_statistics(number, symbols)
    shares = " ".join(f"{kind}{100 * day.counts[kind] / number:.1f}" for kind in REAL)
    return (f"{number} messages, {len(day.books)} symbols, {shares} %, "
            f"{mean:.2f} a ms, busiest {busiest}")


def made(writer, folder):
    """Days: seed, messages, seconds, rate, symbols, burst (0: the default)."""
    days = [(seed, size, 0, 0, 0, 0) for seed, size in
            itertools.product((1, 2, 3, 7, 2**64 - 1), (520, 1000, 2000, 20000))]
    days += [(0, 100000, 0, 0, 0, 0), (5, 50000, 0, 0, 0, 0), (6, 30000, 0, 2000, 500, 40),
             (8, 64512, 0, 0, 8000, 0), (9, 0, 3, 5000, 300, 10), (10, 5000, 0, 1, 4, 0), (12, 50000, 0, 0, 0, 10),
             (11, 0, 1, 20000, 1, 100)]
    for number, day in enumerate(days):
        path = pathlib.Path(folder, f"{number}.bin")
        command = [writer, *map(str, day), str(path)]
        subprocess.run(command, check=True)
        yield "seed %d messages %d seconds %d rate %d symbols %d burst %d" % day, path, day
        path.unlink()


def frames(data):
    at = 0
    while at < len(data):
        end = at + 2 + (data[at] << 8 | data[at + 1])
        yield data[at:end]
        at = end


def edit(kind, place, layout, change, which=0):
    """Changes a field of the which-th message of that kind. If change returns None, drops the message."""
    def spoil(day):
        found = [i for i, frame in enumerate(day) if frame[2] == ord(kind)][which]
        frame = bytearray(day[found])
        value = change(*struct.unpack_from(layout, frame, 2 + place))
        if value is None:
            return day[:found] + day[found + 1:]
        struct.pack_into(layout, frame, 2 + place, value)
        return day[:found] + [bytes(frame)] + day[found + 1:]
    return spoil


def drop(kind, which=0):
    return edit(kind, 0, "c", lambda value: None, which)


def drop_all(kind):
    return lambda day: [frame for frame in day if frame[2] != ord(kind)]


def even_pace(day):
    """Puts each message a microsecond after the last."""
    return [frame[:7] + (34200 * 10**9 + 1000 * number).to_bytes(6, "big") + frame[13:]
            for number, frame in enumerate(day)]


def swap(kind):
    """Swaps the first two messages of that kind, with their times."""
    def spoil(day):
        one, two = [i for i, frame in enumerate(day) if frame[2] == ord(kind)][:2]
        day = list(day)
        day[one], day[two] = (day[one][:7] + day[one][7:13] + day[two][13:],
                              day[two][:7] + day[two][7:13] + day[one][13:])
        return day
    return spoil


def later(kind):
    """Repeats the first message of that kind at the end of trading, with a fitting time."""
    def spoil(day):
        end = [i for i, frame in enumerate(day) if frame[2] == ord("S")][3]
        frame = next(frame for frame in day if frame[2] == ord(kind))
        return day[:end] + [frame[:7] + day[end][7:13] + frame[13:]] + day[end:]
    return spoil


def another_order(which):
    """Lets an execution hit another order of its side. If `which` finds no order, the next execution is
    tried."""
    def spoil(day):
        market = Day()
        for i, message in enumerate(messages(b"".join(day))):
            kind, locate, _, m = message
            if kind == "E":
                side, price = market.known(market.books[locate], m.ref)
                ref = which(market.books[locate].levels[side], price)
                if ref:
                    return day[:i] + [day[i][:13] + ref.to_bytes(8, "big") + day[i][21:]] \
                        + day[i + 1:]
            market.take(*message)
        raise AssertionError("no execution to spoil")
    return spoil


def halted_before(day):
    """Halts the symbol of the first execution just before it."""
    at = next(i for i, frame in enumerate(day) if frame[2] == ord("E"))
    head = day[at][3:13]
    about = next(f for f in day if f[2] == ord("H") and f[3:5] == head[:2])
    return day[:at] + [about[:3] + head + about[13:21] + b"H" + about[22:]] + day[at:]


def behind(levels, best):
    return next((next(iter(levels[price])) for price in levels if price != best), None)


def second(levels, best):
    return next(itertools.islice(levels[best], 1, None), None)


# how a day is spoiled: the change, and the judge's verdict
SPOILT = {
    "length": (lambda day: [b"\0\x0d" + day[0][2:] + b"\0"] + day[1:], "has length 13"),
    "unknown type": (edit("A", 0, "B", lambda _: ord("Z")), "unknown type"),
    "cut": (lambda day: day[:-1] + [day[-1][:-1]], "ends in a message"),
    "time goes back": (edit("D", 5, ">H", lambda _: 0), "after"),
    "no end of messages": (drop("S", 5), "system events"),
    "no directory": (drop("R"), "without a directory"),
    "names out of order": (swap("R"), "after"),
    "a name in lower case": (edit("R", 11, "B", lambda _: ord("a")), "name"),
    "unknown reference": (edit("D", 11, ">Q", lambda ref: ref + 10**9), "unknown reference"),
    "another symbol's order": (edit("D", 1, ">H", lambda locate: 3 - min(locate, 2)), "another"),
    "another symbol's name": (edit("A", 24, "B", lambda letter: letter ^ 1), "is not of"),
    "a reference twice": (later("A"), "reference"),
    "an order stays": (drop("D", -1), "orders are left"),
    "odd lot": (edit("A", 20, ">I", lambda shares: shares + 1), "order of"),
    "price between cents": (edit("A", 32, ">I", lambda price: price + 1), "order at"),
    "crossed": (edit("A", 32, ">I", lambda price: price * 3), "crossed"),
    "too much executed": (edit("E", 19, ">I", lambda shares: shares + 10**6), "taken off"),
    "nothing executed": (edit("E", 19, ">I", lambda shares: 0), "taken off"),
    "all cancelled": (edit("X", 19, ">I", lambda shares: shares + 10**6), "taken off"),
    "a match number twice": (edit("E", 23, ">Q", lambda match: 1), "match"),
    "executed behind the best": (another_order(behind), "behind the best"),
    "executed out of turn": (another_order(second), "out of turn"),
    "C outside the quote": (edit("C", 32, ">I", lambda price: price * 2), "C at"),
    "hidden outside the quote": (edit("P", 32, ">I", lambda price: price * 2), "P"),
    "a cross not announced": (drop("I"), "announced"),
    "a cross of another size": (edit("Q", 11, ">Q", lambda shares: shares + 100), "announced"),
    "a cross outside the quote": (edit("Q", 27, ">I", lambda price: price * 2), "cross at"),
    "broken before it was made": (edit("B", 11, ">Q", lambda match: match + 10**6), "broken"),
    "halted to the close": (drop("H", -1), "halted at the close"),
    "trades while halted": (halted_before, "trades while halted"),
    "a halt cross while trading": (edit("H", 19, "B", lambda _: ord("T"), -4), "cross"),
    "halted twice": (drop("h", 1), "halted at the close"),
    "a collar without a pause": (edit("H", 19, "B", lambda _: ord("H"), -2), "J"),
    "even pace": (even_pace, "busiest millisecond"),
}
SPOILT.update({"no " + kind: (drop_all(kind), f"no {{'{kind}'}}") for kind in "PBNOKLVWJYh"})


def prove(writer, folder):
    """The judge must find each fault for what it is, and no fault in the day itself."""
    path = pathlib.Path(folder, "day.bin")
    subprocess.run([writer, "6", "3000", "0", "0", "0", "0", str(path)], check=True)
    day = list(frames(path.read_bytes()))
    judge(b"".join(day), 3000)
    unseen = 0
    for name, (spoil, expected) in SPOILT.items():
        try:
            judge(b"".join(spoil(day)))
            said = "nothing"
        except Broken as broken:
            said = str(broken)
        unseen += expected not in said
        print(f"{name}: {'found' if expected in said else 'NOT FOUND'}: {said}")
    return unseen


def main(arguments):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        if arguments[:1] == ["--spoil"]:
            return 1 if prove(arguments[1], folder) else 0
        if arguments[:1] == ["--make"]:
            days = made(arguments[1], folder)
        else:
            days = ((path, path, (None,) * 5) for path in arguments)
        for name, path, day in days:
            try:
                print(name + ": " + judge(pathlib.Path(path).read_bytes(), day[1], day[4]))
            except Broken as broken:
                failed += 1
                print(f"{name}: BROKEN: {broken}")
    return 1 if failed or not arguments else 0


sys.exit(main(sys.argv[1:]))
