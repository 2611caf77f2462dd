//! Libraries that live elsewhere: which are known here, how they are reached, and their keys.

use riddle_catalog::Catalog;
use riddle_milvus::{Address, Options, Secret, Store};
use riddle_types::Trouble;
use serde::{Deserialize, Serialize};

use super::config::Config;
use crate::contract::{Error, LibraryStatus, MappedFolder, Result};

/// Setting: the libraries, as JSON.
const LIBRARIES_SETTING: &str = "libraries";

/// One as the setting keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pushed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) folders: Vec<MappedFolder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) originals: Option<String>,
}

/// Those that are known, as they are kept.
pub(crate) fn kept(catalog: &Catalog) -> Result<Vec<Kept>> {
    let text = catalog.setting(LIBRARIES_SETTING)?.unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&text).map_err(|it| {
        Error::BadRequest(format!("the list of libraries can not be read: {it}").into())
    })
}

/// Keeps these in the place of those that were.
pub(crate) fn keep(catalog: &Catalog, libraries: &[Kept]) -> Result<()> {
    let text =
        serde_json::to_string(libraries).map_err(|it| Error::BadRequest(it.to_string().into()))?;
    Ok(catalog.set_setting(LIBRARIES_SETTING, Some(&text))?)
}

/// Those that are known, by name.
pub(crate) fn known(catalog: &Catalog) -> Result<Vec<LibraryStatus>> {
    let mut all: Vec<LibraryStatus> = kept(catalog)?
        .into_iter()
        .map(|it| LibraryStatus {
            name: it.name,
            address: it.address,
            pushed_at: it.pushed_at,
            folders: it.folders,
            originals: it.originals,
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The one of that name.
pub(crate) fn named(catalog: &Catalog, name: &str) -> Result<LibraryStatus> {
    let found = known(catalog)?.into_iter().find(|it| it.name == name);
    found.ok_or_else(|| Error::NoLibrary { name: name.to_owned() })
}

/// Notes that this home has written all of it.
pub(crate) fn note_push(catalog: &Catalog, name: &str, at: i64) -> Result<()> {
    let mut all = kept(catalog)?;
    for library in all.iter_mut().filter(|it| it.name == name) {
        library.pushed_at = Some(at);
    }
    keep(catalog, &all)
}

/// Connects to the server of one.
pub(crate) fn connect(config: &Config, library: &LibraryStatus) -> Result<Store> {
    let address = Address::parse(&library.address)?;
    if config.is_offline() && !address.is_local() {
        let what = format!("{} is not asked: the network is switched off", address.origin());
        return Err(Error::BadRequest(Trouble { what, advice: None }));
    }
    let secret = config.library_key.clone().or_else(|| kept_secret(&address));
    Ok(Store::connect(&address, secret.as_ref(), Options::default())?)
}

/// The key that the system keeps for a server. Where it can not be had the server is asked without: it may want none,
/// and says so if it does.
fn kept_secret(address: &Address) -> Option<Secret> {
    if !address.may_carry_secrets() {
        return None;
    }
    let key = riddle_llm::key_of(&address.origin()).unwrap_or_else(|error| {
        tracing::debug!("the server is asked without a key: {error}");
        None
    });
    key.map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_network_nobody_elsewhere_is_asked() {
        let library = |address: &str| LibraryStatus {
            address: address.to_owned(),
            ..LibraryStatus::default()
        };
        let config = Config { offline: true, ..Config::new("/nowhere") };
        let error = connect(&config, &library("milvuss://far.test/x")).expect_err("offline");
        assert!(error.to_string().contains("switched off"), "{error}");
        // So it is when the network is switched off while the program runs.
        let config = Config::new("/nowhere");
        config.switched_off.store(true, std::sync::atomic::Ordering::Release);
        let error = connect(&config, &library("milvuss://far.test/x")).expect_err("offline");
        assert!(error.to_string().contains("switched off"), "{error}");
        // This machine is asked; nobody is there.
        let error = connect(&config, &library("milvus://127.0.0.1:1/x")).expect_err("nobody");
        assert!(matches!(error, Error::Shared(_)), "{error}");
    }
}
