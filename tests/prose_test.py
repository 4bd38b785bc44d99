#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/prose itself: each rule finds bad samples and passes good samples; each reader of texts finds the
right line, and leaves code out."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "prose"
LOADER = importlib.machinery.SourceFileLoader("prose", str(SCRIPT))
SPEC = importlib.util.spec_from_loader("prose", LOADER)
prose = importlib.util.module_from_spec(SPEC)
sys.modules["prose"] = prose
sys.path.insert(0, str(SCRIPT.parent))
LOADER.exec_module(prose)

# rule -> (texts in which it finds something, texts in which no rule does)
SAMPLES = {
    "who": (["Who connects is refused.", "a lock for who waits"], ["Who writes, who reads, and which store pairs."]),
    "whoever": (["whoever listens", "to whom it belongs"], ["Every listener gets the message."]),
    "tell": (["It tells the reader.", "The reader is told.", "Tell it."], ["It reports the error to the reader."]),
    "of use": (["The key is of no use.", "Of use with a flag alone."], ["The end of use of a key.", "It is useful."]),
    "be had": (["no socket can be had", "how another GID is had"], ["It had a record.", "No socket is available."]),
    "such": (["a topic is not such", "Such topics end."], ["A setting such as this is read.", "suchlike"]),
    "none": (["none of them", "It has none.", "so that none is lost", "ready, none lost"],
             ["one of auto, none, ud", "NULL: none", "nonetheless"]),
    "one": (["the old one is left", "another one", "a topic of ours or one that ended", "older ones", "one of ours",
             "the one in the list"],
            ["one topic", "one of the topics", "at least one.", "one or more", "one by one.", "more than one."]),
    "nobody": (["nobody listens", "Somebody else writes."], ["No client listens."]),
    "likewise": (["Likewise the reader."], ["The reader also waits."]),
    "anew": (["opens the log anew"], ["opens the log again", "renewed"]),
    "what is not": (["What is not there is waited for.", "what cannot be read"], ["What is read is a copy."]),
    "says nothing": (["a message that says nothing", "Nothing is known of it."], ["an empty message"]),
    "of first": (["Of the longest notice; 256 to 4,096", "It ends. Of a list it is the last."],
                 ["the last of a list", "Size of the longest notice", "of this structure; grows at its end"]),
    "double negative": (["It is not unusual.", "No reader may not read.", "Nobody reads what was not written.",
                         "A link never has no key.", "not without a key"],
                        ["not under a lock", "It is not read, and not written.", "no size or no name",
                         "Topics in no realm send no notices.",
                         "not until the end"]),
    "no more than": (["no more than 16"], ["at most 16", "no more records"]),
    "no less than": (["not less than 16"], ["at least 16"]),
    "words": (["refused in words", "tb_error() has the words", "0 or -ENOMEM with words"],
              ["two words of 64 bits", "a slot of words"]),
    "crowd": (["the group of a crowd"], ["crowded"]),
    "gate": (["each gate has a group"], ["gateway", "gate_open returns"]),
    "graveyard": (["the graveyard of peers"], ["dead peers"]),
    "bury": (["buried peers"], ["removed peers"]),
    "notable": (["a notable event"], ["a logged event"]),
    "verbs_told": (["see verbs_told for it"], ["private data"]),
    "alarm": (["sets an alarm"], ["an asynchronous event"]),
    "somehow": (["joins somehow"], ["joins with a fallback"]),
    "made-up exchange": (["a made-up exchange"], ["a group made up of hosts"]),
    "keeps house": (["it keeps house"], ["it keeps records"]),
    "wall": (["between walls"], ["the wall clock", "firewall"]),
    "witness": (["the witness lost it"], ["the control subscriber"]),
    "clinger": (["a clinger stays"], ["a dead peer stays"]),
}

MAN = """.Dd November 21, 2026
.Sh NAME
.Nm tickbus
.Nd told and sold
.Sh SYNOPSIS
.Nm told
.Sh DESCRIPTION
See
.Xr told 1 ,
then
.Pq Cm told , No is told .
.Bd -literal
told
.Ed
.Dl told
.It Li told
Anew.
"""
MARKDOWN = """# Who
Read `who` [anew](who.md).

```sh
who
```

| `who` | likewise |
|---|---|
- whoever,
  told
"""
C = r"""/* SPDX-License-Identifier: who */
#include "who/who and who.h"
/* W1  a quote: "
 *
 * It is told. */
static const struct command_option options[] = {
	{ "who", NULL, "print it anew", 'w' }, /* likewise */
};

static int run(struct command *command)
{
	return error_set("%s: such "
			 "a thing\n" PRIu64 " is told", "who") || 'w' == '"';
}
static_assert(sizeof(int), "who knows it");
"""
SCRIPT_TEXT = '''#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs anew.

  scripts/who --told       starts likewise
"""
# This is told.
def run():
    """For whoever
    is told."""
    return "who # who"
'''
TESTS = """Test(who, a_reader_is_told, .timeout = 3)
ParameterizedTest(const int *index, who, """ + "long_" * 12 + """name)
TestSuite(told, .init = told);
"""


def found(reader, source):
    """(line, rule) of each finding."""
    measured = prose.Measure()
    for paragraph in getattr(prose.texts, reader)(source):
        measured.add("file", "docs", paragraph)
    return [(each.line, each.what.split('"')[1].lower()) for each in measured.findings]


class Rules(unittest.TestCase):
    def test_every_rule_has_samples(self):
        self.assertEqual({name for name, _, _ in prose.RULES}, set(SAMPLES))

    def test_rule_finds_bad_and_passes_good(self):
        for name, (bad, good) in SAMPLES.items():
            for text in bad:
                with self.subTest(rule=name, bad=text):
                    self.assertTrue(any(f"({name})" in what for _, what, _ in prose.word_findings(text)))
            for text in good:
                with self.subTest(rule=name, good=text):
                    self.assertEqual(list(prose.word_findings(text)), [])

    def test_sentence_is_bounded(self):
        for count, findings in ((25, 0), (26, 1)):
            text = "Short. " + " ".join(["word"] * count) + ". Short, e.g. this."
            self.assertEqual(len(list(prose.length_findings(text, "docs"))), findings)

    def test_error_in_a_list_is_a_sentence(self):
        self.assertEqual(len(list(prose.texts.sentences("-EINVAL options; -ENOENT unknown. Then 1.5 s."))), 3)

    def test_test_name_is_bounded(self):
        self.assertEqual(len(list(prose.length_findings("n" * 61, "test-names"))), 1)
        self.assertEqual(len(list(prose.length_findings("n" * 60, "test-names"))), 0)

    def test_code_is_one_word(self):
        text = prose.texts.Paragraph([(1, "See `tb_poll(a b)` at"), (2, "https://host/a/b. It ends.")]).text
        self.assertEqual([prose.texts.word_count(sentence) for _, sentence in prose.texts.sentences(text)], [4, 2])


class Readers(unittest.TestCase):
    def test_man_page(self):
        self.assertEqual(found("of_man_page", MAN), [(4, "told"), (11, "told"), (17, "anew")])

    def test_markdown(self):
        self.assertEqual(found("of_markdown", MARKDOWN), [(1, "who"), (2, "anew"), (8, "likewise"), (10, "whoever"),
                                                   (11, "told")])

    def test_comments(self):
        self.assertEqual(found("of_comments", C), [(5, "told"), (7, "likewise")])

    def test_help(self):
        self.assertEqual(found("of_help", C), [(7, "anew")])
        self.assertEqual(found("of_script_head", SCRIPT_TEXT), [(3, "anew"), (5, "likewise")])

    def test_messages(self):
        self.assertEqual(found("of_messages", C), [(12, "such"), (13, "told")])

    def test_script(self):
        self.assertEqual(found("of_script_body", SCRIPT_TEXT), [(7, "told"), (9, "whoever"), (10, "told")])

        self.assertEqual(found("of_script", SCRIPT_TEXT)[:3], [(3, "anew"), (5, "likewise"), (7, "told")])

    def test_test_names(self):
        measured = prose.Measure()
        for paragraph in prose.texts.of_test_names(TESTS):
            measured.add("file", "test-names", paragraph)
        self.assertEqual([each.line for each in measured.findings], [1, 2])


class Counts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "tests").mkdir()
        self.write("docs", 2)

    def write(self, kind, findings):
        (self.root / kind).mkdir(exist_ok=True)
        (self.root / kind / "a.md").write_text("Who waits.\n\n" * findings)

    def run_prose(self, *arguments):
        """Exit status, and what it prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = prose.main(["--root", str(self.root), *arguments])
        return status, out.getvalue()

    def test_counts_only_fall(self):
        self.assertEqual(self.run_prose("--lower")[0], 0)
        self.assertEqual(self.run_prose()[0], 0)
        self.write("docs", 3)
        status, said = self.run_prose()
        self.assertEqual(status, 1)
        self.assertIn('docs/a.md:5: docs: "Who" (who)', said)
        self.assertEqual(self.run_prose("--lower")[0], 1)
        self.write("docs", 1)
        status, said = self.run_prose()
        self.assertEqual(status, 1)
        self.assertIn("--lower", said)
        self.assertEqual(self.run_prose("--lower")[0], 0)
        self.assertEqual(self.run_prose()[0], 0)
        self.write("docs", 2)
        self.assertEqual(self.run_prose()[0], 1)

    def test_kind_without_a_count_is_strict(self):
        self.assertEqual(self.run_prose()[0], 1)

    def test_files_and_kinds_are_printed(self):
        status, said = self.run_prose(str(self.root / "docs/a.md"))
        self.assertEqual((status, len(said.splitlines())), (1, 2))
        self.assertEqual(self.run_prose("--kind", "docs"), (status, said))
        self.assertEqual(self.run_prose("--kind", "man"), (0, ""))
        self.assertEqual(self.run_prose(str(self.root / "missing.md"))[0], 2)


if __name__ == "__main__":
    unittest.main()
