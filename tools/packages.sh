# The Debian packages that Headwise stands on, and the one way to get them.
# Sourced by ./headwise (what it takes to build, and to run a command) and by
# ./check (what it takes to test as well).

build_packages=(
  g++ cmake ninja-build # the compiler and the build
  libhwy-dev            # Highway: SIMD with run-time dispatch
  libfmt-dev            # fmt: text
  nlohmann-json3-dev    # JSON
  libcli11-dev          # CLI11: the command line
  libpcre2-dev          # PCRE2: the rules that tokenizers cut text by
  libutf8proc-dev       # utf8proc: Unicode tables
  libsentencepiece-dev  # SentencePiece: .model files
  libxxhash-dev         # xxHash: what tells models apart
  zlib1g-dev            # gzip, and the two below: compressed text
  liblzma-dev           # xz
  libzstd-dev           # zstd
)

# For the Python package (./headwise python).
python_packages=(
  pybind11-dev python3-dev # the module
  python3-numpy            # arrays
)

# What its tests take besides; without the last two, notebooks are not run.
python_check_packages=(
  python3-pytest
  python3-nbconvert python3-ipykernel
)

# Loaded when a command first asks for eigenvalues.
lapack_packages=(
  libopenblas0-pthread # OpenBLAS
)

# For commands by many processes, where mpirun starts them: a build without
# says so, and works as it does.
mpi_packages=(
  libopenmpi-dev openmpi-bin # OpenMPI
)

check_packages=(
  libgtest-dev libgmock-dev # unit tests
  clang-format clang-tidy   # format, slips
  python3 git               # the checks themselves
  xz-utils                  # unpacks test data
  clang libclang-rt-dev     # sanitizers, fuzzers
  ccache                    # the next clean clone compiles less
  pkg-config dpkg-dev       # what is installed, and packages of it
  doxygen                   # comments of the public headers
)

# For the report's page, where Node is: without it the page is not tested.
web_packages=(
  chromium # opens it
)

# missing_packages NAME…: those that are not installed, one a line.
missing_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "headwise: no Debian packages here. Needed: g++ 12 or clang 14 or" \
      "newer, CMake 3.25, Ninja, and the libraries Highway, fmt," \
      "nlohmann-json, CLI11, PCRE2, utf8proc, SentencePiece, OpenBLAS, xxHash," \
      "zlib, liblzma, zstd (tests:" \
      "GoogleTest, clang-format, clang-tidy, Python 3)" >&2
    return 0
  fi
  local known name
  # It fails when it does not know one of them.
  known=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" \
    2>/dev/null) || true
  for name in "$@"; do
    grep -qxF "installed $name" <<<"$known" || echo "$name"
  done
}

# may_install NAME…: without root says how, and returns 1.
may_install() {
  ((EUID != 0)) || return 0
  echo "headwise: packages are missing. As root:" >&2
  echo "  apt-get update && apt-get install -y $*" >&2
  return 1
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update && apt-get install -y --no-install-recommends "$@"
}

# need_packages NAME…: installs what is missing, in a line or with what went
# wrong.
need_packages() {
  local missing output
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  may_install "${missing[@]}" || return 1
  echo "headwise: installing ${missing[*]}" >&2
  output=$(install_packages "${missing[@]}" 2>&1 </dev/null) && return 0
  echo "$output" >&2
  echo "headwise: the packages could not be installed" >&2
  return 1
}
