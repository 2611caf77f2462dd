//! Rows of the token-embedding table (GRATING §4.4).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use lru::LruCache;
use riddle_weights::{Checkpoint, Format, TensorInfo};

use crate::{RatedDevice, Result};

/// Neighboring missing rows that are read at once: one read call for a run, within 64 rows of scratch.
const MAX_RUN: usize = 64;

/// Bytes of a run where rows between the missing ones are read, too.
const MAX_SPAN: usize = 128 << 10;

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

/// Rows that are not in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingRows {
    /// How many are read: what is between two that are read at once is counted.
    pub rows: usize,
    /// In how many runs they lie.
    pub reads: usize,
}

impl MissingRows {
    fn and(self, other: MissingRows) -> MissingRows {
        MissingRows { rows: self.rows + other.rows, reads: self.reads + other.reads }
    }

    fn less(self, other: MissingRows) -> MissingRows {
        MissingRows { rows: self.rows - other.rows, reads: self.reads - other.reads }
    }
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
    /// Rows between two missing ones that are read with them.
    gap: usize,
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
            gap: 0,
            stats: RowStats::default(),
            device: None,
        }
    }

    /// Has every read take as long as on this device.
    pub fn set_device(&mut self, device: Option<Arc<RatedDevice>>) {
        self.device = device;
    }

    /// What would have to be read for the first of these sequences, for the first two, and so on. A run counts as one
    /// read however long it is.
    pub fn missing_by<'a>(&self, sequences: impl Iterator<Item = &'a [u32]>) -> Vec<MissingRows> {
        let mut missing: BTreeSet<u32> = BTreeSet::new();
        let mut sum = MissingRows::default();
        let upto = |tokens: &[u32]| {
            for &token in tokens {
                if self.slots.contains(&token) || !missing.insert(token) {
                    continue;
                }
                let before = missing.range(..token).next_back().copied();
                let after = missing.range(token..).nth(1).copied();
                if let (Some(before), Some(after)) = (before, after) {
                    sum = sum.less(self.between(before, after));
                }
                let gaps = [
                    before.map(|it| self.between(it, token)),
                    after.map(|it| self.between(token, it)),
                ];
                sum = gaps.into_iter().flatten().fold(sum, MissingRows::and);
                sum.rows += 1;
                sum.reads += usize::from(before.is_none() && after.is_none());
            }
            sum
        };
        sequences.map(upto).collect()
    }

    /// What is between two missing rows: rows that are read with them, or a read more.
    fn between(&self, before: u32, after: u32) -> MissingRows {
        let rows = after.abs_diff(before) as usize - 1;
        if rows <= self.gap {
            MissingRows { rows, reads: 0 }
        } else {
            MissingRows { rows: 0, reads: 1 }
        }
    }

    /// Reads two missing rows at once where at most `bytes` are between them: where a read takes longer to begin than
    /// those take, and nothing of the file is in memory.
    pub fn read_through(&mut self, bytes: usize) {
        self.gap = bytes / self.row_bytes.max(1);
    }

    /// Rows of the longest run.
    fn longest_run(&self) -> usize {
        if self.gap == 0 { MAX_RUN } else { MAX_RUN.max(MAX_SPAN / self.row_bytes.max(1)) }
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
        self.gather_while(tokens, out, &|| true).map(drop)
    }

    /// The same as long as `go_on`, asked before each read, says so. Returns whether all of it was done.
    ///
    /// # Errors
    /// As [`EmbeddingRows::gather`].
    ///
    /// # Panics
    /// When `out` is too short.
    pub fn gather_while(
        &mut self,
        tokens: &[u32],
        out: &mut [f32],
        go_on: &dyn Fn() -> bool,
    ) -> Result<bool> {
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
            if !go_on() {
                return Ok(false);
            }
            let longest = self.longest_run();
            let place = |group: &[(u32, usize)]| (group[0].0 - first) as usize;
            let joined = rest.windows(2).take_while(|it| {
                place(it[1]) - place(it[0]) <= self.gap + 1 && place(it[1]) < longest
            });
            let run = 1 + joined.count();
            let (now, later) = rest.split_at(run);
            self.read_run(first, place(now[run - 1]) + 1, longest)?;
            self.stats.misses += run as u64;
            for group in now {
                let scratch = std::mem::take(&mut self.scratch);
                let row = &scratch[place(group) * self.row_bytes..][..self.row_bytes];
                copy_row(self.format, row, width, group, out);
                self.keep(group[0].0, row);
                self.scratch = scratch;
            }
            rest = later;
        }
        Ok(true)
    }

    fn read_run(&mut self, first: u32, count: usize, longest: usize) -> Result<()> {
        self.scratch.resize((longest * self.row_bytes).max(self.scratch.len()), 0);
        let out = &mut self.scratch[..count * self.row_bytes];
        let started = Instant::now();
        self.stats.bytes_read += self.checkpoint.read_rows(&self.table, first as usize, out)?;
        if let Some(device) = &self.device {
            device.wait(started, count * self.row_bytes);
        }
        self.stats.read_time += started.elapsed();
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
    use std::cell::Cell;

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
            gap in 0usize..6,
            smaller in 1usize..60,
            requests in prop::collection::vec(prop::collection::vec(0u32..50, 0..80), 1..5),
        ) {
            let dir = tempfile::tempdir().expect("temp dir");
            let (checkpoint, info) = table(dir.path());
            let mut rows = EmbeddingRows::new(checkpoint, info, share);
            rows.read_through(gap * 12);
            for (number, tokens) in requests.into_iter().enumerate() {
                if number == 2 {
                    rows.set_capacity(smaller);
                }
                let by = rows.missing_by(tokens.chunks(7));
                for (upto, missing) in by.iter().enumerate() {
                    let first: BTreeSet<u32> = tokens.iter().copied().take(7 * (upto + 1))
                        .filter(|it| !rows.slots.contains(it)).collect();
                    // The naive twin: the places of all, run by run.
                    let first: Vec<u32> = first.into_iter().collect();
                    let runs: Vec<&[u32]> = first.chunk_by(|a, b| (b - a) as usize <= gap + 1).collect();
                    let spans = runs.iter().map(|it| (it[it.len() - 1] - it[0] + 1) as usize);
                    prop_assert_eq!((missing.rows, missing.reads), (spans.sum(), runs.len()));
                }
                let before = rows.stats();
                let expected_bytes = by.last().map_or(0, |it| it.rows * 12) as u64;
                let mut out = vec![f32::NAN; tokens.len() * 3];
                rows.gather(&tokens, &mut out).expect("in range");
                let expected: Vec<f32> = tokens.iter().map(|&it| it as f32).flat_map(|it| [it, it + 0.5, -it]).collect();
                prop_assert_eq!(out, expected);
                prop_assert_eq!(rows.stats().bytes_read - before.bytes_read, expected_bytes);
                let scratch = if gap == 0 { MAX_RUN * 12 } else { MAX_SPAN };
                prop_assert!(rows.resident_bytes() <= (rows.capacity() * 12 + scratch) as u64);
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
    fn who_has_no_time_left_reads_no_further() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (checkpoint, info) = table(dir.path());
        let mut rows = EmbeddingRows::new(checkpoint, info, 1.0);
        let left = Cell::new(2);
        let go_on = || left.replace(left.get() - 1) > 0;
        let mut out = [0.0; 12];
        // Three runs, and time for two.
        assert!(!rows.gather_while(&[30, 10, 20, 11], &mut out, &go_on).expect("in range"));
        assert_eq!((rows.stats().misses, out[3], out[6]), (3, 10.0, 20.0));
        left.set(1);
        assert!(rows.gather_while(&[30, 10, 20, 11], &mut out, &go_on).expect("in range"));
        assert_eq!((rows.stats().misses, out[0]), (4, 30.0));
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
