//! Links to what is in the library: `riddle://passage/17`, as assistants cite it, and
//! `riddle://search?q=blue+boat`.
//!
//! A page in a browser can hold such a link, too, so it only shows: it opens no file, changes nothing and names no
//! path.

use crate::instance::Ask;

/// What every link begins with.
const SCHEME: &str = "riddle://";

/// Longest text that is searched for, in characters: a question has a few lines at most.
const MAX_TEXT: usize = 500;

/// What is asked for; `None`: it is no link of ours, or one that means nothing.
pub(crate) fn parse(link: &str) -> Option<Ask> {
    let rest = link.strip_prefix(SCHEME)?;
    // Browsers and desktops may add one.
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if let Some(number) = rest.strip_prefix("passage/") {
        let chunk = number.parse().ok()?;
        let plain = u64::to_string(&chunk) == number;
        return plain.then_some(Ask::Passage(chunk));
    }
    let query = rest.strip_prefix("search?q=").or_else(|| rest.strip_prefix("search/?q="))?;
    search(&unescaped(query)?)
}

/// A text to search for, as it may be shown.
pub(crate) fn search(text: &str) -> Option<Ask> {
    let plain: String = text.chars().filter(|it| !it.is_control()).take(MAX_TEXT).collect();
    let text = plain.trim();
    (!text.is_empty()).then(|| Ask::Search(text.to_owned()))
}

/// `%20` and `+` are spaces.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            // Another field: there are none.
            b'&' | b'#' => break,
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_show_a_passage_or_search() {
        assert_eq!(parse("riddle://passage/17"), Some(Ask::Passage(17)));
        assert_eq!(parse("riddle://passage/17/"), Some(Ask::Passage(17)));
        let asked = Some(Ask::Search("blue boat ä".to_owned()));
        assert_eq!(parse("riddle://search?q=blue+boat%20%C3%A4&x=1"), asked);
        assert_eq!(parse("riddle://search/?q=blue%20boat%20%C3%A4"), asked);
        let long = parse(&format!("riddle://search?q={}", "a".repeat(9_999)));
        assert!(matches!(long, Some(Ask::Search(it)) if it.len() == MAX_TEXT));
    }

    #[test]
    fn what_is_no_link_of_ours_asks_for_nothing() {
        for link in [
            "",
            "riddle:",
            "riddle://",
            "riddle://passage/",
            "riddle://passage/-1",
            "riddle://passage/+1",
            "riddle://passage/01",
            "riddle://passage/1/2",
            "riddle://passage/../../etc/passwd",
            "riddle://passage/99999999999999999999",
            "riddle://open?path=/etc/passwd",
            "riddle://search",
            "riddle://search?q=",
            "riddle://search?q=%00%0a",
            "riddle://search?q=%",
            "riddle://search?q=%zz",
            "riddle://search?q=%ff",
            "file:///etc/passwd",
            "https://example.org/riddle://passage/1",
        ] {
            assert_eq!(parse(link), None, "{link}");
        }
    }
}
