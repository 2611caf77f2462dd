//! What of an embedder is in memory, by one number.
//!
//! Its layers are streamed as a reranker's are (GRATING §4.2): a window of them is in memory and the next one is read
//! while this one is computed. Vectors are the same, bit by bit.

use riddle_transformer::{ScratchShape, ScratchSize};

use crate::{Error, Result};

/// Rows of the token table that the smallest plan has. What does not fit is read again, a few kilobytes a row.
const FEW_ROWS: usize = 512;

/// Bytes that an entry of the row cache costs beside its row: key, slot, links and the map's slack.
const ROW_OVERHEAD: u64 = 96;

/// Layers in memory and tokens that are computed at a time, where not all layers fit. Every micro-batch reads all
/// layers, so many tokens at a time come before a third layer; below that the products slow down.
const STEPS: [(usize, usize); 8] =
    [(2, 4096), (2, 2048), (2, 1024), (2, 512), (2, 256), (1, 256), (1, 128), (1, 64)];

/// Tokens that are computed at a time where all layers are there.
const RESIDENT_TOKENS: usize = 1024;

/// What is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Layers.
    pub(crate) window: usize,
    /// Tokens that a layer computes at a time.
    pub(crate) micro_batch_tokens: usize,
    /// Rows of the token table, at most.
    pub(crate) rows: usize,
}

/// What an embedder asks of the memory.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    pub(crate) num_layers: usize,
    /// Bytes of the largest layer.
    pub(crate) layer_bytes: u64,
    /// Bytes that are always there.
    pub(crate) held_bytes: u64,
    /// Rows of the token table that are kept without a budget.
    pub(crate) rows: usize,
    pub(crate) row_bytes: usize,
    /// Width of the hidden states.
    pub(crate) width: usize,
    /// Longest text that is read.
    pub(crate) max_tokens: usize,
    pub(crate) shape: ScratchShape,
    pub(crate) threads: usize,
}

impl Demand {
    /// Bytes that this plan holds at most, with texts that are no longer than a micro-batch.
    fn bytes(&self, plan: &Plan) -> u64 {
        let tokens = plan.micro_batch_tokens;
        let longest = self.max_tokens.min(tokens);
        let scratch = ScratchSize { tokens, longest, threads: self.threads };
        // An eighth is what the cache reserves beyond what it holds, 64 rows what it reads at once.
        let rows = ((plan.rows * 9 / 8 + 128) * self.row_bytes) as u64;
        plan.window.min(self.num_layers) as u64 * self.layer_bytes
            + self.held_bytes
            + rows
            + plan.rows as u64 * ROW_OVERHEAD
            + self.shape.bytes(scratch)
            + (tokens * self.width * size_of::<f32>()) as u64
    }

    /// The fastest plan within `budget` bytes: all layers, else ever fewer tokens beside two, then as many layers more
    /// as fit, and what is left buys rows.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] with the smallest that holds.
    pub(crate) fn within(&self, budget: u64) -> Result<Plan> {
        let few = FEW_ROWS.min(self.rows);
        let resident = std::iter::once((self.num_layers, RESIDENT_TOKENS));
        let mut smallest = u64::MAX;
        for (window, micro_batch_tokens) in resident.chain(STEPS) {
            let mut plan = Plan { window, micro_batch_tokens, rows: few };
            let bytes = self.bytes(&plan);
            smallest = smallest.min(bytes);
            if bytes > budget {
                continue;
            }
            if window >= 2 {
                let more = (budget - bytes).checked_div(self.layer_bytes).unwrap_or(0);
                let more = usize::try_from(more).unwrap_or(usize::MAX);
                plan.window = window.saturating_add(more).min(self.num_layers.max(window));
            }
            let row = (self.row_bytes * 9 / 8) as u64 + ROW_OVERHEAD + 1;
            let more = (budget - self.bytes(&plan)) / row;
            let more = usize::try_from(more).unwrap_or(usize::MAX);
            plan.rows = few.saturating_add(more).min(self.rows);
            return Ok(plan);
        }
        Err(Error::BudgetTooSmall { budget, smallest })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_kernels::{AttentionShape, PanelUse};

    use super::*;

    fn demand(num_layers: usize, layer_bytes: u64) -> Demand {
        Demand {
            num_layers,
            layer_bytes,
            held_bytes: 3 << 20,
            rows: 15_000,
            row_bytes: 1536,
            width: 384,
            max_tokens: 512,
            shape: ScratchShape {
                wide: 1536,
                narrow: 384,
                panel_inputs: 0,
                panel_use: PanelUse::Any,
                attention: AttentionShape { heads: 12, kv_heads: 12, head_dim: 32 },
                rotary: Vec::new(),
                relative: None,
            },
            threads: 2,
        }
    }

    proptest! {
        #[test]
        fn a_plan_holds_its_budget_and_more_memory_is_never_refused(
            layers in 1usize..30, layer_kib in 1u64..20_000, budget_kib in 0u64..600_000,
        ) {
            let demand = demand(layers, layer_kib << 10);
            let budget = budget_kib << 10;
            match demand.within(budget) {
                Ok(plan) => {
                    prop_assert!(demand.bytes(&plan) <= budget, "{plan:?}");
                    prop_assert!(demand.within(budget + (1 << 20)).is_ok());
                    prop_assert!((1..=layers.max(2)).contains(&plan.window));
                    prop_assert!(plan.rows <= demand.rows);
                }
                Err(Error::BudgetTooSmall { smallest, .. }) => {
                    prop_assert!(smallest > budget);
                    prop_assert!(demand.within(smallest).is_ok());
                    prop_assert!(demand.within(smallest - 1).is_err());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn plenty_keeps_everything_and_less_gives_up_the_cheapest_first() {
        let demand = demand(12, 7 << 20);
        let plan = |mebibytes: u64| demand.within(mebibytes << 20).expect("enough");
        let plenty = plan(1000);
        assert_eq!((plenty.window, plenty.micro_batch_tokens), (12, RESIDENT_TOKENS));
        assert_eq!(plenty.rows, demand.rows);
        let less = plan(90);
        assert!(less.window < 12 && less.micro_batch_tokens == 4096, "{less:?}");
        let little = plan(25);
        assert!(little.window <= 3 && little.micro_batch_tokens < 1024, "{little:?}");
    }
}
