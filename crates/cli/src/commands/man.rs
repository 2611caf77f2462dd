//! `riddle man DIR`.

use std::{fs, path::Path};

use clap::CommandFactory as _;

use crate::{
    args::{Cli, ManArgs},
    context::Context,
    failure::Failure,
    show,
};

/// Writes a page for the program and one for each of its commands.
pub(crate) fn run(args: &ManArgs, context: &Context) -> Result<(), Failure> {
    let problem = |error: std::io::Error| {
        let reason = show::io_reason(&error);
        Failure::run(format!("{}: {reason}: give a folder for the pages", args.dir.display()))
    };
    fs::create_dir_all(&args.dir).map_err(problem)?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(problem)?;
    let pages = pages(&args.dir).map_err(problem)?;
    if context.json {
        return context.out.json(&serde_json::json!({"dir": args.dir, "pages": pages}));
    }
    let count = show::plural(pages.len() as u64, "page");
    context.out.line(format_args!("{count} in {}", args.dir.display()))
}

/// Names of the pages, in order.
fn pages(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("riddle") && name.ends_with(".1") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
