//! Folders of embedders that are damaged or lie, of every layout and family: files cut, empty, endless, of another
//! kind, links that lead nowhere, pipes, numbers that no size is.

// What is done to rerankers' folders is done to these.
#[path = "../../grating/tests/damage/mod.rs"]
mod damage;

use std::path::Path;

use riddle_embedding::{EncoderOptions, SpladeEncoder};
use riddle_types::EmbedRole;

use crate::damage::{Given, each_file_of, each_number_of, small_changes_of};

const TEXTS: [&str; 2] = ["The lock gate.", "a narrow boat in a dry dock boat boat boat boat boat"];

fn options() -> EncoderOptions {
    EncoderOptions { threads: 1, ..EncoderOptions::default() }
}

fn vectors(dir: &Path) -> Given {
    let embedder = riddle_embedding::open(dir, options()).map_err(|it| it.to_string())?;
    let of = |role| embedder.embed(&TEXTS, role).map_err(|it| it.to_string());
    Ok([of(EmbedRole::Query)?, of(EmbedRole::Passage)?].concat().concat())
}

fn terms(dir: &Path) -> Given {
    let encoder = SpladeEncoder::open(dir, options()).map_err(|it| it.to_string())?;
    Ok(encoder.weights(&TEXTS).map_err(|it| it.to_string())?.concat())
}

macro_rules! layouts {
    ($($test:ident: $name:literal by $of:ident),* $(,)?) => {
        $(#[test]
        fn $test() {
            each_file_of($name, &$of);
            each_number_of($name, &$of);
            small_changes_of($name, &$of);
        })*
    };
}

layouts! {
    a_damaged_bert_is_told: "tiny-bert-encoder" by vectors,
    a_damaged_xlm_roberta_and_its_dense_layer_are_told: "tiny-xlm-roberta-embedder" by vectors,
    a_damaged_mpnet_is_told: "tiny-mpnet-embedder" by vectors,
    a_damaged_gte_is_told: "tiny-gte-embedder" by vectors,
    a_damaged_modernbert_is_told: "tiny-modernbert-embedder" by vectors,
    a_damaged_granite_is_told: "tiny-granite-embedder" by vectors,
    a_damaged_qwen3_is_told: "tiny-qwen3-embedder" by vectors,
    a_damaged_gemma3_and_its_dense_layers_are_told: "tiny-gemma3-embedder" by vectors,
    a_damaged_sparse_encoder_is_told: "tiny-bert-sparse-encoder" by terms,
}

/// A table has a file less: all that its configuration says is what it is.
#[test]
fn a_damaged_table_is_told() {
    for name in ["tiny-static-embedder", "tiny-static-shared-embedder"] {
        each_number_of(name, &vectors);
        small_changes_of(name, &vectors);
        each_file_of(name, &vectors);
    }
}
