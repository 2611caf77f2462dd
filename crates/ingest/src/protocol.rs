//! What parent and child say to each other over the child's standard streams.
//!
//! A request is a JSON header and the file's bytes, a reply is JSON; each part has its length before it.
//! Lengths are checked before anything is allocated: the other side may lie.

use std::io::{Error, ErrorKind, Read, Result, Write};

use riddle_types::FileKind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    outcome::{ParseOutcome, SeenLine},
    tools::Tools,
};

/// Raised with every change of the format: both sides are the same program, but maybe not the same version.
pub(crate) const VERSION: u32 = 3;

/// A header holds a name and a few numbers.
const MAX_HEADER: u64 = 64 << 10;

/// What is to be parsed; the bytes follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) version: u32,
    /// File name, for its extension.
    pub(crate) name: String,
    pub(crate) kind: FileKind,
    pub(crate) bytes: u64,
    /// Use the simpler second parser.
    pub(crate) second: bool,
    pub(crate) seconds: u64,
    pub(crate) tools: Tools,
    /// Read the picture with this number; of a PDF it is a page, from 1.
    pub(crate) look: Option<u32>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) version: u32,
    pub(crate) outcome: ParseOutcome,
    /// Numbers of what can be read as a picture; of a PDF they are pages, from 1.
    pub(crate) pictures: Vec<u32>,
    /// Of a page that was read as a picture how sure that is.
    pub(crate) sure: f32,
    /// Its lines, with their places.
    pub(crate) lines: Vec<SeenLine>,
    pub(crate) peak_rss_bytes: u64,
}

impl Reply {
    /// What became of a file, and nothing else.
    pub(crate) fn of(outcome: ParseOutcome) -> Reply {
        let (pictures, lines) = (Vec::new(), Vec::new());
        Reply { version: VERSION, outcome, pictures, sure: 1.0, lines, peak_rss_bytes: 0 }
    }
}

pub(crate) fn write_part(to: &mut impl Write, bytes: &[u8]) -> Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

/// Reads one part; `None` when the stream ends before it begins.
pub(crate) fn read_part(from: &mut impl Read, most: u64) -> Result<Option<Vec<u8>>> {
    let mut length = [0u8; 8];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u64::from_le_bytes(length);
    if length > most {
        return Err(Error::new(
            ErrorKind::InvalidData,
            format!("a part of {length} bytes, {most} are allowed"),
        ));
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes))
}

pub(crate) fn write_json(to: &mut impl Write, value: &impl Serialize) -> Result<()> {
    write_part(to, &serde_json::to_vec(value)?)
}

pub(crate) fn read_json<T: DeserializeOwned>(from: &mut impl Read, most: u64) -> Result<Option<T>> {
    match read_part(from, most)? {
        Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        None => Ok(None),
    }
}

pub(crate) fn read_request(
    from: &mut impl Read,
    most_bytes: u64,
) -> Result<Option<(Request, Vec<u8>)>> {
    let Some(request) = read_json::<Request>(from, MAX_HEADER)? else { return Ok(None) };
    if request.version != VERSION {
        return Err(Error::new(ErrorKind::InvalidData, "the parent speaks another version"));
    }
    let bytes = read_part(from, most_bytes)?.ok_or(ErrorKind::UnexpectedEof)?;
    Ok(Some((request, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip_and_lies_are_refused() {
        let mut stream = Vec::new();
        write_part(&mut stream, b"abc").expect("vec");
        assert_eq!(read_part(&mut stream.as_slice(), 3).expect("fits"), Some(b"abc".to_vec()));
        assert!(read_part(&mut stream.as_slice(), 2).is_err(), "too long");
        assert!(read_part(&mut &stream[..9], 3).is_err(), "cut short");
        assert_eq!(read_part(&mut [].as_slice(), 3).expect("ended"), None);
        let huge = u64::MAX.to_le_bytes();
        assert!(read_part(&mut huge.as_slice(), 1 << 20).is_err());
    }
}
