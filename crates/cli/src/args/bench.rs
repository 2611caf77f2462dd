//! The words of `riddle bench`.

use std::path::PathBuf;

use clap::{
    ArgGroup, Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_bench::{NumberFormat, Preset, RandomFormat, RandomModel, Shape};
use riddle_rag::rerank::{Mode, ShardNumbers};

use super::{
    BenchGenerateArgs, BenchPrefixArgs,
    values::{not_negative, positive, pruning_modes, shard_numbers, size},
};

/// First argument of a process that measures one configuration. As with the parser, Riddle starts it itself.
pub(crate) const BENCH_WORKER: &str = "bench-worker";

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure what each of the reranker's techniques brings, as the paper does
    Rerank(BenchRerankArgs),
    /// Measure rerankers with a deadline: what STI brings beside loading, pipelines and preloading
    Deadline(BenchDeadlineArgs),
    /// Write a model of random weights and a request for it, for other programs to be measured on
    Prepare(BenchPrepareArgs),
    /// Measure a language model in a memory budget
    Generate(BenchGenerateArgs),
    /// Measure how soon a language model begins when it has read the passages before
    Prefix(BenchPrefixArgs),
    /// Write a language model of random weights as a GGUF file
    PrepareLanguage(BenchPrepareLanguageArgs),
    /// Ask a person's questions one after the other, of systems that keep different things; forgets the kept answers
    Trace(super::cache::BenchTraceArgs),
    /// Measure what a person waits who asks while answers are prepared; forgets the kept answers
    Preempt(super::cache::BenchPreemptArgs),
    /// Show at once what a recorded run would have saved and lost at other thresholds
    Replay(BenchReplayArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchDeadlineArgs {
    /// The reranker, by name or directory
    #[arg(long, value_name = "NAME|DIR", default_value = riddle_rag::models::DEFAULT_RERANKER)]
    pub(crate) model: String,
    /// What shards are made of: bytes, or single precision as in the paper
    #[arg(long, value_name = "NUMBERS", value_parser = shard_numbers(), default_value = "int8")]
    pub(crate) numbers: ShardNumbers,
    /// Requests, one per line, whose relevant documents say so ("relevant": 1); of one document each: a classifier,
    /// whose accuracy is measured
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) requests: PathBuf,
    /// Megabytes a second of the devices; 0: the real disk
    #[arg(long, value_name = "MB/S", value_delimiter = ',', default_value = "50,150,500,0")]
    pub(crate) rates: Vec<f64>,
    /// Deadlines in milliseconds
    #[arg(long, value_name = "MS", value_delimiter = ',', default_value = "50,100,150,200,400")]
    pub(crate) deadlines: Vec<f64>,
    /// What is kept between requests
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, default_value = "512KiB,1MiB,2MiB,5MiB")]
    pub(crate) buffers: Vec<u64>,
    /// Candidates of a request
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive, default_value = "10,20,50")]
    pub(crate) candidates: Vec<usize>,
    /// Questions, evenly spread
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) limit_queries: Option<usize>,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Orders drawn at random that the importance of shards is held against
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) random_orders: u64,
    /// Only these systems, by name (repeatable) [default: all]
    #[arg(long = "system", value_name = "SYSTEM")]
    pub(crate) systems: Vec<String>,
}

/// A model to measure on.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("measured").required(true).args(["shape", "model"]))]
pub(crate) struct BenchModelArgs {
    /// A published model's shape with random weights, written if it is not there
    #[arg(long, value_name = "SHAPE", value_parser = shapes())]
    pub(crate) shape: Option<Shape>,
    /// A model, by name or directory
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) model: Option<String>,
    /// How a shape's weights are stored [default: as the model was published]
    #[arg(long, value_name = "FORMAT", value_parser = formats(), conflicts_with = "model")]
    pub(crate) format: Option<NumberFormat>,
    /// Where shapes are written and kept [default: bench in the home]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The paper's measurement: 20 or 60 candidates of 500 tokens
    #[arg(long, value_name = "PRESET", value_parser = presets(), default_value = "figure9")]
    pub(crate) preset: Preset,
    /// Documents per request [default: the preset's]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) candidates: Option<usize>,
    /// Tokens of each pair, marks and prompt included [default: the preset's]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) tokens: Option<usize>,
    /// Pairs of different lengths, from this many tokens up to --tokens
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) ragged: Option<usize>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchRerankArgs {
    #[command(flatten)]
    pub(crate) what: BenchModelArgs,
    /// Runs of each configuration
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = positive)]
    pub(crate) repeat: usize,
    /// Measure pruning too, at this dispersion of the scores
    #[arg(long, value_name = "T", value_parser = not_negative)]
    pub(crate) threshold: Option<f32>,
    /// Measure a step more, planned by the engine from this much memory, as 250MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_budget: Option<u64>,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Hold the engine back to an older processor's instructions, as avx2 (see RIDDLE_FORCE_ISA)
    #[arg(long, value_name = "ISA")]
    pub(crate) isa: Option<String>,
    /// Draw memory over time into this file
    #[arg(long, value_name = "FILE", conflicts_with = "peers")]
    pub(crate) svg: Option<PathBuf>,
    /// Compare with Hugging Face transformers and ONNX Runtime instead, in every number format
    #[arg(long, conflicts_with_all = ["threshold", "memory_budget"])]
    pub(crate) peers: bool,
    /// A Python with torch, transformers and onnxruntime [default: python3]
    #[arg(long, value_name = "PYTHON", env = "RIDDLE_PYTHON", requires = "peers")]
    pub(crate) python: Option<PathBuf>,
    /// Peers that are left out, as hf-bf16,riddle-q4
    #[arg(long, value_name = "PEER", value_delimiter = ',', requires = "peers")]
    pub(crate) skip: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchPrepareArgs {
    #[command(flatten)]
    pub(crate) what: BenchModelArgs,
    /// Write the request to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchPrepareLanguageArgs {
    /// A published model, or a tiny one for tests
    #[arg(value_name = "MODEL", value_parser = language_models())]
    pub(crate) model: RandomModel,
    /// How matrices are stored: f16, q8_0, q4_0, q4_k, q6_k, … or the mixture q4_k_m
    #[arg(long, value_name = "DTYPE", default_value = "q4_k_m")]
    pub(crate) dtype: RandomFormat,
    /// A GGUF file whose tokens and chat template it gets, so that it reads a text as that model does [default: made-up
    /// words]
    #[arg(long, value_name = "FILE.gguf")]
    pub(crate) words_of: Option<PathBuf>,
    /// Where it is written and kept [default: bench in the home]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchReplayArgs {
    /// What `riddle rerank --mode off --trace FILE` has written
    #[arg(value_name = "TRACE.json")]
    pub(crate) trace: PathBuf,
    /// Dispersions above which candidates are pruned [default: a spread of them]
    #[arg(long, value_delimiter = ',', value_name = "T", value_parser = not_negative)]
    pub(crate) threshold: Vec<f32>,
    /// What pruning may change
    #[arg(long, value_name = "MODE", value_parser = pruning_modes(), default_value = "set")]
    pub(crate) mode: Mode,
    /// Results asked for
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10, value_parser = positive)]
    pub(crate) top_k: usize,
}

fn shapes() -> impl TypedValueParser<Value = Shape> {
    PossibleValuesParser::new(Shape::ALL.map(Shape::as_str)).try_map(|it| it.parse::<Shape>())
}

fn language_models() -> impl TypedValueParser<Value = RandomModel> {
    PossibleValuesParser::new(RandomModel::ALL.map(RandomModel::as_str))
        .try_map(|it| it.parse::<RandomModel>())
}

fn formats() -> impl TypedValueParser<Value = NumberFormat> {
    PossibleValuesParser::new(NumberFormat::ALL.map(NumberFormat::as_str))
        .try_map(|it| it.parse::<NumberFormat>())
}

fn presets() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::as_str)).try_map(|it| it.parse::<Preset>())
}
