//! A passage as other programs see it: a number, a place, and text that is data. Files are named by their folder's name
//! and the path below it, never by where they are on this machine.

use std::path::{Component, Path, PathBuf};

use riddle_rag::{Assistant, SearchHit, records::ChunkRecord};
use riddle_types::{ChunkId, Location};
use serde::Serialize;
use serde_json::{Value, json};

use super::days;
use crate::{
    error::{Error, Result},
    frame,
    who::Scope,
};

/// What is handed on.
#[derive(Debug, Serialize)]
pub(super) struct Passage {
    id: u64,
    uri: String,
    file: String,
    /// The shared library that it is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    library: Option<String>,
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    heading: String,
    /// For people: `page 3`, `lines 4–9`.
    place: String,
    location: Location,
    modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    text: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    /// What in the text looks like an instruction to a model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

/// The address of a passage.
pub(crate) fn uri(chunk: u64) -> String {
    format!("riddle://passage/{chunk}")
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "uri": {"type": "string"},
            "file": {"type": "string"},
            "library": {"type": "string"},
            "title": {"type": "string"},
            "heading": {"type": "string"},
            "place": {"type": "string"},
            "location": {"type": "object"},
            "modified": {"type": "string"},
            "score": {"type": "number"},
            "text": {"type": "string"},
            "cut": {"type": "boolean"},
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id", "uri", "file", "title", "place", "location", "modified", "text"],
    })
}

/// The indexed folders and what they are called.
pub(crate) struct Folders(Vec<Folder>);

struct Folder {
    name: String,
    path: PathBuf,
    confined: bool,
}

impl Folder {
    /// How it is spoken of where only these folders may be seen (none: all): itself, or what of it may be seen.
    fn names(&self, seen: &[PathBuf]) -> Vec<String> {
        if seen.is_empty() || seen.iter().any(|it| self.path.starts_with(it)) {
            return vec![self.name.clone()];
        }
        let below = seen.iter().filter_map(|it| it.strip_prefix(&self.path).ok());
        below.map(|it| format!("{}/{}", self.name, it.to_string_lossy())).collect()
    }
}

impl Folders {
    /// Those in which whoever asks may read something.
    pub(crate) fn of(assistant: &Assistant, scope: &Scope) -> Result<Folders> {
        let sees = |path: &Path, kind| scope.sees(path, kind);
        let roots = assistant.roots_for(&scope.audience(), &sees)?;
        let name = |path: &Path| {
            path.file_name().map_or_else(|| "/".to_owned(), |it| it.to_string_lossy().into_owned())
        };
        let mut folders: Vec<Folder> = Vec::new();
        for (path, confined) in roots {
            let plain = name(&path);
            // Two folders of one name are told apart by their order, which does not change.
            let same = folders.iter().filter(|it| name(&it.path) == plain).count();
            let name = if same == 0 { plain } else { format!("{plain}-{}", same + 1) };
            folders.push(Folder { name, path, confined });
        }
        Ok(Folders(folders))
    }

    /// Names of those that may be spoken of, and how many are not named because they never leave this machine.
    pub(super) fn names(&self, scope: &Scope) -> (Vec<String>, usize) {
        let (hidden, shown): (Vec<&Folder>, Vec<&Folder>) =
            self.0.iter().partition(|it| scope.outward && it.confined);
        let names = shown.iter().flat_map(|it| it.names(scope.folders()));
        (names.collect(), hidden.len())
    }

    /// The file as it is named to others.
    ///
    /// Paths of a shared library are those of the machine that wrote it, and of them the last part is told.
    pub(super) fn name(&self, file: &Path, library: Option<&str>) -> String {
        let here = self.0.iter().filter(|_| library.is_none());
        let deepest = here.filter(|it| file.starts_with(&it.path));
        let Some(folder) = deepest.max_by_key(|it| it.path.as_os_str().len()) else {
            return file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        };
        let below = file.strip_prefix(&folder.path).unwrap_or(file);
        let parts = below.iter().map(|it| it.to_string_lossy().into_owned());
        std::iter::once(folder.name.clone()).chain(parts).collect::<Vec<_>>().join("/")
    }

    /// The folder that is called so, or one below it: `notes`, `notes/2025`. A condition on what is searched; nothing
    /// is opened.
    pub(super) fn find(&self, name: &str, scope: &Scope) -> Result<String> {
        let (first, rest) = name.trim_end_matches('/').split_once('/').unwrap_or((name, ""));
        let plain = Path::new(rest).components().all(|it| matches!(it, Component::Normal(_)));
        let known = self.0.iter().find(|it| {
            it.name == first
                && !(scope.outward && it.confined)
                && !it.names(scope.folders()).is_empty()
        });
        let (Some(folder), true) = (known, plain) else {
            let (names, _) = self.names(scope);
            return Err(Error::BadRequest(format!(
                "there is no folder {name:?}: there are {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            )));
        };
        let path = if rest.is_empty() { folder.path.clone() } else { folder.path.join(rest) };
        Ok(path.to_string_lossy().into_owned())
    }
}

/// Passages within a budget.
pub(super) struct Shelf<'a> {
    folders: &'a Folders,
    left: usize,
    pub(super) passages: Vec<Passage>,
    /// Some were cut, or did not fit at all.
    pub(super) truncated: bool,
}

impl<'a> Shelf<'a> {
    pub(super) fn new(folders: &'a Folders, budget: usize) -> Shelf<'a> {
        Shelf { folders, left: budget, passages: Vec::new(), truncated: false }
    }

    pub(super) fn hit(&mut self, hit: &SearchHit) {
        self.put(
            (hit.chunk, Path::new(&hit.path), hit.library.as_deref()),
            (&hit.title, &hit.heading),
            &hit.location,
            (hit.modified, Some(hit.score)),
            &hit.text,
        );
    }

    /// A passage of the home, or of a shared library.
    pub(super) fn record(&mut self, record: &ChunkRecord, library: Option<&str>) {
        let ChunkId(chunk) = record.id;
        let name = || record.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let title = record.title.clone().filter(|it| !it.is_empty()).unwrap_or_else(name);
        self.put(
            (chunk, &record.path, library),
            (&title, &record.heading),
            &record.location,
            (record.modified, None),
            &record.text,
        );
    }

    fn put(
        &mut self,
        (id, path, library): (u64, &Path, Option<&str>),
        (title, heading): (&str, &str),
        location: &Location,
        (modified, score): (i64, Option<f32>),
        text: &str,
    ) {
        if self.left == 0 {
            self.truncated = true;
            return;
        }
        let warnings = frame::flags(&format!("{title}\n{heading}\n{text}"));
        let (text, cut) = frame::cut(&frame::shown(text), self.left);
        self.left = self.left.saturating_sub(frame::tokens(&text));
        self.truncated |= cut;
        self.passages.push(Passage {
            id,
            uri: uri(id),
            file: frame::shown(&self.folders.name(path, library)),
            library: library.map(frame::shown),
            title: frame::shown(title),
            heading: frame::shown(heading),
            place: location.to_string(),
            location: location.clone(),
            modified: days::show(modified),
            score,
            text,
            cut,
            warnings,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clients::May;

    fn folders() -> Folders {
        let folder = |path: &str, name: &str, confined| Folder {
            name: name.to_owned(),
            path: PathBuf::from(path),
            confined,
        };
        Folders(vec![
            folder("/home/jo/notes", "notes", false),
            folder("/media/notes", "notes-2", false),
            folder("/home/jo/medical", "medical", true),
        ])
    }

    #[test]
    fn files_are_named_by_their_folders() {
        let folders = folders();
        assert_eq!(folders.name(Path::new("/home/jo/notes/a/b.md"), None), "notes/a/b.md");
        assert_eq!(folders.name(Path::new("/media/notes/x"), None), "notes-2/x");
        assert_eq!(folders.name(Path::new("/elsewhere/secret/x"), None), "x");
    }

    #[test]
    fn only_known_folders_can_be_named_and_nobody_climbs_out() {
        let folders = folders();
        assert_eq!(folders.find("notes", &Scope::whole(true)).expect("known"), "/home/jo/notes");
        assert_eq!(
            folders.find("notes/a/", &Scope::whole(true)).expect("known"),
            "/home/jo/notes/a"
        );
        assert_eq!(
            folders.find("medical", &Scope::whole(false)).expect("known"),
            "/home/jo/medical"
        );
        for name in [
            "",
            "/",
            "..",
            "notes/..",
            "notes/../medical",
            "/home/jo/notes",
            "other",
            "medical",
            "notes//etc",
        ] {
            let error = folders.find(name, &Scope::whole(true)).err().map(|it| it.to_string());
            assert!(error.as_ref().is_some_and(|it| !it.contains("medical,")), "{name}: {error:?}");
        }
        let outward = Scope::whole(true);
        assert_eq!(folders.names(&outward), (vec!["notes".to_owned(), "notes-2".to_owned()], 1));
    }

    #[test]
    fn a_program_of_few_folders_hears_of_these_alone() {
        let folders = folders();
        let may = May { folders: vec![PathBuf::from("/home/jo/notes/2025")], ..May::default() };
        let scope = Scope::new(true, Arc::new(may));
        assert_eq!(folders.names(&scope), (vec!["notes/2025".to_owned()], 1));
        assert!(folders.find("notes/2025", &scope).is_ok());
        let error = folders.find("notes-2", &scope).expect_err("not seen").to_string();
        assert!(error.contains("there are notes/2025"), "{error}");
    }

    #[test]
    fn a_budget_is_for_all_passages_together() {
        let folders = folders();
        let mut shelf = Shelf::new(&folders, 10);
        for _ in 0..3 {
            shelf.put(
                (7, Path::new("/media/notes/x"), None),
                ("t", ""),
                &Location::Whole,
                (0, None),
                &"word ".repeat(5),
            );
        }
        assert_eq!(shelf.passages.len(), 2);
        assert!(shelf.truncated && shelf.passages[1].cut && !shelf.passages[0].cut);
    }
}
