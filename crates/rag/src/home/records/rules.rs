//! The rules that leave files out: which there are, and what one would do.

use std::path::{Path, PathBuf};

use riddle_catalog::{Catalog, FileId, FilePage};
use riddle_types::FileState;
use riddle_watch::Pattern;
use serde::{Deserialize, Serialize};

use super::Records;
use crate::contract::{Error, Result};

/// Setting: the rules, as JSON.
const RULES_SETTING: &str = "rules";

/// A pattern in the syntax of `.gitignore`, for one root or for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The root's number; `None`: all.
    pub root: Option<i64>,
    /// The pattern.
    pub pattern: String,
}

/// What a rule would leave out of what is searched now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleEffect {
    /// Files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Their chunks.
    pub chunks: u64,
    /// The first few.
    pub examples: Vec<PathBuf>,
}

impl Records {
    /// The rules in force, beside those that lie in the folders.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        rules(&self.catalog)
    }

    /// Replaces the rules; the next scan obeys them.
    ///
    /// # Errors
    /// A pattern that is none; when the catalog can not be written.
    pub fn set_rules(&self, rules: &[Rule]) -> Result<()> {
        for rule in rules {
            Pattern::new(Path::new("/"), &rule.pattern)
                .map_err(|why| Error::BadRequest(format!("{:?}: {why}", rule.pattern).into()))?;
        }
        let text =
            serde_json::to_string(rules).map_err(|it| Error::BadRequest(it.to_string().into()))?;
        self.set_setting(RULES_SETTING, Some(&text))
    }

    /// The rule that leaves out one file.
    ///
    /// # Errors
    /// When the file is gone, or has a name that no pattern can hold.
    pub fn rule_for(&self, file: FileId) -> Result<Rule> {
        let Some((record, root, folder)) = self.catalog.file(file)? else {
            return Err(Error::BadRequest("the file is no longer in the ledger".into()));
        };
        let relative = record.path.strip_prefix(&folder).unwrap_or(&record.path);
        let pattern = Pattern::of_file(relative).ok_or_else(|| {
            Error::BadRequest("no rule can name this file: exclude its folder".into())
        })?;
        Ok(Rule { root: Some(root.0), pattern })
    }

    /// What a rule would leave out, of the files that are indexed now.
    ///
    /// # Errors
    /// A pattern that is none; when the catalog can not be read.
    pub fn effect_of(&self, rule: &Rule) -> Result<RuleEffect> {
        /// Enough to recognize what is meant.
        const EXAMPLES: usize = 8;
        let mut effect = RuleEffect::default();
        for folder in self.folders()? {
            if rule.root.is_some_and(|it| it != folder.id.0) {
                continue;
            }
            let pattern = Pattern::new(&folder.path, &rule.pattern)
                .map_err(|why| Error::BadRequest(why.into()))?;
            let page = FilePage {
                states: vec![FileState::Indexed, FileState::Pending],
                root: Some(folder.id),
                limit: usize::MAX >> 1,
                ..FilePage::default()
            };
            for file in self.catalog.file_page(&page)?.0 {
                if pattern.excludes(&file.path) {
                    effect.files += 1;
                    effect.bytes += file.bytes;
                    effect.chunks += file.chunks;
                    if effect.examples.len() < EXAMPLES {
                        effect.examples.push(file.path);
                    }
                }
            }
        }
        Ok(effect)
    }
}

/// The rules that a home has.
pub(crate) fn rules(catalog: &Catalog) -> Result<Vec<Rule>> {
    let text = catalog.setting(RULES_SETTING)?.unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&text)
        .map_err(|error| Error::BadRequest(format!("the rules can not be read: {error}").into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Config;

    #[test]
    fn rules_that_are_none_are_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(home.path())).expect("opens");
        let rule = |pattern: &str| Rule { root: None, pattern: pattern.to_owned() };
        assert!(records.set_rules(&[rule("*.log"), rule("a[")]).is_err());
        assert_eq!(records.rules().expect("rules"), []);
        records.set_rules(&[rule("*.log")]).expect("kept");
        assert_eq!(records.rules().expect("rules"), [rule("*.log")]);
    }
}
