//! A hub: which files a repository has, under which license, and which of them make the model. Two dialects are
//! spoken ([`Dialect`]); what is chosen is the same rule for both.

mod choose;
mod hugging_face;
mod modelscope;
mod quantization;

use crate::{
    Error, Format, Result, address,
    digest::Promise,
    endpoint::{Dialect, HubAddress},
    fetch::Wanted,
    net::Client,
    progress::Watch,
};

pub use choose::WeightFile;
pub(crate) use choose::{beside, choose, offered};

/// What to take from a repository.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choice<'a> {
    /// Files of a known model; empty: by the rules.
    pub(crate) files: &'a [&'a str],
    /// The weight file, or the name of its quantization.
    pub(crate) file: Option<&'a str>,
    /// The format of the weights.
    pub(crate) format: Option<Format>,
}

/// A file of a repository.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Its checksum, where the hub states one.
    pub(crate) promise: Option<Promise>,
    pub(crate) url: String,
}

/// A repository at one commit.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Commit, or where the hub names none the branch.
    pub(crate) revision: String,
    pub(crate) license: Option<String>,
    /// Where its words are, if that is said.
    pub(crate) license_page: Option<String>,
    /// Its files are only for who has accepted the license.
    pub(crate) gated: bool,
    pub(crate) entries: Vec<Entry>,
}

/// Asks the hub what `repository` has at `revision`.
pub(crate) fn listing(
    client: &Client,
    repository: &str,
    revision: &str,
    watch: &mut Watch<'_>,
) -> Result<Listing> {
    let listing = match client.hub().dialect() {
        Dialect::HuggingFace => hugging_face::listing(client, repository, revision, watch),
        Dialect::ModelScope => modelscope::listing(client, repository, revision, watch),
    };
    listing.map_err(|it| on_page(it, client.hub(), repository))
}

/// A refusal names the page where the license is accepted, and not the address that was asked.
pub(crate) fn on_page(error: Error, hub: &HubAddress, repository: &str) -> Error {
    let page = hub.page(repository);
    match error {
        Error::Gated { .. } => Error::Gated { page },
        Error::NotAccepted { .. } => Error::NotAccepted { page },
        other => other,
    }
}

/// The chosen files, as they are fetched; each has a checksum.
pub(crate) fn wanted(entries: &[&Entry]) -> Result<Vec<Wanted>> {
    let one = |entry: &&Entry| {
        let promise = entry.promise.clone().ok_or_else(|| Error::Protocol {
            url: address::shown(&entry.url),
            why: format!("it states no checksum for {}", entry.path),
        })?;
        Ok(Wanted { path: entry.path.clone(), url: entry.url.clone(), size: entry.size, promise })
    };
    entries.iter().map(one).collect()
}

fn parse<T: serde::de::DeserializeOwned>(url: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Protocol {
        url: address::shown(url),
        why: format!("the answer is not the hub's ({error})"),
    })
}
