//! `riddle check`, `riddle export`, `riddle import`.

use riddle_rag::{
    Library,
    indexing::IndexEvent,
    upkeep::{self, CheckReport},
};
use serde_json::json;

use crate::{
    args::{CheckArgs, ExportArgs, ImportArgs, passphrase_of_environment},
    context::Context,
    failure::Failure,
    measures::{Times, say, with_measures},
    passphrase,
    progress::Progress,
    show, words,
};

/// Looks at everything; with the flag puts right what can be.
pub(crate) fn run(args: CheckArgs, context: &Context) -> Result<(), Failure> {
    let mut report = upkeep::check(&context.config)?;
    let found = report.problems.len();
    if args.repair && found > 0 {
        let mut library = Library::open(context.config.clone())?;
        let mut progress = Progress::new();
        let observer = &mut |event: IndexEvent<'_>| progress.index(&event);
        library.repair(&report.problems, observer, context.stop_flag())?;
        progress.clear();
        report = upkeep::check(&context.config)?;
    }
    if context.json {
        let mut value = with_measures(&report, &Times::new())?;
        say(&mut value, "problems", report.problems.iter().map(words::problem));
        value["repaired"] = json!(found.saturating_sub(report.problems.len()));
        context.out.json(&value)?;
    } else {
        context.out.text(page(&report, found))?;
    }
    if report.problems.is_empty() {
        return Ok(());
    }
    let advice = if args.repair { "" } else { ": `riddle check --repair` puts right what can be" };
    let problems = show::plural(report.problems.len() as u64, "problem");
    Err(Failure::run(format!("{problems} found{advice}")))
}

fn page(report: &CheckReport, found: usize) -> String {
    let (files, passages) =
        (show::plural(report.files, "file"), show::plural(report.passages, "passage"));
    let mut page = format!("{files} and {passages} looked at\n");
    for problem in &report.problems {
        page.push_str(&format!("problem: {}\n", show::clean(&words::problem(problem))));
    }
    let repaired = found.saturating_sub(report.problems.len());
    if repaired > 0 {
        page.push_str(&format!("{} put right\n", show::plural(repaired as u64, "problem")));
    }
    if report.problems.is_empty() {
        page.push_str("all is well\n");
    }
    page
}

/// Writes the home to a file.
pub(crate) fn export(args: &ExportArgs, context: &Context) -> Result<(), Failure> {
    let exported = upkeep::export_home(&context.config, &args.to)?;
    let bytes = exported.bytes;
    if context.json {
        return context.out.json(&json!({ "file": args.to, "bytes": bytes, "key": exported.key }));
    }
    let file = show::path(&args.to.to_string_lossy());
    let mut page = format!(
        "{file} written ({}): `riddle import {file} --home DIR` makes a home of it, on this machine or another\n",
        show::bytes(bytes)
    );
    if let Some(key) = &exported.key {
        let key = show::path(&key.to_string_lossy());
        page.push_str(&format!(
            "{key} belongs to it: keep both side by side; with the passphrase they open it, and neither does alone\n"
        ));
    }
    context.out.text(page)
}

/// Makes a home of a file.
pub(crate) fn import(args: &ImportArgs, context: &Context) -> Result<(), Failure> {
    let passphrase = if upkeep::is_export_encrypted(&args.from)? {
        match passphrase_of_environment() {
            None if passphrase::can_ask() => passphrase::ask("Passphrase of that home: ")?,
            None => {
                let file = show::path(&args.from.to_string_lossy());
                return Err(Failure::run(format!(
                    "{file} is encrypted: give the passphrase of the home it is from in RIDDLE_PASSPHRASE"
                )));
            }
            given => given,
        }
    } else {
        None
    };
    let folders =
        upkeep::import_home(&context.config, &args.from, &args.moved, passphrase.as_deref())?;
    if context.json {
        return context.out.json(&json!({ "folders": folders }));
    }
    let mut page = String::new();
    for folder in &folders {
        let there =
            if folder.is_dir() { "" } else { " (not here: import it with --moved OLD=NEW)" };
        page.push_str(&format!("folder    {}{there}\n", show::path(&folder.to_string_lossy())));
    }
    page.push_str("imported: run `riddle index` to make its search indexes\n");
    context.out.text(page)
}
