//! `riddle models pull`: what would be fetched is said first, then it is.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use riddle_rag::{
    install::{network, plan_model, pull_model, supported_onnx_embedders},
    models::{PullOptions, PullPlan, Stage, WeightFile, known},
};
use serde_json::{Value, json};

use super::{done, go_on};
use crate::{args::PullArgs, context::Context, failure::Failure, progress::Progress, show};

/// Fetches a model, or says what that would be.
pub(super) fn run(args: &PullArgs, context: &Context) -> Result<(), Failure> {
    let options = PullOptions {
        file: args.file.clone().or_else(|| onnx_embedder_file(&args.name)),
        revision: args.revision.clone(),
        again: args.again,
        ..PullOptions::new(network(&context.config)?)
    };
    if args.dry_run {
        let plan = plan(&args.name, &options, context)?;
        if context.json {
            return context.out.json(&json!({ "plan": describe(&plan) }));
        }
        lines(&plan, true).into_iter().try_for_each(|it| context.out.line(it))?;
        return Ok(());
    }
    // What is in the list was looked at before it got there; what is installed was agreed to.
    let is_new = known(&args.name).is_none()
        && context.config.model_store()?.find(&args.name).is_none()
        && !options.network.offline;
    if is_new && !context.json {
        let plan = plan(&args.name, &options, context)?;
        // Where weights are to be chosen first the pull says so.
        if !plan.is_open() {
            tell(&lines(&plan, false));
            if !plan.known && !args.yes && !confirmed()? {
                return Err(Failure::run("nothing was fetched"));
            }
        }
    }
    pull(args, &options, context)
}

/// The file to take of an embedder that runs on ONNX Runtime: repositories often hold several, and weights in
/// other formats beside them. Models of the catalog know their files.
fn onnx_embedder_file(repository: &str) -> Option<String> {
    if known(repository).is_some() {
        return None;
    }
    let model = supported_onnx_embedders().into_iter().find(|it| it.repository == repository)?;
    Some(model.model_file)
}

fn plan(name: &str, options: &PullOptions, context: &Context) -> Result<PullPlan, Failure> {
    let mut progress = Progress::new();
    let plan = plan_model(&context.config, name, options, &mut |event| {
        progress.model(&event);
        go_on(context)
    });
    progress.clear();
    Ok(plan?)
}

fn pull(args: &PullArgs, options: &PullOptions, context: &Context) -> Result<(), Failure> {
    let mut progress = Progress::new();
    // Of a model of the list it is said when the first byte is asked for: until then it may be here already.
    let mut to_say = known(&args.name).filter(|_| !context.json);
    let model = pull_model(&context.config, &args.name, options, args.as_published, &mut |event| {
        if event.stage == Stage::Fetching
            && let Some(model) = to_say.take()
        {
            let size = show::bytes(u64::from(model.megabytes) * 1_000_000);
            let line = format!("{}: license {}, about {size}", model.name, model.license);
            progress.aside(|| tell(&[line]));
        }
        progress.model(&event);
        go_on(context)
    });
    progress.clear();
    done("installed", &model?, context)
}

/// Beside the result, which is for programs.
fn tell(lines: &[String]) {
    let mut stderr = std::io::stderr().lock();
    for line in lines {
        // With stderr closed there is nobody to tell.
        let _ = writeln!(stderr, "{line}");
    }
}

/// Whether the person at the terminal agrees; where there is none, who wrote the command has.
fn confirmed() -> Result<bool, Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Ok(true);
    }
    let _ = write!(std::io::stderr(), "Fetch it? [Y/n] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer)?;
    Ok(read > 0 && agrees(&answer))
}

fn agrees(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes")
}

/// The plan as people read it; `all`: with everything that there is to choose from.
fn lines(plan: &PullPlan, all: bool) -> Vec<String> {
    let mut lines = vec![format!("{} from {}", plan.name, plan.page)];
    let license = plan.license.as_deref().unwrap_or("none is stated");
    let page = plan.license_page.as_ref().map_or(String::new(), |it| format!(" ({it})"));
    lines.push(format!("license: {license}{page}"));
    if plan.gated {
        lines
            .push("its files are for people who have accepted the license on that page".to_owned());
    }
    if plan.is_open() {
        lines.push("size: by the weights, of which one is to be chosen with --file".to_owned());
    } else {
        let files = show::plural(plan.files.len() as u64, "file");
        lines.push(format!("size: {} in {files}", show::bytes(plan.bytes)));
    }
    if plan.installed {
        lines.push("it replaces the one that is installed, if that is another one".to_owned());
    }
    let others = plan.weights.iter().filter(|it| !it.chosen).count();
    match others {
        0 => {}
        _ if all => lines.extend(plan.weights.iter().map(weights_line)),
        _ => lines.push(format!(
            "{} to choose from: --dry-run lists them, --file takes one",
            show::plural(others as u64, "more file")
        )),
    }
    lines.iter().map(|it| show::clean(it)).collect()
}

fn weights_line(it: &WeightFile) -> String {
    let name = it.quantization.as_deref().unwrap_or("-");
    let mark = if it.chosen { '*' } else { ' ' };
    let parts =
        if it.parts > 1 { format!(" and {} parts more", it.parts - 1) } else { String::new() };
    format!("{mark} {name:<12} {:>8}  {}{parts}", show::bytes(it.bytes), it.file)
}

fn describe(plan: &PullPlan) -> Value {
    let files: Vec<Value> =
        plan.files.iter().map(|it| json!({ "path": it.path, "bytes": it.bytes })).collect();
    let weights: Vec<Value> = plan
        .weights
        .iter()
        .map(|it| {
            json!({
                "file": it.file, "quantization": it.quantization, "format": it.format,
                "bytes": it.bytes, "parts": it.parts, "usual": it.usual, "chosen": it.chosen,
            })
        })
        .collect();
    json!({
        "name": plan.name, "known": plan.known, "installed": plan.installed,
        "repository": plan.repository, "page": plan.page, "revision": plan.revision,
        "license": plan.license, "license_page": plan.license_page, "gated": plan.gated,
        "bytes": plan.bytes, "files": files, "weights": weights,
    })
}

#[cfg(test)]
mod tests {
    use riddle_rag::models::{Format, PlannedFile};

    use super::*;

    fn weights(file: &str, bytes: u64, parts: usize, chosen: bool) -> WeightFile {
        let quantization = Some("Q4_K_M".to_owned());
        WeightFile {
            file: file.to_owned(),
            quantization,
            format: Format::Gguf,
            bytes,
            parts,
            usual: chosen,
            chosen,
        }
    }

    fn plan() -> PullPlan {
        PullPlan {
            name: "o/n".to_owned(),
            known: false,
            installed: false,
            repository: "o/n".to_owned(),
            page: "https://hub.test/o/n".to_owned(),
            revision: "main".to_owned(),
            license: Some("nice\u{1b}[31m-1".to_owned()),
            license_page: Some("https://hub.test/license".to_owned()),
            gated: true,
            files: vec![PlannedFile { path: "a.gguf".to_owned(), bytes: 1_100_000_000 }],
            bytes: 1_100_000_000,
            beside: 0,
            weights: vec![
                weights("a.gguf", 1_100_000_000, 1, true),
                weights("b-00001-of-00003.gguf", 3_000_000_000, 3, false),
            ],
        }
    }

    #[test]
    fn license_size_and_choices_are_said_in_plain_lines() {
        let said = lines(&plan(), true).join("\n");
        for words in [
            "o/n from https://hub.test/o/n",
            "license: nice [31m-1 (https://hub.test/license)",
            "accepted the license",
            "size: 1.1 GB in 1 file",
            "* Q4_K_M ",
            "b-00001-of-00003.gguf and 2 parts more",
        ] {
            assert!(said.contains(words), "{words:?} is not in\n{said}");
        }
        assert!(!said.contains('\u{1b}'));
        let brief = lines(&plan(), false).join("\n");
        assert!(brief.contains("1 more file to choose from") && !brief.contains("* Q4"), "{brief}");
        let open = PullPlan { files: Vec::new(), license: None, ..plan() };
        let said = lines(&open, true).join("\n");
        assert!(said.contains("none is stated") && said.contains("--file"), "{said}");
    }

    #[test]
    fn a_plan_is_told_to_programs_whole() {
        let said = describe(&plan());
        assert_eq!(said["weights"][1]["parts"], 3);
        assert_eq!((&said["gated"], &said["bytes"]), (&json!(true), &json!(1_100_000_000_u64)));
    }

    #[test]
    fn enter_agrees_and_anything_else_does_not() {
        assert!(["", "\n", "Y\n", " yes \n"].iter().all(|it| agrees(it)));
        assert!(["n\n", "no", "q"].iter().all(|it| !agrees(it)));
    }
}
