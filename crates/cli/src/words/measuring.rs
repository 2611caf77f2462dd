//! What evaluations and measurements notice and refuse. Only the command line has them, so their errors are said here
//! one by one.

use std::error::Error;

use riddle_bench::Note;
use riddle_eval::Notice;

/// The whole sentence of an error that is solved by a flag; `None`: its own words will do.
pub(super) fn sentence(error: &(dyn Error + 'static)) -> Option<String> {
    let eval = error.downcast_ref::<riddle_eval::Error>().and_then(eval);
    eval.or_else(|| error.downcast_ref::<riddle_bench::Error>().and_then(bench))
}

fn eval(error: &riddle_eval::Error) -> Option<String> {
    use riddle_eval::Error as E;
    let text = match error {
        E::Zero => "--top-k, --candidates and --limit-queries must be at least 1",
        E::CosinesWithoutRun => "--run-cosines is about the scores of a run: give one with --run",
        E::LayersOfAPart => {
            "--layers measures the full forward: leave out --mode set, --mode order and --deadline"
        }
        E::FilesAndMore => {
            "--files takes texts and titles from files: leave out --run and --ignore-titles"
        }
        E::OnlyRerank => {
            "--run gives the candidates: only the stage rerank can be measured with it"
        }
        E::NoReranker => "no reranker is chosen: give one with --model NAME or --model DIR",
        E::NoVectors => return Some(format!("dense and rrf need vectors, and {NO_VECTORS}")),
        E::NoTerms => {
            "sparse needs weighed terms, and no sparse encoder is installed: `riddle models pull splade-tiny`"
        }
        E::NotCosines { .. } => return Some(format!("{error}: leave out --run-cosines")),
        E::NotASuite { folder, why } => {
            return Some(format!("--suite {}: {}", folder.display(), super::trouble(why)));
        }
        E::NoSuchFolder { .. } => {
            return Some(format!("--files {error}: give the one that holds the dataset's files"));
        }
        E::OtherFiles { .. } => return Some(format!("--files {error}")),
        _ => return None,
    };
    Some(text.to_owned())
}

fn bench(error: &riddle_bench::Error) -> Option<String> {
    match error {
        riddle_bench::Error::NotOurs { .. } => {
            Some(format!("{error}: remove it, or choose another folder with --dir"))
        }
        riddle_bench::Error::Python { packages, .. } => Some(format!(
            "{error}: to compare with other programs, name a Python that has their libraries by --python or RIDDLE_PYTHON (`pip install {packages}`)"
        )),
        _ => None,
    }
}

const NO_VECTORS: &str =
    "no embedder is installed: `riddle models pull all-MiniLM-L6-v2` fetches the default one";

/// What should be known beside the figures of an evaluation.
pub(crate) fn eval_notice(notice: &Notice) -> String {
    match notice {
        Notice::Assistant { notice } => super::notice(notice),
        Notice::TitlesIgnored => "the documents' titles are ignored".to_owned(),
        Notice::RelevantAbsent { documents } => {
            format!("{documents} relevant documents are not in the corpus and count as not found")
        }
        Notice::QueriesUnjudged { queries } => {
            format!("{queries} queries have no relevant document and are left out")
        }
        Notice::DomainsUnknown { sets } => {
            format!("the domains name sets that are not in the suite: {}", sets.join(", "))
        }
        Notice::NoVectors => format!("dense and rrf are left out: {NO_VECTORS}"),
        Notice::NotReranked { queries } => format!(
            "{queries} queries were not reranked and count in fused order: `riddle search` says why"
        ),
        Notice::NotInRun { queries, run } => {
            format!("{queries} queries have no candidates in {run} and count as 0")
        }
        Notice::DocumentsAbsent { absent, documents, folder } => format!(
            "{absent} of the dataset's {documents} documents are not among the indexed files of {}",
            folder.display()
        ),
        Notice::ParagraphsUnknown { paragraphs } => format!(
            "{paragraphs} paragraphs of the questions are not in the dataset and were left out"
        ),
        Notice::ParagraphsNotFound { questions, passages } => format!(
            "{questions} questions were left out: their paragraph is not among the {passages} passages that are found"
        ),
    }
}

/// What must be known to read the figures of a measurement.
pub(crate) fn bench_note(note: Note) -> &'static str {
    match note {
        Note::Baseline => {
            "The baseline is this engine with every layer in memory and all candidates in one batch, which nothing is padded in. It never loads the whole embedding table: an engine that does takes that much more memory."
        }
        Note::Latency => {
            "Latency is that of a request to a model that is open and has answered before; each run is a process of its own. Before a request that reads layers the system is asked to forget the model's files."
        }
        Note::RandomWeights => {
            "Random weights: time and memory are those of the model's shape, scores mean nothing, and what pruning would save is not measured."
        }
        Note::NothingPruned => "Without --threshold there is no step with pruning.",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use super::*;

    /// All that can be said here.
    pub(in super::super) fn sentences() -> Vec<String> {
        use riddle_eval::Error as E;
        let folder = || PathBuf::from("/files");
        let errors = [
            E::Zero,
            E::CosinesWithoutRun,
            E::LayersOfAPart,
            E::FilesAndMore,
            E::OnlyRerank,
            E::NoReranker,
            E::NoVectors,
            E::NoTerms,
            E::NotCosines { run: "bm25".to_owned() },
            E::NoSuchFolder { folder: folder() },
            E::OtherFiles { folder: folder(), example: "a.md".to_owned() },
        ];
        let mut all: Vec<String> = errors.iter().filter_map(|it| sentence(it)).collect();
        assert_eq!(all.len(), errors.len());
        let errors = [
            riddle_bench::Error::NotOurs { dir: folder() },
            riddle_bench::Error::Python {
                python: folder(),
                why: "no torch".to_owned(),
                packages: "torch".to_owned(),
            },
        ];
        all.extend(errors.iter().filter_map(|it| sentence(it)));
        all.extend(Notice::examples().iter().map(eval_notice));
        all.extend(Note::ALL.iter().map(|&it| bench_note(it).to_owned()));
        all
    }
}
