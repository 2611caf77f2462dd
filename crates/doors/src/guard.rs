//! Who may come in. A page in a browser can send requests to this machine, under a name of its own choosing (DNS
//! rebinding) and from a page of its own (its origin): both are compared with exact lists. What is neither has to know
//! the token.

use axum::http::{HeaderMap, StatusCode, header};

use crate::{
    clients::{Client, Clients},
    message::decoded,
    token::Token,
};

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The name by which this server was called is none of its own.
    Host,
    /// A page of somebody else asks.
    Origin,
    /// No token, or a wrong one.
    Token,
    /// Its name is none that was let in, or it was sent away.
    Unwelcome,
    /// Two lengths, or a length that is none: what one program takes for the end another does not.
    Framing,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Refusal::Host | Refusal::Origin | Refusal::Unwelcome => StatusCode::FORBIDDEN,
            Refusal::Token => StatusCode::UNAUTHORIZED,
            Refusal::Framing => StatusCode::BAD_REQUEST,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Refusal::Host => {
                "the Host of this request is none of this server's: ask it as 127.0.0.1 or localhost with its port, or start it with --allow-host"
            }
            Refusal::Origin => {
                "pages of this origin may not ask: start the server with --allow-origin if that is meant"
            }
            Refusal::Token => {
                "a token is needed, as `Authorization: Bearer …` or `X-API-Key: …`: `riddle serve` says in which file it is"
            }
            Refusal::Unwelcome => {
                "this program is not let in, or not any more: the person decides that in Riddle"
            }
            Refusal::Framing => "the length of this request is told twice",
        }
    }
}

/// How a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// To a port.
    Tcp,
    /// To a socket in the file system, which its owner alone can open.
    Socket,
    /// To the one in the home, where only the person's own programs are answered.
    Own,
}

/// Header in which whoever knows the home's token says as which program it comes.
pub(crate) const CLIENT: &str = "x-riddle-client";

/// The lists and the token.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Token,
    clients: Clients,
    /// As they stand in the header, small letters.
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// For a server on this port; `hosts` and `origins` are added to its own names.
    pub(crate) fn new(
        token: Token,
        clients: Clients,
        port: u16,
        hosts: &[String],
        origins: &[String],
    ) -> Guard {
        let own = ["127.0.0.1", "localhost", "[::1]"];
        let mut all: Vec<String> = own.iter().map(|it| format!("{it}:{port}")).collect();
        if port == 80 {
            all.extend(own.iter().map(|it| (*it).to_owned()));
        }
        let mut pages: Vec<String> = all.iter().map(|it| format!("http://{it}")).collect();
        all.extend(hosts.iter().map(|it| it.to_ascii_lowercase()));
        pages.extend(origins.iter().map(|it| it.trim_end_matches('/').to_ascii_lowercase()));
        Guard { token, clients, hosts: all, origins: pages }
    }

    /// Whether a request may come in, and as which program, if it has a name of its own; `open`: it needs no token,
    /// because it is told nothing.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        open: bool,
        way: Way,
    ) -> Result<Option<Client>, Refusal> {
        if headers.contains_key(header::TRANSFER_ENCODING)
            && headers.contains_key(header::CONTENT_LENGTH)
            || headers.get_all(header::CONTENT_LENGTH).iter().count() > 1
        {
            return Err(Refusal::Framing);
        }
        let host = only(headers, header::HOST).ok_or(Refusal::Host)?;
        // No page reaches a socket in the file system, and programs call it by this name.
        if !(self.hosts.contains(&host) || way != Way::Tcp && host == "localhost") {
            return Err(Refusal::Host);
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = only(headers, header::ORIGIN).ok_or(Refusal::Origin)?;
            if !self.origins.contains(&origin) {
                return Err(Refusal::Origin);
            }
        }
        // Whoever can open the socket in the home can read all that is in it.
        if open || way == Way::Own {
            return Ok(None);
        }
        self.known(headers)
    }

    /// Who knows a token. Whoever knows the home's may say as which program it comes: as a pipe does, for the assistant
    /// that has started it.
    fn known(&self, headers: &HeaderMap) -> Result<Option<Client>, Refusal> {
        let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
        let bearer = text("authorization").and_then(|it| {
            let (scheme, token) = it.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let given = [bearer, text("x-api-key")];
        if !given.into_iter().flatten().any(|it| self.token.is(it)) {
            let client = given.into_iter().flatten().find_map(|it| self.clients.of_token(it));
            let client = client.ok_or(Refusal::Token)?;
            return if client.revoked { Err(Refusal::Unwelcome) } else { Ok(Some(client)) };
        }
        let Some(name) = headers.get(CLIENT) else { return Ok(None) };
        let name = decoded(name.to_str().unwrap_or_default()).unwrap_or_default();
        let client = self.clients.named(&name).ok().flatten().filter(|it| !it.revoked);
        client.map(Some).ok_or(Refusal::Unwelcome)
    }
}

/// A header that is there once, as text in small letters.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() {
        return None;
    }
    first.to_str().ok().map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clients::May;

    fn guard() -> (tempfile::TempDir, Guard, String) {
        let home = tempfile::tempdir().expect("a folder");
        let token = Token::of(home.path()).expect("made");
        let text = token.as_str().to_owned();
        let more = ["nas.lan:7000".to_owned()];
        let clients = Clients::of(home.path());
        let origins = ["https://notes.lan".to_owned()];
        (home, Guard::new(token, clients, 7000, &more, &origins), text)
    }

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in of {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn names_and_pages_are_compared_exactly() {
        let (_home, guard, token) = guard();
        let bearer = format!("Bearer {token}");
        let check = |more: &[(&'static str, &str)]| {
            let mut all = vec![("authorization", bearer.as_str())];
            all.extend(more);
            guard.check(&headers(&all), false, Way::Tcp)
        };
        for host in ["127.0.0.1:7000", "LocalHost:7000", "[::1]:7000", "nas.lan:7000"] {
            assert_eq!(check(&[("host", host)]), Ok(None), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:7001",
            "evil.test:7000",
            "127.0.0.1.evil.test:7000",
            "localhost:7000.evil.test",
            "localhost.:7000",
            "",
        ] {
            assert_eq!(check(&[("host", host)]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(check(&[]), Err(Refusal::Host));
        let by_name = headers(&[("host", "localhost"), ("authorization", &bearer)]);
        assert_eq!(guard.check(&by_name, false, Way::Socket), Ok(None));
        let own = |of: &[(&'static str, &str)]| guard.check(&headers(of), false, Way::Own);
        assert_eq!(own(&[("host", "localhost")]), Ok(None), "whoever opens it owns it");
        assert_eq!(own(&[("host", "evil.test")]), Err(Refusal::Host));
        let page = [("host", "localhost"), ("origin", "http://evil.test")];
        assert_eq!(own(&page), Err(Refusal::Origin));
        let twice = [("host", "localhost:7000"), ("host", "localhost:7000")];
        assert_eq!(check(&twice), Err(Refusal::Host));
        let host = ("host", "localhost:7000");
        for origin in ["http://localhost:7000", "http://127.0.0.1:7000", "https://notes.lan"] {
            assert_eq!(check(&[host, ("origin", origin)]), Ok(None), "{origin}");
        }
        for origin in [
            "null",
            "",
            "https://localhost:7000",
            "http://localhost",
            "http://localhost:7000.evil.test",
            "http://evil.test",
            "https://notes.lan.evil.test",
            "file://",
        ] {
            assert_eq!(check(&[host, ("origin", origin)]), Err(Refusal::Origin), "{origin}");
        }
    }

    #[test]
    fn the_token_is_needed_in_one_of_two_places() {
        let (_home, guard, token) = guard();
        let host = ("host", "localhost:7000");
        let check = |name: &'static str, value: &str| {
            guard.check(&headers(&[host, (name, value)]), false, Way::Tcp)
        };
        assert_eq!(check("authorization", &format!("bearer  {token}")), Ok(None));
        assert_eq!(check("x-api-key", &token), Ok(None));
        for wrong in ["", "Bearer", "Bearer ", "Basic x", &token, &format!("Bearer {token}0")] {
            assert_eq!(check("authorization", wrong), Err(Refusal::Token), "{wrong}");
        }
        assert_eq!(guard.check(&headers(&[host]), true, Way::Tcp), Ok(None));
        let two = headers(&[host, ("content-length", "3"), ("transfer-encoding", "chunked")]);
        assert_eq!(guard.check(&two, true, Way::Tcp), Err(Refusal::Framing));
    }

    #[test]
    fn a_program_of_its_own_comes_in_under_its_name_until_it_is_sent_away() {
        let (home, guard, token) = guard();
        let clients = Clients::of(home.path());
        let own = clients.put("editor", May::default(), true).expect("in").expect("a token");
        let host = ("host", "localhost:7000");
        let name = |of: &[(&'static str, &str)]| {
            guard.check(&headers(of), false, Way::Tcp).map(|it| it.map(|it| it.name))
        };
        assert_eq!(name(&[host, ("x-api-key", &own)]), Ok(Some("editor".to_owned())));
        let pipe = [host, ("x-api-key", token.as_str()), (CLIENT, "editor")];
        assert_eq!(name(&pipe), Ok(Some("editor".to_owned())));
        let stranger = [host, ("x-api-key", token.as_str()), (CLIENT, "other")];
        assert_eq!(name(&stranger), Err(Refusal::Unwelcome));
        clients.revoke("editor", true).expect("sent away");
        assert_eq!(name(&[host, ("x-api-key", &own)]), Err(Refusal::Unwelcome));
        assert_eq!(name(&pipe), Err(Refusal::Unwelcome));
        clients.remove("editor").expect("forgotten");
        assert_eq!(name(&[host, ("x-api-key", &own)]), Err(Refusal::Token));
    }

    proptest! {
        #[test]
        fn nothing_but_the_token_opens(given in "[ -~]{0,80}") {
            let (_home, guard, token) = guard();
            prop_assume!(!given.contains(&token));
            let all = headers(&[("host", "localhost:7000"), ("authorization", &given), ("x-api-key", &given)]);
            prop_assert_eq!(guard.check(&all, false, Way::Tcp), Err(Refusal::Token));
        }
    }
}
