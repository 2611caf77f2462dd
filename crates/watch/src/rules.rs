//! Patterns that a person adds, tried out before they are obeyed.

use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// A pattern in the syntax of `.gitignore`, for the files below a root.
#[derive(Debug, Clone)]
pub struct Pattern(Gitignore);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(root: &Path, pattern: &str) -> Result<Pattern, String> {
        if pattern.trim().is_empty() || pattern.trim_start().starts_with('#') {
            return Err("a pattern names files, as *.log or drafts/".to_owned());
        }
        let mut rules = GitignoreBuilder::new(root);
        // The scan takes `a[` as it stands; a person who types it has not finished.
        rules.allow_unclosed_class(false);
        rules.add_line(None, pattern).map_err(|error| error.to_string())?;
        rules.build().map(Pattern).map_err(|error| error.to_string())
    }

    /// Whether the scan would leave out the file at `path`, below the root: itself, or a folder it is in.
    pub fn excludes(&self, path: &Path) -> bool {
        // The matcher reads text: with a slash at its end, `a/` would not be what `/a` names.
        let path: PathBuf = path.components().collect();
        self.0.matched_path_or_any_parents(path, false).is_ignore()
    }

    /// The pattern that names exactly one file: anchored, and with nothing in it that means anything else.
    pub fn of_file(relative: &Path) -> Option<String> {
        let mut pattern = String::from("/");
        for c in relative.to_str()?.chars() {
            match c {
                '*' | '?' | '[' | ']' | '\\' | '{' | '}' | '!' | '#' | ' ' => {
                    pattern.extend(['\\', c])
                }
                // Taken off the end of a line, whatever stands before it. (A class would be of its bytes.)
                _ if c.is_whitespace() => pattern.extend(['{', c, '}']),
                _ => pattern.push(c),
            }
        }
        (!pattern.contains(['\n', '\r'])).then_some(pattern)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn excludes(pattern: &str, path: &str) -> bool {
        Pattern::new(Path::new("/r"), pattern)
            .expect("a pattern")
            .excludes(&Path::new("/r").join(path))
    }

    #[test]
    fn a_pattern_does_what_the_scan_does_with_it() {
        assert!(excludes("*.log", "a/b.log") && !excludes("*.log", "a/b.txt"));
        assert!(excludes("drafts/", "x/drafts/y/z.md") && !excludes("drafts/", "drafts"));
        assert!(excludes("/a", "a") && excludes("/a", "a/") && !excludes("/a", "b/a"));
        for bad in ["", "  ", "# remark", "a[", "{a"] {
            assert!(Pattern::new(Path::new("/r"), bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn the_pattern_of_a_file_names_it_alone(
            path in "[a-c*?!# \t\u{3000}\\\\\\[\\]{}]{1,6}(/[a-c*?!# \u{a0}\\[\\]]{1,5}){0,2}",
            other in "[a-c*?!]{1,4}(/[a-c*?!]{1,3}){0,2}/?"
        ) {
            let pattern = Pattern::of_file(Path::new(&path)).expect("text");
            prop_assert!(excludes(&pattern, &path), "{pattern}");
            let inside = other.strip_prefix(&path).is_some_and(|it| it.is_empty() || it.starts_with('/'));
            prop_assert_eq!(excludes(&pattern, &other), inside, "{}", pattern);
        }
    }
}
