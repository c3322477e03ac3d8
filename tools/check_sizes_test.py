"""Tests of check_sizes.py on small made-up sources."""
import unittest

import check_sizes


def body(lines):
    return "  x();\n" * (lines - 2)


class CxxFunctionsTest(unittest.TestCase):
    def functions(self, text):
        return [(name, lines) for name, _, lines
                in check_sizes.cxx_functions(text)]

    def test_free_functions_and_methods(self):
        self.assertEqual(self.functions(
            "namespace a {\nint F(int x) {\n  if (x) {\n  }\n  return 0;\n}\n"
            "class C : public D {\n public:\n  int g() const { return 1; }\n};\n"
            "}\n"), [("F", 5), ("g", 2)])

    def test_long_signatures_count(self):
        self.assertEqual(self.functions("void F(int a,\n       int b) {\n}\n"),
                         [("F", 3)])

    def test_templates_and_lambdas(self):
        self.assertEqual(self.functions(
            "template <class T, class U = V<T>>\nvoid F() {\n"
            "  auto f = [&](int i) {\n    return i;\n  };\n}\n"), [("F", 6)])

    def test_braces_without_meaning(self):
        self.assertEqual(self.functions(
            "void F() {\n  // {\n  char c = '{';\n  auto s = \"{\";\n"
            "  auto r = R\"x(})x\";\n  int n = 1'000;\n}\nvoid G() {\n}\n"),
            [("F", 7), ("G", 2)])

    def test_one_branch_of_a_conditional(self):
        self.assertEqual(self.functions(
            "#if A\nvoid F(int x) {\n#else\nvoid F(long x) {\n#endif\n}\n"),
            [("F", 5)])

    def test_types_and_tables_are_no_functions(self):
        self.assertEqual(self.functions(
            "struct alignas(64) S {\n  int a = 0;\n};\n"
            "constexpr int kTable[] = {\n  1,\n};\nenum class E { kA };\n"), [])

    def test_member_initialisers(self):
        self.assertEqual(self.functions(
            "C::C(int x) : a_{x}, b_{2} {\n  y();\n  z();\n}\n"),
            [("C::C", 4)])


class CheckTextTest(unittest.TestCase):
    def test_file_bounds(self):
        for lines, counts in [(600, (0, 0)), (601, (0, 1)), (1000, (0, 1)),
                              (1001, (1, 0))]:
            found = check_sizes.check_text("src/a.cc", "//\n" * lines)
            self.assertEqual(tuple(map(len, found)), counts, lines)

    def test_function_bounds(self):
        for name, lines, counts in [
                ("src/a.cc", 100, (0, 0)), ("src/a.cc", 101, (0, 1)),
                ("src/cpu/a.cc", 150, (0, 0)), ("src/a.cu", 151, (0, 1)),
                ("src/a.cc", 201, (1, 0))]:
            text = f"void F() {{\n{body(lines)}}}\n"
            found = check_sizes.check_text(name, text)
            self.assertEqual(tuple(map(len, found)), counts, (name, lines))

    def test_python_functions(self):
        text = "def f():\n" + "    x()\n" * 200
        failures, _ = check_sizes.check_text("tools/a.py", text)
        self.assertEqual(len(failures), 1)
        self.assertIn("function f of 201 lines", failures[0])


if __name__ == "__main__":
    unittest.main()
