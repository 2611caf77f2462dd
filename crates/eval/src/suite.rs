//! Many datasets and one table: is what people are shown as good as the best of what it was made from?
//!
//! [`evaluate_suite`] measures every dataset below a folder by [`evaluate`](crate::evaluate()) and sets what is shown
//! beside its inputs. [`Regret`] is the difference to the best of them: a set on which the merged or the reranked
//! order loses to plain keywords can not hide behind a mean. Means are taken over *domains* ([`domains`]), so that ten
//! sets of one kind weigh as much as one set of another.
//!
//! A set that can not be measured is told and left out; the others go on.

mod domains;
mod layers;
mod regret;
mod report;
mod requests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use riddle_rag::Config;
use riddle_types::Trouble;

pub use self::{
    layers::{LayerFigures, OrderFigures},
    regret::Regret,
    report::{DomainReport, FailedSet, Figures, SetNotice, SetReport, SuiteReport},
    requests::{SuiteRequests, suite_requests},
};
use crate::{
    Error, EvalEvent, EvalOptions, EvalReport, Instruments, Result, Stage, evaluate::evaluate,
};

/// Folders in folders that are looked through for datasets: a suite, its groups, their languages.
const DEPTH: usize = 3;

/// What to evaluate, and how.
#[derive(Debug, Clone)]
pub struct SuiteOptions {
    /// The folder of the datasets.
    pub folder: PathBuf,
    /// A file that says which domain each set belongs to; `None`: `domains.json` in the folder, if there is one.
    pub domains: Option<PathBuf>,
    /// Where the indexes of the sets are kept; `None`: in the user's home, where those of single evaluations are.
    pub homes: Option<PathBuf>,
    /// How each set is evaluated. Its dataset and stages are not looked at, and its questions are spread evenly where
    /// they are limited: those of a set often stand in the order of their sources.
    pub each: EvalOptions,
}

/// Measures all datasets of a folder.
///
/// # Errors
/// A folder without datasets, a file of domains that is none, and a suite of which nothing could be measured. After
/// `stop` was set the report holds the sets that were done.
pub fn evaluate_suite(
    options: &SuiteOptions,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
) -> Result<SuiteReport> {
    options.each.check_layers()?;
    let sets = datasets(&options.folder)?;
    let domains = domains::read(&options.folder, options.domains.as_deref())?;
    let mut report = SuiteReport {
        suite: crate::dataset::dataset_name(&options.folder),
        notices: domains
            .unknown(sets.iter().map(|it| it.0.as_str()))
            .map(|notice| SetNotice { set: None, notice })
            .into_iter()
            .collect(),
        ..SuiteReport::default()
    };
    let each = each(options);
    for (number, (name, folder)) in sets.iter().enumerate() {
        instruments.event(EvalEvent::Set { name, number: number + 1, total: sets.len() });
        let options = EvalOptions {
            dataset: folder.clone(),
            save_runs: each.save_runs.as_ref().map(|it| it.join(name)),
            ..each.clone()
        };
        match evaluate(&options, instruments, stop) {
            Ok(measured) => report.add(set_report(name, domains.of(name), &measured), measured),
            Err(Error::Stopped) => break,
            // A reader that was told to stop may say it in its own words.
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => {
                report.failed.push(FailedSet::of(name, &error));
            }
        }
    }
    report.stopped = stop.load(Ordering::Relaxed);
    if let (true, false, Some(first)) =
        (report.sets.is_empty(), report.stopped, report.failed.first())
    {
        let what =
            format!("none of {} sets could be measured; {}: {}", sets.len(), first.name, first.why);
        return Err(Error::NotASuite {
            folder: options.folder.clone(),
            why: Trouble { what, advice: first.why.advice.clone() },
        });
    }
    report.summarize();
    Ok(report)
}

/// The options that all sets share: the reranker is the user's, not one of the homes that are made for the sets.
fn each(options: &SuiteOptions) -> EvalOptions {
    let base = &options.each;
    let model = base.reranker();
    let home = options.homes.clone().unwrap_or_else(|| base.config.home.clone());
    EvalOptions {
        // Without a reranker none of the homes' shall take its place.
        stages: if model.is_none() {
            vec![Stage::Bm25, Stage::Dense, Stage::Rrf]
        } else {
            Vec::new()
        },
        model,
        config: Config {
            home,
            models: Some(base.config.models_dir()),
            calibrations: Some(base.config.calibrations_dir()),
            ..base.config.clone()
        },
        spread_queries: true,
        ..base.clone()
    }
}

/// The datasets below a folder by their paths in it, in the order of those. What has one of a dataset's files is
/// meant to be one: if it lacks the others, that is told.
fn datasets(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let is_set = |it: &Path| {
        ["corpus.jsonl", "corpus.jsonl.gz", "queries.jsonl", "qrels/test.tsv"]
            .iter()
            .any(|file| it.join(file).is_file())
    };
    let bad = |why: &str| Err(Error::NotASuite { folder: folder.to_owned(), why: why.into() });
    if !folder.is_dir() {
        return bad("there is no such folder: give the one that holds the datasets' folders");
    }
    if is_set(folder) {
        return bad("this is a dataset and no folder of datasets: give the one that it is in");
    }
    let mut found = Vec::new();
    let mut open = vec![(String::new(), folder.to_path_buf(), DEPTH)];
    while let Some((prefix, dir, depth)) = open.pop() {
        let io = |source| Error::Io { path: dir.clone(), source };
        for entry in std::fs::read_dir(&dir).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') || !path.is_dir() {
                continue;
            }
            let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if is_set(&path) {
                found.push((name, path));
            } else if depth > 1 {
                open.push((name, path, depth - 1));
            }
        }
    }
    if found.is_empty() {
        return bad(
            "no dataset is in it: each has a folder with corpus.jsonl[.gz], queries.jsonl and qrels/test.tsv",
        );
    }
    found.sort();
    Ok(found)
}

/// What one evaluation says about the order that is shown.
fn set_report(name: &str, domain: Option<&str>, measured: &EvalReport) -> SetReport {
    let questions = &measured.questions;
    // People see the reranked order, else the merged one, else that of keywords.
    let shown =
        [Stage::Rerank, Stage::Rrf, Stage::Bm25].into_iter().find(|it| questions.contains_key(it));
    let shown = shown.unwrap_or(Stage::Bm25);
    let inputs =
        [Stage::Bm25, Stage::Dense, Stage::Sparse, Stage::Rrf].into_iter().filter(|it| *it < shown);
    let inputs: BTreeMap<Stage, _> =
        inputs.filter_map(|it| Some((it, questions.get(&it)?.as_slice()))).collect();
    let none = Vec::new();
    let shown_questions = questions.get(&shown).unwrap_or(&none);
    let ndcg = |stage: Stage| measured.stages.get(&stage).map(|it| it.measures.ndcg_10);
    let cost = measured.stages.get(&Stage::Rerank);
    SetReport {
        name: name.to_owned(),
        domain: domain.map(str::to_owned),
        documents: measured.corpus.as_ref().map_or(0, |it| it.documents),
        queries: measured.queries,
        reused: measured.corpus.as_ref().is_some_and(|it| it.reused),
        figures: Figures::of(
            [ndcg(Stage::Bm25), ndcg(Stage::Dense), ndcg(Stage::Sparse)],
            ndcg(Stage::Rrf).filter(|_| shown != Stage::Rrf),
            ndcg(shown).unwrap_or_default(),
        ),
        regret: Regret::of(shown_questions, &inputs),
        layers: LayerFigures::of(measured),
        candidate_layers_share: cost.and_then(|it| it.candidate_layers_share),
        rerank_ms: cost.and_then(|it| it.rerank_ms),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn sets_are_found_in_groups_and_what_is_none_is_told() {
        let dir = tempfile::tempdir().expect("tempdir");
        let touch = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "").expect("written");
        };
        let told = |folder: &Path| datasets(folder).expect_err("refused").to_string();
        touch("README.md");
        assert!(told(dir.path()).contains("no dataset"));
        touch("b/corpus.jsonl.gz");
        touch("group/a/queries.jsonl");
        touch("group/a/runs/queries.jsonl");
        touch("group/deep/er/est/qrels/test.tsv");
        touch(".hidden/queries.jsonl");
        let names: Vec<String> =
            datasets(dir.path()).expect("sets").into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["b", "group/a"]);
        assert!(told(&dir.path().join("b")).contains("this is a dataset"));
        assert!(told(&dir.path().join("nowhere")).contains("no such folder"));
    }
}
