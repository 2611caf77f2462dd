//! One HTTP client for all sources: who may see the token, how long to wait, what is worth another try.

use std::time::Duration;

use ureq::{
    Agent, Body, Proxy,
    http::{HeaderMap, Uri},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use crate::{Dialect, Error, HubAddress, Result, address, catalog::said, progress::Watch};

/// The hub, where nothing else is said.
pub const HUB: &str = "https://huggingface.co";

/// The Python package index, where nothing else is said.
pub const PACKAGE_INDEX: &str = "https://pypi.org/simple";

/// Most redirects that are followed: the hub uses two, mirrors one more.
const REDIRECTS: usize = 8;

/// Largest listing or description that is read; those of the largest repositories take some 2 MiB.
const LARGEST_DOCUMENT: u64 = 16 << 20;

/// Longest pause that a server can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Tries to ask a host that can not be connected to or says nothing. A machine behind a firewall should
/// learn within two timeouts that it must use another source.
const UNREACHABLE_TRIES: u32 = 2;

/// Which proxy to use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProxyChoice {
    /// `ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` decide.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one: `http://`, `https://`, `socks4://`, `socks5://` or `socks5h://`.
    Url(String),
}

/// How to reach the sources.
#[derive(Clone, PartialEq, Eq)]
pub struct Network {
    /// Address of the hub or a mirror of it, as [`HubAddress`] reads it.
    pub endpoint: String,
    /// Token for the hub; sent to the endpoint and to no other host.
    pub token: Option<String>,
    /// Address of a Python package index (PEP 503 or 691).
    pub index_url: String,
    /// Proxy.
    pub proxy: ProxyChoice,
    /// Longest time to find and connect to a server, encryption included.
    pub connect_timeout: Duration,
    /// Longest silence of a server.
    pub stall_timeout: Duration,
    /// Tries in a row without a byte of progress before giving up; at least 1.
    pub tries: u32,
    /// Pause before the second try; doubled for each further one.
    pub pause: Duration,
    /// Refuse any use of the network.
    pub offline: bool,
}

impl Default for Network {
    /// The public servers, no token, the environment's proxy.
    fn default() -> Self {
        Network {
            endpoint: HUB.to_owned(),
            token: None,
            index_url: PACKAGE_INDEX.to_owned(),
            proxy: ProxyChoice::default(),
            // Long enough for a satellite link, short enough to wait for it twice.
            connect_timeout: Duration::from_secs(8),
            // The hub's slowest answers take some ten seconds.
            stall_timeout: Duration::from_secs(20),
            tries: 5,
            pause: Duration::from_millis(500),
            offline: false,
        }
    }
}

impl Network {
    /// The default, with `HF_ENDPOINT`, `HF_TOKEN` and `PIP_INDEX_URL` of the environment.
    pub fn from_env() -> Network {
        Network::from_env_or(None)
    }

    /// The same where a person has chosen a hub, which the environment goes before. A token of the environment is for
    /// hubs of the dialect that it is for.
    pub fn from_env_or(chosen: Option<&HubAddress>) -> Network {
        let default = Network::default();
        let chosen = chosen.map(HubAddress::to_string);
        let mut network = Network {
            endpoint: Network::endpoint_from_env().or(chosen).unwrap_or(default.endpoint),
            index_url: variable("PIP_INDEX_URL").unwrap_or(default.index_url),
            ..Network::default()
        };
        network.token = variable(match network.hub().dialect() {
            Dialect::HuggingFace => "HF_TOKEN",
            Dialect::ModelScope => "MODELSCOPE_API_TOKEN",
        });
        network
    }

    /// The hub that the environment names.
    pub fn endpoint_from_env() -> Option<String> {
        variable("HF_ENDPOINT")
    }

    /// The hub, and how it is asked.
    pub fn hub(&self) -> HubAddress {
        HubAddress::of(&self.endpoint)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
}

impl std::fmt::Debug for Network {
    /// Without the token and the passwords in addresses: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("endpoint", &address::shown(self.hub().url()))
            .field("token", &self.token.is_some())
            .field("index_url", &address::shown(&self.index_url))
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

/// An answer whose body is still to be read.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Address after all redirects.
    pub(crate) url: String,
    pub(crate) body: Body,
    headers: HeaderMap,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A document that was read to its end.
pub(crate) struct Document {
    pub(crate) url: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) media_type: String,
    /// The `Link` header: where the next page is.
    pub(crate) link: Option<String>,
}

/// Why a request did not succeed.
pub(crate) enum Failure {
    /// The same request may succeed later.
    Passing { why: String, pause: Option<Duration> },
    /// The host can not be connected to, or says nothing.
    Unreachable { why: String },
    /// It will not.
    Lasting(Error),
}

/// Who may see the token, and how it is sent.
struct Authorization {
    origin: String,
    headers: Vec<(&'static str, String)>,
}

impl Authorization {
    /// That of a network with a token; none where the hub's address is open.
    fn of(network: &Network, hub: &HubAddress) -> Option<Authorization> {
        let token = network.token.as_ref()?;
        if !address::may_carry_secrets(hub.url()) {
            tracing::warn!("the token is not sent: the hub's address is not encrypted");
            return None;
        }
        let mut headers = vec![("authorization", format!("Bearer {token}"))];
        if hub.dialect() == Dialect::ModelScope {
            // Its older doors look for the token here.
            headers.push(("cookie", format!("m_session_id={token}")));
        }
        Some(Authorization { origin: address::origin(hub.url())?, headers })
    }
}

pub(crate) struct Client {
    agent: Agent,
    hub: HubAddress,
    authorization: Option<Authorization>,
    tries: u32,
    pause: Duration,
}

impl Client {
    pub(crate) fn new(network: &Network) -> Result<Client> {
        let proxy = match &network.proxy {
            ProxyChoice::Environment => Proxy::try_from_env(),
            ProxyChoice::Direct => None,
            ProxyChoice::Url(url) => Some(Proxy::new(url).map_err(|error| Error::Network {
                url: address::shown(url),
                why: format!("the proxy can not be used ({error})"),
            })?),
        };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are followed here, where it is known who may see the token.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .tls_config(tls())
            .user_agent(concat!("riddle/", env!("CARGO_PKG_VERSION")))
            // Lengths and checksums are those of the plain bytes.
            .accept_encoding("identity")
            .timeout_resolve(Some(network.connect_timeout))
            .timeout_connect(Some(network.connect_timeout))
            .timeout_send_request(Some(network.stall_timeout))
            .timeout_recv_response(Some(network.stall_timeout))
            .timeout_per_read(Some(network.stall_timeout))
            .build()
            .new_agent();
        let hub = network.hub();
        let authorization = Authorization::of(network, &hub);
        let tries = network.tries.max(1);
        Ok(Client { agent, hub, authorization, tries, pause: network.pause })
    }

    /// The hub that is asked.
    pub(crate) fn hub(&self) -> &HubAddress {
        &self.hub
    }

    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// One request, with redirects followed. 2xx and 416 are answers, everything else is a failure.
    pub(crate) fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Reply, Failure> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS {
            let response = self.request(&url, headers)?;
            let status = response.status().as_u16();
            let (parts, body) = response.into_parts();
            let reply = Reply { status, url, body, headers: parts.headers };
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return check_status(reply, self.authorization.is_some());
            }
            url = redirect_target(&reply)?;
        }
        Err(Failure::Lasting(Error::Protocol {
            url: address::shown(&url),
            why: format!("it redirects more than {REDIRECTS} times"),
        }))
    }

    fn request(
        &self,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<ureq::http::Response<Body>, Failure> {
        let uri: Uri = url.parse().map_err(|error| {
            let why = format!("it is not an address ({error})");
            Failure::Lasting(Error::Protocol { url: address::shown(url), why })
        })?;
        let mut request = self.agent.get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(own) = &self.authorization
            && address::origin(url).as_ref() == Some(&own.origin)
        {
            for (name, value) in &own.headers {
                request = request.header(*name, value);
            }
        }
        tracing::debug!(url = address::shown(url), "request");
        request.call().map_err(|error| failure(url, error))
    }

    /// A whole small document, with retries.
    pub(crate) fn document(
        &self,
        url: &str,
        accept: &str,
        watch: &mut Watch<'_>,
    ) -> Result<Document> {
        let mut tried = 0;
        loop {
            let failure = match self.document_once(url, accept) {
                Ok(document) => return Ok(document),
                Err(failure) => failure,
            };
            tried += 1;
            let limit = match failure {
                Failure::Unreachable { .. } => self.tries.min(UNREACHABLE_TRIES),
                _ => self.tries,
            };
            self.pause_or_give_up(url, failure, tried, limit, watch)?;
        }
    }

    fn document_once(&self, url: &str, accept: &str) -> Result<Document, Failure> {
        let mut reply = self.get(url, &[("accept", accept)])?;
        let media_type = reply.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let link = reply.header("link").map(str::to_owned);
        let bytes =
            reply.body.with_config().limit(LARGEST_DOCUMENT).read_to_vec().map_err(|error| {
                match error {
                    ureq::Error::BodyExceedsLimit(limit) => Failure::Lasting(Error::TooLarge {
                        what: address::shown(url),
                        size: limit,
                        limit: LARGEST_DOCUMENT,
                    }),
                    error => failure(url, error),
                }
            })?;
        Ok(Document { url: reply.url, bytes, media_type, link })
    }

    /// Waits before the next try, or turns the failure into the final error.
    pub(crate) fn pause_or_give_up(
        &self,
        url: &str,
        failure: Failure,
        tried: u32,
        limit: u32,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let (why, asked) = match failure {
            Failure::Lasting(error) => return Err(error),
            Failure::Passing { why, pause } => (why, pause),
            Failure::Unreachable { why } => (why, None),
        };
        tracing::warn!(url = address::shown(url), why, tried, "request failed");
        if tried >= limit {
            return Err(Error::Network { url: address::shown(url), why });
        }
        // The sixth doubling is past the longest pause for any sensible start.
        let own = self.pause.saturating_mul(1 << (tried - 1).min(6));
        watch.wait(asked.unwrap_or(own).min(LONGEST_PAUSE))
    }
}

/// Where a redirect leads: never from an encrypted address to an open one.
fn redirect_target(reply: &Reply) -> Result<String, Failure> {
    let target = reply.header("location").and_then(|it| address::resolve(&reply.url, it));
    match target {
        Some(target) if !(reply.url.starts_with("https:") && target.starts_with("http:")) => {
            Ok(target)
        }
        _ => Err(Failure::Lasting(Error::Protocol {
            url: address::shown(&reply.url),
            why: "it redirects to nowhere, or to an address without encryption".to_owned(),
        })),
    }
}

/// What an answer means by its status; `with_token`: a token was there to be sent.
fn check_status(reply: Reply, with_token: bool) -> Result<Reply, Failure> {
    // The hub says no as 401 to everything, and in a header why.
    let code = reply.header("x-error-code").unwrap_or_default();
    let hint = match reply.status {
        200..=299 | 416 => return Ok(reply),
        408 | 425 | 429 | 500 | 502..=504 => {
            let pause = reply.header("retry-after").and_then(|it| it.trim().parse().ok());
            return Err(Failure::Passing {
                why: format!("the server answered {}", reply.status),
                pause: pause.map(Duration::from_secs),
            });
        }
        401 | 403 if code.eq_ignore_ascii_case("GatedRepo") => {
            let page = address::shown(&reply.url);
            let error =
                if with_token { Error::NotAccepted { page } } else { Error::Gated { page } };
            return Err(Failure::Lasting(error));
        }
        401 if code.eq_ignore_ascii_case("RepoNotFound") => {
            said("there is no such model, or it is private: check the name")
        }
        401 if with_token => said("the token is not accepted, or there is no such model"),
        401 => said("there is no such model, or it wants a token"),
        403 | 451 => said(
            "access is refused: accept the model's terms on its page and give a token, or ask who runs the firewall",
        ),
        404 | 410 => said("there is no such model or file there: check the name"),
        407 => said("the proxy wants a user name and a password"),
        _ => said("this was not expected"),
    };
    Err(Failure::Lasting(Error::Status {
        url: address::shown(&reply.url),
        status: reply.status,
        hint,
    }))
}

fn failure(url: &str, error: ureq::Error) -> Failure {
    use std::io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, InvalidData, NetworkUnreachable,
        PermissionDenied,
    };
    let why = error.to_string();
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        // Some firewalls let the connection stand and swallow what is said.
        | ureq::Error::Timeout(_) => Failure::Unreachable { why },
        ureq::Error::Io(io)
            if matches!(
                io.kind(),
                ConnectionRefused
                    | HostUnreachable
                    | NetworkUnreachable
                    | AddrNotAvailable
                    | PermissionDenied
            ) =>
        {
            Failure::Unreachable { why }
        }
        // rustls reports what it does not trust as invalid data.
        ureq::Error::Io(io) if io.kind() == InvalidData => no_trust(url, &why),
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => no_trust(url, &why),
        // Its text is the whole address, with what is secret in it.
        ureq::Error::BadUri(_) => Failure::Lasting(Error::Protocol {
            url: address::shown(url),
            why: "the address is not complete".to_owned(),
        }),
        ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            Failure::Lasting(Error::Protocol { url: address::shown(url), why })
        }
        _ => Failure::Passing { why, pause: None },
    }
}

fn no_trust(url: &str, why: &str) -> Failure {
    Failure::Lasting(Error::Network {
        url: address::shown(url),
        why: format!(
            "no trusted encryption ({why}); where a company inspects connections, set SSL_CERT_FILE to its certificates"
        ),
    })
}

/// Who is trusted.
pub(crate) fn tls() -> TlsConfig {
    TlsConfig::builder().root_certs(roots()).build()
}

/// Whom to trust: the certificates in `SSL_CERT_FILE`, else the system's (which hold a company's own), else,
/// on a system without any, Mozilla's list.
fn roots() -> RootCerts {
    if let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|it| !it.is_empty()) {
        let certificates: Vec<Certificate<'static>> = std::fs::read(&path)
            .map(|pem| {
                parse_pem(&pem)
                    .filter_map(|it| match it {
                        Ok(PemItem::Certificate(certificate)) => Some(certificate),
                        _ => None,
                    })
                    .collect()
            })
            .unwrap_or_default();
        if !certificates.is_empty() {
            return RootCerts::new_with_certs(&certificates);
        }
        tracing::warn!("SSL_CERT_FILE holds no certificate and is ignored");
    }
    // Where Linux distributions and BSDs keep the system's certificates.
    let bundles = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    ];
    let has_own_store = cfg!(any(windows, target_os = "macos"));
    if has_own_store
        || std::env::var_os("SSL_CERT_DIR").is_some()
        || bundles.iter().any(|it| std::path::Path::new(it).is_file())
    {
        return RootCerts::PlatformVerifier;
    }
    RootCerts::WebPki
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_shown() {
        let network = Network {
            token: Some("secret".to_owned()),
            index_url: "https://me:secret@index.test/simple".to_owned(),
            ..Network::default()
        };
        assert!(!format!("{network:?}").contains("secret"));
    }

    #[test]
    fn an_unusable_proxy_is_an_error() {
        let network =
            Network { proxy: ProxyChoice::Url("ftp://host".to_owned()), ..Network::default() };
        assert!(Client::new(&network).is_err());
    }
}
