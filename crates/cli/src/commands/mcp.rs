//! `riddle mcp`.

use std::path::Path;

use riddle_doors::{
    McpOptions,
    clients::Clients,
    install::{Change, Client, Places, Start},
    mcp,
};
use riddle_rag::Records;
use serde_json::json;

use crate::{
    args::{Global, McpArgs, McpCommand},
    context::Context,
    failure::Failure,
    show,
};

/// Answers on stdout what comes on stdin, until that ends; or changes a configuration.
pub(crate) fn run(args: &McpArgs, global: &Global, context: &Context) -> Result<(), Failure> {
    match &args.command {
        None => {
            let options = McpOptions {
                with_confined: args.with_confined,
                alone: args.alone,
                client: args.client.clone(),
                forget_questions: false,
            };
            let input = std::io::stdin().lock();
            Ok(mcp(context.config.clone(), &options, input, std::io::stdout())?)
        }
        Some(McpCommand::Install { client, dry_run }) => {
            let change = client.install(&places()?, &start(*client, global)?)?;
            finish(*client, Some(change), *dry_run, context)?;
            if !dry_run {
                // Let in under its own name: it can be looked after and sent away by it.
                let clients = Clients::of(&context.config.home);
                let may = clients.named(client.as_str())?.map(|it| it.may).unwrap_or_default();
                Records::open(context.config.clone())?;
                clients.put(client.as_str(), may, false)?;
            }
            Ok(())
        }
        Some(McpCommand::Uninstall { client, dry_run }) => {
            finish(*client, client.uninstall(&places()?)?, *dry_run, context)?;
            let clients = Clients::of(&context.config.home);
            if !dry_run && clients.named(client.as_str())?.is_some() {
                clients.remove(client.as_str())?;
            }
            Ok(())
        }
    }
}

fn places() -> Result<Places, Failure> {
    Places::of_environment().ok_or_else(|| {
        Failure::run("there is no home folder in which assistants keep their configurations")
    })
}

/// This program, on the home and the models that it was called with.
fn start(client: Client, global: &Global) -> Result<Start, Failure> {
    let program = std::env::current_exe()?;
    let mut args: Vec<String> = ["mcp", "--client", client.as_str()].map(str::to_owned).to_vec();
    for (flag, folder) in [("--home", &global.home), ("--models-dir", &global.models_dir)] {
        if let Some(folder) = folder.as_ref().filter(|it| !it.as_os_str().is_empty()) {
            args.extend([flag.to_owned(), text(&std::path::absolute(folder)?)?]);
        }
    }
    Ok(Start { command: text(&program)?, args })
}

fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::run(format!("{}: a configuration holds names in UTF-8 only", path.display()))
    })
}

/// Shows the change, then writes it.
fn finish(
    client: Client,
    change: Option<Change>,
    dry_run: bool,
    context: &Context,
) -> Result<(), Failure> {
    let is_new = |it: &Change| it.before.as_deref() != Some(it.after.as_str());
    let changed = change.filter(is_new);
    let backup = changed.as_ref().filter(|it| it.before.is_some()).map(Change::backup);
    if context.json {
        context.out.json(&json!({
            "client": client.as_str(),
            "path": changed.as_ref().map(|it| &it.path),
            "after": changed.as_ref().map(|it| &it.after),
            "backup": backup,
            "written": changed.is_some() && !dry_run,
        }))?;
    } else if let Some(change) = &changed {
        let path = show::path(&change.path.to_string_lossy());
        let entry: String =
            change.entry.lines().map(|it| format!("  {}\n", show::clean(it))).collect();
        context.out.line(format_args!("{path}:\n{entry}"))?;
    } else {
        context.out.line(format_args!("{}: nothing to change", client.as_str()))?;
    }
    if let Some(change) = changed.filter(|_| !dry_run) {
        change.write()?;
        if !context.json {
            let kept = backup.map(|it| {
                format!(", what was there is kept in {}", show::path(&it.to_string_lossy()))
            });
            context.out.line(format_args!("written{}", kept.unwrap_or_default()))?;
        }
    }
    Ok(())
}
