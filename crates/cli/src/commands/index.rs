//! `riddle index`.

use std::path::Path;

use riddle_rag::{
    Library,
    indexing::{IndexEvent, IndexReport, ReadScans},
    servers::StageServer,
};
use riddle_types::FileState;

use crate::{
    args::IndexArgs,
    context::{Context, lasting_name},
    failure::Failure,
    measures::{Times, say, with_measures},
    output::Style,
    progress::Progress,
    show, words,
};

/// Adds the folders and brings the index up to date, once or until Ctrl-C.
pub(crate) fn run(args: &IndexArgs, context: &Context) -> Result<(), Failure> {
    // All paths are looked at before anything is changed: half a command is worse than none.
    for path in &args.paths {
        check_path(path)?;
    }
    let server = args.embedder.as_deref().and_then(StageServer::of);
    match &server {
        Some(server) if args.allow_endpoint => context.allow_embedder(&server.url)?,
        None if args.allow_endpoint || args.prompts.given().is_some() => {
            return Err(Failure::usage(
                "--allow-endpoint and prompts are for a server that --embedder names by its address",
            ));
        }
        _ => {}
    }
    let mut library = Library::open(context.config.clone())?;
    prepare(args, &mut library)?;
    let mut progress = Progress::new();
    let mut folders = 0;
    let mut observer = |event: IndexEvent<'_>| {
        match event {
            IndexEvent::Scanning(_) => folders += 1,
            IndexEvent::Watching => tracing::info!("up to date, watching for changes"),
            _ => {}
        }
        progress.index(&event);
    };
    let report = if args.watch {
        library.watch(&mut observer, context.stop_flag())?
    } else {
        library.update(&mut observer, context.stop_flag())?
    };
    progress.clear();
    if folders == 0 {
        return Err(Failure::run("no folder is indexed yet: run `riddle index FOLDER`"));
    }
    let times = context.take_times();
    if context.json {
        let mut value = with_measures(&report, &times)?;
        say(&mut value, "notices", report.notices.iter().map(words::notice));
        context.out.json(&value)?;
    } else {
        context.out.text(summary(&report, &times, context.style))?;
    }
    // Ctrl-C is how watching ends; anywhere else it leaves work undone.
    let waiting = report.states.get(FileState::Pending.as_str()).copied().unwrap_or(0);
    if report.interrupted || (context.stopped() && waiting > 0) {
        return Err(Failure::run(
            "interrupted: what was read is kept and the rest waits in the queue; run `riddle index` to go on",
        ));
    }
    Ok(())
}

/// Does what is to be done before files are read: new folders, and what holds from now on.
fn prepare(args: &IndexArgs, library: &mut Library) -> Result<(), Failure> {
    if let Some(embedder) = &args.embedder {
        match StageServer::of(embedder) {
            Some(server) => {
                library.choose_embedding_server(&server, args.prompts.given())?;
            }
            None => library.choose_embedder(&lasting_name(embedder)?)?,
        }
    }
    for path in &args.paths {
        library.add_root(path)?;
    }
    if let Some(percent) = args.cpu {
        library.limit_meaning(percent)?;
    }
    if let Some(memory) = args.embedder_memory {
        library.limit_embedder(memory.0)?;
    }
    if let Some(mib) = args.largest_file {
        library.limit_files(mib)?;
    }
    if let Some(may) = args.on_battery {
        library.mean_on_battery(may)?;
    }
    if let Some(may) = args.terms {
        library.weigh_terms(may)?;
    }
    if let Some(which) = args.scans.as_deref().and_then(ReadScans::parse) {
        library.read_scans(which)?;
    }
    if let Some(may) = args.browsing_history {
        library.read_browsing(may)?;
    }
    if args.retry_failed {
        library.retry_failed()?;
    }
    Ok(())
}

fn check_path(path: &Path) -> Result<(), Failure> {
    let why = match path.metadata() {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => "it is a file: give the folder it is in".to_owned(),
        Err(error) => format!("{}: give an existing folder", show::io_reason(&error)),
    };
    Err(Failure::run(format!("{}: {why}", path.display())))
}

/// What was done and what is there, for people.
fn summary(report: &IndexReport, times: &Times, style: Style) -> String {
    let mut page = format!("{}\n", style.bold(show::states(&report.states)));
    let changes = [
        (report.new, "new"),
        (report.changed, "changed"),
        (report.moved, "moved"),
        (report.removed, "removed"),
        (report.unchanged, "unchanged"),
    ];
    let changes: Vec<String> = changes
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !changes.is_empty() {
        page.push_str(&format!("since the last time: {}\n", changes.join(" · ")));
    }
    page.push_str(&format!(
        "{} read and {} embedded in {:.1} s; {} in the index\n",
        show::plural(report.read, "file"),
        show::plural(report.embedded, "passage"),
        report.seconds,
        show::plural(report.chunks, "passage"),
    ));
    if let Some(remote) = &report.remote {
        page.push_str(&show::remote(remote));
    }
    let failed = report.states.get("failed").copied().unwrap_or(0);
    if failed > 0 {
        page.push_str(&format!(
            "{} failed: `riddle status --files` says why, `riddle index --retry-failed` tries again\n",
            show::plural(failed, "file")
        ));
    }
    for (path, why) in &report.unreachable {
        let (path, why) = (show::path(&path.to_string_lossy()), show::clean(why));
        page.push_str(&format!("{} {path}: {why}\n", style.yellow("not reachable:")));
    }
    for notice in &report.notices {
        page.push_str(&format!(
            "{} {}\n",
            style.yellow("note:"),
            show::clean(&words::notice(notice))
        ));
    }
    let peak = show::bytes(riddle_metrics::memory().peak_rss_bytes);
    let parser = show::bytes(report.peak_parser_rss_bytes);
    let line = format!("{} · peak memory {peak}, parsers {parser}", show::times(times));
    page.push_str(&format!("{}\n", style.dim(line.trim_start_matches(" · "))));
    page
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;

    #[test]
    fn the_summary_counts_states_and_names_what_is_missing() {
        let report = IndexReport {
            new: 3,
            removed: 1,
            read: 3,
            embedded: 1,
            chunks: 40,
            states: BTreeMap::from([("indexed", 12), ("failed", 2)]),
            unreachable: vec![(PathBuf::from("/media/disk"), "not mounted".to_owned())],
            ..IndexReport::default()
        };
        let shown = summary(&report, &Times::new(), Style::with_colors(false));
        for part in [
            "12 indexed · 2 failed\n",
            "since the last time: 3 new · 1 removed\n",
            "3 files read and 1 passage embedded in 0.0 s; 40 passages in the index\n",
            "2 files failed: `riddle status --files`",
            "not reachable: /media/disk: not mounted\n",
            "peak memory ",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }
}
