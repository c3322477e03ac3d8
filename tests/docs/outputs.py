"""Compares what a command printed with what a document says it prints.

Blank lines do not count, nor how wide a gap is if no bar stands in it. A line
"…" stands for any lines. Numbers with a point may differ by two units of the
last digit shown, since another processor rounds differently; counts, and what
looks like a head's name (2.4), may not. Bars may differ by one step.
"""
import re

BARS = " ▁▂▃▄▅▆▇█"
DECIMAL = r"[-+−]?\d*\.\d+(?:e[-+]?\d+)?"
PART = re.compile(rf"({DECIMAL}|[{BARS}]+)")
HEAD = re.compile(r"\d\.\d")


def read(number):
    """Its value, and what one unit of its last digit is worth."""
    number = number.replace("−", "-")
    digits, _, exponent = number.partition("e")
    scale = 10.0 ** int(exponent or 0)
    return float(number), scale * 10.0 ** -len(digits.partition(".")[2])


def same_number(said, came):
    if HEAD.fullmatch(said) and HEAD.fullmatch(came):
        return said == came
    (value, unit), (other, finer) = read(said), read(came)
    return abs(value - other) <= 2.001 * min(unit, finer)


def same_bars(said, came):
    if not (said + came).strip():
        return True
    return len(said) == len(came) and all(
        abs(BARS.index(a) - BARS.index(b)) <= 1 for a, b in zip(said, came))


def same_part(said, came):
    if re.fullmatch(DECIMAL, said) and re.fullmatch(DECIMAL, came):
        return same_number(said, came)
    if said and came and not (said + came).strip(BARS):
        return same_bars(said, came)
    return said == came


def same_line(said, came):
    said, came = PART.split(said.rstrip()), PART.split(came.rstrip())
    return len(said) == len(came) and all(map(same_part, said, came))


def same_lines(said, came):
    return len(said) == len(came) and all(map(same_line, said, came))


def find(said, came):
    """Where the lines said first stand among those that came, or None."""
    return next((at for at in range(len(came) - len(said) + 1)
                 if same_lines(said, came[at:at + len(said)])), None)


def difference(said, came):
    """What is wrong with the text said, "" if nothing is."""
    came = [line for line in came.splitlines() if line.strip()]
    runs = [[]]
    for line in said.splitlines():
        if line.strip() == "…":
            runs.append([])
        elif line.strip():
            runs[-1].append(line)
    if len(runs) == 1:
        return "" if same_lines(runs[0], came) else lost(runs[0], came)
    first, *middle, last = runs
    if not same_lines(first, came[:len(first)]):
        return lost(first, came)
    came = came[len(first):]
    for run in middle:
        at = find(run, came)
        if at is None:
            return lost(run, came)
        came = came[at + len(run):]
    if last and not same_lines(last, came[-len(last):]):
        return lost(last, came[-len(last):])
    return ""


def lost(said, came):
    wrong = [line for line in said
             if not any(same_line(line, other) for other in came)]
    return "\n".join(["said, but did not come:", *(wrong or said),
                      "what came:", *came])


SAID = """Head 2.2
…
  sat → mat .39, the .30, sat 1.0
  ▄.39   █.99
  change  +0.0994 [+0.0510, +0.1501]
…
2 heads closed."""
CAME = """Head 2.2

  anything
  sat → mat .40, the .28, sat .99
  ▅.39   █1.0
  change  +0.0995 [+0.0508, +0.1501]
2 heads closed."""
WRONG = [(".39, the", ".36, the"), ("Head 2.2", "Head 2.4"),
         ("0.0994", "0.0991"), ("▄.39", "█.39"), ("2 heads", "3 heads"),
         ("sat 1.0", "sat .90"), ("…\n2 heads", "2 heads closed.\n2 heads"),
         ("mat", "cat"), ("+0.0510", "-0.0510"), ("…\n  sat", "  sat")]


def sees_wrong_figures():
    """Whether the comparison passes what is right and nothing else."""
    passing = [change for change in WRONG
               if difference(SAID.replace(*change), CAME) == ""]
    said = difference(SAID, CAME)
    return said + "".join(f"not seen: {change}\n" for change in passing)
