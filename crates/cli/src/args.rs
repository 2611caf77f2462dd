//! The command line's words. What they mean is said here once, for the help and for the reader.

mod bench;
mod cache;
mod claims;
mod compress;
mod doors;
mod endpoint;
mod eval;
mod filter;
mod find;
mod generate;
mod home;
mod index;
mod library;
mod local;
mod models;
mod plan;
mod rank;
mod rerank;
mod search;
mod suite;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, builder::FalseyValueParser};
use clap_complete::Shell;

pub(crate) use self::{
    bench::{
        BENCH_WORKER, BenchArgs, BenchCommand, BenchDeadlineArgs, BenchModelArgs, BenchPrepareArgs,
        BenchPrepareLanguageArgs, BenchReplayArgs, BenchRerankArgs,
    },
    cache::{
        BenchPreemptArgs, BenchTraceArgs, CacheArgs, CacheCommand, CacheSetArgs, CacheWarmArgs,
        ReuseArgs,
    },
    claims::{AnswersArgs, ClaimsArgs, EvalCommand},
    compress::CompressArgs,
    doors::{
        ClientsArgs, ClientsCommand, DesktopSearchArgs, MayArgs, McpArgs, McpCommand, ServeArgs,
    },
    endpoint::{
        AskArgs, FoldersArgs, FoldersCommand, KeyArgs, KeyCommand, LlmArgs, LlmCommand,
        embedder_key_of_environment, key_of_environment, ranker_key_of_environment,
    },
    eval::EvalArgs,
    filter::FilterArgs,
    find::{FindArgs, Format, ManArgs},
    generate::{BenchGenerateArgs, BenchPrefixArgs},
    home::{
        CheckArgs, EncryptArgs, ExportArgs, ImportArgs, StatusArgs, new_passphrase_of_environment,
        passphrase_of_environment,
    },
    index::{IndexArgs, PromptArgs},
    library::{
        LibraryArgs, LibraryCommand, LibraryKeyCommand, library_key_of_environment,
        originals_key_of_environment,
    },
    local::LocalArgs,
    models::{CalibrateArgs, ModelsArgs, ModelsCommand, PullArgs, TokenCommand},
    plan::PlanArgs,
    rank::RankArgs,
    rerank::RerankArgs,
    search::SearchArgs,
    suite::SuiteArgs,
};

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
    /// Hold the search indexes against the catalog and their checksums, and the catalog against the disk
    Check(CheckArgs),
    /// Write all that is known to one file: a backup, or the way to another machine
    Export(ExportArgs),
    /// Make a new home of a file that `riddle export` wrote
    Import(ImportArgs),
    /// Encrypt all that is kept of your files, or change what opens it
    Encrypt(EncryptArgs),
    /// Take the encryption back
    Decrypt,
    /// List the indexed folders, mark those whose text never leaves this machine, remove one
    Folders(FoldersArgs),
    /// Libraries that live elsewhere, written by one computer and searched by many
    Library(LibraryArgs),
    /// Estimate what a library of some size needs, in one home and on a Milvus server
    Plan(PlanArgs),
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
            // It sets the home as each system wants it, and back.
            Command::Bench(args) => matches!(args.command, BenchCommand::Trace(_)),
            // Between two lines it waits for who writes them, and what was answered is out.
            Command::Rerank(args) => !args.lines,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
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
            "riddle index --embedder http://gpu:8080/v1#m --allow-endpoint --query-prompt q --passage-prompt p",
            "riddle models use http://gpu:8080/v1/embeddings#m --allow-endpoint --query-prompt q",
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
            "riddle encrypt",
            "riddle encrypt --keyring --no-passphrase --json",
            "riddle encrypt --change",
            "riddle encrypt --forget",
            "riddle decrypt --json",
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
            "riddle models use http://gpu:8080/v1/rerank#bge --allow-endpoint --json",
            "riddle search x --model http://gpu:8080/rerank --allow-endpoint",
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
    fn what_is_not_built_does_not_exist() {
        assert!(parse("riddle bench index").is_err());
    }

    #[test]
    fn nonsense_is_wrong_usage() {
        for line in [
            "riddle search",
            "riddle search x -k 0",
            "riddle encrypt --no-passphrase",
            "riddle encrypt --change --keyring",
            "riddle encrypt --forget --keyring",
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
