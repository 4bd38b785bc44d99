# SPDX-License-Identifier: Apache-2.0
"""Finds the texts that scripts/prose checks: in C, man pages, Markdown, scripts and names of tests.

A reader takes the source of a file and gives its paragraphs. Code in a paragraph is masked, and counts as a
word. An item of a list, a cell or row of a table, and a heading are paragraphs of their own.
"""
import bisect
import collections
import re


def masked(found):
    return "X" * len(found.group())


CODE = re.compile(r"`[^`]+`|https?://[^\s)>]*[\w/]|<[\w.-]+@[\w.-]+>|%[-+#0*.\d]*(?:hh|h|ll|l|j|z|t)?[diouxXscpgfeEm]"
                  r"|\b\w+\([^() ]*\)|[\w.~*-]*(?:/[\w*-]+(?:\.[\w*-]+)*)+/?")


class Paragraph:
    """Lines that belong together, and which line each letter came from."""

    def __init__(self, lines):
        self.starts, self.numbers, parts, at = [], [], [], 0
        for number, text in lines:
            text = text.strip()
            self.starts.append(at)
            self.numbers.append(number)
            parts.append(text)
            at += len(text) + 1
        self.text = CODE.sub(masked, " ".join(parts))

    def line(self, offset):
        return self.numbers[bisect.bisect_right(self.starts, offset) - 1]


SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)(?<!\.\.)[.!?][\"')\]*]*\s+|\.\.\.\s+(?=[A-Z])"
                          r"|;\s+(?=-E[A-Z])")
WORD = re.compile(r"\S*[A-Za-z0-9]\S*")


def sentences(text):
    """(offset, sentence) for each sentence of a paragraph."""
    at = 0
    for end in SENTENCE_END.finditer(text):
        yield at, text[at:end.end()].rstrip()
        at = end.end()
    if text[at:].strip():
        yield at, text[at:]


def word_count(sentence):
    return len(WORD.findall(sentence))


BREAK = re.compile(r"""^\s*(?:
      [-*]\s                                # an item
    | \(?\d+[.)]\s | [A-Z]\d+:\s            # a numbered item, a labelled one
    | @?\w[\w()*/-]*(?:\ [\w()*/-]+)?\ {2,}\S  # a row of a table, the label that it begins with
    )""", re.X)
ROW = re.compile(r"^\s*(\S.*?)\s{2,}(?=\S)")


def paragraphs(lines):
    """Splits at blank lines, at items and at rows of tables; a row's first column is code."""
    group = []
    for number, text in lines:
        if group and (not text.strip() or BREAK.match(text)):
            yield Paragraph(group)
            group = []
        if text.strip():
            group.append((number, text))
    if group:
        yield Paragraph(group)


# C: one pass over tokens, so that a quote in a comment and a comment in a string are what they are.

C_TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^\#\s*(?:include|pragma)[^\n]*"""
                     r"|[A-Za-z_]\w*|[^\s\w]", re.S | re.M)
MACRO = re.compile(r"[A-Z]\w*[A-Z0-9]$")  # PRIu64, TICKBUS_VERSION
ESCAPES = {r"\n": "\n", r"\"": "\"", r"\t": "\t", r"\\": "\\"}
SILENT = {"static_assert", "_Static_assert", "volatile", "asm", "_Pragma", "sscanf", "strspn", "strcspn", "strpbrk"}
HELP = {"command", "command_option", "help", "COMMAND_TIMEOUT"}  # what is declared with texts of --help
PROSE = re.compile(r"[A-Za-z]{2}\S* +\S*[A-Za-z]{2}")
GENERATED = re.compile(r"^(?:\\t|typedef |struct |static |const )|;\\n|#(?:include|define|ifndef|endif)"
                       r"|\\\\\\n")  # C that schemas/ prints
Literal = collections.namedtuple("Literal", "pieces owner called")  # owner: names of what it is in


def numbered(source):
    """The line of each offset."""
    starts = [0] + [end.end() for end in re.finditer("\n", source)]
    return lambda offset: bisect.bisect_right(starts, offset)


def c_comments(source):
    line = numbered(source)
    for token in C_TOKEN.finditer(source):
        if token.group()[:2] in ("/*", "//"):
            yield line(token.start()), token.group()


def comment_lines(first, comment):
    body = comment[2:-2] if comment.startswith("/*") else comment[2:]
    return [(number, re.sub(r"^\s*\* ?", "", text)) for number, text in enumerate(body.split("\n"), first)]


def of_comments(source):
    for first, comment in c_comments(source):
        if "SPDX-License" not in comment and "clang-format o" not in comment:
            yield from paragraphs(comment_lines(first, comment))


def c_literals(source):
    """Every string, with adjacent pieces joined; what it is in, and what it is passed to."""
    line = numbered(source)
    owner, calls, pieces, last, declared = set(), [], [], "", False
    for token in C_TOKEN.finditer(source):
        text = token.group()
        if text[:2] in ("/*", "//") or text == "\\":  # neither parts adjacent pieces
            continue
        if text.startswith('"'):
            pieces.append((line(token.start()), text[1:-1]))
            continue
        if pieces and MACRO.match(text):
            pieces.append((line(token.start()), "X"))
            continue
        if pieces:
            yield Literal(pieces, owner, calls[-1] if calls else "")
            pieces = []
        if text == "(":
            calls.append(last)
        elif text == ")" and calls:
            calls.pop()
        elif source[token.start() - 1] == "\n" and (text[0].isalpha() or text in "#_"):
            owner, calls, declared = set(), [], False
        declared = declared or text in "{="
        if not declared and not calls:
            owner.add(text)
        last = text


def literal_lines(literal):
    """Lines of what is printed, each with the line of the source that it began in."""
    for first, piece in literal.pieces:
        for text in re.split(r"(?<=\n)", re.sub(r"\\.", lambda m: ESCAPES.get(m.group(), " "), piece)):
            yield first, text


def literal_paragraphs(literal):
    lines, joined = [], False
    for number, text in literal_lines(literal):
        if joined and lines:
            lines[-1] = (lines[-1][0], lines[-1][1] + text)
        else:
            lines.append((number, text))
        joined = not text.endswith("\n")
    return paragraphs_of_help([(number, text.rstrip("\n")) for number, text in lines])


def paragraphs_of_help(lines):
    """Option tables: what is left of two blanks is code, and each row is a sentence of its own."""
    group = []
    for number, text in lines:
        row = ROW.match(text)
        command = re.match(r"\s*(?:usage: |scripts/|\$ )", text)
        if group and (row or command or not text.strip() or text.startswith("  ")):
            yield Paragraph(group)
            group = []
        if text.strip() and not (command and not row):
            group.append((number, text[row.end():] if row else text))
    if group:
        yield Paragraph(group)


def is_help(literal, text):
    return "usage: " in text or HELP & literal.owner or any(re.search("usage|help_", name) for name in literal.owner)


def literals_of(source, wanted):
    for literal in c_literals(source):
        text = "".join(piece for _, piece in literal.pieces)
        if literal.called not in SILENT and PROSE.search(text) and not GENERATED.search(text) \
                and bool(is_help(literal, text)) == wanted:
            yield from literal_paragraphs(literal)


def of_messages(source):
    yield from literals_of(source, False)


def of_help(source):
    yield from literals_of(source, True)


# Scripts: the comment or docstring at the top is what --help prints.

def script_head(source):
    lines = list(enumerate(source.split("\n"), 1))[2:]
    if lines and lines[0][1].startswith('"""'):
        end = next((i for i, (_, text) in enumerate(lines) if '"""' in text[3 if i == 0 else 0:]), 0)
        return [(number, text.replace('"""', "")) for number, text in lines[:end + 1]]
    head = []
    for number, text in lines:
        if not text.startswith("#"):
            break
        head.append((number, re.sub("^# ?", "", text)))
    return head


def of_script_head(source):
    return paragraphs_of_help(script_head(source))


PYTHON = re.compile(r"^#!.*python|^(?:import|def) ", re.M)
PY_TOKEN = re.compile(r'^\s*(?P<doc>"""(?:.|\n)*?""")|"""(?:.|\n)*?"""'
                      r"|'''(?:.|\n)*?'''"
                      r'|"(?:\\.|[^"\\\n])*"'
                      r"|'(?:\\.|[^'\\\n])*'|(?:(?<=\s)|^)(?P<comment>\#[^\n]*)", re.M)
SILENT_COMMENT = re.compile("#!|# SPDX-License")
SH_TOKEN = re.compile(r"^\s*(?P<comment>\#[^\n]*)", re.M)


def of_script_body(source):
    return of_script(source, {number for number, _ in script_head(source)})


def of_script(source, without=()):
    """Comments and docstrings but those that begin in some lines."""
    line, last, group = numbered(source), 0, []
    token = PY_TOKEN if PYTHON.search(source) else SH_TOKEN
    for found in token.finditer(source):
        part = found.lastgroup
        first = line(found.start(part)) if part else 0
        if not part or first in without or SILENT_COMMENT.match(found[part]):
            continue
        if part == "doc" or first != last + 1:
            yield from paragraphs(group)
            group = []
        group += enumerate(found[part].strip('#"').split("\n"), first)
        last = 0 if part == "doc" else first
    yield from paragraphs(group)


# Man pages: what mdoc(7) macros mark as code is one word, their punctuation stays.

MDOC_CODE = set("Nm Xr Fn Fa Fo Fl Ar Cm Ic Li Dv Er Ev Pa Va Vt Ft Ql Dl In Op Sy Ad Lk Mt Cd Tn St".split())
MDOC_TEXT = set("Pq Dq Sq Em No Nd Qq Po Pc Ns Pf Ap Bq".split())
MDOC_SKIP = re.compile(r"\.(?:\\\"|Dd|Dt|Os|In|Ft|Fo|Fc|Rv|Ex)")
MDOC_BREAK = set("Nd Pp Sh Ss It Bl El Bd Ed Dl D1".split())
ROFF = re.compile(r"\\(?:\(..|&|e|\[\w+\]|f[BIRP])")


def mdoc_line(text):
    """A macro line as the text that it prints, with X for code."""
    words, code = [], False
    for token in re.findall(r'"[^"]*"|\S+', ROFF.sub("", text[1:])):
        if token in MDOC_CODE:
            code = True
            words.append("X")
        elif token in MDOC_TEXT:
            code = False
        elif re.fullmatch(r"[.,;:?!()]", token):
            words[-1:] = [words[-1] + token] if words else [token]
        elif not code:
            words.append(token.strip('"'))
        elif re.search(r"[.,;:?!)]$", words[-1]):
            words.append("X")
    return " ".join(words)


def of_man_page(source):
    lines, literal, section = [], False, ""
    for number, text in enumerate(source.split("\n"), 1):
        macro = text[1:3].strip() if text.startswith(".") else ""
        if macro == "Sh":
            section = text[4:]
        if macro in ("Bd", "Ed"):
            literal = macro == "Bd" and "-literal" in text
        if literal or section == "SYNOPSIS" or MDOC_SKIP.match(text):
            continue
        if macro in MDOC_BREAK:
            lines.append((number, ""))
            if macro == "Nd":
                lines.append((number, mdoc_line(text)))
        elif macro:
            lines.append((number, mdoc_line(text)))
        else:
            lines.append((number, ROFF.sub(" ", text)))
    for paragraph in paragraphs(lines):
        paragraph.text = re.sub(r" ([.,;:?!)])", r"\1 ", paragraph.text)
        yield paragraph


# Markdown: headings, items and cells of tables are paragraphs of their own.

def of_markdown(source):
    fence = None
    lines = []
    for number, text in enumerate(source.split("\n"), 1):
        mark = re.match(r"\s*(```|~~~)", text)
        if mark:
            fence = None if fence else mark.group(1)
            text = ""
        elif fence or re.match(r"\s*(\|[-: |]+\||<!--.*)$", text):
            text = ""
        elif text.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", text.strip().strip("|")):
                lines += [(number, ""), (number, markdown_plain(cell))]
            continue
        if text.startswith("#"):
            lines += [(number, ""), (number, text.lstrip("# ")), (number, "")]
            continue
        lines.append((number, markdown_plain(text)))
    return paragraphs(lines)


def markdown_plain(text):
    text = re.sub(r"^\s*>\s?", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*", "", text)


# Criterion's tests: a name is a sentence whose blanks are underscores.

TEST_NAME = re.compile(r"^(?:Test|ParameterizedTest|ParameterizedTestParameters|Theory)\((?:[^,()]*\*[^,]*, *)?"
                       r"\s*\w+,\s*(\w+)", re.M)


def of_test_names(source):
    line = numbered(source)
    for found in TEST_NAME.finditer(source):
        yield Paragraph([(line(found.start(1)), found.group(1).replace("_", " "))])
