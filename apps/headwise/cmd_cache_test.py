#!/usr/bin/env python3
"""headwise generate and evaluate with --kv-policy as people call them: the
cache shrinks, the text stays what it is where nothing is cut, and what is
refused.

    apps/headwise/cmd_cache_test.py PROGRAM SOURCES
"""
import json
import pathlib
import tempfile

from command_testing import SOURCES, TEXT, check, headwise, refused, well

MODEL = SOURCES / "assets/planted"
IDS = ",".join(str(3 + 7 * i % 90) for i in range(200))


def generated(*arguments):
    return json.loads(well("generate", MODEL, "--ids", IDS, "--max-tokens", 40,
                           "--json", *arguments))


def generates(folder):
    policy = folder / "policy.json"
    plain = generated()
    check("cache" not in plain, "a whole cache is not told about")
    check(generated("--kv-policy", "all")["ids"] == plain["ids"], "all")
    # The model's induction heads keep everything.
    roles = generated("--kv-policy", "roles", "--kv-out", policy)["cache"]
    whole = roles["policy"]["whole"]
    check({"1.0", "1.4"} <= set(whole) and len(whole) < roles["heads"],
          str(roles))
    check(roles["bytes"] < roles["whole_bytes"] and roles["saved"] > 0.2,
          str(roles))
    again = generated("--kv-policy", policy)["cache"]
    check(again == roles, f"{again} {roles}")
    small = generated("--kv-policy", policy, "--window", 8)["cache"]
    check(small["bytes"] < roles["bytes"], "a smaller window")
    # A window over everything cuts nothing.
    same = generated("--kv-policy", policy, "--window", 400)
    check(same["ids"] == plain["ids"] and same["cache"]["saved"] == 0,
          str(same["cache"]))
    profile = folder / "planted.heads"
    well("profile", MODEL, "--text", TEXT, "--tokens", 1000, "--out", profile)
    read = generated("--kv-policy", "roles", "--profile", profile)["cache"]
    check({"1.0", "1.4"} <= set(read["policy"]["whole"]), str(read))
    done = headwise("generate", MODEL, "--ids", IDS, "--max-tokens", 2,
                    "--kv-policy", policy)
    check(done.returncode == 0 and "saved" in done.stderr
          and "saved" not in done.stdout, done.stderr)
    return policy


def evaluates(policy):
    arguments = ("evaluate", MODEL, "--text", TEXT, "--tokens", 1024, "--json")
    plain = json.loads(well(*arguments))
    cut = json.loads(well(*arguments, "--kv-policy", policy, "--window", 32))
    check(abs(plain["loss"]["value"] - cut["loss"]["value"]) < 1e-4,
          f"{plain['loss']} {cut['loss']}")
    check(plain["tokens"] == cut["tokens"], "tokens")
    check(cut["cache"]["saved"] > 0.3, str(cut["cache"]))
    check(abs(cut["cut"]["value"] - cut["loss"]["value"]
              - cut["change"]["value"]) < 1e-6, str(cut))
    check("saved" in well(*arguments[:-1], "--kv-policy", policy), "its words")


def refuses(folder, policy):
    run = ("generate", MODEL, "--ids", "1,2")
    refused(2, "--kv-policy", *run, "--window", 8)
    refused(2, "--profile", *run, "--kv-policy", policy, "--profile", "x")
    refused(2, "closed", "evaluate", MODEL, "--text", TEXT, "--kv-policy",
            policy, "--drop", "0.1")
    refused(1, "none.json", *run, "--kv-policy", folder / "none.json")
    other = json.loads(policy.read_text(encoding="utf-8"))
    for key, value, word in (("model_hash", "0", "hash"),
                             ("whole", ["7.7"], "7.7"),
                             ("format", "headwise.plan/1", "kv-policy/1"),
                             ("window", 0, "window")):
        bad = folder / "bad.json"
        bad.write_text(json.dumps({**other, key: value}), encoding="utf-8")
        refused(1, word, *run, "--kv-policy", bad)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        policy = generates(folder)
        evaluates(policy)
        refuses(folder, policy)


if __name__ == "__main__":
    main()
