//! Numbers of places in a prompt, and the numbers that the caller gave the passages there.
//!
//! A prompt numbers its passages by their places, so that the same passages in the same places are the same tokens
//! whatever their ranks are. Whoever asked cites by the numbers of the request: what the model writes is put back into
//! them as it comes.

/// Longest citation mark that is waited for, in bytes: more is held to be text.
const LONGEST_MARK: usize = 40;

/// Puts marks as `[1]` and `[2, 3]` into the caller's numbers, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The caller's number of the passage in each place.
    placed: Vec<u32>,
    /// Numbers of the caller's passages that are in no place.
    elsewhere: Vec<u32>,
    /// The beginning of what may be a mark.
    held: String,
}

impl Numbers {
    /// For passages `placed` one after the other, and others that were left out.
    pub(crate) fn new(placed: Vec<u32>, elsewhere: Vec<u32>) -> Numbers {
        Numbers { placed, elsewhere, held: String::new() }
    }

    /// The part of the text so far that no more text can change.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.placed.is_empty() {
            return piece.to_owned();
        }
        let mut text = String::with_capacity(piece.len());
        for c in piece.chars() {
            if self.held.is_empty() {
                if c == '[' {
                    self.held.push(c)
                } else {
                    text.push(c)
                }
                continue;
            }
            self.held.push(c);
            match c {
                ']' => text.push_str(&self.put_back()),
                '0'..='9' | ',' | ' ' if self.held.len() < LONGEST_MARK => {}
                '[' => {
                    self.held.pop();
                    text.push_str(&std::mem::replace(&mut self.held, "[".to_owned()));
                }
                _ => text.push_str(&std::mem::take(&mut self.held)),
            }
        }
        text
    }

    /// The text that was held back because it might have begun a mark, and did not.
    pub(crate) fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The mark that is held, in the caller's numbers.
    fn put_back(&mut self) -> String {
        let mark = std::mem::take(&mut self.held);
        let mut text = String::with_capacity(mark.len());
        let mut rest = mark.as_str();
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            let (digits, after) = from.split_at(end);
            text.push_str(before);
            text.push_str(&self.number(digits));
            rest = after;
        }
        text + rest
    }

    fn number(&self, digits: &str) -> String {
        let Ok(number) = digits.parse::<u32>() else { return digits.to_owned() };
        let place = (number as usize).checked_sub(1);
        match place.and_then(|it| self.placed.get(it)) {
            Some(own) => own.to_string(),
            // The model means a place that is none, and not the passage that the caller knows by that number.
            None if self.placed.contains(&number) || self.elsewhere.contains(&number) => {
                "0".to_owned()
            }
            None => digits.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put_back(text: &str) -> String {
        let mut numbers = Numbers::new(vec![1, 3, 5, 4], vec![6]);
        let whole = numbers.push(text);
        whole + &numbers.end()
    }

    #[test]
    fn marks_name_the_passages_that_the_caller_numbered() {
        assert_eq!(put_back("It is blue [2][4]. So [3, 1]."), "It is blue [3][4]. So [5, 1].");
        assert_eq!(put_back("[[2] [x] [2 [3"), "[[3] [x] [2 [3");
        // Six is a passage that was left out, five one that stands in another place; nobody knows nine.
        assert_eq!(put_back("a [6] b [5] c [9] [2024]"), "a [0] b [0] c [9] [2024]");
        assert_eq!(Numbers::default().push("kept [1]"), "kept [1]");
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(text in "[\\[\\]0-9, a]{0,60}", cuts in prop::collection::vec(1usize..5, 1..9)) {
            let mut numbers = Numbers::new(vec![1, 3, 5, 4], vec![6]);
            let (mut out, mut rest, mut turn) = (String::new(), text.as_str(), 0);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(cuts[turn % cuts.len()].min(rest.len()));
                out.push_str(&numbers.push(piece));
                (rest, turn) = (after, turn + 1);
            }
            out.push_str(&numbers.end());
            prop_assert_eq!(out, put_back(&text));
        }
    }
}
