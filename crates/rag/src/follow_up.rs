//! Questions that follow others: "and in winter?" is read in the light of what was asked before.
//!
//! Retrieval knows no thread, so what a short question leaves unsaid is put back: the content words of the
//! question that it leans on. A question that stands by itself is left as it is.

use std::collections::HashSet;

use crate::extract::telling_words;

/// A question with fewer content words says too little by itself.
const STANDS_ALONE: usize = 3;

/// Words that point back to something said before.
const POINTERS: [&str; 28] = [
    "it", "its", "they", "them", "their", "he", "him", "his", "she", "her", "this", "that",
    "these", "those", "there", "then", "and", "also", "else", "same", "one", "ones", "er", "sie",
    "es", "dort", "dann", "und",
];

/// What to search for: `question`, and the words it takes up from the latest of `earlier` that has any.
pub(crate) fn in_context(question: &str, earlier: &[String]) -> String {
    let question = question.trim();
    let own: HashSet<String> = telling_words(question).into_iter().collect();
    let points_back = question
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| POINTERS.contains(&word.to_lowercase().as_str()));
    if own.len() >= STANDS_ALONE && !points_back {
        return question.to_owned();
    }
    for before in earlier.iter().rev() {
        let mut seen = own.clone();
        let taken: Vec<&str> = before
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| telling_words(word).into_iter().any(|it| seen.insert(it)))
            .collect();
        if !taken.is_empty() {
            return format!("{question} {}", taken.join(" "));
        }
    }
    question.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earlier() -> Vec<String> {
        vec!["When does the winter mooring start?".to_owned()]
    }

    #[test]
    fn a_question_that_leans_takes_up_what_was_asked() {
        assert_eq!(
            in_context("And what does it cost?", &earlier()),
            "And what does it cost? winter mooring start"
        );
        assert_eq!(
            in_context("Who?", &[earlier(), vec!["Why?".to_owned()]].concat()),
            "Who? winter mooring start"
        );
    }

    #[test]
    fn a_question_that_stands_alone_is_left_as_it_is() {
        let question = "How much notice ends the bakery lease?";
        assert_eq!(in_context(question, &earlier()), question);
        assert_eq!(in_context("  Who?  ", &[]), "Who?");
    }
}
