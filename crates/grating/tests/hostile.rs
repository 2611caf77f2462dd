//! Folders of rerankers that are damaged or lie, of every layout and family: files cut, empty, endless, of another
//! kind, links that lead nowhere, pipes, numbers that no size is.

mod damage;

use std::path::Path;

use riddle_grating::{Engine, EngineOptions};
use riddle_types::SilentObserver;

use crate::damage::{Given, each_file_of, each_number_of, small_changes_of};

fn scores(dir: &Path) -> Given {
    let options = EngineOptions { threads: 1, ..EngineOptions::default() };
    let engine = Engine::open(dir, options).map_err(|it| it.to_string())?;
    let texts = ["The lock gate.", "", "a narrow boat in a dry dock"];
    let ranked = engine.run("Where is the boat?", &texts, texts.len(), &mut SilentObserver);
    let mut ranked = ranked.map_err(|it| it.to_string())?.ranked;
    ranked.sort_by_key(|it| it.index);
    Ok(ranked.iter().map(|it| it.raw_score).collect())
}

macro_rules! layouts {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            each_file_of($name, &scores);
            each_number_of($name, &scores);
            small_changes_of($name, &scores);
        })*
    };
}

layouts! {
    a_damaged_bert_is_told: "tiny-bert-cross-encoder",
    a_damaged_xlm_roberta_is_told: "tiny-xlm-roberta-cross-encoder",
    a_damaged_roberta_is_told: "tiny-roberta-cross-encoder",
    a_damaged_fused_xlm_roberta_is_told: "tiny-xlm-roberta-fused-cross-encoder",
    a_damaged_mpnet_is_told: "tiny-mpnet-cross-encoder",
    a_damaged_gte_is_told: "tiny-gte-reranker",
    a_damaged_deberta_is_told: "tiny-deberta-cross-encoder",
    a_damaged_modernbert_is_told: "tiny-modernbert-cross-encoder",
    damaged_modules_are_told: "tiny-modular-reranker",
    a_damaged_qwen2_is_told: "tiny-qwen2-reranker",
    a_damaged_qwen3_in_several_files_is_told: "tiny-qwen3-reranker-sharded-bf16",
    a_damaged_zerank_is_told: "tiny-zerank-reranker",
    a_damaged_minicpm_is_told: "tiny-minicpm-layerwise",
    a_damaged_late_bert_is_told: "tiny-bert-colbert",
    a_damaged_late_modernbert_is_told: "tiny-modernbert-late",
}
