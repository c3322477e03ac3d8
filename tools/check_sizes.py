#!/usr/bin/env python3
"""Warns of long files and functions, fails on very long ones.

The bounds are in LIMITS. C++ and CUDA functions are found by following braces
(a lambda counts as part of the function around it), Python's by its parser.
Usage: tools/check_sizes.py [ROOT]
"""
import ast
import pathlib
import re
import sys

import house_files

# What to look at hard, and what fails.
FILE_WARN, FILE_FAIL = 600, 1000
FUNCTION_WARN, KERNEL_WARN, FUNCTION_FAIL = 100, 150, 200
FILE_USUAL = 300  # above it a file only counts in the summary

CXX = {".cc", ".h", ".cu", ".cuh"}
OTHER = {".py", ".ts", ".js", ".css", ".sh"}

# Text that may hold braces or quotes without meaning: comments, raw strings,
# strings, characters. Digit separators (1'000) are not characters.
OPAQUE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
ATTRIBUTE = re.compile(r"\balignas\([^)]*\)|__attribute__\(\(.*?\)\)", re.S)
TEMPLATE = re.compile(r"\btemplate\s*<")


def blank(text):
    """As long and with as many lines, but empty."""
    return re.sub(r"[^\n]", " ", text)


def drop_branches(text):
    """Keeps the first branch of every #if, so that braces balance."""
    lines, kept, skipping = text.split("\n"), [], []
    for line in lines:
        word = re.match(r"\s*#\s*(\w+)", line)
        word = word[1] if word else ""
        if word in ("if", "ifdef", "ifndef"):
            skipping.append(False)
        elif word in ("else", "elif") and skipping:
            skipping[-1] = True
        elif word == "endif" and skipping:
            skipping.pop()
        kept.append("" if any(skipping) else line)
    return "\n".join(kept)


def drop_templates(head):
    """A declaration without its template <…> parts."""
    while True:
        match = TEMPLATE.search(head)
        if not match:
            return head
        depth, end = 1, match.end()
        while end < len(head) and depth:
            depth += {"<": 1, ">": -1}.get(head[end], 0)
            end += 1
        head = head[:match.start()] + head[end:]


def opens_function(head):
    """Whether the words before a brace begin a function's body."""
    head = ATTRIBUTE.sub("", drop_templates(head)).strip()
    if re.match(r"(inline\s+)?namespace\b|extern\b[^(]*$", head):
        return False
    if re.match(r"(typedef\s+)?(class|struct|union|enum)\b", head) and \
            not re.search(r"\)[\w\s&]*$", head):
        return False
    if re.search(r"(^|[^=!<>])=\s*$", head):
        return False
    return "(" in head


def cxx_functions(text):
    """(name, first line, lines) of every function in C++ text."""
    text = OPAQUE.sub(lambda m: blank(m[0]), drop_branches(text))
    text = DIRECTIVE.sub(lambda m: blank(m[0]), text)
    found, depth, start, opened = [], 0, 0, None
    for match in re.finditer(r"[{};]", text):
        mark, at = match[0], match.start()
        if mark == "{":
            depth += 1
            head = text[start:at]
            if opened is None and opens_function(head):
                first = start + len(head) - len(head.lstrip())
                opened = (depth, first, head)
        elif mark == "}":
            # What follows tells the brace of a member initialiser, a_{1}, from
            # the body's.
            initialiser = re.match(r"\s*[,{]", text[at + 1:at + 200])
            if opened and depth == opened[0] and not initialiser:
                name = re.findall(r"([\w~:]+)\s*\(", drop_templates(opened[2]))
                first = text.count("\n", 0, opened[1]) + 1
                last = text.count("\n", 0, at) + 1
                found.append((name[0] if name else "?", first,
                              last - first + 1))
                opened = None
            depth = max(0, depth - 1)
        if opened is None:
            start = match.end()
    return found


def python_functions(text):
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def is_kernel(name):
    return bool(re.search(r"/(cpu|cuda)/|-inl\.h$|\.cuh?$", name))


def check_text(name, text):
    """(failures, warnings) of one file."""
    failures, warnings = [], []

    def judge(where, what, lines, warn, fail):
        if lines > fail:
            failures.append(f"{where}: {what} of {lines} lines; at most {fail}")
        elif lines > warn:
            warnings.append(f"{where}: {what} of {lines} lines")

    judge(name, "file", text.count("\n"), FILE_WARN, FILE_FAIL)
    suffix = pathlib.PurePosixPath(name).suffix
    functions = []
    if suffix in CXX:
        functions = cxx_functions(text)
    elif suffix == ".py":
        functions = python_functions(text)
    warn = KERNEL_WARN if is_kernel(name) else FUNCTION_WARN
    for function, line, lines in functions:
        judge(f"{name}:{line}", f"function {function}", lines, warn,
              FUNCTION_FAIL)
    return failures, warnings


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root
    failures, warnings, files, long = [], [], 0, 0
    for name in house_files.listed(root):
        if pathlib.PurePosixPath(name).suffix not in CXX | OTHER:
            continue
        text = (root / name).read_text(encoding="utf-8")
        new_failures, new_warnings = check_text(name, text)
        failures += new_failures
        warnings += new_warnings
        files += 1
        long += text.count("\n") > FILE_USUAL
    for warning in warnings:
        print(f"warning: {warning}")
    for failure in failures:
        print(f"error: {failure}")
    print(f"{files} files, {long} above {FILE_USUAL} lines, "
          f"{len(warnings)} warnings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
