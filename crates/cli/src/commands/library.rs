//! `riddle library`: libraries that live elsewhere.

use std::path::Path;

use riddle_rag::{
    Records,
    shared::{LibraryInfo, LibraryWriter, PushOptions, PushReport, push_library},
    status::KeyState,
};
use serde_json::json;

use super::llm::read_key;
use crate::{
    args::{LibraryArgs, LibraryCommand, LibraryKeyCommand},
    context::Context,
    dates,
    failure::Failure,
    output::Style,
    progress::Progress,
    show, words,
};

/// Does what was asked with the libraries; a key itself is never shown.
pub(crate) fn run(args: &LibraryArgs, context: &Context) -> Result<(), Failure> {
    let records = Records::open(context.config.clone())?;
    match &args.command {
        LibraryCommand::Add { name, address } => {
            let added = records.add_library(name, address)?;
            say(
                context,
                &json!({ "added": added }),
                format!("{name} is the library at {}", added.address),
            )
        }
        LibraryCommand::Remove { name } => {
            records.remove_library(name)?;
            let said = format!("{name} is forgotten here; the library stays where it is");
            say(context, &json!({ "removed": name }), said)
        }
        LibraryCommand::List => list(&records.look_at_libraries()?, context),
        LibraryCommand::Key { command } => key(&records, command, context),
        LibraryCommand::Map { name, there, here } => {
            let library = records.map_folder(name, there, here)?;
            let said = format!("files of {name} below {there} are opened from {}", here.display());
            say(context, &json!({ "library": library }), said)
        }
        LibraryCommand::Unmap { name, there } => {
            let library = records.unmap_folder(name, there)?;
            let said = format!("where {there} of {name} is on this computer is forgotten");
            say(context, &json!({ "library": library }), said)
        }
        LibraryCommand::Originals { name, place, .. } => {
            let library = records.set_originals(name, place.as_deref())?;
            let said = match &library.originals {
                Some(place) => {
                    format!("files of {name} are kept in {place}, and opened from there")
                }
                None => format!("no object store keeps the files of {name} for this computer"),
            };
            say(context, &json!({ "library": library }), said)
        }
        LibraryCommand::Fetch { name, path, to } => {
            fetch(&records, name, path, to.as_deref(), context)
        }
        LibraryCommand::Evict { name, computer } => {
            let evicted = records.evict_writer(name, computer)?;
            let said = format!(
                "what {} wrote to {name} is removed: {}, {}",
                evicted.machine,
                show::plural(evicted.files, "file"),
                show::plural(evicted.passages, "passage")
            );
            say(context, &json!({ "evicted": evicted }), said)
        }
        LibraryCommand::Push { name, take_over, anew } => {
            drop(records);
            let options = PushOptions { take_over: *take_over, anew: *anew };
            push(name, options, context)
        }
    }
}

fn say(context: &Context, value: &serde_json::Value, words: String) -> Result<(), Failure> {
    if context.json {
        return context.out.json(value);
    }
    context.out.line(show::clean(&words))
}

fn list(libraries: &[LibraryInfo], context: &Context) -> Result<(), Failure> {
    if context.json {
        let one = |it: &LibraryInfo| {
            let mut value = serde_json::to_value(it).unwrap_or_default();
            value["problem"] = json!(it.problem.as_ref().map(words::trouble));
            value
        };
        let all: Vec<_> = libraries.iter().map(one).collect();
        return context.out.json(&json!({ "libraries": all }));
    }
    if libraries.is_empty() {
        return context.out.line(
            "no shared library is known: `riddle library add NAME milvus://HOST:PORT/NAME` adds one",
        );
    }
    context.out.text(libraries.iter().map(|it| line(it, context.style)).collect::<String>())
}

/// A library in one line.
fn line(it: &LibraryInfo, style: Style) -> String {
    let name = style.bold(show::clean(&it.library.name));
    let address = style.cyan(show::clean(&it.library.address));
    let told = match (&it.problem, &it.embedder) {
        (Some(problem), _) => show::clean(&words::trouble(problem)),
        (None, None) => "nothing is there yet: `riddle library push` writes it".to_owned(),
        (None, Some(embedder)) => {
            let mut parts = vec![
                show::plural(it.files, "file"),
                show::plural(it.passages, "passage"),
                format!("embedder {}", show::clean(embedder)),
            ];
            if let [writer] = &it.writers[..] {
                parts.push(format!("from {}", show::clean(&writer.machine)));
            }
            parts.extend(it.written_at.map(|it| format!("as of {}", dates::show(it))));
            if !it.with_rights {
                parts.push(
                    "does not say who may read what: `riddle library push --anew` writes that, too"
                        .to_owned(),
                );
            }
            if it.unfinished {
                parts.push("being written, or broken off".to_owned());
            }
            parts.join(" · ")
        }
    };
    let mut lines = format!("{name}  {address}\n    {told}\n");
    if it.writers.len() > 1 {
        lines.extend(it.writers.iter().map(|it| format!("    {}\n", writer(it))));
    }
    for folder in &it.library.folders {
        let (there, here) = (show::clean(&folder.there), folder.here.display().to_string());
        lines.push_str(&format!("    {there} is {} here\n", style.cyan(show::clean(&here))));
    }
    if let Some(place) = &it.library.originals {
        lines.push_str(&format!("    files are opened from {}\n", style.cyan(show::clean(place))));
    } else if let Some(place) = it.writers.iter().find_map(|it| it.originals.as_ref()) {
        let place = style.cyan(show::clean(place));
        lines.push_str(&format!(
            "    its files are kept in {place}: `riddle library originals` opens them from there\n"
        ));
    }
    lines
}

/// One of several computers that write a library, in one line.
fn writer(it: &LibraryWriter) -> String {
    let mut parts = vec![
        format!("from {}", show::clean(&it.machine)),
        show::plural(it.files, "file"),
        show::plural(it.passages, "passage"),
    ];
    if it.own {
        parts.push("this computer".to_owned());
    }
    parts.extend(it.written_at.map(|it| format!("as of {}", dates::show(it))));
    if it.unfinished {
        parts.push("being written, or broken off".to_owned());
    }
    parts.join(" · ")
}

fn fetch(
    records: &Records,
    name: &str,
    path: &str,
    to: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let fetched = records.fetch_original(name, path)?.path;
    let at = match to {
        Some(to) => {
            std::fs::copy(&fetched, to)
                .map_err(|error| Failure::run(format!("{}: {error}", to.display())))?;
            to
        }
        None => &fetched,
    };
    say(context, &json!({ "fetched": at }), at.display().to_string())
}

fn key(records: &Records, command: &LibraryKeyCommand, context: &Context) -> Result<(), Failure> {
    let (LibraryKeyCommand::Set { name, originals }
    | LibraryKeyCommand::Forget { name, originals }
    | LibraryKeyCommand::Status { name, originals }) = command;
    let keys = if *originals { Keys::OriginalsOf(name) } else { Keys::Library(name) };
    let origin = keys.origin(records)?;
    let said = match command {
        LibraryKeyCommand::Set { .. } => {
            keys.keep(records, &read_key(&origin)?)?;
            format!("the key for {origin} is kept in the system's secret store")
        }
        LibraryKeyCommand::Forget { .. } if keys.forget(records)? => {
            format!("the key for {origin} is forgotten")
        }
        LibraryKeyCommand::Forget { .. } => format!("no key was kept for {origin}"),
        LibraryKeyCommand::Status { .. } => keys.status(&origin, &keys.state(records)?),
    };
    let (variable, given) = match keys {
        Keys::Library(_) => ("RIDDLE_LIBRARY_KEY", &context.config.library_key),
        Keys::OriginalsOf(_) => ("RIDDLE_ORIGINALS_KEY", &context.config.originals_key),
    };
    let environment = given.is_some();
    if !context.json {
        return context.out.line(show::clean(&if environment {
            format!("{variable} is set and goes before a key that is kept; {said}")
        } else {
            said
        }));
    }
    let (kept, problem) = match keys.state(records)? {
        KeyState::Kept => (json!(true), None),
        KeyState::None => (json!(false), None),
        KeyState::Unknown(why) => (json!(null), Some(words::trouble(&why))),
    };
    context.out.json(
        &json!({ "origin": origin, "kept": kept, "environment": environment, "problem": problem }),
    )
}

/// Whose key is meant, by the name of the library.
#[derive(Clone, Copy)]
enum Keys<'a> {
    /// That of the library's server.
    Library(&'a str),
    /// That of the store which keeps its files.
    OriginalsOf(&'a str),
}

impl Keys<'_> {
    fn origin(self, records: &Records) -> Result<String, Failure> {
        Ok(match self {
            Keys::Library(name) => records.library_origin(name)?,
            Keys::OriginalsOf(name) => records.originals_origin(name)?,
        })
    }

    fn keep(self, records: &Records, key: &str) -> Result<(), Failure> {
        match self {
            Keys::Library(name) => records.keep_library_key(name, key)?,
            Keys::OriginalsOf(name) => records.keep_originals_key(name, key)?,
        }
        Ok(())
    }

    fn forget(self, records: &Records) -> Result<bool, Failure> {
        Ok(match self {
            Keys::Library(name) => records.forget_library_key(name)?,
            Keys::OriginalsOf(name) => records.forget_originals_key(name)?,
        })
    }

    fn state(self, records: &Records) -> Result<KeyState, Failure> {
        Ok(match self {
            Keys::Library(name) => records.library_key_state(name)?,
            Keys::OriginalsOf(name) => records.originals_key_state(name)?,
        })
    }

    fn status(self, origin: &str, state: &KeyState) -> String {
        let set = match self {
            Keys::Library(_) => "riddle library key set",
            Keys::OriginalsOf(_) => "riddle library key set --originals",
        };
        match state {
            KeyState::Kept => format!("a key for {origin} is kept in the system's secret store"),
            KeyState::None => format!("no key is kept for {origin}: `{set}` keeps one"),
            KeyState::Unknown(why) => words::trouble(why),
        }
    }
}

fn push(name: &str, options: PushOptions, context: &Context) -> Result<(), Failure> {
    let mut bar = Progress::new();
    let mut progress = |done, total| bar.done(done, total, "files");
    let report = push_library(&context.config, name, options, &mut progress, context.stop_flag())?;
    drop(bar);
    if context.json {
        return context.out.json(&serde_json::to_value(&report)?);
    }
    context.out.line(show::clean(&told(&report)))
}

fn told(report: &PushReport) -> String {
    let mut line = format!(
        "{}: {} written ({}), {} unchanged, {} deleted, in {:.1} s",
        report.library,
        show::plural(report.written, "file"),
        show::plural(report.passages, "passage"),
        report.unchanged,
        report.deleted,
        report.seconds
    );
    if report.held_back > 0 {
        line.push_str(&format!(
            "; {} stayed here, in folders that never leave this computer",
            show::plural(report.held_back, "file")
        ));
    }
    if let Some(sent) = report.originals {
        line.push_str(&format!("; {} sent to the object store", show::plural(sent, "file")));
    }
    if report.resumed {
        line.push_str("; it went on where a run before had broken off");
    }
    if report.interrupted {
        line.push_str("; stopped: `riddle library push` goes on from here");
    }
    line
}

#[cfg(test)]
mod tests {
    use riddle_rag::{shared::MappedFolder, status::LibraryStatus};

    use super::*;

    fn library() -> LibraryInfo {
        LibraryInfo {
            library: LibraryStatus {
                name: "team".to_owned(),
                address: "milvus://box:19530/team".to_owned(),
                ..LibraryStatus::default()
            },
            ..LibraryInfo::default()
        }
    }

    #[test]
    fn a_line_says_what_is_there() {
        let style = Style::with_colors(false);
        assert!(line(&library(), style).contains("nothing is there yet"));
        let broken = LibraryInfo { problem: Some("nobody answers".into()), ..library() };
        assert!(line(&broken, style).contains("    nobody answers\n"));
        let there = LibraryInfo {
            files: 2,
            passages: 1,
            embedder: Some("small".to_owned()),
            writers: vec![LibraryWriter { machine: "desk".to_owned(), ..LibraryWriter::default() }],
            written_at: Some(0),
            unfinished: true,
            with_rights: true,
            ..library()
        };
        let expected = "team  milvus://box:19530/team\n    2 files · 1 passage · embedder small · from desk · as of \
            1970-01-01 00:00 UTC · being written, or broken off\n";
        assert_eq!(line(&there, style), expected);
        let attic = LibraryWriter {
            machine: "attic".to_owned(),
            own: true,
            files: 1,
            passages: 1,
            unfinished: true,
            ..LibraryWriter::default()
        };
        let mut two = there.clone();
        two.writers.push(attic);
        two.library.folders =
            vec![MappedFolder { there: "/srv".to_owned(), here: "/mnt/srv".into() }];
        let lines = line(&two, style);
        let last = "\n    from desk · 0 files · 0 passages\n    from attic · 1 file · 1 passage · this computer · being \
            written, or broken off\n    /srv is /mnt/srv here\n";
        assert!(lines.ends_with(last) && !lines.contains("small · from"), "{lines}");
        let older = LibraryInfo { with_rights: false, ..there };
        assert!(line(&older, style).contains("does not say who may read what"));
    }

    #[test]
    fn a_report_is_a_sentence() {
        let report = PushReport {
            library: "team".to_owned(),
            written: 1,
            passages: 3,
            unchanged: 2,
            seconds: 1.26,
            ..PushReport::default()
        };
        assert_eq!(
            told(&report),
            "team: 1 file written (3 passages), 2 unchanged, 0 deleted, in 1.3 s"
        );
        let report = PushReport { held_back: 2, resumed: true, interrupted: true, ..report };
        for part in ["2 files stayed here", "had broken off", "goes on from here"] {
            assert!(told(&report).contains(part), "{}", told(&report));
        }
    }
}
