# shellcheck shell=bash
#
# What scripts/build and scripts/docker-base share. Sourced, never run.

# Whether the toolchain here can compile for TRIPLE; has rustup bring what is missing.
rust_library() {
  compgen -G "$(rustc --print target-libdir --target "$1")/libstd-*" >/dev/null ||
    timeout 300 rustup target add "$1" >&2
}
