//! The layer window: the layer that computes, and the ones being read (GRATING §4.2).

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use riddle_weights::{LayeredCheckpoint, PAGE};

use crate::{Error, Result, buffer::AlignedBuffer};

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

struct Request {
    layer: usize,
    buffer: AlignedBuffer,
}

struct Response {
    layer: usize,
    buffer: AlignedBuffer,
    bytes: riddle_weights::Result<u64>,
}

struct Resident {
    buffer: AlignedBuffer,
    /// Bytes read for it, until they are reported once.
    unreported_bytes: u64,
}

/// A window over a model's layers: at most `depth` of them in memory, the next ones on their way.
///
/// Depth 2 is the paper's: one computes while one is read. A depth of all layers keeps the model
/// resident: each layer is read once. Depth 1 reads every layer when it is needed.
pub struct LayerWindow {
    source: Arc<dyn LayerSource>,
    depth: usize,
    largest: usize,
    resident: HashMap<usize, Resident>,
    in_flight: HashSet<usize>,
    free: Vec<AlignedBuffer>,
    allocated: usize,
    requests: Option<Sender<Request>>,
    responses: Receiver<Response>,
    reader: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for LayerWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerWindow")
            .field("depth", &self.depth)
            .field("allocated", &self.allocated)
            .finish()
    }
}

impl LayerWindow {
    /// A window of `depth` layers (clamped to 1…all) over `source`. Buffers are made when first needed.
    ///
    /// # Errors
    /// When the reader thread can not be started.
    pub fn new(source: Arc<dyn LayerSource>, depth: usize) -> Result<LayerWindow> {
        let layers = source.num_layers();
        let (requests, incoming) = channel::<Request>();
        let (outgoing, responses) = channel();
        let reader_source = Arc::clone(&source);
        let reader = std::thread::Builder::new()
            .name("layer-reader".to_owned())
            .spawn(move || {
                for Request { layer, mut buffer } in incoming {
                    let bytes = reader_source.read_layer(layer, buffer.as_mut_slice());
                    // Nobody listens any more: the window was dropped.
                    if outgoing.send(Response { layer, buffer, bytes }).is_err() {
                        break;
                    }
                }
            })
            .map_err(Error::Spawn)?;
        Ok(LayerWindow {
            depth: depth.clamp(1, layers.max(1)),
            largest: largest_layer(&*source),
            source,
            resident: HashMap::new(),
            in_flight: HashSet::new(),
            free: Vec::new(),
            allocated: 0,
            requests: Some(requests),
            responses,
            reader: Some(reader),
        })
    }

    /// Layers in memory at most.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Bytes of layer weights held now: never more than depth × the largest layer.
    pub fn resident_bytes(&self) -> u64 {
        (self.allocated * self.largest) as u64
    }

    /// Bytes that a layer's buffer takes: the largest layer in whole pages.
    pub fn layer_bytes(&self) -> u64 {
        self.largest as u64
    }

    /// Changes how many layers may be in memory, clamped to 1…all. Of a smaller window the buffers that are
    /// too many are given back before the next layer is asked for.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn set_depth(&mut self, depth: usize) -> Result<()> {
        self.depth = depth.clamp(1, self.source.num_layers().max(1));
        while self.allocated > self.depth {
            if self.free.pop().is_none() {
                let resident = self.resident.keys().max().copied();
                match resident.and_then(|it| self.resident.remove(&it)) {
                    Some(_) => {}
                    // All others are being read into: one comes back sooner or later.
                    None => {
                        let response = self.responses.recv().map_err(|_| Error::ReaderGone)?;
                        self.in_flight.remove(&response.layer);
                    }
                }
            }
            self.allocated -= 1;
        }
        Ok(())
    }

    /// Starts to read the first layers, so that they are there when the caller has tokenized.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn prefetch(&mut self) -> Result<()> {
        if self.source.num_layers() > 0 { self.request_wanted(0) } else { Ok(()) }
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
        assert!(layer < self.source.num_layers(), "no layer {layer}");
        let started = Instant::now();
        // What can be had without waiting comes first: it may hold buffers that are needed now.
        while let Ok(response) = self.responses.try_recv() {
            // A prefetch that failed some time ago says nothing about now: the layer is asked for again.
            let _ = self.receive(response, layer);
        }
        self.request_wanted(layer)?;
        while !self.resident.contains_key(&layer) {
            let response = self.responses.recv().map_err(|_| Error::ReaderGone)?;
            self.receive(response, layer)?;
            // A buffer that came back with a stale layer may be what this one waits for.
            self.request_wanted(layer)?;
        }
        let io_wait = started.elapsed();
        let bytes = self.source.layer_bytes(layer);
        let resident = self.resident.get_mut(&layer).ok_or(Error::ReaderGone)?;
        Ok(LayerView {
            bytes_read: std::mem::take(&mut resident.unreported_bytes),
            weights: &resident.buffer.as_slice()[..bytes],
            io_wait,
        })
    }

    /// Layers that belong into the window when it stands at `layer`.
    fn wanted(&self, layer: usize) -> impl Iterator<Item = usize> + use<> {
        let layers = self.source.num_layers();
        (0..self.depth).map(move |ahead| (layer + ahead) % layers)
    }

    fn receive(&mut self, response: Response, current: usize) -> Result<()> {
        let Response { layer, buffer, bytes } = response;
        self.in_flight.remove(&layer);
        match bytes {
            Ok(bytes) => {
                self.resident.insert(layer, Resident { buffer, unreported_bytes: bytes });
                Ok(())
            }
            Err(source) => {
                self.free.push(buffer);
                // A failed prefetch of a layer that is not needed now will be tried again when it is.
                if layer == current { Err(Error::Layer { layer, source }) } else { Ok(()) }
            }
        }
    }

    /// Frees what is outside the window and asks for what is missing, nearest first.
    fn request_wanted(&mut self, layer: usize) -> Result<()> {
        let wanted: Vec<usize> = self.wanted(layer).collect();
        let stale: Vec<usize> =
            self.resident.keys().copied().filter(|it| !wanted.contains(it)).collect();
        for layer in stale {
            if let Some(resident) = self.resident.remove(&layer) {
                self.free.push(resident.buffer);
            }
        }
        for layer in wanted {
            if self.resident.contains_key(&layer) || self.in_flight.contains(&layer) {
                continue;
            }
            let Some(buffer) = self.take_buffer() else { break };
            self.in_flight.insert(layer);
            let requests = self.requests.as_ref().ok_or(Error::ReaderGone)?;
            requests.send(Request { layer, buffer }).map_err(|_| Error::ReaderGone)?;
        }
        Ok(())
    }

    fn take_buffer(&mut self) -> Option<AlignedBuffer> {
        if let Some(buffer) = self.free.pop() {
            return Some(buffer);
        }
        if self.allocated == self.depth {
            return None;
        }
        self.allocated += 1;
        Some(AlignedBuffer::new(self.largest))
    }
}

/// Bytes of the largest layer's buffer: whole pages.
fn largest_layer(source: &dyn LayerSource) -> usize {
    let layers = (0..source.num_layers()).map(|it| source.layer_bytes(it));
    layers.max().unwrap_or(0).next_multiple_of(PAGE)
}

impl Drop for LayerWindow {
    fn drop(&mut self) {
        // Closing the channel ends the reader's loop after the layer it is at.
        self.requests = None;
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
        drop(window);
        // Twelve visits, and the first layer once more for a request that never came.
        assert_eq!(source.reads.load(Ordering::Relaxed), 13);
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
