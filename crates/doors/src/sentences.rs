//! What the libraries notice and advise, in English and with the commands of the command line: an assistant that reads
//! "run `riddle index`" can pass it on to a person who has it. The command line says the same.
//!
//! Libraries know no command, flag or variable: they name an [`Advice`] or a [`Notice`], and here it becomes a
//! sentence.

use riddle_rag::{
    NoAnswer,
    status::{Problem, Rest},
    writer::{LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE},
};
use riddle_types::{Advice, Advised, NoJudge, NotElsewhere, Notice, RewriteFault, Trouble};

/// What to do, as a part of a sentence.
// Long: one line for each kind, and no kind is left to another function.
pub fn advice(advice: &Advice) -> String {
    let text = match advice {
        Advice::AddFolder => "run `riddle index FOLDER` first",
        Advice::AddFolderAgain => "add it again with `riddle index FOLDER`",
        Advice::ListFolders => "`riddle status` lists the folders that are",
        Advice::UpdateIndex => "run `riddle index`",
        Advice::UpdateIndexNowAndThen => "run `riddle index` from time to time instead",
        Advice::RepairIndexes => "run `riddle check --repair`",
        Advice::UpgradeCatalog => "run `riddle index` once to bring it up to date",
        Advice::GivePassphrase => {
            "give its passphrase in RIDDLE_PASSPHRASE, or keep its key with `riddle encrypt --keyring`"
        }
        Advice::ReplaceCatalog => {
            "move the file away and run `riddle index` again; your own files are not touched"
        }
        Advice::UpdateProgram => "update riddle, or use another --home",
        Advice::FindModel { name } => {
            return format!(
                "`riddle models list` shows what there is, `riddle models pull {name}` fetches it"
            );
        }
        Advice::GiveModel => "give such a folder, or the name of a model (`riddle models list`)",
        Advice::NameModel => {
            "use a name from `riddle models list --available`, or ORG/NAME as on the hub"
        }
        Advice::ListModels => "`riddle models list` shows what there is",
        Advice::PullModel { name } => return format!("fetch it with `riddle models pull {name}`"),
        Advice::PullModelAgain { name } => {
            return format!("run `riddle models pull {name}` to fetch it again");
        }
        Advice::RestoreModel { name } => {
            return format!("run `riddle models remove {name}`: it is put there anew");
        }
        Advice::ImportModelAgain { name } => {
            return format!(
                "run `riddle models import FOLDER --name {name}` with the original folder"
            );
        }
        Advice::GoOnline => {
            "switch it on, or copy the model's folder from another computer and run `riddle models import FOLDER`"
        }
        Advice::ChooseFile { choices } => return format!("choose one with `--file`: {choices}"),
        Advice::AcceptLicense { page } => {
            return format!(
                "open {page}, accept the license there, then give an access token of that account with \
                 `riddle models token`, or in HF_TOKEN"
            );
        }
        Advice::GiveHubToken => {
            "what is for some people only wants their access token: `riddle models token` keeps it where there is a secret store, HF_TOKEN gives it anywhere"
        }
        Advice::GiveHubAddress => {
            "give an address as `riddle models source https://huggingface.co` does, or the word `modelscope`, or `default`"
        }
        Advice::ChooseModelFile => {
            return format!("import one of them alone, or name it with --llm {LLM_LOCAL}FILE");
        }
        Advice::GiveModelFile => "give the GGUF file in it, or import it (`riddle models import`)",
        Advice::JoinParts => {
            "join them into one file with `llama-gguf-split --merge`, or fetch a model in one file"
        }
        Advice::ConvertModel => "make it again with `riddle models convert`, or remove it",
        Advice::ShardModel => "make them again with `riddle models shard`",
        Advice::CalibrateModel { model } => {
            return format!("make it again with {}", calibrate(model));
        }
        Advice::CalibrateOrThreshold { model } => {
            return format!("{} makes one, --threshold does without", calibrate(model));
        }
        Advice::CalibrateFor { model, top_k } => {
            return format!(
                "ask for one of those results, or make another with {} --top-k {top_k}",
                calibrate(model)
            );
        }
        Advice::AskForLess => "ask for less, calibrate with more requests, or use --mode off",
        Advice::ChoosePruning => {
            "say how much with --threshold, --precision or --error-probability, or use --mode off"
        }
        Advice::ChooseMode => "add --mode set or --mode order to say what pruning may change",
        Advice::AllowEndpoint => {
            "--preview shows them; allow it once (--allow-endpoint, or in the app)"
        }
        Advice::AllowServer => {
            "allow it once with --allow-endpoint (`riddle models use ADDRESS --allow-endpoint`), or in the app's settings"
        }
        Advice::GiveServerKey => {
            "give the right key with `riddle llm key set --llm-url ADDRESS`, or in RIDDLE_RERANK_KEY, or in RIDDLE_EMBED_KEY for one that embeds"
        }
        Advice::ChooseWriter => {
            return format!(
                "use --llm {LLM_EXTRACTIVE}, which quotes your files, --llm {LLM_LOCAL}MODEL or --llm {LLM_REMOTE}"
            );
        }
        Advice::GiveEndpoint => {
            "give its address and the model's name with --llm-url and --llm-model, or in RIDDLE_LLM_URL and RIDDLE_LLM_MODEL"
        }
        Advice::GiveKey => {
            "give the right key with `riddle llm key set`, in the app's settings, or in RIDDLE_LLM_KEY"
        }
        Advice::GiveKeyElsewhere => {
            "give the key in the environment variable RIDDLE_LLM_KEY instead"
        }
        Advice::GiveContext => {
            "if the prompt is too long, give the model's context with --llm-context or in the app's settings"
        }
        Advice::InstallOnnxRuntime => {
            "install it (for example the file libonnxruntime.so inside the PyPI package onnxruntime) and set ORT_DYLIB_PATH to the library, or choose the built-in embedder all-MiniLM-L6-v2"
        }
        Advice::GiveLibraryAddress => {
            "write it as milvus://HOST:PORT/NAME, or with milvuss:// for an encrypted connection"
        }
        Advice::AddLibrary => {
            "`riddle library list` shows those that are, `riddle library add NAME ADDRESS` adds one"
        }
        Advice::CheckLibraryServer => {
            "see whether the server runs and the address is right (`riddle library list`)"
        }
        Advice::GiveLibraryKey => {
            "keep USER:PASSWORD or a token with `riddle library key set NAME`, or give it in RIDDLE_LIBRARY_KEY"
        }
        Advice::NameOriginals => {
            "`riddle library originals NAME https://HOST:PORT/BUCKET` says which store keeps them"
        }
        Advice::GiveOriginalsKey => {
            "keep ACCESS:SECRET with `riddle library key set NAME --originals`, or give it in RIDDLE_ORIGINALS_KEY"
        }
        Advice::EncryptLibrary => {
            "add the library with milvuss:// in the place of milvus://, which encrypts the connection"
        }
        Advice::PushLibrary => "`riddle library push NAME` writes what this computer has indexed",
        Advice::UseLibraryEmbedder { embedder } => {
            return format!(
                "index with that embedder (`riddle index --embedder`: {embedder}), or write the library anew with `riddle library push NAME --anew`"
            );
        }
        Advice::WriteLibraryAnew => {
            "`riddle library push NAME --anew` writes it from the beginning, on a computer that has the files"
        }
        Advice::TakeLibraryOver => {
            "`riddle library push NAME --take-over --anew` removes what they wrote as well"
        }
        Advice::WaitForLibrary => "`riddle library push NAME` writes it again, if that is wanted",
        Advice::MapLibraryFolder => {
            "if this computer can reach it, say where: `riddle library map NAME THERE HERE`"
        }
        Advice::ChoosePort => "choose another with --port, or leave it out",
        Advice::ChooseSocket => "choose another file with --socket",
        Advice::AllowOtherMachines => "say --beyond-this-machine as well if that is meant",
    };
    text.to_owned()
}

fn calibrate(model: &str) -> String {
    format!("`riddle models calibrate {model} --requests FILE`")
}

/// What is wrong, and what to do.
pub fn trouble(it: &Trouble) -> String {
    with_advice(it.what.clone(), it.advice.as_ref())
}

/// The same of an error.
pub fn told<E: Advised + std::fmt::Display>(error: &E) -> String {
    trouble(&Trouble::of(error))
}

/// Both in a sentence.
pub fn with_advice(what: String, it: Option<&Advice>) -> String {
    match it {
        Some(it) => format!("{what}: {}", advice(it)),
        None => what,
    }
}

/// What should be known beside a result.
// Long: one line for each kind, and no kind is left to another function.
pub fn notice(notice: &Notice) -> String {
    match notice {
        Notice::NothingIndexedYet => {
            "there is nothing in the index yet: `riddle index FOLDER` reads a folder, `riddle status` says what it found".to_owned()
        }
        Notice::KeywordsNotSearched { why } => {
            format!("keywords are not searched: {}", trouble(why))
        }
        Notice::MeaningNotSearched { why } => format!("meaning is not searched: {}", trouble(why)),
        Notice::NoEmbedder { name } => no_embedder(name),
        Notice::EmbedderChanging { embedder } => format!(
            "only keywords are searched: the vectors were made by {embedder}, and another embedder is being introduced: run `riddle index`"
        ),
        Notice::EmbedderMissing { embedder } => format!(
            "only keywords are searched: the model that made the vectors ({embedder}) is not installed: `riddle models pull` fetches it"
        ),
        Notice::VectorsWait { waiting, why } => format!(
            "{waiting} passages wait for their vectors, and are found by words alone until `riddle index` goes on: {}",
            trouble(why)
        ),
        Notice::NotAsQuoted { phrases } => not_as_quoted(phrases),
        Notice::LeftOut { words } => {
            format!("without: {} (a minus before a word leaves out what has it)", quoted(words))
        }
        Notice::KeywordsDecide { model, languages, language } => format!(
            "keywords decide: {model} reads {}, and this is in another language ({language}); `riddle models pull multilingual-e5-small` fetches one that reads a hundred",
            languages.join(", ")
        ),
        Notice::NotReranked { why } => format!("not reranked: {}", trouble(why)),
        Notice::NotRankedElsewhere { server, why } => {
            format!("{server} has not ranked: {}", not_elsewhere(why))
        }
        Notice::SettingsNotElsewhere { server } => format!(
            "{server} knows neither pruning nor limits of memory: they are settings of models on this machine"
        ),
        Notice::NobodyPruned { why } => format!("nobody is pruned: {}", trouble(why)),
        Notice::NotRerankedInLanguage { model, languages, language } => {
            format!("not reranked: {}", untrained(model, languages, language))
        }
        Notice::NotRewritten { why, with_words_before } => {
            let taken = if *with_words_before { ", with words of the one before" } else { "" };
            let why = rewrite_fault(why);
            format!("the question was not rewritten ({why}): it was searched for as typed{taken}")
        }
        Notice::CheckedWithoutReranker { why } => format!(
            "the answer's sentences are checked by their words and meaning alone: {}",
            no_judge(why)
        ),
        Notice::Repeats => "the model said the same again and again, so it was stopped".to_owned(),
        Notice::PassagesLeftOut { count } => {
            format!("{count} of the passages did not fit into the model's context")
        }
        Notice::PassageCut { number } => {
            format!("passage {number} was cut to fit into the model's context")
        }
        Notice::AnswerBreaksOff { why } => format!("the answer breaks off: {}", trouble(why)),
        Notice::AnswerCutOff => "the answer was cut off at its longest".to_owned(),
        Notice::AnswerTooLong { tokens } => {
            format!("the answer breaks off: it has reached the limit of {tokens} tokens")
        }
        Notice::FolderNotWatched { folder, why } => {
            format!("{} is only looked at every ten minutes: {why}", folder.display())
        }
        Notice::FolderPolled { folder, why } => {
            format!("{} is looked at from time to time instead of watched: {why}", folder.display())
        }
        Notice::FolderMoved { from, to } => {
            format!("{} is now {}: what was read of it stays", from.display(), to.display())
        }
        Notice::LibraryNotSearched { name, why } => {
            format!("the library {name} is not searched: {}", trouble(why))
        }
    }
}

fn not_as_quoted(phrases: &[String]) -> String {
    match phrases {
        [_] => format!(
            "{} was not found as it is quoted: its words were searched for instead",
            quoted(phrases)
        ),
        _ => format!(
            "{} were not found together as they are quoted: their words were searched for instead",
            quoted(phrases)
        ),
    }
}

/// Words of the query among those of a sentence.
fn quoted(words: &[String]) -> String {
    words.iter().map(|it| format!("“{it}”")).collect::<Vec<_>>().join(", ")
}

fn no_embedder(name: &str) -> String {
    format!(
        "no embedding model: only keywords are searched; `riddle models pull {name}` and then `riddle index` add search by meaning"
    )
}

fn untrained(model: &str, languages: &[String], language: &str) -> String {
    let languages = languages.join(", ");
    format!("{model} was trained on {languages}, and this is in another language ({language})")
}

fn rewrite_fault(fault: &RewriteFault) -> String {
    match fault {
        RewriteFault::Slow { seconds } => format!("the model took longer than {seconds} s"),
        RewriteFault::Failed { why } => trouble(why),
        RewriteFault::Nothing => "it wrote nothing".to_owned(),
        RewriteFault::TooMuch => "it wrote more than a question".to_owned(),
        RewriteFault::NoQuestion => "it wrote no question".to_owned(),
        RewriteFault::SomethingElse => "it wrote about something else".to_owned(),
    }
}

fn not_elsewhere(why: &NotElsewhere) -> String {
    match why {
        NotElsewhere::Failed { why } => trouble(why),
        NotElsewhere::HeldBack { count } => format!(
            "{count} of the passages lie in folders that never leave this machine, so it was sent none"
        ),
    }
}

fn no_judge(why: &NoJudge) -> String {
    match why {
        NoJudge::NotChosen => "no reranker is chosen".to_owned(),
        NoJudge::OtherModel { known, chosen } => {
            format!("what its scores mean is known of {known}, and {chosen} is chosen")
        }
        NoJudge::Language { model, languages, language } => untrained(model, languages, language),
        NoJudge::Failed { why } => trouble(why),
    }
}

/// Why there is no answer.
pub fn no_answer(why: NoAnswer) -> &'static str {
    match why {
        NoAnswer::Nothing => "nothing in your files answers this",
        NoAnswer::NothingThatMayLeave => {
            "nothing that may leave this machine answers this: what was found in folders that never do was not sent; quoting (extractive), or a model on this machine, can use it"
        }
        NoAnswer::AllHeldBack => {
            "all that was found for this lies in folders that never leave this machine, so the model was not asked; quoting (extractive), or a model on this machine, can use it"
        }
        NoAnswer::Stopped => "stopped before the first word",
        NoAnswer::ModelWroteNothing => "the model wrote nothing",
        NoAnswer::ModelFoundNothing => "the model found no answer in the passages",
    }
}

/// A time that nobody needs to the second.
pub fn about(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil().max(1.0);
    if minutes < 90.0 {
        format!("{minutes} min")
    } else {
        format!("{} h", (minutes / 60.0).round())
    }
}

/// Why vectors wait.
pub fn rest(it: Rest) -> &'static str {
    match it {
        Rest::Battery => "waiting: on battery",
        Rest::Server => "waiting: the server that embeds does not",
        Rest::Load => "slowly: others want the processor",
    }
}

/// What is wrong with a home, and what to do.
pub fn problem(it: &Problem) -> String {
    match it {
        Problem::Catalog { trouble: it } => trouble(it),
        Problem::KeywordIndexBehind => "the keyword index is behind: run `riddle index`".to_owned(),
        Problem::VectorIndexBehind => "the vector index is behind: run `riddle index`".to_owned(),
        Problem::TermIndexBehind => {
            "the index of weighed terms is behind: run `riddle index`".to_owned()
        }
        Problem::KeywordIndexDiffers { held, wanted } => format!(
            "the keyword index holds {held} passages instead of {wanted}: run `riddle check --repair`"
        ),
        Problem::VectorIndexDiffers { held, wanted } => format!(
            "the vector index holds {held} vectors instead of {wanted}: run `riddle check --repair`"
        ),
        Problem::TermIndexDiffers { held, wanted } => format!(
            "the index of weighed terms holds {held} passages instead of {wanted}: run `riddle check --repair`"
        ),
        Problem::KeywordIndexDamaged { why } => {
            format!("the keyword index is damaged ({why}): run `riddle check --repair`")
        }
        Problem::VectorIndexDamaged { why } => {
            format!("the vector index is damaged ({why}): run `riddle check --repair`")
        }
        Problem::TermIndexDamaged { why } => {
            format!("the index of weighed terms is damaged ({why}): run `riddle check --repair`")
        }
        Problem::FilesGone { files } => format!(
            "{} no longer there: run `riddle index`",
            if *files == 1 { "1 file is".to_owned() } else { format!("{files} files are") }
        ),
        Problem::FilesChanged { files } => match files {
            1 => "1 file has changed since it was read: run `riddle index`".to_owned(),
            _ => format!("{files} files have changed since they were read: run `riddle index`"),
        },
        Problem::FilesUnread { files } => match files {
            1 => "1 file waits to be read: run `riddle index`".to_owned(),
            _ => format!("{files} files wait to be read: run `riddle index`"),
        },
        Problem::VectorsMissing => {
            "some passages have no vector yet: run `riddle index`".to_owned()
        }
        Problem::NoEmbedder { name } => no_embedder(name),
    }
}
