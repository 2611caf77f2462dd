//! Calls: one connection, limits of time and size, and a second try where that is safe.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::{
    Code,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    Address, Error, Result, Secret,
    codec::Messages,
    proto::{Answer, GetVersionRequest, GetVersionResponse, Status},
};

/// Largest answer that is read: Milvus' own limit for what a client gets.
const LARGEST_ANSWER: usize = 64 << 20;

/// Longest reason of a server that is passed on, in characters.
const LONGEST_REASON: usize = 300;

/// Milvus' status for too many requests: the one of today, and the one of old.
const RATE_LIMIT: (i32, i32) = (8, 49);

/// Passages of a batch.
const ROWS: usize = 500;

/// How patient a client is, and how much it sends at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Longest time to connect.
    pub connect: Duration,
    /// Longest time for a search, or for reading by identity.
    pub read: Duration,
    /// Longest time for a batch that is written, or for a collection that is made or loaded.
    pub write: Duration,
    /// Tries of a call that failed on the way, or because the server was busy; at least 1. All calls can be repeated.
    pub tries: u32,
    /// Pause before the second try, doubled for each further one.
    pub pause: Duration,
    /// Passages of a batch that is written; at least 1.
    pub rows: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect: Duration::from_secs(5),
            read: Duration::from_secs(10),
            write: Duration::from_secs(60),
            tries: 4,
            pause: Duration::from_millis(200),
            rows: ROWS,
        }
    }
}

/// A connection to a server.
pub(crate) struct Rpc {
    runtime: Runtime,
    channel: Channel,
    secret: Option<MetadataValue<Ascii>>,
    server: String,
    pub(crate) options: Options,
}

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rpc").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A call: its name on the wire, what it is for people, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) path: &'static str,
    pub(crate) what: &'static str,
    pub(crate) writes: bool,
}

macro_rules! calls {
    ($($name:ident: $rpc:literal, $what:literal, $writes:literal;)+) => {
        $(pub(crate) const $name: Call = Call {
            path: concat!("/milvus.proto.milvus.MilvusService/", $rpc),
            what: $what,
            writes: $writes,
        };)+
    };
}

calls! {
    GET_VERSION: "GetVersion", "say its version", false;
    HAS_COLLECTION: "HasCollection", "look for a collection", false;
    CREATE_COLLECTION: "CreateCollection", "make a collection", true;
    DROP_COLLECTION: "DropCollection", "remove a collection", true;
    CREATE_INDEX: "CreateIndex", "make an index", true;
    LOAD_COLLECTION: "LoadCollection", "load a collection", true;
    GET_LOAD_STATE: "GetLoadState", "say whether a collection is loaded", false;
    UPSERT: "Upsert", "write", true;
    DELETE: "Delete", "delete", true;
    SEARCH: "Search", "search", false;
    QUERY: "Query", "read", false;
}

/// Why a call failed, and whether it may succeed in another moment.
struct Failed {
    error: Error,
    again: bool,
}

impl Rpc {
    /// Connects, and makes sure that Milvus answers.
    pub(crate) fn connect(
        address: &Address,
        secret: Option<&Secret>,
        options: Options,
    ) -> Result<Rpc> {
        let server = address.origin();
        if secret.is_some() && !address.may_carry_secrets() {
            return Err(Error::OpenSecret { server });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let channel = runtime.block_on(connect(address, &options))?;
        let secret = secret.map(|it| header(it, &server)).transpose()?;
        let rpc = Rpc { runtime, channel, secret, server, options };
        let asked = GetVersionRequest {};
        match rpc.once::<_, GetVersionResponse>(GET_VERSION, &asked) {
            Ok(answer) => {
                tracing::debug!(server = rpc.server, version = answer.version, "connected");
                Ok(rpc)
            }
            Err(Failed { error, .. }) => Err(match error {
                error @ (Error::Refused { .. } | Error::Slow { .. }) => error,
                Error::Server { why, .. }
                | Error::Answer { why, .. }
                | Error::Unreachable { why, .. } => {
                    Error::NotMilvus { server: rpc.server.clone(), why }
                }
                other => other,
            }),
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// A call, tried again as the options say.
    pub(crate) fn call<T, U>(&self, call: Call, request: &T) -> Result<U>
    where
        T: Message + Clone + 'static,
        U: Message + Answer + Default + 'static,
    {
        let mut pause = self.options.pause;
        let mut tries = 1;
        loop {
            match self.once(call, request) {
                Ok(answer) => return Ok(answer),
                Err(failed) if failed.again && tries < self.options.tries => {
                    tracing::debug!(error = %failed.error, tries, "{} once more", call.path);
                    std::thread::sleep(pause);
                    pause *= 2;
                    tries += 1;
                }
                Err(failed) => return Err(failed.error),
            }
        }
    }

    fn once<T, U>(&self, call: Call, request: &T) -> Result<U, Failed>
    where
        T: Message + Clone + 'static,
        U: Message + Answer + Default + 'static,
    {
        let limit = if call.writes { self.options.write } else { self.options.read };
        let slow = || Error::Slow { server: self.server.clone(), seconds: limit.as_secs() };
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(limit, self.unary::<T, U>(call, request)).await
        });
        let answer = match answer {
            Err(_) => return Err(Failed { error: slow(), again: false }),
            Ok(Err(status)) => {
                // A busy server, or a connection that broke while nobody used it.
                let again = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
                let error = match status.code() {
                    Code::DeadlineExceeded => slow(),
                    _ => self.failure(call, &status),
                };
                return Err(Failed { error, again });
            }
            Ok(Ok(answer)) => answer,
        };
        match answer.status().filter(|it| it.code != 0 || it.error_code != 0) {
            None => Ok(answer),
            Some(status) => Err(Failed {
                error: self.told(call, status),
                again: status.retriable || is(status, RATE_LIMIT),
            }),
        }
    }

    async fn unary<T, U>(&self, call: Call, request: &T) -> Result<U, tonic::Status>
    where
        T: Message + Clone + 'static,
        U: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        grpc.ready().await.map_err(|it| tonic::Status::unavailable(chain(&it)))?;
        let mut request = tonic::Request::new(request.clone());
        if let Some(secret) = &self.secret {
            request.metadata_mut().insert("authorization", secret.clone());
        }
        let path = PathAndQuery::from_static(call.path);
        let answer = grpc.unary(request, path, Messages::<T, U>::default()).await?;
        Ok(answer.into_inner())
    }

    /// An error of the transport.
    fn failure(&self, call: Call, status: &tonic::Status) -> Error {
        let server = self.server.clone();
        let why = match std::error::Error::source(status) {
            Some(source) if status.message().is_empty() => shortened(&chain(source)),
            _ => shortened(status.message()),
        };
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Error::Refused { server, why },
            Code::Unavailable => Error::Unreachable { server, why },
            _ => Error::Server { server, what: call.what, why },
        }
    }

    /// An error that Milvus tells.
    fn told(&self, call: Call, status: &Status) -> Error {
        let server = self.server.clone();
        let why = shortened(&status.reason);
        // 1100 to 1199 and 1400 to 1499 are other families: these are Milvus' ErrNeedAuthenticate and ErrPrivilege….
        if matches!(status.code, 1400..=1402) {
            return Error::Refused { server, why };
        }
        Error::Server { server, what: call.what, why }
    }

    /// What makes no sense in an answer.
    pub(crate) fn senseless(&self, why: impl Into<String>) -> Error {
        Error::Answer { server: self.server.clone(), why: why.into() }
    }
}

fn is(status: &Status, (now, of_old): (i32, i32)) -> bool {
    status.code == now || (status.code == 0 && status.error_code == of_old)
}

async fn connect(address: &Address, options: &Options) -> Result<Channel> {
    let unreachable = |why: String| Error::Unreachable { server: address.origin(), why };
    let mut endpoint = Endpoint::from_shared(address.url())
        .map_err(|it| unreachable(it.to_string()))?
        .connect_timeout(options.connect);
    if address.is_tls() {
        let tls = ClientTlsConfig::new().with_native_roots().domain_name(address.host());
        endpoint = endpoint.tls_config(tls).map_err(|it| unreachable(chain(&it)))?;
    }
    // The limit of the endpoint is for one of a name's addresses; this one is for all of it.
    match tokio::time::timeout(options.connect, endpoint.connect()).await {
        Ok(connected) => connected.map_err(|it| unreachable(shortened(&chain(&it)))),
        Err(_) => {
            Err(unreachable(format!("nobody answers within {} s", options.connect.as_secs())))
        }
    }
}

fn header(secret: &Secret, server: &str) -> Result<MetadataValue<Ascii>> {
    let text = STANDARD.encode(secret.reveal());
    let mut value: MetadataValue<Ascii> = text.parse().map_err(|_| Error::Refused {
        server: server.to_owned(),
        why: "the password can not be sent".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error with its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// What a server says, within limits and in one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_REASON) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None if line.is_empty() => "it does not say why".to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
    };

    use super::*;

    fn quick() -> Options {
        Options {
            connect: Duration::from_millis(500),
            read: Duration::from_millis(500),
            tries: 1,
            ..Options::default()
        }
    }

    fn connected(port: u16, secret: Option<&Secret>) -> Error {
        let address =
            Address::parse(&format!("milvus://127.0.0.1:{port}/team")).expect("an address");
        Rpc::connect(&address, secret, quick()).map(drop).expect_err("no Milvus is there")
    }

    #[test]
    fn nobody_there_is_told_apart_from_somebody_else() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let error = connected(port, None);
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");

        let web = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = web.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            for stream in web.incoming().flatten() {
                let mut stream = stream;
                let mut bytes = [0; 1024];
                let _ = stream.read(&mut bytes);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
            }
        });
        let error = connected(port, Some(&Secret::new("root:hunter2")));
        assert!(matches!(error, Error::NotMilvus { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn who_says_nothing_is_slow() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("bound").port();
        let error = connected(port, None);
        assert!(matches!(error, Error::Slow { .. } | Error::Unreachable { .. }), "{error:?}");
        assert!(error.is_passing());
    }

    #[test]
    fn a_secret_goes_nowhere_in_clear() {
        let address = Address::parse("milvus://far.test/team").expect("an address");
        let secret = Secret::new("root:hunter2");
        let error = Rpc::connect(&address, Some(&secret), quick()).map(drop).expect_err("in clear");
        assert!(matches!(error, Error::OpenSecret { .. }), "{error:?}");
    }

    #[test]
    fn reasons_are_one_line_of_some_length() {
        assert_eq!(shortened(" a\n b "), "a b");
        assert_eq!(shortened(""), "it does not say why");
        assert_eq!(shortened(&"x".repeat(999)).chars().count(), LONGEST_REASON + 1);
    }
}
