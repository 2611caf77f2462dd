//! The command line's words. What they mean is said here once, for the help and for the reader.

mod bench;
mod cache;
mod claims;
mod compress;
mod doors;
mod endpoint;
mod find;
mod generate;
mod library;
mod local;
mod rerank;
mod suite;

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, Parser, Subcommand,
    builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser as _},
};
use clap_complete::Shell;
use riddle_eval::Stage;
use riddle_rag::{
    Guarantee, Meets, Mode, Pruning, RerankChoice, RerankSettings, STANDARD_ERROR,
    install::StorePrecision, rerank::Centroids,
};
use riddle_types::{FileKind, Filter};

pub(crate) use self::{
    bench::{
        BENCH_WORKER, BenchArgs, BenchCommand, BenchDeadlineArgs, BenchModelArgs, BenchPrepareArgs,
        BenchPrepareLanguageArgs, BenchReplayArgs, BenchRerankArgs,
    },
    cache::{BenchTraceArgs, CacheArgs, CacheCommand, CacheSetArgs, CacheWarmArgs, ReuseArgs},
    claims::{AnswersArgs, ClaimsArgs, EvalCommand},
    compress::CompressArgs,
    doors::{
        ClientsArgs, ClientsCommand, DesktopSearchArgs, MayArgs, McpArgs, McpCommand, ServeArgs,
    },
    endpoint::{
        AskArgs, FoldersArgs, FoldersCommand, KeyArgs, KeyCommand, LlmArgs, LlmCommand,
        key_of_environment,
    },
    find::{FindArgs, Format, ManArgs},
    generate::{BenchGenerateArgs, BenchPrefixArgs},
    library::{LibraryArgs, LibraryCommand, LibraryKeyCommand, library_key_of_environment},
    local::LocalArgs,
    rerank::RerankArgs,
    suite::SuiteArgs,
};
use crate::dates;

/// First argument of the process that parses untrusted files. Riddle starts it itself, and `main` looks for
/// it before the command line is read: it is no command of people's.
pub(crate) const PARSE_WORKER: &str = "parse-worker";

/// Finds things in your own files and answers questions from them, on your own machine.
#[derive(Debug, Parser)]
#[command(name = "riddle", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start with: riddle index FOLDER, then riddle ask \"a question\".")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Folder that holds all of riddle's state
    #[arg(long, global = true, value_name = "DIR", env = "RIDDLE_HOME", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,
    /// Folder of the models [default: models in the home]
    #[arg(long, global = true, value_name = "DIR", env = "RIDDLE_MODELS", hide_env_values = true)]
    pub(crate) models_dir: Option<PathBuf>,
    /// Never use the network
    #[arg(long, global = true, env = "RIDDLE_OFFLINE", hide_env_values = true,
          value_parser = FalseyValueParser::new())]
    pub(crate) offline: bool,
    /// Print one JSON value on stdout, and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more on stderr; twice: everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add folders and bring the index up to date
    Index(IndexArgs),
    /// Find passages in the indexed files
    Search(SearchArgs),
    /// Search while you type, in the terminal
    Find(FindArgs),
    /// Answer a question from the indexed files, with citations
    Ask(AskArgs),
    /// Show folders, file states, index sizes and models
    Status(StatusArgs),
    /// Hold both search indexes against the catalog, and the catalog against the disk
    Check(CheckArgs),
    /// Write all that is known to one file: a backup, or the way to another machine
    Export(ExportArgs),
    /// Make a new home of a file that `riddle export` wrote
    Import(ImportArgs),
    /// List the indexed folders, mark those whose text never leaves this machine, remove one
    Folders(FoldersArgs),
    /// Libraries that live elsewhere, written by one computer and searched by many
    Library(LibraryArgs),
    /// What is kept so that answers need not wait, written or read: show, limit, prepare, delete it
    Cache(CacheArgs),
    /// Keep or forget the key of an endpoint that writes answers
    Llm(LlmArgs),
    /// Rerank documents with the engine alone
    Rerank(RerankArgs),
    /// Fetch, import, check and choose models
    Models(ModelsArgs),
    /// Measure retrieval quality and cost on a dataset in BEIR layout
    Eval(EvalArgs),
    /// Measure a reranker in every number format, and pruned variants of it: quality, time, memory, size
    Compress(CompressArgs),
    /// Measure the reranker's time and memory
    Bench(BenchArgs),
    /// Let other programs of this machine ask: an HTTP API
    Serve(ServeArgs),
    /// Let assistants ask: the Model Context Protocol
    Mcp(McpArgs),
    /// Who may ask, what each may see, and what was asked
    Clients(ClientsArgs),
    /// Show or hide the app's window, for a key binding of your desktop
    Toggle,
    /// Answer the search of GNOME or KDE: the session bus starts it
    #[command(hide = true)]
    DesktopSearch(DesktopSearchArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
}

impl Command {
    /// Whether the first Ctrl-C lets the command finish its step; the others have nothing to lose.
    pub(crate) fn stops_gracefully(&self) -> bool {
        match self {
            Command::Index(_)
            | Command::Eval(_)
            | Command::Models(_)
            | Command::Serve(_)
            | Command::Find(_)
            | Command::Cache(_) => true,
            Command::Library(args) => matches!(args.command, LibraryCommand::Push { .. }),
            // Between two lines it waits for who writes them, and what was answered is out.
            Command::Rerank(args) => !args.lines,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct IndexArgs {
    /// Folders to add; without any, the folders known so far are brought up to date
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Keep following changes until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Embed with this model from now on, by name or directory
    #[arg(long, value_name = "NAME")]
    pub(crate) embedder: Option<String>,
    /// Read the files that failed once more
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Percent of the processor that search by meaning may take beside your work, from now on: while following changes,
    /// and in the app [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) cpu: Option<u32>,
    /// Prepare search by meaning on battery, too, from now on; words are always searched [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) on_battery: Option<bool>,
    /// Weigh terms of passages and questions, from now on, where a sparse encoder is installed [default: yes]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) terms: Option<bool>,
    /// Which scans and pictures are read, from now on, once what reads them is installed: off, new or all [default:
    /// all]
    #[arg(long, value_name = "WHICH", value_parser = ["off", "new", "all"])]
    pub(crate) scans: Option<String>,
}

/// How to rank.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Ranking")]
pub(crate) struct RankArgs {
    /// Show the fused order of keywords and vectors, without a reranker
    #[arg(long, conflicts_with_all = ["model", "mode", "threshold", "precision", "error_probability", "deadline"])]
    pub(crate) no_rerank: bool,
    /// Rerank with this model, by name or directory
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) pruning: PruningArgs,
    /// Candidates that keywords and vectors propose, each, and how many of both are reranked
    /// [default: 50, of which 24 are reranked]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) candidates: Option<usize>,
}

impl RankArgs {
    pub(crate) fn choice(&self) -> RerankChoice {
        match &self.model {
            _ if self.no_rerank => RerankChoice::Off,
            Some(model) => RerankChoice::Model(model.clone()),
            None => RerankChoice::Configured,
        }
    }
}

/// What the reranker may leave out.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct PruningArgs {
    /// What pruning may change: off = nothing, set = the order inside the result, order = only the losers [default:
    /// order with an error probability of 0.01, where the model has a calibration that holds]
    #[arg(long, value_name = "MODE", value_parser = modes())]
    pub(crate) mode: Option<Mode>,
    /// Dispersion of the scores above which candidates are pruned
    #[arg(long, value_name = "T", value_parser = not_negative)]
    pub(crate) threshold: Option<f32>,
    /// Prune so that this share of the results stays (needs a calibrated model)
    #[arg(long, value_name = "P", value_parser = share::<f64>, conflicts_with = "threshold")]
    pub(crate) precision: Option<f64>,
    /// Mean the precision as a 95 % confidence bound, not as an average over the calibration
    #[arg(long, requires = "precision")]
    pub(crate) confident: bool,
    /// Prune so that on average at most this share of the results differs (needs a calibrated model)
    #[arg(long, value_name = "A", value_parser = share::<f64>, conflicts_with_all = ["threshold", "precision"])]
    pub(crate) error_probability: Option<f64>,
    /// Rank within this time of the call, as 150ms or 1s: what is read and computed is planned for it
    #[arg(long, value_name = "TIME", value_parser = rerank::time)]
    pub(crate) deadline: Option<Duration>,
    /// With a deadline: keep so much of the weights between requests, as 2MiB
    #[arg(long, value_name = "SIZE", value_parser = rerank::size, requires = "deadline")]
    pub(crate) preload: Option<u64>,
    /// Logits per unit of cosine that a reranker with a retrieval prior adds; 0 = the model alone [default: the
    /// model's]
    #[arg(long, value_name = "LOGITS", value_parser = not_negative)]
    pub(crate) prior_scale: Option<f32>,
}

impl PruningArgs {
    pub(crate) fn settings(self) -> RerankSettings {
        let meets = if self.confident { Meets::Bound } else { Meets::Mean };
        let error =
            |probability| Pruning::ErrorProbability { probability, guarantee: Guarantee::Result };
        let pruning = match (self.threshold, self.precision, self.error_probability) {
            (Some(threshold), ..) => Pruning::Threshold(threshold),
            (_, Some(precision), _) => Pruning::Precision { precision, meets },
            (.., Some(probability)) => error(probability),
            _ => match self.mode {
                None => Pruning::Standard,
                Some(Mode::Off) => Pruning::Never,
                Some(_) => error(STANDARD_ERROR),
            },
        };
        RerankSettings {
            mode: self.mode.unwrap_or_default(),
            pruning,
            prior_scale: self.prior_scale,
            deadline: self.deadline,
            preload_bytes: self.preload.unwrap_or(0),
            ..RerankSettings::default()
        }
    }
}

/// Which files to look at.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only files below this folder (repeatable)
    #[arg(long = "in", value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// Only files of this kind (repeatable)
    #[arg(long = "type", value_name = "KIND", value_parser = kinds())]
    pub(crate) kinds: Vec<FileKind>,
    /// Only files changed on this day or later (YYYY-MM-DD, days in UTC)
    #[arg(long, value_name = "DATE", value_parser = dates::parse_day)]
    pub(crate) after: Option<i64>,
    /// Only files changed before this day (YYYY-MM-DD, days in UTC)
    #[arg(long, value_name = "DATE", value_parser = dates::parse_day)]
    pub(crate) before: Option<i64>,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> std::io::Result<Filter> {
        // Folders are stored resolved; one that is gone is still a condition, which nothing meets.
        let resolve = |folder: &PathBuf| {
            let path = folder.canonicalize().or_else(|_| std::path::absolute(folder))?;
            Ok(path.to_string_lossy().into_owned())
        };
        Ok(Filter {
            folders: self.folders.iter().map(resolve).collect::<std::io::Result<_>>()?,
            kinds: self.kinds.clone(),
            modified_from: self.after,
            modified_until: self.before,
            ..Filter::default()
        })
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SearchArgs {
    /// What to look for; words in "quotes" are a phrase
    pub(crate) query: String,
    /// Results to show
    #[arg(short, long, default_value_t = 10, value_name = "N", value_parser = positive)]
    pub(crate) k: usize,
    /// Show how every hit came to its place
    #[arg(long)]
    pub(crate) explain: bool,
    /// What is printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "explain")]
    pub(crate) format: Format,
    /// Open the library here even where `riddle serve` or the app has it open
    #[arg(long)]
    pub(crate) alone: bool,
    /// Search this shared library (repeatable); home is the one of this computer, all are this one and every shared one
    /// [default: home]
    #[arg(long, value_name = "NAME|home|all")]
    pub(crate) library: Vec<String>,
    #[command(flatten)]
    pub(crate) rank: RankArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// List every file with its state
    #[arg(long)]
    pub(crate) files: bool,
    /// Read the whole catalog, and say whether it is sound: takes seconds with a hundred thousand passages
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CheckArgs {
    /// Read again what changed and make both search indexes anew, then look once more
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ExportArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) from: PathBuf,
    /// A folder that lies elsewhere here than it lay there (repeatable)
    #[arg(long, value_name = "OLD=NEW", value_parser = moved)]
    pub(crate) moved: Vec<(PathBuf, PathBuf)>,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

/// `OLD=NEW`, two folders.
fn moved(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (old, new) = text.split_once('=').ok_or("write it as OLD=NEW")?;
    if old.is_empty() || new.is_empty() {
        return Err("write it as OLD=NEW".to_owned());
    }
    Ok((PathBuf::from(old), PathBuf::from(new)))
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) command: ModelsCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the installed models
    List {
        /// List what can be fetched by a short name
        #[arg(long)]
        available: bool,
    },
    /// Fetch a model, by a short name or as ORG/NAME on the hub
    Pull {
        /// Short name, or ORG/NAME
        name: String,
        /// The weight file to take, where there are several
        #[arg(long, value_name = "FILE")]
        file: Option<String>,
        /// Branch, tag or commit
        #[arg(long, value_name = "REVISION", default_value = "main")]
        revision: String,
        /// Fetch it even if it is installed
        #[arg(long)]
        again: bool,
        /// Keep the default embedder's weights as they are published, instead of packing them into bytes: its vectors
        /// are then those of sentence-transformers, at less than half the speed
        #[arg(long)]
        as_published: bool,
    },
    /// Copy a model from a folder: the way onto a computer without a network
    Import {
        /// The model's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Name in the store [default: the folder's]
        #[arg(long)]
        name: Option<String>,
    },
    /// Compare installed files with their checksums; without a name, those of all models
    Verify {
        /// The model
        name: Option<String>,
    },
    /// Write a model's weights as our own store: layer by layer, aligned, checksummed, in another format
    Convert {
        /// The reranker or embedder, by name or directory
        #[arg(value_name = "NAME|DIR")]
        name: String,
        /// Number format of the matrices; int8 and q4 keep tables in bytes [default: as they are]
        #[arg(long, value_name = "FORMAT", value_parser = dtypes())]
        dtype: Option<StorePrecision>,
        /// Folder to write to, which is a model of its own then [default: the model's own]
        #[arg(long, visible_alias = "output", value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Cut a reranker into shards of two to eight bits, which a deadline needs: they lie in the home
    Shard {
        /// The reranker, by name or directory
        #[arg(value_name = "NAME|DIR")]
        name: String,
        /// How dictionaries are found: refined, or of equal population as in the paper
        #[arg(long, value_name = "HOW", value_parser = centroids(), default_value = "refined")]
        dictionaries: Centroids,
    },
    /// Measure what a reranker's shards take on this machine, and learn from requests what they are worth
    Profile {
        /// The reranker, by name or directory
        #[arg(value_name = "NAME|DIR")]
        name: String,
        /// Requests as `riddle rerank` takes them, one per line; documents that are relevant say so ("relevant": 1)
        #[arg(long, value_name = "FILE.jsonl")]
        requests: Option<PathBuf>,
    },
    /// Try the installed models on questions made from your own files, and say which to use
    Advise {
        /// Questions, at most
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(8..=1000))]
        questions: u64,
        /// Seconds for all models together
        #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(5..=36000))]
        seconds: u64,
    },
    /// Remove a model from the disk
    Remove {
        /// The model
        name: String,
    },
    /// Learn from requests how a reranker may be pruned, for --precision and --error-probability
    Calibrate(CalibrateArgs),
    /// Use a model from now on: an embedder for the index, a reranker for searches ("none": no reranker)
    Use {
        /// The model
        #[arg(value_name = "NAME|DIR|none")]
        name: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CalibrateArgs {
    /// The reranker, by name or directory
    #[arg(value_name = "NAME|DIR")]
    pub(crate) name: String,
    /// Requests as `riddle rerank` takes them, one per line: as alike as possible to those to come
    #[arg(long, value_name = "FILE.jsonl", required_unless_present = "suite")]
    pub(crate) requests: Option<PathBuf>,
    /// Make the requests from the questions of the datasets below this folder, as searches ask them, and check with
    /// every third
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["requests", "check"])]
    pub(crate) suite: Option<PathBuf>,
    /// Which domain each set is of, as for `riddle eval --suite`: sets of none are left out
    #[arg(long, value_name = "FILE.json", requires = "suite")]
    pub(crate) domains: Option<PathBuf>,
    /// Keep the indexes of the sets here [default: in riddle's home]
    #[arg(long, value_name = "FOLDER", requires = "suite")]
    pub(crate) homes: Option<PathBuf>,
    /// Questions of each set, evenly spread
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = positive)]
    pub(crate) limit_queries: usize,
    /// Sizes of the result [default: 1,5,10,20]
    #[arg(long, value_delimiter = ',', value_name = "K", value_parser = positive)]
    pub(crate) top_k: Vec<usize>,
    /// What pruning may change [default: both]
    #[arg(long, value_name = "MODE", value_parser = pruning_modes())]
    pub(crate) mode: Option<Mode>,
    /// Precision to show the threshold of; any other can be asked for later
    #[arg(long, value_name = "P", value_parser = share::<f64>, default_value_t = 0.99)]
    pub(crate) precision: f64,
    /// Other requests, to see what the calibration's promises are worth on them
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) check: Option<PathBuf>,
    /// Draw precision over latency into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
}

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
    /// Measure the order after every layer of the reranker, too
    #[arg(long, requires = "run")]
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

#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number of at least 1 is needed".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn not_negative(text: &str) -> Result<f32, String> {
    let number = text.parse::<f32>().ok().filter(|it| it.is_finite() && *it >= 0.0);
    number.ok_or_else(|| "a number of 0 or more is needed".to_owned())
}

fn share<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + From<u8>,
{
    let number = text.parse::<T>().ok().filter(|it| (T::from(0)..=T::from(1)).contains(it));
    number.ok_or_else(|| "a number from 0 to 1 is needed".to_owned())
}

fn dtypes() -> impl clap::builder::TypedValueParser<Value = StorePrecision> {
    PossibleValuesParser::new(StorePrecision::ALL.map(StorePrecision::as_str))
        .try_map(|name| name.parse::<StorePrecision>())
}

fn modes() -> impl clap::builder::TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["off", "set", "order"]).try_map(|name| name.parse::<Mode>())
}

fn centroids() -> impl clap::builder::TypedValueParser<Value = Centroids> {
    PossibleValuesParser::new(["refined", "equal-population"])
        .map(|it| if it == "refined" { Centroids::Lloyd } else { Centroids::EqualPopulation })
}

fn pruning_modes() -> impl clap::builder::TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["set", "order"]).try_map(|name| name.parse::<Mode>())
}

fn stages() -> impl clap::builder::TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::as_str)).try_map(|name| name.parse::<Stage>())
}

fn kinds() -> impl clap::builder::TypedValueParser<Value = FileKind> {
    // Files of the kind "other" hold no text that could be found.
    let names = FileKind::ALL.into_iter().filter(|it| *it != FileKind::Other);
    PossibleValuesParser::new(names.map(FileKind::as_str))
        .try_map(|name| FileKind::parse(&name).ok_or_else(|| format!("{name:?} is not a kind")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn commands_of_the_contract_parse() {
        for line in [
            "riddle index a b --watch --json",
            "riddle index --retry-failed --embedder bge-small",
            "riddle search boat -k 3 --no-rerank --json",
            "riddle search boat --explain --in . --in /tmp --type pdf --type mail --after 2025-01-01 --before 2025-02-01",
            "riddle search boat --model m --mode order --threshold 0.3 --candidates 20",
            "riddle search boat --library team --library home",
            "riddle library add team milvus://localhost:19530/team",
            "riddle library list --json",
            "riddle library push team --take-over --anew",
            "riddle library key set team",
            "riddle library remove team",
            "riddle ask why --llm extractive --json",
            "riddle ask why --follows a --follows b --llm remote --preview --llm-url http://localhost:1 --llm-model m",
            "riddle llm key set --llm-url https://api.test/v1",
            "riddle llm key status --json --llm-url https://api.test/v1",
            "riddle llm key forget --llm-url https://api.test/v1",
            "riddle folders --json",
            "riddle folders list",
            "riddle folders confine a",
            "riddle folders release a",
            "riddle folders remove a",
            "riddle status --files --json",
            "riddle rerank",
            "riddle rerank --model m --mode set --precision 0.99 --window 2 --micro-batch-tokens 512 --embedding-rows 0.1 --threads 1 --raw-scores --trace t.json",
            "riddle models list --json",
            "riddle models pull all-MiniLM-L6-v2",
            "riddle models import dir --name x",
            "riddle models verify",
            "riddle models remove x",
            "riddle models use x",
            "riddle models calibrate x --requests r.jsonl --top-k 1,10 --mode set --precision 0.99 --check o.jsonl --svg c.svg --json",
            "riddle models calibrate x --suite d --homes h --domains f --limit-queries 9",
            "riddle rerank --model m --mode order --error-probability 0.01",
            "riddle search boat --model m --mode set --precision 0.99 --confident",
            "riddle eval d --stages bm25,dense,rrf,rerank --candidates 50 --top-k 10 --model m --limit-queries 5",
            "riddle rerank --model m --memory-budget 250MiB --hidden-on-disk --direct-io --max-tokens 512 --instruction x --separate-prefixes",
            "riddle bench replay t.json --threshold 0.1,0.5 --mode order -k 5 --json",
            "riddle models convert m --dtype bf16 --out d",
            "riddle eval d --run minilm --json",
            "riddle eval --suite d --domains f --homes h --limit-queries 5 --mode off --json",
            "riddle bench rerank --shape minilm-l6 --preset figure16 --candidates 5 --tokens 100 --repeat 1 --threshold 0.3 --threads 1 --dir d --svg m.svg --json",
            "riddle bench prepare --model m --tokens 256 --request r.json",
            "riddle serve --port 7000 --json",
            "riddle serve --listen 0.0.0.0 --beyond-this-machine --allow-host nas:7000 --allow-origin https://nas --queue 8",
            "riddle mcp --alone --with-confined",
            "riddle mcp install claude-desktop --dry-run --json",
            "riddle mcp uninstall zed",
            "riddle completions bash",
            "riddle --home h --models-dir m --offline -vv status",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn pruning_is_what_was_chosen_and_else_the_standard() {
        let pruning = |line: &str| match parse(line).expect("parses").command {
            Command::Search(args) => {
                let settings = args.rank.pruning.settings();
                (settings.mode, settings.pruning)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(pruning("riddle search x"), (Mode::Off, Pruning::Standard));
        assert_eq!(pruning("riddle search x --mode off"), (Mode::Off, Pruning::Never));
        let error = Pruning::ErrorProbability { probability: 0.01, guarantee: Guarantee::Result };
        assert_eq!(pruning("riddle search x --mode set"), (Mode::Set, error));
        let line = "riddle search x --mode set --threshold 0.5";
        assert_eq!(pruning(line), (Mode::Set, Pruning::Threshold(0.5)));
    }

    #[test]
    fn what_is_not_built_does_not_exist() {
        assert!(parse("riddle bench index").is_err());
    }

    #[test]
    fn nonsense_is_wrong_usage() {
        for line in [
            "riddle search",
            "riddle search x -k 0",
            "riddle library",
            "riddle library add team",
            "riddle search x --mode fast",
            "riddle search x --threshold NaN",
            "riddle search x --threshold -1",
            "riddle search x --no-rerank --model m",
            "riddle search x --type song",
            "riddle search x --after yesterday",
            "riddle rerank --model m --precision 2",
            "riddle rerank --model m --precision 0.9 --threshold 1",
            "riddle rerank --model m --precision 0.9 --error-probability 0.1",
            "riddle rerank --model m --precision NaN",
            "riddle rerank --model m --confident",
            "riddle rerank --model m --memory-budget much",
            "riddle rerank --model m --memory-budget -1MB",
            "riddle rerank --model m --memory-budget 0",
            "riddle bench replay",
            "riddle bench replay t.json --mode off",
            "riddle models convert m --dtype int3",
            "riddle models calibrate m",
            "riddle models calibrate m --requests r --mode off",
            "riddle models calibrate m --requests r --suite s",
            "riddle models calibrate m --requests r --top-k 0",
            "riddle eval",
            "riddle eval d --stages bm26",
            "riddle eval d --suite e",
            "riddle eval d --homes h",
            "riddle eval --suite d --stages bm25",
            "riddle bench rerank",
            "riddle bench rerank --shape gpt-5",
            "riddle bench rerank --shape minilm-l6 --model m",
            "riddle serve --port many",
            "riddle serve --beyond-this-machine",
            "riddle serve --queue 0",
            "riddle mcp install emacs",
            "riddle completions vi",
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
