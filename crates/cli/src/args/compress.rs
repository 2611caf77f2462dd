//! `riddle compress`.

use std::path::PathBuf;

use clap::Args;
use riddle_rag::install::StorePrecision;

use super::values::{dtypes, positive};

#[derive(Debug, Clone, Args)]
pub(crate) struct CompressArgs {
    /// The reranker, by name or directory, with its published weights
    #[arg(value_name = "NAME|DIR")]
    pub(crate) model: String,
    /// Dataset in BEIR layout to measure on
    #[arg(long, value_name = "DATASET_DIR")]
    pub(crate) dataset: PathBuf,
    /// Candidates: runs/NAME.trec of the dataset
    #[arg(long, value_name = "NAME")]
    pub(crate) run: String,
    /// Add the run's scores to the reranker's, as cosines of the embedder that its card names
    #[arg(long)]
    pub(crate) run_cosines: bool,
    /// Number formats to measure the model in
    #[arg(long, value_delimiter = ',', value_name = "FORMAT", value_parser = dtypes(),
          default_values = StorePrecision::ALL.map(StorePrecision::as_str))]
    pub(crate) formats: Vec<StorePrecision>,
    /// A pruned variant of the model to measure beside it; may be repeated
    #[arg(long = "variant", value_name = "NAME=DIR", value_parser = variant)]
    pub(crate) variants: Vec<(String, PathBuf)>,
    /// Number formats to measure the variants in
    #[arg(long, value_delimiter = ',', value_name = "FORMAT", value_parser = dtypes(),
          default_values = ["f32", "int8"])]
    pub(crate) variant_formats: Vec<StorePrecision>,
    /// Ask only the first N queries
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) limit_queries: Option<usize>,
    /// Keep the models that are made in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

/// `NAME=DIR`, where the name becomes a folder's.
fn variant(text: &str) -> Result<(String, PathBuf), String> {
    let (name, dir) = text.split_once('=').ok_or("give NAME=DIR")?;
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.' | ' ');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!("{name:?} can not be a folder's name: use letters, digits, - and _"));
    }
    Ok((name.to_owned(), PathBuf::from(dir)))
}
