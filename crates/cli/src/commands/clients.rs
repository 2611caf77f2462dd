//! `riddle clients`.

use std::path::{Path, PathBuf};

use riddle_doors::{
    clients::{Client, Clients, May},
    journal::{Entry, Journal, Outcome},
};
use riddle_rag::Records;
use serde_json::json;

use crate::{
    args::{ClientsArgs, ClientsCommand, MayArgs},
    context::Context,
    dates,
    failure::Failure,
    output::Style,
    show,
};

/// Lists the programs, changes one, or shows what was asked.
pub(crate) fn run(args: &ClientsArgs, context: &Context) -> Result<(), Failure> {
    // The home is made where there is none.
    drop(Records::open(context.config.clone())?);
    let clients = Clients::of(&context.config.home);
    match args.command.as_ref().unwrap_or(&ClientsCommand::List) {
        ClientsCommand::List => list(&clients, context),
        ClientsCommand::Add { name, may, reader } => {
            let token = clients.put_as(name, may.may()?, reader.reader(), true)?;
            let token = token.unwrap_or_default();
            if context.json {
                return context.out.json(&json!({ "name": name.trim(), "token": token }));
            }
            context.out.line(format_args!(
                "{} may ask now. Its token, which is shown this once:\n{token}",
                show::clean(name.trim())
            ))
        }
        ClientsCommand::Set { name, may } => {
            if clients.named(name.trim())?.is_none() {
                return Err(Failure::run(format!(
                    "there is no program {name:?}: `riddle clients add` lets one in"
                )));
            }
            clients.put(name, may.may()?, false)?;
            list(&clients, context)
        }
        ClientsCommand::Identity { name, reader, .. } => {
            clients.read_as(name.trim(), reader.reader())?;
            list(&clients, context)
        }
        ClientsCommand::Revoke { name } => {
            clients.revoke(name.trim(), true)?;
            list(&clients, context)
        }
        ClientsCommand::Remove { name } => {
            clients.remove(name.trim())?;
            list(&clients, context)
        }
        ClientsCommand::Log { name, lines, forget } => {
            let journal = Journal::of(&context.config.home, true);
            if *forget {
                journal.forget()?;
            }
            log(&journal.last(name.as_deref(), *lines)?, context)
        }
    }
}

impl MayArgs {
    fn may(&self) -> Result<May, Failure> {
        let folders: std::io::Result<Vec<PathBuf>> =
            self.folders.iter().map(|it| absolute(it)).collect();
        Ok(May {
            tools: self.tools.clone(),
            folders: folders?,
            types: self.types.clone(),
            with_confined: self.with_confined,
        })
    }
}

/// As the library knows folders: without links where the folder is there.
fn absolute(folder: &Path) -> std::io::Result<PathBuf> {
    folder.canonicalize().or_else(|_| std::path::absolute(folder))
}

fn list(clients: &Clients, context: &Context) -> Result<(), Failure> {
    let all = clients.all()?;
    if context.json {
        let one = |it: &Client| {
            json!({
                "name": it.name, "since": it.since, "revoked": it.revoked, "token": it.has_token(),
                "tools": it.may.tools, "folders": it.may.folders, "types": it.may.types,
                "with_confined": it.may.with_confined, "reader": it.reader,
            })
        };
        return context.out.json(&json!({ "clients": all.iter().map(one).collect::<Vec<_>>() }));
    }
    context.out.text(page(&all, context.style))
}

fn page(all: &[Client], style: Style) -> String {
    if all.is_empty() {
        return "no program has a name of its own: the token in the home opens everything\n"
            .to_owned();
    }
    let line = |it: &Client| {
        let state = if it.revoked { " (sent away)" } else { "" };
        let way = if it.has_token() { "token" } else { "pipe" };
        format!("{}{state}: {way}, {}\n", style.cyan(show::clean(&it.name)), reads(it))
    };
    all.iter().map(line).collect()
}

/// What a program may do and as whom it reads, in words.
fn reads(client: &Client) -> String {
    let may = sees(&client.may);
    let Some(reader) = &client.reader else { return may };
    let groups = match reader.groups.as_slice() {
        [] => String::new(),
        groups => format!(" (in {})", groups.join(", ")),
    };
    format!("{may}; reads as {}{}", show::clean(&reader.user), show::clean(&groups))
}

/// What a program may do, in words.
fn sees(may: &May) -> String {
    let mut parts = Vec::new();
    if may.is_everything() {
        parts.push("everything".to_owned());
    }
    if !may.tools.is_empty() {
        parts.push(format!("asks {}", may.tools.join(", ")));
    }
    if !may.folders.is_empty() {
        let names: Vec<String> =
            may.folders.iter().map(|it| show::path(&it.to_string_lossy())).collect();
        parts.push(format!("in {}", names.join(", ")));
    }
    if !may.types.is_empty() {
        let names: Vec<&str> = may.types.iter().map(|it| it.as_str()).collect();
        parts.push(format!("only {}", names.join(", ")));
    }
    parts.push(
        if may.with_confined { "marked folders, too" } else { "no marked folders" }.to_owned(),
    );
    parts.join("; ")
}

fn log(entries: &[Entry], context: &Context) -> Result<(), Failure> {
    if context.json {
        return context.out.json(&json!({ "entries": entries }));
    }
    let line = |it: &Entry| {
        let came = match it.outcome {
            Outcome::Answered if it.passages > 0 => format!("{} passages", it.passages),
            Outcome::Answered => "answered".to_owned(),
            Outcome::Refused => "refused".to_owned(),
            Outcome::Failed => "failed".to_owned(),
        };
        let asked = it.asked.as_deref().map(|it| format!(" \"{}\"", show::clean(it)));
        format!(
            "{}  {}  {}{}  {came}, {} ms\n",
            dates::show(it.at / 1000),
            context.style.cyan(show::clean(&it.client)),
            show::clean(&it.what),
            asked.unwrap_or_default(),
            it.ms
        )
    };
    if entries.is_empty() {
        return context.out.line(format_args!("nothing was asked"));
    }
    context.out.text(entries.iter().map(line).collect::<String>())
}

#[test]
fn what_a_program_may_is_told() {
    let may = May {
        tools: vec!["search".to_owned(), "read".to_owned()],
        types: vec![riddle_types::FileKind::Pdf],
        ..May::default()
    };
    assert_eq!(sees(&may), "asks search, read; only pdf; no marked folders");
    assert_eq!(
        sees(&May { with_confined: true, ..May::default() }),
        "everything; marked folders, too"
    );
}
