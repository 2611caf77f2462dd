//! What a machine takes for a model's shards: measured once, and kept (STI, §5.2).

use std::time::{Duration, Instant};

use riddle_kernels::{isa, zeros};
use riddle_transformer::{Encoded, Prefix, ShardBytes, Span, Wanted};
use serde::{Deserialize, Serialize};

use super::{
    ElasticEngine, ms,
    pass::{cumulative, first_states, scratch_for},
    state::{State, shard_id},
};
use crate::{
    Result,
    deadline::{ComputeCost, Load, ReadCost},
    plan::micro_batches,
};

/// What a machine takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCost {
    /// What reading takes, checksums included.
    pub read: ReadCost,
    /// What computing takes.
    pub compute: ComputeCost,
    /// Instructions that it was measured with.
    pub isa: String,
    /// Threads that it was measured with.
    pub threads: usize,
}

/// Sequences that layers are timed with: a search, a short one, titles, long passages.
const LENGTHS: [(usize, usize); 4] = [(20, 140), (5, 140), (20, 40), (6, 400)];

/// Times of each kind, of which the median counts.
const ROUNDS: usize = 3;

/// Bits of the shards of layers that are timed.
const TIMED_BITS: u8 = 6;

/// The last layer's keys and values are computed of all tokens: less than this is noise.
const LEAST_LAST: f64 = 0.05;

/// Texts that embedding is timed with, and words of each.
const TEXTS: (usize, usize) = (16, 110);

impl MachineCost {
    /// Before anybody has measured: a slow disk and a slow machine, so that plans are modest.
    pub fn unknown() -> MachineCost {
        MachineCost {
            read: ReadCost { latency: 0.2, mebibyte: 12.0 },
            compute: ComputeCost {
                layer: 0.5,
                token: 0.003,
                token_slice: 0.001,
                square_slice: 0.000_002,
                assemble_slice: 0.1,
                embed_token: 0.004,
                last: 0.0,
            },
            isa: String::new(),
            threads: 0,
        }
    }

    /// Whether it was measured by this program, with the instructions that it uses here: a home moves between machines.
    pub fn is_of_here(&self) -> bool {
        let ComputeCost { last, embed_token, .. } = self.compute;
        last > 0.0 && embed_token > 0.0 && isa().is_ok_and(|it| it.name() == self.isa)
    }
}

impl ElasticEngine {
    /// Measures this machine: reading through this engine's way to the disk, and computing on its threads.
    ///
    /// # Errors
    /// Shards that can not be read.
    pub fn measure(&self) -> Result<MachineCost> {
        let read = self.measure_reads()?;
        let compute = self.measure_layers()?;
        Ok(MachineCost {
            read,
            compute,
            isa: isa().map_or_else(|_| String::new(), |it| it.name().to_owned()),
            threads: self.pool.threads(),
        })
    }

    /// A line through reads of one shard and of whole layers.
    fn measure_reads(&self) -> Result<ReadCost> {
        let state = self.lock();
        let store = &state.sizes.store;
        let mut points = Vec::new();
        for layer in 0..self.shape.layers {
            for &bits in &state.sizes.bits {
                let all: Vec<_> =
                    (0..self.shape.slices).filter_map(|it| shard_id(layer, it, bits)).collect();
                for ids in [&all[..1], &all[..]] {
                    state.reader.begin(vec![ids.to_vec()]);
                    let loaded = state.reader.take(0)?;
                    points.push((loaded.bytes_read as f64, ms(loaded.read_time)));
                }
            }
            debug_assert!(store.shape().layers > layer);
        }
        Ok(line(&points))
    }

    fn measure_layers(&self) -> Result<ComputeCost> {
        let mut state = self.lock();
        let slices = self.shape.slices;
        let mut rows = Vec::new();
        let mut last_ones = Vec::new();
        let mut assembling = Vec::new();
        for (count, length) in LENGTHS {
            let lengths = vec![length; count];
            let load = Load::of(&lengths);
            for width in [slices, slices.div_ceil(2)] {
                let mut times = [Vec::new(), Vec::new()];
                for _ in 0..ROUNDS {
                    for (times, wanted) in times.iter_mut().zip([Wanted::All, Wanted::Scored]) {
                        let timed = Timed { lengths: &lengths, width, wanted };
                        let (assembled, computed) = time_layer(self, &mut state, &timed)?;
                        assembling.push(ms(assembled) / width as f64);
                        times.push(ms(computed));
                    }
                }
                let width = width as f64;
                let parts = [1.0, load.tokens, width * load.tokens, width * load.squares];
                let [each, last] = times.map(|mut it| median(&mut it));
                rows.push((parts, each));
                last_ones.push((each, last));
            }
        }
        drop(state);
        let [layer, token, token_slice, square_slice] = fit(&rows);
        let share = |(each, last): (f64, f64)| (last - layer) / (each - layer).max(1e-3);
        let mut shares: Vec<f64> = last_ones.into_iter().map(share).collect();
        Ok(ComputeCost {
            layer,
            token,
            token_slice,
            square_slice,
            assemble_slice: median(&mut assembling),
            embed_token: self.measure_embedding()?,
            last: median(&mut shares).clamp(LEAST_LAST, 1.0),
        })
    }

    /// The first states and memory for all of them, for each token, as a request makes them; rows are there.
    fn measure_embedding(&self) -> Result<f64> {
        let (count, words) = TEXTS;
        let text = ["the ferry keeps to its hours"; 20].join(" ");
        let text: Vec<&str> = text.split(' ').cycle().take(words).collect();
        let text = text.join(" ");
        let texts = vec![text.as_str(); count];
        let order: Vec<usize> = (0..count).collect();
        let pairs = self.encode("When does the ferry go?", &texts, &order)?;
        let mut state = self.lock();
        let State { model, rows, .. } = &mut *state;
        let network = model.network();
        let tokens: usize = pairs.iter().map(Encoded::len).sum();
        // Of a list's tokens two in five are others than those before.
        let kinds = (tokens * 2 / 5).clamp(1, rows.capacity());
        let ids: Vec<u32> = (0..tokens).map(|it| (it * 37 % kinds) as u32).collect();
        let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
        let mut times = Vec::new();
        // The first one reads the rows.
        for _ in 0..=ROUNDS {
            let started = Instant::now();
            let _scratch = scratch_for(self, model, &lengths);
            let mut states = zeros(tokens * network.sizes().hidden_size);
            rows.gather(&ids, &mut states)?;
            first_states(self, network, &pairs, &mut states);
            times.push(ms(started.elapsed()) / tokens.max(1) as f64);
        }
        Ok(median(&mut times[1..]))
    }
}

/// A layer that is timed.
struct Timed<'a> {
    lengths: &'a [usize],
    width: usize,
    wanted: Wanted,
}

/// Times of putting a layer together and of computing it, for those who measure.
fn time_layer(
    engine: &ElasticEngine,
    state: &mut State,
    timed: &Timed<'_>,
) -> Result<(Duration, Duration)> {
    let Timed { lengths, width, wanted } = *timed;
    let shape = engine.shape;
    let ids = (0..width).filter_map(|slice| shard_id(0, slice, TIMED_BITS));
    let mut shards = Vec::new();
    for id in ids {
        let bytes = state.sizes.store.read(id).map_err(riddle_offload::Error::from)?;
        shards.push((id, bytes));
    }
    let parts: Vec<_> = shards
        .iter()
        .map(|(id, bytes)| ShardBytes { slice: id.slice, fidelity: id.fidelity, bytes })
        .collect();
    let started = Instant::now();
    engine.pool.run(|| state.layer.assemble(&shape, &state.small[0], &parts));
    let assembled = started.elapsed();
    let most = engine.options.micro_batch_tokens;
    let mut scratch = scratch_for(engine, &state.model, lengths);
    let hidden = state.model.network().sizes().hidden_size;
    let tokens: usize = lengths.iter().sum();
    let mut states: Vec<f32> =
        (0..tokens * hidden).map(|it| ((it * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let started = Instant::now();
    let mut start = 0;
    for members in micro_batches(lengths, most) {
        let cu_seqlens = cumulative(lengths, members.clone());
        let tokens = cu_seqlens[members.len()];
        let part = &mut states[start * hidden..][..tokens * hidden];
        start += tokens;
        let span = Span { cu_seqlens: &cu_seqlens, prefix: Prefix::None, wanted, unseen: 0 };
        engine.pool.run(|| state.model.layer(&state.layer, span, part, &mut scratch));
    }
    Ok((assembled, started.elapsed()))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// The line nearest to points of bytes and milliseconds, by squares; neither part below 0.
fn line(points: &[(f64, f64)]) -> ReadCost {
    let count = points.len().max(1) as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|it| it.0), mean(&|it| it.1));
    let (xy, xx) = (mean(&|it| (it.0 - x) * (it.1 - y)), mean(&|it| (it.0 - x).powi(2)));
    let slope = if xx > 0.0 { (xy / xx).max(0.0) } else { 0.0 };
    let latency = (y - slope * x).max(0.0);
    ReadCost { latency, mebibyte: slope * f64::from(1 << 20) }
}

/// Parts, none below 0, whose sums come nearest to the times, by relative squares: a millisecond too much is worse of
/// two than of forty. Coordinates are improved in turn, which for so few is soon done.
fn fit<const N: usize>(rows: &[([f64; N], f64)]) -> [f64; N] {
    let mut parts = [0.0; N];
    for _ in 0..2000 {
        for i in 0..N {
            let (mut above, mut below) = (0.0, 0.0);
            for (row, time) in rows {
                let weight = 1.0 / time.max(1e-3).powi(2);
                let others: f64 = (0..N).filter(|it| *it != i).map(|it| row[it] * parts[it]).sum();
                above += weight * row[i] * (time - others);
                below += weight * row[i] * row[i];
            }
            parts[i] = if below > 0.0 { (above / below).max(0.0) } else { 0.0 };
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_other_instructions_are_not_of_here() {
        let mut machine = MachineCost::unknown();
        assert!(!machine.is_of_here());
        machine.compute.last = 0.4;
        machine.isa = isa().expect("instructions").name().to_owned();
        assert!(machine.is_of_here());
        let elsewhere = MachineCost { isa: "another".to_owned(), ..machine.clone() };
        assert!(!elsewhere.is_of_here());
        for before in [
            ComputeCost { last: 0.0, ..machine.compute },
            ComputeCost { embed_token: 0.0, ..machine.compute },
        ] {
            assert!(!MachineCost { compute: before, ..machine.clone() }.is_of_here(), "{before:?}");
        }
    }

    #[test]
    fn a_line_and_a_sum_are_found_again() {
        let points: Vec<(f64, f64)> =
            (1..20).map(|it| (f64::from(it) * 5e4, 0.3 + f64::from(it) * 5e4 / 1e5)).collect();
        let found = line(&points);
        assert!((found.latency - 0.3).abs() < 1e-6, "{found:?}");
        assert!((found.mebibyte - 10.485_76).abs() < 1e-6, "{found:?}");
        let parts = [0.5, 0.002, 0.0005, 0.000_001];
        let mut rows = Vec::new();
        for (count, length) in LENGTHS {
            let load = Load::of(&vec![length; count]);
            for width in [12.0, 6.0] {
                let row = [1.0, load.tokens, width * load.tokens, width * load.squares];
                rows.push((row, row.iter().zip(&parts).map(|(a, b)| a * b).sum::<f64>()));
            }
        }
        let found = fit(&rows);
        for (row, time) in &rows {
            let sum: f64 = row.iter().zip(&found).map(|(a, b)| a * b).sum();
            assert!((sum / time - 1.0).abs() < 0.02, "{sum} for {time}");
        }
    }
}
