//! What a person may type: words, "phrases", -excluded. Nothing they type is an error.

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Text outside quotes, exclusions taken out.
    pub(crate) words: String,
    /// Quoted phrases.
    pub(crate) phrases: Vec<String>,
    /// Words and phrases that must not occur.
    pub(crate) excluded: Vec<String>,
}

/// Longest query that is looked at; more is a pasted document, whose beginning says what it is about.
const LONGEST: usize = 4000;

/// Reads a query. An unbalanced quote is a plain character; a `-` counts only before a word after white
/// space, so that `well-known` and `2024-01-02` stay words.
pub(crate) fn parse(query: &str) -> Parsed {
    let end = query.char_indices().nth(LONGEST).map_or(query.len(), |(at, _)| at);
    let mut rest = &query[..end];
    let mut parsed = Parsed::default();
    while let Some(c) = rest.chars().next() {
        let at_start = parsed.words.is_empty() || parsed.words.ends_with(char::is_whitespace);
        let (minus, body) = match rest.strip_prefix('-') {
            Some(body) if at_start => (true, body),
            _ => (false, rest),
        };
        if let Some((phrase, after)) = quoted(body) {
            let list = if minus { &mut parsed.excluded } else { &mut parsed.phrases };
            list.push(phrase.to_owned());
            parsed.words.push(' ');
            rest = after;
        } else if minus && body.starts_with(char::is_alphanumeric) {
            let length = body.find(char::is_whitespace).unwrap_or(body.len());
            parsed.excluded.push(body[..length].to_owned());
            rest = &body[length..];
        } else {
            parsed.words.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    // Only exclusions: nothing could be found, so they are meant as words.
    if parsed.words.trim().is_empty() && parsed.phrases.is_empty() {
        parsed.words = parsed.excluded.drain(..).collect::<Vec<_>>().join(" ");
    }
    parsed
}

/// The query with what it quotes as plain words; `None` if it quotes nothing.
pub(crate) fn unquoted(query: &str) -> Option<String> {
    let Parsed { words, phrases, excluded } = parse(query);
    let excluded = excluded.iter().map(|it| format!("-\"{it}\""));
    let all = std::iter::once(words.trim().to_owned()).chain(phrases.iter().cloned());
    (!phrases.is_empty()).then(|| all.chain(excluded).collect::<Vec<_>>().join(" "))
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let close = match text.chars().next()? {
        '"' => '"',
        '“' | '„' => '”',
        '«' => '»',
        _ => return None,
    };
    let body = &text[text.chars().next()?.len_utf8()..];
    let end = body.find(close).or_else(|| if close == '”' { body.find('“') } else { None })?;
    let after = end + body[end..].chars().next()?.len_utf8();
    (!body[..end].trim().is_empty()).then(|| (&body[..end], &body[after..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn phrases_and_exclusions() {
        let parsed = parse("steel \"dry dock\" -paint -\"blue boat\" well-known");
        assert_eq!(parsed.words.split_whitespace().collect::<Vec<_>>(), ["steel", "well-known"]);
        assert_eq!(parsed.phrases, ["dry dock"]);
        assert_eq!(parsed.excluded, ["paint", "blue boat"]);
        assert_eq!(parse("„dry dock“").phrases, ["dry dock"]);
    }

    #[test]
    fn without_its_marks_a_phrase_is_words_and_nothing_else_changes() {
        assert_eq!(unquoted("dry dock -paint"), None);
        let plain = unquoted("steel \"dry dock\" -paint -\"blue boat\"").expect("a phrase");
        let parsed = parse(&plain);
        assert_eq!(parsed.words.split_whitespace().collect::<Vec<_>>(), ["steel", "dry", "dock"]);
        assert_eq!(
            (parsed.phrases.len(), parsed.excluded),
            (0, parse(&format!("a {plain}")).excluded)
        );
        assert_eq!(parse(&plain).excluded, ["paint", "blue boat"]);
    }

    #[test]
    fn odd_queries_are_words() {
        assert_eq!(parse("say \"hello").words, "say \"hello");
        assert_eq!(parse("-only").words, "only");
        assert_eq!(parse("\"\"").phrases, Vec::<String>::new());
        assert_eq!(parse("").words, "");
    }

    proptest! {
        #[test]
        fn never_fails(query in "\\PC{0,40}|[\"“”„«» a-]{0,20}") {
            parse(&query);
        }
    }
}
