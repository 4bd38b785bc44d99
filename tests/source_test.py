#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of layers.py, labels.py and decisions.py find what they are for: in small trees that break each rule."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import decisions
import labels
import layers

CONTROL = "int control_encode(void);\nint control_encode(void) { return 1; }\n"
USES_CONTROL = "int control_encode(void);\nint shm_send(void);\nint shm_send(void) { return control_encode(); }\n"
UPPER = "int lower(void);\nint upper(void);\nint upper(void) { return lower(); }\n"
LOWER = "int upper(void);\nint lower(void);\nint lower(void) { return upper(); }\n"
LEAF = "int lower(void);\nint lower(void) { return 0; }\n"


class Layers(unittest.TestCase):
    def breaches(self, files):
        """What layers.py finds in a tree with these files, compiled."""
        with tempfile.TemporaryDirectory() as folder:
            layers.ROOT = pathlib.Path(folder).resolve()
            build = layers.ROOT / "build"
            build.mkdir()
            entries = []
            for name, text in files.items():
                source, output = layers.ROOT / name, build / f"{name}.o"
                source.parent.mkdir(parents=True, exist_ok=True)
                output.parent.mkdir(parents=True, exist_ok=True)
                source.write_text(text)
                if name.endswith(".c"):
                    subprocess.run(["cc", "-c", "-o", output, source], check=True)
                    entries.append({"directory": folder, "file": str(source), "output": f"{name}.o"})
            (build / "compile_commands.json").write_text(json.dumps(entries))
            found = list(layers.symbol_breaches(build))
            return found + [breach for name in ("bus/shm", "subscriber") for breach in layers.include_breaches(name)]

    def test_files_in_one_direction_pass(self):
        self.assertEqual(self.breaches({"subscriber/upper.c": UPPER, "subscriber/lower.c": LEAF}), [])

    def test_cycle_of_symbols_is_found(self):
        found = self.breaches({"subscriber/upper.c": UPPER, "subscriber/lower.c": LOWER})
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], "a cycle: .*lower.c uses upper of .*; .*upper.c uses lower of ")

    def test_fabric_that_uses_control_messages_is_found(self):
        found = self.breaches({"bus/control.c": CONTROL, "bus/control.h": "", "bus/shm/shm.c": USES_CONTROL})
        self.assertRegex("\n".join(found), "bus/shm/shm.c: uses control_encode of bus/control.c, bus/shm may use")

    def test_forbidden_include_is_found(self):
        found = self.breaches({"subscriber/lower.c": LEAF, "bus/shm/shm.h": '#include "bus/control.h"\n'})
        self.assertRegex("\n".join(found), "bus/shm/shm.h:1: includes bus/control.h")

    def test_build_without_objects_is_found(self):
        self.assertRegex("\n".join(self.breaches({})), "found no objects")


class Labels(unittest.TestCase):
    def test_defined_label_may_be_named(self):
        self.assertEqual(labels.breaches({"a.c": "/* Q1  A rule. */\nint x; /* Q1 */\n"}), ([], 1))

    def test_second_definition_is_found(self):
        found, _ = labels.breaches({"a.c": "/* Q1  A rule. */\n", "b.c": "\n/* Q1  Another rule. */\n"})
        self.assertEqual(found, ["b.c:2: defines Q1, which a.c:1 defines too"])

    def test_label_without_definition_is_found(self):
        self.assertEqual(labels.breaches({"a.c": "int x; /* Q2 */\n"})[0],
                         ["a.c:1: names Q2, found no definition of it"])


class Decisions(unittest.TestCase):
    PAGE = {"a.md": "# Page\n\n## Part\n\n### `x` is read\n\n## Whole\n"}
    LIST = "- [`x` is read](a.md#x-is-read)\n- [Whole](a.md#whole)\n"

    def test_whole_list_passes(self):
        self.assertEqual(decisions.breaches(self.LIST, self.PAGE), [])

    def test_decision_that_is_not_listed_is_found(self):
        self.assertEqual(decisions.breaches(self.LIST, {"a.md": self.PAGE["a.md"] + "## More\n"}),
                         ["README.md: lacks the decision \"More\" of a.md"])

    def test_entry_without_decision_is_found(self):
        self.assertEqual(decisions.breaches(self.LIST + "- [Less](a.md#less)\n", self.PAGE),
                         ["README.md: names \"Less\", found no such decision in a.md"])

    def test_wrong_fragment_is_found(self):
        self.assertEqual(decisions.breaches(self.LIST.replace("#whole", "#part"), self.PAGE),
                         ["README.md: \"Whole\" points to #part, expected #whole"])


if __name__ == "__main__":
    unittest.main()
