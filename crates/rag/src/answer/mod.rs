//! Answering: passages in, a checked and cited answer out, or an honest refusal.

mod ask;
mod border;
mod follow_up;
mod generator;
mod judge;
mod outgoing;
mod reach;

pub use ask::AskEvent;
pub use outgoing::Outgoing;
pub use reach::CheckedClaim;
