//! Answering: passages in, a checked and cited answer out, or an honest refusal.

mod alike;
mod ask;
mod bank;
mod border;
mod enough;
mod follow_up;
mod generator;
mod idle;
mod judge;
mod near;
mod outgoing;
mod reach;
mod schedule;

pub use alike::same_terms;
pub use ask::AskEvent;
pub use idle::{PrepareReport, Prepared};
pub use near::NearQuestion;
pub use outgoing::Outgoing;
pub use reach::CheckedClaim;
pub use schedule::{Idle, may_work};

#[cfg(test)]
mod bank_test;
#[cfg(all(test, target_os = "linux"))]
mod rights_test;
