//! The desktop app: a thin shell around the façade.
//!
//! [`commands`] is what the interface may ask, [`dto`] what crosses the border; `ui/src/lib/bindings.ts` is
//! generated from both. [`shell::Shell`] is the state behind: the [`engine`]'s threads search, the [`indexer`]'s
//! thread owns the library. Commands are generic over Tauri's runtime, so that the same handlers run in tests
//! without a display, under the real permissions.
//!
//! Not here: searching, indexing, answering (`riddle-rag`), and anything that another top would need too.

// No console window beside the app on Windows.
#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod commands;
mod context;
mod convert;
mod desktop;
mod doing;
mod door;
mod dto;
mod engine;
mod failure;
mod figures;
mod folders;
mod gate;
mod indexer;
mod instance;
mod link;
mod open;
mod players;
mod requests;
mod session;
mod shell;
#[cfg(test)]
mod tests;
#[cfg(any(target_os = "linux", test))]
mod view;
mod window;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use riddle_rag::{Config, models::Places};
use tauri::{Builder, Manager as _, RunEvent, Runtime, ipc::Invoke};
use tauri_plugin_autostart::MacosLauncher;

use crate::{
    gate::{Gate, Purpose},
    instance::{Ask, Instance},
    shell::Shell,
};

/// How the façade starts a parser: this program with this word.
const PARSE_WORKER: &str = "parse-worker";

fn main() -> ExitCode {
    riddle_metrics::return_freed_memory();
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        // A parser's process does one thing, in little memory: before anything else is set up.
        [PARSE_WORKER, ..] => return riddle_rag::indexing::worker_main(),
        ["toggle"] => start(Ask::Toggle, false, Purpose::Open),
        ["--hidden"] => start(Ask::Show, true, Purpose::Open),
        [gate::ENCRYPT] => start(Ask::Show, false, Purpose::Encrypt),
        [gate::DECRYPT] => start(Ask::Show, false, Purpose::Decrypt),
        ["search", text] => start(link::search(text).unwrap_or(Ask::Show), false, Purpose::Open),
        // What a desktop hands over when a link was chosen.
        [link] => start(link::parse(link).unwrap_or(Ask::Show), false, Purpose::Open),
        _ => start(Ask::Show, false, Purpose::Open),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Tells the program that runs already, or becomes it.
fn start(ask: Ask, hidden: bool, purpose: Purpose) -> anyhow::Result<()> {
    log();
    let config = config()?;
    let listener = match instance::meet(&config.home, &ask) {
        Ok(Instance::Told) => return Ok(()),
        Ok(Instance::First(listener)) => Some(listener),
        Err(error) => {
            tracing::warn!("a second start will not find this program: {error}");
            None
        }
    };
    let home = config.home.clone();
    let gate = Gate::new(config.clone(), purpose, ask);
    let closed = gate.is_closed().context("the home can not be used")?;
    let shell =
        if closed { None } else { Some(Shell::open(config).context("the home can not be used")?) };
    let app = equip(Builder::<tauri::Wry>::new(), gate, shell)
        // Whoever has to be asked for a passphrase is not asked in the background.
        .manage(window::StartHidden((hidden && !closed).into()))
        .plugin(tauri_plugin_autostart::init(MacosLauncher::LaunchAgent, Some(vec!["--hidden"])))
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_global_shortcut::Builder::new().build())
        .plugin(window_state())
        .setup(move |app| {
            window::create(app)?;
            let handle = app.handle().clone();
            if let Some(listener) = listener {
                instance::serve(listener, move |ask| match ask {
                    Ask::Show => window::summon(&handle),
                    Ask::Toggle => window::toggle(&handle),
                    Ask::Passage(_) | Ask::Search(_) => window::summon_for(&handle, ask),
                });
            }
            if let (Some(shell), Some(gate)) = (app.try_state::<Shell>(), app.try_state::<Gate>()) {
                gate.begin(app.handle(), &shell);
            }
            Ok(())
        })
        .build(context())?;
    app.run(move |app, event| {
        if let RunEvent::Exit = event {
            // Whoever is started from now on is the first.
            instance::leave(&home);
            if let Some(shell) = app.try_state::<Shell>() {
                shell.close();
            }
            if let Some(gate) = app.try_state::<Gate>() {
                gate.again();
            }
        }
    });
    Ok(())
}

/// Where the window was and how large; whether it is seen is ours to decide.
fn window_state<R: Runtime>() -> tauri::plugin::TauriPlugin<R> {
    use tauri_plugin_window_state::StateFlags;
    tauri_plugin_window_state::Builder::new()
        .with_state_flags(StateFlags::all() & !StateFlags::VISIBLE)
        .build()
}

/// The state and the commands, for any runtime; without a shell the library waits behind its gate.
fn equip<R: Runtime>(builder: Builder<R>, gate: Gate, shell: Option<Shell>) -> Builder<R> {
    let builder = match shell {
        Some(shell) => builder.manage(shell),
        None => builder,
    };
    builder.manage(gate).manage(desktop::Words::default()).invoke_handler(handler())
}

// Long: the macro makes one function of all commands in one call, a line for each.
fn handler<R: Runtime>() -> impl Fn(Invoke<R>) -> bool + Send + Sync + 'static {
    tauri::generate_handler![
        commands::about,
        commands::ask,
        commands::ask_preview,
        commands::calibration,
        commands::door,
        commands::door_add,
        commands::door_log_forget,
        commands::door_remove,
        commands::door_revoke,
        commands::door_set,
        commands::door_switch,
        commands::encryption,
        commands::encryption_begin,
        commands::encryption_change,
        commands::endpoint_key,
        commands::endpoint_key_forget,
        commands::endpoint_key_set,
        commands::events,
        commands::finish_first_run,
        commands::gate,
        commands::gate_decrypt,
        commands::gate_encrypt,
        commands::gate_leave,
        commands::gate_unlock,
        commands::history,
        commands::history_delete,
        commands::kept_answers,
        commands::kept_answers_delete,
        commands::reuse_set,
        commands::history_thread,
        commands::ledger,
        commands::ledger_exclude,
        commands::ledger_retry,
        commands::library,
        commands::library_add,
        commands::library_add_dialog,
        commands::library_browsing,
        commands::library_confine,
        commands::library_meaning,
        commands::library_pause,
        commands::library_rebuild,
        commands::library_remove,
        commands::library_rescan,
        commands::library_scans,
        commands::model_cancel,
        commands::model_import,
        commands::model_import_dialog,
        commands::model_plan,
        commands::model_pull,
        commands::model_remove,
        commands::model_source,
        commands::model_source_set,
        commands::model_token_forget,
        commands::model_token_set,
        commands::model_trial,
        commands::model_trial_stop,
        commands::model_use,
        commands::model_use_server,
        commands::model_verify,
        commands::models,
        commands::note_first_hits,
        commands::open_file,
        commands::open_film,
        commands::performance,
        commands::performance_export,
        commands::pipeline,
        commands::pipeline_compare,
        commands::pipeline_curve,
        commands::pipeline_replay,
        commands::preview,
        commands::preview_bytes,
        commands::ready,
        commands::reveal_file,
        commands::rule_preview,
        commands::rules,
        commands::rules_set,
        commands::search,
        commands::settings,
        commands::settings_set,
        commands::shared_add,
        commands::shared_key,
        commands::shared_map,
        commands::shared_evict,
        commands::shared_libraries,
        commands::shared_look,
        commands::shared_originals,
        commands::shared_push,
        commands::shared_push_stop,
        commands::shared_remove,
        commands::start,
        commands::stop_answer,
        commands::stop_search,
        commands::suggested_folders,
        commands::system_words,
        commands::warm,
        commands::why,
    ]
}

/// The home and the models, from the same places as the command line's.
fn config() -> anyhow::Result<Config> {
    let given = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = given("RIDDLE_HOME")
        .or_else(Config::default_home)
        .context("there is no home folder to keep the index in: set RIDDLE_HOME to a folder")?;
    let mut config = Config::new(std::path::absolute(home)?);
    config.models = given("RIDDLE_MODELS").map(std::path::absolute).transpose()?;
    config.elsewhere = Places::of_person();
    config.parse_worker.secrets = vec!["RIDDLE_LLM_KEY".into()];
    Ok(config)
}

/// Warnings go to stderr, where a person who starts the app from a terminal sees them.
fn log() {
    use tracing_subscriber::{
        Layer as _, filter::LevelFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _,
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_filter(LevelFilter::WARN);
    // A second subscriber exists only in tests.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// What `tauri.conf.json` and the built interface say, for any runtime.
// The macro's own code ends the program where its resources can not be read; it is not ours to change.
#[allow(clippy::disallowed_methods)]
pub(crate) fn context<R: tauri::Runtime>() -> tauri::Context<R> {
    tauri::generate_context!()
}
