//! Markdown as it is read aloud: for excerpts, where marks would only be in the way.

/// The text without Markdown's marks for emphasis, code and links; what stands between spaces is no mark.
pub fn without_markup(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = plain.chars().next_back();
        if let Some((label, length)) = link(rest) {
            plain.push_str(&without_markup(label));
            rest = &rest[length..];
            continue;
        }
        let run = rest.len() - rest.trim_start_matches(first).len();
        let after = rest[run..].chars().next();
        let word = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
        let space = |it: Option<char>| it.is_none_or(char::is_whitespace);
        let is_mark = match first {
            '`' => true,
            // Between spaces it is a sign or a bullet, inside a word a product or a name.
            '*' | '_' => {
                let inside = word(before) && word(after);
                run <= 3 && !inside && !(space(before) && space(after))
            }
            '#' => run <= 6 && matches!(before, None | Some('\n')) && after == Some(' '),
            _ => false,
        };
        if is_mark {
            rest = if first == '#' { rest[run..].trim_start_matches(' ') } else { &rest[run..] };
        } else {
            plain.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    plain
}

/// Label of a `[label](target)` or `![label](target)` at the start of `text`, and the length of all of it.
fn link(text: &str) -> Option<(&str, usize)> {
    let open = text.strip_prefix('!').unwrap_or(text).strip_prefix('[')?;
    let start = text.len() - open.len();
    let close = open.find(']')?;
    let target = open[close..].strip_prefix("](")?;
    let end = target.find(')')?;
    let label = &open[..close];
    // What goes over lines is no link but brackets.
    let one_line = !label.contains(['\n', '[']) && !target[..end].contains(['\n', ' ']);
    one_line.then(|| (label, start + close + 2 + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_what_only_looks_like_them_stays() {
        for (text, plain) in [
            ("The **winter** mooring is *dear*.", "The winter mooring is dear."),
            ("## Seals\nof `H4`", "Seals\nof H4"),
            ("see [the list](a/b.md) and ![a boat](x.png)", "see the list and a boat"),
            ("a * b, 2*3, snake_case, __bold__ _it_", "a * b, 2*3, snake_case, bold it"),
            ("[1] and [x] (y) #5 a#b", "[1] and [x] (y) #5 a#b"),
            ("- item\n> quote | cell", "- item\n> quote | cell"),
            ("", ""),
        ] {
            assert_eq!(without_markup(text), plain, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn letters_stay_in_their_order(text in "[a-cä船*_`#!\\[\\]() \n]{0,40}") {
            let plain = without_markup(&text);
            let letters = |it: &str| it.chars().filter(|it| it.is_alphabetic()).collect::<String>();
            // A link's target is the only text that goes.
            if !text.contains("](") {
                proptest::prop_assert_eq!(letters(&plain), letters(&text));
            }
            proptest::prop_assert!(plain.len() <= text.len());
        }
    }
}
