//! What the libraries notice and advise, in the words of the command line: those of the
//! [doors](riddle_doors::sentences), which say the same. What belongs to evaluations and measurements is in
//! [`measuring`].

mod measuring;

use riddle_rag::rerank::{Meets, Pruning};
use riddle_types::{Advised, StageError};

pub(crate) use measuring::{bench_note, eval_notice};

pub(crate) use riddle_doors::sentences::{
    about, advice, no_answer, notice, problem, rest, told, trouble, with_advice,
};

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

    use riddle_rag::{NoAnswer, status::Problem};
    use riddle_types::{Advice, Notice};

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
        variables.insert("RIDDLE_LIBRARY_KEY".to_owned());
        variables.insert("RIDDLE_ORIGINALS_KEY".to_owned());
        variables.insert("RIDDLE_RERANK_KEY".to_owned());
        variables.insert("RIDDLE_EMBED_KEY".to_owned());
        variables.insert("RIDDLE_PASSPHRASE".to_owned());
        variables.insert("RIDDLE_NEW_PASSPHRASE".to_owned());
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
