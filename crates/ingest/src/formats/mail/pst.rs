//! Files of Outlook's (PST, OST): folders of mails, each read like one that was sent, and of people, appointments and
//! tasks.
//!
//! A mail is written down as one (RFC 5322) of what Outlook keeps of it, so that its sender, its receivers, its day and
//! what it answers are read as those of all others. Which folder it is in stands above it.

mod crypt;
mod heap;
mod names;
mod properties;
mod rich;
mod series;
mod store;
mod table;
mod things;
mod zone;

use std::collections::{BTreeMap, HashSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mail_parser::DateTime;
use riddle_types::{Block, BlockKind, Document, FileKind, Location};

pub(super) use self::rich::unpacked;
use self::{
    names::Names,
    properties::Properties,
    store::{LARGEST_NODE, Node, Store, number},
    table::{COPY, Person, TO},
    things::{Kind, Thing},
};
use super::threads::Threads;
use crate::{
    formats::{Shares, join, warn},
    office,
    outcome::ParseOutcome,
    remark::Remark,
};

/// Kinds of nodes, in five bits of their numbers.
const FOLDER: u32 = 2;
const MAIL: u32 = 4;
const ATTACHED: u32 = 5;

/// Most bytes of a text that are read of one mail.
const LONGEST: usize = 8 << 20;

/// Folders in folders.
const DEEPEST: usize = 20;

/// Most attachments of one mail that are looked at.
const MOST_ATTACHED: usize = 1000;

/// Who is said to have sent what nobody sent: events and contacts.
const NOBODY: &str = "Unknown";

/// Properties by their numbers (MS-OXPROPS).
const NAME: u16 = 0x3001;
const SUBJECT: u16 = 0x0037;
const SENDER: u16 = 0x0C1A;
const ADDRESSES: [u16; 3] = [0x5D01, 0x5D0A, 0x0C1F];
const RECEIVERS: [(&str, u16, u64); 2] = [("To", 0x0E04, TO), ("Cc", 0x0E03, COPY)];
const TIMES: [u16; 2] = [0x0039, 0x0E06];
const HEADERS: u16 = 0x007D;
const IDS: [(&str, u16); 3] =
    [("Message-ID", 0x1035), ("In-Reply-To", 0x1042), ("References", 0x1039)];
const TEXT: u16 = 0x1000;
const PAGE: u16 = 0x1013;
const RICH: u16 = 0x1009;
const DATA: u16 = 0x3701;
const NAMES: [u16; 3] = [0x3707, 0x3704, NAME];
const MEDIA: u16 = 0x370E;
const FLAGS: u16 = 0x7FFD;

pub(super) fn parse(bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let store = match Store::open(bytes) {
        Ok(store) => store,
        // Of the file itself somebody can have another copy.
        Err(Remark::Damaged) => return ParseOutcome::Failed(Remark::OutlookDamaged.into()),
        Err(why) => return ParseOutcome::Failed(why.into()),
    };
    let (folders, names) = (folders(&store), Names::of(&store));
    let mut document = Document::default();
    let mails: Vec<(&str, &Node)> = folders
        .iter()
        .flat_map(|(path, mails)| mails.iter().map(|it| (path.as_str(), *it)))
        .collect();
    let threads = if shares.seeks() { Threads::default() } else { threads(&store, &mails, shares) };
    let mut folder = "";
    for (&(path, node), number) in mails.iter().zip(1..) {
        if !shares.last() {
            break;
        }
        let (kind, mut read) = match one(&store, node, &names, shares) {
            Ok(read) => read,
            Err(why) => {
                warn(&mut document, Remark::Message { number, why }.into());
                continue;
            }
        };
        let seeks = shares.seeks();
        // Without the picture that is looked for.
        if seeks && read.blocks.is_empty() {
            continue;
        }
        if !seeks {
            if kind.is_mail() {
                threads.name(number, &mut read);
            }
            if path != folder {
                folder = path;
                let name = Block::new(BlockKind::Heading(1), path.to_owned(), Location::Whole);
                document.blocks.push(name);
            }
        }
        let before = document.blocks.len();
        join(&format!("{} {number}", kind.word()), read, &mut document);
        for block in document.blocks[before..].iter_mut().filter(|_| !folder.is_empty()) {
            if let BlockKind::Heading(level) = &mut block.kind {
                *level = level.saturating_add(1);
            }
        }
    }
    shares.tell(&mut document);
    if !store.is_whole() {
        warn(&mut document, Remark::RestDamaged.into());
    }
    ParseOutcome::Parsed(document)
}

/// Mails by the folder that they are in, whose name is a path.
fn folders<'a>(store: &'a Store<'_>) -> BTreeMap<String, Vec<&'a Node>> {
    let tops = tops(store);
    let mut names: BTreeMap<u32, Option<String>> = BTreeMap::new();
    let mut folders: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for node in store.nodes.values().filter(|it| it.id & 0x1F == MAIL) {
        let path = names.entry(node.parent).or_insert_with(|| path(store, node.parent, &tops));
        if let Some(path) = path {
            folders.entry(path.clone()).or_default().push(node);
        }
    }
    folders
}

/// The folders around all that a person sees: others hold what Outlook keeps for itself. All are, if none is known.
fn tops(store: &Store<'_>) -> Vec<u32> {
    /// The node that says of the file which one it is, and the property that does: the number stands at its end.
    const STORE: u32 = 0x21;
    const TOP: u16 = 0x35E0;
    /// Where the file does not say; it is called so in every language. A mailbox has one, and public folders another.
    const NAMED: &str = "IPM_SUBTREE";
    let told = store.nodes.get(&STORE).and_then(|it| Properties::of(store, it).ok());
    let told = told.and_then(|it| number(&it.bytes(TOP)?, 20, 4).map(|it| it as u32));
    // Outlook's own copies may say there what the folder is called on the server: no node of theirs.
    let is_folder = |it: &u32| it & 0x1F == FOLDER && store.nodes.contains_key(it);
    if let Some(told) = told.filter(is_folder) {
        return vec![told];
    }
    let named = |it: &&Node| {
        let folder = Properties::of(store, it).ok();
        folder.and_then(|it| it.text(NAME)).is_some_and(|it| it == NAMED)
    };
    let folders = store.nodes.values().filter(|it| it.id & 0x1F == FOLDER);
    folders.filter(named).map(|it| it.id).collect()
}

/// The names of a folder and of those around it, below the one around all; none of one that is not in it.
fn path(store: &Store<'_>, folder: u32, tops: &[u32]) -> Option<String> {
    let (mut at, mut names, mut seen) = (folder, Vec::new(), HashSet::new());
    let mut inside = tops.is_empty();
    while let Some(node) = store.nodes.get(&at) {
        if node.id & 0x1F != FOLDER || !seen.insert(at) {
            break;
        }
        let is_top = tops.contains(&at);
        inside |= is_top;
        let name = Properties::of(store, node).ok().and_then(|it| it.text(NAME));
        // What lies in the one around all has no other.
        if !is_top || names.is_empty() {
            names.extend(name.as_deref().and_then(line));
        }
        if is_top || names.len() >= DEEPEST {
            break;
        }
        at = node.parent;
    }
    names.reverse();
    inside.then(|| names.join(" › "))
}

fn threads(store: &Store<'_>, mails: &[(&str, &Node)], shares: &Shares) -> Threads {
    let mut heads: Vec<Vec<u8>> = Vec::new();
    for (_, node) in mails {
        if std::time::Instant::now() >= shares.end() {
            break;
        }
        heads
            .push(Properties::of(store, node).map(|it| head(&it)).unwrap_or_default().into_bytes());
    }
    let heads: Vec<&[u8]> = heads.iter().map(Vec::as_slice).collect();
    Threads::of(&heads, shares.end())
}

/// What lies in a folder: a mail's text by docling, other things as address books and calendars are read; and what is
/// attached, each as a file of its own.
fn one(
    store: &Store<'_>,
    node: &Node,
    names: &Names,
    shares: &mut Shares,
) -> Result<(Kind, Document), String> {
    let mail = Properties::of(store, node)?;
    let (kind, mut document) = (Kind::of(&mail), Document::default());
    if !shares.seeks() {
        let people = table::people(store, &mail);
        if kind.is_mail() {
            let head = head(&mail) + &receivers(&mail, &people);
            let written = format!("{head}{}\r\n", part(&text(&mail)));
            document = match office::parse("message.eml", FileKind::Mail, written.into_bytes()) {
                ParseOutcome::Parsed(document) => document,
                ParseOutcome::Failed(why) => return Err(why),
                ParseOutcome::NoText(_) | ParseOutcome::Unsupported(_) => document,
            };
        }
        let notes = (!kind.is_mail()).then(|| plain(text(&mail)));
        let said = Thing { it: &mail, names, people, notes }.blocks(kind);
        if kind == Kind::Invitation {
            // Its name is the subject of the mail.
            document.blocks.extend(said.into_iter().skip(1));
        } else if !kind.is_mail() {
            document.title = said.first().map(|it| it.text.clone());
            document.blocks = said;
        }
    }
    for (attached, number) in attached(&mail).zip(1..) {
        if !shares.last() {
            break;
        }
        let attached = Properties::of(store, attached).ok();
        match attached.as_ref().and_then(|it| file(store, it, number)) {
            Some((name, bytes)) if bytes.len() as u64 <= shares.largest() => {
                shares.part(&name, bytes, &mut document);
            }
            // The series says it.
            None if attached.is_some_and(|it| is_changed_day(&it)) => {}
            // It is too large, lies elsewhere, or is an object of another program.
            _ => shares.pass_over(),
        }
    }
    Ok((kind, document))
}

fn attached<'a>(mail: &'a Properties<'_>) -> impl Iterator<Item = &'a Node> {
    mail.below().values().filter(|it| it.id & 0x1F == ATTACHED).take(MOST_ATTACHED)
}

/// Whether what is attached is no file: a day on which a series is not as it is (MS-OXCMSG 2.2.2.23, `afException`).
fn is_changed_day(attached: &Properties<'_>) -> bool {
    const CHANGED_DAY: u64 = 2;
    attached.number(FLAGS).is_some_and(|it| it & CHANGED_DAY != 0)
}

/// Name and bytes of what is attached; a mail is written down with what is attached to it.
fn file(store: &Store<'_>, attached: &Properties<'_>, number: u32) -> Option<(String, Vec<u8>)> {
    let named = NAMES.iter().find_map(|it| attached.text(*it)).as_deref().and_then(line);
    if let Some(node) = attached.object(DATA) {
        let mail = Properties::of(store, node).ok()?;
        // An object of another program has no subject and no sender; a changed day has one where it was changed.
        let is_mail = mail.text(SUBJECT).or_else(|| mail.text(SENDER)).is_some();
        if !is_mail && (!is_changed_day(attached) || plain(text(&mail)).is_empty()) {
            return None;
        }
        let name =
            named.or_else(|| subject(&mail)).unwrap_or_else(|| format!("forwarded {number}"));
        return Some((format!("{}.eml", name.trim_end_matches(".eml")), whole(store, &mail)));
    }
    let bytes = attached.bytes(DATA)?.into_owned();
    let ending = attached.text(MEDIA).map_or("bin", |it| super::ending(&it));
    Some((named.unwrap_or_else(|| format!("attachment {number}.{ending}")), bytes))
}

/// A mail in a mail, with its files; those of mails in it are not read.
fn whole(store: &Store<'_>, mail: &Properties<'_>) -> Vec<u8> {
    // No letter of base 64.
    const CUT: &str = "=_cut_=";
    let mut written = format!(
        "{}{}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{CUT}\"\r\n\r\n--{CUT}\r\n{}",
        head(mail),
        receivers(mail, &table::people(store, mail)),
        part(&text(mail))
    );
    for attached in attached(mail) {
        let Ok(attached) = Properties::of(store, attached) else { continue };
        let name = NAMES.iter().find_map(|it| attached.text(*it)).as_deref().and_then(line);
        let (Some(name), Some(bytes)) = (name, attached.bytes(DATA)) else { continue };
        if written.len() + bytes.len() > LARGEST_NODE / 2 {
            break;
        }
        let name = name.replace(['"', '\\'], "_");
        written.push_str(&format!(
            "\r\n--{CUT}\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; \
             filename=\"{name}\"\r\nContent-Transfer-Encoding: base64\r\n\r\n{}",
            STANDARD.encode(&bytes)
        ));
    }
    written.push_str(&format!("\r\n--{CUT}--\r\n"));
    written.into_bytes()
}

/// The headers of a mail, each on its line; not those that say whom it is for.
fn head(mail: &Properties<'_>) -> String {
    let mut head = String::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    };
    add("Subject", subject(mail));
    let sender = mail.text(SENDER).as_deref().and_then(line).filter(|it| it != NOBODY);
    // Inside of a company an address may be a path in its directory.
    let mut addresses = ADDRESSES.iter().filter_map(|it| mail.text(*it));
    let address = addresses.find(|it| it.contains('@')).as_deref().and_then(line);
    add("From", mailbox(sender.as_deref(), address.as_deref()));
    let time = TIMES.iter().find_map(|it| mail.number(*it)).and_then(seconds);
    add("Date", time.map(|it| DateTime::from_timestamp(it).to_rfc822()));
    for (name, id) in IDS {
        add(name, mail.text(id).as_deref().and_then(line));
    }
    head
}

/// The headers that say whom a mail is for: as it was sent, else as it is listed, else by names alone.
fn receivers(mail: &Properties<'_>, people: &[Person]) -> String {
    let mut head = String::new();
    let sent = mail.text(HEADERS).unwrap_or_default();
    for (name, id, role) in RECEIVERS {
        let several = |all: Vec<String>| Some(all.join(", ")).filter(|it| !it.is_empty());
        let listed = || {
            let all = people.iter().filter(|it| it.role == role);
            several(
                all.filter_map(|it| {
                    let name = it.name.as_deref().and_then(|it| line(it.trim_matches('\'')));
                    mailbox(name.as_deref(), it.address.as_deref().and_then(line).as_deref())
                })
                .collect(),
            )
        };
        let named = || {
            let all = mail.text(id)?;
            let each = all.split(';').filter_map(|it| {
                let name = line(it.trim().trim_matches('\''))?;
                if name.contains('@') {
                    mailbox(None, Some(&name))
                } else {
                    mailbox(Some(&name), None)
                }
            });
            several(each.collect())
        };
        if let Some(all) = header_of(&sent, name).or_else(listed).or_else(named) {
            head.push_str(&format!("{name}: {all}\r\n"));
        }
    }
    head
}

/// A subject, without the mark of how many letters of it are `Re: `.
fn subject(mail: &Properties<'_>) -> Option<String> {
    let text = mail.text(SUBJECT)?;
    let mut letters = text.chars();
    if letters.next() == Some('\u{1}') {
        letters.next();
        return line(letters.as_str());
    }
    line(&text)
}

/// A header of a mail as it was sent, on one line.
fn header_of(headers: &str, name: &str) -> Option<String> {
    let mut lines = headers.lines();
    let first = lines.by_ref().find_map(|it| {
        let (named, value) = it.split_once(':')?;
        named.eq_ignore_ascii_case(name).then_some(value)
    })?;
    let mut value = first.to_owned();
    for more in lines.take_while(|it| it.starts_with([' ', '\t'])) {
        value.push_str(more);
    }
    line(&value)
}

/// Somebody as a header names them.
fn mailbox(name: Option<&str>, address: Option<&str>) -> Option<String> {
    let plain = |it: &str| it.replace(['<', '>', ',', '"'], "");
    let address = address.map(plain);
    let name = name.filter(|it| Some(*it) != address.as_deref());
    match (name, address) {
        (Some(name), Some(address)) => {
            Some(format!("\"{}\" <{address}>", name.replace(['"', '\\'], "'")))
        }
        // A name alone is no mailbox: it stands where an address would.
        (Some(name), None) => Some(format!("<{}>", plain(name))),
        (None, Some(address)) => Some(format!("<{address}>")),
        (None, None) => None,
    }
}

/// Seconds since 1970, of tenths of millionths since 1601.
fn seconds(time: u64) -> Option<i64> {
    const BETWEEN: i64 = 11_644_473_600;
    let seconds = i64::try_from(time / 10_000_000).ok()? - BETWEEN;
    // Before 1970 and after 4500 nothing was sent.
    (0..80_000_000_000).contains(&seconds).then_some(seconds)
}

/// A text on one line; none if there is nothing in it.
fn line(text: &str) -> Option<String> {
    /// Most letters of a header.
    const MOST: usize = 20_000;
    let text: String =
        text.chars().take(MOST).map(|it| if it.is_control() { ' ' } else { it }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// What a mail says, and whether that is a page of the web.
enum Text {
    Plain(String),
    Page(String),
}

fn text(mail: &Properties<'_>) -> Text {
    let short = |text: String| match text.char_indices().nth(LONGEST / 4) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    };
    if let Some(text) = mail.text(TEXT).filter(|it| !it.trim().is_empty()) {
        return Text::Plain(short(text));
    }
    if let Some(page) = mail.page(PAGE).filter(|it| it.len() <= LONGEST) {
        return Text::Page(page);
    }
    let rich = mail.bytes(RICH).and_then(|it| unpacked(&it));
    let read = rich.map(|it| office::parse("body.rtf", FileKind::Document, it));
    let blocks = match read {
        Some(ParseOutcome::Parsed(document)) => document.blocks,
        _ => Vec::new(),
    };
    let texts: Vec<String> = blocks.into_iter().map(|it| it.text).collect();
    Text::Plain(short(texts.join("\r\n\r\n")))
}

/// The text alone.
fn plain(text: Text) -> String {
    let page = match text {
        Text::Plain(text) => return text.trim().to_owned(),
        Text::Page(page) => page,
    };
    match office::parse("body.html", FileKind::Html, page.into_bytes()) {
        ParseOutcome::Parsed(document) => {
            let texts: Vec<String> = document.blocks.into_iter().map(|it| it.text).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// The part of a mail that says it.
fn part(text: &Text) -> String {
    let (kind, text) = match text {
        Text::Plain(text) => ("plain", text),
        Text::Page(text) => ("html", text),
    };
    let letters = STANDARD.encode(text);
    format!(
        "Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n{letters}"
    )
}

#[cfg(test)]
mod tests;
