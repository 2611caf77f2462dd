//! Server-sent events with the chunks of an answer, and what is taken out of them.

use std::io::Read;

use serde::Deserialize;

/// Longest line that is read: a chunk has some hundred bytes, and a server that sends more by a thousand times is
/// broken or means harm.
const LONGEST_LINE: usize = 1 << 20;

/// Longest answer that is read in one piece, from servers that do not stream.
const LONGEST_ANSWER: u64 = 8 << 20;

/// Bytes read at a time.
const BLOCK: usize = 8 << 10;

/// What a stream says next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// More of the answer.
    Text(String),
    /// The answer has come to its end; `true`: because it became too long.
    End(bool),
}

/// Why a stream can not be read on.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection.
    Read(std::io::Error),
    /// What came.
    Protocol(String),
}

/// Reads events from a connection.
pub(crate) struct Events<R> {
    from: R,
    buffer: Vec<u8>,
    read: usize,
    /// Whether something has told that the answer is complete.
    ended: bool,
    /// Tokens of the answer, where the server counts them.
    tokens: Option<usize>,
    /// Whether anything has come.
    heard: bool,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    error: Option<serde_json::Value>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    completion_tokens: Option<usize>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, alias = "message")]
    delta: Delta,
    #[serde(default)]
    finish_reason: Option<String>,
}

/// Everything else that servers put here (roles, tool calls, reasoning) is no answer.
#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
}

impl<R: Read> Events<R> {
    pub(crate) fn new(from: R) -> Events<R> {
        Events { from, buffer: Vec::new(), read: 0, ended: false, tokens: None, heard: false }
    }

    /// Tokens of the answer, where the server has counted them.
    pub(crate) fn tokens(&self) -> Option<usize> {
        self.tokens
    }

    /// Whether not even an event has come.
    pub(crate) fn is_silent(&self) -> bool {
        !self.heard
    }

    /// A line without its end; `None` at the end of the stream.
    fn line(&mut self) -> Result<Option<String>, Broken> {
        let mut searched = self.read;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|it| *it == b'\n') {
                let line = &self.buffer[self.read..searched + end];
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                // A character that is not one is the model's; the answer goes on.
                let text = String::from_utf8_lossy(line).into_owned();
                self.read = searched + end + 1;
                return Ok(Some(text));
            }
            if self.buffer.len() - self.read > LONGEST_LINE {
                return Err(Broken::Protocol(format!("a line of more than {LONGEST_LINE} bytes")));
            }
            self.buffer.drain(..self.read);
            (self.read, searched) = (0, self.buffer.len());
            self.buffer.resize(searched + BLOCK, 0);
            let found = self.from.read(&mut self.buffer[searched..]);
            let length = *found.as_ref().unwrap_or(&0);
            self.buffer.truncate(searched + length);
            if found.map_err(Broken::Read)? == 0 {
                let rest = String::from_utf8_lossy(&self.buffer).into_owned();
                self.buffer.clear();
                return Ok(Some(rest).filter(|it| !it.is_empty()));
            }
        }
    }

    /// What comes next. A stream that ends before it says so is broken.
    pub(crate) fn next(&mut self) -> Result<Said, Broken> {
        loop {
            let Some(line) = self.line()? else {
                if self.ended {
                    return Ok(Said::End(false));
                }
                let why = std::io::ErrorKind::UnexpectedEof;
                return Err(Broken::Read(std::io::Error::new(why, "it ended in mid-answer")));
            };
            // Comments keep connections open; event names and ids say nothing here.
            let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
            if data == "[DONE]" {
                return Ok(Said::End(false));
            }
            if data.is_empty() {
                continue;
            }
            self.heard = true;
            let chunk = parse(data)?;
            self.tokens = chunk.usage.and_then(|it| it.completion_tokens).or(self.tokens);
            let Some(choice) = chunk.choices.into_iter().next() else { continue };
            // Some servers close the connection after this and never say [DONE].
            self.ended |= choice.finish_reason.is_some();
            if choice.finish_reason.as_deref() == Some("length") {
                return Ok(Said::End(true));
            }
            if let Some(text) = choice.delta.content.filter(|it| !it.is_empty()) {
                return Ok(Said::Text(text));
            }
        }
    }
}

fn parse(data: &str) -> Result<Chunk, Broken> {
    let chunk: Chunk = serde_json::from_str(data)
        .map_err(|error| Broken::Protocol(format!("a chunk that can not be read ({error})")))?;
    match chunk.error {
        Some(error) => {
            Err(Broken::Protocol(format!("it reports an error: {}", message_of(&error))))
        }
        None => Ok(chunk),
    }
}

/// The answer of a server that does not stream, and its tokens, where they are counted.
pub(crate) fn whole(from: impl Read) -> Result<(String, Option<usize>), Broken> {
    let mut text = Vec::new();
    from.take(LONGEST_ANSWER).read_to_end(&mut text).map_err(Broken::Read)?;
    let chunk = parse(&String::from_utf8_lossy(&text))?;
    let tokens = chunk.usage.and_then(|it| it.completion_tokens);
    let content = chunk.choices.into_iter().next().and_then(|it| it.delta.content);
    let content = content.ok_or_else(|| Broken::Protocol("an answer without text".to_owned()))?;
    Ok((content, tokens))
}

/// What an error object says, in one short line.
pub(crate) fn message_of(error: &serde_json::Value) -> String {
    const LONGEST: usize = 200;
    let message = error["error"]["message"]
        .as_str()
        .or_else(|| error["message"].as_str())
        .or_else(|| error["error"].as_str())
        .or_else(|| error["detail"].as_str())
        .or_else(|| error.as_str())
        .unwrap_or_default();
    let line: String = message.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    line.trim().chars().take(LONGEST).collect()
}

/// Leaves out what reasoning models think aloud between `<think>` and `</think>`, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Thoughts {
    thinking: bool,
    /// The beginning of what may be a mark.
    held: String,
}

impl Thoughts {
    /// The part of `piece` that belongs to the answer, without the model's thoughts.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut answer = String::new();
        loop {
            let mark = if self.thinking { "</think>" } else { "<think>" };
            if let Some(at) = self.held.find(mark) {
                if !self.thinking {
                    answer.push_str(&self.held[..at]);
                }
                self.held.drain(..at + mark.len());
                self.thinking = !self.thinking;
                continue;
            }
            let longest = mark.len().min(self.held.len() + 1) - 1;
            let kept =
                (0..=longest).rev().find(|it| self.held.ends_with(&mark[..*it])).unwrap_or(0);
            let certain = self.held.len() - kept;
            if !self.thinking {
                answer.push_str(&self.held[..certain]);
            }
            self.held.drain(..certain);
            return answer;
        }
    }

    /// The text that was held back because it might have begun a mark, and did not.
    pub(crate) fn end(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        if self.thinking { String::new() } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let length = self.1.min(self.0.len()).min(into.len());
            into[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn all(stream: &str, at_once: usize) -> Result<(String, bool), Broken> {
        let mut events = Events::new(Slow(stream.as_bytes(), at_once));
        let mut text = String::new();
        loop {
            match events.next()? {
                Said::Text(more) => text.push_str(&more),
                Said::End(cut) => return Ok((text, cut)),
            }
        }
    }

    const GOOD: &str = ": hello\r\n\r\nevent: x\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"Bl\u{fc}\"}}],\"unknown\":1}\n\ndata:\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"e [1]\",\"reasoning_content\":\"hm\"}}]}\n\n";

    #[test]
    fn events_are_read_in_pieces_of_any_size() {
        for at_once in [1, 3, 1000] {
            let done = format!("{GOOD}data: [DONE]\n\ndata: never");
            assert_eq!(all(&done, at_once).expect("good"), ("Bl\u{fc}e [1]".to_owned(), false));
            let closed = format!(
                "{GOOD}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}"
            );
            assert_eq!(all(&closed, at_once).expect("good").0, "Bl\u{fc}e [1]");
            let cut = format!(
                "{GOOD}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"length\"}}]}}\n"
            );
            assert!(all(&cut, at_once).expect("good").1);
        }
    }

    #[test]
    fn tokens_are_those_that_the_server_counts() {
        let usage =
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\ndata: [DONE]\n\n";
        let stream = format!("{GOOD}{usage}");
        let mut events = Events::new(stream.as_bytes());
        assert!(events.is_silent());
        while !matches!(events.next().expect("good"), Said::End(_)) {}
        assert_eq!((events.tokens(), events.is_silent()), (Some(7), false));
    }

    #[test]
    fn what_is_no_stream_is_told() {
        let why = |stream: &str| match all(stream, 100).expect_err("broken") {
            Broken::Read(error) => error.to_string(),
            Broken::Protocol(why) => why,
        };
        assert!(why(GOOD).contains("mid-answer"));
        assert!(why("data: {\"choices\": 5}\n").contains("can not be read"));
        assert!(why("data: {\"choi\n").contains("can not be read"));
        assert!(
            why("data: {\"error\": {\"message\": \"out of\\nmemory\"}}\n")
                .ends_with("out of memory")
        );
        assert!(why(&format!("data: {}", "x".repeat(3 << 20))).contains("a line of more"));
    }

    #[test]
    fn a_whole_answer_is_read() {
        let answer =
            "{\"choices\":[{\"message\":{\"content\":\"Blue.\"},\"finish_reason\":\"stop\"}]}";
        assert_eq!(whole(answer.as_bytes()).expect("an answer"), ("Blue.".to_owned(), None));
        let counted = answer.replacen('{', "{\"usage\":{\"completion_tokens\":2},", 1);
        assert_eq!(whole(counted.as_bytes()).expect("an answer").1, Some(2));
        assert!(whole(&b"{}"[..]).is_err() && whole(&b"<html>"[..]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn thoughts_are_left_out_however_they_are_cut(
            parts in proptest::collection::vec("[a-z<>/ ]{0,6}", 0..6), at_once in 1usize..9,
        ) {
            let text = parts.join("<think>no</think>");
            let expected = {
                // A naive twin over the whole text.
                let (mut rest, mut kept) = (text.as_str(), String::new());
                while let Some(at) = rest.find("<think>") {
                    kept.push_str(&rest[..at]);
                    rest = rest[at..].split_once("</think>").map_or("", |it| it.1);
                }
                kept + rest
            };
            let mut thoughts = Thoughts::default();
            let letters: Vec<char> = text.chars().collect();
            let mut found: String = letters
                .chunks(at_once)
                .map(|it| thoughts.push(&it.iter().collect::<String>()))
                .collect();
            found.push_str(&thoughts.end());
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
