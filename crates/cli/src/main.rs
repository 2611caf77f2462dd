//! The `riddle` command: people get readable output, scripts get `--json`.
//!
//! `main` dispatches; each command is a module of [`commands`] that calls the façade once and shows what
//! comes back. Nothing is decided here that another top (the desktop shell, a server) would need too.
//!
//! Not here: searching, indexing, answering (`riddle-rag`), datasets and measures (`riddle-eval`),
//! time and memory of the reranker (`riddle-bench`).

mod args;
mod commands;
mod context;
mod dates;
mod failure;
mod interrupt;
mod library;
mod measures;
mod output;
mod passphrase;
mod progress;
mod show;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{
    args::{Cli, Command, Global},
    context::Context,
    failure::{Failure, report},
};

fn main() -> ExitCode {
    riddle_metrics::return_freed_memory();
    // A parser's process does one thing, in little memory: before anything else is set up.
    if std::env::args_os().nth(1).is_some_and(|it| it == args::PARSE_WORKER) {
        return commands::parse_worker::run();
    }
    // A measured process is measured from its beginning.
    if std::env::args_os().nth(1).is_some_and(|it| it == args::BENCH_WORKER) {
        return commands::bench_worker::run();
    }
    match Cli::try_parse() {
        Ok(cli) => interrupt::guard(cli.command.stops_gracefully(), move |stop| run(cli, stop)),
        Err(error) => usage(&error),
    }
}

/// Help and version go to stdout with 0, wrong usage to stderr with 2.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is the reader's choice: nobody is left to tell.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(cli: Cli, stop: interrupt::Stop) -> ExitCode {
    let outcome = Context::new(&cli.global, stop).and_then(|context| {
        match dispatch(&cli.command, &cli.global, &context) {
            // A command that needs what is encrypted fails before it has done anything: with the key it runs again.
            Err(failure) if failure.is_sealed() && passphrase::unlock(&context)? => {
                dispatch(&cli.command, &cli.global, &context)
            }
            outcome => outcome,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            failure.exit_code()
        }
    }
}

fn dispatch(command: &Command, global: &Global, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Index(args) => commands::index::run(args, context),
        Command::Search(args) => commands::search::run(args, context),
        Command::Find(args) => commands::find::run(args, context),
        Command::Ask(args) => commands::ask::run(args, context),
        Command::Status(args) => commands::status::run(args, context),
        Command::Check(args) => commands::check::run(*args, context),
        Command::Encrypt(args) => commands::encrypt::run(*args, context),
        Command::Decrypt => commands::encrypt::decrypt(context),
        Command::Export(args) => commands::check::export(args, context),
        Command::Import(args) => commands::check::import(args, context),
        Command::Folders(args) => commands::folders::run(args, context),
        Command::Library(args) => commands::library::run(args, context),
        Command::Plan(args) => commands::plan::run(args, context),
        Command::Cache(args) => commands::cache::run(args, context),
        Command::Llm(args) => commands::llm::run(args, context),
        Command::Rerank(args) => commands::rerank::run(args, context),
        Command::Models(args) => commands::models::run(args, context),
        Command::Eval(args) => commands::eval::run(args, context),
        Command::Compress(args) => commands::compress::run(args, context),
        Command::Bench(args) => commands::bench::run(args, context),
        Command::Serve(args) => commands::serve::run(args, context),
        Command::Mcp(args) => commands::mcp::run(args, global, context),
        Command::Clients(args) => commands::clients::run(args, context),
        Command::Toggle => commands::toggle::run(),
        Command::DesktopSearch(args) => commands::desktop_search::run(args, context),
        Command::Completions(args) => commands::completions::run(args, context),
        Command::Man(args) => commands::man::run(args, context),
    }
}
