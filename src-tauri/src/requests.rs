//! What is asked of the façade under a person's settings: by a command, and by what is prepared while nobody waits.
//! Both ask the same, or what was prepared would never be taken.

use std::time::Duration;

use riddle_rag::{
    self as rag, AskRequest, Libraries, SearchRequest,
    rerank::{Meets, RerankSettings},
    writer::{LocalDraft, LocalLlm},
};

use crate::dto::{DRAFT_LOOKUP, DRAFT_NONE, PruneMode, Pruning, Rerank, SearchFilter, Settings};

/// Passages that an answer is written from.
pub(crate) const PASSAGES: usize = 6;

/// Candidates that are ranked for an answer.
pub(crate) const RANKED: usize = 10;

/// The reranker's settings as the façade takes them.
pub(crate) fn rerank_settings(rerank: &Rerank) -> RerankSettings {
    let mode = match rerank.pruning {
        // The program's own mode, and none where nobody decides.
        Pruning::Standard | Pruning::Full => PruneMode::Off,
        _ => rerank.mode,
    };
    let pruning = match rerank.pruning {
        Pruning::Standard => rag::rerank::Pruning::Standard,
        _ if mode == PruneMode::Off => rag::rerank::Pruning::Never,
        Pruning::Full => rag::rerank::Pruning::Never,
        Pruning::Threshold { threshold } => rag::rerank::Pruning::Threshold(threshold),
        Pruning::Precision { precision } => {
            rag::rerank::Pruning::Precision { precision, meets: Meets::Mean }
        }
        Pruning::ErrorProbability { probability } => rag::rerank::Pruning::ErrorProbability {
            probability,
            guarantee: rag::rerank::Guarantee::Result,
        },
    };
    RerankSettings {
        mode: mode.into(),
        pruning,
        window: rerank.window.map(|it| it as usize),
        micro_batch_tokens: rerank.micro_batch_tokens.map(|it| it as usize),
        embedding_rows: rerank.row_share,
        memory_budget: rerank.memory_budget,
        deadline: rerank.deadline_ms.map(|it| Duration::from_millis(it.into())),
        preload_bytes: rerank.preload_bytes.unwrap_or(0),
        ..RerankSettings::default()
    }
}

/// How a model in this process runs.
pub(crate) fn local(settings: &Settings) -> LocalLlm {
    LocalLlm {
        memory_budget: settings.local.memory_budget,
        context_tokens: settings.local.context_tokens.map(|it| it as usize),
        draft: match settings.local.draft.as_str() {
            DRAFT_LOOKUP => LocalDraft::Lookup,
            DRAFT_NONE => LocalDraft::Nothing,
            name => LocalDraft::Model(name.to_owned()),
        },
        order: settings.local.order.into(),
        ..LocalLlm::default()
    }
}

/// A search.
pub(crate) fn search(settings: &Settings, text: &str, filter: SearchFilter) -> SearchRequest {
    SearchRequest {
        libraries: Libraries::of(&filter.libraries),
        k: settings.results as usize,
        filter: filter.into(),
        fused_candidates: settings.candidates as usize,
        rerank_settings: rerank_settings(&settings.rerank),
        explain: true,
        ..SearchRequest::new(text)
    }
}

/// A question that nobody has asked yet.
pub(crate) fn foreseen(settings: &Settings) -> AskRequest {
    AskRequest {
        search: SearchRequest { k: RANKED, ..search(settings, "", SearchFilter::default()) },
        passages: PASSAGES,
        local: local(settings),
        ..AskRequest::new("")
    }
}

#[cfg(test)]
mod tests {
    use riddle_types::PassageOrder;

    use super::*;
    use crate::dto::ReadOrder;

    /// What the façade asks of a calibration before it prunes anybody, of the one that comes with the program.
    #[test]
    fn by_default_the_bundled_calibration_promises_a_pruned_search_and_question() {
        let path = "../assets/models/riddle-reranker/calibration.json";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text = std::fs::read_to_string(path).expect("a file");
        let made: rag::rerank::Calibration = serde_json::from_str(&text).expect("a calibration");
        let settings = Settings::default();
        let question = foreseen(&settings).search;
        for request in [search(&settings, "boat", SearchFilter::default()), question] {
            assert_eq!(request.rerank_settings.pruning, rag::rerank::Pruning::Standard);
            let (top_k, candidates) = (request.k, request.fused_candidates);
            assert!(top_k < candidates && candidates <= made.candidates.1, "{top_k}, {candidates}");
            for with_prior in [true, false] {
                let mode = rag::rerank::Mode::Order;
                let table = made.table_from(mode, top_k, with_prior, candidates);
                let table = table.expect("a table for so many results");
                let part = top_k as f64 / table.top_k as f64;
                let error = rag::rerank::STANDARD_ERROR * part;
                let guarantee = rag::rerank::Guarantee::Result;
                let point = table.bounded.point_for(error, guarantee).expect("a promise");
                assert!(point.measured.candidate_layers_share < 1.0, "saves something");
            }
        }
    }

    #[test]
    fn guesses_are_asked_of_whom_the_settings_name() {
        let asked = |draft: &str| {
            let mut settings = Settings::default();
            settings.local.draft = draft.to_owned();
            local(&settings).draft
        };
        assert_eq!(local(&Settings::default()).draft, LocalDraft::Lookup);
        assert_eq!(asked("none"), LocalDraft::Nothing);
        assert_eq!(asked("qwen3-0.6b"), LocalDraft::Model("qwen3-0.6b".to_owned()));
    }

    #[test]
    fn passages_are_read_in_the_order_that_the_settings_name() {
        let asked = |order: ReadOrder| {
            let mut settings = Settings::default();
            settings.local.order = order;
            local(&settings).order
        };
        assert_eq!(local(&Settings::default()).order, PassageOrder::Ranked);
        assert_eq!(asked(ReadOrder::Document), PassageOrder::Document);
        assert_eq!(asked(ReadOrder::Stored), PassageOrder::Stored);
    }
}
