//! Web addresses: relative ones resolved (RFC 3986, section 5), secrets kept out of messages.

/// Scheme, authority and the rest of an `http` or `https` address; the rest starts with `/`, `?`, `#` or
/// is empty.
fn split(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    (!authority.is_empty()).then_some((scheme, authority, rest))
}

fn without_user(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |it| it.1)
}

/// The address as it may be shown: no user name, no password, and no query, because the hub's mirrors put
/// their signatures there.
pub(crate) fn shown(url: &str) -> String {
    match split(url) {
        Some((scheme, authority, rest)) => {
            let path = rest.split(['?', '#']).next().unwrap_or_default();
            format!("{scheme}://{}{path}", without_user(authority))
        }
        None => "an address that is not http or https".to_owned(),
    }
}

/// Scheme, host and port, in lower case and with the port written out.
pub(crate) fn origin(url: &str) -> Option<String> {
    let (scheme, authority, _) = split(url)?;
    let scheme = scheme.to_ascii_lowercase();
    let host = without_user(authority).to_ascii_lowercase();
    // The colons inside [::1] are no port's.
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit()));
    let port = if scheme == "https" { "443" } else { "80" };
    Some(if has_port {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{}:{port}", host.trim_end_matches(':'))
    })
}

/// Whether a secret may be sent there: encrypted, or to this very machine.
pub(crate) fn may_carry_secrets(url: &str) -> bool {
    split(url).is_some_and(|it| it.0.eq_ignore_ascii_case("https")) || is_local(url)
}

/// Whether it carries a user name or password.
pub(crate) fn has_user(url: &str) -> bool {
    split(url).is_some_and(|it| it.1.contains('@'))
}

/// Whether it is this very machine.
pub(crate) fn is_local(url: &str) -> bool {
    let Some((_, authority, _)) = split(url) else { return false };
    let host = without_user(authority);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|it: std::net::IpAddr| it.is_loopback())
}

/// The address that `reference` means on the page `base`; fragments are dropped. `None` when it is not
/// one of a web server.
pub(crate) fn resolve(base: &str, reference: &str) -> Option<String> {
    let reference = reference.trim().split('#').next().unwrap_or_default();
    let (scheme, authority, rest) = split(base)?;
    if reference.contains("://") && !reference.starts_with(['/', '?', '.']) {
        let (scheme, authority, rest) = split(reference)?;
        return Some(format!("{}://{authority}{rest}", scheme.to_ascii_lowercase()));
    }
    if let Some(rest) = reference.strip_prefix("//") {
        let url = format!("{scheme}://{rest}");
        return split(&url).is_some().then_some(url);
    }
    let before_query = rest.split(['?', '#']).next().unwrap_or_default();
    let (path, query) = match reference.find('?') {
        Some(at) => reference.split_at(at),
        None => (reference, ""),
    };
    // A colon before the first slash makes it a scheme: `data:`, `javascript:`.
    if path.split('/').next().is_some_and(|it| it.contains(':')) {
        return None;
    }
    let path = if path.is_empty() {
        before_query.to_owned()
    } else if path.starts_with('/') {
        without_dots(path)
    } else {
        let folder = before_query.rsplit_once('/').map_or("", |it| it.0);
        without_dots(&format!("{folder}/{path}"))
    };
    Some(format!("{scheme}://{authority}{path}{query}"))
}

/// Removes `.` and `..` from an absolute path.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut all = path.split('/').skip(1).peekable();
    while let Some(part) = all.next() {
        let is_last = all.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    parts.pop();
                }
                if is_last {
                    parts.push("");
                }
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Percent-encodes a path for use in an address; `/` stays.
pub(crate) fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Base address and path joined with exactly one `/`.
pub(crate) fn join(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3986, sections 5.4.1 and 5.4.2, those that make sense for web addresses.
    #[test]
    fn relative_addresses_are_resolved_as_the_standard_says() {
        let base = "http://a/b/c/d;p?q";
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("HTTPS://x/y?z#w", "https://x/y?z"),
        ] {
            assert_eq!(resolve(base, reference).as_deref(), Some(expected), "{reference:?}");
        }
        for reference in
            ["ftp://x/y", "data:,x", "javascript:alert(1)", "file:///etc/passwd", "http://"]
        {
            assert_eq!(resolve(base, reference), None, "{reference:?}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin("HTTPS://Host.test/x"), origin("https://me:pw@host.test:443?y"));
        assert_ne!(origin("http://host.test"), origin("https://host.test"));
        assert_ne!(origin("http://127.0.0.1:1/"), origin("http://127.0.0.1:2/"));
        assert_ne!(origin("https://host.test"), origin("https://host.test.evil.test"));
        assert_ne!(origin("https://host.test"), origin("https://host.test@evil.test"));
        assert_eq!(origin("http://[::1]/").as_deref(), Some("http://[::1]:80"));
        assert_eq!(origin("ftp://x"), None);
    }

    #[test]
    fn secrets_travel_encrypted_or_not_at_all() {
        for url in
            ["https://host.test", "http://localhost:1", "http://127.0.0.1:80/x", "http://[::1]:2"]
        {
            assert!(may_carry_secrets(url), "{url}");
        }
        for url in
            ["http://host.test", "http://127.0.0.1.evil.test", "http://localhost@evil.test", "x"]
        {
            assert!(!may_carry_secrets(url), "{url}");
        }
    }

    #[test]
    fn what_is_shown_has_no_secrets() {
        assert_eq!(shown("https://me:pw@host.test/a?sig=1#x"), "https://host.test/a");
        assert!(!shown("ftp://me:pw@host").contains("pw"));
    }

    #[test]
    fn paths_are_encoded_for_addresses() {
        assert_eq!(encode_path("1_Pooling/a b#ä?.json"), "1_Pooling/a%20b%23%C3%A4%3F.json");
        assert_eq!(join("http://a/b/", "c"), "http://a/b/c");
    }
}
