//! The Python package, where it is installed: `RIDDLE_PACKAGE_PYTHON` names a Python that has it (`make python` makes
//! one in `.venv/package`).

use std::process::Command;

use riddle_tests::{skipped, workspace};

#[test]
fn the_python_package_and_its_examples_run() {
    let made = workspace().join(".venv/package/bin/python");
    let python = std::env::var_os("RIDDLE_PACKAGE_PYTHON")
        .or_else(|| made.is_file().then(|| made.into_os_string()));
    let Some(python) = python else {
        return skipped(
            "RIDDLE_PACKAGE_PYTHON names no Python with the package of crates/python, and `make python` has made none",
        );
    };
    let ran = Command::new(python)
        .arg(workspace().join("crates/python/tests/test_reranker.py"))
        .current_dir(workspace().join("tests"))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("ok: "), "{said}");
    said.lines().filter(|it| it.starts_with("SKIPPED")).for_each(skipped);
}
