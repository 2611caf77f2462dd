//! Experts of a mixture that are in memory now: read when a router wants them, kept by how often it did.
//!
//! A token needs a few of many experts of every layer, and which ones is known only when the layer has begun. So no
//! window of layers helps, as [`TensorStream`](crate::TensorStream) has it: what helps is memory of the experts that
//! are wanted often. [`ExpertCache`] keeps as many as have room, hands out those of a layer that are there at once and
//! the others in the order in which they arrive, and reads on while the caller computes. Experts of the next layer may
//! be guessed; guesses are read when nothing is wanted.
//!
//! FlexInfer knows dense models alone. What is kept is decided by counts that fade: an expert's worth is the number of
//! its uses, each halved after [`HALF_LIFE`] passes, because the use of experts is skewed and shifts with the text
//! (Eliseev and Mazur 2023, §3.1, keep the latest; Tang et al. 2024, HOBBIT, §3.4, weigh by frequency).

mod state;

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use riddle_weights::{JoinedFiles, PAGE};

use crate::{
    Error, Layer, Result, StreamOptions, TensorSpec,
    buffer::SharedBuffer,
    file::{PageFiles, ends_early},
    tensors::{MAX_READ_BYTES, Part, page_bytes, parts_of},
};
use state::State;

/// Passes after which a use of an expert counts half. A pass of a prompt uses most experts, one of an answer few.
const HALF_LIFE: f64 = 64.0;

/// The matrices of all experts of a layer, one tensor behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertLayer {
    /// Tensors, each of which holds a part of every expert, all of one length.
    pub tensors: Layer,
    /// Experts.
    pub count: usize,
}

impl ExpertLayer {
    /// What of tensor `tensor` belongs to `expert`.
    fn part(&self, tensor: usize, expert: usize) -> TensorSpec {
        let TensorSpec { role, offset, bytes } = self.tensors[tensor];
        let bytes = bytes / self.count.max(1);
        // A lie stays one: opening compares ends with the file.
        TensorSpec { role, offset: offset.saturating_add((expert * bytes) as u64), bytes }
    }

    /// Bytes that an expert takes in memory, at most.
    fn expert_bytes(&self) -> usize {
        let bytes = |expert| {
            let parts = (0..self.tensors.len()).map(|it| page_bytes(&self.part(it, expert)));
            parts.sum::<usize>()
        };
        (0..self.count).map(bytes).max().unwrap_or(0)
    }
}

/// Bytes of memory for one expert: as many as the largest of all takes.
pub fn expert_bytes(layers: &[ExpertLayer]) -> u64 {
    layers.iter().map(ExpertLayer::expert_bytes).max().unwrap_or(0) as u64
}

/// What a cache of experts did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpertTotals {
    /// Experts that were wanted, each once for a layer of a pass.
    pub wanted: u64,
    /// Of these, experts that were in memory from before.
    pub found: u64,
    /// Experts that were read because they were guessed.
    pub guessed: u64,
    /// Of these, experts that were wanted.
    pub right: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// How long the caller waited.
    pub io_wait: Duration,
}

/// What the caller and the reading threads share.
struct Shared {
    file: PageFiles,
    layers: Vec<ExpertLayer>,
    /// Bytes of a slot.
    slot_bytes: usize,
    read_bytes: usize,
    memory: SharedBuffer,
    state: Mutex<State>,
    /// There may be something to read, or it is time to stop.
    work: Condvar,
    /// Something was read, or will not be.
    arrived: Condvar,
    bytes_read: AtomicU64,
}

/// The experts of a model's layers, as many of them in memory as have room.
pub struct ExpertCache {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The layer whose experts are wanted.
    layer: usize,
    /// Whether guesses are read.
    reads_ahead: bool,
    io_wait: Duration,
}

impl std::fmt::Debug for ExpertCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpertCache")
            .field("layers", &self.shared.layers.len())
            .field("capacity_bytes", &self.capacity_bytes())
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}

impl ExpertCache {
    /// Opens the files with room for `slots` experts, at least one and at most all. Nothing is read before it
    /// is wanted, and memory that was never filled is not taken.
    ///
    /// # Errors
    /// When a file can not be opened or is too short for an expert; when no thread can be started.
    pub fn open(
        files: impl Into<JoinedFiles>,
        layers: Vec<ExpertLayer>,
        slots: usize,
        options: StreamOptions,
    ) -> Result<ExpertCache> {
        let file = PageFiles::open(&files.into(), options.direct_io)?;
        check(&layers, &file)?;
        let slot_bytes = expert_bytes(&layers) as usize;
        let counts: Vec<usize> = layers.iter().map(|it| it.count).collect();
        let slots = slots.clamp(1, counts.iter().sum::<usize>().max(1));
        let shared = Shared {
            memory: SharedBuffer::new(slots * slot_bytes),
            file,
            slot_bytes,
            read_bytes: options.read_bytes.clamp(PAGE, MAX_READ_BYTES).next_multiple_of(PAGE),
            state: Mutex::new(State::new(&counts, slots, HALF_LIFE * layers.len() as f64)),
            layers,
            work: Condvar::new(),
            arrived: Condvar::new(),
            bytes_read: AtomicU64::new(0),
        };
        let mut cache = ExpertCache {
            shared: Arc::new(shared),
            threads: Vec::new(),
            layer: 0,
            reads_ahead: options.prefetch,
            io_wait: Duration::ZERO,
        };
        for number in 0..options.io_threads.max(1) {
            let shared = Arc::clone(&cache.shared);
            let thread = std::thread::Builder::new()
                .name(format!("experts-{number}"))
                .spawn(move || shared.serve());
            // If this one can not be started, the threads before it end when `cache` is dropped.
            cache.threads.push(thread.map_err(Error::Spawn)?);
        }
        Ok(cache)
    }

    /// Bytes of memory when every slot was filled.
    pub fn capacity_bytes(&self) -> u64 {
        self.shared.memory.len() as u64
    }

    /// Bytes of memory of the slots that were filled.
    pub fn resident_bytes(&self) -> u64 {
        let filled = self.shared.lock().filled();
        ((filled * self.shared.slot_bytes) as u64).min(self.capacity_bytes())
    }

    /// Whether there is a slot for every expert, so that each is read once.
    pub fn holds_all(&self) -> bool {
        self.shared.lock().holds_all()
    }

    /// What happened so far.
    pub fn totals(&self) -> ExpertTotals {
        let bytes_read = self.shared.bytes_read.load(Ordering::Relaxed);
        ExpertTotals { bytes_read, io_wait: self.io_wait, ..self.shared.lock().totals }
    }

    /// Wants these experts of a layer, each named once: [`ready`](Self::ready) gives them. What was wanted before and
    /// not asked for is forgotten.
    ///
    /// # Panics
    /// When there is no such layer or expert: the caller's bug.
    pub fn want(&mut self, layer: usize, experts: &[usize]) {
        self.layer = layer;
        let mut state = self.shared.lock();
        state.want(layer, experts);
        state.settle(&self.shared.parts());
        self.shared.work.notify_all();
    }

    /// Tells that these experts of a layer may be wanted next. They are read while nothing else is, into memory of
    /// experts that are worth little; nothing happens where nothing is to be read ahead.
    ///
    /// # Panics
    /// When there is no such layer or expert: the caller's bug.
    pub fn guess(&mut self, layer: usize, experts: &[usize]) {
        if self.reads_ahead {
            self.shared.lock().guess(layer, experts, &self.shared.parts());
            self.shared.work.notify_all();
        }
    }

    /// Reads experts into the memory that is empty, the same share of each layer, as long as `go_on` does not break:
    /// the first questions find more of them.
    ///
    /// # Errors
    /// When one can not be read, or `go_on` broke.
    pub fn fill(&mut self, go_on: &mut dyn FnMut() -> ControlFlow<()>) -> Result<()> {
        let mut state = self.shared.lock();
        state.fill(&self.shared.parts());
        self.shared.work.notify_all();
        loop {
            if state.gone {
                return Err(Error::ReaderGone);
            }
            let left = state.filling().map_err(|((layer, expert), tensor, source)| {
                self.shared.tensor_error(layer, expert, tensor, source)
            })?;
            if left == 0 {
                return Ok(());
            }
            if go_on().is_break() {
                return Err(Error::Stopped);
            }
            let waiting = self.shared.arrived.wait(state);
            state = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Those of the wanted experts that are in memory and were not given before; waits until there is one. Empty when
    /// all were given. Those that were given before go back.
    ///
    /// # Errors
    /// [`Error::Tensor`] when one can not be read: nothing is wanted any more, and wanting it again reads it again.
    pub fn ready(&mut self) -> Result<Vec<usize>> {
        let started = Instant::now();
        let mut state = self.shared.lock();
        state.release();
        let given = loop {
            if state.gone {
                return Err(Error::ReaderGone);
            }
            state.settle(&self.shared.parts());
            self.shared.work.notify_all();
            if let Some((expert, tensor, source)) = state.failure() {
                let shared = &self.shared;
                return Err(shared.tensor_error(self.layer, expert, tensor, source));
            }
            match state.give() {
                Some(given) => break given,
                None => {
                    let waiting = self.shared.arrived.wait(state);
                    state = waiting.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(state);
        self.io_wait += started.elapsed();
        Ok(given)
    }

    /// The tensors of an expert that [`ready`](Self::ready) has just given, as the file has them.
    ///
    /// # Panics
    /// When it has not: the caller's bug.
    pub fn tensors(&self, expert: usize) -> Vec<&[u8]> {
        let shared = &*self.shared;
        let slot = shared.lock().given(self.layer, expert);
        let slot = slot.expect("an expert that was given: this is a bug");
        let layer = &shared.layers[self.layer];
        let mut at = slot * shared.slot_bytes;
        let tensor = |number| {
            let spec = layer.part(number, expert);
            let first = at + (spec.offset % PAGE as u64) as usize;
            at += page_bytes(&spec);
            // SAFETY: the expert was given, so all of it was read, and its slot gets another one only after it went
            // back, for which `self` must be borrowed mutably.
            unsafe { shared.memory.part(first..first + spec.bytes) }
        };
        (0..layer.tensors.len()).map(tensor).collect()
    }
}

impl Drop for ExpertCache {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::warn!("a thread that reads experts panicked");
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics; a thread that did elsewhere has said so (`gone`).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reads of an expert.
    fn parts(&self) -> impl Fn(usize, usize) -> Vec<Part> + '_ {
        |layer, expert| {
            let layer = &self.layers[layer];
            let mut at = 0;
            let mut parts = Vec::new();
            for tensor in 0..layer.tensors.len() {
                let spec = layer.part(tensor, expert);
                parts.extend(parts_of(tensor, &spec, at, self.read_bytes));
                at += page_bytes(&spec);
            }
            parts
        }
    }

    /// What a reading thread does.
    fn serve(&self) {
        let _alarm = Alarm(self);
        while let Some((slot, part)) = self.next_part() {
            let at = slot * self.slot_bytes + part.at;
            // SAFETY: parts of an expert do not overlap, and this one was taken by this thread alone. The slot gets
            // another expert, or is given and read, only when none of its parts is pending.
            let room = unsafe { self.memory.part_mut(at..at + part.room) };
            let read = self.file.read(room, part.offset, part.wanted);
            let bytes = *read.as_ref().unwrap_or(&0) as u64;
            self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            if self.lock().finish(slot, part.tensor, read) {
                self.arrived.notify_all();
            }
        }
    }

    fn next_part(&self) -> Option<(usize, Part)> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(part) = state.take_part() {
                return Some(part);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tensor_error(
        &self,
        layer: usize,
        expert: usize,
        tensor: usize,
        source: std::io::Error,
    ) -> Error {
        let TensorSpec { role, offset, .. } = self.layers[layer].tensors[tensor];
        let path = self.file.path_at(offset).to_path_buf();
        Error::Expert { path, layer, expert, role, source }
    }
}

/// Nothing is allocated for experts that no file holds.
fn check(layers: &[ExpertLayer], file: &PageFiles) -> Result<()> {
    for (layer, experts) in layers.iter().enumerate() {
        for (tensor, spec) in experts.tensors.iter().enumerate() {
            if !file.holds(spec.offset, spec.bytes as u64) {
                let (path, source) = (file.path_at(spec.offset).to_path_buf(), ends_early());
                return Err(Error::Tensor { path, layer, tensor, role: spec.role, source });
            }
        }
    }
    Ok(())
}

/// Tells the caller when a reading thread panics, so that it does not wait forever.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().gone = true;
            self.0.arrived.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::fs::FileExt as _};

    use proptest::prelude::*;

    use super::*;
    use crate::TensorRole;

    /// A file of `bytes` numbers, no two pages of which are alike.
    fn file(bytes: usize) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("weights");
        let content: Vec<u8> = (0..bytes).map(|it| (it % 251 + it / 4096) as u8).collect();
        std::fs::write(&path, &content).expect("write");
        (dir, path, content)
    }

    /// Layers of three tensors of `count` experts, of which each has so many bytes of each.
    fn layers(sizes: &[(usize, usize)]) -> Vec<ExpertLayer> {
        let mut offset = 32;
        let mut layer = |&(count, bytes): &(usize, usize)| {
            let mut tensor = |role| {
                let spec = TensorSpec { role, offset, bytes: count * bytes };
                offset += (count * bytes).next_multiple_of(32) as u64;
                spec
            };
            let roles = [TensorRole::Gate, TensorRole::Up, TensorRole::Down];
            ExpertLayer { tensors: roles.map(&mut tensor).to_vec(), count }
        };
        sizes.iter().map(&mut layer).collect()
    }

    fn end(layers: &[ExpertLayer]) -> usize {
        let ends = layers.iter().flat_map(|it| &it.tensors);
        ends.map(|it| it.offset as usize + it.bytes).max().unwrap_or(0)
    }

    /// All wanted experts, in the order in which they came; each is compared with the file.
    fn take(cache: &mut ExpertCache, layers: &[ExpertLayer], content: &[u8]) -> Vec<usize> {
        let mut taken = Vec::new();
        loop {
            let ready = cache.ready().expect("readable");
            if ready.is_empty() {
                return taken;
            }
            for &expert in &ready {
                let tensors = cache.tensors(expert);
                assert_eq!(tensors.len(), layers[cache.layer].tensors.len());
                for (number, tensor) in tensors.into_iter().enumerate() {
                    let spec = layers[cache.layer].part(number, expert);
                    let start = spec.offset as usize;
                    assert!(tensor == &content[start..start + spec.bytes], "{expert}.{number}");
                }
            }
            taken.extend(ready);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Any layers, any memory, any guesses, runs that end in the middle: what is given is the file.
        #[test]
        fn gives_what_is_wanted_whatever_is_in_memory(
            sizes in prop::collection::vec((1usize..9, 1usize..9000), 1..5),
            slots in 0usize..20, io_threads in 0usize..4, read_bytes in 0usize..20_000,
            prefetch in any::<bool>(), direct_io in any::<bool>(),
            visits in prop::collection::vec((0usize..5, any::<u8>(), any::<u8>(), 0u8..6), 1..40),
        ) {
            let layers = layers(&sizes);
            let (_dir, path, content) = file(end(&layers));
            let options = StreamOptions { io_threads, read_bytes, prefetch, direct_io, window: 1 };
            let mut cache = ExpertCache::open(&path, layers.clone(), slots, options).expect("valid");
            let all: usize = sizes.iter().map(|it| it.0).sum();
            prop_assert_eq!(cache.holds_all(), slots.max(1) >= all);
            let some = |layer: usize, bits: u8| -> Vec<usize> {
                (0..layers[layer].count).filter(|it| bits >> (it % 8) & 1 == 1).collect()
            };
            for (layer, wanted, guessed, stop) in visits {
                let layer = layer % layers.len();
                let wanted = some(layer, wanted);
                cache.want(layer, &wanted);
                let next = (layer + 1) % layers.len();
                cache.guess(next, &some(next, guessed));
                if stop == 0 {
                    // Somebody stopped the run.
                    cache.ready().expect("readable");
                    continue;
                }
                let mut taken = take(&mut cache, &layers, &content);
                taken.sort_unstable();
                prop_assert_eq!(taken, wanted);
                prop_assert!(cache.resident_bytes() <= cache.capacity_bytes());
            }
            let totals = cache.totals();
            prop_assert!(totals.found + totals.right <= totals.wanted);
            prop_assert!(prefetch || totals.guessed == 0);
        }
    }

    #[test]
    fn with_room_for_all_each_is_read_once() {
        let layers = layers(&[(4, 5000), (4, 5000)]);
        let (_dir, path, content) = file(end(&layers));
        let options = StreamOptions::default();
        let mut cache = ExpertCache::open(&path, layers.clone(), 8, options).expect("valid");
        assert_eq!((cache.resident_bytes(), cache.totals()), (0, ExpertTotals::default()));
        for _ in 0..3 {
            for layer in 0..2 {
                cache.want(layer, &[0, 2, 3]);
                assert_eq!(take(&mut cache, &layers, &content).len(), 3);
            }
        }
        let totals = cache.totals();
        assert_eq!((totals.wanted, totals.found), (18, 12));
        // Three tensors of each of six experts, each on two or three pages of its own.
        let pages = totals.bytes_read as usize / PAGE;
        assert!((6 * 3 * 2 - 1..=6 * 3 * 3).contains(&pages), "{pages}");
        assert!(cache.resident_bytes() < cache.capacity_bytes());
    }

    #[test]
    fn empty_memory_is_filled_and_what_is_wanted_takes_its_place() {
        let layers = layers(&[(5, 5000), (5, 5000)]);
        let (_dir, path, content) = file(end(&layers));
        for slots in [4, 10] {
            let options = StreamOptions::default();
            let mut cache =
                ExpertCache::open(&path, layers.clone(), slots, options).expect("valid");
            let mut asked = 0;
            let mut stop = || {
                asked += 1;
                if asked > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let stopped = cache.fill(&mut stop);
            assert!(matches!(stopped, Err(Error::Stopped)));
            cache.fill(&mut || ControlFlow::Continue(())).expect("readable");
            assert!(cache.resident_bytes() + PAGE as u64 > cache.capacity_bytes());
            cache.want(1, &[4]);
            assert_eq!(take(&mut cache, &layers, &content), [4]);
            // The first ones of both layers; one made room for what was wanted.
            cache.want(0, &[0, 1]);
            assert_eq!(take(&mut cache, &layers, &content).len(), 2);
            cache.want(1, &[0, 1, 4]);
            assert_eq!(take(&mut cache, &layers, &content).len(), 3);
            let totals = cache.totals();
            assert!(totals.found >= if slots == 10 { 5 } else { 3 }, "{totals:?}");
        }
    }

    #[test]
    fn what_is_used_often_stays_and_old_uses_fade() {
        let layers = layers(&[(6, 4096)]);
        let (_dir, path, content) = file(end(&layers));
        let options = StreamOptions::default();
        let mut cache = ExpertCache::open(&path, layers.clone(), 2, options).expect("valid");
        let mut use_of = |experts: &[usize]| {
            let before = cache.totals().found;
            for &expert in experts {
                cache.want(0, &[expert]);
                take(&mut cache, &layers, &content);
            }
            cache.totals().found - before
        };
        // The first one is wanted all the time, the others once each: it is always found.
        assert_eq!(use_of(&[0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]), 7);
        // Long after that it is nobody any more.
        use_of(&[1; 300]);
        use_of(&[2; 300]);
        assert_eq!(use_of(&[0]), 0);
    }

    #[test]
    fn guesses_are_read_unasked_and_give_way() {
        let layers = layers(&[(8, 4096), (8, 4096)]);
        let (_dir, path, content) = file(end(&layers));
        let options = StreamOptions::default();
        let mut cache = ExpertCache::open(&path, layers.clone(), 8, options).expect("valid");
        cache.want(0, &[0, 1]);
        cache.guess(1, &[3, 4]);
        take(&mut cache, &layers, &content);
        // Three tensors of each of four experts, each on two pages.
        while cache.totals().bytes_read < 4 * 3 * 2 * PAGE as u64 {
            std::thread::yield_now();
        }
        cache.want(1, &[4, 5]);
        assert_eq!(take(&mut cache, &layers, &content).len(), 2);
        let totals = cache.totals();
        assert_eq!((totals.guessed, totals.right, totals.found), (2, 1, 0));
    }

    #[test]
    fn a_file_cut_off_meanwhile_is_an_error_until_it_is_whole_again() {
        for direct_io in [true, false] {
            let layers = layers(&[(3, 20_000), (3, 20_000)]);
            let (_dir, path, content) = file(end(&layers));
            let options = StreamOptions { direct_io, read_bytes: PAGE, ..StreamOptions::default() };
            let mut cache = ExpertCache::open(&path, layers.clone(), 2, options).expect("valid");
            let writer = File::options().write(true).open(&path).expect("open");
            for _ in 0..3 {
                writer.set_len(190_000).expect("cut");
                // There is memory for two of them.
                cache.want(1, &[0, 1, 2]);
                let error = loop {
                    match cache.ready() {
                        Ok(ready) => assert!(!ready.is_empty(), "an expert was forgotten"),
                        Err(error) => break error,
                    }
                };
                assert!(matches!(error, Error::Expert { layer: 1, .. }), "{error}");
                assert!(cache.ready().expect("nothing is wanted").is_empty());
                cache.want(0, &[0, 1, 2]);
                assert_eq!(take(&mut cache, &layers, &content).len(), 3);
                writer.write_all_at(&content, 0).expect("mend");
                cache.want(1, &[0, 1, 2]);
                assert_eq!(take(&mut cache, &layers, &content).len(), 3);
            }
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_told_before_memory_is_taken() {
        let mut layers = layers(&[(3, 20_000)]);
        let (_dir, path, _) = file(end(&layers));
        layers[0].tensors[2].bytes += 3;
        let open = |layers: &[ExpertLayer]| {
            ExpertCache::open(&path, layers.to_vec(), 3, StreamOptions::default())
        };
        let error = open(&layers).expect_err("too short").to_string();
        assert!(error.contains("layer 1, tensor 3 (down projection)"), "{error}");
        layers[0].tensors[2] = TensorSpec { offset: u64::MAX, ..layers[0].tensors[2] };
        assert!(open(&layers).is_err());
    }
}
