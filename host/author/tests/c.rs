//! Tests that build the kernel in C, if this machine has a suitable clang.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use eciton_author::{Clang, Difference, Error, build_c, check};

/// Copies the repository's kernel to `dir`, and appends `more`.
fn kernel(dir: PathBuf, more: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-kernels/other-languages/c/kernel.c");
    let text = std::fs::read_to_string(source).unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("kernel.c"), text + more).unwrap();
    dir
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_kernel_in_c() {
    let clang = match Clang::find() {
        Ok(clang) => clang,
        Err(error @ Error::NoClang { .. }) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    println!("{}", clang.describe());
    let home = tempfile::tempdir().unwrap();
    let build = |dir: &Path, out: &Path| build_c(&clang, dir, out, &mut |_| ());

    // The kernel builds without a warning, fulfils the contract, and contains no path of this
    // machine.
    let one = kernel(home.path().join("one"), "");
    let out = home.path().join("out/one.wasm");
    let mut lines = Vec::new();
    let built = build_c(&clang, &one, &out, &mut |line| lines.push(line.to_owned())).unwrap();
    assert_eq!(lines, [""; 0]);
    let component = std::fs::read(&out).unwrap();
    println!("{} bytes", built.bytes_len);
    assert!(built.bytes_len == component.len() as u64 && built.bytes_len < 64 << 10, "{built:?}");
    assert_eq!((&*built.package, check(&component).unwrap()), ("one", Vec::new()));
    for path in [home.path().to_str().unwrap(), "/usr/", "/tmp/"] {
        assert!(!contains(&component, path), "{path} is in the component");
    }

    // The same source in another folder gives the same bytes.
    let two = kernel(home.path().join("a second place"), "");
    assert_eq!(build(&two, &home.path().join("two.wasm")).unwrap().digest, built.digest);

    // A function that needs the operating system is refused by name, and nothing is written.
    let more = "\n#include <time.h>\nvoid *keep[] = {(void *)time};\n\
                __attribute__((export_name(\"now\"))) int now(void) { return (int)time(NULL); }\n";
    let three = kernel(home.path().join("three"), more);
    let out = home.path().join("three.wasm");
    match build(&three, &out).unwrap_err() {
        Error::Contract { differences, .. } => {
            let clock = "wasi_snapshot_preview1.clock_time_get".to_owned();
            assert_eq!(differences, [Difference::Ambient { import: clock }]);
        }
        error => panic!("{error}"),
    }
    assert!(!out.exists());

    // The user sees the messages of the compiler and of the linker.
    for (more, words) in [
        ("int wrong(void) { return \"text\" * 2; }\n", "kernel.c:"),
        (
            "void absent(void);\n__attribute__((export_name(\"f\"))) void f(void) { absent(); }\n",
            "undefined symbol: absent",
        ),
    ] {
        let error = build(&kernel(home.path().join("four"), more), &out).unwrap_err().to_string();
        assert!(error.contains("the build failed") && error.contains(words), "{error}");
    }
    assert!(!out.exists());
}
