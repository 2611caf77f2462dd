//! Language models that other programs keep on this machine, used where they lie.

use std::path::PathBuf;

use riddle_models::{Elsewhere, Lacks, Program};
use riddle_types::Trouble;

use super::config::Config;
use crate::contract::{Error, Result};

/// A language model of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelElsewhere {
    /// The model; its name is one that answers can be asked of.
    pub model: Elsewhere,
    /// Why it can not write answers here; `None`: it can.
    pub trouble: Option<Trouble>,
}

impl Config {
    /// The language models that other programs keep on this machine, by program and name. Their files are read and
    /// never written.
    pub fn models_elsewhere(&self) -> Vec<ModelElsewhere> {
        let found = self.elsewhere.models().into_iter();
        found
            .map(|model| {
                let trouble = match &model.lacks {
                    Some(lacks) => Some(why_not(lacks, &model.name)),
                    None => self.shared.looked.at(&model.path, model.bytes),
                };
                ModelElsewhere { model, trouble }
            })
            .collect()
    }

    /// The file of a model that another program keeps; `None` where the name is not one of theirs.
    pub(super) fn file_elsewhere(&self, name: &str) -> Result<Option<PathBuf>> {
        let Some((program, rest)) = Program::of(name) else { return Ok(None) };
        let found = self.elsewhere.find(name);
        let found = found.ok_or_else(|| Error::NotElsewhere {
            program: program.to_string(),
            name: rest.to_owned(),
        })?;
        if let Some(lacks) = &found.lacks {
            return Err(Error::BadRequest(why_not(lacks, name)));
        }
        Ok(Some(found.path))
    }
}

/// Why `model` can not write answers.
fn why_not(lacks: &Lacks, model: &str) -> Trouble {
    match lacks {
        Lacks::Joining => {
            Trouble::from(format!("{model} is in several files, which are not read together here"))
        }
        Lacks::Part(part) => Trouble::from(format!(
            "{model} lacks a part, {part}: let the program that keeps it fetch it again"
        )),
    }
}
