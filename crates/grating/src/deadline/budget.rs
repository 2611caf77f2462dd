//! Accumulated IO budgets and the two passes that spend them (STI, §5.4).

use serde::{Deserialize, Serialize};

/// Bits of each shard, by layer and slice.
pub type Bits = Vec<Vec<u8>>;

/// What reading takes, in milliseconds: the checksum of what is read for the first time is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadCost {
    /// Of a read, whatever its length.
    pub latency: f64,
    /// Of a mebibyte.
    pub mebibyte: f64,
}

impl ReadCost {
    /// Milliseconds of one read.
    pub fn ms(&self, bytes: usize) -> f64 {
        self.latency + self.mebibyte * bytes as f64 / f64::from(1 << 20)
    }
}

/// How large shards are.
pub trait ShardSizes {
    /// Layers.
    fn layers(&self) -> usize;

    /// Slices of a layer.
    fn slices(&self) -> usize;

    /// Bits that there are, ascending.
    fn fidelities(&self) -> &[u8];

    /// Bytes of a shard.
    fn bytes(&self, layer: usize, slice: usize, bits: u8) -> usize;
}

/// The bits of shards that are in memory, by layer and slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept(pub Vec<Vec<Option<u8>>>);

impl Kept {
    /// Nothing of a model of so many layers and slices.
    pub fn nothing(layers: usize, slices: usize) -> Kept {
        Kept(vec![vec![None; slices]; layers])
    }

    /// What of it belongs to a submodel.
    pub(super) fn within(&self, layers: usize, width: usize) -> Kept {
        let row = |layer: usize| (0..width).map(|slice| self.get(layer, slice)).collect();
        Kept((0..layers).map(row).collect())
    }

    /// What of it belongs to the layers from one on.
    pub(super) fn from(mut self, first: usize) -> Kept {
        self.0.drain(..first.min(self.0.len()));
        self
    }

    /// The bits of a shard, if it is there.
    pub fn get(&self, layer: usize, slice: usize) -> Option<u8> {
        self.0.get(layer)?.get(slice).copied().flatten()
    }
}

/// The time by which each layer's shards, and those of all layers before, must have been read: what the layers before
/// it compute, what the plan may wait altogether (`slack`; 0 in the paper, where the first layer's stall is outside),
/// and what need not be read because it is in memory (`bonus`, by layer).
pub fn accumulated_budgets(compute: &[f64], slack: f64, bonus: &[f64]) -> Vec<f64> {
    let mut budget = slack;
    let mut budgets = Vec::with_capacity(compute.len());
    for (layer, compute) in compute.iter().enumerate() {
        budget += bonus.get(layer).copied().unwrap_or(0.0);
        budgets.push(budget);
        budget += compute;
    }
    budgets
}

/// What is left of budgets when each layer has been read.
pub(super) fn left(budgets: &[f64], reading: &[f64]) -> Vec<f64> {
    let mut read = 0.0;
    let of = |(budget, reading): (&f64, &f64)| {
        read += reading;
        budget - read
    };
    budgets.iter().zip(reading).map(of).collect()
}

/// Whether nobody waits: a plan is valid if and only if no budget is overdrawn.
pub fn is_valid(budgets: &[f64], reading: &[f64]) -> bool {
    // Sums of floating-point numbers may differ by the order in which they are made.
    left(budgets, reading).iter().all(|it| *it >= -1e-9)
}

/// Milliseconds of reading a layer: neighbors of the same bits are one read, and what is in memory none.
pub(super) fn reading_ms(
    sizes: &dyn ShardSizes,
    read: ReadCost,
    layer: usize,
    bits: &[u8],
    kept: &Kept,
) -> f64 {
    let mut ms = 0.0;
    let mut run: Option<(u8, usize)> = None;
    for (slice, &bits) in bits.iter().enumerate() {
        let wanted = kept.get(layer, slice) != Some(bits);
        let bytes = if wanted { sizes.bytes(layer, slice, bits) } else { 0 };
        run = match run {
            Some((of, sum)) if wanted && of == bits => Some((of, sum + bytes)),
            Some((_, sum)) => {
                ms += read.ms(sum);
                wanted.then_some((bits, bytes))
            }
            None => wanted.then_some((bits, bytes)),
        };
    }
    ms + run.map_or(0.0, |it| read.ms(it.1))
}

/// Gives shards bits. First all that are not in memory the same, as many as the budgets allow; then single ones more,
/// the most important first, each as many as fit. Returns whether the budgets allow even the fewest, which are taken
/// all the same: without them nothing can be computed (§5.4.3).
pub fn allocate(
    sizes: &dyn ShardSizes,
    read: ReadCost,
    budgets: &[f64],
    kept: &Kept,
    importance: &[Vec<f32>],
    upgrades: bool,
) -> (Bits, bool) {
    let reading = |bits: &Bits| -> Vec<f64> {
        (0..bits.len()).map(|it| reading_ms(sizes, read, it, &bits[it], kept)).collect()
    };
    let uniform = |bits: u8| -> Bits {
        let of = |it: &Option<u8>| it.map_or(bits, |it| it.max(bits));
        kept.0.iter().map(|row| row.iter().map(of).collect()).collect()
    };
    // What is in memory stays what it is until everything else is as good.
    let first = |bits: u8| -> Bits {
        let row = |row: &Vec<Option<u8>>| row.iter().map(|it| it.unwrap_or(bits)).collect();
        kept.0.iter().map(row).collect()
    };
    let fidelities = sizes.fidelities();
    let Some(&least) = fidelities.first() else { return (Bits::new(), false) };
    let mut bits = first(least);
    if !is_valid(budgets, &reading(&bits)) {
        return (bits, false);
    }
    for &more in &fidelities[1..] {
        // Either with what is in memory as it is, or with that read anew, too.
        let Some(next) =
            [uniform(more), first(more)].into_iter().find(|it| is_valid(budgets, &reading(it)))
        else {
            break;
        };
        bits = next;
    }
    if upgrades {
        upgrade(sizes, read, budgets, kept, importance, &mut bits);
    }
    (bits, true)
}

/// The second pass.
fn upgrade(
    sizes: &dyn ShardSizes,
    read: ReadCost,
    budgets: &[f64],
    kept: &Kept,
    importance: &[Vec<f32>],
    bits: &mut Bits,
) {
    let worth = |layer: usize, slice: usize| {
        importance.get(layer).and_then(|it| it.get(slice)).copied().unwrap_or(0.0)
    };
    let mut order: Vec<(usize, usize)> = (0..bits.len())
        .flat_map(|layer| (0..bits[layer].len()).map(move |it| (layer, it)))
        .collect();
    order.sort_by(|a, b| worth(b.0, b.1).total_cmp(&worth(a.0, a.1)).then(a.cmp(b)));
    let mut reading: Vec<f64> =
        (0..bits.len()).map(|it| reading_ms(sizes, read, it, &bits[it], kept)).collect();
    for (layer, slice) in order {
        let (before, ms) = (bits[layer][slice], reading[layer]);
        let better = sizes.fidelities().iter().rev().copied().take_while(|it| *it > before);
        for more in better.collect::<Vec<_>>() {
            bits[layer][slice] = more;
            reading[layer] = reading_ms(sizes, read, layer, &bits[layer], kept);
            if is_valid(budgets, &reading) {
                break;
            }
            (bits[layer][slice], reading[layer]) = (before, ms);
        }
    }
}
