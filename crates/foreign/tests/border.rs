//! A C compiler's view of the header, and a C program's of the library.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The library that was built with this test: target/PROFILE/deps/border-HASH stands beside it.
fn library() -> Option<PathBuf> {
    let test = env::current_exe().expect("the test knows its own path");
    let deps = test.parent()?;
    let name = format!("{}riddle_rerank{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let found =
        [deps.join(&name), deps.parent()?.join(&name)].into_iter().filter(|it| it.is_file());
    found.max_by_key(|it| fs::metadata(it).and_then(|it| it.modified()).ok())
}

fn skipped(why: &str) {
    let mut stderr = std::io::stderr();
    let _ = std::io::Write::write_all(&mut stderr, format!("SKIPPED: {why}\n").as_bytes());
}

#[test]
fn a_program_in_c_ranks_and_is_told_what_is_wrong() {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        return skipped("there is no C compiler");
    }
    let library = library().expect("the library was built with its tests");
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("border");
    let mut command = Command::new(&compiler);
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .args([&program, &own("tests/border.c")])
        .arg("-I")
        .arg(own("include"))
        .arg(&library);
    let compiled = command.output().expect("cc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program)
        .arg(dir.path().join("cache"))
        .arg(own("../../tests/golden/tiny-bert-cross-encoder"))
        .env("LD_LIBRARY_PATH", library.parent().expect("a folder"))
        .env("DYLD_LIBRARY_PATH", library.parent().expect("a folder"))
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.stdout, b"ok\n");
}

#[test]
fn the_header_names_what_the_library_has() {
    let header = fs::read_to_string(own("include/riddle.h")).expect("the header");
    let source = fs::read_to_string(own("src/c.rs")).expect("the source");
    let after = |text: &str, before: &str| -> Vec<String> {
        let names = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
        let name =
            |it: &str| it.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        names.map(name).collect()
    };
    for name in after(&source, "extern \"C\" fn ") {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    let fields = |text: &str, from: &str, to: &str| {
        let body = text.split_once(from).expect("there").1.split_once(to).expect("ends").0;
        body.to_owned()
    };
    let rust = fields(&source, "pub struct COptions {", "\n}");
    let c = fields(&header, "typedef struct riddle_options {", "} riddle_options;");
    let rust: Vec<String> = after(&rust, "pub ");
    let c: Vec<String> = c
        .lines()
        .filter_map(|it| it.split_once(';')?.0.rsplit([' ', '*']).next().map(str::to_owned))
        .collect();
    assert_eq!(rust, c, "the same fields in the same order");
}
