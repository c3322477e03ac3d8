#!/usr/bin/env python3
"""Makes docs/api.md from the public headers.

Every header is a chapter: its opening comment, then each declaration with what
its comment says. Private parts, inline bodies and what is for the library alone
are left out. Usage: tools/make_api.py [--check] [ROOT]
"""
import pathlib
import re
import sys

# In the order in which one meets them; others follow by name.
ORDER = ["model", "text_input", "model_info", "generate", "fill",
         "session", "cache", "head_ref",
         "head_edit", "head_weights", "loss", "evaluate", "embed", "classify",
         "bleu", "profile",
         "roles", "explain", "rank", "patch", "similar", "compose", "show",
         "report", "atlas", "prune", "train", "export_model", "work_group",
         "scale", "progress", "fields", "tokenizer", "vocabulary",
         "multi_head_attention", "attention", "observation",
         "implementations", "tensor", "context", "device", "memory", "error",
         "version"]
LEFT_OUT = {"export.h"}  # a macro for the declarations of the others
NAME = re.compile(
    r"(?:struct|class|enum class|enum|using)\s+(?:HEADWISE_API\s+)?(\w+)")
CALL = re.compile(r"(\w+|operator\S+)\s*\(")
HEAD = """# The C++ interface

Made from `include/headwise/` by `tools/make_api.py`; `find_package(headwise)`
and link `headwise::headwise`. Programs to begin with are in
[examples](../examples). Everything is in namespace `headwise`; errors are
`headwise::Error`, which names arguments.
"""


def headers(root):
    folder = pathlib.Path(root) / "include" / "headwise"
    names = {path.stem: path for path in folder.glob("*.h")
             if path.name not in LEFT_OUT}
    order = [n for n in ORDER if n in names]
    return [names[n] for n in order + sorted(set(names) - set(order))]


def is_comment(line):
    return line.lstrip().startswith("//")


def words(lines):
    """The text of comment lines, without their slashes."""
    return [re.sub(r"^\s*///?<? ?", "", line).rstrip() for line in lines]


def prose(lines):
    """Comment lines as Markdown: what is set in is code."""
    out = []
    for line in words(lines):
        out.append("  " + line if line.startswith("  ") else line)
    return out


def blocks(text):
    """Declarations of a header at the level of the namespace: (comment, code)
    pairs of lists of lines."""
    comment, code, depth = [], [], 0
    for line in text.split("\n"):
        if depth == 0 and not code:
            if line.lstrip().startswith("// ----"):
                comment = []
                continue
            if is_comment(line):
                comment.append(line)
                continue
            if not line.strip():
                comment = []
                continue
        code.append(line)
        bare = re.sub(r"//.*", "", line)
        depth += bare.count("{") + bare.count("(") - bare.count("}") - \
            bare.count(")")
        if depth == 0 and bare.rstrip().endswith((";", "}")):
            yield comment, code
            comment, code = [], []


def without_bodies(code):
    """Public declarations of a class, inline bodies shortened."""
    out, skipping, depth = [], 0, 0
    for line in code:
        bare = re.sub(r"//.*", "", line)
        if re.match(r"\s*(private|protected):", line):
            skipping = 1
        elif re.match(r"\s*public:", line):
            skipping = 0
        ends = bare.rstrip() == "};"
        if ends:
            skipping = 0
            while out and not out[-1].strip():
                out.pop()
        if skipping:
            continue
        # A function's body of several lines, within a class.
        if depth:
            depth += bare.count("{") - bare.count("}")
            continue
        opened = bare.count("{") - bare.count("}")
        body = re.search(r"\)[^;{]*\{", bare) and out
        if body and opened > 0:
            depth = opened
            if "VisitFields" in line:  # for the library's own lists
                while out and not out[-1].strip().startswith("template"):
                    out.pop()
                out.pop()
            else:
                out.append(re.sub(r"\s*\{.*", ";", line))
            continue
        if body and opened == 0 and "=" not in bare.split(")")[-1]:
            line = re.sub(r"(\)[^;{]*?)\s*\{.*\}", r"\1;", line)
        out.append(line)
    return out


def declared(code):
    """Lines as a reader wants them: no initialisers, no marks for tools."""
    text = re.sub(r"\bHEADWISE_API |  // NOLINT.*", "", "\n".join(code))
    text = re.sub(r"\n\s+: \w+\([^;]*\);", ";", text)
    return re.sub(r"///<?", "//", text)


def title(code):
    if code[0].startswith("template"):
        code = code[1:]
    first = " ".join(code[:3])
    found = NAME.match(first.lstrip())
    if found:
        return found[1]
    constant = re.match(r"inline constexpr .*?(\w+)(?:\[\])? =", first)
    if constant:
        return constant[1]
    found = CALL.search(first)
    return found[1] if found else first.strip()


def is_hidden(code):
    first = code[0].strip()
    if first.startswith("template"):
        return not code[1].startswith(("struct", "class"))
    return re.match(r"(struct|class) \w+;", first) or \
        first.startswith("#define")


def chapter(path):
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    opening = []
    while is_comment(lines[len(opening)]):
        opening.append(lines[len(opening)])
    body = text[text.index("namespace headwise {") + 20:
                text.rindex("}  // namespace headwise")]
    out = [f"## headwise/{path.name}", "", *prose(opening), ""]
    last = None
    for comment, code in blocks(body):
        if is_hidden(code):
            continue
        name = title(code)
        if name != last:
            out += [f"### {name}", ""]
        last = name
        if comment:
            out += [*prose(comment), ""]
        out += ["```cpp", declared(without_bodies(code)), "```", ""]
    return out


def page(root):
    lines = [HEAD]
    for path in headers(root):
        lines.append(f"- [headwise/{path.name}](#headwise{path.stem}h)")
    lines.append("")
    for path in headers(root):
        lines += chapter(path)
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    root = pathlib.Path(arguments[0] if arguments else
                        pathlib.Path(__file__).resolve().parent.parent)
    file = root / "docs" / "api.md"
    made = page(root)
    if "--check" in sys.argv:
        if not file.exists() or file.read_text(encoding="utf-8") != made:
            print("docs/api.md is not what the headers say; run "
                  "tools/make_api.py")
            return 1
        return 0
    file.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
