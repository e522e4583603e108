//! Tests that build a small crate, if this machine has a toolchain for kernels.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use eciton_author::{Build, CONTRACT, Difference, Error, Toolchain, check};

/// Copies `tests/tiny` to `dir`, and appends `more` to its source.
fn tiny(dir: PathBuf, more: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tiny");
    for folder in ["src", "wit"] {
        std::fs::create_dir_all(dir.join(folder)).unwrap();
    }
    std::fs::copy(source.join("Cargo.toml"), dir.join("Cargo.toml")).unwrap();
    let text = std::fs::read_to_string(source.join("src/lib.rs")).unwrap();
    std::fs::write(dir.join("src/lib.rs"), text + more).unwrap();
    std::fs::write(dir.join("wit/kernel.wit"), CONTRACT).unwrap();
    // The versions of the workspace are used, so that nothing is downloaded.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    if lock.is_file() {
        std::fs::copy(lock, dir.join("Cargo.lock")).unwrap();
    }
    dir
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_real_crate() {
    let home = tempfile::tempdir().unwrap();
    let toolchain = match Toolchain::find(home.path()) {
        Ok(toolchain) => toolchain,
        Err(Error::NoToolchain { tried }) => {
            println!("skipped: no toolchain for kernels here ({})", tried.join("; "));
            return;
        }
        Err(error) => panic!("{error}"),
    };
    println!("{}", toolchain.describe());
    // All suites share the target folder, so that the standard library is compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-target");
    let build = |dir: &Path| Build::new(&toolchain, dir).target_dir(&target);

    // The crate builds, fulfils the contract, and contains no path of this machine.
    let one = tiny(home.path().join("one"), "");
    let out = home.path().join("out/one.wasm");
    let mut lines = 0;
    let built = build(&one).on_line(|_| lines += 1).run(&out).unwrap();
    let component = std::fs::read(&out).unwrap();
    println!("{} bytes", built.bytes_len);
    assert!(lines > 0);
    assert_eq!(built.bytes_len, component.len() as u64);
    assert_eq!(built.package, "tiny");
    assert!(built.bytes_len < 64 << 10, "{} bytes", built.bytes_len);
    assert_eq!(check(&component).unwrap(), []);
    for path in [home.path().to_str().unwrap(), "/.cargo/", "/rustlib/", "/home/"] {
        assert!(!contains(&component, path), "{path} is in the component");
    }
    assert!(contains(&component, "src/lib.rs"), "a panic could not say where it was");

    // The same source in another folder gives the same bytes.
    let two = tiny(home.path().join("a second place"), "");
    let again = build(&two).run(&home.path().join("two.wasm")).unwrap();
    assert_eq!(again.digest, built.digest);

    // An ambient import is refused by name, and nothing is written.
    let ambient = "
        unsafe extern \"C\" { fn host_clock() -> u64; }
        #[unsafe(no_mangle)] extern \"C\" fn tick() -> u64 { unsafe { host_clock() } }";
    let three = tiny(home.path().join("three"), ambient);
    let out = home.path().join("three.wasm");
    match build(&three).run(&out).unwrap_err() {
        Error::Contract { differences, .. } => {
            assert_eq!(differences, [Difference::Ambient { import: "env.host_clock".to_owned() }])
        }
        error => panic!("{error}"),
    }
    assert!(!out.exists());

    // The user sees the compiler's own messages.
    let four = tiny(home.path().join("four"), "\nfn wrong() -> u32 { \"text\" }\n");
    let error = build(&four).run(&out).unwrap_err().to_string();
    assert!(error.contains("error[E0308]") && error.contains("src/lib.rs"), "{error}");
    assert!(!out.exists());

    // A library that exports no kernel.
    let five = tiny(home.path().join("five"), "");
    std::fs::write(five.join("src/lib.rs"), "").unwrap();
    let error = build(&five).run(&out).unwrap_err().to_string();
    assert!(error.contains("eciton:kernel/vertex"), "{error}");
}

#[test]
fn folders_without_a_kernel() {
    let home = tempfile::tempdir().unwrap();
    let Ok(toolchain) = Toolchain::find(home.path()) else {
        println!("skipped: no toolchain for kernels here");
        return;
    };
    let run =
        |dir: &Path| Build::new(&toolchain, dir).run(&home.path().join("out.wasm")).unwrap_err().to_string();
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(run(&empty).contains("no Cargo.toml and no .c file"));

    // Cargo itself refuses a workspace without members.
    std::fs::write(empty.join("Cargo.toml"), "[workspace]\n").unwrap();
    let error = run(&empty);
    assert!(error.contains("the build failed") && error.contains("virtual"), "{error}");

    std::fs::write(empty.join("Cargo.toml"), "[package]\nname = 3\n").unwrap();
    let error = run(&empty);
    assert!(error.contains("the build failed") && error.contains("name"), "{error}");

    let program = home.path().join("program");
    std::fs::create_dir_all(program.join("src")).unwrap();
    std::fs::write(program.join("src/main.rs"), "fn main() {}").unwrap();
    let manifest = "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(program.join("Cargo.toml"), manifest).unwrap();
    let error = run(&program);
    assert!(error.contains("without a library"), "{error}");
}
