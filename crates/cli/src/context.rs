//! What every command needs: the configuration, the instruments, and whether the user wants to stop.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use riddle_metrics::{StageLayer, StageTimings};
use riddle_rag::{Config, Records, models::Places};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::{
    args::{
        Global, embedder_key_of_environment, library_key_of_environment,
        originals_key_of_environment, ranker_key_of_environment,
    },
    failure::Failure,
    interrupt::Stop,
    measures::Times,
    output::{Output, Style},
};

/// Everything around a command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) json: bool,
    pub(crate) out: Output,
    pub(crate) style: Style,
    stop: Stop,
    timings: StageTimings,
}

impl Context {
    /// Reads the environment once and installs the subscriber.
    pub(crate) fn new(global: &Global, stop: Stop) -> Result<Context, Failure> {
        let (layer, timings) = StageLayer::new();
        let log = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_filter(log_filter(global.verbose));
        // A second subscriber exists only in tests that run commands in this process.
        let _ = tracing_subscriber::registry().with(layer).with(log).try_init();
        Ok(Context {
            config: config(global)?,
            json: global.json,
            out: Output,
            style: Style::of_stdout(),
            stop,
            timings,
        })
    }

    /// Lets an endpoint be asked from now on, and says so.
    pub(crate) fn allow_endpoint(&self, url: &str) -> Result<(), Failure> {
        let origin = Records::open(self.config.clone())?.allow_endpoint(url, true)?;
        // With stderr closed there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "riddle: {origin} may be sent questions and passages from now on"
        );
        Ok(())
    }

    /// Lets the whole home be sent to a server that embeds, but folders that never leave this machine, and says so.
    pub(crate) fn allow_embedder(&self, url: &str) -> Result<(), Failure> {
        let origin = Records::open(self.config.clone())?.allow_embedder(url)?;
        // With stderr closed there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "riddle: {origin} may be sent every passage, but those of folders that never leave this machine, and \
             everything that you search for, from now on"
        );
        Ok(())
    }

    /// Stage times since the last call.
    pub(crate) fn take_times(&self) -> Times {
        self.timings.take()
    }

    /// The flag for long work.
    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Whether the user pressed Ctrl-C.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// A model's name as it may be kept: the directory it names is made absolute, because the next command may
/// run elsewhere.
pub(crate) fn lasting_name(name: &str) -> std::io::Result<String> {
    if !Path::new(name).join("config.json").is_file() {
        return Ok(name.to_owned());
    }
    let absolute = std::path::absolute(name)?;
    Ok(absolute.to_str().map_or_else(|| name.to_owned(), str::to_owned))
}

/// Logs are for finding faults: without -v an error is one line, printed at the end.
fn log_filter(verbose: u8) -> Targets {
    let level = match verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // Libraries of others are loud and seldom the fault.
    let others = if verbose > 2 { LevelFilter::DEBUG } else { LevelFilter::OFF };
    Targets::new().with_default(others).with_target("riddle", level)
}

/// Variables whose value opens something.
const SECRETS: [&str; 9] = [
    "RIDDLE_PASSPHRASE",
    "RIDDLE_NEW_PASSPHRASE",
    "RIDDLE_LLM_KEY",
    "RIDDLE_LIBRARY_KEY",
    "RIDDLE_ORIGINALS_KEY",
    "RIDDLE_RERANK_KEY",
    "RIDDLE_EMBED_KEY",
    "HF_TOKEN",
    "MODELSCOPE_API_TOKEN",
];

fn config(global: &Global) -> Result<Config, Failure> {
    // An empty variable is one that a script meant to unset.
    let given = |path: &Option<PathBuf>| path.clone().filter(|it| !it.as_os_str().is_empty());
    let home = given(&global.home).or_else(Config::default_home).ok_or_else(|| {
        Failure::run(
            "there is no home folder to keep the index in: give one with --home DIR or RIDDLE_HOME",
        )
    })?;
    let mut config = Config::new(std::path::absolute(home)?);
    config.models = given(&global.models_dir).map(std::path::absolute).transpose()?;
    config.elsewhere = Places::of_person();
    config.offline = global.offline;
    config.parse_worker.secrets = SECRETS.iter().map(Into::into).collect();
    config.library_key = library_key_of_environment();
    config.originals_key = originals_key_of_environment();
    config.ranker_key = ranker_key_of_environment();
    config.embedder_key = embedder_key_of_environment();
    Ok(config)
}
