"""Tests of what a key depends on, of headers alone, and of test programs that
changed; in small checkouts."""
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import check_headers
import ctest_programs
import house_files
import stage


class SmallCheckout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "house"
        self.root.mkdir()
        subprocess.run(["git", "init", "-q", self.root], check=True)
        patch = mock.patch.object(house_files, "toolchain", lambda: "tools")
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, **texts):
        """a__b_h="text" becomes a/b.h."""
        for name, text in texts.items():
            path = self.root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        house_files.hash_file.cache_clear()
        house_files.includes.cache_clear()

    def key(self, name):
        return house_files.key_of(self.root, self.root / name)


class KeyTest(SmallCheckout):
    def test_a_key_follows_what_is_included_and_nothing_else(self):
        self.write(src__headwise__a_cc='#include "headwise/b.h"\n',
                   src__headwise__b_h='#  include "headwise/c.h"\n',
                   include__headwise__c_h='#include "headwise/b.h"\n',
                   src__headwise__d_h="not included\n")
        keys = [self.key("src/headwise/a.cc")]
        self.write(src__headwise__d_h="changed\n")
        self.assertEqual(self.key("src/headwise/a.cc"), keys[0])
        for change in ({"include__headwise__c_h": "changed\n"},
                       {"src__headwise__b_h": "changed\n"},
                       {"src__headwise__a_cc": "changed\n"}):
            self.write(**change)
            keys.append(self.key("src/headwise/a.cc"))
        self.assertEqual(len(set(keys)), 4)


class HeadersTest(SmallCheckout):
    def look(self):
        build = self.root.parent
        sources = sorted(self.root.rglob("*.cc"))
        entries = ", ".join(
            '{"directory": "%s", "file": "%s", "command": "/usr/bin/ccache '
            'g++ -std=c++20 -I%s/src -o x.o -c %s"}' % (
                build, path, self.root, path) for path in sources)
        (build / "compile_commands.json").write_text(f"[{entries}]")
        runs = stage.Stage("headers", build)
        found, _ = check_headers.jobs(runs, self.root, build)
        return [runs.run(*command, may_fail=True)[0] for _, command in found]

    def test_a_header_that_leans_on_its_includer_is_found(self):
        self.write(
            src__headwise__a_cc='#include <string>\n#include "headwise/a.h"\n',
            src__headwise__a_h="inline B A() { return {}; }\n",
            src__headwise__b_h="#include <string>\n"
                               "struct B { std::string text; };\n")
        self.assertEqual(self.look(), [1, 0])

    def test_a_public_header_is_read_with_nothing_before_it(self):
        self.write(
            src__headwise__a_cc='#include <string>\n#include "headwise/a.h"\n',
            include__headwise__a_h="#pragma once\nstd::string A();\n")
        found = self.look()
        self.assertTrue(found and all(found), found)


class ProgramsTest(SmallCheckout):
    def setUp(self):
        super().setUp()
        self.build = self.root / "build"
        (self.build / "sub").mkdir(parents=True)
        (self.build / "sub" / "CTestTestfile.cmake").write_text(
            f'add_test([=[one.0]=] "{self.build}/one")\n'
            'set_tests_properties([=[one.0]=] PROPERTIES  ENVIRONMENT "PART=0"'
            ' LABELS "unit" _BACKTRACE_TRIPLES "x;1;y")\n'
            f'add_test([=[said]=] "{self.root}/said.sh" "{self.build}/app")\n'
            'set_tests_properties([=[said]=] PROPERTIES  LABELS "unit")\n'
            f'add_test([=[threads]=] "{self.build}/one" "--filter=x")\n'
            'set_tests_properties([=[threads]=] PROPERTIES  LABELS "tsan")\n')
        self.write(_gitignore="/build/\n", build__one="1", build__app="1", said_sh="1",
                   docs__a_md="1", assets__b_json="1", src__c_cc="1")
        patch = mock.patch.object(stage, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def memory(self, environment=""):
        return ctest_programs.Memory(self.root.parent / "passed.json",
                                     self.build, "unit", environment)

    def test_finds_the_programs_that_are_not_built_yet(self):
        (self.build / "one").unlink()
        self.assertEqual(ctest_programs.targets(self.build, "unit"),
                         ["app", "one"])

    def test_a_test_has_changed_when_what_it_reads_has(self):
        both = {"one.0", "said"}
        self.assertEqual(self.memory().changed(), both)
        self.memory().passed(both)
        for change, changed in (
                ({"src__c_cc": "2"}, set()), ({"build__one": "2"}, {"one.0"}),
                ({"build__app": "2"}, {"said"}), ({"said_sh": "2"}, both),
                ({"docs__a_md": "2"}, {"said"}),
                ({"assets__b_json": "2"}, both)):
            self.write(**change)
            self.assertEqual(self.memory().changed(), changed, change)
            self.memory().passed(both)
        self.assertEqual(self.memory("another place").changed(), both)

    def test_what_failed_is_run_again(self):
        self.memory().passed({"said"})
        self.assertEqual(self.memory().changed(), {"one.0"})


if __name__ == "__main__":
    unittest.main()
