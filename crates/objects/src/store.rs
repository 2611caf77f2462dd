//! Keeping, listing, fetching and deleting.

use std::{
    io::{Read, Seek, SeekFrom, Write},
    thread,
    time::Duration,
};

use riddle_models::web;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::{Agent, Body, SendBody, http::Response};

use crate::{Error, Key, Place, Result};

/// Largest object: what S3 takes in one piece.
pub const LARGEST: u64 = 5 << 30;

/// How long a signature is good for. The store looks at it when a request begins.
const SIGNED_FOR: Duration = Duration::from_secs(900);

/// Names of one page of a list: the most that S3 gives.
const PAGE: usize = 1000;

/// Largest page that is read.
const LARGEST_PAGE: u64 = 16 << 20;

/// Most of what a store says of an error that is read.
const LARGEST_ERROR: u64 = 64 << 10;

/// How patient to be.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// To find the server and connect to it.
    pub connect: Duration,
    /// Longest silence of the server.
    pub silence: Duration,
    /// Tries in all, at least 1.
    pub tries: u32,
    /// Before the second try; doubled for each further one.
    pub pause: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect: Duration::from_secs(8),
            silence: Duration::from_secs(30),
            tries: 3,
            pause: Duration::from_millis(500),
        }
    }
}

/// An object, as a list names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name, without what all names begin with.
    pub name: String,
    /// When it was written, as the store writes it: of one store, later is greater.
    pub written: String,
    /// Its size, where the store says it.
    pub bytes: Option<u64>,
}

/// The objects of one place. Any number of threads may use it.
#[derive(Debug)]
pub struct Objects {
    place: Place,
    bucket: Bucket,
    credentials: Option<Credentials>,
    agent: Agent,
    options: Options,
}

/// Why a try has failed.
enum Failure {
    /// Another one may not.
    Passing(Error),
    Lasting(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Lasting(error)
    }
}

impl Objects {
    /// Objects of a place, which is not asked yet. Without a key it is asked as anybody may.
    ///
    /// # Errors
    /// [`Error::OpenSecret`]; [`Error::Address`] for a bucket that no address can have.
    pub fn at(place: &Place, key: Option<&Key>, options: Options) -> Result<Objects> {
        if key.is_some() && !place.may_carry_secrets() {
            return Err(Error::OpenSecret { server: place.origin() });
        }
        let (endpoint, name, region) =
            (place.endpoint.clone(), place.bucket.clone(), place.region.clone());
        // Buckets in the path: a store in a house has one name, and no name for each bucket.
        let bucket = Bucket::new(endpoint, UrlStyle::Path, name, region);
        let bucket = bucket.map_err(|_| Error::Address {
            address: place.to_string(),
            why: "its bucket can not be asked",
        })?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // A signature is for one server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(if place.is_local() { None } else { ureq::Proxy::try_from_env() })
            .tls_config(web::tls())
            .user_agent(concat!("riddle/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_resolve(Some(options.connect))
            .timeout_connect(Some(options.connect))
            .timeout_recv_response(Some(options.silence))
            .timeout_per_read(Some(options.silence))
            .build()
            .new_agent();
        Ok(Objects {
            place: place.clone(),
            bucket,
            credentials: key.map(|it| Credentials::new(it.access.clone(), it.secret.clone())),
            agent,
            options,
        })
    }

    /// Where they are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Keeps `bytes` bytes of a file under a name, in the place of what was there.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; a file that ends before; what the store reports.
    pub fn put(&self, name: &str, file: &mut (impl Read + Seek), bytes: u64) -> Result<()> {
        if bytes > LARGEST {
            return Err(Error::TooLarge { bytes, limit: LARGEST });
        }
        let name = self.place.name(name);
        self.again(|| {
            file.seek(SeekFrom::Start(0)).map_err(Error::Io)?;
            let mut part = Promised { inner: file.by_ref(), left: bytes, broken: false };
            let url = self.bucket.put_object(self.credentials.as_ref(), &name).sign(SIGNED_FOR);
            let request = self
                .agent
                .put(url.as_str())
                .header("content-length", bytes.to_string())
                .header("content-type", "application/octet-stream");
            let answer = request.send(SendBody::from_reader(&mut part));
            // The file is being written, or its disk fails: the store is not to blame.
            if part.broken {
                return Err(Error::Io(std::io::ErrorKind::UnexpectedEof.into()).into());
            }
            self.done("keep a file", answer).map(drop)
        })
    }

    /// Writes an object to `to`, and returns its size.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where it has more than `limit` bytes; [`Error::Absent`]; what the store reports.
    pub fn get(&self, name: &str, to: &mut std::fs::File, limit: u64) -> Result<u64> {
        let name = self.place.name(name);
        self.again(|| {
            to.set_len(0).and_then(|()| to.seek(SeekFrom::Start(0))).map_err(Error::Io)?;
            let url = self.bucket.get_object(self.credentials.as_ref(), &name).sign(SIGNED_FOR);
            let mut answer = self.done("give a file", self.agent.get(url.as_str()).call())?;
            let promised = answer.body().content_length();
            if let Some(bytes) = promised.filter(|it| *it > limit) {
                return Err(Error::TooLarge { bytes, limit }.into());
            }
            let mut reader = answer.body_mut().as_reader().take(limit + 1);
            let mut read = 0;
            let mut buffer = vec![0; 64 << 10];
            loop {
                let count = reader.read(&mut buffer).map_err(|it| self.cut_off(&it))?;
                if count == 0 {
                    break;
                }
                to.write_all(&buffer[..count]).map_err(Error::Io)?;
                read += count as u64;
            }
            if read > limit {
                return Err(Error::TooLarge { bytes: read, limit }.into());
            }
            if promised.is_some_and(|it| it != read) {
                return Err(self.cut_off(&std::io::ErrorKind::UnexpectedEof.into()));
            }
            Ok(read)
        })
    }

    /// Everything whose name begins with `prefix`, page by page.
    ///
    /// # Errors
    /// What the store reports.
    pub fn list(&self, prefix: &str, visit: &mut dyn FnMut(Object)) -> Result<()> {
        let prefix = self.place.name(prefix);
        let mut after: Option<String> = None;
        loop {
            let page = self.again(|| {
                let mut action = self.bucket.list_objects_v2(self.credentials.as_ref());
                action.with_prefix(prefix.as_str());
                action.with_max_keys(PAGE);
                if let Some(token) = &after {
                    action.with_continuation_token(token.as_str());
                }
                let url = action.sign(SIGNED_FOR);
                let mut answer =
                    self.done("list its files", self.agent.get(url.as_str()).call())?;
                let text = answer.body_mut().with_config().limit(LARGEST_PAGE).read_to_string();
                let text = text.map_err(|it| self.failed(it))?;
                rusty_s3::actions::ListObjectsV2::parse_response(&text)
                    .map_err(|it| self.senseless("list its files", &it.to_string()).into())
            })?;
            let empty = page.contents.is_empty();
            for it in page.contents {
                if let Some(name) = self.place.name_of(&it.key) {
                    visit(Object {
                        name: name.to_owned(),
                        written: it.last_modified.unwrap_or_default(),
                        bytes: it.size,
                    });
                }
            }
            match page.next_continuation_token {
                // A store that gives nothing and says that there is more would be asked for ever.
                Some(token) if !empty && Some(&token) != after.as_ref() => after = Some(token),
                _ => return Ok(()),
            }
        }
    }

    /// Deletes an object; one that is gone is deleted.
    ///
    /// # Errors
    /// What the store reports.
    pub fn delete(&self, name: &str) -> Result<()> {
        let name = self.place.name(name);
        let deleted = self.again(|| {
            let url = self.bucket.delete_object(self.credentials.as_ref(), &name).sign(SIGNED_FOR);
            self.done("delete a file", self.agent.delete(url.as_str()).call()).map(drop)
        });
        match deleted {
            Err(Error::Absent { .. }) => Ok(()),
            other => other,
        }
    }

    fn again<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T> {
        let mut pause = self.options.pause;
        let mut left = self.options.tries.max(1);
        loop {
            left -= 1;
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Failure::Passing(error)) if left > 0 => {
                    tracing::debug!(%error, "tried again");
                    thread::sleep(pause);
                    pause *= 2;
                }
                Err(Failure::Passing(error) | Failure::Lasting(error)) => return Err(error),
            }
        }
    }

    /// The answer, if the store has done what it was asked.
    fn done(
        &self,
        what: &'static str,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Failure> {
        let mut answer = answer.map_err(|it| self.failed(it))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let said = answer.body_mut().with_config().limit(LARGEST_ERROR).read_to_string();
        let said = said.unwrap_or_default();
        let why = match (element(&said, "Code"), element(&said, "Message")) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(one), None) | (None, Some(one)) => one.to_owned(),
            (None, None) => format!("status {status}"),
        };
        let server = self.place.origin();
        Err(match status.as_u16() {
            401 | 403 => Failure::Lasting(Error::Refused { server, why }),
            // Some call a request without a key malformed.
            400 if self.credentials.is_none() => Failure::Lasting(Error::Refused { server, why }),
            404 => Failure::Lasting(Error::Absent { server, why }),
            408 | 429 | 500.. => Failure::Passing(Error::Server { server, what, why }),
            _ => Failure::Lasting(Error::Server { server, what, why }),
        })
    }

    fn failed(&self, error: ureq::Error) -> Failure {
        let server = self.place.origin();
        match error {
            // It names the address, which is signed.
            ureq::Error::BadUri(_) => {
                Failure::Lasting(self.senseless("be asked", "its address is none"))
            }
            ureq::Error::BodyExceedsLimit(limit) => {
                Failure::Lasting(Error::TooLarge { bytes: limit, limit })
            }
            other => Failure::Passing(Error::Unreachable { server, why: other.to_string() }),
        }
    }

    fn cut_off(&self, error: &std::io::Error) -> Failure {
        let why = error.to_string();
        Failure::Passing(Error::Unreachable { server: self.place.origin(), why })
    }

    fn senseless(&self, what: &'static str, why: &str) -> Error {
        Error::Server { server: self.place.origin(), what, why: why.to_owned() }
    }
}

/// The text of the first element of that name, as stores write their errors.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = text.trim();
    (!text.is_empty() && text.len() < 300).then_some(text)
}

/// As many bytes of a file as were promised, and whether it had fewer.
struct Promised<R> {
    inner: R,
    left: u64,
    broken: bool,
}

impl<R: Read> Read for Promised<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.inner.read(&mut buffer[..most]);
        self.broken |= !matches!(read, Ok(1..));
        let count = read?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Cursor},
        net::{TcpListener, TcpStream},
        sync::mpsc,
    };

    use super::*;

    /// A store that gives these answers, one to each request, and tells what it was asked.
    fn store(answers: Vec<String>) -> (Objects, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (told, asked) = mpsc::channel();
        thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().expect("a client");
                let _ = told.send(read(&stream));
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        let place = format!("http://127.0.0.1:{port}/files/team");
        let place = Place::parse(&place).expect("a place");
        let key = Key::parse("me:hunter2").expect("a key");
        let options = Options {
            pause: Duration::from_millis(1),
            silence: Duration::from_millis(500),
            ..Options::default()
        };
        (Objects::at(&place, Some(&key), options).expect("a store"), asked)
    }

    /// The first line of a request, and its body.
    fn read(stream: &TcpStream) -> String {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).expect("a request");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a header");
            if let Some(it) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = it.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        first + &String::from_utf8_lossy(&body)
    }

    fn answer(status: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    fn fetched(objects: &Objects, limit: u64) -> (Result<u64>, Vec<u8>) {
        let mut file = tempfile::tempfile().expect("a file");
        let result = objects.get("a", &mut file, limit);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).expect("read");
        (result, bytes)
    }

    #[test]
    fn a_file_is_kept_whole_and_signed_and_what_fails_on_the_way_is_tried_again() {
        let (objects, asked) = store(vec![answer("503 Slow Down", ""), answer("200 OK", "")]);
        objects.put("a/b", &mut Cursor::new("the file and more"), 8).expect("kept");
        for _ in 0..2 {
            let request = asked.recv().expect("asked");
            assert!(request.starts_with("PUT /files/team/a/b?X-Amz-Algorithm="), "{request}");
            assert!(request.ends_with("the file") && !request.contains("hunter2"), "{request}");
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_not_kept() {
        let (objects, _asked) = store(vec![answer("200 OK", "")]);
        let error = objects.put("a", &mut Cursor::new("short"), 9).expect_err("shorter");
        assert!(matches!(error, Error::Io(_)), "{error}");
        let error = objects.put("a", &mut Cursor::new(""), LARGEST + 1).expect_err("too large");
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }

    #[test]
    fn what_comes_is_whole_or_an_error() {
        let cut =
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nhalf".to_owned();
        let (objects, _asked) = store(vec![cut, answer("200 OK", "all of it")]);
        let (result, bytes) = fetched(&objects, 99);
        assert_eq!((result.expect("fetched"), bytes.as_slice()), (9, b"all of it".as_slice()));
        let endless = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_owned() + &"x".repeat(200);
        for large in [answer("200 OK", &"x".repeat(100)), endless] {
            let (objects, _asked) = store(vec![large]);
            let (result, bytes) = fetched(&objects, 99);
            assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
            assert!(bytes.len() <= 100);
        }
    }

    #[test]
    fn a_refusal_says_why_and_holds_no_secret() {
        let denied = "<Error><Code>AccessDenied</Code><Message>not you</Message></Error>";
        let (objects, _asked) = store(vec![answer("403 Forbidden", denied)]);
        let error = objects.list("", &mut |_| ()).expect_err("refused");
        assert!(
            matches!(&error, Error::Refused { why, .. } if why == "AccessDenied: not you"),
            "{error}"
        );
        let gone = "<Error><Code>NoSuchKey</Code></Error>";
        let (objects, _asked) =
            store(vec![answer("404 Not Found", gone), answer("404 Not Found", gone)]);
        assert!(matches!(fetched(&objects, 9).0, Err(Error::Absent { .. })));
        objects.delete("a").expect("gone is deleted");
        // Nobody is there any more.
        for error in
            [objects.delete("a").expect_err("nobody"), fetched(&objects, 9).0.expect_err("nobody")]
        {
            let text = format!("{error} {error:?}");
            assert!(
                error.is_passing() && !text.contains("Amz") && !text.contains("hunter2"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_list_has_all_pages_and_what_is_none_is_told() {
        let page = |key: &str, next: &str| {
            format!(
                "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <IsTruncated>{}</IsTruncated>{next}<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00Z</LastModified>\
                 <Size>3</Size></Contents></ListBucketResult>",
                !next.is_empty()
            )
        };
        let first = page("team/a%20b", "<NextContinuationToken>more</NextContinuationToken>");
        let answers = vec![answer("200 OK", &first), answer("200 OK", &page("other/c", ""))];
        let (objects, asked) = store(answers);
        let mut names = Vec::new();
        objects.list("", &mut |it| names.push((it.name, it.bytes))).expect("listed");
        // What is below another beginning was not asked for, and is passed over.
        assert_eq!(names, [("a%20b".to_owned(), Some(3))]);
        let requests: Vec<String> = asked.iter().take(2).collect();
        assert!(
            requests[0].contains("prefix=team%2F")
                && requests[1].contains("continuation-token=more")
        );
        for junk in ["", "<html>", "{}", "<ListBucketResult>"] {
            let (objects, _asked) = store(vec![answer("200 OK", junk)]);
            let error = objects.list("", &mut |_| ()).expect_err("no list");
            assert!(matches!(error, Error::Server { .. }), "{junk:?} {error}");
        }
    }

    #[test]
    fn a_key_is_for_an_encrypted_store_alone() {
        let place = Place::parse("http://box.test/files").expect("a place");
        let key = Key::parse("me:hunter2").expect("a key");
        let error = Objects::at(&place, Some(&key), Options::default()).expect_err("in clear");
        assert!(matches!(error, Error::OpenSecret { .. }), "{error}");
        assert!(Objects::at(&place, None, Options::default()).is_ok());
    }
}
