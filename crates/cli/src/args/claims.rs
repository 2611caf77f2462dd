//! `riddle eval claims`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::positive;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EvalCommand {
    /// Measure the judgment of an answer's sentences on labelled claims
    Claims(ClaimsArgs),
    /// Measure from which similarity on two questions may have one answer, on labelled pairs of questions
    Answers(AnswersArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AnswersArgs {
    /// Pairs, a JSON object per line: question1, question2, is_duplicate (true or false)
    #[arg(value_name = "FILE.jsonl")]
    pub(crate) pairs: PathBuf,
    /// Measure the first N pairs
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ClaimsArgs {
    /// Folder with corpus.jsonl[.gz], queries.jsonl and qrels/test.tsv: the paragraphs that are cited
    #[arg(value_name = "DATASET_DIR")]
    pub(crate) dataset: PathBuf,
    /// Questions on these paragraphs with their answers, in the JSON format of SQuAD
    #[arg(long, required = true, value_name = "FILE")]
    pub(crate) answers: Vec<PathBuf>,
    /// Fit the weights and limits on the calibration articles and print them, instead of measuring on the others
    #[arg(long)]
    pub(crate) fit: bool,
    /// Judge the claims as sentences that cite nothing: against the passages that are found for their question
    #[arg(long)]
    pub(crate) uncited: bool,
    /// Make claims of N questions of each file, evenly spread
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    pub(crate) limit_queries: usize,
    /// Write every pair with what was measured of it, a JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) save_pairs: Option<PathBuf>,
}
