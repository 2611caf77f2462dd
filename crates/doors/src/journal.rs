//! What was asked, by whom, and how much was given: a line of JSON for each request, in a file of the home. A person
//! reads there what an assistant wanted to know, and can empty it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{Error, Result},
    private,
    who::Who,
};

/// When a file is full, in bytes: it becomes the one before, and the one before that is gone.
const FULL: u64 = 1 << 20;

/// Longest part of a question that is kept, in characters.
pub(crate) const MAX_ASKED: usize = 200;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It may not, or nobody may.
    Refused,
    /// It could not be answered.
    Failed,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Who: the name under which it was let in, or what it calls itself.
    pub client: String,
    /// Whether that name is one that the person has given.
    #[serde(default)]
    pub known: bool,
    /// What: a tool, or a route.
    pub what: String,
    /// The question, shortened; `None`: there was none, or questions are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Passages that were given.
    #[serde(default)]
    pub passages: usize,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// Where lines go.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    keep_questions: bool,
    /// Lines are written one after the other.
    turn: Mutex<()>,
}

impl Journal {
    /// Of this home; `keep_questions`: what was asked is written down, too.
    pub fn of(home: &Path, keep_questions: bool) -> Journal {
        Journal { path: home.join("doors.log"), keep_questions, turn: Mutex::default() }
    }

    fn before(&self) -> PathBuf {
        self.path.with_extension("log.1")
    }

    /// The files of it, there or not.
    pub fn files(&self) -> [PathBuf; 2] {
        [self.before(), self.path.clone()]
    }

    /// Writes a line. What can not be written is lost, and told to whoever looks at logs: nobody waits for it.
    pub(crate) fn note(&self, mut entry: Entry) {
        if !self.keep_questions {
            entry.asked = None;
        }
        let _turn = self.turn.lock();
        let write = || -> std::io::Result<()> {
            if fs::metadata(&self.path).is_ok_and(|it| it.len() > FULL) {
                fs::rename(&self.path, self.before())?;
            }
            let line = format!("{}\n", serde_json::to_string(&entry)?);
            private::append(&self.path)?.write_all(line.as_bytes())
        };
        if let Err(error) = write() {
            tracing::warn!(%error, "a request is not written down");
        }
    }

    /// The last lines, newest first; of one client, or of all. Lines that can not be understood are passed over.
    ///
    /// # Errors
    /// When the file can not be read.
    pub fn last(&self, client: Option<&str>, most: usize) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for path in [self.before(), self.path.clone()] {
            let file = match fs::File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(Error::Io { path, source }),
            };
            let lines = BufReader::new(file).split(b'\n').map_while(std::io::Result::ok);
            let known = lines.filter_map(|it| serde_json::from_slice::<Entry>(&it).ok());
            entries.extend(known.filter(|it| client.is_none_or(|name| it.client == name)));
        }
        entries.reverse();
        entries.truncate(most);
        Ok(entries)
    }

    /// Empties it.
    ///
    /// # Errors
    /// When a file can not be removed.
    pub fn forget(&self) -> Result<()> {
        for path in self.files() {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::Io { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A request that is being answered; its line is written when the last who works on it lets go.
pub(crate) struct Noting {
    journal: Arc<Journal>,
    started: Instant,
    entry: Mutex<Entry>,
}

impl Noting {
    pub(crate) fn begin(
        journal: &Arc<Journal>,
        who: &Who,
        what: &str,
        asked: Option<String>,
    ) -> Arc<Noting> {
        let entry = Entry { asked, ..Entry::new(&who.name, who.known, what, Duration::ZERO) };
        let entry = Mutex::new(entry);
        Arc::new(Noting { journal: Arc::clone(journal), started: Instant::now(), entry })
    }

    /// So many passages were given.
    pub(crate) fn given(&self, passages: usize) {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner).passages = passages;
    }

    /// What came of it.
    pub(crate) fn ended<T>(&self, done: &Result<T>) {
        let outcome = match done {
            Ok(_) => Outcome::Answered,
            Err(Error::NotAllowed(_) | Error::Busy { .. }) => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        self.entry.lock().unwrap_or_else(PoisonError::into_inner).outcome = outcome;
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner).clone();
        entry.ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.journal.note(entry);
    }
}

impl Entry {
    /// Of a request that ends now and has taken so long.
    pub(crate) fn new(client: &str, known: bool, what: &str, took: Duration) -> Entry {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Entry {
            at: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            client: client.to_owned(),
            known,
            what: what.to_owned(),
            asked: None,
            passages: 0,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            outcome: Outcome::Answered,
        }
    }
}

/// The question in what a tool was given.
pub(crate) fn asked(args: &Value) -> Option<String> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let claim = || args.get("claims").and_then(|it| it.get(0)).and_then(Value::as_str);
    let said = text("query").or_else(|| text("q")).or_else(|| text("question")).or_else(claim);
    let number = || args.get("id").and_then(Value::as_u64).map(|it| format!("passage {it}"));
    said.map(|it| it.chars().take(MAX_ASKED).collect()).or_else(number)
}

/// How many passages an answer holds.
pub(crate) fn given(answer: &Value) -> usize {
    let count = |name: &str| answer.get(name).and_then(Value::as_array).map(Vec::len);
    count("passages").or_else(|| count("citations")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(client: &str, asked: &str) -> Entry {
        let entry = Entry::new(client, true, "search", Duration::from_millis(3));
        Entry { asked: Some(asked.to_owned()), ..entry }
    }

    #[test]
    fn the_last_come_first_and_can_be_forgotten() {
        let home = tempfile::tempdir().expect("a folder");
        let journal = Journal::of(home.path(), true);
        assert!(journal.last(None, 9).expect("none").is_empty());
        for number in 0..5 {
            journal.note(entry(if number % 2 == 0 { "a" } else { "b" }, &number.to_string()));
        }
        let asked = |client, most| -> Vec<String> {
            let last = journal.last(client, most).expect("readable");
            last.into_iter().filter_map(|it| it.asked).collect()
        };
        assert_eq!(asked(None, 2), ["4", "3"]);
        assert_eq!(asked(Some("b"), 9), ["3", "1"]);
        let broken = private::append(&home.path().join("doors.log")).expect("open");
        (&broken).write_all(b"\xff no line\n").expect("written");
        assert_eq!(asked(None, 1), ["4"]);
        journal.forget().expect("emptied");
        assert!(asked(None, 9).is_empty());
    }

    #[test]
    fn a_full_file_makes_room_and_questions_are_left_out_where_they_are_not_kept() {
        let home = tempfile::tempdir().expect("a folder");
        let journal = Journal::of(home.path(), false);
        fs::write(
            home.path().join("doors.log"),
            vec![b'\n'; usize::try_from(FULL).expect("small") + 1],
        )
        .expect("written");
        journal.note(entry("a", "secret"));
        assert!(home.path().join("doors.log.1").is_file());
        let last = journal.last(None, 9).expect("readable");
        assert_eq!((last.len(), &last[0].asked), (1, &None));
    }

    #[test]
    fn questions_and_passages_are_found_in_what_is_said() {
        assert_eq!(asked(&json!({"query": "boat"})).as_deref(), Some("boat"));
        assert_eq!(asked(&json!({"claims": ["It rains."]})).as_deref(), Some("It rains."));
        assert_eq!(asked(&json!({"id": 7})).as_deref(), Some("passage 7"));
        assert_eq!(asked(&json!({"query": "x".repeat(999)})).map(|it| it.len()), Some(MAX_ASKED));
        assert_eq!(asked(&json!([1])), None);
        assert_eq!(given(&json!({"passages": [1, 2]})), 2);
        assert_eq!(given(&json!({"citations": [1]})), 1);
    }
}
