# Settings and functions of `.ci/run` and `.ci/campaign`, which source this file from the root of the clone.
root=$PWD

export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 NO_COLOR=1
maturin=1.16.0
componentize_py=0.25.1
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR=$target
export ECITON_KERNEL_TARGET=$target/tmp/kernel-target   # the suites use it too: the standard library for kernels is compiled once
eciton=$target/release/eciton
quick=(--config "$root/.ci/quick.toml")

now= began=0 took=()
section() {
  [ -z "$now" ] || took+=("$(printf '%4d s  %s' $((SECONDS - began)) "$now")")
  now=$*; began=$SECONDS
  printf '\n=== %3d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$now"
}
report() {   # seconds of each section, after the last; $1 is the exit status
  [ "$1" = 0 ] || printf '\n=== %3d:%02d  FAILED in: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$now" >&2
  section "total"
  printf '%s\n' "${took[@]}"
}

# Work beside the sections: `later NAME COMMAND...` starts it, `await NAME` waits for it and prints its output if it failed.
declare -A beside=()
later() {
  local name=$1; shift
  ( "$@" ) > "$work/$name.log" 2>&1 &
  beside[$name]=$!
}
await() {
  local id=${beside[$1]} waited=$SECONDS
  unset "beside[$1]"
  wait "$id" || { tail -n 60 "$work/$1.log" >&2; return 1; }
  printf 'waited %d s for: %s\n' $((SECONDS - waited)) "$1"
}
leave() {   # ends what nobody has waited for
  local id
  for id in "${beside[@]}"; do kill "$id" 2> /dev/null || true; done
}

toolchain() {
  privileged() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
  if command -v apt-get > /dev/null; then
    privileged apt-get update -qq
    lld=$(apt-cache search --names-only '^lld-[0-9]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
    privileged apt-get install -y -qq --no-install-recommends rustc-web rust-web-src "${lld:-lld}" clang lld wasi-libc python3 python3-venv make binutils qemu-user-static > "$work/apt.log" 2>&1 \
      || { tail -n 30 "$work/apt.log" >&2; exit 1; }
    dpkg-query -W -f '${Package} ${Version}\n' rustc-web rust-web-src "${lld:-lld}" clang wasi-libc
  fi
  cargo --version && rustc --version
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install -q "maturin==$maturin" numpy scipy safetensors
  export ECITON_PYTHON=$work/venv/bin/python   # the oracle's, for the suites
}

# README's command is `cargo nextest run --release --workspace`; cargo's own runner serves where nextest is absent.
suite() {   # nextest's filter may follow
  if cargo nextest --version > /dev/null 2>&1; then
    cargo nextest run "${quick[@]}" --locked --release --workspace --no-fail-fast "$@"
  else
    cargo test "${quick[@]}" --locked --release --workspace --no-fail-fast
  fi
}
# Compiles what `suite` runs.
suite_programs() {
  if cargo nextest --version > /dev/null 2>&1; then
    cargo nextest run "${quick[@]}" --locked --release --workspace --no-run
  else
    cargo test "${quick[@]}" --locked --release --workspace --no-run
  fi
}

# Trains with a component in place of each kernel of a list, which must compute the same: `languages NAME...`.
languages() {
  local language expected= found
  for language in "$@"; do
    "$eciton" kernel check "$work/languages/$language.wasm" --inputs 16 --set out-features=8
    printf 'hidden = 16\n[[layers]]\nkernel = "gcn"\n[[layers]]\nkernel = "./%s.wasm"\nattributes = { out-features = 7 }\n' "$language" > "$work/languages/$language.toml"
    "$eciton" train --model "$work/languages/$language.toml" --epochs 10 --threads 8 --intervals 8 --json --no-out > "$work/languages/$language.json"
    found=$("$work/venv/bin/python" -c 'import json, sys; print(json.loads(open(sys.argv[1]).readlines()[-1])["model_digest"])' "$work/languages/$language.json")
    echo "$language: $found"
    [ "$found" = "${expected:=$found}" ]
  done
}
