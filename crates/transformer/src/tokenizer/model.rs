//! The model inside a tokenizer: one of ours, or the library's for what ours do not cover.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use tokenizers::{
    Model, ModelWrapper, Result, Token,
    models::{TrainerWrapper, bpe::BpeTrainer},
};

use super::{bpe::Bpe, dictionary::Dictionary, unigram::Unigram, wordpiece::WordPiece};

/// Takes the place of the library's `ModelWrapper`.
#[derive(Debug)]
pub(super) enum AnyModel {
    Unigram(Unigram),
    Bpe(Bpe),
    WordPiece(WordPiece),
    Library(Box<ModelWrapper>),
}

impl AnyModel {
    fn dictionary(&self) -> std::result::Result<&Dictionary, &ModelWrapper> {
        match self {
            AnyModel::Unigram(it) => Ok(it.dictionary()),
            AnyModel::Bpe(it) => Ok(it.dictionary()),
            AnyModel::WordPiece(it) => Ok(it.dictionary()),
            AnyModel::Library(it) => Err(it),
        }
    }
}

impl AnyModel {
    /// What stands for what has no token, in models that name one: Unigram has a number for it and no name.
    pub(super) fn unknown(&self) -> Option<u32> {
        match self {
            AnyModel::Unigram(_) => None,
            AnyModel::Bpe(it) => it.unknown_id(),
            AnyModel::WordPiece(it) => it.unknown(),
            AnyModel::Library(it) => match &**it {
                ModelWrapper::WordLevel(level) => it.token_to_id(&level.unk_token),
                ModelWrapper::WordPiece(pieces) => it.token_to_id(&pieces.unk_token),
                ModelWrapper::BPE(pairs) => it.token_to_id(pairs.unk_token.as_deref()?),
                ModelWrapper::Unigram(_) => None,
            },
        }
    }
}

impl Model for AnyModel {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, sequence: &str) -> Result<Vec<Token>> {
        match self {
            AnyModel::Unigram(it) => it.tokenize(sequence),
            AnyModel::Bpe(it) => it.tokenize(sequence),
            AnyModel::WordPiece(it) => it.tokenize(sequence),
            AnyModel::Library(it) => it.tokenize(sequence),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.dictionary().map_or_else(|it| it.token_to_id(token), |it| it.get(token.as_bytes()))
    }

    // Slow, and nobody asks: nothing here decodes.
    fn id_to_token(&self, id: u32) -> Option<String> {
        let find = |dictionary: &Dictionary| {
            let (piece, _) = dictionary.iter().find(|&(_, it)| it == id)?;
            String::from_utf8(piece).ok()
        };
        self.dictionary().map_or_else(|it| it.id_to_token(id), find)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        let all = |dictionary: &Dictionary| {
            let pieces = dictionary.iter();
            pieces.filter_map(|(it, id)| Some((String::from_utf8(it).ok()?, id))).collect()
        };
        self.dictionary().map_or_else(Model::get_vocab, all)
    }

    fn get_vocab_size(&self) -> usize {
        match self {
            AnyModel::Unigram(it) => it.len(),
            AnyModel::Bpe(it) => it.dictionary().len(),
            AnyModel::WordPiece(it) => it.dictionary().len(),
            AnyModel::Library(it) => it.get_vocab_size(),
        }
    }

    fn save(&self, _: &Path, _: Option<&str>) -> Result<Vec<PathBuf>> {
        Err("a model in use is not written".into())
    }

    // The trait wants one; nobody trains.
    fn get_trainer(&self) -> TrainerWrapper {
        BpeTrainer::default().into()
    }
}
