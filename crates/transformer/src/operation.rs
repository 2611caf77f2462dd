//! Spans around the operations of a forward pass, for whoever wants to know where its time goes.

use tracing::{info_span, span::EnteredSpan};

/// An operation, open until it is dropped. Nobody pays for it but who listens to the target
/// `riddle::operation`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    /// Positions, segments and their normalization.
    Embed,
    /// Queries, keys and values, normalized before and rotated after where a family does so.
    Qkv,
    /// Attention.
    Attention,
    /// What becomes of attention: a product, its residual and norm.
    Output,
    /// The feed-forward layer with its activation, residual and norm.
    FeedForward,
    /// Who of many experts is asked.
    Router,
    /// The model's head.
    Head,
}

impl Operation {
    pub(crate) fn enter(self) -> EnteredSpan {
        match self {
            Operation::Embed => info_span!(target: "riddle::operation", "embed"),
            Operation::Qkv => info_span!(target: "riddle::operation", "qkv"),
            Operation::Attention => info_span!(target: "riddle::operation", "attention"),
            Operation::Output => info_span!(target: "riddle::operation", "output"),
            Operation::FeedForward => info_span!(target: "riddle::operation", "feed_forward"),
            Operation::Router => info_span!(target: "riddle::operation", "router"),
            Operation::Head => info_span!(target: "riddle::operation", "head"),
        }
        .entered()
    }
}
