//! Shards on their way: a thread that reads what a plan wants of each layer, and the buffer that keeps some of it
//! between requests (STI, §3.1 and §5.5).
//!
//! A layer is one job: its shards of neighboring slices and equal bits are one read. What nobody has begun to read can
//! be planned anew while others compute. The thread compares checksums and leaves widening to those who compute, so
//! that the next read is not kept waiting.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use riddle_weights::{PAGE, ShardId, ShardStore};

use crate::{Error, Result, buffer::AlignedBuffer};

/// Layers that have been read and that nobody has taken: the one that is next, and the one after it.
const READ_AHEAD: usize = 2;

/// A storage device that takes as long as it is told, one read after the other, for measurements: the real one is
/// hidden behind its page cache or another load. Nothing is slowed down without one.
#[derive(Debug)]
pub struct RatedDevice {
    latency: Duration,
    bytes_per_second: f64,
    free: Mutex<Instant>,
}

impl RatedDevice {
    /// A device that takes `latency` for each read, and then so many bytes a second.
    pub fn new(latency: Duration, bytes_per_second: f64) -> RatedDevice {
        RatedDevice { latency, bytes_per_second, free: Mutex::new(Instant::now()) }
    }

    /// Milliseconds of a read without others in the queue.
    pub fn ms(&self, bytes: usize) -> f64 {
        self.latency.as_secs_f64() * 1e3 + bytes as f64 / self.bytes_per_second * 1e3
    }

    /// Waits until a read that was begun at `started` would be done, behind those that were before it.
    pub fn wait(&self, started: Instant, bytes: usize) {
        let took = Duration::from_secs_f64(self.ms(bytes) / 1e3);
        let until = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(started) + took;
            *free
        };
        // Sleeping is late by tens of microseconds, which would be a tenth of a read.
        const SPIN: Duration = Duration::from_micros(120);
        if let Some(left) = until.checked_duration_since(Instant::now())
            && left > SPIN
        {
            std::thread::sleep(left - SPIN);
        }
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// A shard in memory.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Which.
    pub id: ShardId,
    /// As the store has it.
    pub bytes: Arc<[u8]>,
}

/// The shards of a layer that a plan has read.
#[derive(Debug, Default)]
pub struct LoadedLayer {
    /// In the order in which they were asked for.
    pub shards: Vec<Shard>,
    /// Bytes read.
    pub bytes_read: u64,
    /// How long reading took.
    pub read_time: Duration,
    /// How long the caller waited.
    pub io_wait: Duration,
}

/// Reads layers' shards ahead of who computes.
pub struct ShardReader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    store: Arc<ShardStore>,
    device: Option<Arc<RatedDevice>>,
    state: Mutex<State>,
    work: Condvar,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// Layers that nobody has begun to read.
    jobs: VecDeque<Job>,
    /// The run to which they belong: what another one has left behind is not taken for its.
    run: u64,
    reading: Option<usize>,
    done: VecDeque<(usize, Result<LoadedLayer>)>,
    stop: bool,
    gone: bool,
}

struct Job {
    layer: usize,
    shards: Vec<ShardId>,
}

impl std::fmt::Debug for ShardReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardReader")
            .field("path", &self.shared.store.path())
            .finish_non_exhaustive()
    }
}

impl ShardReader {
    /// A thread that reads from `store`, as fast as `device` lets it.
    ///
    /// # Errors
    /// When it can not be started.
    pub fn new(store: Arc<ShardStore>, device: Option<Arc<RatedDevice>>) -> Result<ShardReader> {
        let shared = Arc::new(Shared {
            store,
            device,
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            arrived: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("shard-reader".to_owned())
            .spawn(move || served.serve())
            .map_err(Error::Spawn)?;
        Ok(ShardReader { shared, thread: Some(thread) })
    }

    /// Begins a run: what each layer, from 0, wants to be read. What the run before has asked for is forgotten.
    pub fn begin(&self, layers: Vec<Vec<ShardId>>) {
        let mut state = self.shared.lock();
        state.run += 1;
        state.done.clear();
        state.jobs =
            layers.into_iter().enumerate().map(|(layer, shards)| Job { layer, shards }).collect();
        self.shared.work.notify_one();
    }

    /// The first layer that nobody has begun to read; the number of layers if there is none, as `layers` says.
    pub fn first_free(&self, layers: usize) -> usize {
        self.shared.lock().jobs.front().map_or(layers, |it| it.layer)
    }

    /// Asks for other shards of the layers from `first` on, none of which has been begun: those that have, stay.
    /// Returns whether that was still so.
    pub fn replace(&self, first: usize, layers: Vec<Vec<ShardId>>) -> bool {
        let mut state = self.shared.lock();
        // A run that was planned to its end may be made deeper: there is nothing to replace then.
        if state.jobs.front().is_some_and(|it| it.layer != first) {
            return false;
        }
        let begun = state.reading.is_some_and(|it| it >= first)
            || state.done.iter().any(|it| it.0 >= first);
        if begun {
            return false;
        }
        let jobs = layers.into_iter().zip(first..);
        state.jobs = jobs.map(|(shards, layer)| Job { layer, shards }).collect();
        self.shared.work.notify_one();
        true
    }

    /// Waits for a layer that was asked for. Layers are taken in ascending order.
    ///
    /// # Errors
    /// When it can not be read, or was not asked for.
    pub fn take(&self, layer: usize) -> Result<LoadedLayer> {
        let started = Instant::now();
        let mut state = self.shared.lock();
        loop {
            if let Some((number, loaded)) = state.done.pop_front() {
                self.shared.work.notify_one();
                if number == layer {
                    let mut loaded = loaded?;
                    loaded.io_wait = started.elapsed();
                    return Ok(loaded);
                }
                continue;
            }
            let coming =
                state.reading == Some(layer) || state.jobs.iter().any(|it| it.layer == layer);
            if state.gone || !coming {
                return Err(Error::ReaderGone);
            }
            state = self.shared.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a run: nothing more is read for it.
    pub fn end(&self) {
        self.begin(Vec::new());
    }
}

impl Shared {
    fn serve(&self) {
        let _alarm = Alarm(self);
        let mut room = AlignedBuffer::new(0);
        loop {
            let (job, run) = {
                let mut state = self.lock();
                loop {
                    if state.stop {
                        return;
                    }
                    if state.done.len() < READ_AHEAD
                        && let Some(job) = state.jobs.pop_front()
                    {
                        state.reading = Some(job.layer);
                        break (job, state.run);
                    }
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let loaded = self.read(&job.shards, &mut room);
            let mut state = self.lock();
            state.reading = None;
            if state.run == run {
                let loaded = loaded.map_err(|source| Error::Layer { layer: job.layer, source });
                state.done.push_back((job.layer, loaded));
            }
            self.arrived.notify_all();
        }
    }

    fn read(
        &self,
        shards: &[ShardId],
        room: &mut AlignedBuffer,
    ) -> riddle_weights::Result<LoadedLayer> {
        let started = Instant::now();
        let mut loaded = LoadedLayer::default();
        let mut rest = shards;
        while !rest.is_empty() {
            let run = 1 + rest.windows(2).take_while(|it| self.follow(it[0], it[1])).count();
            let (now, later) = rest.split_at(run);
            loaded.bytes_read += self.read_run(now, room, &mut loaded.shards)?;
            rest = later;
        }
        loaded.read_time = started.elapsed();
        Ok(loaded)
    }

    /// Whether the second lies behind the first, so that one read gets both.
    fn follow(&self, first: ShardId, second: ShardId) -> bool {
        let next = ShardId { slice: first.slice + 1, ..first };
        second == next && self.store.range(second).start >= self.store.range(first).end
    }

    fn read_run(
        &self,
        shards: &[ShardId],
        room: &mut AlignedBuffer,
        out: &mut Vec<Shard>,
    ) -> riddle_weights::Result<u64> {
        let (Some(first), Some(last)) = (shards.first(), shards.last()) else { return Ok(0) };
        let started = Instant::now();
        let (mut start, mut end) = (self.store.range(*first).start, self.store.range(*last).end);
        if self.store.is_direct() {
            let page = PAGE as u64;
            // The header's place is a whole page, so what is rounded up is still in the file.
            (start, end) = (start / page * page, end.next_multiple_of(page));
        }
        // Shards are checked to lie in a file whose parts memory can hold.
        let bytes = (end - start) as usize;
        if room.as_slice().len() < bytes {
            *room = AlignedBuffer::new(bytes);
        }
        let raw = &mut room.as_mut_slice()[..bytes];
        self.store.read_at(start, raw)?;
        for &id in shards {
            let range = self.store.range(id);
            let own = &raw[(range.start - start) as usize..(range.end - start) as usize];
            self.store.check(id, own)?;
            out.push(Shard { id, bytes: own.into() });
        }
        if let Some(device) = &self.device {
            device.wait(started, bytes);
        }
        Ok(bytes as u64)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the caller when the reader panics, so that it does not wait forever.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().gone = true;
            self.0.arrived.notify_all();
        }
    }
}

impl Drop for ShardReader {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the reader of shards panicked");
        }
    }
}

/// Shards that stay in memory between requests: of each layer and slice one, and of those that are too many the ones of
/// the upper layers go first, because the lower ones are needed before anything else could have been read (§5.5).
#[derive(Debug, Default)]
pub struct PreloadBuffer {
    shards: BTreeMap<(usize, usize), Shard>,
    bytes: u64,
}

impl PreloadBuffer {
    /// Bytes of shards in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The shard of a layer and slice, of whatever bits.
    pub fn get(&self, layer: usize, slice: usize) -> Option<&Shard> {
        self.shards.get(&(layer, slice))
    }

    /// Keeps a shard; one of fewer bits goes.
    pub fn put(&mut self, shard: Shard) {
        let place = (shard.id.layer, shard.id.slice);
        if self.shards.get(&place).is_some_and(|it| it.id.fidelity >= shard.id.fidelity) {
            return;
        }
        self.bytes += shard.bytes.len() as u64;
        if let Some(old) = self.shards.insert(place, shard) {
            self.bytes -= old.bytes.len() as u64;
        }
    }

    /// Lets go what is too much, from the last slice of the last layer on.
    pub fn shrink_to(&mut self, bytes: u64) {
        while self.bytes > bytes
            && let Some((_, gone)) = self.shards.pop_last()
        {
            self.bytes -= gone.bytes.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_weights::{Centroids, Fidelity, ShardNumbers, ShardShape, ShardWriter};

    use super::*;

    const SHAPE: ShardShape =
        ShardShape { numbers: ShardNumbers::Int8, layers: 3, slices: 2, hidden: 32, inner: 64 };

    /// A store whose shard number i is full of bytes i.
    fn store(dir: &std::path::Path) -> Arc<ShardStore> {
        let path = dir.join("model.shards");
        let mut writer = ShardWriter::create(&path, SHAPE, "", Centroids::Lloyd).expect("a file");
        for _ in 0..SHAPE.layers {
            writer.small(&vec![0; SHAPE.small_bytes()], vec![0, 1]).expect("written");
        }
        let mut number = 0;
        for _ in 0..SHAPE.layers {
            for fidelity in SHAPE.fidelities() {
                for _ in 0..SHAPE.slices {
                    let raw = vec![number; SHAPE.weight_bytes(fidelity)];
                    writer.shard(&raw).expect("written");
                    number += 1;
                }
            }
        }
        writer.finish().expect("complete");
        Arc::new(ShardStore::open(&path, "", false).expect("valid"))
    }

    fn id(layer: usize, slice: usize, bits: u8) -> ShardId {
        ShardId { layer, slice, fidelity: Fidelity::try_from(bits).expect("a width") }
    }

    fn value(id: ShardId) -> u8 {
        let width = SHAPE.fidelities().position(|it| it == id.fidelity).expect("a width");
        let count = SHAPE.fidelities().count();
        ((id.layer * count + width) * SHAPE.slices + id.slice) as u8
    }

    fn same(loaded: &LoadedLayer, expected: &[ShardId]) {
        let ids: Vec<ShardId> = loaded.shards.iter().map(|it| it.id).collect();
        assert_eq!(ids, expected);
        for shard in &loaded.shards {
            assert!(shard.bytes.iter().all(|it| *it == value(shard.id)), "{:?}", shard.id);
        }
    }

    #[test]
    fn a_run_gets_what_it_asks_for_and_can_change_its_mind() {
        let dir = tempfile::tempdir().expect("temp dir");
        let reader = ShardReader::new(store(dir.path()), None).expect("a thread");
        let plan = |bits: u8| vec![id(0, 0, bits), id(0, 1, bits)];
        let later = |layer: usize, bits: u8| vec![id(layer, 0, bits), id(layer, 1, 2)];
        for round in 0..20 {
            reader.begin(vec![plan(2), later(1, 3), later(2, 4)]);
            same(&reader.take(0).expect("read"), &plan(2));
            let free = reader.first_free(3);
            let changed =
                free < 3 && reader.replace(free, (free..3).map(|it| later(it, 8)).collect());
            for layer in 1..3 {
                let loaded = reader.take(layer).expect("read");
                let wanted =
                    later(layer, if changed && layer >= free { 8 } else { layer as u8 + 2 });
                same(&loaded, &wanted);
            }
            // One that is left in the middle leaves nothing to the next.
            if round % 2 == 0 {
                reader.begin(vec![plan(6), later(1, 6)]);
            }
            if round % 3 == 0 {
                reader.end();
            }
        }
        assert!(reader.take(2).is_err(), "nobody has asked for it");
    }

    #[test]
    fn neighbors_are_one_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let store = store(dir.path());
        let device = Arc::new(RatedDevice::new(Duration::from_millis(20), 1e12));
        let reader = ShardReader::new(store, Some(device)).expect("a thread");
        reader.begin(vec![vec![id(0, 0, 2), id(0, 1, 2)], vec![id(1, 0, 2), id(1, 1, 3)]]);
        let one = reader.take(0).expect("read").read_time;
        let two = reader.take(1).expect("read").read_time;
        assert!(
            one >= Duration::from_millis(20) && two >= Duration::from_millis(40),
            "{one:?} {two:?}"
        );
    }

    #[test]
    fn a_damaged_shard_is_the_layers_error() {
        let dir = tempfile::tempdir().expect("temp dir");
        let good = store(dir.path());
        let at = good.range(id(1, 0, 2)).start as usize;
        let mut bytes = std::fs::read(good.path()).expect("read");
        bytes[at] ^= 1;
        let path = dir.path().join("damaged.shards");
        std::fs::write(&path, bytes).expect("written");
        let damaged = Arc::new(ShardStore::open(&path, "", false).expect("a sound header"));
        let reader = ShardReader::new(damaged, None).expect("a thread");
        reader.begin(vec![vec![id(0, 0, 2)], vec![id(1, 0, 2)]]);
        reader.take(0).expect("that one is sound");
        let error = reader.take(1).expect_err("damaged");
        assert!(error.to_string().contains("layer 2") && error.to_string().contains("checksum"));
        // The next run is served all the same.
        reader.begin(vec![vec![id(0, 1, 2)]]);
        same(&reader.take(0).expect("sound"), &[id(0, 1, 2)]);
    }

    proptest! {
        #[test]
        fn the_buffer_keeps_what_is_lowest_and_counts_it(
            puts in prop::collection::vec((0usize..4, 0usize..4, prop::sample::select(vec![2u8, 3, 8])), 0..40),
            limit in 0u64..400,
        ) {
            let mut buffer = PreloadBuffer::default();
            for &(layer, slice, bits) in &puts {
                let bytes = vec![bits; 10 * usize::from(bits)].into();
                buffer.put(Shard { id: id(layer, slice, bits), bytes });
            }
            let best = |layer, slice| {
                puts.iter().filter(|it| (it.0, it.1) == (layer, slice)).map(|it| it.2).max()
            };
            let all: Vec<(usize, usize)> = (0..16).map(|it| (it / 4, it % 4)).collect();
            let bits = |buffer: &PreloadBuffer, at: &(usize, usize)| {
                buffer.get(at.0, at.1).map(|it| u8::from(it.id.fidelity))
            };
            for at in &all {
                prop_assert_eq!(bits(&buffer, at), best(at.0, at.1));
            }
            buffer.shrink_to(limit);
            let sum: u64 = all.iter().filter_map(|it| bits(&buffer, it)).map(|it| 10 * u64::from(it)).sum();
            prop_assert_eq!(buffer.bytes(), sum);
            prop_assert!(sum <= limit);
            // Nothing stays above something that has gone.
            let there: Vec<bool> = all.iter().filter(|it| best(it.0, it.1).is_some())
                .map(|it| bits(&buffer, it).is_some()).collect();
            prop_assert!(there.is_sorted_by(|a, b| a >= b), "{there:?}");
        }
    }
}
