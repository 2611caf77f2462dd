//! `riddle status`.

use riddle_rag::{
    Assistant,
    encryption::is_encrypted,
    status::{ChangedFile, FileStatus, LatelyStatus, LibraryStatus, Status, StatusRequest},
};

use crate::{
    args::StatusArgs,
    context::Context,
    dates,
    failure::Failure,
    measures::{Times, say, with_measures},
    output::Style,
    show, words,
};

/// Shows the state of everything.
pub(crate) fn run(args: &StatusArgs, context: &Context) -> Result<(), Failure> {
    let status = Assistant::open(context.config.clone())?.status(StatusRequest {
        files: args.files,
        lately: args.lately,
        check: args.check,
    })?;
    if context.json {
        let mut value = with_measures(&status, &Times::new())?;
        say(&mut value, "problems", status.problems.iter().map(words::problem));
        value["encrypted"] = is_encrypted(&context.config).into();
        return context.out.json(&value);
    }
    context.out.text(page(&status, is_encrypted(&context.config), context.style))
}

/// All of it, for people.
fn page(status: &Status, is_encrypted: bool, style: Style) -> String {
    let encrypted = if is_encrypted { ", encrypted" } else { "" };
    let mut page = format!("home      {}{encrypted}\n", show::path(&status.home.to_string_lossy()));
    page.push_str(&folders(status, style));
    page.push_str(&contents(status, style));
    page.push_str(&models(status, style));
    for problem in &status.problems {
        page.push_str(&format!(
            "{} {}\n",
            style.yellow("problem:"),
            show::clean(&words::problem(problem))
        ));
    }
    for file in status.lately.newest.iter().flatten() {
        page.push_str(&changed(file));
    }
    for file in status.files.iter().flatten() {
        page.push_str(&line(file, style));
    }
    let peak = show::bytes(riddle_metrics::memory().peak_rss_bytes);
    page.push_str(&format!("{}\n", style.dim(format_args!("peak memory {peak}"))));
    page
}

/// The indexed folders, and parts of them that never leave this machine.
fn folders(status: &Status, style: Style) -> String {
    let mut page = String::new();
    for root in &status.roots {
        let scanned = root
            .last_scan
            .map_or("never read".to_owned(), |it| format!("read {}", dates::show(it)));
        let gone = if root.present { "" } else { ", not there now: nothing of it is removed" };
        let here = if root.confined { ", never leaves this machine" } else { "" };
        let share = show::share(root.looked_at_every);
        let path = show::path(&root.path.to_string_lossy());
        page.push_str(&format!("folder    {} ({scanned}{gone}{share}{here})\n", style.cyan(path)));
    }
    for part in
        status.confined.iter().filter(|it| !status.roots.iter().any(|root| root.path == **it))
    {
        let path = show::path(&part.to_string_lossy());
        page.push_str(&format!("part      {} (never leaves this machine)\n", style.cyan(path)));
    }
    page
}

/// What is indexed, what waits, and how large and how old the indexes are.
fn contents(status: &Status, style: Style) -> String {
    let mut page = format!("files     {}\n", style.bold(show::states(&status.states)));
    let kinds = show::kinds(&status.kinds);
    if !kinds.is_empty() {
        page.push_str(&format!("kinds     {kinds}\n"));
    }
    let LatelyStatus { files, days, .. } = status.lately;
    page.push_str(&format!(
        "lately    {} new or changed in the last {days} days\n",
        show::plural(files, "file")
    ));
    page.push_str(&format!("passages  {}\n", passages(status)));
    if let Some(pictures) = pictures(status) {
        page.push_str(&format!("scans     {pictures}\n"));
    }
    page.push_str(&format!("queue     {}\n", show::plural(status.queue, "file")));
    let sizes =
        status.index_bytes.iter().map(|(name, size)| format!("{name} {}", show::bytes(*size)));
    page.push_str(&format!("on disk   {}\n", sizes.collect::<Vec<_>>().join(" · ")));
    let as_of = status.index.as_of.map_or("never".to_owned(), dates::show);
    let behind = status.index.files_behind;
    let behind = if behind > 0 {
        format!(", {} behind", show::plural(behind, "file"))
    } else {
        String::new()
    };
    page.push_str(&format!("as of     {as_of}{behind}\n"));
    page
}

/// The models in use, the shared libraries, and all models that are installed.
fn models(status: &Status, style: Style) -> String {
    let or_none =
        |name: &Option<String>, none: &str| name.as_deref().map_or(none.to_owned(), show::clean);
    let at = status.embedding_server.as_deref().filter(|_| status.embedder.is_some());
    let at = at.map_or_else(String::new, |it| format!(" at {}", show::clean(it)));
    let mut page = format!(
        "embedder  {}{at}\n",
        or_none(&status.embedder, "none: keywords only (`riddle models pull all-MiniLM-L6-v2`)")
    );
    page.push_str(&format!(
        "reranker  {}\n",
        or_none(&status.reranker, "none: the fused order is shown")
    ));
    page.extend(status.libraries.iter().map(|it| library(it, style)));
    for model in &status.models {
        let active = if model.active { ", in use" } else { "" };
        let (name, size) = (show::clean(&model.name), show::bytes(model.bytes));
        page.push_str(&format!("model     {name} ({}, {size}{active})\n", model.kind));
    }
    page
}

/// A shared library, in one line.
fn library(it: &LibraryStatus, style: Style) -> String {
    let (name, address) = (show::clean(&it.name), show::clean(&it.address));
    let pushed = it
        .pushed_at
        .map_or_else(String::new, |at| format!(", written from here {}", dates::show(at)));
    format!("library   {} ({address}{pushed})\n", style.cyan(name))
}

/// How many pages are pictures, and what becomes of them.
fn pictures(status: &Status) -> Option<String> {
    let of = status.pictures;
    if of.read + of.waiting == 0 {
        return None;
    }
    let mut line = format!("{} of {} pages read", of.read, of.read + of.waiting);
    if of.waiting > 0 && !of.installed {
        line.push_str(" (`riddle models pull ocr-small` fetches what reads them)");
    } else if of.waiting > 0 {
        let left = words::about(of.seconds_left as f64);
        line.push_str(&if of.off {
            format!(" (turned off; `riddle index --scans all` takes {left})")
        } else {
            format!(", {left} left")
        });
    }
    Some(line)
}

/// How many passages there are, and what finds them.
fn passages(status: &Status) -> String {
    let all = status.chunks;
    let Some(meaning) = status.meaning.filter(|_| all > 0) else {
        return format!("{all}{}", if all > 0 { ", searchable by words" } else { "" });
    };
    let mut line = if meaning.done == meaning.passages {
        format!("{all}, searchable by words and by meaning")
    } else {
        let share = 100 * meaning.done / meaning.passages.max(1);
        format!("{all}, all searchable by words, {share} % by meaning")
    };
    if let Some(seconds) = meaning.seconds_left {
        line.push_str(&format!(", {} left", words::about(seconds)));
    }
    if let Some(rest) = meaning.waiting {
        line.push_str(&format!(" ({})", words::rest(rest)));
    }
    if meaning.words_alone > 0 {
        line.push_str(&format!("; {} of numbers by words alone", meaning.words_alone));
    }
    if meaning.kept_here > 0 {
        line.push_str(&format!("; {} that never leave this machine, too", meaning.kept_here));
    }
    line
}

/// A file that is new or has changed, in one line.
fn changed(file: &ChangedFile) -> String {
    let state = file.state.as_str().replace('_', " ");
    let (at, path) = (dates::show(file.changed), show::path(&file.path));
    format!("{at}  {state:<12} {:<12} {path}\n", file.kind)
}

/// A file of the ledger, in one line.
fn line(file: &FileStatus, style: Style) -> String {
    let mut line = format!(
        "{:<12} {:<12} {:>8}  {}",
        file.state.as_str().replace('_', " "),
        file.kind,
        show::bytes(file.bytes),
        show::path(&file.path)
    );
    let reasons = file.reason.iter().chain(&file.warnings).filter(|it| !it.is_empty());
    let reasons: Vec<String> = reasons.map(|it| show::clean(it)).collect();
    if !reasons.is_empty() {
        line.push_str(&style.dim(format_args!(" — {}", reasons.join("; "))));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use riddle_rag::status::{IndexFreshness, Problem, RootStatus};
    use riddle_types::FileState;

    use super::*;

    #[test]
    fn a_page_says_what_is_there_and_what_is_wrong() {
        let status = Status {
            home: PathBuf::from("/data/riddle"),
            roots: vec![
                RootStatus {
                    path: PathBuf::from("/media/disk"),
                    present: false,
                    last_scan: Some(0),
                    confined: true,
                    looked_at_every: None,
                },
                RootStatus {
                    path: PathBuf::from("/mnt/nas"),
                    present: true,
                    last_scan: None,
                    confined: false,
                    looked_at_every: Some(5),
                },
            ],
            confined: vec![PathBuf::from("/media/disk/medical")],
            states: BTreeMap::from([("indexed", 2), ("failed", 1)]),
            kinds: BTreeMap::from([("mail", 88), ("pdf", 312), ("spreadsheet", 1), ("text", 88)]),
            lately: LatelyStatus {
                days: 7,
                files: 1,
                newest: Some(vec![ChangedFile {
                    path: "/media/disk/b.eml".to_owned(),
                    state: FileState::Indexed,
                    kind: "mail".to_owned(),
                    changed: 60,
                }]),
            },
            queue: 1,
            index: IndexFreshness { as_of: Some(0), files_behind: 1 },
            problems: vec![Problem::KeywordIndexBehind],
            files: Some(vec![FileStatus {
                path: "/media/disk/a.pdf".to_owned(),
                state: FileState::NoText,
                reason: Some("no text layer".to_owned()),
                kind: "pdf".to_owned(),
                bytes: 12,
                chunks: 0,
                warnings: Vec::new(),
            }]),
            libraries: vec![LibraryStatus {
                name: "team".to_owned(),
                address: "milvus://box:19530/team".to_owned(),
                pushed_at: Some(0),
                folders: Vec::new(),
                originals: None,
            }],
            ..Status::default()
        };
        let shown = page(&status, false, Style::with_colors(false));
        for part in [
            "folder    /media/disk (read 1970-01-01 00:00 UTC, not there now: nothing of it is removed, never leaves this machine)\n",
            "folder    /mnt/nas (never read, on a network share: looked at every 5 minutes)\n",
            "part      /media/disk/medical (never leaves this machine)\n",
            "files     2 indexed · 1 failed\n",
            "kinds     312 PDF · 88 e-mail · 88 texts · 1 table\n",
            "lately    1 file new or changed in the last 7 days\n",
            "1970-01-01 00:01 UTC  indexed      mail         /media/disk/b.eml\n",
            "queue     1 file\n",
            "as of     1970-01-01 00:00 UTC, 1 file behind\n",
            "embedder  none: keywords only",
            "reranker  none: the fused order is shown\n",
            "library   team (milvus://box:19530/team, written from here 1970-01-01 00:00 UTC)\n",
            "problem: the keyword index is behind: run `riddle index`\n",
            "no text      pdf              12 B  /media/disk/a.pdf — no text layer\n",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
        // An empty library has no kinds, and says that nothing is new.
        let shown = page(&Status::default(), false, Style::with_colors(false));
        assert!(!shown.contains("kinds "), "{shown}");
        assert!(shown.contains("lately    0 files new or changed"), "{shown}");
    }
}
