"""Tests of check_includes.py on a small made-up house."""
import pathlib
import subprocess
import tempfile
import unittest

import check_includes

HEADERS = {
    "src/headwise/a/row.h": "namespace headwise {\nstruct Row {\n};\n"
                            "int64_t RowsOf(const Text& text);\n"
                            "[[noreturn]] void RefuseRow(int64_t row);\n}\n",
    "src/headwise/a/all.h": '#include "headwise/a/row.h"\n',
    "src/headwise/a/ahead.h": "namespace headwise {\nclass Row;\n}\n",
}
# Whom the others are compiled with.
NEIGHBOUR = '#include "headwise/a/row.h"\nRow row;\n'


class CheckIncludesTest(unittest.TestCase):
    def house(self, text, name="one.cc", layer="src/headwise/a"):
        """A small house and a source in it."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        files = {**HEADERS, f"{layer}/neighbour.cc": NEIGHBOUR,
                 f"{layer}/{name}": text}
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        return check_includes.House(root), root / layer / name

    def missing(self, *source, **where):
        """What is missed in a source of the house."""
        house, path = self.house(*source, **where)
        return [(name, home.name) for name, home in house.missing(path)]

    def missing_standard(self, text):
        house, path = self.house(text, name="one.h")
        return list(house.missing_standard(path))

    def test_a_type_and_a_function_need_their_header(self):
        self.assertEqual(self.missing("void F() { Row row; }\n"),
                         [("Row", "row.h")])
        self.assertEqual(self.missing("auto n = RowsOf(text);\n"),
                         [("RowsOf", "row.h")])

    def test_a_function_with_an_attribute_needs_its_header(self):
        self.assertEqual(self.missing("void F() { RefuseRow(1); }\n"),
                         [("RefuseRow", "row.h")])

    def test_a_header_may_come_by_another(self):
        self.assertEqual(self.missing(
            '#include "headwise/a/all.h"\nRow row;\n'), [])

    def test_a_name_of_the_standard_library_needs_its_header(self):
        self.assertEqual(self.missing_standard("std::string text;\n"),
                         [("string", "string")])
        for text in ("#include <string>\nstd::string text;\n",
                     "#include <map>\nstd::pair<int, int> both;\n",
                     "// std::string\n"):
            self.assertEqual(self.missing_standard(text), [], text)

    def test_a_forward_declaration_is_not_enough(self):
        self.assertEqual(self.missing(
            '#include "headwise/a/ahead.h"\nRow row;\n'),
            [("Row", "row.h")])

    def test_what_is_no_use_of_the_name_needs_nothing(self):
        for text in ("// a Row\n", 'auto s = "Row";\n', "table.Row();\n",
                     "other::Row row;\n", "struct Row {\n};\nRow row;\n",
                     "  const auto Row = 3;\n  F(Row);\n",
                     "constexpr int kA = 2, kRow = 3;\n"):
            self.assertEqual(self.missing(text), [], text)

    def test_sources_of_a_folder_without_layers_are_compiled_together(self):
        for layer in "apps/headwise", "tests/conformance":
            self.assertEqual(self.missing("Row row;\n", layer=layer),
                             [("Row", "row.h")], layer)

    def test_tests_are_compiled_with_tests(self):
        # None of them includes it: nobody could have lent it.
        self.assertEqual(self.missing("Row row;\n", "one_test.cc"), [])


if __name__ == "__main__":
    unittest.main()
