# Sourced by run.sh and arm64.sh: makes the artefacts and checks what the loader says of them.

cd "$(dirname "$0")/../../../.."
target=${CARGO_TARGET_DIR:-target}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# The host's own products then run the same instructions on all machines, so bits are equal.
export ECITON_SIMD=avx2

make_artefacts() {
    cargo build --release --workspace --example artefact-make   # as whole as everything else is built: nothing is compiled again
    "$target/release/examples/artefact-make" "$folder"
}

# check STATUS TEXT COMMAND...: it must end so and say so.
check() {
    wanted=$1 text=$2
    shift 2
    status=0
    "$@" >"$folder/said" 2>"$folder/warned" || status=$?
    # qemu warns about features of its models that no kernel uses.
    said=$(
        cat "$folder/said"
        grep -v "TCG doesn't support requested feature" "$folder/warned" || true
    )
    if [ "$status" -eq "$wanted" ] && printf '%s' "$said" | grep -qF -- "$text"; then
        echo "ok: $said"
    else
        echo "FAILED: $* ended with $status (not $wanted): $said"
        failed=1
    fi
}

# skip TEXT: says what was not run; an error where ECITON_REQUIRE_QEMU=1.
skip() {
    echo "skipped: $1"
    [ "${ECITON_REQUIRE_QEMU:-0}" = 0 ] || failed=1
}
