"""Tests of check_names.py on small made-up files."""
import unittest

import check_names


def in_house(text, space="headwise"):
    return f"namespace {space} {{\n{text}\n}}  // namespace {space}\n"


class CheckNamesTest(unittest.TestCase):
    def twins(self, *texts):
        return list(check_names.twins(
            {f"{i}.h": text for i, text in enumerate(texts)}))

    def test_twins_are_found(self):
        self.assertEqual(self.twins(in_house("struct Need {};"),
                                    in_house("class Need final {")),
                         ["headwise::Need"])
        self.assertEqual(self.twins(in_house("enum class Kind : int {"),
                                    in_house("class HEADWISE_API Kind {")),
                         ["headwise::Kind"])

    def test_another_namespace_is_another_name(self):
        self.assertEqual(self.twins(in_house("struct Row {"),
                                    in_house("struct Row {",
                                             "headwise::bench")), [])

    def test_files_keep_their_own(self):
        own = "namespace {\nstruct Options {\n};\n}  // namespace\n"
        self.assertEqual(self.twins(in_house(own), in_house(own)), [])

    def test_declarations_and_members_are_no_definitions(self):
        self.assertEqual(self.twins(in_house("struct Model {"),
                                    in_house("struct Model;"),
                                    in_house("struct Model::Parts {"),
                                    in_house("  struct Model {"),
                                    in_house("struct Model Make() {")), [])


if __name__ == "__main__":
    unittest.main()
