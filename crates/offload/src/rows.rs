//! Rows of the token-embedding table (GRATING §4.4).

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use lru::LruCache;
use riddle_weights::{Checkpoint, Format, TensorInfo};

use crate::{RatedDevice, Result};

/// Neighboring missing rows that are read at once: one read call for a run, within 64 rows of scratch.
const MAX_RUN: usize = 64;

/// What the row cache did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowStats {
    /// Unique tokens whose row was in memory.
    pub hits: u64,
    /// Unique tokens whose row was read.
    pub misses: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// How long reading them took.
    pub read_time: Duration,
}

/// An LRU cache of rows of an embedding table on disk.
#[derive(Debug)]
pub struct EmbeddingRows {
    checkpoint: Checkpoint,
    table: TensorInfo,
    format: Format,
    width: usize,
    row_bytes: usize,
    capacity: usize,
    /// Token → slot in `rows`.
    slots: LruCache<u32, usize>,
    /// Rows as the file holds them: widened when they are copied, since keeping them wide would double
    /// what a table of two-byte numbers costs, and
    /// four times what one of bytes does.
    rows: Vec<u8>,
    scratch: Vec<u8>,
    stats: RowStats,
    /// Takes as long as a slower one would, where that is measured.
    device: Option<Arc<RatedDevice>>,
}

impl EmbeddingRows {
    /// Caches at most `share` (clamped to 0…1, at least one row) of `table` `[vocabulary, width]`. Memory grows as
    /// rows come in: a share of 1 costs what was used, not the table.
    pub fn new(checkpoint: Checkpoint, table: TensorInfo, share: f32) -> EmbeddingRows {
        let vocabulary = table.shape.first().copied().unwrap_or(0);
        let width = table.elements() / vocabulary.max(1);
        let format = table.format();
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
        // Vocabularies are below 2²⁴, which f32 holds exactly.
        let capacity = ((vocabulary as f32 * share).ceil() as usize).clamp(1, vocabulary.max(1));
        EmbeddingRows {
            checkpoint,
            table,
            format,
            width,
            // A packed table has no rows: reading the first one says so.
            row_bytes: format.row_bytes(width).unwrap_or(0),
            capacity,
            // Not made for its capacity at once: the map would cost megabytes before the first token.
            slots: LruCache::unbounded(),
            rows: Vec::new(),
            scratch: Vec::new(),
            stats: RowStats::default(),
            device: None,
        }
    }

    /// Has every read take as long as on this device.
    pub fn set_device(&mut self, device: Option<Arc<RatedDevice>>) {
        self.device = device;
    }

    /// How many reads the rows of these tokens would be now, and how many rows they are.
    pub fn missing(&self, tokens: impl Iterator<Item = u32>) -> (usize, usize) {
        let mut missing: Vec<u32> = tokens.filter(|it| !self.slots.contains(it)).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut reads = 0;
        let mut run: Option<(u32, usize)> = None;
        for &token in &missing {
            run = match run {
                Some((next, length)) if next == token && length < MAX_RUN => {
                    Some((token + 1, length + 1))
                }
                _ => {
                    reads += 1;
                    Some((token + 1, 1))
                }
            };
        }
        (reads, missing.len())
    }

    /// Rows that have to be read for the first of these sequences, for the first two, and so on.
    pub fn missing_by<'a>(&self, sequences: impl Iterator<Item = &'a [u32]>) -> Vec<usize> {
        let mut missing = HashSet::new();
        let mut upto = |tokens: &[u32]| {
            missing.extend(tokens.iter().copied().filter(|it| !self.slots.contains(it)));
            missing.len()
        };
        sequences.map(&mut upto).collect()
    }

    /// Most rows in memory.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that a row takes, in memory as in the file.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Changes the most rows in memory, at least one. Of those that no longer fit the most recent stay: a plan is made
    /// for each request, and what the next one needs is mostly what the last one did.
    pub fn set_capacity(&mut self, rows: usize) {
        let vocabulary = self.table.shape.first().copied().unwrap_or(1);
        self.capacity = rows.clamp(1, vocabulary.max(1));
        if self.slots.len() > self.capacity {
            self.forget_all_but(self.capacity);
        }
        let most = self.capacity * self.row_bytes;
        if self.rows.len() > most {
            self.rows.truncate(most);
            self.rows.shrink_to_fit();
        }
    }

    /// Keeps the `count` most recent rows, in the first slots. A new map is as small as they are.
    fn forget_all_but(&mut self, count: usize) {
        let slots = std::mem::replace(&mut self.slots, LruCache::unbounded());
        let recent: Vec<(u32, usize)> =
            slots.iter().take(count).map(|(&token, &slot)| (token, slot)).collect();
        let mut taken = vec![false; count];
        for &(_, slot) in recent.iter().filter(|it| it.1 < count) {
            taken[slot] = true;
        }
        let mut free = (0..count).filter(|&it| !taken[it]);
        for &(token, slot) in recent.iter().rev() {
            // A row beyond the last slot that stays has one before it to go to: they are as many as the slots.
            let to = if slot < count { slot } else { free.next().unwrap_or(slot) };
            self.rows.copy_within(
                slot * self.row_bytes..(slot + 1) * self.row_bytes,
                to * self.row_bytes,
            );
            self.slots.put(token, to);
        }
    }

    /// Bytes of rows in memory.
    pub fn resident_bytes(&self) -> u64 {
        (self.rows.capacity() + self.scratch.capacity()) as u64
    }

    /// Hits and misses since the beginning.
    pub fn stats(&self) -> RowStats {
        self.stats
    }

    /// Copies the row of every token into `out` `[tokens.len(), width]`.
    ///
    /// Correct for any number of distinct tokens: rows that do not fit pass through.
    ///
    /// # Errors
    /// When a token is not in the table or the file can not be read.
    ///
    /// # Panics
    /// When `out` is too short.
    pub fn gather(&mut self, tokens: &[u32], out: &mut [f32]) -> Result<()> {
        let width = self.width;
        assert!(out.len() >= tokens.len() * width, "out is not tokens × {width}");
        // Tokens in order of their id, each with the places that want it.
        let mut places: Vec<(u32, usize)> = tokens.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let mut missing: Vec<&[(u32, usize)]> = Vec::new();
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            match self.slots.get(&group[0].0) {
                Some(&slot) => {
                    self.stats.hits += 1;
                    let row = &self.rows[slot * self.row_bytes..][..self.row_bytes];
                    copy_row(self.format, row, width, group, out);
                }
                None => missing.push(group),
            }
        }
        // All hits are copied before the first miss may evict one.
        let mut rest = missing.as_slice();
        while let Some(first) = rest.first().map(|group| group[0].0) {
            let run = rest
                .iter()
                .zip(first..)
                .take(MAX_RUN)
                .take_while(|(group, id)| group[0].0 == *id)
                .count();
            self.read_run(first, run)?;
            let (now, later) = rest.split_at(run);
            for (i, group) in now.iter().enumerate() {
                let scratch = std::mem::take(&mut self.scratch);
                let row = &scratch[i * self.row_bytes..][..self.row_bytes];
                copy_row(self.format, row, width, group, out);
                self.keep(group[0].0, row);
                self.scratch = scratch;
            }
            rest = later;
        }
        Ok(())
    }

    fn read_run(&mut self, first: u32, count: usize) -> Result<()> {
        self.scratch.resize((MAX_RUN * self.row_bytes).max(self.scratch.len()), 0);
        let out = &mut self.scratch[..count * self.row_bytes];
        let started = Instant::now();
        self.stats.bytes_read += self.checkpoint.read_rows(&self.table, first as usize, out)?;
        if let Some(device) = &self.device {
            device.wait(started, count * self.row_bytes);
        }
        self.stats.read_time += started.elapsed();
        self.stats.misses += count as u64;
        Ok(())
    }

    fn keep(&mut self, token: u32, row: &[u8]) {
        let slot = if self.slots.len() == self.capacity {
            match self.slots.pop_lru() {
                Some((_, slot)) => slot,
                None => return,
            }
        } else {
            let slot = self.slots.len();
            if self.rows.len() < (slot + 1) * self.row_bytes {
                // An eighth more, up to the capacity and not beyond: the budget counts reserved memory.
                let rows = ((slot + 1) * 9 / 8 + MAX_RUN).min(self.capacity);
                self.rows.reserve_exact(rows * self.row_bytes - self.rows.len());
                self.rows.resize(rows * self.row_bytes, 0);
            }
            slot
        };
        self.rows[slot * self.row_bytes..][..self.row_bytes].copy_from_slice(row);
        self.slots.put(token, slot);
    }
}

/// Widens a row into the first of its places and copies it into the others.
fn copy_row(format: Format, row: &[u8], width: usize, places: &[(u32, usize)], out: &mut [f32]) {
    let Some((&(_, first), others)) = places.split_first() else { return };
    format.widen_row(row, &mut out[first * width..][..width]);
    for &(_, place) in others {
        out.copy_within(first * width..(first + 1) * width, place * width);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table of 50 rows of 3, row r = [r, r + 0.5, −r].
    fn table(dir: &std::path::Path) -> (Checkpoint, TensorInfo) {
        let mut data = Vec::new();
        for row in 0..50 {
            let row = row as f32;
            for value in [row, row + 0.5, -row] {
                data.extend_from_slice(&value.to_le_bytes());
            }
        }
        let header = r#"{"t":{"dtype":"F32","shape":[50,3],"data_offsets":[0,600]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&data);
        std::fs::write(dir.join("model.safetensors"), bytes).expect("write");
        let checkpoint = Checkpoint::open(dir).expect("valid");
        let info = checkpoint.tensor("t", &[50, 3]).expect("there").clone();
        (checkpoint, info)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_the_table_at_any_capacity(
            share in 0f32..1.0,
            smaller in 1usize..60,
            requests in prop::collection::vec(prop::collection::vec(0u32..50, 0..80), 1..5),
        ) {
            let dir = tempfile::tempdir().expect("temp dir");
            let (checkpoint, info) = table(dir.path());
            let mut rows = EmbeddingRows::new(checkpoint, info, share);
            for (number, tokens) in requests.into_iter().enumerate() {
                if number == 2 {
                    rows.set_capacity(smaller);
                }
                let by = rows.missing_by(tokens.chunks(7));
                for (upto, count) in by.iter().enumerate() {
                    let first = tokens.iter().copied().take(7 * (upto + 1));
                    prop_assert_eq!(rows.missing(first).1, *count);
                }
                let mut out = vec![f32::NAN; tokens.len() * 3];
                rows.gather(&tokens, &mut out).expect("in range");
                let expected: Vec<f32> = tokens.iter().map(|&it| it as f32).flat_map(|it| [it, it + 0.5, -it]).collect();
                prop_assert_eq!(out, expected);
                prop_assert!(rows.resident_bytes() <= ((rows.capacity() + MAX_RUN) * 12) as u64);
            }
        }
    }

    #[test]
    fn recent_rows_are_not_read_again() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (checkpoint, info) = table(dir.path());
        let mut rows = EmbeddingRows::new(checkpoint, info, 0.1);
        let mut out = [0.0; 15];
        rows.gather(&[7, 8, 7, 9, 7], &mut out).expect("in range");
        rows.gather(&[9, 8], &mut out).expect("in range");
        let stats = rows.stats();
        assert_eq!((stats.hits, stats.misses, stats.bytes_read), (2, 3, 36));
        assert!(stats.read_time > Duration::ZERO);
    }

    #[test]
    fn of_fewer_rows_the_most_recent_stay() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (checkpoint, info) = table(dir.path());
        let mut rows = EmbeddingRows::new(checkpoint, info, 1.0);
        let mut out = [0.0; 12];
        for token in [7, 20, 30, 8] {
            rows.gather(&[token], &mut out).expect("in range");
        }
        rows.gather(&[7], &mut out).expect("in range");
        rows.set_capacity(2);
        assert_eq!(rows.resident_bytes(), ((2 + MAX_RUN) * 12) as u64);
        let before = rows.stats();
        rows.gather(&[8, 7], &mut out).expect("in range");
        assert_eq!(out[..6], [8.0, 8.5, -8.0, 7.0, 7.5, -7.0]);
        assert_eq!(rows.stats().misses, before.misses, "what was just used was forgotten");
    }

    #[test]
    fn a_token_beyond_the_table_is_an_error() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (checkpoint, info) = table(dir.path());
        assert!(EmbeddingRows::new(checkpoint, info, 1.0).gather(&[50], &mut [0.0; 3]).is_err());
    }
}
