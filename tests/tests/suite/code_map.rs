//! The code map of docs/explanation/architecture.md names the crates that each manifest depends on, and no others.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_code_map_is_that_of_the_manifests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = std::fs::read_to_string(root.join("docs/explanation/architecture.md")).unwrap();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        let folder = quoted(cells.get(1)?).pop_first()?;
        let manifest = std::fs::read_to_string(root.join(&folder).join("Cargo.toml")).ok()?;
        (cells.len() == 6).then(|| (folder, quoted(cells[3]), manifest))
    });
    let mut count = 0;
    for (folder, named, manifest) in rows.filter(|(folder, ..)| !folder.starts_with("guest-kernels")) {
        let own = manifest.split("\n[dependencies]").nth(1).unwrap_or("").split("\n[").next().unwrap();
        let name = |line: &str| Some(line.split(['.', ' ']).next()?.strip_prefix("eciton")?.to_owned());
        let found = own.lines().filter_map(name).map(|name| match name.strip_prefix('-') {
            Some(name) => name.to_owned(),
            None => "eciton".to_owned(),
        });
        assert_eq!(named, found.collect(), "{folder}");
        count += 1;
    }
    let crates = std::fs::read_dir(root.join("host")).unwrap().count();
    assert_eq!(count, crates + 2, "all crates of the host, and the two programs of functions");
}
