//! Names that a file system may take for one.

use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;

/// A path as file systems compare it that do not tell capitals from small letters, or one way of writing an accent from
/// another: two that differ in this are two files everywhere.
pub fn folded(path: &Path) -> String {
    let text = path.to_string_lossy();
    // Lower case after upper case: of a sigma there are two small ones.
    text.to_uppercase().to_lowercase().nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_letters_alone_are_one() {
        let same = |a: &str, b: &str| folded(Path::new(a)) == folded(Path::new(b));
        assert!(same("Boats/Keel.TXT", "boats/keel.txt"));
        assert!(same("Gr\u{fc}ner", "GRU\u{308}NER"));
        assert!(same("ΟΔΟΣ", "οδος") && same("ΟΔΟΣ", "οδοσ"));
        assert!(!same("a.txt", "b.txt") && !same("a/b", "a b") && !same("u", "\u{fc}"));
    }
}
