//! The film that subtitles lie beside, and when in it something is said.

use std::path::{Path, PathBuf};

use riddle_catalog::ChunkRecord;
use riddle_types::Location;

use super::records::{Records, inside};
use crate::contract::Result;

/// Endings of subtitles.
const SUBTITLES: [&str; 5] = ["srt", "vtt", "ass", "ssa", "sbv"];

/// Endings of films, the first are looked for first.
const FILMS: [&str; 14] = [
    "mkv", "mp4", "m4v", "webm", "avi", "mov", "mpg", "mpeg", "ts", "m2ts", "wmv", "flv", "ogv",
    "3gp",
];

/// Most files of a folder that are looked through.
const MOST_FILES: usize = 10_000;

/// Endings before the last one that a subtitle's name has more than the film's: its language, and for whom it is.
const MOST_ENDINGS: usize = 3;

/// Longest such ending: `zh-Hant-TW`, `commentary`.
const LONGEST_ENDING: usize = 10;

/// A place in a film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilmAt {
    /// The film, links followed.
    pub path: PathBuf,
    /// Seconds from its beginning.
    pub seconds: u32,
}

impl Records {
    /// The film beside the subtitles that a passage is from; `None` where it is from something else, or no film of that
    /// name lies there.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn film(&self, record: &ChunkRecord) -> Result<Option<FilmAt>> {
        let Some(seconds) = begins(&record.path, &record.location) else { return Ok(None) };
        let Some((_, _, root)) = self.catalog.file(record.file)? else { return Ok(None) };
        let film = beside(&record.path).and_then(|film| inside(&root, &film).ok());
        Ok(film.map(|path| FilmAt { path, seconds }))
    }
}

/// When a passage of subtitles begins.
fn begins(path: &Path, location: &Location) -> Option<u32> {
    let Location::Part { name, inside } = location else { return None };
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let subtitles = SUBTITLES.contains(&ending.as_str());
    let from = name.split('–').next().filter(|_| subtitles)?;
    matches!(**inside, Location::Line { .. }).then_some(())?;
    let parts: Vec<u32> = from.split(':').map(|it| it.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts.as_slice() else { return None };
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(*seconds)
}

/// The film in the folder of subtitles whose name is theirs, with fewer endings: `Heat.en.forced.srt` belongs to
/// `Heat.en.mkv` before `Heat.mkv`.
fn beside(subtitles: &Path) -> Option<PathBuf> {
    let name = subtitles.file_stem()?.to_str()?;
    let mut found: Option<(usize, usize, PathBuf)> = None;
    for entry in std::fs::read_dir(subtitles.parent()?).ok()?.flatten().take(MOST_FILES) {
        let path = entry.path();
        let ending = path.extension().and_then(|it| it.to_str()).unwrap_or("");
        let ending = FILMS.iter().position(|it| it.eq_ignore_ascii_case(ending));
        let stem = path.file_stem().and_then(|it| it.to_str()).unwrap_or("");
        let (Some(ending), Some(more)) = (ending, endings_more(name, stem)) else { continue };
        let better = found.as_ref().is_none_or(|it| (more, ending) < (it.0, it.1));
        if better {
            found = Some((more, ending, path));
        }
    }
    found.map(|it| it.2)
}

/// How many endings a name has more than a film's; `None`: it is another film's.
fn endings_more(name: &str, film: &str) -> Option<usize> {
    let rest = name.strip_prefix(film).filter(|_| !film.is_empty())?;
    if rest.is_empty() {
        return Some(0);
    }
    let endings: Vec<&str> = rest.strip_prefix('.')?.split('.').collect();
    let is_word = |it: &&str| {
        (2..=LONGEST_ENDING).contains(&it.len())
            && it.chars().all(|it| it.is_ascii_alphabetic() || it == '-' || it == '_')
    };
    (endings.len() <= MOST_ENDINGS && endings.iter().all(is_word)).then_some(endings.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn said(from: &str) -> Location {
        let inside = Box::new(Location::Line { start: 3, end: 9 });
        Location::Part { name: format!("{from}–00:13:30"), inside }
    }

    #[test]
    fn the_time_is_that_of_the_first_line() {
        let at = |name: &str, location: &Location| begins(Path::new(name), location);
        assert_eq!(at("/f/Heat.en.srt", &said("00:12:31")), Some(751));
        assert_eq!(at("/f/Heat.ASS", &said("01:00:00")), Some(3600));
        assert_eq!(at("/f/heat.zip", &said("00:12:31")), None, "a file in another");
        assert_eq!(at("/f/Heat.srt", &Location::Line { start: 1, end: 2 }), None);
        for odd in ["", "12:31", "a:b:c", "00:12", "4294967295:00:00", "-1:00:00", "1:2:3:4"] {
            assert_eq!(at("/f/Heat.srt", &said(odd)), None, "{odd}");
        }
    }

    #[test]
    fn a_film_lies_beside_its_subtitles_under_their_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path();
        for name in
            ["Heat.mkv", "Heat.en.MP4", "Heat 2.mkv", "-rf.webm", "Heat.srt", "Rain.S01E02.mkv"]
        {
            fs::write(folder.join(name), "x").expect("written");
        }
        let film = |name: &str| {
            let found = beside(&folder.join(name))?;
            Some(found.file_name()?.to_str()?.to_owned())
        };
        assert_eq!(film("Heat.srt").as_deref(), Some("Heat.mkv"));
        assert_eq!(film("Heat.de.srt").as_deref(), Some("Heat.mkv"));
        assert_eq!(film("Heat.en.forced.srt").as_deref(), Some("Heat.en.MP4"));
        assert_eq!(film("Heat 2.pt-BR.vtt").as_deref(), Some("Heat 2.mkv"));
        assert_eq!(film("-rf.srt").as_deref(), Some("-rf.webm"));
        assert_eq!(film("Rain.S01E02.en.srt").as_deref(), Some("Rain.S01E02.mkv"));
        for other in ["Heat 3.srt", "Heat.1995.srt", "Hea.srt", "Rain.srt", ".srt"] {
            assert_eq!(film(other), None, "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_film_that_leads_out_of_its_folder_is_not_offered() {
        let files = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let subtitles = files.path().join("Heat.srt");
        fs::write(&subtitles, "1\n00:12:31,000 --> 00:12:32,000\nHello\n").expect("written");
        fs::write(elsewhere.path().join("other.mkv"), "x").expect("written");
        let film = files.path().join("Heat.mkv");
        std::os::unix::fs::symlink(elsewhere.path().join("other.mkv"), &film).expect("a link");
        assert!(inside(files.path(), &beside(&subtitles).expect("beside")).is_err());
        fs::remove_file(&film).expect("removed");
        fs::write(&film, "x").expect("written");
        let real = inside(files.path(), &beside(&subtitles).expect("beside")).expect("its own");
        assert!(real.ends_with("Heat.mkv"));
    }
}
