//! Terms as words that every tokenizer leaves alone.
//!
//! The words of passages and queries are made here and not by the server, so that both find the same. A server still
//! cuts text into words: what a tokenizer could cut or change is written as hexadecimal digits.

/// What an encoded term begins with. A term that begins so itself is encoded, too: no two terms become one word.
const MARK: &str = "zz";

/// The term as a word of small ASCII letters and digits.
pub(crate) fn word(term: &str) -> String {
    let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    if !term.is_empty() && term.bytes().all(plain) && !term.starts_with(MARK) {
        return term.to_owned();
    }
    let mut word = String::with_capacity(MARK.len() + 2 * term.len());
    word.push_str(MARK);
    for byte in term.bytes() {
        for digit in [byte >> 4, byte & 15] {
            word.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    word
}

/// Words with spaces between, as many as go into `limit` bytes.
pub(crate) fn joined<S: AsRef<str>>(terms: impl IntoIterator<Item = S>, limit: usize) -> String {
    let mut text = String::new();
    for term in terms {
        let word = word(term.as_ref());
        if text.len() + word.len() + 1 > limit {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_words_stay_and_others_are_digits() {
        assert_eq!(word("boat7"), "boat7");
        assert_eq!(word("c++"), "zz632b2b");
        assert_eq!(word("塔"), "zze5a194");
        assert_eq!(word("zzz"), "zz7a7a7a");
        assert_eq!(joined(["a", "c#", "b"], 9), "a zz6323");
        assert_eq!(joined([] as [&str; 0], 9), "");
    }

    proptest! {
        #[test]
        fn no_two_terms_become_one_word(a in "\\PC{0,6}|z{0,3}[0-9a-f]{0,4}", b in "\\PC{0,6}|z{0,3}[0-9a-f]{0,4}") {
            prop_assert_eq!(word(&a) == word(&b), a == b);
            prop_assert!(word(&a).bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit()));
        }
    }
}
