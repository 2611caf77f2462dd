//! `riddle models`.

mod advise;
mod hub;
mod pull;
mod server;
pub(crate) mod shards;

use std::{ops::ControlFlow, path::Path};

use riddle_rag::{
    Library,
    install::{Installed, ModelElsewhere, Packing, StorePrecision, import_model},
    models::{
        InstalledModel, KNOWN, Kind, KnownModel, LIBRARIES, ModelStore, Program, Verification,
    },
    rerank::Cutting,
    rerank::NO_RERANKER,
    servers::StageServer,
    writer::LLM_LOCAL,
};
use serde_json::{Value, json};

use crate::{
    args::{ModelsArgs, ModelsCommand, TokenCommand},
    context::{Context, lasting_name},
    failure::Failure,
    progress::Progress,
    show, words,
};

/// Dispatches.
pub(crate) fn run(args: &ModelsArgs, context: &Context) -> Result<(), Failure> {
    let store = context.config.model_store()?;
    match &args.command {
        ModelsCommand::List { available: true } => list_known(context),
        ModelsCommand::List { available: false } => list(&store, context),
        ModelsCommand::Pull(args) => pull::run(args, context),
        ModelsCommand::Source { address } => hub::source(address.as_deref(), context),
        ModelsCommand::Token { command } => {
            hub::token(command.unwrap_or(TokenCommand::Set), context)
        }
        ModelsCommand::Import { folder, name, as_published } => {
            import(folder, name.as_deref(), *as_published, context)
        }
        ModelsCommand::Verify { name } => verify(&store, name.as_deref(), context),
        ModelsCommand::Remove { name } => remove(name, context),
        ModelsCommand::Use { name, dims: Some(dims), allow_endpoint, prompts } => {
            if StageServer::of(name).is_some() || *allow_endpoint || prompts.given().is_some() {
                return Err(Failure::usage("--dims is for an embedder on this machine"));
            }
            shorten(&store, name, *dims, context)
        }
        ModelsCommand::Use { name, allow_endpoint, prompts, dims: None } => {
            match StageServer::of(name) {
                Some(server) if server.embeds() => {
                    server::choose_embedder(&server, *allow_endpoint, prompts.given(), context)
                }
                None | Some(_) if prompts.given().is_some() => Err(Failure::usage(
                    "prompts are for a server that embeds: its address ends in /embeddings",
                )),
                Some(server) => server::choose(&server, *allow_endpoint, context),
                None if *allow_endpoint => Err(Failure::usage(
                    "--allow-endpoint is for a server, which is named by its address",
                )),
                None => choose(&store, name, context),
            }
        }
        ModelsCommand::Convert { name, dtype, out } => {
            convert(name, *dtype, out.as_deref(), context)
        }
        ModelsCommand::Advise { questions, seconds } => {
            advise::run(*questions as usize, *seconds, context)
        }
        ModelsCommand::Calibrate(args) => super::calibrate::run(args, context),
        ModelsCommand::Shard { name, dictionaries, numbers } => {
            let cutting = Cutting { numbers: *numbers, centroids: *dictionaries };
            shards::shard(name, cutting, context)
        }
        ModelsCommand::Profile { name, requests, numbers } => {
            shards::profile(name, *numbers, requests.as_deref(), context)
        }
    }
}

fn describe(model: &InstalledModel) -> Value {
    json!({
        "name": model.name,
        "kind": model.kind,
        "format": model.format,
        "bytes": model.bytes,
        "license": model.license,
        "source": model.source,
        "revision": model.revision,
        "pulled_at": model.pulled_at,
        "dir": model.dir,
    })
}

fn line(model: &InstalledModel) -> String {
    format!(
        "{:<28} {:<9} {:<11} {:>8}  {}",
        show::clean(&model.name),
        model.kind,
        model.format,
        show::bytes(model.bytes),
        show::path(&model.dir.to_string_lossy())
    )
}

fn list(store: &ModelStore, context: &Context) -> Result<(), Failure> {
    let models = store.list_all()?;
    let elsewhere = context.config.models_elsewhere();
    if context.json {
        let models: Vec<Value> = models.iter().map(describe).collect();
        let mut listed = json!({ "store": store.dir(), "models": models });
        if !elsewhere.is_empty() {
            listed["elsewhere"] = elsewhere.iter().map(describe_elsewhere).collect();
        }
        return context.out.json(&listed);
    }
    models.iter().try_for_each(|model| context.out.line(line(model)))?;
    if elsewhere.is_empty() {
        return Ok(());
    }
    let how = format!("\nof other programs, used where they are: riddle ask --llm {LLM_LOCAL}NAME");
    context.out.line(how)?;
    elsewhere.iter().try_for_each(|it| context.out.line(line_elsewhere(it)))
}

fn describe_elsewhere(it: &ModelElsewhere) -> Value {
    json!({
        "name": it.model.name,
        "program": it.model.program.to_string(),
        "bytes": it.model.bytes,
        "license": it.model.license,
        "file": it.model.path,
        "runs": it.trouble.is_none(),
        "problem": it.trouble.as_ref().map(|it| &it.what),
    })
}

fn line_elsewhere(it: &ModelElsewhere) -> String {
    let name = show::clean(&it.model.name);
    let bytes = show::bytes(it.model.bytes);
    match &it.trouble {
        None => format!("{name:<44} {bytes:>8}  runs here"),
        Some(trouble) => {
            format!("{name:<44} {bytes:>8}  does not run: {}", show::clean(&trouble.what))
        }
    }
}

fn list_known(context: &Context) -> Result<(), Failure> {
    if context.json {
        let describe = |it: &KnownModel| {
            json!({
                "name": it.name, "repository": it.repository, "kind": it.kind, "format": it.format,
                "license": it.license, "megabytes": it.megabytes, "about": it.about,
            })
        };
        return context
            .out
            .json(&json!({ "available": KNOWN.iter().chain(LIBRARIES).map(describe).collect::<Vec<_>>() }));
    }
    let width = KNOWN.iter().chain(LIBRARIES).map(|it| it.name.len()).max().unwrap_or_default();
    for model in KNOWN.iter().chain(LIBRARIES) {
        context.out.line(format_args!(
            "{:<width$} {:<9} {:>5} MB  {} ({}{})",
            model.name,
            model.kind,
            model.megabytes,
            model.about,
            model.license,
            fits(model)
        ))?;
    }
    context.out.line(
        "any other model of the hub: riddle models pull ORG/NAME; of several GGUF files ORG/NAME:Q8_0 or --file chooses one, else Q4_K_M",
    )
}

/// Whether a language model can be in this machine's memory; a quarter of it is everything else's.
fn fits(model: &KnownModel) -> &'static str {
    let Some(memory) = riddle_metrics::machine_memory().filter(|_| model.kind == Kind::Llm) else {
        return "";
    };
    if u64::from(model.megabytes) << 20 <= memory / 4 * 3 {
        ", fits this machine's memory"
    } else {
        ", larger than this machine's memory: it is read from disk while it answers"
    }
}

fn import(
    folder: &Path,
    name: Option<&str>,
    as_published: bool,
    context: &Context,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let imported = import_model(&context.config, folder, name, as_published, &mut |event| {
        progress.model(&event);
        go_on(context)
    });
    progress.clear();
    let imported = imported?;
    if context.json {
        let left_out: Vec<Value> =
            imported.left_out.iter().map(|it| json!({ "path": it.path, "why": it.why })).collect();
        return context.out.json(&json!({
            "model": describe(&imported.model),
            "packing": describe_packing(&imported.packing),
            "left_out": left_out,
        }));
    }
    for left in &imported.left_out {
        context.out.line(format_args!("left out {}: {}", show::clean(&left.path), left.why))?;
    }
    done("imported", &imported, context)
}

fn go_on(context: &Context) -> ControlFlow<()> {
    if context.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn done(what: &str, installed: &Installed, context: &Context) -> Result<(), Failure> {
    if context.json {
        return context.out.json(&json!({
            "model": describe(&installed.model),
            "packing": describe_packing(&installed.packing),
        }));
    }
    context.out.line(format_args!("{what}: {}", line(&installed.model)))?;
    said(&installed.packing).map_or(Ok(()), |it| context.out.line(it))
}

/// What became of an embedder's weights; nothing where nobody thought of packing them.
fn said(packing: &Packing) -> Option<String> {
    Some(match packing {
        Packing::Bytes(Some(it)) => format!(
            "its weights are packed into bytes: of thirty texts every vector is as near as {:.3} to the published one, and {:.0} % of the order is the same",
            it.cosine,
            100.0 * it.ordered
        ),
        Packing::TooFar(it) => format!(
            "its weights stay as published: in bytes a vector is only as near as {:.3}, and {:.0} % of the order is the same",
            it.cosine,
            100.0 * it.ordered
        ),
        Packing::Failed(trouble) => format!(
            "its weights stay as published, and could not be packed: {}",
            show::clean(&trouble.what)
        ),
        _ => return None,
    })
}

fn describe_packing(packing: &Packing) -> Value {
    let (weights, nearness, problem) = match packing {
        Packing::Bytes(nearness) => ("int8", *nearness, None),
        Packing::Stored => ("stored", None, None),
        Packing::TooFar(nearness) => ("published", Some(*nearness), None),
        Packing::Failed(trouble) => ("published", None, Some(&trouble.what)),
        _ => ("published", None, None),
    };
    json!({
        "weights": weights,
        "least_cosine": nearness.map(|it| it.cosine),
        "same_order": nearness.map(|it| it.ordered),
        "problem": problem,
    })
}

/// Checks one model or all; anything wrong is a failed run, after everything has been checked.
fn verify(store: &ModelStore, name: Option<&str>, context: &Context) -> Result<(), Failure> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        // What comes with the program is right until it is somewhere else.
        None => store.list()?.into_iter().filter(|it| it.dir.is_dir()).map(|it| it.name).collect(),
    };
    let mut results = Vec::new();
    let mut failures = Vec::new();
    for name in &names {
        match store.verify(name) {
            Ok(result) => {
                failures.extend(complaint(&result));
                results.push(result_json(&result));
                // What was converted here has checksums of its own.
                if let Err(error) = riddle_rag::install::verify_store(&result.model.dir) {
                    failures.push(format!("{name}: {}", words::told(&error)));
                }
            }
            // One model by name: its error is the command's. Among many it is one line of the result.
            Err(error) if names.len() == 1 => return Err(error.into()),
            Err(error) => {
                let error = words::told(&error);
                failures.push(format!("{name}: {error}"));
                results.push(json!({ "name": name, "ok": false, "error": error }));
            }
        }
    }
    if context.json {
        context.out.json(&json!({ "models": results }))?;
    } else if failures.is_empty() {
        context.out.line(format_args!(
            "{} checked, nothing wrong",
            show::plural(names.len() as u64, "model")
        ))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::run(failures.join("; "))) }
}

fn result_json(result: &Verification) -> Value {
    let bad: Vec<Value> = result
        .bad
        .iter()
        .map(|it| json!({ "path": it.path, "fault": it.fault.to_string() }))
        .collect();
    json!({
        "name": result.model.name, "ok": bad.is_empty(), "files": result.files, "bad": bad,
        "advice": result.advice.as_ref().map(words::advice),
    })
}

fn complaint(result: &Verification) -> Option<String> {
    let bad: Vec<String> =
        result.bad.iter().map(|it| format!("{} {}", it.path, it.fault)).collect();
    let advice =
        result.advice.as_ref().map_or(String::new(), |it| format!(": {}", words::advice(it)));
    (!bad.is_empty()).then(|| format!("{}: {}{advice}", result.model.name, bad.join(", ")))
}

fn convert(
    name: &str,
    dtype: Option<StorePrecision>,
    out: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let made =
        riddle_rag::install::convert_model(&context.config, name, dtype, out, &mut |bytes| {
            progress.writing(bytes);
        });
    progress.clear();
    let made = made?;
    if context.json {
        return context
            .out
            .json(&json!({ "file": made.file, "bytes": made.bytes, "tensors": made.tensors }));
    }
    context.out.line(format_args!(
        "{}: {} in {}",
        show::path(&made.file.to_string_lossy()),
        show::plural(made.tensors as u64, "tensor"),
        show::bytes(made.bytes)
    ))
}

fn remove(name: &str, context: &Context) -> Result<(), Failure> {
    riddle_rag::install::remove_model(&context.config, name)?;
    if context.json {
        return context.out.json(&json!({ "removed": name }));
    }
    context.out.line(format_args!("removed {}", show::clean(name)))
}

/// Chooses by what the model is: the name tells which of the two settings is meant.
fn choose(store: &ModelStore, name: &str, context: &Context) -> Result<(), Failure> {
    let name = &lasting_name(name)?;
    let reranker = if name == NO_RERANKER {
        None
    } else {
        if Program::of(name).is_some() {
            return Err(is_writer(name));
        }
        let Some(model) = store.find(name) else {
            return Err(riddle_rag::Error::no_model(name).into());
        };
        match model.kind {
            Kind::Reranker => Some(name.as_str()),
            Kind::Embedder => return use_embedder(name, context),
            Kind::SparseEncoder => return use_sparse_encoder(name, context),
            Kind::Reader => {
                return Err(Failure::run(format!(
                    "{name} is used as it is there: `use` chooses an embedder or a reranker"
                )));
            }
            Kind::Llm => return Err(is_writer(name)),
        }
    };
    let mut library = Library::open(context.config.clone())?;
    library.choose_reranker(reranker)?;
    if context.json {
        return context.out.json(&json!({ "reranker": reranker }));
    }
    context.out.line(match reranker {
        Some(name) => format!("searches are reranked by {} from now on", show::clean(name)),
        None => "searches show the fused order from now on".to_owned(),
    })
}

fn is_writer(name: &str) -> Failure {
    Failure::run(format!(
        "{name} writes answers, and every question says whether it may: riddle ask --llm {LLM_LOCAL}{name} \"...\"; `use` chooses an embedder or a reranker"
    ))
}

fn use_sparse_encoder(name: &str, context: &Context) -> Result<(), Failure> {
    let mut library = Library::open(context.config.clone())?;
    library.choose_sparse_encoder(name)?;
    if context.json {
        return context.out.json(&json!({ "sparse_encoder": name }));
    }
    context.out.line(format_args!(
        "the next `riddle index` weighs terms with {}; until it is done searches do without them",
        show::clean(name)
    ))
}

/// Uses an embedder with the first numbers of its vectors.
fn shorten(store: &ModelStore, name: &str, dims: usize, context: &Context) -> Result<(), Failure> {
    let name = &lasting_name(name)?;
    if store.find(name).is_some_and(|it| it.kind != Kind::Embedder) {
        return Err(Failure::usage("--dims is for an embedder: nothing else makes vectors"));
    }
    let mut library = Library::open(context.config.clone())?;
    library.choose_shortened(name, dims)?;
    if context.json {
        return context.out.json(&json!({ "embedder": name, "dimensions": dims }));
    }
    context.out.line(format_args!(
        "the next `riddle index` embeds with {}, {dims} numbers a vector; until it is done searches use the vectors there are",
        show::clean(name)
    ))
}

fn use_embedder(name: &str, context: &Context) -> Result<(), Failure> {
    let mut library = Library::open(context.config.clone())?;
    library.choose_embedder(name)?;
    if context.json {
        return context.out.json(&json!({ "embedder": name }));
    }
    context.out.line(format_args!(
        "the next `riddle index` embeds with {}; until it is done searches use the vectors there are",
        show::clean(name)
    ))
}
