//! The hub as Hugging Face and its mirrors speak.

use serde::Deserialize;

use super::{Entry, Listing, parse};
use crate::{
    Error, Result, address,
    digest::{Promise, is_hex},
    net::Client,
    progress::Watch,
};

/// Pages of a listing that are read; a page has a thousand files.
const MOST_PAGES: usize = 20;

#[derive(Deserialize)]
struct Revision {
    sha: String,
    #[serde(default)]
    tags: Vec<String>,
    /// `false`, or who lets people in: `"auto"`, `"manual"`.
    #[serde(default)]
    gated: serde_json::Value,
    #[serde(default, rename = "cardData")]
    card: serde_json::Value,
}

impl Revision {
    /// What the model's card says of its license; what kind of thing it is there is nobody's promise.
    fn card(&self, key: &str) -> Option<String> {
        let text = self.card.get(key)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

impl File {
    /// Large files have the SHA-256 of their bytes, small ones their name in git.
    fn promise(&self) -> Option<Promise> {
        match &self.lfs {
            Some(lfs) => {
                let hex = lfs.oid.strip_prefix("sha256:").unwrap_or(&lfs.oid);
                is_hex(hex, 32).then(|| Promise::Sha256(hex.to_owned()))
            }
            None => is_hex(&self.oid, 20).then(|| Promise::GitBlob(self.oid.clone())),
        }
    }
}

/// What `repository` has at `revision`.
pub(super) fn listing(
    client: &Client,
    repository: &str,
    revision: &str,
    watch: &mut Watch<'_>,
) -> Result<Listing> {
    let hub = client.hub();
    let api = address::join(hub.url(), &format!("api/models/{repository}"));
    let url = format!("{api}/revision/{}", address::encode_path(revision).replace('/', "%2F"));
    let document = client.document(&url, "application/json", watch)?;
    let found: Revision = parse(&url, &document.bytes)?;
    if !is_hex(&found.sha, 20) {
        let why = "its commit is not a checksum".to_owned();
        return Err(Error::Protocol { url: address::shown(&url), why });
    }
    let files = tree(client, &format!("{api}/tree/{}?recursive=true", found.sha), watch)?;
    let base = address::join(hub.url(), &format!("{repository}/resolve/{}", found.sha));
    let entries: Vec<Entry> = files
        .into_iter()
        .filter(|it| it.kind == "file")
        .map(|it| Entry {
            promise: it.promise(),
            size: it.lfs.as_ref().map_or(it.size, |lfs| lfs.size),
            url: format!("{base}/{}", address::encode_path(&it.path)),
            path: it.path,
        })
        .collect();
    let license = found.tags.iter().find_map(|it| it.strip_prefix("license:")).map(str::to_owned);
    // Licenses without a name of their own are called by their card.
    let license = match license.as_deref() {
        Some("other") => found.card("license_name").or(license),
        _ => license,
    };
    let license_page = license_page(&found, &entries, &hub.page(repository), revision);
    let gated = !matches!(found.gated, serde_json::Value::Null | serde_json::Value::Bool(false));
    Ok(Listing { revision: found.sha, license, license_page, gated, entries })
}

/// Where the license can be read: what the card links to, or a file of that name.
fn license_page(found: &Revision, entries: &[Entry], page: &str, revision: &str) -> Option<String> {
    let is_license = |it: &&Entry| {
        let lower = it.path.to_ascii_lowercase();
        ["license", "licence"].iter().any(|word| lower.starts_with(word)) && !lower.contains('/')
    };
    let link = found.card("license_link");
    if let Some(link) = link.as_deref().filter(|it| address::origin(it).is_some()) {
        return Some(address::shown(link));
    }
    let file = entries.iter().find(|it| Some(it.path.as_str()) == link.as_deref());
    let file = file.or_else(|| entries.iter().find(is_license))?;
    let path = address::encode_path(&format!("{revision}/{}", file.path));
    Some(format!("{page}/blob/{path}"))
}

fn tree(client: &Client, url: &str, watch: &mut Watch<'_>) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut next = Some(url.to_owned());
    for _ in 0..MOST_PAGES {
        let Some(url) = next else { return Ok(files) };
        let document = client.document(&url, "application/json", watch)?;
        files.extend(parse::<Vec<File>>(&url, &document.bytes)?);
        next = document.link.as_deref().and_then(next_page).and_then(|it| {
            address::resolve(&document.url, it)
                .filter(|it| address::origin(it) == address::origin(&document.url))
        });
    }
    Err(Error::Protocol {
        url: address::shown(url),
        why: "the repository has too many files".to_owned(),
    })
}

/// Address in `<ADDRESS>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (_, rest) = link.split_once('<')?;
    let (url, rest) = rest.split_once('>')?;
    rest.contains("rel=\"next\"").then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_read_from_the_header() {
        assert_eq!(next_page("<https://h/x?cursor=1>; rel=\"next\""), Some("https://h/x?cursor=1"));
        assert_eq!(next_page("<https://h/x>; rel=\"prev\""), None);
        assert_eq!(next_page("nonsense"), None);
    }
}
