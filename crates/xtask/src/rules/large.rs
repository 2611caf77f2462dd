//! Large files stay out of the history, where they can never be removed again.

use crate::{finding::Finding, repository::File};

/// Bytes above which a file needs to be listed: a clone of the repository should take seconds.
const LARGEST: u64 = 2 << 20;

/// Files that may be larger, each with its reason.
const LISTED: &[(&str, &str)] = &[(
    "assets/models/riddle-reranker/model.riddle",
    "the reranker that comes with the program: a first run needs no network",
)];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let too_large = files
        .iter()
        .filter(|it| it.bytes > LARGEST && !LISTED.iter().any(|(path, _)| *path == it.path));
    too_large
        .map(|file| {
            let message = format!(
                "{:.1} MiB: fetch it when it is needed, or list it with a reason in \
                 crates/xtask/src/rules/large.rs",
                file.bytes as f64 / f64::from(1 << 20)
            );
            Finding::error(&file.path, 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_files_are_found() {
        let file = |bytes| File { path: "a.bin".to_owned(), bytes, text: None };
        assert_eq!(check(&[file(LARGEST)]), []);
        assert!(check(&[file(LARGEST + (1 << 20))])[0].message.starts_with("3.0 MiB"));
    }
}
