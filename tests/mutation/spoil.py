"""Ways to spoil a file: any bytes, JSON, safetensors, lines of text. Each takes
a random.Random and the file's bytes, and returns other bytes and in words what
it did. Door: spoil(rng, name, data)."""
import gzip
import json
import lzma
import struct

NUMBERS = (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 1e-320,
           -1, 0, 1, 3, 255, 2**24 - 1, 2**31 - 1, 2**31, 2**32 + 5, 2**53 + 1,
           2**62, -2**62, 2**63, 2**64, 10**30, 0.5)
STRINGS = ("", "\0", "\x1b[31mred\x1b[0m\x07", "../../../../etc/passwd",
           "/dev/zero", "%s%n{}{:>9999999}", "a" * 65536, "\ud800", "\u202e",
           "(a+)+$", "((((", "[[:alpha:]", "[]")
FLOATS = (float("nan"), float("inf"), float("-inf"), 3.4028235e38, -3.4e38,
          1e-45, 0.0)


# Any bytes.

def cut(rng, data):
    size = rng.randrange(len(data)) if data else 0
    return data[:size], f"cut to {size} bytes"


def append(rng, data):
    more = bytes(rng.randrange(256) for _ in range(rng.choice((1, 8, 4096))))
    return data + more, f"{len(more)} bytes appended"


def flip_bits(rng, data):
    changed, count = bytearray(data), rng.choice((1, 1, 2, 8, 64))
    for _ in range(count):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed), f"{count} bits flipped"


def overwrite(rng, data):
    size = rng.choice((1, 4, 8, 64, 1024))
    at = rng.randrange(len(data) + 1)
    filler = rng.choice((b"\0", b"\xff", b"\x80", None))
    run = filler * size if filler else bytes(
        rng.randrange(256) for _ in range(size))
    return data[:at] + run + data[at + size:], \
        f"{size} bytes at {at} overwritten"


def drop(rng, data):
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 7, 64, 1024))
    return data[:at] + data[at + size:], f"{size} bytes at {at} dropped"


def double(rng, data):
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 64, 1024))
    return data[:at + size] + data[at:], f"{size} bytes at {at} doubled"


def empty(_, __):
    return b"", "empty"


BYTES = (cut, append, flip_bits, overwrite, drop, double, empty)


# JSON.

def places(value, path=()):
    """Paths of all values inside a value."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for index, item in enumerate(value[:200]):
            yield from places(item, path + (index,))


def pick_place(rng, value, want=lambda _: True):
    """A path, the container it ends in and its last key; names near the top
    as likely as the many below."""
    found = [path for path in places(value) if path and want(at(value, path))]
    if not found:
        return None
    depths = sorted({len(path) for path in found})
    depth = rng.choice(depths)
    path = rng.choice([path for path in found if len(path) == depth])
    return path, at(value, path[:-1]), path[-1]


def at(value, path):
    for key in path:
        value = value[key]
    return value


def deep(levels):
    return "[" * levels + "]" * levels


def other_value(rng, old):
    """A value of another kind, or out of all measure."""
    if isinstance(old, (int, float)) and not isinstance(old, bool) and \
            rng.random() < 0.8:
        return rng.choice(NUMBERS)
    if isinstance(old, str) and rng.random() < 0.6:
        return rng.choice(STRINGS)
    if isinstance(old, list) and rng.random() < 0.6:
        return rng.choice(([], old * 50 if len(old) < 100 else old[:1],
                           [old], old[:-1]))
    return rng.choice((None, True, [], {}, "text", 7, -1, [[[]]], [None],
                       {"": None}, 2**62, rng.choice(NUMBERS)))


def change_value(rng, value):
    place = pick_place(rng, value)
    if place is None:
        return None
    path, holder, key = place
    holder[key] = other_value(rng, holder[key])
    return f"{'.'.join(map(str, path))[:80]} = {str(holder[key])[:40]!r}"


def change_number(rng, value):
    place = pick_place(rng, value, lambda v: isinstance(v, (int, float)) and
                       not isinstance(v, bool))
    if place is None:
        return change_value(rng, value)
    path, holder, key = place
    holder[key] = rng.choice(NUMBERS)
    return f"{'.'.join(map(str, path))[:80]} = {holder[key]!r}"


def remove_key(rng, value):
    place = pick_place(rng, value)
    if place is None:
        return None
    path, holder, key = place
    del holder[key]
    return f"{'.'.join(map(str, path))[:80]} removed"


def swap_values(rng, value):
    one, two = pick_place(rng, value), pick_place(rng, value)
    if one is None or one[0] == two[0][:len(one[0])] or \
            two[0] == one[0][:len(two[0])]:
        return None
    one[1][one[2]], two[1][two[2]] = two[1][two[2]], one[1][one[2]]
    return f"{one[0]} and {two[0]} swapped"[:120]


def repeat_part(rng, value):
    """Many times what should be there once: chains of rules, say."""
    place = pick_place(rng, value, lambda v: isinstance(v, (dict, list)))
    if place is None:
        return None
    path, holder, key = place
    part, times = holder[key], rng.choice((2, 40, 400))
    if len(json.dumps(part)) * times > 4_000_000:
        times = 2
    if isinstance(holder, list):
        holder[key:key] = [part] * times
    else:
        holder[key] = [part] * times
    return f"{'.'.join(map(str, path))[:80]} × {times}"


JSON = (change_value, change_number, change_number, remove_key, swap_values,
        repeat_part)


def spoil_value(rng, value):
    for _ in range(20):
        # A copy in which no part stands twice: it could come to hold itself.
        changed = json.loads(json.dumps(value))
        said = rng.choice(JSON)(rng, changed)
        if said:
            return changed, said
    return value, "nothing"


def spoil_json(rng, data):
    value = json.loads(data)
    way = rng.random()
    if way < 0.05:
        levels = rng.choice((1000, 100_000))
        return deep(levels).encode(), f"{levels} brackets"
    if way < 0.1 and isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        text = json.dumps(value)
        twice = json.dumps({key: other_value(rng, value[key])})[1:-1]
        return f"{{{twice}, {text[1:]}".encode(), f"{key} twice"
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        value, what = spoil_value(rng, value)
        said.append(what)
    return json.dumps(value).encode(), "; ".join(said)


# Tokenizers: rules that grow what they are given.

def spoil_tokenizer(rng, data):
    value = json.loads(data)
    times = rng.choice((2, 40, 400))
    grow = [{"type": "Replace", "pattern": {"String": letter},
             "content": letter * 4} for letter in "tea"]
    bombs = {
        "normalizer": {"type": "Sequence", "normalizers": grow * times},
        "decoder": {"type": "Sequence", "decoders": grow * times},
        "pre_tokenizer": {"type": "Split", "pattern": {
            "Regex": rng.choice(("(a+)+$", "(.*)*x", "(?:(?=(.*))\\1)*z",
                                 "", "(t|h|e|.)*?$"))},
            "behavior": rng.choice(("Isolated", "Removed", "Contiguous")),
            "invert": rng.random() < 0.5},
        "added_tokens": [{"id": rng.choice((2**24 - 1, 2**31 - 1, -1)),
                          "content": "the", "special": False}],
        "post_processor": {"type": "Sequence", "processors": [
            value.get("post_processor")] * times},
        "truncation": {"max_length": rng.choice(NUMBERS), "stride": 0,
                       "strategy": "LongestFirst", "direction": "Right"},
    }
    name = rng.choice(sorted(bombs))
    value[name] = bombs[name]
    if name in ("normalizer", "decoder") and rng.random() < 0.4:
        prefix = {"type": "Prepend" if name == "normalizer" else "Replace",
                  "prepend": "t" * 1000, "pattern": {"String": ""},
                  "content": "t" * 1000}
        value[name] = {**value[name], f"{name}s": [prefix] * times}
    return json.dumps(value).encode(), f"{name} of {times}"


def spoil_record(rng, data):
    """The numbers that a resumed run goes on from."""
    value = json.loads(data)
    key = rng.choice([key for key in ("step", "tokens", "seconds",
                                      "parameters") if key in value] or ["x"])
    value[key] = rng.choice(NUMBERS)
    return json.dumps(value).encode(), f"{key} = {value[key]!r}"


# Safetensors: eight bytes of length, a JSON header, the tensors.

def take_apart(data):
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]), data[8 + size:]


def put_together(header, payload):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


def change_length(rng, data):
    (size,) = struct.unpack("<Q", data[:8])
    size = rng.choice((0, 1, size - 1, size + 1, len(data), 2**31, 2**32,
                       2**63 - 8, 2**64 - 1))
    return struct.pack("<Q", size) + data[8:], f"header of {size} bytes"


def change_header(rng, data):
    header, payload = take_apart(data)
    header, said = spoil_value(rng, header)
    return put_together(header, payload), said


def change_tensor(rng, data):
    """Numbers that are none, or ids that no vocabulary has."""
    header, payload = take_apart(data)
    names = [name for name in header if name != "__metadata__"]
    if not names:
        return change_header(rng, data)
    name = rng.choice(names)
    begin, end = header[name]["data_offsets"]
    codes = {"F32": "<f", "I32": "<i", "I64": "<q", "F64": "<d"}
    code = codes.get(header[name]["dtype"], "<B")
    size = struct.calcsize(code)
    value = rng.choice(FLOATS) if code in ("<f", "<d") else rng.choice(
        (-1, 2**24, 2**31 - 1, -2**31)) if code != "<B" else 255
    count = (end - begin) // size
    changed = bytearray(payload)
    places_of = range(count) if rng.random() < 0.3 else [
        rng.randrange(count) for _ in range(rng.choice((1, 3)))] \
        if count else []
    for index in places_of:
        struct.pack_into(code, changed, begin + index * size, value)
    return put_together(header, bytes(changed)), \
        f"{name}: {value} in {len(places_of)} places"


SAFETENSORS = (change_length, change_header, change_header, change_tensor,
               change_tensor, change_tensor)


# Lines of text.

def spoil_lines(rng, data):
    lines = data.split(b"\n")
    index = rng.randrange(len(lines))
    line = lines[index]
    columns = line.split(b"\t")
    ways = {
        "removed": [],
        "doubled": [line, line],
        "without its tabs": [line.replace(b"\t", b" ")],
        "with a column less": [b"\t".join(columns[:-1])],
        "with columns reversed": [b"\t".join(reversed(columns))],
        "with bytes that are no UTF-8": [line + b"\xff\xfe\xc3"],
        "with a zero": [line + b"\0"],
        "of 200 kB": [line + b"x" * 200_000],
        "of 200 kB in columns": [line + b"\t1" * 100_000],
        "with another number": [b"\t".join(
            str(rng.choice(NUMBERS)).encode() if part.isdigit() else part
            for part in columns)],
        "full of brackets": [line + b"(" * 5000 + b")" * 5000],
    }
    how = rng.choice(sorted(ways))
    lines[index:index + 1] = ways[how]
    return b"\n".join(lines), f"line {index + 1} {how}"


PACKED = {".gz": (gzip.compress, gzip.decompress),
          ".xz": (lzma.compress, lzma.decompress)}


def spoil_packed(rng, name, data):
    """Either the archive or what is in it."""
    pack, unpack = PACKED[name[-3:]]
    way = rng.random()
    if way < 0.1:
        return pack(rng.choice((b"\0", b"a", b"a ")) * (4 << 20)), "4 MiB"
    if way < 0.3:
        text, said = spoil(rng, name[:-3], unpack(data))
        return pack(text), f"inside: {said}"
    return rng.choice(BYTES)(rng, data)


def spoil(rng, name, data):
    """Other bytes for a file of that name, and what was done."""
    if rng.random() < 0.3:
        return rng.choice(BYTES)(rng, data)
    if name.endswith(tuple(PACKED)):
        return spoil_packed(rng, name, data)
    if name.endswith((".safetensors", ".heads")):
        return rng.choice(SAFETENSORS)(rng, data)
    if name.endswith("training.json") and rng.random() < 0.5:
        return spoil_record(rng, data)
    if name.endswith("tokenizer.json") and rng.random() < 0.5:
        return spoil_tokenizer(rng, data)
    if name.endswith(".json"):
        return spoil_json(rng, data)
    if name.endswith(".jsonl"):
        lines = data.split(b"\n")
        index = rng.choice([i for i, line in enumerate(lines) if line])
        lines[index], said = spoil_json(rng, lines[index])
        return b"\n".join(lines), f"line {index + 1}: {said}"
    if name.endswith((".txt", ".conllu", ".conll", ".tsv")):
        return spoil_lines(rng, data)
    return rng.choice(BYTES)(rng, data)
