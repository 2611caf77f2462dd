//! What a library says of itself: who wrote it, with what, and whether somebody writes now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Form of the collections; raised when a field changes its meaning. Of the first form passages do not say who may read
/// them.
pub const SCHEMA: u32 = 2;

/// Seconds for which a lease holds when nobody renews it: longer than any batch takes.
pub(crate) const LEASE_SECONDS: i64 = 120;

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
    /// Passages by the language that their words are stemmed in (ISO 639-1).
    #[serde(default)]
    pub languages: BTreeMap<String, u64>,
    /// Identity of the home that writes it.
    pub owner: String,
    /// The machine of that home, for people.
    #[serde(default)]
    pub machine: String,
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
    /// Files in it then.
    #[serde(default)]
    pub files: u64,
    /// Passages in it then.
    #[serde(default)]
    pub passages: u64,
}

impl About {
    /// Languages of its passages, the commonest first.
    pub fn languages(&self) -> Vec<&str> {
        let mut all: Vec<(&str, u64)> =
            self.languages.iter().map(|(code, count)| (code.as_str(), *count)).collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.1));
        all.into_iter().map(|it| it.0).collect()
    }

    /// Seconds for which somebody other than `token` holds the lease; 0: nobody.
    pub(crate) fn held_for(&self, token: &str, now: i64) -> u64 {
        if self.lease.is_empty() || self.lease == token {
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
    fn a_lease_holds_for_others_until_it_ends() {
        let about = About { lease: "a".to_owned(), lease_until: 100, ..About::default() };
        assert_eq!((about.held_for("a", 90), about.held_for("b", 90)), (0, 10));
        assert_eq!((about.held_for("b", 100), about.held_for("b", 200)), (0, 0));
        assert_eq!(About::default().held_for("b", 0), 0);
        let ahead = About { lease_until: i64::MAX, ..about };
        assert_eq!(ahead.held_for("b", 90), 2 * LEASE_SECONDS.cast_unsigned());
    }

    #[test]
    fn a_record_of_another_version_is_read_as_far_as_it_goes() {
        let text = r#"{"schema": 7, "embedder": "e", "dimensions": 3, "owner": "o", "new": [1]}"#;
        let about: About = serde_json::from_str(text).expect("a record");
        assert_eq!((about.schema, about.dimensions, about.complete), (7, 3, false));
        let mut about = About::default();
        for (code, count) in [("de", 2), ("en", 9), ("fr", 1)] {
            about.languages.insert(code.to_owned(), count);
        }
        assert_eq!(about.languages(), ["en", "de", "fr"]);
    }
}
