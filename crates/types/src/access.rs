//! Who may read a file: the rights that its system gives, in a form that holds on other machines.
//!
//! A [`Rule`] is a chain of [`Level`]s: the file's own right to be read, and the right to pass each folder above it.
//! Whoever passes all of them may read. A level decides as POSIX.1e does: a user who is named is judged by that alone,
//! then one group that may is enough, then others; so a name can take a right away as well as give one. Names stand for
//! users and groups, because numbers differ between machines. Equal rights make equal rules, whatever they came from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Longest name of a user or group, in bytes.
const LONGEST_ACCOUNT: usize = 256;

/// Most groups that somebody is in: Linux knows no more.
const MOST_GROUPS: usize = 65_536;

/// Somebody who reads: a user, and the groups that this one is in. What has no name on the system that it comes from
/// is `#` and its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reader {
    /// The user.
    pub user: String,
    /// The groups.
    #[serde(default)]
    pub groups: Vec<String>,
}

impl Reader {
    /// What is wrong with it; `None`: nothing.
    pub fn trouble(&self) -> Option<String> {
        let is_name = |it: &str| {
            let plain = !it.contains(|c: char| c.is_control() || c == ':');
            !it.trim().is_empty() && it.len() <= LONGEST_ACCOUNT && plain && it.trim() == it
        };
        let mut all = std::iter::once(&self.user).chain(&self.groups);
        if let Some(bad) = all.find(|it| !is_name(it)) {
            return Some(format!("{bad:?} is no name of a user or group"));
        }
        (self.groups.len() > MOST_GROUPS).then(|| "there are too many groups".to_owned())
    }
}

/// Who passes one file or folder. A user who is not named is judged by the groups, one in no group that is named as
/// others are.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
// What a newer version knows of a right and this one does not must not be passed over.
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Users who are named, the owner among them, and whether each passes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, bool>,
    /// Groups that are named, and whether each lets its members pass.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, bool>,
    /// Whether everybody else passes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others: bool,
}

impl Level {
    /// Whether this one passes.
    pub fn admits(&self, reader: &Reader) -> bool {
        if let Some(may) = self.users.get(&reader.user) {
            return *may;
        }
        let mut named = reader.groups.iter().filter_map(|it| self.groups.get(it)).peekable();
        if named.peek().is_none() {
            return self.others;
        }
        named.any(|may| *may)
    }

    /// Whether everybody passes.
    fn is_open(&self) -> bool {
        self.others && self.users.values().chain(self.groups.values()).all(|it| *it)
    }

    /// Without names that change nothing.
    fn plain(mut self) -> Level {
        // A group that may not takes nothing from somebody whom others' right does not give it.
        if !self.others {
            self.groups.retain(|_, may| *may);
        }
        self
    }
}

/// Who may read a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Nobody: its rights are not known, or not understood.
    Nobody,
    /// Whoever passes all of these; none: everybody.
    Passing(Vec<Level>),
}

impl Rule {
    /// The rule of these levels, in whatever order they come: equal rights make equal rules.
    pub fn of(levels: impl IntoIterator<Item = Level>) -> Rule {
        let mut levels: Vec<Level> = levels.into_iter().map(Level::plain).collect();
        levels.retain(|it| !it.is_open());
        levels.sort_unstable();
        levels.dedup();
        Rule::Passing(levels)
    }

    /// Whether this one may read.
    pub fn admits(&self, reader: &Reader) -> bool {
        match self {
            Rule::Nobody => false,
            Rule::Passing(levels) => levels.iter().all(|it| it.admits(reader)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[(&str, bool)]) -> BTreeMap<String, bool> {
        of.iter().map(|(name, may)| ((*name).to_owned(), *may)).collect()
    }

    fn level(users: &[(&str, bool)], groups: &[(&str, bool)], others: bool) -> Level {
        Level { users: names(users), groups: names(groups), others }
    }

    fn reader(user: &str, groups: &[&str]) -> Reader {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        Reader { user: user.to_owned(), groups }
    }

    #[test]
    fn a_name_goes_before_a_group_and_a_group_before_others() {
        let level =
            level(&[("ada", true), ("bob", false)], &[("team", true), ("guests", false)], true);
        for (who, passes) in [
            (reader("ada", &["guests"]), true),
            (reader("bob", &["team"]), false),
            (reader("eve", &["guests"]), false),
            (reader("eve", &["guests", "team"]), true),
            (reader("eve", &["else"]), true),
        ] {
            assert_eq!(level.admits(&who), passes, "{who:?}");
        }
    }

    #[test]
    fn all_levels_have_to_be_passed_and_equal_rights_are_equal_rules() {
        let folder = level(&[("ada", true)], &[("team", true)], false);
        let file = level(&[("bob", true)], &[("guests", true)], false);
        let open = level(&[("ada", true)], &[("team", true)], true);
        let rule = Rule::of([folder.clone(), open, file.clone()]);
        assert!(rule.admits(&reader("eve", &["team", "guests"])));
        assert!(rule.admits(&reader("bob", &["team"])));
        assert!(!rule.admits(&reader("bob", &[])) && !rule.admits(&reader("eve", &["team"])));
        assert_eq!(rule, Rule::of([file.clone(), folder.clone(), file]));
        let with_idle_group = level(&[("ada", true)], &[("team", true), ("idle", false)], false);
        assert_eq!(Rule::of([with_idle_group]), Rule::of([folder]));
        assert!(Rule::of([]).admits(&reader("eve", &[])));
        assert!(!Rule::Nobody.admits(&reader("root", &["root"])));
    }

    #[test]
    fn what_is_no_name_is_told() {
        assert_eq!(reader("ada", &["team", "#1000", "domain users"]).trouble(), None);
        for bad in ["", " ", " ada", "a:b", "a\nb", &"x".repeat(LONGEST_ACCOUNT + 1)] {
            assert!(reader(bad, &[]).trouble().is_some(), "{bad:?}");
            assert!(reader("ada", &[bad]).trouble().is_some(), "{bad:?}");
        }
    }
}
