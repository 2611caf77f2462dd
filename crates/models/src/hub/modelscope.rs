//! The hub as ModelScope speaks: facts and listing below `api/v1`, each answer in an envelope with a code of its own,
//! SHA-256 for every file, and a revision that is the name of a branch or tag.

use serde::Deserialize;

use super::{Entry, Listing, parse};
use crate::{
    Error, Result, address,
    digest::{Promise, is_hex},
    net::Client,
    progress::Watch,
};

/// The usual branch there; [`PullOptions`](crate::PullOptions) calls it as the other hub does.
const USUAL_BRANCH: &str = "master";

/// What an answer comes in.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Envelope<T> {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    success: bool,
    data: Option<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Model {
    #[serde(default)]
    license: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Files {
    /// `null` for a revision that there is not.
    files: Option<Vec<File>>,
    latest_committer: Option<Commit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Commit {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    short_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    path: String,
    #[serde(rename = "Type")]
    kind: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    revision: Option<String>,
}

/// What `repository` has at `revision`.
pub(super) fn listing(
    client: &Client,
    repository: &str,
    revision: &str,
    watch: &mut Watch<'_>,
) -> Result<Listing> {
    let api = address::join(client.hub().url(), &format!("api/v1/models/{repository}"));
    let branch = if revision == "main" { USUAL_BRANCH } else { revision };
    let query = format!("Revision={}", encode_value(branch));
    let model: Model = ask(client, &format!("{api}?{query}"), watch)?;
    let url = format!("{api}/repo/files?{query}&Recursive=true");
    let found: Files = ask(client, &url, watch)?;
    let Some(files) = found.files else {
        let why = format!("it has no revision {branch}");
        return Err(Error::NotAModel { name: repository.to_owned(), why });
    };
    let commit = commit(found.latest_committer.as_ref(), &files);
    let entries = files
        .into_iter()
        .filter(|it| it.kind == "blob")
        .map(|it| Entry {
            promise: it
                .sha256
                .map(|hex| hex.to_ascii_lowercase())
                .filter(|hex| is_hex(hex, 32))
                .map(Promise::Sha256),
            size: it.size,
            url: format!("{api}/repo?{query}&FilePath={}", encode_value(&it.path)),
            path: it.path,
        })
        .collect();
    Ok(Listing {
        revision: commit.unwrap_or_else(|| branch.to_owned()),
        license: model.license.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()),
        license_page: None,
        gated: false,
        entries,
    })
}

/// The newest commit, for the record; the hub often says its first digits alone, and all of them with some file.
fn commit(latest: Option<&Commit>, files: &[File]) -> Option<String> {
    let latest = latest?;
    if let Some(id) = latest.id.as_deref().filter(|it| is_hex(it, 20)) {
        return Some(id.to_owned());
    }
    let short = latest.short_id.as_deref().filter(|it| it.len() >= 7)?;
    let all = files.iter().filter_map(|it| it.revision.as_deref());
    all.filter(|it| is_hex(it, 20)).find(|it| it.starts_with(short)).map(str::to_owned)
}

fn ask<T: serde::de::DeserializeOwned>(
    client: &Client,
    url: &str,
    watch: &mut Watch<'_>,
) -> Result<T> {
    let document = client.document(url, "application/json", watch)?;
    let envelope: Envelope<T> = parse(url, &document.bytes)?;
    match envelope.data {
        Some(data) if envelope.success && envelope.code == 200 => Ok(data),
        _ => Err(Error::Protocol {
            url: address::shown(url),
            why: format!("it says no with the code {}", envelope.code),
        }),
    }
}

/// Percent-encodes a value of a query.
fn encode_value(value: &str) -> String {
    address::encode_path(value).replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(revision: &str) -> File {
        File {
            path: "a".to_owned(),
            kind: "blob".to_owned(),
            size: 1,
            sha256: None,
            revision: Some(revision.to_owned()),
        }
    }

    #[test]
    fn the_commit_is_the_newest_whatever_part_of_it_is_said() {
        let (new, old) = ("ab".repeat(20), "cd".repeat(20));
        let commit_of = |id: &str, short: &str| {
            let latest = Commit { id: Some(id.to_owned()), short_id: Some(short.to_owned()) };
            commit(Some(&latest), &[file(&old), file(&new)])
        };
        assert_eq!(commit_of(&new, "").as_deref(), Some(new.as_str()));
        assert_eq!(commit_of("", "abababab").as_deref(), Some(new.as_str()));
        assert_eq!(commit_of("", "12345678"), None);
        assert_eq!(commit_of("../..", "a"), None);
        assert_eq!(commit(None, &[file(&new)]), None);
    }
}
