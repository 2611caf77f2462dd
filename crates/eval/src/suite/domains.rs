//! Which domain a set belongs to: what a mean over sets must not count twice.

use std::{collections::BTreeMap, path::Path};

use crate::{Error, Notice, Result};

/// Most bytes of the file: a line for each of many thousand sets.
const LARGEST: u64 = 1 << 20;

/// Domains by the names of sets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Domains {
    /// `None`: the set is shown and in no mean, as one that repeats others.
    named: BTreeMap<String, Option<String>>,
}

/// Reads `file`, or `domains.json` in the suite's folder if there is one: an object of sets and their domains, `null`
/// for a set that belongs into no mean.
pub(super) fn read(folder: &Path, file: Option<&Path>) -> Result<Domains> {
    let beside = folder.join("domains.json");
    let path = match file {
        Some(path) => path,
        None if beside.is_file() => &beside,
        None => return Ok(Domains::default()),
    };
    let bad = |why: String| Error::Dataset {
        path: path.to_path_buf(),
        why: format!(
            "{why}: give an object such as {{\"set\": \"its domain\", \"a sum of others\": null}}"
        ),
    };
    let size = std::fs::metadata(path).map_err(|it| bad(it.to_string()))?.len();
    if size > LARGEST {
        return Err(bad(format!("larger than {LARGEST} bytes")));
    }
    let text = std::fs::read(path).map_err(|it| bad(it.to_string()))?;
    let named = serde_json::from_slice(&text).map_err(|it| bad(it.to_string()))?;
    Ok(Domains { named })
}

impl Domains {
    /// The domain of a set: as the file says, else its group (`xquad` of `xquad/de`), else itself.
    pub(super) fn of<'a>(&'a self, set: &'a str) -> Option<&'a str> {
        let group = set.split('/').next().unwrap_or(set);
        for name in [set, group] {
            if let Some(domain) = self.named.get(name) {
                return domain.as_deref();
            }
        }
        Some(group)
    }

    /// A notice about names in the file that no set has.
    pub(super) fn unknown<'a>(&self, sets: impl Iterator<Item = &'a str>) -> Option<Notice> {
        let sets: Vec<&str> = sets.collect();
        let is_set =
            |name: &str| sets.iter().any(|it| *it == name || it.split('/').next() == Some(name));
        let unknown: Vec<String> = self.named.keys().filter(|it| !is_set(it)).cloned().collect();
        (!unknown.is_empty()).then_some(Notice::DomainsUnknown { sets: unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_of_its_group_unless_the_file_says_otherwise() {
        let dir = tempfile::tempdir().expect("tempdir");
        let none = read(dir.path(), None).expect("no file is none");
        assert_eq!((none.of("mails"), none.of("xquad/de")), (Some("mails"), Some("xquad")));
        let text = r#"{"cosqa": "code", "all": null, "xquad": "languages", "xquad/de": "german", "gone": "x"}"#;
        std::fs::write(dir.path().join("domains.json"), text).expect("written");
        let domains = read(dir.path(), None).expect("reads");
        let of = |set| domains.of(set);
        assert_eq!([of("cosqa"), of("all"), of("chats")], [Some("code"), None, Some("chats")]);
        assert_eq!([of("xquad/de"), of("xquad/th")], [Some("german"), Some("languages")]);
        let unknown = domains.unknown(["cosqa", "all", "xquad/de"].into_iter());
        assert_eq!(unknown, Some(Notice::DomainsUnknown { sets: vec!["gone".to_owned()] }));
        let file = dir.path().join("other.json");
        for text in ["", "[]", "{\"a\": 1}"] {
            std::fs::write(&file, text).expect("written");
            let error = read(dir.path(), Some(&file)).expect_err("refused").to_string();
            assert!(error.contains("other.json") && error.contains("give an object"), "{error}");
        }
        assert!(read(dir.path(), Some(&dir.path().join("no.json"))).is_err());
    }
}
