//! Files to index, the same on every machine.

use std::{fs, path::Path};

/// Writes a file and the folders above it.
///
/// # Panics
/// When that is not possible: the test can not go on.
pub fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the folder can be made");
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A word that only note `n` has: made of letters, because keyword search looks at letters and digits
/// apart, and ending as no inflection does, so that no stemmer joins two of them.
pub fn token(n: usize) -> String {
    const SYLLABLES: [&str; 10] = ["ba", "ko", "mi", "tu", "re", "lo", "ni", "fa", "du", "pa"];
    let digits = n.to_string();
    let syllables = digits.bytes().map(|it| SYLLABLES[usize::from(it - b'0')]);
    format!("zor{}x", syllables.collect::<String>())
}

/// Writes `count` notes in nested folders. Note `n` has a title of its own and holds the word
/// [`token(n)`](token), so that each can be found by keyword alone.
pub fn notes(dir: &Path, count: usize) {
    const PLACES: [&str; 4] = ["harbor", "garden", "library", "station"];
    const THINGS: [&str; 5] = ["boat", "bridge", "letter", "clock", "lantern"];
    for n in 0..count {
        let (place, thing) = (PLACES[n % PLACES.len()], THINGS[n % THINGS.len()]);
        let mut text = format!("# The {thing} at the {place}, part {n}\n\n");
        for paragraph in 0..1 + n % 4 {
            text.push_str(&format!(
                "In year {} someone repaired the {thing} near the {place}; entry {} was written on \
                 day {paragraph}.\n\n",
                1900 + n,
                token(n)
            ));
        }
        let extension = if n % 3 == 0 { "txt" } else { "md" };
        write(dir, &format!("{place}/{thing}/note-{n:03}.{extension}"), text);
    }
}
