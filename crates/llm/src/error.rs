//! What can go wrong with a language model, in words that say what to do.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a language model. Addresses are shown without what is secret in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one of an endpoint.
    #[error("{address:?} is not the address of an endpoint: {why}")]
    Address {
        /// As given, without secrets.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The key would travel where anybody can read it.
    #[error(
        "the key is not sent to {url}, which is not encrypted: use https, or leave the key away"
    )]
    OpenKey {
        /// The endpoint.
        url: String,
    },
    /// Network access was switched off.
    #[error("{url} is not asked: the network is switched off")]
    Offline {
        /// The endpoint.
        url: String,
    },
    /// Nobody is there.
    #[error("{url} can not be reached ({why}): is the server running, and is the address right?")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// What the system says.
        why: String,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("the connection to {url} failed: {why}")]
    Connection {
        /// The endpoint.
        url: String,
        /// What the system says.
        why: String,
    },
    /// It says nothing.
    #[error(
        "{url} has said nothing for {seconds} s: it may be loading a model or be overloaded, ask again later"
    )]
    Silent {
        /// The endpoint.
        url: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It refuses.
    #[error("{url} answered {status}{}: {hint}", said(message))]
    Status {
        /// The endpoint.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the server says about it.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// It does not speak the protocol.
    #[error("{url} does not answer as OpenAI-compatible servers do: {why}")]
    Protocol {
        /// The endpoint.
        url: String,
        /// What came instead.
        why: String,
    },
    /// The system gives no thread.
    #[error("no thread can be started: {0}")]
    Thread(#[source] std::io::Error),
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(" ({message})") }
}
