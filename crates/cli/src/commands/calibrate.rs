//! `riddle models calibrate`: from recorded requests to how a reranker may be pruned.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    ops::ControlFlow,
    path::Path,
};

use riddle_eval::{EvalOptions, SuiteOptions, suite_requests};
use riddle_rag::rerank::{
    Calibrated, CalibrationOptions, CheckedPromise, Meets, Mode, RerankRequest, RerankSettings,
};
use serde_json::{Value, json};

use crate::{
    args::CalibrateArgs,
    commands::{
        eval::Bench,
        rerank::{MAX_REQUEST_BYTES, parse_request},
    },
    context::{Context, lasting_name},
    failure::Failure,
    progress::Progress,
    show, words,
};

/// Reads requests, runs each in full, keeps and shows what was learned.
pub(crate) fn run(args: &CalibrateArgs, context: &Context) -> Result<(), Failure> {
    let Requests { learn: requests, check: held_out } = Requests::of(args, context)?;
    let defaults = CalibrationOptions::default();
    let options = CalibrationOptions {
        modes: args.mode.map_or(defaults.modes, |it| vec![it]),
        top_ks: if args.top_k.is_empty() { defaults.top_ks } else { args.top_k.clone() },
        sizes: args.candidates.clone(),
        max_points: defaults.max_points,
    };
    let settings = RerankSettings { threads: args.threads, ..RerankSettings::default() };
    let mut progress = Progress::new();
    let config = &context.config;
    let made = riddle_rag::rerank::calibrate(
        config,
        &args.name,
        &settings,
        &options,
        &requests,
        &mut |done, of| {
            progress.requests(done as u64, of as u64);
            if context.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    )?;
    progress.clear();
    let Some(made) = made else {
        return Err(Failure::run("stopped before all requests were run: no calibration was kept"));
    };
    let checked = match held_out {
        Some(held_out) => Some(check(args, &held_out, &made, context)?),
        None => None,
    };
    if let Some(path) = &args.svg {
        let mode = args.mode.unwrap_or(Mode::Set);
        write(path, &made.calibration.to_chart(mode, args.precision).to_svg())?;
    }
    if context.json {
        return context.out.json(&value(args, &made, checked.as_deref()));
    }
    context.out.text(page(args, &made, checked.as_deref()))
}

/// What is learned from, and what that is checked with.
struct Requests {
    learn: Vec<RerankRequest>,
    check: Option<Vec<RerankRequest>>,
}

impl Requests {
    fn of(args: &CalibrateArgs, context: &Context) -> Result<Requests, Failure> {
        if let Some(folder) = &args.suite {
            return Requests::of_suite(folder, args, context);
        }
        // Without a suite there is a file.
        let learn = read_requests(args.requests.as_deref().unwrap_or(Path::new("")))?;
        let check = args.check.as_deref().map(read_requests).transpose()?;
        Ok(Requests { learn, check })
    }

    /// As searches ask them on the questions of datasets.
    fn of_suite(
        folder: &Path,
        args: &CalibrateArgs,
        context: &Context,
    ) -> Result<Requests, Failure> {
        let mut sizes: Vec<Option<usize>> = args.candidates.iter().copied().map(Some).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            sizes.push(None);
        }
        let mut bench = Bench { progress: Progress::new(), context };
        let (mut learn, mut check) = (Vec::new(), Vec::new());
        let mut smaller = 0;
        for candidates in sizes {
            let each = EvalOptions {
                model: Some(lasting_name(&args.name)?),
                limit_queries: Some(args.limit_queries),
                candidates,
                ..EvalOptions::new(context.config.clone())
            };
            let options = SuiteOptions {
                folder: folder.to_path_buf(),
                domains: args.domains.clone(),
                homes: args.homes.as_deref().map(std::path::absolute).transpose()?,
                each,
            };
            let made = suite_requests(&options, &mut bench, context.stop_flag())?;
            for it in &made.failed {
                // Nothing but the result belongs on stdout.
                tracing::warn!(set = it.name, why = %it.why, "left out");
            }
            // Of a question that finds no more than before there is a request already.
            let is_new = |it: &RerankRequest| it.documents.len() > smaller;
            learn.extend(made.learn.into_iter().filter(is_new));
            check.extend(made.check.into_iter().filter(is_new));
            smaller = candidates.unwrap_or(0);
        }
        bench.progress.clear();
        Ok(Requests { learn, check: Some(check) })
    }
}

fn check(
    args: &CalibrateArgs,
    requests: &[RerankRequest],
    made: &Calibrated,
    context: &Context,
) -> Result<Vec<CheckedPromise>, Failure> {
    let settings = RerankSettings { threads: args.threads, ..RerankSettings::default() };
    let mut progress = Progress::new();
    let checked = riddle_rag::rerank::check_calibration(
        &context.config,
        &args.name,
        &settings,
        &made.calibration,
        args.precision,
        requests,
        &mut |done, of| {
            progress.requests(done as u64, of as u64);
            if context.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    )?;
    progress.clear();
    checked.ok_or_else(|| Failure::run("stopped: the calibration is kept and was not checked"))
}

/// A line for every promise: what it was worth on the requests of `--check`.
fn promises(checked: &[CheckedPromise]) -> String {
    let mut page = "\non requests that it was not made from:\n".to_owned();
    for CheckedPromise { mode, top_k, prior, candidates, asked, measured } in checked {
        let size = candidates.map_or(String::new(), |it| format!(", up to {it} candidates"));
        let prior = if *prior { ", with the retrieval prior" } else { "" };
        let worth = measured.map_or("can not be promised".to_owned(), |it| {
            format!(
                "precision {:.4}, {:.1}% of the forwards computed, {:.1}% of the requests changed",
                it.precision,
                100.0 * it.candidate_layers_share,
                100.0 * it.requests_changed
            )
        });
        let asked = words::pruning(*asked);
        page.push_str(&format!("  {mode}, top {top_k}{size}{prior}, {asked}: {worth}\n"));
    }
    page
}

fn value(args: &CalibrateArgs, made: &Calibrated, checked: Option<&[CheckedPromise]>) -> Value {
    let chosen = made.calibration.tables.iter().map(|table| {
        let point = table.threshold_for(args.precision, Meets::Mean);
        json!({
            "mode": table.mode, "top_k": table.top_k, "prior": table.with_prior(),
            "candidates": table.candidates, "precision": args.precision, "point": point,
        })
    });
    let chosen: Vec<Value> = chosen.collect();
    let promise = |it: &CheckedPromise| {
        json!({
            "mode": it.mode, "top_k": it.top_k, "prior": it.prior, "candidates": it.candidates,
            "asked": words::pruning(it.asked), "measured": it.measured,
        })
    };
    let checked = checked.map(|it| it.iter().map(promise).collect::<Vec<_>>());
    json!({
        "file": made.file, "chosen": chosen, "checked": checked, "calibration": made.calibration,
    })
}

fn page(args: &CalibrateArgs, made: &Calibrated, checked: Option<&[CheckedPromise]>) -> String {
    let mut page = made.calibration.to_text(args.precision);
    page.push_str(&format!("\nkept in {}\n", show::path(&made.file.to_string_lossy())));
    if let Some(checked) = checked {
        page.push_str(&promises(checked));
    }
    let name = show::clean(&args.name);
    if let Some(table) = made.calibration.tables.last() {
        page.push_str(&format!(
            "use it: riddle rerank --model {name} --mode {} --precision {} (or --error-probability 0.05), with a top_n of {}\n",
            table.mode, args.precision, table.top_k
        ));
    }
    page
}

fn read_requests(path: &Path) -> Result<Vec<RerankRequest>, Failure> {
    let name = path.display();
    let fail = |error: std::io::Error| {
        let why = show::io_reason(&error);
        Failure::run(format!("{name}: {why}: give a file with one request per line"))
    };
    let mut file = BufReader::new(File::open(path).map_err(fail)?);
    let mut requests = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let read = (&mut file).take(MAX_REQUEST_BYTES + 1).read_until(b'\n', &mut line);
        if read.map_err(fail)? == 0 {
            break;
        }
        let bad = |why: String| Failure::run(format!("{name}, line {number}: {why}"));
        if line.len() as u64 > MAX_REQUEST_BYTES {
            return Err(bad(format!("larger than {} MiB", MAX_REQUEST_BYTES >> 20)));
        }
        if !line.trim_ascii().is_empty() {
            requests.push(parse_request(&line).map_err(bad)?);
        }
    }
    Ok(requests)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        Failure::run(format!(
            "{}: the chart can not be written: {}",
            path.display(),
            show::io_reason(&error)
        ))
    })
}
