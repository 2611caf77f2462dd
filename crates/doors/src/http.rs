//! The HTTP API: which routes there are, and how connections are taken, limited and ended.

mod api;
mod call;
mod chat;
mod embeddings;
mod mcp;
mod metrics;
mod openapi;
mod own;
mod rerank;
mod responses;
mod routes;
mod socket;
mod stream;
mod try_it;

use std::{
    fs,
    future::poll_fn,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use riddle_rag::{Config, encryption::is_encrypted};
use tokio::sync::Semaphore;

use self::{
    call::{Noted, Style},
    metrics::Metrics,
    routes::{Route, table},
    socket::{Socket, Stream},
};
use crate::{
    batch::Batch,
    clients::{Client, Clients},
    connect::{self, Remote, Served},
    error::{Error, Result},
    guard::{Guard, Way},
    journal::{Entry, Journal, Outcome},
    mcp::Protocol,
    own::{self as owned, Like},
    private,
    resident::{Lender, Resident},
    token::{self, Token},
    who::{Scope, Who},
};

/// Port that is tried first, so that a client's settings hold from one start to the next.
const USUAL_PORT: u16 = 7438;

/// Requests that may wait, where nobody says.
const QUEUE: usize = 64;

/// Connections at a time: each costs a few kilobytes, and local clients have a handful.
const CONNECTIONS: usize = 256;

/// How long a client may take for the head of a request; an idle connection is closed after it, too.
const HEAD: Duration = Duration::from_secs(20);

/// Longest head of a request, in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// How long what runs may take to end once the program is to stop.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How often it is looked whether the program is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// How the API is served.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// Port; `None`: the usual one, or any that is free.
    pub port: Option<u16>,
    /// Address to listen at; `None`: 127.0.0.1.
    pub listen: Option<IpAddr>,
    /// An address that other machines reach is meant.
    pub beyond_this_machine: bool,
    /// A socket in the file system to listen at as well, for its owner alone.
    pub socket: Option<PathBuf>,
    /// Names, with ports, by which the server may be called besides its own.
    pub allow_hosts: Vec<String>,
    /// Origins whose pages may ask, besides its own.
    pub allow_origins: Vec<String>,
    /// Gives passages of folders that never leave this machine, too: to programs on it.
    pub with_confined: bool,
    /// Requests that may wait; `None`: 64.
    pub queue: Option<usize>,
    /// Writes down who asked and how much was given, and not what.
    pub forget_questions: bool,
}

/// A server that listens.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its address.
    pub url: String,
    /// File that holds the token.
    pub token_file: PathBuf,
    /// Other machines reach it.
    pub beyond_this_machine: bool,
}

/// What every request needs.
#[derive(Clone)]
pub(crate) struct Door(Arc<Inside>);

/// What is behind it.
pub(crate) struct Inside {
    resident: Arc<Resident>,
    batch: Arc<Batch>,
    protocol: Protocol,
    guard: Guard,
    metrics: Metrics,
    journal: Arc<Journal>,
    /// What a program has to be like that takes this engine's answers for its own.
    like: Like,
    /// Other machines reach it: marked folders stay closed, whatever a program may.
    beyond: bool,
    started: Instant,
}

impl std::ops::Deref for Door {
    type Target = Inside;

    fn deref(&self) -> &Inside {
        &self.0
    }
}

/// All routes, and the one that describes them.
fn routes() -> Vec<Route> {
    let description = Route {
        method: Method::GET,
        path: "/openapi.json",
        summary: "This description",
        open: false,
        body: None,
        handler: || get(openapi::openapi),
    };
    let mut routes = table();
    routes.push(description);
    routes
}

/// Serves the API until `stop` is set; `ready` is told where.
///
/// # Errors
/// When the library can not be opened, or there is nothing to listen at.
pub fn serve(
    config: Config,
    options: &ServeOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(&Started) -> Result<()>,
) -> Result<()> {
    serve_library(config, None, options, stop, ready)
}

/// As [`serve`], with the library that the program has open already, so that its models are in memory once.
///
/// # Errors
/// When there is nothing to listen at, or the home is served by another program.
pub fn serve_lent(
    config: Config,
    lender: Lender,
    options: &ServeOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(&Started) -> Result<()>,
) -> Result<()> {
    serve_library(config, Some(lender), options, stop, ready)
}

fn serve_library(
    config: Config,
    lender: Option<Lender>,
    options: &ServeOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(&Started) -> Result<()>,
) -> Result<()> {
    let address = options.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let beyond = !address.is_loopback();
    if beyond && !options.beyond_this_machine {
        return Err(Error::BeyondThisMachine { address: address.to_string() });
    }
    if beyond && options.with_confined {
        return Err(Error::BadRequest(
            "marked folders never leave this machine: they can be given to programs on it only, without --listen".to_owned(),
        ));
    }
    if let Some(remote) = Remote::find(&config.home) {
        return Err(Error::AlreadyServed { url: remote.url() });
    }
    let (home, like) = (config.home.clone(), Like::of(&config));
    let encrypted = is_encrypted(&config);
    let queue = options.queue.unwrap_or(QUEUE);
    let resident = match lender {
        None => Resident::start(config, queue, options.with_confined)?,
        Some(lender) => Resident::lent(lender, queue, options.with_confined)?,
    };
    // The journal is no part of what is encrypted.
    let forget_questions = options.forget_questions || encrypted;
    let options = ServeOptions { forget_questions, ..options.clone() };
    let served = listen(address, options.port).and_then(|listener| {
        run((&home, like), &resident, (listener, beyond), &options, stop, ready)
    });
    resident.close();
    served
}

fn listen(address: IpAddr, port: Option<u16>) -> Result<TcpListener> {
    let bind = |port: u16| {
        let address = SocketAddr::from((address, port));
        TcpListener::bind(address)
            .map_err(|source| Error::Bind { address: address.to_string(), source })
    };
    match port {
        Some(port) => bind(port),
        None => bind(USUAL_PORT).or_else(|_| bind(0)),
    }
}

fn run(
    (home, like): (&Path, Like),
    resident: &Arc<Resident>,
    (listener, beyond): (TcpListener, bool),
    options: &ServeOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(&Started) -> Result<()>,
) -> Result<()> {
    let internal = |error: std::io::Error| Error::Internal(error.to_string());
    let token = Token::of(home)?;
    // A path that holds something else is refused before anyone is told that there is a server.
    let socket = Socket::bind(options.socket.as_deref())?;
    // The person's own programs open the library themselves where they find no socket: in a home with a path that is
    // too long for one.
    let own = Socket::bind(owned::place(home).as_deref()).unwrap_or_else(|error| {
        tracing::warn!(%error, "the command line will not find this server");
        None
    });
    let local = listener.local_addr().map_err(internal)?;
    let url = format!("http://{local}");
    let mut hosts = options.allow_hosts.clone();
    if !local.ip().is_unspecified() {
        hosts.push(local.to_string());
    }
    let guard = Guard::new(token, Clients::of(home), local.port(), &hosts, &options.allow_origins);
    let journal = Arc::new(Journal::of(home, !options.forget_questions));
    let door = Door(Arc::new(Inside {
        batch: Arc::default(),
        protocol: Protocol::new(Arc::clone(resident), Arc::clone(&journal)),
        journal,
        like,
        beyond,
        resident: Arc::clone(resident),
        guard,
        metrics: Metrics::default(),
        started: Instant::now(),
    }));
    let file = connect::path(home);
    let served = Served { url: url.clone(), port: local.port(), pid: std::process::id() };
    private::write(&file, &serde_json::to_vec(&served).unwrap_or_default())?;
    let started = Started { url, token_file: token::path(home), beyond_this_machine: beyond };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(internal)?;
    let outcome = ready(&started).and_then(|()| {
        listener.set_nonblocking(true).map_err(internal)?;
        let places = Places { tcp: listener, socket, own };
        runtime.block_on(accept(places, &door, stop)).map_err(internal)
    });
    // Gone with the server, whatever ended it; one that was killed is found out by asking it.
    let _ = fs::remove_file(file);
    outcome
}

/// Where connections come in.
struct Places {
    tcp: TcpListener,
    /// Where the person wants one.
    socket: Option<Socket>,
    /// For the person's own programs.
    own: Option<Socket>,
}

/// Takes connections until the program is to stop, then lets what runs end.
async fn accept(places: Places, door: &Door, stop: &AtomicBool) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(places.tcp)?;
    let socket = places.socket.as_ref().map(Socket::listener).transpose()?;
    let own = places.own.as_ref().map(Socket::listener).transpose()?;
    let (over_tcp, over_socket) = (router(door, Way::Tcp), router(door, Way::Socket));
    let over_own = router(door, Way::Own);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let ending = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
    loop {
        let either = poll_fn(|context| {
            if let Poll::Ready(taken) = listener.poll_accept(context) {
                return Poll::Ready(taken.map(|(it, _)| (Stream::Tcp(it), &over_tcp)));
            }
            if let Poll::Ready(taken) = socket::taken(socket.as_ref(), context) {
                return Poll::Ready(taken.map(|it| (it, &over_socket)));
            }
            socket::taken(own.as_ref(), context).map(|taken| taken.map(|it| (it, &over_own)))
        });
        let Some(taken) = until(stop, either).await else { break };
        let (stream, router) = match taken {
            Ok((stream, router)) => {
                if let Stream::Tcp(it) = &stream {
                    let _ = it.set_nodelay(true);
                }
                (stream, router)
            }
            Err(error) => {
                // Too many open files, or a client that has gone: neither is the server's end.
                tracing::debug!(%error, "a connection was not taken");
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = ending.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection has ended");
            }
            drop(place);
        });
    }
    drop(listener);
    // What waits has not begun, and would be cut off anyway.
    door.resident.close();
    door.batch.clear();
    let _ = tokio::time::timeout(LAST_WORDS, ending.shutdown()).await;
    Ok(())
}

/// What comes of the future; `None` when the program is to stop before.
async fn until<T>(stop: &AtomicBool, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    while !stop.load(Ordering::SeqCst) {
        if let Ok(done) = tokio::time::timeout(LOOK, future.as_mut()).await {
            return Some(done);
        }
    }
    None
}

impl Door {
    /// Whoever has come in, by the name that the person has given it, or that it gives itself.
    fn who(&self, client: Option<Client>, headers: &HeaderMap) -> Who {
        let own = call::name_of(headers);
        let known = client.is_some();
        let given = |with: bool| self.beyond || !(self.resident.with_confined || with);
        let (name, scope) = match client {
            Some(client) => {
                let outward = given(client.may.with_confined);
                (client.name, Scope::of(client.may, client.reader, outward))
            }
            None => (own, Scope::whole(given(false))),
        };
        Who { name, known, scope }
    }
}

fn router(door: &Door, way: Way) -> Router {
    let mut router = Router::new();
    if way == Way::Own {
        router = router.route(owned::SEARCH, post(own::search)).route(owned::ASK, post(own::ask));
    } else {
        for route in routes() {
            router = router.route(route.path, (route.handler)());
        }
    }
    router
        .fallback(api::no_route)
        .method_not_allowed_fallback(api::no_method)
        .layer(middleware::from_fn_with_state((door.clone(), way), watched))
        .with_state(door.clone())
}

/// Lets in who may, counts, and says with every answer that browsers are to make nothing of it.
async fn watched(
    State((door, way)): State<(Door, Way)>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let path = request.uri().path().to_owned();
    let route = routes().into_iter().find(|it| it.path == path);
    let open = route.as_ref().is_some_and(|it| it.open);
    let name_of_route = route.map_or("other", |it| it.path);
    let noted = Noted::default();
    let (name, known, mut response) = match door.guard.check(request.headers(), open, way) {
        Ok(client) => {
            let who = door.who(client, request.headers());
            let (name, known) = (who.name.clone(), who.known);
            request.extensions_mut().insert(who);
            request.extensions_mut().insert(noted.clone());
            (name, known, next.run(request).await)
        }
        Err(refusal) => {
            tracing::info!(path, ?refusal, "refused");
            let mut response = Style::of(&path).failed(refusal.status(), refusal.words());
            if refusal.status() == StatusCode::UNAUTHORIZED {
                response
                    .headers_mut()
                    .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            (call::name_of(request.headers()), false, response)
        }
    };
    // What was refused before it was known what is asked: too large, too slow, no such route, no JSON, not let in.
    if response.status().is_client_error() && !noted.is_noted() && way != Way::Own {
        let entry = Entry::new(&name, known, name_of_route, started.elapsed());
        door.journal.note(Entry { outcome: Outcome::Refused, ..entry });
    }
    let headers = response.headers_mut();
    for (header, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(header, HeaderValue::from_static(value));
    }
    // The page to try it has its own: it runs one script, and only that.
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    door.metrics.count(name_of_route, response.status(), started.elapsed());
    response
}

/// What a client sends over HTTP, read in every way in which it may be meant.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn reads(text: &str) {
    call::reads(text);
    let Ok(body) = serde_json::from_str::<serde_json::Value>(text) else { return };
    for read in [rerank::reads, embeddings::reads, chat::reads, responses::reads] {
        read(body.clone());
    }
}

#[cfg(test)]
mod tests {
    use riddle_types::{Advice, Advised as _};

    use super::*;

    #[test]
    fn beyond_this_machine_has_to_be_said_twice_and_never_with_marked_folders() {
        let home = tempfile::tempdir().expect("a folder");
        let config = || Config::new(home.path());
        let listen = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let options = ServeOptions { listen, ..ServeOptions::default() };
        let stop = AtomicBool::new(true);
        let error = serve(config(), &options, &stop, |_| Ok(())).expect_err("refused");
        assert_eq!(error.advice(), Some(Advice::AllowOtherMachines), "{error}");
        let options = ServeOptions { beyond_this_machine: true, with_confined: true, ..options };
        assert!(serve(config(), &options, &stop, |_| Ok(())).is_err());
    }

    #[test]
    fn a_server_says_where_it_is_while_it_runs() {
        let home = tempfile::tempdir().expect("a folder");
        let stop = AtomicBool::new(true);
        let mut url = String::new();
        let options = ServeOptions { port: Some(0), ..ServeOptions::default() };
        serve(Config::new(home.path()), &options, &stop, |started| {
            url.clone_from(&started.url);
            assert!(connect::path(home.path()).is_file());
            Ok(())
        })
        .expect("stops at once");
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        assert!(!connect::path(home.path()).exists());
    }
}
