//! Arguments of `riddle eval`.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_eval::Stage;

use super::{claims::EvalCommand, rank::PruningArgs, suite::SuiteArgs, values::positive};

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) what: Option<EvalCommand>,
    /// Folder with corpus.jsonl[.gz], queries.jsonl and qrels/test.tsv
    #[arg(value_name = "DATASET_DIR", required_unless_present = "suite")]
    pub(crate) dataset: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) suite: SuiteArgs,
    /// Stages to measure [default: all that the installed models allow]
    #[arg(long, value_delimiter = ',', value_name = "bm25,dense,sparse,rrf,rerank", value_parser = stages())]
    pub(crate) stages: Vec<Stage>,
    /// Rerank the candidates of runs/NAME.trec instead of searching
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// The run's scores are cosines: give them to a reranker that has a retrieval prior
    #[arg(long)]
    pub(crate) run_cosines: bool,
    /// Measure the order after every layer of the reranker, too, over the program's own candidates or those of --run
    #[arg(long)]
    pub(crate) layers: bool,
    /// Candidates of keywords and vectors, each, and how many of both are reranked [default: 50, of which 24 are
    /// reranked; all of a run]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) candidates: Option<usize>,
    /// Results the reranker is asked for
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = positive)]
    pub(crate) top_k: usize,
    /// Rerank with this model, by name or directory
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) model: Option<String>,
    /// Embed with this model, by name or directory
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) embedder: Option<String>,
    #[command(flatten)]
    pub(crate) pruning: PruningArgs,
    /// Index the files of this folder instead of the dataset's texts; document ids are paths below it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) files: Option<PathBuf>,
    /// Take documents as their texts alone, as some published figures do
    #[arg(long)]
    pub(crate) ignore_titles: bool,
    /// Ask only the first N queries; of a suite, N of each set, evenly spread
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) limit_queries: Option<usize>,
    /// Write the order of every stage to FOLDER/STAGE.trec; of a suite, to FOLDER/SET/STAGE.trec
    #[arg(long, value_name = "FOLDER")]
    pub(crate) save_runs: Option<PathBuf>,
}

fn stages() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::as_str)).try_map(|name| name.parse::<Stage>())
}
