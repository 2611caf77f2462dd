//! What a person can do about something that went wrong.
//!
//! A library says what is wrong, in its error's words, and names what can be done as an [`Advice`]. Whoever talks to
//! the person says it: the command line names a command, the app names a button, each in its own language.

use serde::{Deserialize, Serialize};

/// What a person can do. The sentence is the top's: `words.rs` of the command line, `strings` of the app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Advice {
    /// Have a first folder read.
    AddFolder,
    /// Have a folder read that was forgotten meanwhile.
    AddFolderAgain,
    /// Look which folders there are.
    ListFolders,
    /// Bring the index up to date.
    UpdateIndex,
    /// Bring it up to date now and then, because nobody watches.
    UpdateIndexNowAndThen,
    /// Have damaged search indexes made anew.
    RepairIndexes,
    /// Let an older catalog be brought into today's shape.
    UpgradeCatalog,
    /// Give what opens an encrypted home.
    GivePassphrase,
    /// Put a damaged catalog aside and read everything anew.
    ReplaceCatalog,
    /// Get a newer version of the program, or keep the index elsewhere.
    UpdateProgram,
    /// Look which models there are, or fetch the one that was named.
    FindModel {
        /// The name as given.
        name: String,
    },
    /// Give a model's folder or name.
    GiveModel,
    /// Name a model as the list or the hub does.
    NameModel,
    /// Look which models there are.
    ListModels,
    /// Fetch a model.
    PullModel {
        /// Its name.
        name: String,
    },
    /// Fetch it once more.
    PullModelAgain {
        /// Its name.
        name: String,
    },
    /// Remove one that comes with the program, which puts it there anew.
    RestoreModel {
        /// Its name.
        name: String,
    },
    /// Import it from its folder once more.
    ImportModelAgain {
        /// Its name.
        name: String,
    },
    /// Switch the network on, or bring the model from another computer.
    GoOnline,
    /// Choose one of several files of weights.
    ChooseFile {
        /// The files.
        choices: String,
    },
    /// Accept a model's license on its page, and give the token of who did.
    AcceptLicense {
        /// The page.
        page: String,
    },
    /// Give a token to the hub that models come from.
    GiveHubToken,
    /// Write the address of such a hub as it is written.
    GiveHubAddress,
    /// Choose one of a model's GGUF files, or import one alone.
    ChooseModelFile,
    /// Give the GGUF file in a folder, or import the folder.
    GiveModelFile,
    /// Join a model that came in parts.
    JoinParts,
    /// Make a model's own store anew, or do without.
    ConvertModel,
    /// Make a reranker's shards anew.
    ShardModel,
    /// Make a reranker's calibration anew.
    CalibrateModel {
        /// The reranker.
        model: String,
    },
    /// Calibrate a reranker, or prune it by a threshold.
    CalibrateOrThreshold {
        /// The reranker.
        model: String,
    },
    /// Ask for results that it is calibrated for, or calibrate it for these.
    CalibrateFor {
        /// The reranker.
        model: String,
        /// Results that were asked for.
        top_k: usize,
    },
    /// Ask for less than the calibration can not promise.
    AskForLess,
    /// Say how much may be pruned, or switch pruning off.
    ChoosePruning,
    /// Say what pruning may change.
    ChooseMode,
    /// Look at what an endpoint would be sent, and allow it.
    AllowEndpoint,
    /// Allow a server that does a stage of a search to be sent passages.
    AllowServer,
    /// Give the right key of such a server.
    GiveServerKey,
    /// Choose who writes the answer.
    ChooseWriter,
    /// Say which endpoint answers, and with which model.
    GiveEndpoint,
    /// Give the endpoint's right key.
    GiveKey,
    /// Give the key where no secret store is needed.
    GiveKeyElsewhere,
    /// Say how much an endpoint's model reads at once.
    GiveContext,
    /// Install the library that ONNX models need.
    InstallOnnxRuntime,
    /// Write the address of a shared library as it is written.
    GiveLibraryAddress,
    /// Look which shared libraries are known, or make one known.
    AddLibrary,
    /// See whether the server of a shared library runs, and is the one that was meant.
    CheckLibraryServer,
    /// Give the user and password of a shared library's server.
    GiveLibraryKey,
    /// Say which object store keeps a shared library's files.
    NameOriginals,
    /// Give the key of the store that keeps a shared library's files.
    GiveOriginalsKey,
    /// Ask for an encrypted connection to a shared library.
    EncryptLibrary,
    /// Write the home's passages to a shared library first.
    PushLibrary,
    /// Use the embedder that a shared library was written with, or write it anew.
    UseLibraryEmbedder {
        /// Identity of the embedder.
        embedder: String,
    },
    /// Write a shared library from the beginning.
    WriteLibraryAnew,
    /// Remove what other homes write to a shared library.
    TakeLibraryOver,
    /// Write a shared library again, after somebody has removed what was written.
    WaitForLibrary,
    /// Say where a folder of a shared library is on this computer.
    MapLibraryFolder,
    /// Choose another port for other programs to ask at.
    ChoosePort,
    /// Choose another file for the socket that other programs ask at.
    ChooseSocket,
    /// Say that other machines may ask, too.
    AllowOtherMachines,
}

impl Advice {
    /// One of every kind, for tests of the words that are made of it.
    // Long: a line for each.
    pub fn examples() -> Vec<Advice> {
        let name = || "all-MiniLM-L6-v2".to_owned();
        vec![
            Advice::AddFolder,
            Advice::AddFolderAgain,
            Advice::ListFolders,
            Advice::UpdateIndex,
            Advice::UpdateIndexNowAndThen,
            Advice::RepairIndexes,
            Advice::UpgradeCatalog,
            Advice::GivePassphrase,
            Advice::ReplaceCatalog,
            Advice::UpdateProgram,
            Advice::FindModel { name: name() },
            Advice::GiveModel,
            Advice::NameModel,
            Advice::ListModels,
            Advice::PullModel { name: name() },
            Advice::PullModelAgain { name: name() },
            Advice::RestoreModel { name: name() },
            Advice::ImportModelAgain { name: name() },
            Advice::GoOnline,
            Advice::ChooseFile { choices: "a.gguf, b.gguf".to_owned() },
            Advice::AcceptLicense { page: "https://huggingface.co/o/n".to_owned() },
            Advice::GiveHubToken,
            Advice::GiveHubAddress,
            Advice::ChooseModelFile,
            Advice::GiveModelFile,
            Advice::JoinParts,
            Advice::ConvertModel,
            Advice::ShardModel,
            Advice::CalibrateModel { model: name() },
            Advice::CalibrateOrThreshold { model: name() },
            Advice::CalibrateFor { model: name(), top_k: 3 },
            Advice::AskForLess,
            Advice::ChoosePruning,
            Advice::ChooseMode,
            Advice::AllowEndpoint,
            Advice::AllowServer,
            Advice::GiveServerKey,
            Advice::ChooseWriter,
            Advice::GiveEndpoint,
            Advice::GiveKey,
            Advice::GiveKeyElsewhere,
            Advice::GiveContext,
            Advice::InstallOnnxRuntime,
            Advice::GiveLibraryAddress,
            Advice::AddLibrary,
            Advice::CheckLibraryServer,
            Advice::GiveLibraryKey,
            Advice::NameOriginals,
            Advice::GiveOriginalsKey,
            Advice::EncryptLibrary,
            Advice::PushLibrary,
            Advice::UseLibraryEmbedder { embedder: name() },
            Advice::WriteLibraryAnew,
            Advice::TakeLibraryOver,
            Advice::WaitForLibrary,
            Advice::MapLibraryFolder,
            Advice::ChoosePort,
            Advice::ChooseSocket,
            Advice::AllowOtherMachines,
        ]
    }
}

/// An error that knows what can be done about it; the null implementation knows nothing.
pub trait Advised {
    /// What can be done, where that is known.
    fn advice(&self) -> Option<Advice> {
        None
    }
}

/// Something that is wrong, in an error's words, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// What is wrong.
    pub what: String,
    /// What can be done.
    pub advice: Option<Advice>,
}

impl Trouble {
    /// That of an error.
    pub fn of<E: Advised + std::fmt::Display + ?Sized>(error: &E) -> Trouble {
        Trouble { what: error.to_string(), advice: error.advice() }
    }

    /// With what can be done.
    pub fn with(what: impl Into<String>, advice: Advice) -> Trouble {
        Trouble { what: what.into(), advice: Some(advice) }
    }
}

impl std::fmt::Display for Trouble {
    /// What is wrong; what can be done is said by who prints it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl Advised for Trouble {
    fn advice(&self) -> Option<Advice> {
        self.advice.clone()
    }
}

impl From<String> for Trouble {
    fn from(what: String) -> Trouble {
        Trouble { what, advice: None }
    }
}

impl From<&str> for Trouble {
    fn from(what: &str) -> Trouble {
        what.to_owned().into()
    }
}

/// The error that crosses a stage seam: the stage's own error, boxed, with its advice.
///
/// Each crate keeps a typed `Error`; the seams erase it because the façade can only report it.
#[derive(Debug)]
pub struct StageError {
    error: Box<dyn std::error::Error + Send + Sync>,
    advice: Option<Advice>,
}

impl std::fmt::Display for StageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for StageError {
    /// The stage's own error is shown in the place of this one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl StageError {
    /// What can be done, where the stage knows.
    pub fn advice(&self) -> Option<Advice> {
        self.advice.clone()
    }
}

impl<E: Advised + std::error::Error + Send + Sync + 'static> From<E> for StageError {
    fn from(error: E) -> StageError {
        StageError { advice: error.advice(), error: Box::new(error) }
    }
}

impl From<String> for StageError {
    fn from(what: String) -> StageError {
        StageError { error: what.into(), advice: None }
    }
}

impl From<&str> for StageError {
    fn from(what: &str) -> StageError {
        what.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::tests::kinds_of;

    #[test]
    fn every_kind_of_advice_has_an_example() {
        let examples: Vec<String> = Advice::examples().iter().map(|it| format!("{it:?}")).collect();
        let names = kinds_of(include_str!("advice.rs"), "Advice");
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            let begins =
                |it: &&String| it.split(' ').next().is_some_and(|first| first == name.as_str());
            assert_eq!(examples.iter().filter(begins).count(), 1, "{name}");
        }
    }

    #[test]
    fn advice_passes_a_seam() {
        #[derive(Debug, thiserror::Error)]
        #[error("the model is not there")]
        struct Absent(#[source] std::io::Error);
        impl Advised for Absent {
            fn advice(&self) -> Option<Advice> {
                Some(Advice::ListModels)
            }
        }
        let error = StageError::from(Absent(std::io::Error::other("gone")));
        assert_eq!(error.to_string(), "the model is not there");
        assert_eq!(error.advice(), Some(Advice::ListModels));
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("gone"));
        assert_eq!(StageError::from("no words".to_owned()).advice(), None);
    }
}
