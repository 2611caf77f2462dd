//! Connections to endpoints, and what their failures are called.

use std::time::Duration;

use riddle_models::web;
use ureq::Agent;

use crate::Error;

/// How long each part of an exchange may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// To find the server, and to connect to it.
    pub(crate) connect: Duration,
    /// To send.
    pub(crate) send: Duration,
    /// Before the first byte of the answer, and between those that follow.
    pub(crate) silence: Duration,
}

/// What asks an endpoint.
pub(crate) fn agent(local: bool, timeouts: Timeouts) -> Agent {
    let Timeouts { connect, send, silence } = timeouts;
    Agent::config_builder()
        .http_status_as_error(false)
        // A redirect would carry the user's passages to somewhere nobody has agreed to.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // What stays on this machine needs no proxy.
        .proxy(if local { None } else { ureq::Proxy::try_from_env() })
        .tls_config(web::tls())
        .user_agent(concat!("riddle/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        // A server may close, after it has refused, a connection that is kept for the next try: it would be lost.
        .max_idle_connections(0)
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .timeout_send_request(Some(send))
        .timeout_send_body(Some(send))
        .timeout_recv_response(Some(silence))
        .timeout_per_read(Some(silence))
        .build()
        .new_agent()
}

/// What a failed exchange is called, and whether the same question may be answered later.
pub(crate) fn failure(error: ureq::Error, url: &str, silence: Duration) -> (Error, bool) {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let (url, why) = (url.to_owned(), error.to_string());
    match error {
        ureq::Error::Timeout(ureq::Timeout::RecvResponse | ureq::Timeout::PerRead) => {
            (Error::Silent { url, seconds: silence.as_secs() }, false)
        }
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Timeout(_) => (Error::Unreachable { url, why }, false),
        ureq::Error::Io(io)
            if matches!(io.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable) =>
        {
            (Error::Unreachable { url, why }, false)
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => {
            let why = format!(
                "no trusted encryption ({why}); where a company inspects connections, set SSL_CERT_FILE to its certificates"
            );
            (Error::Connection { url, why }, false)
        }
        ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            (Error::Protocol { url, why }, false)
        }
        _ => (Error::Connection { url, why }, true),
    }
}

/// Whether reading has failed because nothing came.
pub(crate) fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<ureq::Error>());
    matches!(error.kind(), TimedOut | WouldBlock) || matches!(inner, Some(ureq::Error::Timeout(_)))
}
