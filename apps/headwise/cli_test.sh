#!/usr/bin/env bash
# The program's conventions: exit codes, where messages go, the nearest known
# word, files whole or not at all. Usage: cli_test.sh PROGRAM
set -u
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

# said PATTERN: stdout or stderr of the last call matches.
said() {
  grep -qE -- "$1" "$folder/out" "$folder/err"
}

# expect CODE PATTERN ARGS…: runs the program, whose stdout or stderr must match
# the pattern.
expect() {
  local code=$1 pattern=$2
  shift 2
  "$program" "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  if [[ $got -ne $code ]] || ! said "$pattern"; then
    echo "FAILED: headwise $* (exit $got, expected $code, /$pattern/)"
    cat "$folder/out" "$folder/err"
    failures=$((failures + 1))
  fi
}

# expect_also PATTERN: the last call said this too.
expect_also() {
  said "$1" || fail "expected /$1/ too, found: $(cat "$folder"/{out,err})"
}

# expect_quiet WHAT: nothing on stdout (or stderr) of the last call.
expect_quiet() {
  if [[ -s $folder/$1 ]]; then
    echo "FAILED: expected nothing on std$1, found:"
    cat "$folder/$1"
    failures=$((failures + 1))
  fi
}

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# fits COLUMNS: no line of stdin is wider, and each is UTF-8.
fits() {
  [[ $(LC_ALL=C.UTF-8 grep -cavxE ".{0,$1}") == 0 ]]
}

cat_sat="The cat sat on the mat"

expect 0 '^headwise [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 'Understand:'
expect 0 'Understand:' --help
commands=$("$program" --help | sed -n '/^Understand/,$s/^  \([a-z]*\) .*/\1/p')

# Help fits the terminal; commands to copy stand as they are.
for columns in 40 80; do
  for command in '' $commands; do
    COLUMNS=$columns expect 0 "${command:+^Examples:}" $command --help
    sed '/^Examples/,$d' "$folder/out" | fits $columns ||
      fail "help of $command within $columns columns"
  done
done

expect 2 'tokens: expected a number of at least 0; found -5$' rank m --tokens -5
expect 2 'cells: expected a number from 1 to 512; found 513$' show m --cells 513
expect 2 'seed: expected a number of at least 0; found -1$' generate m --seed -1
expect 2 'ids: expected a whole number; found x$' generate m --ids x
expect 2 'threads: expected a whole number of fewer digits; found 99999999999$' \
  show m --threads 99999999999
expect 2 'repeats: expected a number from 0 to 10000; found 99999999999$' \
  profile m --repeats 99999999999
expect 2 'seed: expected a number of at least 0; found -1$' compare x --seed -1
for size in 2 -1GiB 2GB much; do
  expect 2 'weight-memory: expected a number with its unit' \
    generate m x --weight-memory "$size"
done
expect 2 'unknown flag --weight-memory' prune m --weight-memory 2GiB
expect 0 'has no products in bf16 of f32 operands' \
  explain matmul --precision bf16
expect 2 'precision: expected' explain matmul --precision f8
expect 2 'either PROMPT or --ids' generate m x --ids 1
expect 2 'by: expected weights or effect; found x$' compose m --by x
expect 2 'answers: expected 2 words; found 1$' patch m --answers a
expect 2 'tokens: expected it once; found it again' rank m --tokens 1 --tokens 2

expect 2 'did you mean study' stduy
expect_quiet out
expect 2 'did you mean --help' --hlp
expect 2 'did you mean --json' study --jsn
expect 2 'did you mean --heads' compare "$cat_sat" --haeds 1,8
expect 2 'expected the name of a study' study
expect 2 'SENTENCE is required' compare
expect 2 'unexpected argument "extra"' compare cat extra
expect 1 'did you mean' study cost extra
expect 1 'did you mean rank' study rnak
expect_quiet out

expect 0 '^HELD: ' study averaging
expect_quiet err
expect 0 '"verdict": "HELD"' study averaging --json
expect_also '"hash": "[0-9a-f]{16}"'
expect_also '"machine": "'
expect 0 '"averaging": "[0-9a-f]{16}"' study averaging --hash
expect 0 'Fresh seeds,' study symmetry --explain
expect 0 'Nothing changed after a result' study averaging --explain
expect 2 'seeds: expected' study averaging --seeds 0
expect 2 'seeds: expected' study averaging --seeds 2147483647
expect 2 'seeds: expected' study averaging --seeds 5-3
expect 2 'seeds: expected' study averaging --seeds 3,1-3
expect 0 '^HELD: ' study averaging --seeds 3,21-22
expect 2 'expected the name of a study' study averaging --all

# What is done is not run again, what has changed is.
expect 0 '^HELD 2, REFUTED 0, UNDECIDED 0, EXPLORATORY 0$' \
  study averaging content --out "$folder/studies"
sed -i 's/"seconds": [0-9.e-]*/"seconds": 4321.0/' "$folder"/studies/*.json
sed -i 's/"hash": ".*"/"hash": "old"/' "$folder/studies/content.json"
expect 0 'averaging +HELD .* 4321\.0' \
  study averaging content --out "$folder/studies"
grep -q 4321 "$folder/studies/content.json" &&
  fail 'a study with another hash is run again'
expect 0 'averaging +HELD' study averaging content --full \
  --out "$folder/studies"
grep -q 4321 "$folder/studies/averaging.json" &&
  fail 'a quick run does not stand for a full one'
expect 0 'normalise-order' study --list

# The shipped models, that say they know 16 positions: random repeats then take
# a fifth of the time, and a short text already goes past their end.
assets=$(dirname "$0")/../../assets
few=$folder/assets
mkdir "$few"
cp -r "$assets"/novels "$assets"/novels-one-head "$few"
sed -i 's/"max_position_embeddings": 512/"max_position_embeddings": 16/' \
  "$few"/*/config.json

HEADWISE_ASSETS=$few expect 0 'Kept by 8 heads' compare "$cat_sat"
HEADWISE_ASSETS=$few expect 0 '"trained": true' compare "$cat_sat" --json
expect 0 '"trained": false' compare "$cat_sat" --json --untrained
expect 0 '"trained": false' compare "$cat_sat" --json --heads 1,4
expect 1 'from 0 to 5' compare "$cat_sat" --layer 6
expect 2 'of trained models' compare "$cat_sat" --layer 1 --untrained
expect 2 'leave out --untrained, --heads' compare "$cat_sat" --layer 1 --heads 2
expect 2 'of trained models' compare "$cat_sat" --model m --heads 2
expect 1 'at least two tokens' compare ''
expect 1 'head counts from 1' compare "$cat_sat" --heads 0
expect 1 '64 / 7 leaves 1' compare "$cat_sat" --heads 7
expect 2 'heads' compare "$cat_sat" --heads many
expect_quiet out

expect 1 'error: ' compare "$cat_sat" --out "$folder/none/page.html"
expect 1 'error: ' compare "$cat_sat" --out "$folder"
mkdir "$folder/pages"
HEADWISE_ASSETS=$few expect 0 '.' compare "$cat_sat" \
  --out "$folder/pages/page.html"
[[ $(ls "$folder/pages") == page.html ]] || fail "only the page is left behind"
tail -c 8 "$folder/pages/page.html" | grep -q '</html>' || fail "whole page"

# Which heads matter, on the planted model.
planted=$assets/planted
story=$assets/text/the-lamp-at-sorrel-point.txt
expect 0 'heads carry 90 %' rank "$planted" --text "$story" \
  --tokens 256 --context 64 --by ablation-zero
expect 0 '"format": "headwise.ranking/1"' rank "$planted" --text "$story" \
  --tokens 128 --context 64 --by weights --json
expect 0 '\+0\.[0-9]{4} +-?\.[0-9]{4}…-?\.[0-9]{4}  ' rank "$planted" \
  --text "$story" --tokens 256 --context 64 --by ablation-zero,activation
expect 2 'did you mean ablation-mean' rank "$planted" --text "$story" \
  --by ablation-meen
expect 1 'error: ' rank "$planted" --text "$folder/none.txt"
printf 'a' >"$folder/short.txt"
expect 1 'at least two tokens' rank "$planted" --text "$folder/short.txt"
expect_quiet out
expect 0 'together' patch "$planted" --prompt 'The lamp' --answers ' the' ' a'
expect 1 'as many tokens' patch "$planted" --prompt 'The lamp' \
  --counterfactual 'The lamp was out' --answers ' the' ' a'
expect 2 'either --prompt or --prompts' patch "$planted"
# One of two answers is the wrong one: the clean run does not prefer it.
warned=0
for answers in "' the' ' a'" "' a' ' the'"; do
  eval "\"\$program\" patch \"\$planted\" --prompt 'The lamp' \
    --answers $answers" 2>&1 >/dev/null |
    grep -q 'warning: \[patch\] expected the clean run to prefer the right' &&
    warned=$((warned + 1))
done
[[ $warned -eq 1 ]] || fail "patch warns of the wrong answer, $warned of 1 times"

# Like heads, heads that feed heads, attention drawn.
story=$planted/vocabulary.txt
expect 0 '"0.1","b":"0.2".*"jsd":0.0,' similar "$planted" --text "$story" \
  --tokens 512 --json
expect 0 '0\.1 ~ 0\.2 +0\.000' similar "$planted" --text "$story" --tokens 512 \
  --svg "$folder/like.svg"
grep -q '</svg>' "$folder/like.svg" || fail "a whole picture of like heads"
expect 1 'expected text; found none' similar "$planted" --text /dev/null
expect 1 'at least two tokens' similar "$planted" --text "$folder/short.txt"
expect 2 'text is required' similar "$planted"
expect 2 'rows: expected a number of at least 1; found -4' similar "$planted" \
  --text "$story" --rows -4
expect 2 'twin: expected a number from 0 to 1; found -1' similar "$planted" \
  --text "$story" --twin -1
expect 2 '^error: --least-hurt is now --least-negative$' rank "$planted" \
  --least-hurt 0
expect 2 'did you mean --self-repair' rank "$planted" --self-repar
expect 0 '0\.0 → 1\.0 +k ' compose "$planted" --top 4 \
  --svg "$folder/graph.svg" --dot "$folder/graph.dot"
grep -q '"0.0" -> "1.0"' "$folder/graph.dot" || fail "the planted edge in DOT"
grep -q '</svg>' "$folder/graph.svg" || fail "a whole graph"
expect 0 '"input":"k".*"effect":0\.' compose "$planted" --text "$story" \
  --tokens 64 --by effect --json
expect 2 'needs --text' compose "$planted" --by effect
goldens=$(dirname "$0")/../../tests/conformance/goldens
expect 0 '^ *[01]\.[0-3] → 1\.(0–1|2–3) +[kv] ' compose "$goldens/llama"
expect_also 'share keys and values stand in one row'
normed='Queries and keys are normed'
for command in compose 'info --heads'; do
  expect 0 "$normed" ${command%% *} "$goldens/qwen3" \
    $(sed 's/^[a-z]* *//' <<<"$command")
  "$program" ${command%% *} "$goldens/qwen2" \
    $(sed 's/^[a-z]* *//' <<<"$command") | grep -q "$normed" &&
    fail "$command: qwen2 norms no queries"
done
expect 0 'Head 0\.0' show "$planted" "$cat_sat" --heads 0.0,1.0 \
  --svg "$folder/cat.svg"
expect_quiet err
grep -q '</svg>' "$folder/cat.svg" || fail "a whole picture of attention"
! grep -q '&lt;bos&gt; → [^&]' "$folder/cat.svg" ||
  fail "a cell for what the first token cannot see"
expect 0 'Head 2: position' show --example cat-sat --svg "$folder/cat.svg"
grep -q 'The framed word looks' "$folder/cat.svg" || fail "a word that looks"
expect 0 '"pooled":true' show "$planted" --text "$story" --heads 1.0 --cells 32 \
  --json
expect 1 'heads 1.0 to 1.7; found 1.99' show "$planted" "$cat_sat" \
  --heads 1.99
expect 1 'a token from 0 to' show "$planted" "$cat_sat" --heads 0.0 \
  --query 99
expect 2 'expected --heads' show "$planted" "$cat_sat"
expect 2 'either a text in quotes or --text FILE' show "$planted" --heads 0.0
expect 2 'either a text in quotes or --text FILE' show "$planted" "$cat_sat" \
  --text "$story" --heads 0.0
expect 2 'takes the place of TEXT' dump "$planted" "$cat_sat" --input x --out x
expect 0 'A last-token head' show --example cat-sat
expect 2 'there is cat-sat' show --example dog
for columns in 40 80; do
  COLUMNS=$columns "$program" show "$planted" --text "$story" --heads 0.1 2>"$folder/err" |
    fits $columns ||
    fail "show within $columns columns"
done

# Rotary positions go on past what a model was trained for; others end.
long=$assets/text/the-lamp-at-sorrel-point.txt
past='warning: \[context\] expected at most 16 tokens at once.*; found'
novels=$few/novels
expect 0 "$past 836;" show "$novels" --text "$story" --heads 0.0 --cells 8
for command in 'rank --by weights' 'similar' 'profile --metrics core' \
  'report --skip importance,similarity,composition,content,samples'; do
  where=
  case $command in profile*) where="--out $folder/a.heads" ;;
  report*) where="--out $folder/a.html" ;; esac
  expect 0 "$past 24;" ${command%% *} "$novels" --text "$long" --tokens 24 \
    --context 24 $(sed 's/^[a-z]* *//' <<<"$command") $where
done
expect 0 "$past 18;" generate "$novels" --ids 5,6 --max-tokens 16 --context 24
expect 0 "$past 24;" generate "$novels" --ids 5,6 --context 24 \
  --max-tokens 9223372036854775807
expect 0 '.' generate "$novels" --ids 5,6 --max-tokens 2 --context 24
expect_quiet err
expect 1 'at most 512 tokens, which is what the model has positions for' \
  generate "$planted" x --max-tokens 2 --context 600
expect_quiet out

# A file of no sequences.
python3 -c 'import struct, sys
head = b"{\"input_ids\":{\"dtype\":\"I32\",\"shape\":[0,4],\"data_offsets\":[0,0]}}"
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head)' "$folder/no.ids"
none='sequences in "input_ids"; found none'
expect 1 "$none" dump "$planted" --input "$folder/no.ids" --out "$folder/a.out"
expect 1 "$none" profile "$planted" --ids "$folder/no.ids" --out "$folder/a.heads"

for command in profile roles; do
  "$program" $command --explain --json | python3 -m json.tool >/dev/null ||
    fail "$command --explain --json is JSON"
done

# One of a thing is one thing.
expect 0 'Width 1, 1 layer, 1 token: begin with 1 head of 1 dimension a layer' \
  study effective-heads --recommend 1,1,1
expect 0 ' 2\.0 TiB' study effective-heads --recommend 4096,32,131072

# What many GPUs would take, and why no more of them help.
expect 0 'every rank reads and cuts' \
  plan --model "$assets/novels" --gpus 64
expect 0 'GB of gradients' \
  plan --model "$assets/novels" --work train --gpus 1024 --step-tokens 65536
expect 2 'above 0' plan --model "$assets/novels" --tokens -1
# Copies of one command fight over its files: ranks must know each other.
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 \
  expect 2 'info does not share its work among ranks' info "$assets/novels"

# What a model is, up to its own context.
expect 0 '^  512 ' info "$assets/novels"
for columns in 40 80; do
  for arguments in "info $assets/novels --heads" 'explain attention' \
    "bleu $planted/config.json $planted/config.json" \
    "plan --model $assets/novels --tokens 1e9" \
    "compare cat,sat --model $planted --model $novels" \
    "dump $planted cat --out $folder/cat.dump" \
    "vocab --text $story --size 300 --out $folder/a.json"; do
    COLUMNS=$columns "$program" $arguments |
      fits $columns ||
      fail "$arguments within $columns columns"
  done
done

# What cannot be written is said before the work, not after it: each of these
# would take ten seconds and more.
for _ in {1..40}; do cat "$assets"/text/*.txt; done >"$folder/long.txt"
for arguments in "study one-vs-many --svg $folder/none/a.svg" \
  "report $assets/novels --text $folder/long.txt --out $folder/none/a.html" \
  "profile $assets/novels --text $folder/long.txt --out $folder/none/a.heads" \
  "generate $assets/novels --file $folder/long.txt --out $folder/none/a.txt" \
  "similar $assets/novels --text $folder/long.txt --tokens 0 --svg $folder/none/a.svg" \
  "compose $assets/novels --text $folder/long.txt --tokens 4096 --dot $folder/none/a.dot" \
  "show $assets/novels --text $folder/long.txt --heads 0.0 --svg $folder/none/a.svg" \
  "compare cat --svg $folder/none/a.svg" \
  "demo --out $folder/short.txt"; do
  SECONDS=0
  expect 1 'error: \[write ' $arguments
  ((SECONDS < 6)) || fail "$arguments: told only after the work"
done
: >"$folder/empty.txt"
expect 1 'expected text; found none' vocab --text "$folder/empty.txt" \
  --out "$folder/tokenizer.json"
expect 2 'min-count: expected a number of at least 1; found -1' vocab --text "$story" \
  --min-count -1 --out "$folder/tokenizer.json"
# One vocabulary from one text, whatever holds it.
mkdir "$folder/texts"
gzip -c "$story" >"$folder/texts/a.txt.gz"
python3 -c 'import json, sys; print(json.dumps({"text": open(sys.argv[1]).read()}))' \
  "$story" >"$folder/a.jsonl"
expect 0 ' 300 entries' vocab --text "$story" --size 300 --out "$folder/plain.json"
for text in "$folder/texts" "$folder/a.jsonl"; do
  expect 0 ' 300 entries' vocab --text "$text" --size 300 --out "$folder/other.json"
  cmp -s "$folder/plain.json" "$folder/other.json" || fail "vocabulary of $text"
done
expect 1 'special-tokens that differ' vocab --text "$story" --size 300 \
  --special-tokens '<bos>' --out "$folder/tokenizer.json"

# Everything as one page.
expect 2 'expected --text FILE' report "$planted"
expect 2 'did you mean similarity' report "$planted" --text "$story" \
  --skip similarty --out "$folder/pages/report.html"
expect 1 'save it in a file' report "$planted" --text -
expect 1 'error: ' report "$planted" --text "$folder/none.txt" \
  --out "$folder/pages/report.html"
expect 1 'error: ' report "$folder" --text "$story" \
  --out "$folder/pages/report.html"
expect_quiet out
[[ $(ls "$folder/pages") == page.html ]] || fail "no report of what failed"
expect 0 'previous-token' report "$planted" --text "$story" --tokens 512 \
  --rank-tokens 256 --out "$folder/pages/report.html" \
  --json "$folder/pages/report.json"
tail -c 8 "$folder/pages/report.html" | grep -q '</html>' || fail "whole report"
grep -q '"format": "headwise.report/1"' "$folder/pages/report.json" ||
  fail "the report's data"

# A pipe that closes early ends the program without a message; how far it is,
# which is told after 10 seconds, is none.
HEADWISE_ASSETS=$few "$program" compare "$cat_sat" 2>"$folder/all" |
  head -1 >/dev/null
grep -v '^probe the model: [0-9]' "$folder/all" >"$folder/err"
expect_quiet err
if [[ -e /dev/full ]]; then
  "$program" study --list >/dev/full 2>"$folder/err"
  [[ $? -eq 1 ]] && grep -q 'No space left' "$folder/err" || fail "full disk"
fi
HEADWISE_ASSETS=$few "$program" compare "$cat_sat" | grep -q $'\033' &&
  fail "colour in a pipe"

[[ $failures -eq 0 ]] && echo "all as expected"
exit $((failures > 0))
