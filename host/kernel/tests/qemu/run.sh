#!/bin/sh
# Compiled kernels on emulated older processors: run from anywhere, `host/kernel/tests/qemu/run.sh`.
#
# Builds a maker with the compiler and a loader without it, makes artefacts for x86-64-v3 and, under
# that name, with this machine's instructions, and runs the loader here, as a Haswell (x86-64-v3, no
# AVX-512) and as a Nehalem (older). Every answer is checked; what cannot be run here is said, and is
# an error with ECITON_REQUIRE_QEMU=1.
set -eu
. "$(dirname "$0")/check.sh"
make_artefacts
cargo build --release -p eciton-kernel --no-default-features --example artefact-load
load=$target/release/examples/artefact-load

if grep -q avx2 /proc/cpuinfo; then
    for kernel in linear head; do
        check 0 "$kernel x86-64-v3" "$load" "$folder" $kernel x86-64-v3 50
    done
    # That the comparison of bits can fail: other products of the host.
    check 4 "its bits are not" env ECITON_SIMD=portable "$load" "$folder" linear x86-64-v3
    check 3 "lacks a 64-bit Arm processor" "$load" "$folder" linear neoverse-n1
else
    skip "running x86-64-v3 here, this machine has no AVX2"
fi

if ! qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64); then
    skip "the emulated processors, there is no qemu-x86_64 (Debian: qemu-user-static)"
    exit $failed
fi
for kernel in linear head; do
    check 0 "$kernel x86-64-v3" "$qemu" -cpu Haswell "$load" "$folder" $kernel x86-64-v3
    check 3 "lacks avx, avx2" "$qemu" -cpu Nehalem "$load" "$folder" $kernel x86-64-v3
    if grep -Eq 'avx512|avx_vnni' /proc/cpuinfo; then
        # Which of the instructions the engine names first is its own affair.
        check 3 "is enabled, but not available on the host" "$qemu" -cpu Haswell "$load" "$folder" $kernel this-machine
    else
        echo "not run: this machine's own code on a Haswell, for it has nothing that a Haswell lacks"
    fi
done
exit $failed
