//! The layer window: the layer that computes, and the ones being read (GRATING §4.2).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use riddle_weights::{LayeredCheckpoint, PAGE};

use crate::{Error, Result, buffer::AlignedBuffer};

/// Layers of a window that move: the one that computes and the one that is read.
const MOVING: usize = 2;

/// Layers that can be read one by one.
pub trait LayerSource: Send + Sync + 'static {
    /// Number of layers.
    fn num_layers(&self) -> usize;

    /// Bytes of layer `layer` (from 0) in memory.
    fn layer_bytes(&self, layer: usize) -> usize;

    /// Reads layer `layer` into `out`; returns the bytes read from disk. `out` begins at a page and holds
    /// whole pages, at least the layer's.
    ///
    /// # Errors
    /// When it can not be read.
    fn read_layer(&self, layer: usize, out: &mut [u8]) -> riddle_weights::Result<u64>;
}

impl LayerSource for LayeredCheckpoint {
    fn num_layers(&self) -> usize {
        self.layers().len()
    }

    fn layer_bytes(&self, layer: usize) -> usize {
        self.layers()[layer].bytes()
    }

    fn read_layer(&self, layer: usize, out: &mut [u8]) -> riddle_weights::Result<u64> {
        LayeredCheckpoint::read_layer(self, layer, out)
    }
}

/// A layer in memory.
#[derive(Debug)]
pub struct LayerView<'a> {
    /// Its weights, as its source lays them out.
    pub weights: &'a [u8],
    /// Bytes read from disk for it; 0 when it was still there from before.
    pub bytes_read: u64,
    /// How long the caller waited for it.
    pub io_wait: Duration,
}

/// A window over a model's layers: at most `depth` of them in memory, the next ones on their way.
///
/// Depth 2 is the paper's: one computes while one is read. A depth of all layers keeps the model
/// resident: each layer is read once. With a depth of 1 a layer is read when the one before has been computed.
/// Between two and all, two move and the others stay: a window that moves as a whole would keep nothing of what the
/// next request begins with. Those that stay are spread over the model, so that there is time to read between them,
/// and are the first of one order: a smaller window keeps nothing that a larger one does not.
pub struct LayerWindow {
    shared: Arc<Shared>,
    depth: usize,
    resident: HashMap<usize, Resident>,
    reader: Option<JoinHandle<()>>,
}

/// What the caller and the reading thread share.
struct Shared {
    source: Arc<dyn LayerSource>,
    /// Bytes of a buffer.
    largest: usize,
    state: Mutex<State>,
    /// There may be something to read, or it is time to stop.
    work: Condvar,
    /// A layer is there or will not be, or a buffer has come back.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// Layers that belong into the window, nearest first: never more than `depth`.
    wanted: Vec<usize>,
    /// Those of them that are still to be read.
    missing: VecDeque<usize>,
    free: Vec<Room>,
    /// What is being read, and whether its buffer is read into for the first time.
    reading: Option<(usize, bool)>,
    arrived: Vec<(usize, Arrival)>,
    depth: usize,
    /// Buffers that there are.
    allocated: usize,
    /// Those that have been read into: a page takes memory when it is first written.
    touched: usize,
    stop: bool,
    /// The thread panicked.
    gone: bool,
}

/// Memory for a layer.
struct Room {
    buffer: AlignedBuffer,
    touched: bool,
}

/// A layer that was read, or why it was not.
type Arrival = riddle_weights::Result<Resident>;

struct Resident {
    room: Room,
    /// Bytes read for it, until they are reported once.
    unreported_bytes: u64,
}

impl std::fmt::Debug for LayerWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerWindow")
            .field("depth", &self.depth)
            .field("resident_bytes", &self.resident_bytes())
            .finish_non_exhaustive()
    }
}

impl LayerWindow {
    /// A window of `depth` layers (clamped to 1…all) over `source`. Buffers are made when first needed.
    ///
    /// # Errors
    /// When the reader thread can not be started.
    pub fn new(source: Arc<dyn LayerSource>, depth: usize) -> Result<LayerWindow> {
        let depth = depth.clamp(1, source.num_layers().max(1));
        let shared = Arc::new(Shared {
            largest: largest_layer(&*source),
            source,
            state: Mutex::new(State { depth, ..State::default() }),
            work: Condvar::new(),
            arrived: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let reader = std::thread::Builder::new()
            .name("layer-reader".to_owned())
            .spawn(move || served.serve())
            .map_err(Error::Spawn)?;
        Ok(LayerWindow { shared, depth, resident: HashMap::new(), reader: Some(reader) })
    }

    /// Layers in memory at most.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Bytes of layer weights held now: never more than depth × the largest layer.
    pub fn resident_bytes(&self) -> u64 {
        (self.shared.lock().allocated * self.shared.largest) as u64
    }

    /// Looks at something while no buffer is read into for the first time, which is when it takes memory: what the
    /// system counts then belongs to the bytes that `look` is given. A read that is under way is waited for, and none
    /// is begun.
    pub fn at_rest<T>(&self, look: impl FnOnce(u64) -> T) -> T {
        let mut state = self.shared.lock();
        while state.reading.is_some_and(|(_, new)| new) && !state.gone {
            state = self.shared.wait(state);
        }
        look((state.touched * self.shared.largest) as u64)
    }

    /// Bytes that a layer's buffer takes: the largest layer in whole pages.
    pub fn layer_bytes(&self) -> u64 {
        self.shared.largest as u64
    }

    /// Changes how many layers may be in memory, clamped to 1…all, and moves the window to the first one. Of a smaller
    /// window the buffers that are too many are given back at once.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn set_depth(&mut self, depth: usize) -> Result<()> {
        let depth = depth.clamp(1, self.num_layers().max(1));
        if depth == self.depth {
            return Ok(());
        }
        self.depth = depth;
        self.shared.lock().depth = depth;
        self.prefetch()?;
        let mut state = self.shared.lock();
        while state.allocated > depth {
            if let Some(room) = state.free.pop() {
                state.allocated -= 1;
                state.touched -= usize::from(room.touched);
            } else if state.gone {
                return Err(Error::ReaderGone);
            } else {
                // What belongs into the window has its buffers; the one too many is being read into.
                state = self.shared.wait(state);
            }
        }
        Ok(())
    }

    /// Moves the window to the first layer and does not wait for it: those who tokenize have it when they are done, and
    /// after a run that ended early the next one does. What is not wanted any more is not read, but for the layer that
    /// the reader is at.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn prefetch(&mut self) -> Result<()> {
        if self.num_layers() > 0 { self.move_to(0) } else { Ok(()) }
    }

    /// Moves the window to `layer` (from 0) and waits until it is there. The layers after it are read
    /// meanwhile, and after the last one the first, for the next request. Any order is legal; the
    /// ascending one is fast.
    ///
    /// # Errors
    /// When the layer can not be read; the window stays usable.
    ///
    /// # Panics
    /// When there is no such layer: the caller's bug.
    pub fn advance_to(&mut self, layer: usize) -> Result<LayerView<'_>> {
        assert!(layer < self.num_layers(), "no layer {layer}");
        let started = Instant::now();
        self.move_to(layer)?;
        self.wait_for(layer)?;
        let io_wait = started.elapsed();
        let bytes = self.shared.source.layer_bytes(layer);
        let resident = self.resident.get_mut(&layer).ok_or(Error::ReaderGone)?;
        Ok(LayerView {
            bytes_read: std::mem::take(&mut resident.unreported_bytes),
            weights: &resident.room.buffer.as_slice()[..bytes],
            io_wait,
        })
    }

    fn num_layers(&self) -> usize {
        self.shared.source.num_layers()
    }

    /// Layers that belong into the window when it stands at `layer`, nearest first.
    fn wanted(&self, layer: usize) -> Vec<usize> {
        let layers = self.num_layers();
        let ring = (0..layers).map(|ahead| (layer + ahead) % layers);
        let stay = if self.depth < layers { self.depth.saturating_sub(MOVING) } else { 0 };
        if stay == 0 {
            return ring.take(self.depth).collect();
        }
        let mut order: Vec<usize> = (0..layers).collect();
        // Bits backwards, van der Corput's sequence: 0, 4, 2, 6, 1, … of eight.
        order.sort_by_key(|it| it.reverse_bits());
        let stay = &order[..stay];
        let mut moving = 0;
        ring.filter(|it| {
            let stays = stay.contains(it);
            moving += usize::from(!stays);
            stays || moving <= MOVING
        })
        .collect()
    }

    /// Frees what is outside the window at `layer` and has the reader get what is missing.
    fn move_to(&mut self, layer: usize) -> Result<()> {
        let wanted = self.wanted(layer);
        let mut state = self.shared.lock();
        if state.gone {
            return Err(Error::ReaderGone);
        }
        for (layer, arrival) in std::mem::take(&mut state.arrived) {
            // A read that failed some time ago says nothing about now: the layer is asked for again.
            self.resident.extend(arrival.ok().map(|it| (layer, it)));
        }
        let stale = self.resident.extract_if(|it, _| !wanted.contains(it));
        state.free.extend(stale.map(|(_, it)| it.room));
        let reading = state.reading.map(|it| it.0);
        let missing = |it: &usize| !self.resident.contains_key(it) && reading != Some(*it);
        state.missing = wanted.iter().copied().filter(missing).collect();
        state.wanted = wanted;
        while state.allocated < self.depth && state.free.len() < state.missing.len() {
            state.allocated += 1;
            let buffer = AlignedBuffer::new(self.shared.largest);
            state.free.push(Room { buffer, touched: false });
        }
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits for a layer to which the window has been moved.
    fn wait_for(&mut self, wanted: usize) -> Result<()> {
        let mut state = self.shared.lock();
        while !self.resident.contains_key(&wanted) {
            if let Some((layer, arrival)) = state.arrived.pop() {
                match arrival {
                    Ok(resident) => {
                        self.resident.insert(layer, resident);
                    }
                    Err(source) if layer == wanted => return Err(Error::Layer { layer, source }),
                    // It will be tried again when it is needed.
                    Err(_) => {}
                }
            } else if state.gone {
                return Err(Error::ReaderGone);
            } else {
                state = self.shared.wait(state);
            }
        }
        Ok(())
    }
}

impl Shared {
    /// What the reading thread does.
    fn serve(&self) {
        let _alarm = Alarm(self);
        while let Some((layer, mut room)) = self.next() {
            let bytes = self.source.read_layer(layer, room.buffer.as_mut_slice());
            self.finish(layer, room, bytes);
        }
    }

    /// The nearest missing layer and a buffer for it; none when it is time to stop.
    fn next(&self) -> Option<(usize, Room)> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(job) = state.take() {
                return Some(job);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, layer: usize, mut room: Room, bytes: riddle_weights::Result<u64>) {
        let mut state = self.lock();
        state.reading = None;
        state.touched += usize::from(!std::mem::replace(&mut room.touched, true));
        match bytes {
            _ if !state.wanted.contains(&layer) => state.free.push(room),
            Ok(unreported_bytes) => {
                state.arrived.push((layer, Ok(Resident { room, unreported_bytes })));
            }
            Err(error) => {
                state.free.push(room);
                state.arrived.push((layer, Err(error)));
            }
        }
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics; a reader that did elsewhere has said so (`gone`).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the reader has done something.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self) -> Option<(usize, Room)> {
        // A layer that nobody wants any more takes its place until it has been read.
        if self.missing.is_empty() || self.allocated - self.free.len() >= self.depth {
            return None;
        }
        let room = self.free.pop()?;
        let layer = self.missing.pop_front()?;
        self.reading = Some((layer, !room.touched));
        Some((layer, room))
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

/// Bytes of the largest layer's buffer: whole pages.
fn largest_layer(source: &dyn LayerSource) -> usize {
    let layers = (0..source.num_layers()).map(|it| source.layer_bytes(it));
    layers.max().unwrap_or(0).next_multiple_of(PAGE)
}

impl Drop for LayerWindow {
    fn drop(&mut self) {
        // The reader ends after the layer it is at.
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        if let Some(reader) = self.reader.take()
            && reader.join().is_err()
        {
            tracing::warn!("the layer reader panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Layer i holds i + 1 bytes of value i; layer `broken` fails.
    struct Counting {
        layers: usize,
        broken: Option<usize>,
        reads: AtomicUsize,
    }

    impl LayerSource for Counting {
        fn num_layers(&self) -> usize {
            self.layers
        }

        fn layer_bytes(&self, layer: usize) -> usize {
            layer + 1
        }

        fn read_layer(&self, layer: usize, out: &mut [u8]) -> riddle_weights::Result<u64> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            if self.broken == Some(layer) {
                return Err(riddle_weights::Error::NoWeights { dir: "broken".into() });
            }
            out[..=layer].fill(layer as u8);
            Ok(layer as u64 + 1)
        }
    }

    fn counting(layers: usize, broken: Option<usize>) -> Arc<Counting> {
        Arc::new(Counting { layers, broken, reads: AtomicUsize::new(0) })
    }

    /// Waits until so many layers have been read in all.
    fn until_read(source: &Counting, reads: usize) {
        while source.reads.load(Ordering::Acquire) < reads {
            std::thread::yield_now();
        }
    }

    proptest! {
        #[test]
        fn any_order_at_any_depth_gives_the_right_layer(
            depth in 0usize..7,
            visits in prop::collection::vec((0usize..5, 0usize..12), 1..30),
        ) {
            let mut window = LayerWindow::new(counting(5, None), depth).expect("thread");
            for (layer, depth) in visits {
                // Between requests the window may be told to be another.
                if depth < 7 {
                    window.set_depth(depth).expect("the reader lives");
                    prop_assert!(window.resident_bytes() <= (window.depth() * PAGE) as u64);
                }
                let view = window.advance_to(layer).expect("readable");
                prop_assert_eq!(view.weights, vec![layer as u8; layer + 1]);
                prop_assert!(window.resident_bytes() <= (window.depth() * PAGE) as u64);
            }
        }
    }

    #[test]
    fn resident_layers_are_read_once() {
        let source = counting(4, None);
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 4).expect("thread");
        let mut bytes = 0;
        for _ in 0..3 {
            for layer in 0..4 {
                bytes += window.advance_to(layer).expect("readable").bytes_read;
            }
        }
        assert_eq!(source.reads.load(Ordering::Relaxed), 4);
        assert_eq!(bytes, 1 + 2 + 3 + 4);
    }

    #[test]
    fn a_window_of_two_reads_each_layer_once_per_pass() {
        let source = counting(6, None);
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 2).expect("thread");
        for _ in 0..2 {
            for layer in 0..6 {
                window.advance_to(layer).expect("readable");
            }
        }
        // Twelve visits, and the first layer once more for a request that never came.
        until_read(&source, 13);
        drop(window);
        assert_eq!(source.reads.load(Ordering::Relaxed), 13);
    }

    #[test]
    fn between_two_and_all_some_layers_stay() {
        for depth in 3..8 {
            let source = counting(8, None);
            let mut window = LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, depth)
                .expect("thread");
            let mut pass = || {
                let mut read = |layer| window.advance_to(layer).expect("readable").bytes_read;
                (0..8).filter(|&layer| read(layer) > 0).count()
            };
            assert_eq!(pass(), 8, "{depth}: nothing is there yet");
            for _ in 0..3 {
                assert_eq!(pass(), 8 - (depth - 2), "{depth}");
            }
        }
    }

    #[test]
    fn a_smaller_window_keeps_nothing_that_a_larger_one_does_not() {
        let source = counting(12, None);
        let mut window = LayerWindow::new(source, 11).expect("thread");
        let mut before: Vec<usize> = (0..12).collect();
        for depth in (3..12).rev() {
            window.set_depth(depth).expect("thread");
            let at = |layer| window.wanted(layer);
            let stays: Vec<usize> =
                (0..12).filter(|it| (0..12).all(|at_layer| at(at_layer).contains(it))).collect();
            assert_eq!(stays.len(), depth - 2, "{stays:?}");
            assert!(stays.iter().all(|it| before.contains(it)), "{stays:?} of {before:?}");
            assert!((0..12).all(|it| at(it).len() == depth && at(it)[0] == it));
            before = stays;
        }
    }

    #[test]
    fn after_an_early_end_the_first_layers_come_unasked() {
        let source = counting(6, None);
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 2).expect("thread");
        for layer in 0..3 {
            window.advance_to(layer).expect("readable");
        }
        until_read(&source, 4);
        window.prefetch().expect("thread");
        until_read(&source, 6);
        for layer in 0..2 {
            assert_eq!(window.advance_to(layer).expect("readable").bytes_read, layer as u64 + 1);
        }
        // Neither of them again: the last one is what comes after them.
        until_read(&source, 7);
        drop(window);
        assert_eq!(source.reads.load(Ordering::Relaxed), 7);
    }

    /// A source that reads as many layers as it is told to.
    #[derive(Default)]
    struct Gated {
        allowed: Mutex<usize>,
        opened: Condvar,
        order: Mutex<Vec<usize>>,
    }

    impl Gated {
        fn allow(&self, reads: usize) {
            *self.allowed.lock().expect("no panic") += reads;
            self.opened.notify_all();
        }

        fn order(&self) -> Vec<usize> {
            self.order.lock().expect("no panic").clone()
        }
    }

    impl LayerSource for Gated {
        fn num_layers(&self) -> usize {
            8
        }

        fn layer_bytes(&self, _layer: usize) -> usize {
            1
        }

        fn read_layer(&self, layer: usize, _out: &mut [u8]) -> riddle_weights::Result<u64> {
            self.order.lock().expect("no panic").push(layer);
            let mut allowed = self.allowed.lock().expect("no panic");
            while *allowed == 0 {
                allowed = self.opened.wait(allowed).expect("no panic");
            }
            *allowed -= 1;
            Ok(1)
        }
    }

    /// Of the layers that were to come when a run ended only the one that the reader is at is still read.
    #[test]
    fn what_nobody_wants_any_more_is_not_read() {
        let source = Arc::new(Gated::default());
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 4).expect("thread");
        source.allow(1);
        window.advance_to(0).expect("readable");
        while source.order().len() < 2 {
            std::thread::yield_now();
        }
        // The reader is at layer 1, and 2 and 3 are to follow.
        window.move_to(4).expect("thread");
        source.allow(1);
        while source.order().len() < 3 {
            std::thread::yield_now();
        }
        window.prefetch().expect("thread");
        // Whatever comes now, nobody waits for the gate when this test fails.
        source.allow(usize::MAX / 2);
        for layer in 0..4 {
            window.advance_to(layer).expect("readable");
        }
        // 0 and 4 stay in a window of four.
        assert_eq!(source.order()[..6], [0, 1, 4, 1, 2, 3]);
    }

    /// What a buffer takes is counted when it is read into.
    #[test]
    fn memory_that_was_never_written_is_told_apart() {
        let source = Arc::new(Gated::default());
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 8).expect("thread");
        assert_eq!((window.resident_bytes(), window.at_rest(|it| it)), (0, 0));
        window.prefetch().expect("thread");
        assert_eq!(window.resident_bytes(), 8 * PAGE as u64);
        source.allow(usize::MAX / 2);
        let mut touched = 0;
        while touched < 8 * PAGE {
            touched = window.at_rest(|touched| {
                assert_eq!(source.order().len() * PAGE, touched as usize, "a read is under way");
                touched as usize
            });
            std::thread::yield_now();
        }
        window.set_depth(3).expect("thread");
        assert_eq!((window.resident_bytes(), window.at_rest(|it| it)), (3 * 4096, 3 * 4096));
    }

    #[test]
    fn dropping_the_window_ends_the_reader() {
        let source = counting(6, None);
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 3).expect("thread");
        window.advance_to(0).expect("readable");
        // The next layers are being read, or wait to be.
        drop(window);
        assert_eq!(Arc::strong_count(&source), 1, "the reader still holds the source");
    }

    /// A source that can not be read the first time: a network folder that was away.
    struct Mends {
        reads: AtomicUsize,
    }

    impl LayerSource for Mends {
        fn num_layers(&self) -> usize {
            1
        }

        fn layer_bytes(&self, _layer: usize) -> usize {
            1
        }

        fn read_layer(&self, _layer: usize, out: &mut [u8]) -> riddle_weights::Result<u64> {
            if self.reads.fetch_add(1, Ordering::AcqRel) == 0 {
                return Err(riddle_weights::Error::NoWeights { dir: "away".into() });
            }
            out.fill(1);
            Ok(1)
        }
    }

    /// A source whose reading panics, as a bug would.
    struct Panics;

    impl LayerSource for Panics {
        fn num_layers(&self) -> usize {
            2
        }

        fn layer_bytes(&self, _layer: usize) -> usize {
            1
        }

        fn read_layer(&self, _layer: usize, _out: &mut [u8]) -> riddle_weights::Result<u64> {
            panic!("reading failed");
        }
    }

    #[test]
    fn a_reader_that_panics_is_an_error_and_no_hang() {
        let mut window = LayerWindow::new(Arc::new(Panics), 2).expect("thread");
        for _ in 0..2 {
            assert!(matches!(window.advance_to(0), Err(Error::ReaderGone)));
        }
    }

    #[test]
    fn prefetched_layers_are_not_waited_for_twice() {
        let source = counting(4, None);
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 2).expect("thread");
        window.prefetch().expect("thread");
        assert_eq!(window.advance_to(0).expect("readable").bytes_read, 1);
        assert_eq!(window.advance_to(1).expect("readable").bytes_read, 2);
        until_read(&source, 3);
        drop(window);
        // 0 and 1 once each, and 2, which comes after 1.
        assert_eq!(source.reads.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_failed_prefetch_is_tried_again() {
        let source = Arc::new(Mends { reads: AtomicUsize::new(0) });
        let mut window =
            LayerWindow::new(Arc::clone(&source) as Arc<dyn LayerSource>, 1).expect("thread");
        window.prefetch().expect("thread");
        // The failure lies in the channel before anybody asks for the layer.
        while source.reads.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(window.advance_to(0).is_ok());
    }

    #[test]
    fn a_broken_layer_is_named_and_the_others_still_work() {
        let mut window = LayerWindow::new(counting(4, Some(2)), 2).expect("thread");
        for _ in 0..2 {
            assert!(window.advance_to(1).is_ok());
            let error = window.advance_to(2).expect_err("broken").to_string();
            assert!(error.starts_with("layer 3:"), "{error}");
            assert!(window.advance_to(3).is_ok());
        }
    }
}
