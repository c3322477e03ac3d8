"""Tests of what is precompiled for headers that must compile alone."""
import unittest

import header_sets
from house_files_test import SmallCheckout


def price(names):
    return 10 * len(names)


class WantedTest(SmallCheckout):
    def wanted(self, name, *not_looked_at):
        header_sets.opening.cache_clear()
        headers = set(self.root.rglob("*.h"))
        headers -= {self.root / other for other in not_looked_at}
        return {one.replace(f"{self.root}/", "") for one in
                header_sets.wanted(self.root, self.root / name, headers)}

    def test_what_others_include_is_wanted_too(self):
        self.write(src__a_h='// A.\n#pragma once\n#include <vector>\n\n'
                            '#include "b.h"  // what for\n',
                   src__b_h='#include <string>\nint b;\n#include <map>\n')
        self.assertEqual(self.wanted("src/a.h"),
                         {"<vector>", '"src/b.h"', "<string>"})

    def test_nothing_behind_code_or_conditions_or_what_is_foreign(self):
        for line in ("#define X", "#if X", "int x;", "#include <fmt/core.h>",
                     '#include "no_such.h"'):
            self.write(src__a_h=f"#include <vector>\n{line}\n#include <map>\n")
            self.assertEqual(self.wanted("src/a.h"), {"<vector>"}, line)

    def test_nothing_of_what_nobody_looks_at_alone(self):
        self.write(src__a_h='#include <map>\n#include "b.h"\n#include <set>\n',
                   src__b_h="#include <string>\n")
        self.assertEqual(self.wanted("src/a.h", "src/b.h"), {"<map>"})

    def test_nothing_for_a_header_that_includes_itself(self):
        self.write(src__a_h='#include <vector>\n#include "b.h"\n',
                   src__b_h='#include "a.h"\n')
        self.assertEqual(self.wanted("src/a.h"), set())


class ChosenTest(unittest.TestCase):
    def test_a_set_has_to_save_more_than_it_costs(self):
        one = [frozenset("ab")]
        self.assertEqual(header_sets.chosen(one, price), [])
        self.assertEqual(header_sets.chosen(one * 2, price), one)

    def test_each_gets_the_dearest_set_that_it_has_all_of(self):
        wants = [frozenset("abcd")] * 9 + [frozenset("ab")] * 9
        sets = header_sets.chosen(wants, price)
        self.assertEqual(set(sets), set(wants))
        self.assertEqual(header_sets.best_of(sets, frozenset("abcde"), price),
                         frozenset("abcd"))
        self.assertEqual(header_sets.best_of(sets, frozenset("abc"), price),
                         frozenset("ab"))
        self.assertIsNone(header_sets.best_of(sets, frozenset("a"), price))


if __name__ == "__main__":
    unittest.main()
