//! Arguments of `riddle eval --suite`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SuiteArgs {
    /// Measure every dataset below this folder instead, and show what people see beside the best of its inputs
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["dataset", "stages", "run", "files"])]
    pub(crate) suite: Option<PathBuf>,
    /// Which domain each set is of, {"SET": "DOMAIN"}, null for none [default: domains.json in the suite's folder,
    /// else each set and each folder of sets is a domain]
    #[arg(long, value_name = "FILE.json", requires = "suite", conflicts_with = "dataset")]
    pub(crate) domains: Option<PathBuf>,
    /// Keep the indexes of the sets here [default: in riddle's home]
    #[arg(long, value_name = "FOLDER", requires = "suite", conflicts_with = "dataset")]
    pub(crate) homes: Option<PathBuf>,
}
