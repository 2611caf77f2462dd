//! What a library says of itself: with what it is written, who writes it, and whether somebody does so now.
//!
//! One row says what all writers have in common; every writer has a row of its own. So nobody writes what somebody else
//! writes at the same moment, which Milvus could not tell: it has no *compare and set*.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fields::key_of;

/// Form of the collections; raised when a field changes its meaning. Of the first form passages do not say who may read
/// them; of the second one home writes all, and keys do not say which.
pub const SCHEMA: u32 = 3;

/// The first form that any number of homes write.
const OF_MANY: u32 = 3;

/// Seconds for which a lease holds when nobody renews it: longer than any batch takes.
pub(crate) const LEASE_SECONDS: i64 = 120;

/// Identity of the row that all writers have in common.
pub(crate) const LIBRARY: &str = "library";

/// What the identity of a writer's row begins with.
const WRITER: &str = "writer-";

/// Digits of a writer's key.
const KEY_DIGITS: usize = 16;

/// The key of a home: keys of its files and rules begin with it.
pub(crate) fn writer_key(owner: &str) -> String {
    key_of(owner)[..KEY_DIGITS].to_owned()
}

/// Identity of the row of the writer with that key.
pub(crate) fn writer_row(key: &str) -> String {
    format!("{WRITER}{key}")
}

/// The library's record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Form of the collections ([`SCHEMA`]).
    pub schema: u32,
    /// Identity of the embedder of all vectors.
    pub embedder: String,
    /// Numbers in a vector.
    pub dimensions: usize,
    /// Identity of the sparse encoder of all weighed terms; empty: none are weighed.
    #[serde(default)]
    pub encoder: String,
    /// Who writes it, by name of the machine; each has a row of its own.
    #[serde(skip)]
    pub writers: Vec<Share>,
}

/// What one home writes of a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Identity of the home.
    #[serde(default)]
    pub owner: String,
    /// The machine of that home, for people.
    #[serde(default)]
    pub machine: String,
    /// Its passages by the language that their words are stemmed in (ISO 639-1).
    #[serde(default)]
    pub languages: BTreeMap<String, u64>,
    /// Whoever holds the lease; empty: nobody writes.
    #[serde(default)]
    pub lease: String,
    /// When the lease ends by the clock of its holder, in seconds since 1970.
    #[serde(default)]
    pub lease_until: i64,
    /// Whether the last run came to its end.
    #[serde(default)]
    pub complete: bool,
    /// When that was, in seconds since 1970.
    #[serde(default)]
    pub pushed_at: Option<i64>,
    /// Its files then.
    #[serde(default)]
    pub files: u64,
    /// Its passages then.
    #[serde(default)]
    pub passages: u64,
    /// The folders that they are from, by their paths on that machine.
    #[serde(default)]
    pub folders: Vec<String>,
    /// The object store that it keeps the files in, for people; nobody is sent there by it.
    #[serde(default)]
    pub originals: Option<String>,
}

impl About {
    /// The record of the rows under their identities; `None`: there is none.
    ///
    /// # Errors
    /// What can not be read, as a sentence.
    pub(crate) fn of_rows<'a>(
        rows: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<About>, String> {
        let (mut about, mut writers): (Option<About>, Vec<Share>) = (None, Vec::new());
        for (id, text) in rows {
            let unread = |it: serde_json::Error| format!("the record {id} can not be read: {it}");
            if id == LIBRARY {
                let found: About = serde_json::from_str(text).map_err(unread)?;
                // Of the older forms the one writer stands in the same row.
                if found.schema < OF_MANY {
                    let writer: Share = serde_json::from_str(text).map_err(unread)?;
                    writers.extend(Some(writer).filter(|it| !it.owner.is_empty()));
                }
                about = Some(found);
            } else if id.starts_with(WRITER) {
                writers.push(serde_json::from_str(text).map_err(unread)?);
            }
        }
        writers.sort_by(|a, b| (&a.machine, &a.owner).cmp(&(&b.machine, &b.owner)));
        Ok(about.map(|about| About { writers, ..about }))
    }

    /// Whether any number of homes can write it.
    pub(crate) fn is_of_many(&self) -> bool {
        self.schema >= OF_MANY
    }

    /// What that home writes of it.
    pub fn of(&self, owner: &str) -> Option<&Share> {
        self.writers.iter().find(|it| it.owner == owner)
    }

    /// Languages of its passages, the commonest first.
    pub fn languages(&self) -> Vec<String> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (code, count) in self.writers.iter().flat_map(|it| &it.languages) {
            *sums.entry(code).or_default() += count;
        }
        let mut all: Vec<(&str, u64)> = sums.into_iter().collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.1));
        all.into_iter().map(|it| it.0.to_owned()).collect()
    }

    /// Files in it, as each writer left them.
    pub fn files(&self) -> u64 {
        self.writers.iter().map(|it| it.files).sum()
    }

    /// Passages in it, as each writer left them.
    pub fn passages(&self) -> u64 {
        self.writers.iter().map(|it| it.passages).sum()
    }

    /// The one who wrote it to its end last.
    pub fn newest(&self) -> Option<&Share> {
        self.writers.iter().max_by_key(|it| it.pushed_at)
    }
}

impl Share {
    /// Its key: keys of its files begin with it. It names a writer where two machines have one name.
    pub fn key(&self) -> String {
        writer_key(&self.owner)
    }

    /// Seconds for which somebody holds the lease; 0: nobody.
    pub fn held_for(&self, now: i64) -> u64 {
        if self.lease.is_empty() {
            return 0;
        }
        // A clock that is far ahead must not hold a library for good.
        let left = self.lease_until.saturating_sub(now).clamp(0, 2 * LEASE_SECONDS);
        left.cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_holds_until_it_ends() {
        let share = Share { lease: "a".to_owned(), lease_until: 100, ..Share::default() };
        assert_eq!((share.held_for(90), share.held_for(100), share.held_for(200)), (10, 0, 0));
        assert_eq!(Share::default().held_for(0), 0);
        let ahead = Share { lease_until: i64::MAX, ..share };
        assert_eq!(ahead.held_for(90), 2 * LEASE_SECONDS.cast_unsigned());
    }

    #[test]
    fn a_record_of_another_version_is_read_as_far_as_it_goes() {
        let text = r#"{"schema": 7, "embedder": "e", "dimensions": 3, "new": [1]}"#;
        let desk =
            r#"{"owner": "o", "machine": "desk", "files": 2, "languages": {"en": 2, "de": 3}}"#;
        let attic =
            r#"{"owner": "p", "machine": "attic", "files": 1, "languages": {"en": 7}, "x": 1}"#;
        let rows = [(LIBRARY, text), ("writer-1", desk), ("writer-2", attic), ("other", "?")];
        let about = About::of_rows(rows).expect("read").expect("there");
        assert_eq!((about.schema, about.dimensions, about.files()), (7, 3, 3));
        let machines: Vec<&str> = about.writers.iter().map(|it| it.machine.as_str()).collect();
        assert_eq!(machines, ["attic", "desk"]);
        assert_eq!(about.languages(), ["en", "de"]);
        assert!(about.of("o").is_some() && about.of("q").is_none());

        // A writer without a library is what is left of one.
        assert_eq!(About::of_rows([("writer-1", desk)]), Ok(None));
        assert!(About::of_rows([(LIBRARY, "{}")]).is_err());
        assert!(About::of_rows([(LIBRARY, text), ("writer-1", "7")]).is_err());
    }

    #[test]
    fn the_one_writer_of_an_older_form_is_a_writer() {
        let text = r#"{"schema": 2, "embedder": "e", "dimensions": 3, "encoder": "s", "owner": "o",
            "machine": "desk", "languages": {"en": 2}, "lease": "", "lease_until": 0, "complete": true,
            "pushed_at": 5, "files": 2, "passages": 9}"#;
        let about = About::of_rows([(LIBRARY, text)]).expect("read").expect("there");
        assert!(!about.is_of_many() && about.has_rules());
        let newest = about.newest().expect("a writer");
        assert_eq!(
            (newest.machine.as_str(), newest.pushed_at, about.passages()),
            ("desk", Some(5), 9)
        );
        assert_eq!(about.languages(), ["en"]);
    }
}
