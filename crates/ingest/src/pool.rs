//! The parent's side: child processes that parse, watched by a clock.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use riddle_types::FileKind;

use crate::{
    kind::{TNEF, is_outlook_store},
    outcome::{ParseOutcome, SeenLine},
    protocol::{Reply, Request, VERSION, read_json, write_json, write_part},
    remark::Remark,
    tools::Tools,
};

/// How to start the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program; usually this one.
    pub program: PathBuf,
    /// Arguments that make it call [`worker_main`](crate::worker_main).
    pub args: Vec<OsString>,
    /// Names of variables of the environment that it does not get: whoever takes over a parser has no key in it.
    pub secrets: Vec<OsString>,
}

/// What a parser may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for one file.
    pub time: Duration,
    /// Memory for the parser, beside the program itself.
    pub memory_bytes: u64,
    /// Largest reply: the text of one file.
    pub output_bytes: u64,
}

impl Default for Limits {
    /// Twenty seconds and one GiB: the slowest of several hundred real files took 4 seconds, the largest
    /// 407 MB. A text of 64 MiB is a large library's catalog.
    fn default() -> Self {
        Limits { time: Duration::from_secs(20), memory_bytes: 1 << 30, output_bytes: 64 << 20 }
    }
}

/// A child is replaced after this many files, so that what a parser leaks does not add up.
const FILES_PER_CHILD: u32 = 200;

/// A child whose peak has grown beyond this is replaced: it would keep the memory.
const LARGE_CHILD_BYTES: u64 = 256 << 20;

/// Formats that still hold readable words when their own parser fails.
const READABLE_AS_TEXT: [FileKind; 2] = [FileKind::Html, FileKind::Mail];

/// Whether what is left of a file may hold readable words. The first bytes of Outlook's files are few odd letters, and
/// what follows is hidden or of two bytes each.
fn is_readable_as_text(path: &Path, kind: FileKind, bytes: &[u8]) -> bool {
    let name = path.file_name().map_or_else(Default::default, |it| it.to_string_lossy());
    READABLE_AS_TEXT.contains(&kind) && !is_outlook_store(&name, bytes) && !bytes.starts_with(TNEF)
}

/// What a child has read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What became of the file.
    pub outcome: ParseOutcome,
    /// Its pages that are pictures, from 1, and numbers of the pictures in it: what they say is not in the outcome.
    pub pictures: Vec<u32>,
}

/// What a page says that is a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its text, or why there is none.
    pub outcome: ParseOutcome,
    /// How sure that is, from 0 to 1.
    pub sure: f32,
    /// Its lines, in the order of reading, with their places; none where there is no text.
    pub lines: Vec<SeenLine>,
}

/// Time for a page that is a picture: most take three seconds on two cores, and a turned one three times that; a
/// machine that others want takes ten times as long.
const TIME_FOR_PICTURE: Duration = Duration::from_secs(180);

/// A child that reads pictures keeps the networks: it is replaced beyond this.
const LARGE_READER_BYTES: u64 = 640 << 20;

impl From<ParseOutcome> for Reading {
    fn from(outcome: ParseOutcome) -> Reading {
        Reading { outcome, pictures: Vec::new() }
    }
}

/// Child processes that parse; shared by as many threads as want to parse at a time.
#[derive(Debug)]
pub struct ParserPool {
    command: WorkerCommand,
    limits: Limits,
    tools: Tools,
    idle: Mutex<Vec<Worker>>,
    peak_rss_bytes: AtomicU64,
}

impl ParserPool {
    /// A pool that starts children when they are needed.
    pub fn new(command: WorkerCommand, limits: Limits) -> ParserPool {
        ParserPool {
            command,
            limits,
            tools: Tools::default(),
            idle: Mutex::new(Vec::new()),
            peak_rss_bytes: AtomicU64::new(0),
        }
    }

    /// From now on children use these.
    pub fn equip(&mut self, tools: Tools) {
        if tools != self.tools {
            // A library is loaded once in a process.
            self.idle.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
            self.tools = tools;
        }
    }

    /// Parses a file in a child process and waits for it, no longer than the limit. Never fails otherwise:
    /// whatever happens to the child is the outcome of the file.
    pub fn parse(&self, path: &Path, kind: FileKind, bytes: &[u8]) -> ParseOutcome {
        self.read(path, kind, bytes).outcome
    }

    /// [`parse`](Self::parse), and which pictures can be read.
    pub fn read(&self, path: &Path, kind: FileKind, bytes: &[u8]) -> Reading {
        let first = self.attempt(path, kind, bytes, false);
        let again = is_readable_as_text(path, kind, bytes)
            || (kind == FileKind::Pdf && self.tools.pdfium.is_some());
        if again && matches!(first.outcome, ParseOutcome::Failed(_)) {
            let second = self.attempt(path, kind, bytes, true);
            let is_read = matches!(second.outcome, ParseOutcome::Parsed(_));
            return if is_read || !second.pictures.is_empty() { second } else { first };
        }
        first
    }

    /// Most memory that a child reported so far.
    pub fn peak_child_rss_bytes(&self) -> u64 {
        self.peak_rss_bytes.load(Ordering::Relaxed)
    }

    /// Reads a page that is a picture, from 1, or a picture in the file by its number; a file that is one has one.
    pub fn look(&self, path: &Path, kind: FileKind, bytes: &[u8], page: u32) -> Seen {
        let request = Request { look: Some(page), ..self.request(path, kind, bytes, false) };
        let limits = Limits { time: TIME_FOR_PICTURE, ..self.limits };
        let request = Request { seconds: limits.time.as_secs(), ..request };
        match self.ask(request, bytes, limits, LARGE_READER_BYTES) {
            Ok(Reply { outcome, sure, lines, .. }) => Seen { outcome, sure, lines },
            Err(why) => Seen { outcome: ParseOutcome::Failed(why), sure: 0.0, lines: Vec::new() },
        }
    }

    fn request(&self, path: &Path, kind: FileKind, bytes: &[u8], second: bool) -> Request {
        Request {
            version: VERSION,
            name: path.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned()),
            kind,
            bytes: bytes.len() as u64,
            second,
            seconds: self.limits.time.as_secs().max(1),
            tools: self.tools.clone(),
            look: None,
        }
    }

    fn attempt(&self, path: &Path, kind: FileKind, bytes: &[u8], second: bool) -> Reading {
        let request = self.request(path, kind, bytes, second);
        match self.ask(request, bytes, self.limits, LARGE_CHILD_BYTES) {
            Ok(reply) => Reading { outcome: reply.outcome, pictures: reply.pictures },
            Err(reason) => ParseOutcome::Failed(reason).into(),
        }
    }

    /// Asks a child, and keeps it for the next file unless it has grown beyond `large`.
    fn ask(
        &self,
        request: Request,
        bytes: &[u8],
        limits: Limits,
        large: u64,
    ) -> Result<Reply, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let started = idle.map_or_else(|| Worker::start(&self.command, self.limits), Ok);
        let mut worker = started.map_err(|error| {
            let program = self.command.program.display().to_string();
            Remark::NotStarted { program, why: error.to_string() }
        })?;
        let reply = worker.exchange(request, bytes, limits)?;
        self.peak_rss_bytes.fetch_max(reply.peak_rss_bytes, Ordering::Relaxed);
        if worker.files < FILES_PER_CHILD && reply.peak_rss_bytes < large {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
        Ok(reply)
    }
}

/// One child, with a thread that talks to it: the caller only waits for the thread.
#[derive(Debug)]
struct Worker {
    child: Child,
    requests: Option<Sender<(Request, Vec<u8>)>>,
    replies: Receiver<io::Result<Option<Reply>>>,
    complaint: Arc<Mutex<String>>,
    files: u32,
}

impl Worker {
    fn start(command: &WorkerCommand, limits: Limits) -> io::Result<Worker> {
        let mut start = Command::new(&command.program);
        command.secrets.iter().for_each(|it| {
            start.env_remove(it);
        });
        let mut child = start
            .args(&command.args)
            .arg(limits.memory_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("the child has no standard streams");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let mut output = child.stdout.take().ok_or_else(missing)?;
        let mut errors = child.stderr.take().ok_or_else(missing)?;
        let (requests, incoming) = channel::<(Request, Vec<u8>)>();
        let (outgoing, replies) = channel();
        std::thread::Builder::new().name("parser-pipe".to_owned()).spawn(move || {
            for (request, bytes) in incoming {
                let reply = write_json(&mut input, &request)
                    .and_then(|()| write_part(&mut input, &bytes))
                    .and_then(|()| input.flush())
                    .and_then(|()| read_json::<Reply>(&mut output, limits.output_bytes));
                let ended = !matches!(reply, Ok(Some(_)));
                if outgoing.send(reply).is_err() || ended {
                    break;
                }
            }
        })?;
        let complaint = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&complaint);
        std::thread::Builder::new().name("parser-stderr".to_owned()).spawn(move || {
            // The last words tell why it died; a flood of them must not be kept.
            const KEPT: usize = 2048;
            let mut buffer = [0; KEPT];
            while let Ok(length @ 1..) = errors.read(&mut buffer) {
                *shared.lock().unwrap_or_else(PoisonError::into_inner) =
                    String::from_utf8_lossy(&buffer[..length]).into_owned();
            }
        })?;
        Ok(Worker { child, requests: Some(requests), replies, complaint, files: 0 })
    }

    /// One request and its reply; an error says what happened to the child, which is then gone.
    fn exchange(
        &mut self,
        request: Request,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Reply, String> {
        self.files += 1;
        let gone = || Remark::Gone;
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send((request, bytes.to_vec())).map_err(|_| gone())?;
        match self.replies.recv_timeout(limits.time) {
            Ok(Ok(Some(reply))) if reply.version == VERSION => Ok(reply),
            Ok(Ok(Some(_))) => Err(Remark::OtherVersion.into()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Remark::Nonsense(error.to_string()).into())
            }
            Ok(Ok(None) | Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                Err(self.cause_of_death(limits))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(Remark::Slow { seconds: limits.time.as_secs_f32() }.into())
            }
        }
    }

    fn cause_of_death(&mut self, limits: Limits) -> String {
        // Its pipes are closed: it has ended, or is about to.
        let status = self.child.kill().and_then(|()| self.child.wait());
        // The thread that reads the last words needs a moment after the pipe closes.
        std::thread::sleep(Duration::from_millis(20));
        let complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if complaint.contains("memory allocation") || complaint.contains("out of memory") {
            return Remark::Memory { mib: limits.memory_bytes >> 20 }.into();
        }
        if complaint.contains("overflowed its stack") {
            return Remark::Nested.into();
        }
        Remark::Crashed(status.map_or_else(|error| error.to_string(), describe)).into()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.requests = None;
        // It may hang: there is nothing in it that is worth waiting for. Waiting afterwards frees its entry
        // in the process table; both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(libc::SIGSEGV) => Remark::InvalidMemory.into(),
        Some(libc::SIGABRT) => Remark::Aborted.into(),
        Some(libc::SIGKILL) => Remark::Killed.into(),
        Some(signal) => Remark::Signal(signal).into(),
        None => status.to_string(),
    }
}

#[cfg(not(unix))]
fn describe(status: ExitStatus) -> String {
    status.to_string()
}
