//! Who may read what: rules beside the passages, each under a key, which every passage carries.
//!
//! A rule can say what no list of readers in a passage could: that two rights are needed at once, and that a name takes
//! one away. There are few rules, however many passages: whoever asks for somebody looks which of them let that one
//! read, and has Milvus search passages of those keys alone.

use std::collections::HashMap;

use riddle_types::Rule;

use crate::{
    Error, Result, Store,
    about::About,
    fields::{self, key_of},
    schema::Part,
};

/// Longest rule that is kept, in bytes: some hundred names. A page of such rules is half of what a message holds.
const LONGEST_RULE: usize = 16 << 10;

/// Key of what nobody may read. No rule is kept for it.
pub(crate) const NOBODY: &str = "nobody";

/// The first form of the collections that has rules.
const WITH_RULES: u32 = 2;

/// The key of a writer's rule: the same for equal rules of one writer. Each writer has its own, so that none deletes
/// what another one still needs.
pub(crate) fn rule_key(writer: &str, rule: &Rule) -> String {
    written(rule).map_or_else(|| NOBODY.to_owned(), |it| format!("{writer}{}", key_of(&it)))
}

/// The rule as it is kept; `None`: it lets nobody read, or is too long, which comes to the same.
pub(crate) fn written(rule: &Rule) -> Option<String> {
    if *rule == Rule::Nobody {
        return None;
    }
    serde_json::to_string(rule).ok().filter(|it| it.len() <= LONGEST_RULE)
}

/// The rule of that key, as it is kept; `None`: it is another one, or of a kind that is not known here.
fn read(key: &str, text: &str) -> Option<Rule> {
    let rule = serde_json::from_str(text).ok()?;
    key.ends_with(&key_of(text)).then_some(rule)
}

impl About {
    /// Whether it says who may read what.
    pub fn has_rules(&self) -> bool {
        self.schema >= WITH_RULES
    }
}

impl Store {
    /// Who may read what, by the keys that passages carry. One that is not understood lets nobody read.
    ///
    /// # Errors
    /// [`Error::WithoutRules`] for a library of an older form; what the server reports.
    pub fn rules(&self, about: &About) -> Result<HashMap<String, Rule>> {
        if !about.has_rules() {
            return Err(Error::WithoutRules { address: self.address().to_string() });
        }
        let mut rules = HashMap::new();
        self.pages(Part::Rules, "", &[fields::ID, fields::RECORD], &mut |table| {
            let both = table.texts(fields::ID).zip(table.texts(fields::RECORD));
            let (keys, texts) = both.unwrap_or_default();
            let known = |(key, text): (&String, &String)| Some((key.clone(), read(key, text)?));
            rules.extend(keys.iter().zip(texts).filter_map(known));
            Ok(())
        })?;
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use riddle_types::Level;

    use super::*;

    fn of(user: &str) -> Rule {
        let users = BTreeMap::from([(user.to_owned(), true)]);
        Rule::of([Level { users, ..Level::default() }])
    }

    #[test]
    fn a_rule_has_one_key_and_comes_back_under_it_alone() {
        assert_eq!(rule_key("0a", &of("ada")), rule_key("0a", &of("ada")));
        assert_ne!(rule_key("0a", &of("ada")), rule_key("0a", &of("bob")));
        assert_ne!(rule_key("0a", &of("ada")), rule_key("0b", &of("ada")));
        for rule in [of("ada"), Rule::of([])] {
            let text = written(&rule).expect("kept");
            assert_eq!(read(&rule_key("0a", &rule), &text), Some(rule), "{text}");
            assert_eq!(read(&rule_key("0a", &of("bob")), &text), None, "{text}");
        }
    }

    #[test]
    fn nobody_is_a_key_that_no_rule_has() {
        assert_eq!(
            (rule_key("0a", &Rule::Nobody).as_str(), written(&Rule::Nobody)),
            (NOBODY, None)
        );
        let endless = of(&"x".repeat(LONGEST_RULE));
        assert_eq!(rule_key("0a", &endless), NOBODY);
        assert_eq!(read(&key_of("\"nobody\""), "\"nobody\""), Some(Rule::Nobody));
    }

    #[test]
    fn what_a_newer_version_knows_lets_nobody_read() {
        for text in [r#"{"passing":[{"others":true,"on":"mondays"}]}"#, r#"{"never":[]}"#, "{}", ""]
        {
            assert_eq!(read(&key_of(text), text), None, "{text}");
        }
    }
}
