#!/bin/sh
# Compiled kernels on an emulated 64-bit Arm machine: a Neoverse N1 and an older Cortex-A72.
#
# The loader is built by `cargo` for aarch64-unknown-linux-gnu and linked by zig against glibc 2.34,
# that of Amazon Linux 2023. Needed besides `qemu-aarch64-static`:
#   ZIG                    how zig is called, as `python -m ziglang`
#   ECITON_ARM64_RUSTC     a compiler other than that of PATH, as Debian's `rustc-web`, and
#   ECITON_ARM64_SYSROOT   a folder with lib/rustlib/aarch64-unknown-linux-gnu (Debian's
#                          libstd-rust-web-dev:arm64 of the same version, unpacked), where the compiler
#                          of PATH has no such target (`rustup target add aarch64-unknown-linux-gnu`)
#   ECITON_ARM64_ROOT      a folder with lib/ld-linux-aarch64.so.1 and the C library (Debian's
#                          libc6:arm64, unpacked), for the emulator
# What cannot be run is said, and is an error with ECITON_REQUIRE_QEMU=1.
set -eu
. "$(dirname "$0")/check.sh"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || {
    skip "there is no qemu-aarch64 (Debian: qemu-user-static)"
    exit $failed
}
if [ -z "${ZIG:-}" ] || [ ! -e "${ECITON_ARM64_ROOT:-/}/lib/ld-linux-aarch64.so.1" ]; then
    skip "64-bit Arm, for ZIG or ECITON_ARM64_ROOT are not set: see the head of $0"
    exit $failed
fi
# On an x86-64 machine the bits to compare with come from its own code.
make_artefacts

# Where they stay: cargo builds everything again when its linker has another path. The cc crate names
# the target in clang's words, which zig does not read.
mkdir -p "$target/arm64"
tools=$(cd "$target/arm64" && pwd)
cat >"$tools/cc" <<CC
#!/bin/bash
args=()
for a in "\$@"; do case \$a in --target=*) ;; *) args+=("\$a") ;; esac; done
exec $ZIG cc -target aarch64-linux-gnu.2.34 "\${args[@]}"
CC
printf '#!/bin/sh\nexec %s ar "$@"\n' "$ZIG" >"$tools/ar"
chmod +x "$tools/cc" "$tools/ar"
triple=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$tools/cc"
export CC_aarch64_unknown_linux_gnu="$tools/cc" AR_aarch64_unknown_linux_gnu="$tools/ar"
if [ -n "${ECITON_ARM64_SYSROOT:-}" ]; then
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="--sysroot $ECITON_ARM64_SYSROOT"
fi
[ -z "${ECITON_ARM64_RUSTC:-}" ] || export RUSTC="$ECITON_ARM64_RUSTC"
# Apart, for two compilers in one folder would build everything again each time.
CARGO_TARGET_DIR=$target/arm64 cargo build --release --target $triple \
    -p eciton-kernel --no-default-features --example artefact-load
load=$target/arm64/$triple/release/examples/artefact-load
newest=$(objdump -T "$load" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
echo "it asks for $newest"

for kernel in linear head; do
    check 0 "$kernel neoverse-n1" \
        "$qemu" -cpu neoverse-n1 -L "$ECITON_ARM64_ROOT" "$load" "$folder" $kernel neoverse-n1
    check 3 "lacks lse, fp16, dotprod" \
        "$qemu" -cpu cortex-a72 -L "$ECITON_ARM64_ROOT" "$load" "$folder" $kernel neoverse-n1
    check 3 "lacks an x86-64 processor" \
        "$qemu" -cpu neoverse-n1 -L "$ECITON_ARM64_ROOT" "$load" "$folder" $kernel x86-64-v3
done
exit $failed
