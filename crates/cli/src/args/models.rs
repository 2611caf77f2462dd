//! Arguments of `riddle models`.

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_rag::{
    install::StorePrecision,
    rerank::{Centroids, Mode, ShardNumbers},
};

use super::{
    PromptArgs,
    values::{dtypes, positive, pruning_modes, shard_numbers, share},
};

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
    Pull(PullArgs),
    /// Where models come from: a mirror of the hub, or ModelScope; without an address, say where
    Source {
        /// Its address, "modelscope", or "default"; modelscope+https://… for a hub that speaks as ModelScope does
        #[arg(value_name = "URL|modelscope|default")]
        address: Option<String>,
    },
    /// An access token for that hub, in the system's secret store: for models that are for some people only
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
    },
    /// Copy a model from a folder, or a GGUF file: the way onto a computer without a network
    Import {
        /// The model's folder, or a language model's GGUF file
        #[arg(value_name = "DIR|FILE.gguf")]
        folder: PathBuf,
        /// Name in the store [default: the folder's or the file's]
        #[arg(long)]
        name: Option<String>,
        /// Keep an embedder's weights as they are, as for `pull`
        #[arg(long)]
        as_published: bool,
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
        /// What they are made of: bytes, or single precision as in the paper
        #[arg(long, value_name = "NUMBERS", value_parser = shard_numbers(), default_value = "int8")]
        numbers: ShardNumbers,
    },
    /// Measure what a reranker's shards take on this machine, and learn from requests what they are worth
    Profile {
        /// The reranker, by name or directory
        #[arg(value_name = "NAME|DIR")]
        name: String,
        /// Requests as `riddle rerank` takes them, one per line; documents that are relevant say so ("relevant": 1)
        #[arg(long, value_name = "FILE.jsonl")]
        requests: Option<PathBuf>,
        /// What the shards are made of
        #[arg(long, value_name = "NUMBERS", value_parser = shard_numbers(), default_value = "int8")]
        numbers: ShardNumbers,
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
    /// Use a model from now on: an embedder for the index, a reranker for searches ("none": no reranker), or a server
    /// that reranks, or embeds if its address ends in /embeddings
    Use {
        /// The model; a server by its address, and behind a # the model there
        #[arg(value_name = "NAME|DIR|URL[#MODEL]|none")]
        name: String,
        /// Let the server be sent questions and passages of your files, from now on, one that embeds all passages but
        /// those of folders that never leave this machine; not needed on this machine
        #[arg(long)]
        allow_endpoint: bool,
        /// Keep the first N numbers of an embedder's vectors: a smaller index, where the model was trained for it
        /// [default: all]
        #[arg(long, value_name = "N", value_parser = positive)]
        dims: Option<usize>,
        #[command(flatten)]
        prompts: PromptArgs,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PullArgs {
    /// Short name, or ORG/NAME; ORG/NAME:Q4_K_M takes that quantization
    pub(crate) name: String,
    /// The weight file to take, where there are several, or the name of its quantization
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Branch, tag or commit
    #[arg(long, value_name = "REVISION", default_value = "main")]
    pub(crate) revision: String,
    /// Fetch it even if it is installed
    #[arg(long)]
    pub(crate) again: bool,
    /// Keep an embedder's weights as they are published, instead of packing them into bytes where a measurement says
    /// that next to nothing is lost: its vectors are then those of sentence-transformers, at less than half the speed
    #[arg(long)]
    pub(crate) as_published: bool,
    /// Say what would be fetched, from where, of what size and under which license, and fetch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Ask nothing on a terminal before a model is fetched that is not of the list
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum TokenCommand {
    /// Ask for a token and keep it, instead of one that was kept; or read it from a pipe [default]
    Set,
    /// Forget the token
    Forget,
    /// Say whether there is one
    Status,
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
    /// Candidates that are ranked, each number with a promise of its own [default: of a suite 24, as searches do; of a
    /// file all requests together]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = positive)]
    pub(crate) candidates: Vec<usize>,
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

fn centroids() -> impl TypedValueParser<Value = Centroids> {
    PossibleValuesParser::new(["refined", "equal-population"])
        .map(|it| if it == "refined" { Centroids::Lloyd } else { Centroids::EqualPopulation })
}
