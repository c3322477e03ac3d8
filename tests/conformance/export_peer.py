"""What the checks of exports by their own programs share: their arguments, and
running a program to its good end.
"""
import argparse
import os
import subprocess
import sys


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--packages",
                        default=os.environ.get("HEADWISE_NPM", "."))
    return parser.parse_args()


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], check=False,
                          capture_output=True, text=True, timeout=300, **more)
    if done.returncode != 0:
        sys.exit(f"FAILED: {words}: {done.stderr or done.stdout}")
    return done.stdout
