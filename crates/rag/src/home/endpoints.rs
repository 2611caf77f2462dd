//! Endpoints that may be asked: which of them passages may be sent to, and their keys.

use riddle_catalog::Catalog;
use riddle_llm::{Endpoint, RemoteReranker, StageOptions};
use riddle_types::{Advice, Trouble};

use super::config::Config;
use crate::contract::{EndpointInfo, Error, KeyState, Result, StageServer};

/// Setting: origins of the endpoints that passages may be sent to, one per line.
const ALLOWED_SETTING: &str = "allowed_endpoints";

/// Setting: origins of the servers that the whole home may be sent to, to be embedded, one per line.
const ALLOWED_EMBEDDERS_SETTING: &str = "allowed_embedders";

/// The key that the system keeps for an endpoint. Where it can not be had the endpoint is asked without: it may
/// want none, and says so if it does.
pub(crate) fn kept_key(endpoint: &Endpoint) -> Option<String> {
    if !endpoint.may_have_key() {
        return None;
    }
    riddle_llm::key(endpoint).unwrap_or_else(|error| {
        tracing::warn!("the endpoint is asked without a key: {error}");
        None
    })
}

pub(crate) fn keep_key(address: &str, key: &str) -> Result<()> {
    riddle_llm::keep_key(&Endpoint::parse(address).map_err(bad)?, key).map_err(bad)
}

pub(crate) fn forget_key(address: &str) -> Result<bool> {
    riddle_llm::forget_key(&Endpoint::parse(address).map_err(bad)?).map_err(bad)
}

pub(crate) fn key_state(address: &str) -> Result<KeyState> {
    Ok(match riddle_llm::has_key(&Endpoint::parse(address).map_err(bad)?) {
        Ok(true) => KeyState::Kept,
        Ok(false) => KeyState::None,
        Err(error) => KeyState::Unknown(Trouble::of(&error)),
    })
}

/// Origins that passages may be sent to.
pub(crate) fn allowed(catalog: &Catalog) -> Result<Vec<String>> {
    listed(catalog, ALLOWED_SETTING)
}

/// The address of a server that reranks, and whether passages may be sent there.
///
/// # Errors
/// What is no address of one; one of another machine that nobody has allowed.
pub(crate) fn allowed_ranker(catalog: Option<&Catalog>, server: &StageServer) -> Result<Endpoint> {
    let endpoint = Endpoint::reranker(&server.url).map_err(bad)?;
    let all = if endpoint.is_local() { None } else { Some(catalog.map_or(Ok(vec![]), allowed)?) };
    if all.is_some_and(|it| !it.iter().any(|it| it == endpoint.origin())) {
        let what = format!(
            "{} would be sent your questions and the passages found for them",
            endpoint.origin()
        );
        return Err(Error::BadRequest(Trouble::with(what, Advice::AllowServer)));
    }
    Ok(endpoint)
}

/// The address of a server that embeds, and whether the home may be sent there.
///
/// # Errors
/// As [`allowed_ranker`]. What may be sent single passages may not be sent all of them.
pub(crate) fn allowed_embedder(catalog: &Catalog, server: &StageServer) -> Result<Endpoint> {
    let endpoint = Endpoint::embedder(&server.url).map_err(bad)?;
    if endpoint.is_local()
        || listed(catalog, ALLOWED_EMBEDDERS_SETTING)?.iter().any(|it| it == endpoint.origin())
    {
        return Ok(endpoint);
    }
    let what = format!(
        "{} would be sent every passage of your files, but those of folders that never leave this machine, and \
         everything that you search for",
        endpoint.origin()
    );
    Err(Error::BadRequest(Trouble::with(what, Advice::AllowServer)))
}

/// Lets the whole home be sent to a server that embeds, from now on; returns its origin.
pub(crate) fn allow_embedder(catalog: &Catalog, address: &str) -> Result<String> {
    let endpoint = Endpoint::embedder(address).map_err(bad)?;
    set_listed(catalog, ALLOWED_EMBEDDERS_SETTING, endpoint.origin(), true)?;
    Ok(endpoint.origin().to_owned())
}

/// What asks a server that reranks, which nobody has asked yet.
///
/// # Errors
/// As [`allowed_ranker`]; where the network is switched off.
pub(crate) fn open_ranker(
    config: &Config,
    catalog: Option<&Catalog>,
    server: &StageServer,
    offline: bool,
) -> Result<RemoteReranker> {
    let endpoint = allowed_ranker(catalog, server)?;
    let given = config.ranker_key.as_ref().map(|it| it.reveal().to_owned());
    let options = StageOptions {
        model: server.model.clone(),
        key: given.or_else(|| kept_key(&endpoint)),
        offline,
        ..StageOptions::default()
    };
    RemoteReranker::new(endpoint, options).map_err(bad)
}

/// What is known of an endpoint.
pub(crate) fn info(catalog: &Catalog, address: &str) -> Result<EndpointInfo> {
    let endpoint = Endpoint::parse(address).map_err(bad)?;
    Ok(EndpointInfo {
        origin: endpoint.origin().to_owned(),
        is_local: endpoint.is_local(),
        is_allowed: endpoint.is_local()
            || allowed(catalog)?.iter().any(|it| it == endpoint.origin()),
    })
}

/// Remembers whether passages may be sent to this endpoint; returns its origin. To one that may be sent none, the whole
/// home may not be sent either.
pub(crate) fn allow(catalog: &Catalog, address: &str, may: bool) -> Result<String> {
    let endpoint = Endpoint::parse(address).map_err(bad)?;
    set_listed(catalog, ALLOWED_SETTING, endpoint.origin(), may)?;
    if !may {
        set_listed(catalog, ALLOWED_EMBEDDERS_SETTING, endpoint.origin(), false)?;
    }
    Ok(endpoint.origin().to_owned())
}

/// The origins that a setting lists, one per line.
fn listed(catalog: &Catalog, setting: &str) -> Result<Vec<String>> {
    let listed = catalog.setting(setting)?.unwrap_or_default();
    Ok(listed.lines().map(str::to_owned).collect())
}

fn set_listed(catalog: &Catalog, setting: &str, origin: &str, may: bool) -> Result<()> {
    let mut origins = listed(catalog, setting)?;
    let before = origins.len();
    origins.retain(|it| may || it != origin);
    if may && !origins.iter().any(|it| it == origin) {
        origins.push(origin.to_owned());
    }
    if origins.len() != before {
        catalog.set_setting(setting, Some(&origins.join("\n")))?;
    }
    Ok(())
}

pub(crate) fn bad(error: riddle_llm::Error) -> Error {
    Error::bad(error)
}
