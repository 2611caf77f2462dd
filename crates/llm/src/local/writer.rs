//! What a model writes, from bytes to text.

use crate::stream::Thoughts;

/// Bytes of tokens into text without thoughts: a character may begin in one token and end in another.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    thoughts: Thoughts,
}

impl Writer {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.bytes.extend_from_slice(bytes);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.bytes) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.bytes.clear();
                    break;
                }
                Err(error) => {
                    let (whole, rest) = self.bytes.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    match error.error_len() {
                        // The beginning of a character.
                        None => {
                            self.bytes = rest.to_vec();
                            break;
                        }
                        Some(wrong) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            self.bytes = rest[wrong..].to_vec();
                        }
                    }
                }
            }
        }
        self.thoughts.push(&text)
    }

    pub(crate) fn end(&mut self) -> String {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned();
        self.thoughts.push(&rest) + &self.thoughts.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_does_not_depend_on_where_tokens_end(text in "\\PC{0,40}", cuts in prop::collection::vec(1usize..5, 1..20)) {
            let mut writer = Writer::default();
            let (mut out, mut rest, mut turn) = (String::new(), text.as_bytes(), 0);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(cuts[turn % cuts.len()].min(rest.len()));
                out.push_str(&writer.push(piece));
                (rest, turn) = (after, turn + 1);
            }
            out.push_str(&writer.end());
            prop_assert_eq!(out, text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut writer = Writer::default();
        assert_eq!(writer.push(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
        assert_eq!(writer.push(b"\xe2\x82"), "");
        assert_eq!(writer.end(), "\u{fffd}");
    }
}
