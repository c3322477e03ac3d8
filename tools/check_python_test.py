"""Tests of how ./check reads pytest's result."""
import unittest

import check_python


class CountedTest(unittest.TestCase):
    def test_it_reads_the_last_line(self):
        count = check_python.counted(
            "..F.\n3 skipped of something\n"
            "1 failed, 86 passed, 2 skipped in 37.86s\n")
        self.assertEqual((count.passed, count.failed, count.skipped),
                         (86, 1, 2))

    def test_errors_are_failures_and_nothing_is_nothing(self):
        self.assertEqual(check_python.counted("2 errors in 0.1s").failed, 2)
        self.assertEqual(check_python.counted("").passed, 0)

    def test_options_turn_the_package_on_where_it_can_be_built(self):
        wanted = ("-DHEADWISE_PYTHON=ON",) if check_python.HEADER.exists() \
            else ()
        self.assertEqual(check_python.options(), wanted)


if __name__ == "__main__":
    unittest.main()
