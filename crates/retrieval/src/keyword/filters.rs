//! What a filter asks of passages, as queries.

use std::ops::Bound;

use riddle_types::Filter;
use tantivy::{
    Term,
    query::{BooleanQuery, ConstScoreQuery, Occur, Query, RangeQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::KeywordReader;

impl KeywordReader {
    /// Conditions that must hold and count nothing.
    pub(super) fn filters(&self, filter: &Filter) -> Vec<(Occur, Box<dyn Query>)> {
        let any = |queries: Vec<Box<dyn Query>>| -> (Occur, Box<dyn Query>) {
            (
                Occur::Must,
                Box::new(ConstScoreQuery::new(Box::new(BooleanQuery::union(queries)), 0.0)),
            )
        };
        let mut clauses = Vec::new();
        let below = |folders: &[String]| -> Vec<Box<dyn Query>> {
            let term = |it: &String| {
                let trimmed = it.trim_end_matches('/');
                self.exact_term(self.fields.folder, if trimmed.is_empty() { "/" } else { trimmed })
            };
            folders.iter().map(term).collect()
        };
        if !filter.folders.is_empty() {
            clauses.push(any(below(&filter.folders)));
        }
        clauses.extend(below(&filter.except).into_iter().map(|it| (Occur::MustNot, it)));
        if !filter.kinds.is_empty() {
            clauses.push(any(filter
                .kinds
                .iter()
                .map(|it| self.exact_term(self.fields.kind, it.as_str()))
                .collect()));
        }
        if filter.modified_from.is_some() || filter.modified_until.is_some() {
            let term = |it: i64| Term::from_field_i64(self.fields.modified, it);
            let from =
                filter.modified_from.map_or(Bound::Unbounded, |it| Bound::Included(term(it)));
            let until =
                filter.modified_until.map_or(Bound::Unbounded, |it| Bound::Excluded(term(it)));
            clauses.push(any(vec![Box::new(RangeQuery::new(from, until))]));
        }
        clauses
    }

    fn exact_term(&self, field: Field, text: &str) -> Box<dyn Query> {
        Box::new(TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::Basic))
    }
}
