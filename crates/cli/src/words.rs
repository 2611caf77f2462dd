//! What the libraries notice and advise, in the words of the command line.
//!
//! Libraries know no command, flag or variable: they name an [`Advice`] or a [`Notice`], and here it becomes a
//! sentence. What belongs to evaluations and measurements is in [`measuring`].

mod measuring;

use riddle_rag::{LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE, Meets, NoAnswer, Problem, Pruning, Rest};
use riddle_types::{Advice, Advised, NoJudge, Notice, RewriteFault, StageError, Trouble};

pub(crate) use measuring::{bench_note, eval_notice};

/// What to do, as a part of a sentence.
// Long: one line for each kind, and no kind is left to another function.
pub(crate) fn advice(advice: &Advice) -> String {
    let text = match advice {
        Advice::AddFolder => "run `riddle index FOLDER` first",
        Advice::AddFolderAgain => "add it again with `riddle index FOLDER`",
        Advice::ListFolders => "`riddle status` lists the folders that are",
        Advice::UpdateIndex => "run `riddle index`",
        Advice::UpdateIndexNowAndThen => "run `riddle index` from time to time instead",
        Advice::UpgradeCatalog => "run `riddle index` once to bring it up to date",
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
    };
    text.to_owned()
}

fn calibrate(model: &str) -> String {
    format!("`riddle models calibrate {model} --requests FILE`")
}

/// What is wrong, and what to do.
pub(crate) fn trouble(it: &Trouble) -> String {
    with_advice(it.what.clone(), it.advice.as_ref())
}

/// The same of an error.
pub(crate) fn told<E: Advised + std::fmt::Display>(error: &E) -> String {
    trouble(&Trouble::of(error))
}

/// The same for those who ask through a door.
pub(crate) fn sentences() -> riddle_doors::Sentences {
    riddle_doors::Sentences { notice, problem, no_answer, error: told::<riddle_rag::Error> }
}

fn with_advice(what: String, it: Option<&Advice>) -> String {
    match it {
        Some(it) => format!("{what}: {}", advice(it)),
        None => what,
    }
}

/// The same of an error whose words, with those of its causes, are `line`.
pub(crate) fn line(error: &anyhow::Error, line: String) -> String {
    for cause in error.chain() {
        // Libraries that only the command line has: it knows their errors one by one.
        if let Some(sentence) = measuring::sentence(cause) {
            return sentence;
        }
        let advice = cause
            .downcast_ref::<riddle_rag::Error>()
            .map(Advised::advice)
            .or_else(|| cause.downcast_ref::<riddle_rag::models::Error>().map(Advised::advice))
            .or_else(|| cause.downcast_ref::<riddle_rag::llm::Error>().map(Advised::advice))
            .or_else(|| cause.downcast_ref::<riddle_eval::Error>().map(Advised::advice))
            .or_else(|| cause.downcast_ref::<riddle_bench::Error>().map(Advised::advice))
            .or_else(|| cause.downcast_ref::<riddle_doors::Error>().map(Advised::advice))
            .or_else(|| cause.downcast_ref::<StageError>().map(StageError::advice));
        if let Some(Some(advice)) = advice {
            return with_advice(line, Some(&advice));
        }
    }
    line
}

/// What should be known beside a result.
// Long: one line for each kind, and no kind is left to another function.
pub(crate) fn notice(notice: &Notice) -> String {
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
        Notice::KeywordsDecide { model, languages, language } => format!(
            "keywords decide: {model} reads {}, and this is in another language ({language})",
            languages.join(", ")
        ),
        Notice::NotReranked { why } => format!("not reranked: {}", trouble(why)),
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
    }
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
pub(crate) fn no_answer(why: NoAnswer) -> &'static str {
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
pub(crate) fn about(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil().max(1.0);
    if minutes < 90.0 { format!("{minutes} min") } else { format!("{} h", (minutes / 60.0).round()) }
}

/// Why vectors wait.
pub(crate) fn rest(it: Rest) -> &'static str {
    match it {
        Rest::Battery => "waiting: on battery",
        Rest::Load => "slowly: others want the processor",
    }
}

/// What is wrong with a home, and what to do.
pub(crate) fn problem(it: &Problem) -> String {
    match it {
        Problem::Catalog { trouble: it } => trouble(it),
        Problem::KeywordIndexBehind => "the keyword index is behind: run `riddle index`".to_owned(),
        Problem::VectorIndexBehind => "the vector index is behind: run `riddle index`".to_owned(),
        Problem::KeywordIndexDiffers { held, wanted } => format!(
            "the keyword index holds {held} passages instead of {wanted}: run `riddle check --repair`"
        ),
        Problem::VectorIndexDiffers { held, wanted } => format!(
            "the vector index holds {held} vectors instead of {wanted}: run `riddle check --repair`"
        ),
        Problem::FilesGone { files } => format!(
            "{} no longer there: run `riddle check --repair`, or `riddle index`",
            if *files == 1 { "1 file is".to_owned() } else { format!("{files} files are") }
        ),
        Problem::FilesChanged { files } => format!(
            "{} changed since they were read: run `riddle check --repair`, or `riddle index`",
            if *files == 1 { "1 file has".to_owned() } else { format!("{files} files have") }
        ),
        Problem::VectorsMissing => {
            "some passages have no vector yet: run `riddle index`".to_owned()
        }
        Problem::NoEmbedder { name } => no_embedder(name),
    }
}

/// What was asked of a calibration, as flags.
pub(crate) fn pruning(it: Pruning) -> String {
    match it {
        Pruning::Standard => "what is done by default".to_owned(),
        Pruning::Never => "--mode off".to_owned(),
        Pruning::Threshold(threshold) => format!("--threshold {threshold}"),
        Pruning::Precision { precision, meets: Meets::Mean } => format!("--precision {precision}"),
        Pruning::Precision { precision, meets: Meets::Bound } => {
            format!("--precision {precision} --confident")
        }
        Pruning::ErrorProbability { probability, .. } => {
            format!("--error-probability {probability:.3}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory as _};

    use super::*;
    use crate::args::Cli;

    /// What of a sentence is no command, flag or variable of this program.
    fn unreal(sentence: &str, program: &Command) -> Vec<String> {
        let mut unreal = Vec::new();
        // What stands between the marks is a command line of ours, or another program's.
        let quoted = |(at, text): (usize, &str)| (at % 2 == 1).then(|| text.to_owned());
        let lines: Vec<String> = sentence.split('`').enumerate().filter_map(quoted).collect();
        let foreign = |it: &&String| !it.starts_with("riddle ") && !it.starts_with("--");
        let mut text = sentence.to_owned();
        for line in lines.iter().filter(foreign) {
            text = text.replace(line.as_str(), "");
        }
        for line in lines.iter().filter_map(|it| it.strip_prefix("riddle ")) {
            let mut at = program;
            for word in line.split(' ') {
                if !at.has_subcommands() {
                    break;
                }
                match at.find_subcommand(word) {
                    Some(below) => at = below,
                    None => {
                        unreal.push(format!("riddle … {word}"));
                        break;
                    }
                }
            }
        }
        let (mut flags, mut variables) = (BTreeSet::new(), BTreeSet::new());
        names(program, &mut flags, &mut variables);
        // Kept out of help and completions: a key does not belong on a command line.
        variables.insert("RIDDLE_LLM_KEY".to_owned());
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
        for word in text.split(word) {
            let flag = word.strip_prefix("--").is_some_and(|it| !flags.contains(it));
            if flag || (word.starts_with("RIDDLE_") && !variables.contains(word)) {
                unreal.push(word.to_owned());
            }
        }
        unreal
    }

    fn names(command: &Command, flags: &mut BTreeSet<String>, variables: &mut BTreeSet<String>) {
        for argument in command.get_arguments() {
            flags.extend(argument.get_long().map(str::to_owned));
            variables.extend(argument.get_env().map(|it| it.to_string_lossy().into_owned()));
        }
        command.get_subcommands().for_each(|it| names(it, flags, variables));
    }

    fn sentences() -> Vec<String> {
        let mut all: Vec<String> = Advice::examples().iter().map(advice).collect();
        all.extend(Notice::examples().iter().map(notice));
        all.extend(NoAnswer::ALL.iter().map(|&it| no_answer(it).to_owned()));
        all.extend(Problem::examples().iter().map(problem));
        all.extend(measuring::tests::sentences());
        all
    }

    #[test]
    fn every_kind_has_a_sentence_of_its_own_and_names_only_what_there_is() {
        let (all, program) = (sentences(), Cli::command());
        for sentence in &all {
            assert!(sentence.trim().len() > 10, "{sentence:?}");
            assert_eq!(unreal(sentence, &program), [""; 0], "{sentence}");
        }
        let advices = Advice::examples().len();
        let different: BTreeSet<&String> = all[..advices].iter().collect();
        assert_eq!(different.len(), advices, "two advices in the same words");
    }

    #[test]
    fn what_is_not_there_is_found() {
        let program = Cli::command();
        for (sentence, what) in [
            ("run `riddle calibrate`", "riddle … calibrate"),
            ("run `riddle models fetch X`", "riddle … fetch"),
            ("use --thresold", "--thresold"),
            ("set RIDDLE_KEY", "RIDDLE_KEY"),
        ] {
            assert_eq!(unreal(sentence, &program), [what]);
        }
        assert_eq!(unreal("join with `other --merge`, see RIDDLE_HOME", &program), [""; 0]);
    }

    #[test]
    fn advice_follows_the_error_it_belongs_to() {
        let error = riddle_rag::Error::NoModel { name: "x".to_owned() };
        let said = "no model named \"x\" is installed: `riddle models list` shows what there is, `riddle models pull x` fetches it";
        assert_eq!(told(&error), said);
        let error = anyhow::Error::new(riddle_eval::Error::Rag(error));
        assert_eq!(line(&error, error.to_string()), said);
        let stage = riddle_rag::Error::Stage { stage: "answering", source: error_of_a_stage() };
        let error = anyhow::Error::new(stage);
        assert_eq!(
            line(&error, error.to_string()),
            "answering: no model named \"x\" is installed: `riddle models list` shows what there is, `riddle models pull x` fetches it"
        );
        assert_eq!(line(&anyhow::anyhow!("plain"), "plain".to_owned()), "plain");
    }

    fn error_of_a_stage() -> StageError {
        riddle_rag::Error::NoModel { name: "x".to_owned() }.into()
    }
}
