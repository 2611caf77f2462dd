//! A real server of Milvus' API, where it is installed.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{Running, skipped, workspace};

/// Time that it may take to start on a machine that builds at the same time.
const LONGEST_START: Duration = Duration::from_secs(90);

/// milvus-lite, which `.ci/milvus` fetches: Milvus' gRPC API in one process.
pub struct Server {
    process: Child,
    port: u16,
    data: TempDir,
}

impl Server {
    /// `None`, and said so, where it is not installed.
    pub fn start() -> Option<Server> {
        let folder = packages();
        if !folder.join("milvus_lite").is_dir() {
            skipped(
                "no library lives elsewhere: milvus-lite is not in .cache/milvus (`bash .ci/milvus` fetches it)",
            );
            return None;
        }
        let data = TempDir::new().expect("a temporary folder");
        let port = free_port();
        let process = serve(data.path(), port);
        let mut server = Server { process, port, data };
        if server.waits() {
            return Some(server);
        }
        skipped("no library lives elsewhere: milvus-lite is installed and does not start here");
        None
    }

    fn waits(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_START {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            if self.process.try_wait().is_ok_and(|it| it.is_some()) {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Address of a library on it.
    pub fn address(&self, library: &str) -> String {
        format!("milvus://127.0.0.1:{}/{library}", self.port)
    }

    /// Ends it; its data stay.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// On the same data and port.
    ///
    /// A milvus-lite that is killed while it makes or removes a collection leaves a folder without a schema, which it
    /// neither shows nor removes, and can not make anew. Milvus itself keeps its catalog in a store with transactions;
    /// here the folder goes, as the guide tells people to do.
    pub fn start_again(&mut self) {
        let collections = self.data.path().join("data").join("collections");
        for folder in std::fs::read_dir(collections).into_iter().flatten().flatten() {
            if !folder.path().join("schema.json").is_file() {
                std::fs::remove_dir_all(folder.path()).expect("removed");
            }
        }
        self.process = serve(self.data.path(), self.port);
        assert!(self.waits(), "the server starts again");
    }

    /// Changes a library's record behind everybody's back: that of the writers (`writer-`), or what all have in common.
    pub fn set_in_record(&self, library: &str, record: &str, field: &str, json: &str) {
        self.python(&format!(
            "name = 'riddle_{library}_about'\n\
             for row in c.query(name, filter='id like \"{record}%\"', output_fields=['id', 'record']):\n\
             \x20   record = json.loads(row['record'])\n\
             \x20   record['{field}'] = json.loads('''{json}''')\n\
             \x20   c.upsert(name, [{{'id': row['id'], 'record': json.dumps(record), 'nothing': [0.0, 0.0]}}])\n"
        ));
    }

    /// All rows of the libraries but their records, each library's as one JSON text with the rows in order.
    pub fn rows(&self, libraries: &[&str]) -> Vec<String> {
        let said = self.python(&format!(
            "for library in {libraries:?}:\n\
             \x20   all = {{}}\n\
             \x20   for part in ('passages', 'files', 'rules'):\n\
             \x20       name = f'riddle_{{library}}_{{part}}'\n\
             \x20       fields = [it['name'] for it in c.describe_collection(name)['fields']]\n\
             \x20       fields = [it for it in fields if not it.endswith('_bm25')]\n\
             \x20       c.load_collection(name)\n\
             \x20       found = c.query(name, filter='id > \"\"', output_fields=fields, limit=16000, \
             consistency_level='Strong')\n\
             \x20       all[part] = sorted(json.dumps(it, sort_keys=True, default=str) for it in found)\n\
             \x20   print(json.dumps(all))\n"
        ));
        said.lines().map(str::to_owned).collect()
    }

    /// What a script says that has a client `c` of the server.
    fn python(&self, script: &str) -> String {
        let script = format!(
            "import json\nfrom pymilvus import MilvusClient\n\
             c = MilvusClient(uri='http://127.0.0.1:{}')\n{script}",
            self.port
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]).env("PYTHONPATH", packages());
        let outcome = Running::start(command).wait();
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        outcome.stdout
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn packages() -> PathBuf {
    workspace().join(".cache").join("milvus")
}

fn serve(data: &Path, port: u16) -> Child {
    let mut command = Command::new("python3");
    command
        .args(["-m", "milvus_lite.cmdline", "server", "--host", "127.0.0.1", "--data-dir"])
        .arg(data.join("data"))
        .args(["--port", &port.to_string()])
        .env("PYTHONPATH", packages())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("python3 starts")
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}
