//! Where models come from: the hub that was chosen, and the token that it is asked with. The token is in the system's
//! secret store, under the hub's origin, as keys of endpoints are.

use riddle_models::{Dialect, HubAddress, Network, web};
use riddle_types::{Advice, Trouble};

use super::config::Config;
use crate::contract::{Error, KeyState, Result};

/// The hub that models come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSource {
    /// Its address, as it is chosen.
    pub address: String,
    /// Scheme, host and port: whom a token is for.
    pub origin: String,
    /// How it is asked.
    pub dialect: Dialect,
    /// Nobody has chosen another one.
    pub is_usual: bool,
    /// The environment names it, before whatever is chosen.
    pub of_environment: bool,
    /// The environment gives a token, before one that is kept.
    pub token_of_environment: bool,
}

/// How models are fetched: from the chosen hub, with the token that is kept for it. What the environment says goes
/// before both.
///
/// # Errors
/// When what was chosen can not be read.
pub fn network(config: &Config) -> Result<Network> {
    let mut network = chosen(config)?;
    network.offline = config.is_offline();
    if network.token.is_none() && !network.offline {
        network.token = kept_token(&network);
    }
    Ok(network)
}

/// Without a token that is kept: nobody is asked to unlock anything.
fn chosen(config: &Config) -> Result<Network> {
    let source = match Network::endpoint_from_env() {
        Some(_) => None,
        None => config.model_store()?.source()?,
    };
    Ok(Network::from_env_or(source.as_ref()))
}

/// Where it can not be had the hub is asked without: most models want none.
fn kept_token(network: &Network) -> Option<String> {
    let hub = network.hub();
    if !web::may_carry_secrets(hub.url()) {
        return None;
    }
    riddle_llm::key_of(&name_of(&hub)?).unwrap_or_else(|error| {
        tracing::warn!("the hub is asked without a token: {error}");
        None
    })
}

/// The name of the token in the secret store: another one than that of an endpoint at the same place.
fn name_of(hub: &HubAddress) -> Option<String> {
    web::origin(hub.url()).map(|it| format!("models from {it}"))
}

/// The hub that models come from.
///
/// # Errors
/// As [`network`].
pub fn model_source(config: &Config) -> Result<ModelSource> {
    let network = chosen(config)?;
    let hub = network.hub();
    Ok(ModelSource {
        address: hub.to_string(),
        origin: web::origin(hub.url()).unwrap_or_else(|| web::shown(hub.url())),
        dialect: hub.dialect(),
        is_usual: network.endpoint == riddle_models::HUB,
        of_environment: Network::endpoint_from_env().is_some(),
        token_of_environment: network.token.is_some(),
    })
}

/// Chooses the hub that models come from; `None`: the usual one again.
///
/// # Errors
/// What is no address of one; when it can not be written down.
pub fn choose_source(config: &Config, address: Option<&str>) -> Result<ModelSource> {
    let address = address.map(HubAddress::parse).transpose()?;
    config.model_store()?.set_source(address.as_ref())?;
    model_source(config)
}

/// Keeps the token of the hub that models come from.
///
/// # Errors
/// What is no token; a hub that it may not be sent to; where there is no secret store.
pub fn keep_token(config: &Config, token: &str) -> Result<()> {
    let hub = chosen(config)?.hub();
    let name = name_of(&hub).filter(|_| web::may_carry_secrets(hub.url()));
    let Some(name) = name else {
        let url = web::shown(hub.url());
        return Err(Error::bad(riddle_llm::Error::OpenKey { url }));
    };
    riddle_llm::keep_key_of(&name, token).map_err(of_secret_store)
}

/// Forgets it; `false`: none was kept.
///
/// # Errors
/// As [`keep_token`].
pub fn forget_token(config: &Config) -> Result<bool> {
    let Some(name) = name_of(&chosen(config)?.hub()) else { return Ok(false) };
    riddle_llm::forget_key_of(&name).map_err(of_secret_store)
}

/// What is known of the token that is kept, which itself is never told.
///
/// # Errors
/// As [`network`].
pub fn token_state(config: &Config) -> Result<KeyState> {
    let Some(name) = name_of(&chosen(config)?.hub()) else { return Ok(KeyState::None) };
    Ok(match riddle_llm::has_key_of(&name) {
        Ok(true) => KeyState::Kept,
        Ok(false) => KeyState::None,
        Err(error) => KeyState::Unknown(Trouble::with(error.to_string(), Advice::GiveHubToken)),
    })
}

fn of_secret_store(error: riddle_llm::Error) -> Error {
    Error::BadRequest(Trouble::with(error.to_string(), Advice::GiveHubToken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_hub_is_asked_until_the_usual_one_is_wanted_again() {
        if Network::endpoint_from_env().is_some() {
            eprintln!("SKIPPED: the environment names a hub, which goes before any other");
            return;
        }
        let home = tempfile::tempdir().expect("temp dir");
        let config = Config { offline: true, ..Config::new(home.path()) };
        assert!(model_source(&config).expect("reads").is_usual);
        let chosen = choose_source(&config, Some(" modelscope ")).expect("chooses");
        assert_eq!((chosen.is_usual, chosen.dialect), (false, Dialect::ModelScope));
        assert_eq!(chosen.origin, "https://www.modelscope.cn:443");
        let network = network(&config).expect("reads");
        assert_eq!((network.endpoint.as_str(), network.offline), (chosen.address.as_str(), true));
        for bad in ["http://open.test", "nonsense", "https://me:pw@host.test"] {
            choose_source(&config, Some(bad)).expect_err(bad);
            assert_eq!(model_source(&config).expect("reads"), chosen, "{bad}");
        }
        assert!(choose_source(&config, None).expect("forgets").is_usual);
    }

    #[test]
    fn a_token_has_a_name_of_its_own() {
        let name = name_of(&HubAddress::parse("https://Hub.test/models").expect("an address"));
        assert_eq!(name.as_deref(), Some("models from https://hub.test:443"));
        let named = name_of(&HubAddress::parse("modelscope+https://hub.test").expect("an address"));
        assert_eq!(named, name, "the same host, however it is asked");
    }
}
