//! What is in memory during a run: micro-batches (§4.3), layer window (§4.2), embedding rows (§4.4) and
//! hidden states, from one number if the caller gives one.

use std::ops::Range;

use riddle_offload::SPILL_BUFFERS;
use riddle_transformer::{ScratchShape, ScratchSize};
use riddle_types::MemoryPlan;

use crate::{Error, Result};

/// Tokens of a micro-batch by default. The matrix products reach full speed at a few hundred rows; 1 024
/// keep the scratch of a 384-wide model near 8 MB, and its activations in a laptop's last-level cache.
pub(crate) const DEFAULT_MICRO_BATCH_TOKENS: usize = 1024;

/// Rows of the token table that a small budget is planned with: a sequence's worth. What does not fit is
/// read again, a few kilobytes a row, and only before the first layer.
const FEW_ROWS: usize = 512;

/// Bytes that an entry of the row cache costs beside its row: key, slot, links and the map's slack.
const ROW_OVERHEAD: u64 = 96;

/// What no plan sees: code that is paged in when it first runs, the layers' reports, the allocator's
/// rounding. Measured at 3 to 5 MB with two threads, beside what the threads take.
const UNSEEN_BYTES: u64 = 6 << 20;

/// What a thread takes for itself: matrix products pack their operands into blocks that fit the caches.
/// Measured at 3 to 4 MB a thread.
const UNSEEN_BYTES_PER_THREAD: u64 = 4 << 20;

/// Layers in memory, tokens of a micro-batch and whether hidden states are on disk, where not even three layers fit.
const SMALL_STEPS: [(usize, usize, bool); 12] = [
    (2, 1024, false),
    (2, 512, false),
    (2, 256, false),
    (2, 1024, true),
    (2, 512, true),
    (2, 256, true),
    (2, 128, true),
    (2, 1, true),
    (1, 512, true),
    (1, 256, true),
    (1, 128, true),
    (1, 1, true),
];

/// What is in memory during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Layers in memory.
    pub(crate) window: usize,
    /// Tokens that a layer computes at a time.
    pub(crate) micro_batch_tokens: usize,
    /// Rows of the token table in memory at most; `None`: as the engine was opened.
    pub(crate) embedding_rows: Option<usize>,
    /// Hidden states are on disk, three micro-batches of them in memory.
    pub(crate) hidden_on_disk: bool,
}

/// What a request asks of the memory.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// Tokens of each candidate, without the prefix.
    pub(crate) lengths: Vec<usize>,
    /// Tokens that all share.
    pub(crate) prefix: usize,
    /// Tokens of the longest query that is read apart.
    pub(crate) apart: usize,
    /// What the prefix, queries that are read apart and comparing with them take.
    pub(crate) beside_bytes: u64,
    /// Distinct tokens.
    pub(crate) unique_tokens: usize,
    /// Rows that the engine was opened with.
    pub(crate) row_capacity: usize,
    pub(crate) row_bytes: usize,
    pub(crate) num_layers: usize,
    /// Bytes of the largest layer.
    pub(crate) layer_bytes: u64,
    /// Width of the hidden states.
    pub(crate) width: usize,
    pub(crate) shape: ScratchShape,
    pub(crate) threads: usize,
}

impl Demand {
    /// Bytes that a run by this plan holds at most: layers, rows, scratch and hidden states.
    pub(crate) fn bytes(&self, plan: &Plan) -> u64 {
        let largest = largest_micro_batch(&self.lengths, plan.micro_batch_tokens);
        let longest = self.lengths.iter().copied().max().unwrap_or(0) + self.prefix;
        let (longest, tokens) = (longest.max(self.apart), largest.max(self.prefix).max(self.apart));
        let scratch = ScratchSize { tokens, longest, threads: self.threads };
        let hidden =
            if plan.hidden_on_disk { SPILL_BUFFERS * largest } else { self.lengths.iter().sum() };
        let rows = plan.embedding_rows.unwrap_or(self.row_capacity).min(self.unique_tokens);
        plan.window.min(self.num_layers) as u64 * self.layer_bytes
            + self.row_bytes_of(rows)
            + self.shape.bytes(scratch)
            + (hidden * self.width * size_of::<f32>()) as u64
            + self.beside_bytes
    }

    fn row_bytes_of(&self, rows: usize) -> u64 {
        // An eighth is what the cache reserves beyond what it holds, 64 rows what it reads at once.
        ((rows * 9 / 8 + 128) * self.row_bytes) as u64 + rows as u64 * ROW_OVERHEAD
    }

    /// The plan as it is reported.
    pub(crate) fn report(&self, plan: &Plan) -> MemoryPlan {
        MemoryPlan {
            window_layers: plan.window.min(self.num_layers) as u32,
            micro_batch_tokens: plan.micro_batch_tokens as u64,
            embedding_rows: plan.embedding_rows.unwrap_or(self.row_capacity) as u64,
            hidden_on_disk: plan.hidden_on_disk,
            planned_bytes: self.bytes(plan),
        }
    }
}

/// What the caller has decided already; the planner decides the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) window: Option<usize>,
    pub(crate) micro_batch_tokens: Option<usize>,
    pub(crate) hidden_on_disk: bool,
    /// Hidden states may not be on disk.
    pub(crate) memory_only: bool,
}

impl Wishes {
    /// The plan without a budget.
    pub(crate) fn plan(self, num_layers: usize) -> Plan {
        Plan {
            window: self.window.unwrap_or(num_layers),
            micro_batch_tokens: self.micro_batch_tokens.unwrap_or(DEFAULT_MICRO_BATCH_TOKENS),
            embedding_rows: None,
            hidden_on_disk: self.hidden_on_disk && !self.memory_only,
        }
    }

    /// The fastest plan within `budget` bytes of which `held` are taken already.
    ///
    /// In this order is given up: a resident model, layer by layer, since two compute as fast as all where the disk
    /// keeps up, and what stays need not be read; three quarters of a micro-batch, at which the products lose a
    /// few percent; hidden states in memory, which cost as much writing and reading in every layer as they are
    /// large; then ever smaller micro-batches, at which the products slow down; the second layer of the window last,
    /// because then computing waits for every byte.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] with the smallest that holds.
    pub(crate) fn within(self, budget: u64, held: u64, demand: &Demand) -> Result<Plan> {
        let all = demand.num_layers;
        // More than two layers stay only beside all rows of this request: those are read one by one, and before
        // the first layer, while a layer is one read that computing can hide.
        let few = FEW_ROWS.min(demand.row_capacity);
        let every = demand.unique_tokens.min(demand.row_capacity).max(few);
        let resident = std::iter::once((all, 1024, false, few));
        let between = (3..all).rev().map(|window| (window, 1024, false, every));
        let small =
            SMALL_STEPS.into_iter().map(|(window, tokens, disk)| (window, tokens, disk, few));
        let unseen = UNSEEN_BYTES + demand.threads as u64 * UNSEEN_BYTES_PER_THREAD;
        let available = budget.saturating_sub(held + unseen);
        let mut smallest = u64::MAX;
        for (window, micro_batch_tokens, hidden_on_disk, rows) in
            resident.chain(between).chain(small)
        {
            let plan = Plan {
                window: self.window.unwrap_or(window),
                micro_batch_tokens: self.micro_batch_tokens.unwrap_or(micro_batch_tokens),
                embedding_rows: Some(rows),
                hidden_on_disk: (hidden_on_disk || self.hidden_on_disk) && !self.memory_only,
            };
            let bytes = demand.bytes(&plan);
            smallest = smallest.min(bytes);
            if bytes <= available {
                // What is left buys rows, as far as there are tokens for them.
                let row = (demand.row_bytes * 9 / 8) as u64 + ROW_OVERHEAD;
                let more = usize::try_from((available - bytes) / row).unwrap_or(usize::MAX);
                let rows = rows.saturating_add(more).min(demand.row_capacity);
                return Ok(Plan { embedding_rows: Some(rows), ..plan });
            }
        }
        Err(Error::BudgetTooSmall { budget, smallest: smallest + held + unseen })
    }
}

/// Memory of this process, where the system tells.
pub(crate) fn process_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// Packs sequences of the given lengths, in order, into runs of at most `budget` tokens; a sequence
/// longer than the budget is a run of its own.
pub(crate) fn micro_batches(lengths: &[usize], budget: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (i, &length) in lengths.iter().enumerate() {
        if i > start && tokens + length > budget {
            batches.push(start..i);
            (start, tokens) = (i, 0);
        }
        tokens += length;
    }
    if start < lengths.len() {
        batches.push(start..lengths.len());
    }
    batches
}

/// Tokens of the largest micro-batch that these sequences *or any of them* can make: when candidates
/// leave, the others are packed anew, and a batch of theirs can be larger than any before.
pub(crate) fn largest_micro_batch(lengths: &[usize], budget: usize) -> usize {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    longest.max(budget.min(lengths.iter().sum()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_kernels::{AttentionShape, PanelUse};

    use super::*;

    fn demand_of(lengths: Vec<usize>, num_layers: usize) -> Demand {
        Demand {
            lengths,
            prefix: 0,
            apart: 0,
            beside_bytes: 0,
            unique_tokens: 3000,
            row_capacity: 5000,
            row_bytes: 512,
            num_layers,
            layer_bytes: 10 << 20,
            width: 256,
            shape: ScratchShape {
                wide: 1024,
                narrow: 256,
                panel_inputs: 0,
                panel_use: PanelUse::Any,
                attention: AttentionShape { heads: 4, kv_heads: 4, head_dim: 64 },
                rotary: Vec::new(),
                relative: None,
            },
            threads: 2,
        }
    }

    const FREE: Wishes = Wishes {
        window: None,
        micro_batch_tokens: None,
        hidden_on_disk: false,
        memory_only: false,
    };

    proptest! {
        #[test]
        fn a_plan_holds_its_budget_and_more_memory_is_never_refused(
            lengths in prop::collection::vec(1usize..600, 1..300), num_layers in 1usize..30,
            budget in 0u64..500, held in 0u64..100,
        ) {
            let demand = demand_of(lengths, num_layers);
            let (budget, held) = (budget << 20, held << 20);
            match FREE.within(budget, held, &demand) {
                Ok(plan) => {
                    prop_assert!(demand.bytes(&plan) + held <= budget);
                    prop_assert!(FREE.within(budget + (1 << 20), held, &demand).is_ok());
                    prop_assert!((1..=num_layers.max(2)).contains(&plan.window));
                }
                Err(Error::BudgetTooSmall { smallest, .. }) => {
                    prop_assert!(smallest > budget);
                    let plan = FREE.within(smallest, held, &demand);
                    prop_assert!(plan.is_ok(), "{plan:?} at the smallest that was said to hold");
                    prop_assert!(FREE.within(smallest - 1, held, &demand).is_err());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }

        #[test]
        fn no_micro_batch_of_the_remaining_is_larger_than_promised(
            candidates in prop::collection::vec((0usize..600, any::<bool>()), 0..40), budget in 1usize..1500,
        ) {
            let lengths: Vec<usize> = candidates.iter().map(|it| it.0).collect();
            let remaining: Vec<usize> = candidates.iter().filter(|it| it.1).map(|it| it.0).collect();
            for batch in micro_batches(&remaining, budget) {
                let tokens: usize = remaining[batch].iter().sum();
                prop_assert!(tokens <= largest_micro_batch(&lengths, budget));
            }
        }

        #[test]
        fn every_sequence_is_in_one_batch_within_the_budget(
            lengths in prop::collection::vec(0usize..600, 0..40), budget in 1usize..1500,
        ) {
            let batches = micro_batches(&lengths, budget);
            let flat: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(flat, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                let tokens: usize = lengths[batch.clone()].iter().sum();
                prop_assert!(tokens <= budget || batch.len() == 1);
            }
        }
    }

    #[test]
    fn plenty_keeps_everything_and_less_gives_up_the_cheapest_first() {
        let demand = demand_of(vec![500; 60], 24);
        let plan = |mebibytes: u64| FREE.within(mebibytes << 20, 0, &demand).expect("enough");
        let plenty = plan(1000);
        assert_eq!((plenty.window, plenty.hidden_on_disk), (24, false));
        assert_eq!(plenty.embedding_rows, Some(5000));
        // Every further layer that fits stays, beside the rows of the whole request.
        let windows: Vec<usize> = (100..320).map(|it| plan(it).window).collect();
        assert!(windows.windows(2).all(|it| it[0] <= it[1] && it[1] <= it[0] + 1), "{windows:?}");
        assert!(windows.contains(&13) && windows.contains(&23), "{windows:?}");
        let between = plan(200);
        assert!((3..24).contains(&between.window) && between.embedding_rows >= Some(3000));
        assert!(
            demand.bytes(&Plan { window: between.window + 1, ..between }) + (14 << 20) > 200 << 20
        );
        // Smaller micro-batches come before the disk.
        let short = demand_of(vec![100; 300], 24);
        let steps = |mebibytes: u64| {
            let plan = FREE.within(mebibytes << 20, 0, &short).expect("enough");
            (plan.window, plan.micro_batch_tokens, plan.hidden_on_disk)
        };
        let mut small: Vec<_> = (40..100).rev().map(steps).filter(|it| it.0 == 2).collect();
        small.dedup();
        assert!(
            small.starts_with(&[(2, 1024, false), (2, 512, false), (2, 256, false)]),
            "{small:?}"
        );
        assert!(small.iter().any(|it| it.2) && small.is_sorted_by_key(|it| it.2), "{small:?}");
        // What the caller has decided stays.
        let wishes = Wishes { window: Some(1), micro_batch_tokens: Some(700), ..FREE };
        let wished = wishes.within(1000 << 20, 0, &demand).expect("enough");
        assert_eq!((wished.window, wished.micro_batch_tokens), (1, 700));
    }
}
