"""Tests of make_api.py, and that docs/api.md is what it makes."""
import pathlib
import re
import tempfile
import unittest

import make_api

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEADER = """// What a thing is.
#pragma once

#include <string>

namespace headwise {

class Context;  // context.h

/// A thing of two parts.
struct HEADWISE_API Thing {
  int first = 0;  ///< the first
  int Both() const { return first + second_; }
  int Long() const {
    return first;
  }

 private:
  int second_ = 0;
};

/// Makes one.
HEADWISE_API Thing MakeThing(int first,
                             int second = 1);
HEADWISE_API Thing MakeThing();

}  // namespace headwise
"""


class MakeApi(unittest.TestCase):
    def chapter(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "thing.h"
            path.write_text(HEADER)
            return "\n".join(make_api.chapter(path))

    def test_declarations_come_with_their_comments(self):
        text = self.chapter()
        self.assertIn("## headwise/thing.h\n\nWhat a thing is.\n", text)
        self.assertIn("### Thing\n\nA thing of two parts.\n\n```cpp\n"
                      "struct Thing {\n  int first = 0;  // the first\n"
                      "  int Both() const;\n  int Long() const;\n};\n```", text)
        self.assertIn("Thing MakeThing(int first,", text)

    def test_private_parts_and_forward_declarations_stay_out(self):
        text = self.chapter()
        self.assertNotIn("second_", text)
        self.assertNotIn("Context", text)

    def test_overloads_share_a_heading(self):
        self.assertEqual(self.chapter().count("### MakeThing"), 1)

    def test_the_page_is_current(self):
        made = make_api.page(ROOT)
        self.assertEqual((ROOT / "docs" / "api.md").read_text(), made,
                         "run tools/make_api.py")

    def test_every_function_of_the_doors_is_on_the_page(self):
        page = make_api.page(ROOT)
        for header in ("model", "session", "profile", "roles", "rank",
                       "prune", "report", "tokenizer"):
            text = (ROOT / f"include/headwise/{header}.h").read_text()
            for name in re.findall(r"^HEADWISE_API [\w:<>*& ]+?(\w+)\(", text,
                                   re.M):
                self.assertIn(f"{name}(", page)


if __name__ == "__main__":
    unittest.main()
