//! Which names models and their files may have: nothing that leaves the store, hides, or means something
//! else on another operating system.

use crate::{Error, Result};

/// Name of the record in a model's folder.
pub(crate) const MANIFEST: &str = "riddle-model.json";

/// Longest part of a model's name: file systems allow 255 bytes, and the store joins two parts.
const LONGEST_PART: usize = 96;

/// Longest relative path of a file in a model: leaves room for a store deep in a home folder where paths
/// end at 260 characters.
const LONGEST_PATH: usize = 160;

/// Deepest folder in a model; real models use one level.
const DEEPEST: usize = 4;

/// Device names that Windows finds in every folder.
fn is_reserved(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).to_ascii_uppercase();
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL")
        || (stem.len() == 4
            && (stem.starts_with("COM") || stem.starts_with("LPT"))
            && stem.ends_with(|it: char| it.is_ascii_digit()))
}

fn part_fault(part: &str) -> Option<&'static str> {
    if part.is_empty() || part.len() > LONGEST_PART {
        return Some("it is empty or too long");
    }
    if !part.starts_with(|it: char| it.is_ascii_alphanumeric()) || part.ends_with('.') {
        return Some("a name starts with a letter or digit and does not end with a dot");
    }
    if !part.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it)) {
        return Some("only letters, digits, '-', '_' and '.' are allowed");
    }
    // The hub forbids both, which leaves "--" free for joining the parts of a name to one folder name.
    if part.contains("--") || part.contains("..") {
        return Some("it holds '--' or '..'");
    }
    is_reserved(part).then_some("it is the name of a device")
}

/// Folder in the store for a model's name: `name`, or `org--name` for `org/name`.
///
/// # Errors
/// When the name is not one or two plain parts.
pub(crate) fn folder_of(name: &str) -> Result<String> {
    let fail = |why| Err(Error::Name { name: name.to_owned(), why });
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        return fail("it has more than two parts");
    }
    match parts.iter().find_map(|it| part_fault(it)) {
        Some(why) => fail(why),
        None => Ok(parts.join("--")),
    }
}

/// What is wrong with the relative path of a file in a model, if anything. Paths are written with `/`.
pub(crate) fn file_fault(path: &str) -> Option<&'static str> {
    if path.len() > LONGEST_PATH {
        return Some("its path is too long");
    }
    if path.split('/').count() > DEEPEST {
        return Some("it is too deep in folders");
    }
    for part in path.split('/') {
        if part.is_empty() || part.starts_with('.') || part.ends_with(['.', ' ']) {
            return Some("its path is absolute, hidden or leaves the folder");
        }
        let plain = |it: char| !it.is_control() && !r#"\:*?"<>|"#.contains(it);
        if !part.chars().all(plain) || is_reserved(part) {
            return Some("its name means something else to an operating system");
        }
    }
    path.eq_ignore_ascii_case(MANIFEST).then_some("it has the name of the store's own record")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn plain_names_become_one_folder() {
        assert_eq!(folder_of("all-MiniLM-L6-v2").expect("fine"), "all-MiniLM-L6-v2");
        assert_eq!(folder_of("BAAI/bge-m3").expect("fine"), "BAAI--bge-m3");
    }

    #[test]
    fn hostile_names_are_refused() {
        for name in [
            "", ".", "..", "/", "/etc", "a/", "/a", "a/../b", "../a", "a/b/c", "a\\b", "C:", "a:b",
            ".partial", "a b", "nul", "NUL.txt", "com1", "a--b", "ä", "a\0", "a.", "-a", "a/.b",
        ] {
            assert!(folder_of(name).is_err(), "{name:?}");
        }
        assert!(folder_of(&"a".repeat(LONGEST_PART + 1)).is_err());
    }

    #[test]
    fn hostile_file_names_are_refused() {
        for path in [
            "",
            "/a",
            "../a",
            "a/../b",
            "a//b",
            "a/",
            ".git/config",
            "a\\b",
            "c:a",
            "CON",
            "a/nul.json",
            "riddle-model.json",
            "RIDDLE-MODEL.JSON",
            "a\nb",
            "a.",
            "a ",
            "1/2/3/4/5",
        ] {
            assert!(file_fault(path).is_some(), "{path:?}");
        }
        for path in ["config.json", "1_Pooling/config.json", "onnx/model.onnx_data", "Modell ä.txt"]
        {
            assert_eq!(file_fault(path), None, "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_stays_inside(text in "[a-c./\\\\:~ -]{0,12}") {
            if let Ok(folder) = folder_of(&text) {
                let all: Vec<Component<'_>> = Path::new(&folder).components().collect();
                prop_assert!(matches!(all[..], [Component::Normal(_)]), "{:?}", text);
                prop_assert!(!folder.starts_with('.'));
            }
            if file_fault(&text).is_none() {
                prop_assert!(Path::new(&text).components().all(|it| matches!(it, Component::Normal(_))));
            }
        }
    }
}
