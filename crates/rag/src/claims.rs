//! Every sentence of an answer is checked against the passage it cites; numbers that point nowhere are
//! removed. The program assigns citations, never the model.

use riddle_types::{EmbedRole, Embedder, Passage, StageError};

use crate::{
    extract::{dot, normalized},
    request::Support,
    sentences::sentences,
};

/// The answer without citation marks that point to no passage, and the numbers it does cite, in order
/// of first use.
pub(crate) fn clean_citations(answer: &str, passages: &[Passage]) -> (String, Vec<u32>) {
    let mut cleaned = String::with_capacity(answer.len());
    let mut used = Vec::new();
    let mut rest = answer;
    while let Some(open) = rest.find('[') {
        cleaned.push_str(&rest[..open]);
        let mark = &rest[open..];
        match citation_mark(mark) {
            Some((number, length)) if passages.iter().any(|it| it.number == number) => {
                cleaned.push_str(&mark[..length]);
                if !used.contains(&number) {
                    used.push(number);
                }
                rest = &mark[length..];
            }
            Some((_, length)) => {
                // The mark's own leading space goes with it.
                if cleaned.ends_with(' ') {
                    cleaned.pop();
                }
                rest = &mark[length..];
            }
            None => {
                cleaned.push('[');
                rest = &mark[1..];
            }
        }
    }
    cleaned.push_str(rest);
    (cleaned, used)
}

/// Number and length of a `[n]` at the start of `text`.
fn citation_mark(text: &str) -> Option<(u32, usize)> {
    let close = text.find(']')?;
    let digits = text.get(1..close)?;
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, close + 1))
}

/// Checks each sentence against the passages it cites: 1 when a passage says it verbatim, else the
/// cosine to the passage's closest sentence; 0 without an embedder or a citation.
pub(crate) fn check(
    answer: &str,
    passages: &[Passage],
    embedder: Option<&dyn Embedder>,
) -> Result<Vec<Support>, StageError> {
    statements(answer)
        .into_iter()
        .map(|(sentence, numbers)| {
            let cited = passages.iter().filter(|it| numbers.contains(&it.number));
            let mut best = Support { sentence, citation: None, score: 0.0 };
            for passage in cited {
                let score = support(&best.sentence, &passage.text, embedder)?;
                if best.citation.is_none() || score > best.score {
                    best.citation = Some(passage.number);
                    best.score = score;
                }
            }
            Ok(best)
        })
        .collect()
}

/// The answer's statements with the citations that follow each.
fn statements(answer: &str) -> Vec<(String, Vec<u32>)> {
    let mut statements: Vec<(String, Vec<u32>)> = Vec::new();
    let mut text = String::new();
    let mut rest = answer;
    while let Some(open) = rest.find('[') {
        text.push_str(&rest[..open]);
        let mark = &rest[open..];
        match citation_mark(mark) {
            Some((number, length)) => {
                let statement = text.trim();
                if statement.is_empty() {
                    if let Some((_, numbers)) = statements.last_mut() {
                        numbers.push(number);
                    }
                } else {
                    statements.push((statement.to_owned(), vec![number]));
                }
                text.clear();
                rest = &mark[length..];
            }
            None => {
                text.push('[');
                rest = &mark[1..];
            }
        }
    }
    text.push_str(rest);
    // What follows the last mark is uncited; a lone full stop after a mark is not a statement.
    for range in sentences(&text) {
        let sentence = &text[range];
        if sentence.chars().any(char::is_alphanumeric) {
            statements.push((sentence.to_owned(), Vec::new()));
        }
    }
    statements
}

fn support(
    sentence: &str,
    passage: &str,
    embedder: Option<&dyn Embedder>,
) -> Result<f32, StageError> {
    if normalized(passage).contains(&normalized(sentence)) {
        return Ok(1.0);
    }
    let Some(embedder) = embedder else { return Ok(0.0) };
    let mut texts = vec![sentence];
    texts.extend(sentences(passage).into_iter().map(|range| &passage[range]));
    let vectors = embedder.embed(&texts, EmbedRole::Passage)?;
    let Some((claim, spans)) = vectors.split_first() else { return Ok(0.0) };
    Ok(spans.iter().map(|span| dot(claim, span)).fold(0.0, f32::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages() -> Vec<Passage> {
        vec![
            Passage { number: 1, text: "The boat is blue. It was built in 1931.".to_owned() },
            Passage { number: 2, text: "Bread rises overnight.".to_owned() },
        ]
    }

    #[test]
    fn numbers_that_point_nowhere_are_removed() {
        let (text, used) = clean_citations("Blue [1] [7]. Array[0] stays [x]. [2]", &passages());
        assert_eq!(text, "Blue [1]. Array stays [x]. [2]");
        assert_eq!(used, [1, 2]);
    }

    #[test]
    fn verbatim_words_are_supported_and_others_are_not() {
        let checked = check(
            "It was built in 1931. [1] Bread is blue. [2] Nobody said this.",
            &passages(),
            None,
        )
        .expect("no embedder, no failure");
        let scores: Vec<_> = checked.iter().map(|it| (it.citation, it.score)).collect();
        assert_eq!(scores, [(Some(1), 1.0), (Some(2), 0.0), (None, 0.0)]);
    }

    #[test]
    fn several_marks_belong_to_one_statement() {
        let checked =
            check("Bread rises overnight. [1][2]", &passages(), None).expect("no embedder");
        assert_eq!(
            checked,
            [Support {
                sentence: "Bread rises overnight.".to_owned(),
                citation: Some(2),
                score: 1.0
            }]
        );
    }
}
