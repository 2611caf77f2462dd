//! One file over an unreliable connection: continued where it broke off, checked before it counts.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use crate::{
    Error, Result, address,
    digest::{self, Digests, Promise},
    files,
    net::{Client, Failure, Reply},
    progress::{Stage, Watch},
};

/// Bytes between two calls of the progress function.
const BLOCK: usize = 256 << 10;

/// Connections for one file, whatever progress they made: a server that hangs up after every few bytes is
/// given up some day.
const MOST_CONNECTIONS: u32 = 200;

/// A file that a source promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Path in the model's folder, written with `/`.
    pub(crate) path: String,
    pub(crate) url: String,
    pub(crate) size: u64,
    pub(crate) promise: Promise,
}

/// A file on its way: the bytes so far, and the tag of the version that they belong to.
struct Part {
    bytes: PathBuf,
    tag: PathBuf,
}

impl Part {
    fn of(target: &Path) -> Part {
        let with = |ending: &str| {
            let mut name = target.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Part { bytes: with(".part"), tag: with(".etag") }
    }

    fn have(&self) -> u64 {
        fs::metadata(&self.bytes).map_or(0, |it| it.len())
    }

    fn tag(&self) -> Option<String> {
        fs::read_to_string(&self.tag).ok().filter(|it| is_strong(it))
    }

    fn forget(&self) -> Result<()> {
        files::remove_all(&self.bytes)?;
        files::remove_all(&self.tag)
    }
}

/// Only a strong tag promises equal bytes (RFC 9110, section 8.8.1).
fn is_strong(tag: &str) -> bool {
    tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"')
}

/// Fetches a file into `dir`, or finds it there from an earlier try. On an error the bytes so far stay
/// for the next try, unless they are wrong.
pub(crate) fn file(
    client: &Client,
    wanted: &Wanted,
    dir: &Path,
    watch: &mut Watch<'_>,
) -> Result<Digests> {
    let target = dir.join(&wanted.path);
    if let Some(parent) = target.parent() {
        files::create_dir(parent)?;
    }
    watch.file(Stage::Fetching, &wanted.path)?;
    if target.is_file() {
        let digests = digest::of_file(&target).map_err(Error::io(&target))?;
        if digests.keeps(&wanted.promise) {
            watch.file_done(digests.size);
            return Ok(digests);
        }
        files::remove_all(&target)?;
    }
    let part = Part::of(&target);
    loop {
        let continued = transfer(client, wanted, &part, watch)?;
        watch.tell(Stage::Checking)?;
        let digests = digest::of_file(&part.bytes).map_err(Error::io(&part.bytes))?;
        if digests.keeps(&wanted.promise) {
            fs::rename(&part.bytes, &target).map_err(Error::io(&target))?;
            part.forget()?;
            watch.file_done(digests.size);
            return Ok(digests);
        }
        part.forget()?;
        // The beginning may have been another version's: once more, from the start.
        if !continued {
            return Err(Error::Checksum {
                file: wanted.path.clone(),
                url: address::shown(&wanted.url),
                expected: wanted.promise.as_str().to_owned(),
                found: digests.like(&wanted.promise).to_owned(),
            });
        }
        tracing::warn!(file = wanted.path, "the continued file is damaged: fetching it anew");
        watch.file(Stage::Fetching, &wanted.path)?;
    }
}

/// Connects as often as it takes until all bytes are on disk; says whether they came in several pieces.
fn transfer(client: &Client, wanted: &Wanted, part: &Part, watch: &mut Watch<'_>) -> Result<bool> {
    let mut tried = 0;
    let mut connection = 0;
    loop {
        let before = part.have();
        let failure = match connect(client, wanted, part, watch) {
            Ok(start) => return Ok(start > 0),
            Err(failure) => failure,
        };
        connection += 1;
        tried = if part.have() > before { 1 } else { tried + 1 };
        let limit = if connection < MOST_CONNECTIONS { client.tries() } else { 0 };
        client.pause_or_give_up(&wanted.url, failure, tried, limit, watch)?;
    }
}

/// One connection, which starts at the byte that is returned. The bytes that came are on disk afterwards,
/// whatever happened.
fn connect(
    client: &Client,
    wanted: &Wanted,
    part: &Part,
    watch: &mut Watch<'_>,
) -> Result<u64, Failure> {
    let mut have = part.have();
    if have > wanted.size {
        part.forget().map_err(Failure::Lasting)?;
        have = 0;
    }
    watch.at(have).map_err(Failure::Lasting)?;
    if have == wanted.size && (have > 0 || part.bytes.is_file()) {
        return Ok(have);
    }
    let range = format!("bytes={have}-");
    let tag = part.tag();
    let mut headers = Vec::new();
    if have > 0 {
        headers.push(("range", range.as_str()));
        headers.extend(tag.as_deref().map(|it| ("if-range", it)));
    }
    let mut reply = client.get(&wanted.url, &headers)?;
    let start = match start_of(&reply, have, tag.as_deref(), wanted.size) {
        Ok(start) => start,
        Err(why) => {
            part.forget().map_err(Failure::Lasting)?;
            return Err(Failure::Passing { why, pause: None });
        }
    };
    let out = open(part, &reply, start).map_err(Failure::Lasting)?;
    receive(&mut reply, out, start, wanted, part, watch)?;
    Ok(start)
}

/// At which byte the answer starts; an error when it does not fit what is on disk or was promised.
fn start_of(reply: &Reply, have: u64, tag: Option<&str>, size: u64) -> Result<u64, String> {
    let length: Option<u64> = reply.header("content-length").and_then(|it| it.parse().ok());
    let start = match reply.status {
        206 if have > 0 => {
            let range = reply.header("content-range").and_then(content_range);
            if range != Some((have, size)) {
                return Err("the server continues somewhere else".to_owned());
            }
            let new = reply.header("etag");
            if tag.is_some() && new.is_some() && tag != new {
                return Err("the file has changed on the server".to_owned());
            }
            have
        }
        416 | 206 => return Err("the server can not continue the file".to_owned()),
        _ => 0,
    };
    match length {
        Some(length) if length != size - start => {
            Err(format!("the server announces {length} bytes instead of {}", size - start))
        }
        _ => Ok(start),
    }
}

/// First byte and full size of `bytes FIRST-LAST/SIZE`.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size): (u64, u64, u64) =
        (first.parse().ok()?, last.parse().ok()?, size.parse().ok()?);
    (first <= last && last < size).then_some((first, size))
}

fn open(part: &Part, reply: &Reply, start: u64) -> Result<File> {
    if start > 0 {
        return OpenOptions::new().append(true).open(&part.bytes).map_err(Error::io(&part.bytes));
    }
    // Tag after truncation: a tag must never stand beside another version's bytes.
    let out = File::create(&part.bytes).map_err(Error::io(&part.bytes))?;
    match reply.header("etag").filter(|it| is_strong(it)) {
        Some(tag) => fs::write(&part.tag, tag).map_err(Error::io(&part.tag))?,
        None => files::remove_all(&part.tag)?,
    }
    Ok(out)
}

fn receive(
    reply: &mut Reply,
    mut out: File,
    mut at: u64,
    wanted: &Wanted,
    part: &Part,
    watch: &mut Watch<'_>,
) -> Result<(), Failure> {
    let mut block = vec![0; BLOCK];
    let mut body = reply.body.as_reader();
    loop {
        let read = match body.read(&mut block) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let why = format!("the connection broke at byte {at} of {} ({error})", wanted.size);
                return Err(Failure::Passing { why, pause: None });
            }
        };
        if read == 0 && at < wanted.size {
            let why = format!("the server stopped at byte {at} of {}", wanted.size);
            return Err(Failure::Passing { why, pause: None });
        }
        if at + read as u64 > wanted.size {
            part.forget().map_err(Failure::Lasting)?;
            let why = format!("the server sends more than {} bytes", wanted.size);
            return Err(Failure::Passing { why, pause: None });
        }
        let on_disk = |error| Failure::Lasting(Error::io(&part.bytes)(error));
        out.write_all(&block[..read]).map_err(on_disk)?;
        at += read as u64;
        if read == 0 {
            return out.sync_all().map_err(on_disk);
        }
        watch.at(at).map_err(Failure::Lasting)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 10)));
        for text in [
            "",
            "bytes */10",
            "bytes 5-/10",
            "bytes 9-5/10",
            "bytes 5-10/10",
            "5-9/10",
            "bytes 5-9/*",
            "bytes -5-9/10",
        ] {
            assert_eq!(content_range(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_weak_tag_is_no_promise() {
        assert!(is_strong("\"abc\""));
        for tag in ["", "\"\"", "W/\"abc\"", "abc"] {
            assert!(!is_strong(tag), "{tag:?}");
        }
    }
}
