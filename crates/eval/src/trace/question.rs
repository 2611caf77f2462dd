//! The lines of a trace.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::copied::TraceChange;

/// A question of a trace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TraceQuestion {
    /// The question.
    pub question: String,
    /// The answer that was written by a person.
    #[serde(default)]
    pub answer: Option<String>,
    /// Questions of one group have one answer; each is of its own where none is given.
    #[serde(default)]
    pub group: Option<String>,
    /// A question that an oracle foresees before this one: what foreseeing is worth to who does it well.
    #[serde(default)]
    pub foreseen: Option<TraceForeseen>,
    /// What happens to a file before this question, and before anything is foreseen.
    #[serde(default)]
    pub change: Option<TraceChange>,
    /// What the home is set to from this question on, before anything is foreseen for it.
    #[serde(default)]
    pub set: Option<TraceSetting>,
}

/// What an oracle foresees: this question in other words, or another one with its own answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "foreseen is a question in quotation marks, or {\"question\": …, \"answer\": …}"
)]
pub enum TraceForeseen {
    /// The question of the same line, in other words.
    Same(String),
    /// Another question, which a later line may ask.
    Other {
        /// In which words.
        question: String,
        /// The answer that was written by a person.
        #[serde(default)]
        answer: Option<String>,
    },
}

impl TraceForeseen {
    /// What is foreseen.
    pub(super) fn question(&self) -> &String {
        let (TraceForeseen::Same(question) | TraceForeseen::Other { question, .. }) = self;
        question
    }
}

/// What changes on the way (PerCache, section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSetting {
    /// Similarity of two questions.
    #[serde(default)]
    pub threshold: Option<f32>,
    /// Bytes that what was read may take.
    #[serde(default)]
    pub tree_bytes: Option<u64>,
}

/// A person's answers by their questions, and by what an oracle foresees. They cite nothing: as of any answer, each
/// sentence is held against the passage that is nearest to it.
pub(super) fn dictated(trace: &[TraceQuestion]) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for it in trace {
        let of_foreseen = match &it.foreseen {
            Some(TraceForeseen::Other { answer, .. }) => answer.as_deref(),
            _ => it.answer.as_deref(),
        };
        let foreseen = it.foreseen.as_ref().map(TraceForeseen::question);
        for (question, answer) in
            [(Some(&it.question), it.answer.as_deref()), (foreseen, of_foreseen)]
        {
            let answer = answer.map(str::trim).filter(|it| !it.is_empty());
            if let Some((question, answer)) = question.zip(answer) {
                told.insert(question.clone(), answer.to_owned());
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_oracle_foresees_is_dictated_its_own_answer() {
        let line = |it: &str| serde_json::from_str::<TraceQuestion>(it).expect("a question");
        let trace = [
            line(r#"{"question": "a", "answer": "At six. On Monday", "foreseen": "b"}"#),
            line(r#"{"question": "c", "foreseen": {"question": "d", "answer": "No."}}"#),
            line(r#"{"question": "e", "answer": " ", "set": {"threshold": 0.9}}"#),
        ];
        let six = "At six. On Monday";
        let told = [("a", six), ("b", six), ("d", "No.")];
        assert_eq!(dictated(&trace), told.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
        let set = TraceSetting { threshold: Some(0.9), tree_bytes: None };
        assert_eq!((trace[0].set, trace[2].set), (None, Some(set)));
        let wrong = r#"{"question": "a", "set": {"treshold": 0.9}}"#;
        assert!(serde_json::from_str::<TraceQuestion>(wrong).is_err());
        let wrong = r#"{"question": "a", "foreseen": {"quest": "b"}}"#;
        let error = serde_json::from_str::<TraceQuestion>(wrong).expect_err("no question");
        assert!(error.to_string().starts_with("foreseen is a question"), "{error}");
    }
}
