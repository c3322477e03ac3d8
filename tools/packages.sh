# The Debian packages that Headwise stands on, and the one way to get them.
# Sourced by ./headwise (what it takes to build and run) and ./check (what it
# takes to test as well).

build_packages=(
  g++ cmake ninja-build # the compiler and the build
  libhwy-dev            # Highway: SIMD with run-time dispatch
  libfmt-dev            # fmt: text
  nlohmann-json3-dev    # JSON
  libcli11-dev          # CLI11: the command line
  libpcre2-dev          # PCRE2: the rules that tokenizers cut text by
  libutf8proc-dev       # utf8proc: Unicode tables
  libsentencepiece-dev  # SentencePiece: .model files
  libopenblas0-pthread  # OpenBLAS: for its LAPACK, loaded when needed
  libxxhash-dev         # xxHash: what tells models apart
  zlib1g-dev            # gzip, and the two below: compressed text
  liblzma-dev           # xz
  libzstd-dev           # zstd
)

check_packages=(
  libgtest-dev libgmock-dev # unit tests
  clang-format clang-tidy   # format, slips
  python3 git               # the checks themselves
  xz-utils                  # unpacks test data
  clang libclang-rt-dev     # sanitizers, fuzzers
  ccache                    # the next clean clone compiles less
)

# For the report's page, where Node is: without it the page is not tested.
web_packages=(
  chromium # opens it
)

# need_packages NAME…: installs what is missing; without root says how, and
# returns 1.
need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "headwise: no Debian packages here. Needed: g++ 12 or clang 14 or" \
      "newer, CMake 3.25, Ninja, and the libraries Highway, fmt," \
      "nlohmann-json, CLI11, PCRE2, utf8proc, SentencePiece, OpenBLAS, xxHash," \
      "zlib, liblzma, zstd (tests:" \
      "GoogleTest, clang-format, clang-tidy, Python 3)" >&2
    return 0
  fi
  local missing=() name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == \
    installed ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    echo "headwise: packages are missing. As root:" >&2
    echo "  apt-get update && apt-get install -y ${missing[*]}" >&2
    return 1
  fi
  echo "headwise: installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  local command="apt-get update && apt-get install -y --no-install-recommends"
  command+=" ${missing[*]}"
  if [[ -t 2 ]]; then
    bash -c "$command" >&2 </dev/null && return 0
  else
    local output
    output=$(bash -c "$command" 2>&1 </dev/null) && return 0
    echo "$output" >&2
  fi
  echo "headwise: the packages could not be installed" >&2
  return 1
}
