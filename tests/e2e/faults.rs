//! Homes write one library over a network that fails, against a real server of Milvus' API: whatever happened, when all
//! have come through once, the library is what undisturbed homes would have written.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use riddle_milvus::{Address, FileRow, Options, Passage, Store, Whole, Writer};
use riddle_tests::milvus::Server;
use riddle_types::{FileKind, Level, Location, Rule, TermWeights};

/// Numbers in a vector.
const DIMENSIONS: usize = 4;

/// What happens to a connection.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It is cut when so many bytes have gone to the server.
    CutAsked(usize),
    /// It is cut when so many bytes have come back: what was asked has been done, and nobody knows.
    CutAnswered(usize),
    /// Every piece waits so many milliseconds.
    Slow(u64),
    /// After so many bytes nothing comes back any more.
    Silent(usize),
}

/// Passes bytes on between a client and the server, until a fault comes.
struct Network {
    port: u16,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

impl Network {
    fn to(server: u16) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let faults: Arc<Mutex<VecDeque<Fault>>> = Arc::default();
        let waiting = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let fault = waiting.lock().expect("whole").pop_front();
                // A server that is down refuses.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let both = |it: &TcpStream| it.try_clone().expect("cloned");
                let (a, b) = ((both(&client), both(&server)), (server, client));
                thread::spawn(move || pass(a, fault, true));
                thread::spawn(move || pass(b, fault, false));
            }
        });
        Network { port, faults }
    }
}

fn pass((mut from, mut to): (TcpStream, TcpStream), fault: Option<Fault>, asked: bool) {
    let (mut bytes, mut gone) = ([0u8; 4096], 0);
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let whole = match (fault, asked) {
            (Some(Fault::CutAsked(limit)), true) | (Some(Fault::CutAnswered(limit)), false) => {
                limit.saturating_sub(gone).min(n)
            }
            (Some(Fault::Silent(limit)), false) if gone + n > limit => {
                thread::sleep(Duration::from_secs(3));
                break;
            }
            (Some(Fault::Slow(ms)), _) => {
                thread::sleep(Duration::from_millis(ms));
                n
            }
            _ => n,
        };
        gone += whole;
        if to.write_all(&bytes[..whole]).is_err() || whole < n {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A file of a home: how often it was written, and its passages.
type Files = BTreeMap<u8, (u8, u8)>;

/// What a run of a home does.
#[derive(Debug, Clone)]
struct Run {
    /// File, and its passages; 0: it is deleted.
    changes: Vec<(u8, u8)>,
    /// The program is killed after so many files.
    killed_after: Option<usize>,
}

/// Both homes run at the same time.
#[derive(Debug, Clone)]
struct Step {
    runs: [Run; 2],
    faults: Vec<Fault>,
    /// Somebody removes what the second home wrote, at the same time.
    evicted: bool,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (1usize..20_000).prop_map(Fault::CutAsked),
        (1usize..4_000).prop_map(Fault::CutAnswered),
        (1u64..30).prop_map(Fault::Slow),
        (0usize..3_000).prop_map(Fault::Silent),
    ]
}

fn run() -> impl Strategy<Value = Run> {
    let changes = prop::collection::vec((0u8..12, 0u8..4), 0..8);
    let killed = prop::option::weighted(0.3, 0usize..6);
    (changes, killed).prop_map(|(changes, killed_after)| Run { changes, killed_after })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (run(), run(), prop::collection::vec(fault(), 0..4), prop::bool::weighted(0.15));
    let step = step.prop_map(|(a, b, faults, evicted)| Step { runs: [a, b], faults, evicted });
    prop::collection::vec(step, 1..5)
}

/// With the patience of a program for people.
fn patient(port: u16, library: &str) -> riddle_milvus::Result<Store> {
    connected(port, library, Options::default())
}

fn store(port: u16, library: &str) -> riddle_milvus::Result<Store> {
    let options = Options {
        connect: Duration::from_millis(500),
        read: Duration::from_millis(1500),
        write: Duration::from_millis(1500),
        tries: 2,
        pause: Duration::from_millis(20),
        // So that passages of files are there whose rows have not come yet.
        rows: 2,
    };
    connected(port, library, options)
}

fn connected(port: u16, library: &str, options: Options) -> riddle_milvus::Result<Store> {
    let address = Address::parse(&format!("milvus://127.0.0.1:{port}/{library}")).expect("one");
    Store::connect(&address, None, options)
}

fn writer(home: usize) -> Writer {
    Writer {
        owner: format!("home {home}"),
        machine: format!("machine {home}"),
        embedder: "e".to_owned(),
        dimensions: DIMENSIONS,
        encoder: "s".to_owned(),
        take_over: false,
        anew: false,
    }
}

/// Both homes have files of the same paths.
fn passages(key: &str, path: &str, readers: &str, (version, count): (u8, u8)) -> Vec<Passage> {
    let passage = |ordinal: u8| Passage {
        id: Passage::id_of(key, u32::from(ordinal)),
        path: path.to_owned(),
        root: "/files".to_owned(),
        readers: readers.to_owned(),
        kind: FileKind::Text,
        modified: i64::from(version),
        title: String::new(),
        language: "en".to_owned(),
        ordinal: u32::from(ordinal),
        heading: String::new(),
        text: format!("{path} says {version} times {ordinal}. ").repeat(20),
        location: Location::Line { start: 1, end: 2 },
        words: vec!["boat".to_owned(), format!("w{version}")],
        names: vec!["file".to_owned()],
        vector: Some(vec![0.5; DIMENSIONS]),
        weights: Some(TermWeights::of([(u32::from(version), 7)])),
    };
    (0..count).map(passage).collect()
}

/// Makes the library what the home has. `killed_after`: the program is gone after so many files.
fn push(
    store: &Store,
    home: usize,
    files: &Files,
    killed_after: Option<usize>,
) -> riddle_milvus::Result<()> {
    let mut push = store.begin(&writer(home))?;
    let mut all = 0;
    for (at, (file, &(version, count))) in files.iter().enumerate() {
        if killed_after == Some(at) {
            // Nothing is given back.
            std::mem::forget(push);
            return Ok(());
        }
        let path = format!("/files/{file}.txt");
        let users = BTreeMap::from([(format!("user {}", version % 3), true)]);
        let readers = push.rule(&Rule::of([Level { users, ..Level::default() }]));
        let (key, state) = (push.key_of(&path), format!("{version}-{count}"));
        all += u64::from(count);
        if push.is_there(&key, &state) {
            continue;
        }
        let passages = passages(&key, &path, &readers, (version, count));
        let row = FileRow {
            key,
            version: state,
            path,
            root: "/files".to_owned(),
            passages: u64::from(count),
        };
        push.put(row, passages)?;
    }
    push.finish(Whole { passages: all, ..Whole::default() }).map(|_| ())
}

/// The server, the way to it, and what has happened.
struct World {
    server: Server,
    network: Network,
    cases: usize,
    runs: usize,
    failed: usize,
}

impl World {
    /// Disturbs a library, lets both homes come through, and holds it against one that nobody disturbed.
    fn holds(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        self.cases += 1;
        let (disturbed, whole) =
            (format!("disturbed{}", self.cases), format!("whole{}", self.cases));
        let mut homes = [Files::new(), Files::new()];
        let mut version = 0u8;
        for step in steps {
            for (files, run) in homes.iter_mut().zip(&step.runs) {
                for &(file, count) in &run.changes {
                    version = version.wrapping_add(1);
                    match count {
                        0 => drop(files.remove(&file)),
                        _ => drop(files.insert(file, (version, count))),
                    }
                }
            }
            self.disturb(step, &homes, &disturbed);
            // The server itself is killed now and then.
            if version % 11 == 10 {
                self.server.stop();
                prop_assert!(store(self.server.port(), &disturbed).is_err(), "nobody is there");
                self.server.start_again();
            }
        }
        let both = [(self.network.port, &disturbed), (self.server.port(), &whole)];
        for (home, files) in homes.iter().enumerate() {
            for (port, library) in both {
                let pushed = store(port, library).and_then(|it| push(&it, home, files, None));
                prop_assert!(pushed.is_ok(), "{library}: {pushed:?}");
            }
        }
        let about = store(self.network.port, &disturbed).and_then(|it| it.about());
        let about = about.expect("an answer").expect("there");
        prop_assert_eq!(about.files(), (homes[0].len() + homes[1].len()) as u64);
        prop_assert!(about.writers.iter().all(|it| it.complete));
        let rows = self.server.rows(&[&disturbed, &whole]);
        prop_assert_eq!(rows.len(), 2);
        prop_assert_eq!(&rows[0], &rows[1]);
        Ok(())
    }

    /// Both homes run at the same time, over a network with these faults.
    fn disturb(&mut self, step: &Step, homes: &[Files; 2], library: &str) {
        *self.network.faults.lock().expect("whole") = step.faults.iter().copied().collect();
        let port = self.network.port;
        let outcomes: Vec<riddle_milvus::Result<()>> = thread::scope(|scope| {
            let run = |home: usize| {
                let (files, killed_after) = (&homes[home], step.runs[home].killed_after);
                scope.spawn(move || push(&store(port, library)?, home, files, killed_after))
            };
            let runs = [run(0), run(1)];
            if step.evicted
                && let Ok(store) = store(port, library)
            {
                let _ = store.evict(&writer(1).owner);
            }
            runs.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        self.network.faults.lock().expect("whole").clear();
        self.runs += outcomes.len();
        self.failed += outcomes.iter().filter(|it| it.is_err()).count();
    }
}

#[test]
fn a_library_is_what_undisturbed_homes_would_have_written() {
    let Some(server) = Server::start() else { return };
    let network = Network::to(server.port());
    let world = RefCell::new(World { server, network, cases: 0, runs: 0, failed: 0 });
    let mut runner = TestRunner::new(Config {
        cases: 10,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&steps(), |steps| world.borrow_mut().holds(&steps));
    outcome.unwrap_or_else(|it| panic!("{it}"));
    let World { runs, failed, .. } = world.into_inner();
    assert!(failed * 10 > runs, "the network did not fail: {failed} of {runs} runs");
}

/// What only a run after one that was killed has to look for: the property above meets it rarely.
#[test]
fn what_a_killed_run_left_is_swept() {
    let Some(server) = Server::start() else { return };
    let network = Network::to(server.port());
    let mut world = World { server, network, cases: 0, runs: 0, failed: 0 };
    let run = |changes: &[(u8, u8)], killed_after| Run { changes: changes.to_vec(), killed_after };
    let step = |first| Step { runs: [first, run(&[], None)], faults: Vec::new(), evicted: false };
    // Two of the first file's three passages are there when the program is gone; then it is shorter, or gone itself.
    for later in [1, 0] {
        let begun = step(run(&[(0, 3), (1, 3)], Some(1)));
        let held = world.holds(&[begun, step(run(&[(0, later)], None))]);
        held.unwrap_or_else(|it| panic!("{later} passages later: {it}"));
    }
}

#[test]
fn homes_that_make_one_library_at_once_all_write_it() {
    let Some(server) = Server::start() else { return };
    for round in 0..6 {
        let library = format!("begun{round}");
        let files = Files::from([(1, (1, 2)), (2, (2, 1))]);
        let outcomes: Vec<riddle_milvus::Result<()>> = thread::scope(|scope| {
            let push_of = |home| {
                let (library, files, port) = (&library, &files, server.port());
                scope.spawn(move || push(&patient(port, library)?, home, files, None))
            };
            let homes: Vec<_> = (0..6).map(push_of).collect();
            homes.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        assert!(outcomes.iter().all(Result::is_ok), "{library}: {outcomes:?}");
        let about = store(server.port(), &library).and_then(|it| it.about());
        let about = about.expect("an answer").expect("there");
        assert_eq!((about.writers.len(), about.files()), (6, 12), "{library}");
        assert!(about.writers.iter().all(|it| it.complete), "{library}");
    }
}
