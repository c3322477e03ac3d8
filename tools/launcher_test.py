"""Tests of ./headwise in a small checkout, with a cmake and a ninja of straw."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Both write down that they were called.
CMAKE = r"""#!/bin/bash
echo "cmake $*" >>"$CALLS"
words="$*"
while (($#)); do
  case $1 in -S) source=$2 ;; -B) build=$2 ;; esac
  shift
done
mkdir -p "$build"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$source" >"$build/CMakeCache.txt"
[[ $words != *-DHEADWISE_PYTHON=ON* ]] || printf '%s\n' \
  HEADWISE_PYTHON:BOOL=ON "Python3_EXECUTABLE:FILEPATH=$CHECKOUT/src/program" \
  >>"$build/CMakeCache.txt"
echo "made" >"$build/build.ninja"
"""
NINJA = r"""#!/bin/bash
echo "ninja $*" >>"$CALLS"
[[ ! $NINJA_DOES ]] || eval "$NINJA_DOES"
echo "[0/1] Re-checking globbed directories..."
echo "[1/2] Building CXX object a.cc.o"
echo "a.cc: warning: not of interest"
if [[ $3 == headwise_python ]]; then
  mkdir -p "$2/python/headwise"
  : >"$2/python/headwise/_headwise.x.so"
  chmod +x "$2/python/headwise/_headwise.x.so"
else
  mkdir -p "$2/apps/headwise"
  cp "$CHECKOUT/src/program" "$2/apps/headwise/headwise"
fi
echo "[2/2] Linking CXX executable apps/headwise/headwise"
"""
PROGRAM = '#!/bin/bash\necho "program $*"\n'
DPKG = "#!/bin/bash\nfor name; do echo \"installed $name\"; done\n"


def write_script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class LauncherTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # On a path with a space, as people have them.
        self.checkout = pathlib.Path(folder.name).resolve() / "a house"
        for name in ("include", "cmake", "web/src", "apps", "src/deep",
                     "python"):
            (self.checkout / name).mkdir(parents=True)
        for name in ("CMakeLists.txt", "CMakePresets.json", "src/a.cc",
                     "src/a_test.cc", "src/deep/b.cc"):
            (self.checkout / name).write_text("text\n")
        (self.checkout / "tools").mkdir()
        for name in ("headwise", "tools/packages.sh"):
            shutil.copy2(ROOT / name, self.checkout / name)
        write_script(self.checkout / "src/program", PROGRAM)
        self.bin = pathlib.Path(folder.name) / "bin"
        for name, text in (("cmake", CMAKE), ("ninja", NINJA),
                           ("dpkg-query", DPKG)):
            write_script(self.bin / name, text)
        self.calls = pathlib.Path(folder.name) / "calls"
        self.build = self.checkout / "build" / "release"
        self.make_older(60)

    def make_older(self, seconds):
        """As if all that is there were written a while ago."""
        then = time.time() - seconds
        for path in [self.checkout, *self.checkout.rglob("*")]:
            os.utime(path, (then, then))

    def environment(self, **more):
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}",
                "CALLS": str(self.calls), "CHECKOUT": str(self.checkout),
                "NINJA_DOES": "", **more}

    def headwise(self, *words, prefix=(), **more):
        """Runs it; stdout, stderr and the exit code."""
        self.calls.write_text("")
        done = subprocess.run(
            [*prefix, str(self.checkout / "headwise"), *words], text=True,
            capture_output=True, check=False, env=self.environment(**more))
        return done.stdout, done.stderr, done.returncode

    def called(self):
        return self.calls.read_text().split("\n")

    def was_built(self):
        return any(call.startswith("ninja") for call in self.called())

    def test_the_first_call_says_what_it_does_and_builds(self):
        out, err, code = self.headwise("info", "a b")
        self.assertEqual((out, code), ("program info a b\n", 0))
        self.assertIn("the program has to be built, into build/release\n", err)
        # What there is to do is what ninja counts, and no time is guessed.
        self.assertRegex(err, r"building: \d of 2 steps")
        self.assertNotRegex(err.split("building:")[0], r"about|\d+ (s|min)\b")
        self.assertNotIn("not of interest", err)
        self.assertTrue(self.called()[0].startswith("cmake"))

    def test_it_builds_with_cuda_where_nvcc_and_a_gpu_are(self):
        nothing = "#!/bin/bash\n"
        for name, gpu, wanted in (("none", "exit 9\n", False),
                                  ("one", "echo GPU 0\n", True)):
            with self.subTest(name):
                write_script(self.bin / "nvcc", nothing)
                write_script(self.bin / "nvidia-smi", nothing + gpu)
                shutil.rmtree(self.build, ignore_errors=True)
                _, err, _ = self.headwise()
                self.assertEqual("-DHEADWISE_CUDA=ON" in self.called()[0],
                                 wanted)
                self.assertEqual("with CUDA" in err, wanted)

    def test_python_is_built_apart_and_started(self):
        self.headwise("info")
        out, err, code = self.headwise("python", "x.py", "a b")
        self.assertEqual((out, code), ("program x.py a b\n", 0))
        self.assertIn("-DHEADWISE_PYTHON=ON", self.called()[0])
        self.assertIn("Python package has to be built", err)
        _, err, code = self.headwise("python")
        self.assertEqual((self.called(), err, code), ([""], "", 0))
        (self.checkout / "python" / "x.py").write_text("changed\n")
        self.headwise("python")
        self.assertTrue(self.was_built())

    def test_the_second_call_asks_nobody_and_is_quick(self):
        self.headwise()
        best = min(self.timed_call() for _ in range(5))
        self.assertLess(best, 0.2)

    def timed_call(self):
        start = time.monotonic()
        out, err, code = self.headwise("--help")
        self.assertEqual((out, err, code), ("program --help\n", "", 0))
        self.assertFalse(self.was_built())
        return time.monotonic() - start

    def test_it_builds_after_a_change_an_addition_and_a_removal(self):
        self.headwise()
        (self.checkout / "README.md").write_text("not of the program\n")
        (self.checkout / "src/a_test.cc").write_text("nor is a test\n")
        self.headwise()
        self.assertFalse(self.was_built())
        for name, change in (
                ("change", lambda: (self.checkout / "src/deep/b.cc")
                 .write_text("other\n")),
                ("addition", lambda: (self.checkout / "src/deep/c.cc")
                 .write_text("new\n")),
                ("removal", lambda: (self.checkout / "src/deep/c.cc")
                 .unlink()),
                ("page", lambda: (self.checkout / "web/src/page.ts")
                 .write_text("new\n")),
                ("build file", lambda: (self.build / "build.ninja")
                 .write_text("made otherwise\n")),
                ("program gone", lambda: (self.build / "apps/headwise/headwise")
                 .unlink())):
            with self.subTest(name):
                time.sleep(0.02)
                change()
                self.headwise()
                self.assertTrue(self.was_built())
                self.headwise()
                self.assertFalse(self.was_built())

    def test_what_changes_during_a_build_is_built_the_next_time(self):
        self.headwise(NINJA_DOES='sleep 0.05; echo x >>"$CHECKOUT/src/a.cc"')
        self.headwise()
        self.assertTrue(self.was_built())
        self.headwise()
        self.assertFalse(self.was_built())

    def test_a_moved_checkout_is_configured_anew(self):
        self.headwise()
        moved = self.checkout.parent / "moved"
        self.checkout.rename(moved)
        self.checkout = moved
        out, _, _ = self.headwise("x")
        self.assertEqual(out, "program x\n")
        self.assertTrue(self.called()[0].startswith("cmake"))

    def test_a_failure_shows_the_compilers_words_and_runs_nothing(self):
        out, err, code = self.headwise(
            NINJA_DOES='echo "FAILED: a.cc.o"; echo "/usr/bin/c++ -very -long";'
            'echo "a.cc:1:1: error: no such thing"; exit 1')
        self.assertEqual((out, code), ("", 1))
        self.assertIn("a.cc:1:1: error: no such thing", err)
        self.assertNotIn("-very", err)
        self.assertIn("build/release/launcher.log", err)
        self.headwise()
        self.assertTrue(self.was_built())

    def test_notes_of_the_build_are_passed_on(self):
        _, err, _ = self.headwise(
            NINJA_DOES='echo "headwise: reports will be plain tables: why"')
        self.assertIn("headwise: reports will be plain tables: why\n", err)

    def test_missing_packages_are_named(self):
        write_script(self.bin / "dpkg-query", "#!/bin/bash\nexit 1\n")
        write_script(self.bin / "apt-get",
                     '#!/bin/bash\necho "apt-get $*" >>"$CALLS"\n')
        _, err, _ = self.headwise("--help")
        self.assertIn("libfmt-dev", err)
        # What only some commands load is left to them.
        self.assertNotIn("openblas", err)
        self.assertNotIn("openblas", self.calls.read_text())

    def with_parts(self, node, header):
        """The launcher looks for these instead of what this machine has."""
        launcher = self.checkout / "headwise"
        text = launcher.read_text()
        for found, given in (
                (r"page_tools=\(.*\)", f"page_tools=({node})"),
                (r"(?s)mpi_headers=\(.*?\)", f"mpi_headers=('{header}')")):
            text, count = re.subn(found, given, text)
            self.assertEqual(count, 1)
        launcher.write_text(text)

    def test_node_and_openmpi_that_come_later_are_configured(self):
        header = self.checkout / "mpi" / "mpi.h"
        self.with_parts("straw-node", header)
        self.headwise()
        self.assertFalse(self.headwise()[1])
        header.parent.mkdir()
        for name, come in (
                ("OpenMPI", lambda: header.write_text("header\n")),
                ("Node", lambda: write_script(self.bin / "straw-node",
                                              "#!/bin/bash\n"))):
            with self.subTest(name):
                come()
                out, _, _ = self.headwise("x")
                self.assertEqual(out, "program x\n")
                self.assertTrue(self.called()[0].startswith("cmake"))
                self.headwise()
                self.assertEqual(self.called(), [""])

    def test_any_shell_may_start_it(self):
        self.headwise()
        for shell in (["sh"], ["bash", "--posix"], ["env", "POSIXLY_CORRECT=1",
                                                    "bash"]):
            with self.subTest(shell[0]):
                self.assertEqual(self.headwise("a b", prefix=shell),
                                 ("program a b\n", "", 0))

    def test_a_checkout_without_sources_says_what_is_missing(self):
        shutil.rmtree(self.checkout / "src")
        _, err, code = self.headwise()
        self.assertEqual(code, 1)
        self.assertIn("found no src", err)
        self.assertNotIn("find:", err)
        self.assertFalse(self.was_built())

    def test_it_builds_in_a_folder_of_ones_own(self):
        own = self.checkout.parent / "my own" / "build"
        for _ in range(2):
            out, _, code = self.headwise("x", HEADWISE_BUILD=str(own))
            self.assertEqual((out, code), ("program x\n", 0))
        self.assertFalse(self.was_built())
        self.assertFalse((self.checkout / "build").exists())
        other = self.checkout.parent / "other"
        shutil.copytree(self.checkout, other)
        self.checkout = other
        _, err, code = self.headwise("x", HEADWISE_BUILD=str(own))
        self.assertEqual(code, 1)
        self.assertIn("the build of another folder", err)
        self.assertTrue((own / "build.ninja").exists())

    def as_nobody(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        for folder in (self.checkout.parent, self.bin):
            folder.chmod(0o755)
        self.calls.write_text("")
        self.calls.chmod(0o666)
        return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

    def test_another_user_runs_what_the_owner_built(self):
        nobody = self.as_nobody()
        _, err, code = self.headwise(prefix=nobody)
        self.assertEqual(code, 1)
        self.assertIn("nothing is built yet", err)
        self.assertIn("HEADWISE_BUILD=", err)
        self.headwise()
        (self.checkout / "build/release.lock").chmod(0o600)
        self.assertEqual(self.headwise("x", prefix=nobody),
                         ("program x\n", "", 0))
        time.sleep(0.02)
        (self.checkout / "src/a.cc").write_text("other\n")
        out, err, code = self.headwise("x", prefix=nobody)
        self.assertEqual((out, code), ("program x\n", 0))
        self.assertIn("running what was built", err)

    def test_a_read_only_checkout_runs(self):
        self.as_nobody()
        self.headwise()
        script = ('mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && '
                  '! touch "$1/x" 2>/dev/null && "$1/headwise" y')
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-c", script, "-",
             str(self.checkout)], text=True, capture_output=True, check=False,
            env=self.environment())
        if "unshare" in done.stderr or "mount" in done.stderr:
            self.skipTest("no right to mount: " + done.stderr.strip())
        self.assertEqual((done.stdout, done.stderr), ("program y\n", ""))

    def test_an_interrupt_stops_the_build_and_keeps_no_stamp(self):
        self.calls.write_text("")
        with subprocess.Popen(
                [str(self.checkout / "headwise")], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, start_new_session=True,
                env=self.environment(NINJA_DOES="sleep 30")) as process:
            while "ninja" not in self.calls.read_text():
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=10)
        self.assertEqual((out, process.returncode), ("", -signal.SIGINT))
        self.assertIn("the next call goes on", err)
        self.assertNotIn("not built", err)
        self.assertFalse((self.build / ".launcher").exists())

    def test_two_first_calls_build_once(self):
        self.calls.write_text("")
        environment = self.environment(NINJA_DOES="sleep 0.5")
        both = [subprocess.Popen(
            [str(self.checkout / "headwise")], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment)
            for _ in range(2)]
        self.assertEqual([one.communicate()[0] for one in both],
                         ["program \n"] * 2)
        self.assertEqual(self.calls.read_text().count("ninja"), 1)

    def test_a_terminal_sees_a_bar_with_the_time_left(self):
        if not shutil.which("script"):
            self.skipTest("no script(1) to make a terminal")
        self.calls.write_text("")
        slow = ('for i in 1 2 3 4; do echo "[$i/9] Building $i";'
                'sleep 0.25; done')
        done = subprocess.run(
            ["script", "-qec", f"'{self.checkout}/headwise'", "/dev/null"],
            capture_output=True, check=False,
            env=self.environment(NINJA_DOES=slow))
        self.assertRegex(
            done.stdout,
            rb"\rheadwise: \[#+\.+\] building [2-4]/9, about \d+ s left\x1b")
        # One step of nine says nothing of the time.
        self.assertIn(b"building 1/9\x1b", done.stdout)
        self.assertRegex(done.stdout, rb"\r\x1b\[Kprogram ")

    def test_a_pipe_gets_a_line_now_and_then(self):
        launcher = self.checkout / "headwise"
        launcher.write_text(launcher.read_text().replace(
            "tell_ms=30000", "tell_ms=300"))
        _, err, _ = self.headwise(NINJA_DOES=(
            'for i in 1 2 3 4; do echo "[$i/9] Building $i"; sleep 0.2; done'))
        self.assertRegex(err, r"(?m)^headwise: building: [2-4] of 9 steps, "
                              r"about \d+ s left$")
        self.assertRegex(err, r"(?m)^headwise: building: 1 of 9 steps$")
        self.assertNotIn("\r", err)


if __name__ == "__main__":
    unittest.main()
