//! Conditions as Milvus reads them: they hold inside every search.
//!
//! Nothing that a person or a file has written stands in an expression: folders are keys, kinds are names of ours.

use riddle_types::Filter;

use crate::fields::{self, key_of};

/// What of a library is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within<'a> {
    /// Conditions on the files.
    pub filter: &'a Filter,
    /// Keys of the rules by which passages may be read; `None`: rights are not looked at.
    pub rules: Option<&'a [String]>,
}

impl<'a> Within<'a> {
    /// What passes the filter, whoever asks.
    pub fn all(filter: &'a Filter) -> Within<'a> {
        Within { filter, rules: None }
    }

    /// Whether nothing can be found, whatever is there: an expression can not say that. A library knows no tags, so
    /// nothing of it has one.
    pub fn is_nothing(&self) -> bool {
        self.rules.is_some_and(<[String]>::is_empty) || !self.filter.tags.is_empty()
    }

    /// As an expression; empty where there is no condition.
    pub(crate) fn expression(&self) -> String {
        let rules = self.rules.map(|it| one_of(fields::READERS, it)).unwrap_or_default();
        and(&expression(self.filter), &rules)
    }
}

/// The filter as an expression; empty where there is no condition.
fn expression(filter: &Filter) -> String {
    let mut conditions = Vec::new();
    let key = |folder: &String| {
        let trimmed = folder.trim_end_matches('/');
        format!("\"{}\"", key_of(if trimmed.is_empty() { "/" } else { trimmed }))
    };
    let keys = |folders: &[String]| folders.iter().map(key).collect::<Vec<_>>().join(", ");
    if !filter.folders.is_empty() {
        let keys = keys(&filter.folders);
        conditions.push(format!("array_contains_any({}, [{keys}])", fields::FOLDERS));
    }
    if !filter.except.is_empty() {
        let keys = keys(&filter.except);
        conditions.push(format!("not array_contains_any({}, [{keys}])", fields::FOLDERS));
    }
    if !filter.kinds.is_empty() {
        let kinds: Vec<String> =
            filter.kinds.iter().map(|it| format!("\"{}\"", it.as_str())).collect();
        conditions.push(format!("{} in [{}]", fields::KIND, kinds.join(", ")));
    }
    if let Some(from) = filter.modified_from {
        conditions.push(format!("{} >= {from}", fields::MODIFIED));
    }
    if let Some(until) = filter.modified_until {
        conditions.push(format!("{} < {until}", fields::MODIFIED));
    }
    conditions.join(" and ")
}

/// Both conditions.
pub(crate) fn and(one: &str, other: &str) -> String {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.to_owned(),
        (_, true) => one.to_owned(),
        _ => format!("{one} and {other}"),
    }
}

/// Those whose `field` is one of these keys, which hold letters, digits and `-` alone.
pub(crate) fn one_of<S: AsRef<str>>(field: &str, keys: impl IntoIterator<Item = S>) -> String {
    let keys: Vec<String> = keys.into_iter().map(|it| format!("\"{}\"", it.as_ref())).collect();
    format!("{field} in [{}]", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use riddle_types::FileKind;

    use super::*;

    #[test]
    fn every_condition_is_inside() {
        assert_eq!(expression(&Filter::default()), "");
        let filter = Filter {
            folders: vec!["/a \"b\"".to_owned(), "/c/".to_owned()],
            except: vec!["/a/x".to_owned()],
            kinds: vec![FileKind::Pdf, FileKind::Mail],
            tags: Vec::new(),
            modified_from: Some(-5),
            modified_until: Some(9),
        };
        let (a, c, x) = (key_of("/a \"b\""), key_of("/c"), key_of("/a/x"));
        assert_eq!(
            expression(&filter),
            format!(
                "array_contains_any(folders, [\"{a}\", \"{c}\"]) and \
                 not array_contains_any(folders, [\"{x}\"]) and kind in [\"pdf\", \"mail\"] and \
                 modified >= -5 and modified < 9"
            )
        );
        let rules = ["0a".to_owned(), "1b".to_owned()];
        let (within, any) =
            (|filter, rules| Within { filter, rules }.expression(), Filter::default());
        assert_eq!(within(&any, Some(&rules)), "readers in [\"0a\", \"1b\"]");
        let both = within(&filter, Some(&rules[..1]));
        assert_eq!(both, format!("{} and readers in [\"0a\"]", expression(&filter)));
        assert_eq!(within(&filter, None), expression(&filter));
        assert!(Within { filter: &filter, rules: Some(&[]) }.is_nothing());
        assert!(!Within::all(&filter).is_nothing());
        let tagged = Filter { tags: vec!["boat".to_owned()], ..Filter::default() };
        assert!(Within::all(&tagged).is_nothing(), "what is unknown passes no condition");
        assert_eq!(
            (and("", "b"), and("a", ""), and("a", "b")),
            ("b".to_owned(), "a".to_owned(), "a and b".to_owned())
        );
        assert_eq!(one_of("id", ["x-1", "y"]), "id in [\"x-1\", \"y\"]");
    }
}
