//! What every client of this program does alike: whom it trusts, and what of an address may be shown.

use ureq::tls::TlsConfig;

use crate::{address, net};

/// Whom to trust: the certificates in `SSL_CERT_FILE`, else the system's, else Mozilla's list.
pub fn tls() -> TlsConfig {
    net::tls()
}

/// The address without user name, password and query.
pub fn shown(url: &str) -> String {
    address::shown(url)
}

/// Scheme, host and port, in lower case and with the port written out; `None` for what is not http or https.
pub fn origin(url: &str) -> Option<String> {
    address::origin(url)
}

/// Whether a secret may be sent there: encrypted, or to this very machine.
pub fn may_carry_secrets(url: &str) -> bool {
    address::may_carry_secrets(url)
}

/// Whether it is this very machine.
pub fn is_local(url: &str) -> bool {
    address::is_local(url)
}

/// Whether it carries a user name or password.
pub fn has_user(url: &str) -> bool {
    address::has_user(url)
}
