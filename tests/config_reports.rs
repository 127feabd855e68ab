//! Each `tests/config/NAME.yaml` is reported as `NAME.txt` says: its errors, or its warnings where it holds.
//!
//! `SLUICE_BLESS=1 cargo test --test config_reports` writes what is reported now; read the difference before keeping it.

use std::fs;
use std::path::Path;

#[test]
fn every_file_is_reported_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder of cases") {
        let path = entry.expect("a case").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        count += 1;
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name")
            .to_owned();
        let text = fs::read_to_string(&path).expect("a text");
        let report = match sluice::config::parse(&name, &text, &|_| None) {
            Ok(loaded) => loaded.warnings,
            Err(errors) => errors,
        };
        let got = format!("{report}\n");
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, &got).expect("writing what is expected");
        }
        if fs::read_to_string(&expected).unwrap_or_default() != got {
            wrong.push(format!("{name}:\n{got}"));
        }
    }
    assert!(count > 15, "the cases are missing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
