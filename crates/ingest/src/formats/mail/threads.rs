//! What the mails of a mailbox are called, and which of them each one answers.

use std::{collections::HashMap, time::Instant};

use mail_parser::{Address, Message, MessageParser};
use riddle_types::{Block, BlockKind, Document, Location};

/// Most mails whose answers are looked for: of a larger mailbox, the first ones.
const MOST_MAILS: usize = 200_000;

/// Most bytes of a mail in which its headers are looked for.
const LONGEST_HEAD: usize = 256 << 10;

/// Most letters of a subject or a name.
const LONGEST_NAME: usize = 200;

/// Most mails that one is said to answer: those before the last ones say nothing more.
const MOST_REFERENCES: usize = 20;

/// What is known of the mails of a mailbox before they are read.
#[derive(Debug, Default)]
pub(super) struct Threads {
    heads: Vec<Head>,
    by_id: HashMap<String, usize>,
}

/// What a mail says of itself.
#[derive(Debug, Default)]
struct Head {
    subject: Option<String>,
    sender: Option<Sender>,
    day: Option<String>,
    /// Of those it answers, the nearest first.
    answers: Vec<String>,
}

#[derive(Debug)]
struct Sender {
    name: Option<String>,
    address: Option<String>,
}

impl Threads {
    /// Looks at the headers of all mails, until `end`.
    pub(super) fn of(mails: &[&[u8]], end: Instant) -> Threads {
        let mut threads = Threads::default();
        let parser = MessageParser::default();
        for mail in mails.iter().take(MOST_MAILS) {
            if Instant::now() >= end {
                break;
            }
            let message = parser.parse_headers(head_of(mail));
            let id = message.as_ref().and_then(|it| it.message_id()).map(str::to_owned);
            if let Some(id) = id {
                threads.by_id.entry(id).or_insert(threads.heads.len());
            }
            threads.heads.push(message.map(|it| Head::of(&it)).unwrap_or_default());
        }
        threads
    }

    /// Gives a mail of the box a title that says what it is about, from whom and of which day; and a line that says
    /// what it answers.
    pub(super) fn name(&self, number: usize, document: &mut Document) {
        let Some(head) = self.heads.get(number - 1) else { return };
        // Its subject goes into the title.
        let headed = document.blocks.first().is_some_and(|it| it.kind == BlockKind::Heading(1));
        let about = headed.then(|| document.blocks.remove(0).text).or_else(|| head.subject.clone());
        let about = about.unwrap_or_else(|| format!("message {number}"));
        let whence: Vec<&str> = [head.sender.as_ref().and_then(Sender::short), head.day.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        document.title = Some(match whence.as_slice() {
            [] => about,
            whence => format!("{about} ({})", whence.join(", ")),
        });
        let Some(text) = self.answered(number) else { return };
        // Behind the sender, the receivers and the date, which docling writes in lines of their own.
        let mut at = 0;
        for label in ["From: ", "To: ", "Date: "] {
            let told = document.blocks.get(at).is_some_and(|it| it.text.starts_with(label));
            at += usize::from(told);
        }
        let beside = document.blocks.get(at.saturating_sub(1)).map(|it| it.location.clone());
        let location = beside.unwrap_or(Location::Whole);
        document.blocks.insert(at, Block::new(BlockKind::Paragraph, text, location));
    }

    /// The nearest mail of the box that a mail answers.
    fn answered(&self, number: usize) -> Option<String> {
        let this = number - 1;
        let answers = &self.heads.get(this)?.answers;
        let other = answers.iter().filter_map(|it| self.by_id.get(it)).find(|it| **it != this)?;
        let head = &self.heads[*other];
        let sender = head.sender.as_ref().and_then(Sender::whole);
        let said: Vec<String> =
            [head.subject.clone(), sender, head.day.clone()].into_iter().flatten().collect();
        let place = format!("message {}", other + 1);
        Some(match said.as_slice() {
            [] => format!("In answer to: {place}"),
            said => format!("In answer to: {} ({place})", said.join(", ")),
        })
    }
}

impl Head {
    fn of(message: &Message<'_>) -> Head {
        let nearest = message.in_reply_to().as_text_list().unwrap_or_default().iter();
        let before = message.references().as_text_list().unwrap_or_default().iter().rev();
        let day = message.date().filter(|it| it.is_valid());
        Head {
            subject: message.subject().and_then(line),
            sender: message.from().and_then(Sender::of),
            day: day.map(|it| format!("{:04}-{:02}-{:02}", it.year, it.month, it.day)),
            answers: nearest
                .take(MOST_REFERENCES)
                .chain(before.take(MOST_REFERENCES))
                .map(|it| it.to_string())
                .collect(),
        }
    }
}

impl Sender {
    fn of(address: &Address<'_>) -> Option<Sender> {
        let first = address.first()?;
        let (name, address) = (first.name().and_then(line), first.address().and_then(line));
        (name.is_some() || address.is_some()).then_some(Sender { name, address })
    }

    fn short(&self) -> Option<&str> {
        self.name.as_deref().or(self.address.as_deref())
    }

    fn whole(&self) -> Option<String> {
        Some(match (&self.name, &self.address) {
            (Some(name), Some(address)) => format!("{name} <{address}>"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => return None,
        })
    }
}

/// A text of a header on one line; none if there is nothing in it.
fn line(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().take(LONGEST_NAME).collect();
    (!text.is_empty()).then_some(text)
}

/// The headers of a mail: all that stands before the first empty line.
fn head_of(mail: &[u8]) -> &[u8] {
    let mail = &mail[..mail.len().min(LONGEST_HEAD)];
    let ends = |it: &[u8]| it.starts_with(b"\n\n") || it.starts_with(b"\n\r\n");
    let end = (0..mail.len()).find(|at| mail[*at] == b'\n' && ends(&mail[*at..]));
    end.map_or(mail, |at| &mail[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(mails: &[&str], number: usize) -> (Option<String>, Option<String>) {
        let mails: Vec<&[u8]> = mails.iter().map(|it| it.as_bytes()).collect();
        let end = Instant::now() + std::time::Duration::from_secs(20);
        let threads = Threads::of(&mails, end);
        let mut document = Document::default();
        threads.name(number, &mut document);
        (document.title, document.blocks.first().map(|it| it.text.clone()))
    }

    const FIRST: &str = "From: Ann Hale <ann@example.org>\nSubject: The\n winch\nMessage-ID: <1@x>\n\
        Date: Mon, 2 Mar 2026 10:00:00 +0000\n\nhi\n";

    #[test]
    fn a_mail_is_called_by_its_subject_its_sender_and_its_day() {
        assert_eq!(said(&[FIRST], 1), (Some("The winch (Ann Hale, 2026-03-02)".to_owned()), None));
        let bare = "From: ben@example.org\n\nSubject: no header\n";
        assert_eq!(said(&[bare], 1).0.as_deref(), Some("message 1 (ben@example.org)"));
        assert_eq!(said(&["", ""], 2), (Some("message 2".to_owned()), None));
    }

    #[test]
    fn an_answer_says_what_it_answers_wherever_that_stands() {
        let answer =
            "From: b@x\nSubject: Re: The winch\nMessage-ID: <2@x>\nIn-Reply-To: <1@x>\n\nyes\n";
        let told = "In answer to: The winch, Ann Hale <ann@example.org>, 2026-03-02";
        assert_eq!(said(&[answer, FIRST], 1).1, Some(format!("{told} (message 2)")));
        // What it answers is not there, what that answers is.
        let later = "From: c@x\nIn-Reply-To: <7@x>\nReferences: <0@x> <1@x>\n\t<7@x>\n\nyes\n";
        assert_eq!(said(&[FIRST, later], 2).1, Some(format!("{told} (message 1)")));
    }

    #[test]
    fn answers_to_nothing_and_to_themselves_say_nothing() {
        let own = "Message-ID: <1@x>\nIn-Reply-To: <1@x>\nSubject: a\n\nx\n";
        let lost = "Message-ID: <2@x>\nIn-Reply-To: <9@x>\nSubject: b\n\nx\n";
        assert_eq!(said(&[own, lost], 1).1, None);
        assert_eq!(said(&[own, lost], 2).1, None);
        // Two that answer each other are two answers.
        let one = "Message-ID: <1@x>\nIn-Reply-To: <2@x>\n\nx\n";
        let two = "Message-ID: <2@x>\nIn-Reply-To: <1@x>\n\nx\n";
        assert_eq!(said(&[one, two], 1).1.as_deref(), Some("In answer to: message 2"));
    }
}
