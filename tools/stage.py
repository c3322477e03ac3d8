"""What a stage of ./check works with: commands into a log, their processor
time, what came of it, and the keys of what has passed before."""
import dataclasses
import os
import pathlib
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECK = ROOT / "build" / "check"
JOBS = os.cpu_count() or 2


class Failed(Exception):
    """A stage did not pass; the text says why."""


class Skipped(Exception):
    """A stage cannot run here; the text says what is absent."""


@dataclasses.dataclass
class Count:
    """How many tests a stage ran."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""


class Stage:
    """What a stage function gets: a log to write to, and a way to run."""
    # Set when the user interrupts: what is still to run does not start.
    stopping = threading.Event()

    def __init__(self, name, folder=CHECK, background=False):
        self.log_path = folder / f"{name}.log"
        self.log_path.write_text("")
        self.processor_s = 0.0
        # Takes what time the others leave.
        self.prefix = ("nice", "-n", "19") if background else ()

    def log(self, text):
        with self.log_path.open("a", encoding="utf-8") as out:
            out.write(text)

    def run(self, *command, env=None, may_fail=False, cwd=ROOT):
        """Runs a command into the log; its exit code and output."""
        if Stage.stopping.is_set():
            raise Failed("stopped")
        words = [*self.prefix, *map(str, command)]
        with subprocess.Popen(
                words, cwd=cwd, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})}) as process:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.processor_s += usage.ru_utime + usage.ru_stime
        self.log("$ " + " ".join(map(str, command)) + "\n" + output)
        if process.returncode and not may_fail:
            raise Failed(output)
        return process.returncode, output


class Passed:
    """Keys of what has passed, in a file that only grows. Written as they
    come, so that an interrupted run is not lost."""

    def __init__(self, path):
        self.path = path
        self.keys = set(path.read_text().split()) if path.exists() else set()

    def __contains__(self, key):
        return key in self.keys

    def add(self, key):
        self.keys.add(key)
        with self.path.open("a", encoding="utf-8") as out:
            out.write(key + "\n")
