//! A model's tensors: some locked in memory, the others streamed from disk layer by layer (FlexInfer §3.2).

mod prefetch;

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use riddle_weights::{JoinedFiles, PAGE};

use crate::{
    Error, Layer, Preservation, Result, TensorSpec,
    buffer::AlignedBuffer,
    file::{PageFiles, ends_early},
};
pub(crate) use prefetch::Part;
use prefetch::Window;

/// Linux reads no more than 2 GiB less a page at once (`read(2)`).
pub(crate) const MAX_READ_BYTES: usize = 1 << 30;

/// How tensors are streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// Layers of which streamed tensors are in memory at the same time: the one that computes, and those
    /// being read. Clamped to 1…all. With 1 nothing is read while anything computes.
    pub window: usize,
    /// Threads that read, at least one.
    pub io_threads: usize,
    /// Bytes that a thread reads at once, rounded up to whole pages; larger tensors are shared by threads.
    pub read_bytes: usize,
    /// Read past the page cache, if the file system can.
    pub direct_io: bool,
    /// Read layers before they are asked for. Without, a single layer is in memory (the paper's *w/o
    /// prefetch*).
    pub prefetch: bool,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        // The window is the paper's (§3.5). Threads and the size of a read are measured (`examples/stream.rs`,
        // medians of five, two cores busy with other things, a virtual disk): with reads of 2 MiB one thread
        // gets 2.5 GB/s, two get 3.1, and four as much; with two threads 1 MiB gets 2.7, and 8 MiB 3.2.
        StreamOptions {
            window: 3,
            io_threads: 2,
            read_bytes: 2 << 20,
            direct_io: true,
            prefetch: true,
        }
    }
}

/// What streaming did since the file was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Bytes read for streamed tensors, those included that nobody asked for in the end.
    pub bytes_read: u64,
    /// Bytes read once, for locked tensors.
    pub locked_bytes_read: u64,
    /// How long the caller waited for layers.
    pub io_wait: Duration,
    /// Layers that were asked for.
    pub layers: u64,
}

/// Where a tensor is.
enum Home {
    /// From this byte on in the memory of all locked tensors.
    Locked(usize),
    /// From this byte on in the slot of its layer.
    Slot(usize),
}

/// The tensors of a model's layers. Locked ones are read when it is opened; of the others a window of layers
/// is in memory at any time, and the next ones are on their way while the caller computes. The first layer
/// follows the last one: the next token.
///
/// When everything is locked there is neither thread nor window.
pub struct TensorStream {
    layers: Vec<Layer>,
    homes: Vec<Vec<Home>>,
    locked: AlignedBuffer,
    window: Arc<Window>,
    threads: Vec<JoinHandle<()>>,
    /// Whether anything is read before it is asked for.
    reads_ahead: bool,
    totals: StreamTotals,
}

impl std::fmt::Debug for TensorStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorStream")
            .field("layers", &self.layers.len())
            .field("resident_bytes", &self.resident_bytes())
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}

impl TensorStream {
    /// Opens the files, whose tensors are named by their places among them, reads the locked tensors, and begins to
    /// read the first layers' others.
    ///
    /// # Errors
    /// When a file can not be opened, is too short for a tensor, or can not be read; when no thread can be
    /// started.
    ///
    /// # Panics
    /// When `preservation` was made for other layers: the caller's bug.
    pub fn open(
        files: impl Into<JoinedFiles>,
        layers: Vec<Layer>,
        preservation: Preservation,
        options: StreamOptions,
    ) -> Result<TensorStream> {
        let mut go_on = || ControlFlow::Continue(());
        TensorStream::open_while(files, layers, preservation, options, &mut go_on)
    }

    /// [`open`](Self::open), as long as `go_on` does not break: it is asked between any two reads of locked tensors.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Error::Stopped`].
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub fn open_while(
        files: impl Into<JoinedFiles>,
        layers: Vec<Layer>,
        preservation: Preservation,
        options: StreamOptions,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<TensorStream> {
        let file = PageFiles::open(&files.into(), options.direct_io)?;
        check(&layers, &preservation, &file)?;
        let threads = options.io_threads.max(1);
        let read_bytes = options.read_bytes.clamp(PAGE, MAX_READ_BYTES).next_multiple_of(PAGE);
        let (homes, parts) = lay_out(&layers, &preservation, read_bytes);
        let (locked, locked_bytes_read) =
            load_locked(&file, &layers, &preservation, (threads, read_bytes), go_on)?;
        let slots = if options.prefetch { options.window } else { 1 };
        let mut stream = TensorStream {
            layers,
            homes,
            locked,
            window: Arc::new(Window::new(file, parts, slots)),
            threads: Vec::new(),
            reads_ahead: options.prefetch,
            totals: StreamTotals { locked_bytes_read, ..StreamTotals::default() },
        };
        if !stream.window.is_empty() {
            stream.start(threads)?;
            stream.prefetch(0);
        }
        Ok(stream)
    }

    fn start(&mut self, threads: usize) -> Result<()> {
        for number in 0..threads {
            let window = Arc::clone(&self.window);
            let thread = std::thread::Builder::new()
                .name(format!("tensors-{number}"))
                .spawn(move || window.serve());
            // If this one can not be started, the threads before it end when `self` is dropped.
            self.threads.push(thread.map_err(Error::Spawn)?);
        }
        Ok(())
    }

    /// Number of layers.
    pub fn num_layers(&self) -> usize {
        self.layers.len()
    }

    /// Bytes of weights held: locked tensors, and the buffers of the window. The same from beginning to end.
    pub fn resident_bytes(&self) -> u64 {
        self.locked.len() as u64 + self.window.buffer_bytes()
    }

    /// Whether reads go past the page cache. Where the file system refuses, or nobody asked for it, they go
    /// through it, and it is told to forget what was read.
    pub fn is_direct(&self) -> bool {
        self.window.file.is_direct()
    }

    /// What happened so far.
    pub fn totals(&self) -> StreamTotals {
        StreamTotals { bytes_read: self.window.bytes_read(), ..self.totals }
    }

    /// Tells that `layer` will be needed next, without waiting for it: a run was stopped in the middle, and
    /// the next one begins with the first layer. Nothing is read where nothing is to be read ahead.
    ///
    /// # Panics
    /// When there is no such layer: the caller's bug.
    pub fn prefetch(&mut self, layer: usize) {
        assert!(layer < self.layers.len(), "no layer {layer}");
        if self.reads_ahead && !self.window.is_empty() {
            self.window.move_to(layer, self.layers.len());
        }
    }

    /// Waits for `layer` (from 0) and lends its tensors; the memory of the layer before goes to the next one
    /// that is read. Any order is legal; the ascending one, the first layer after the last, is fast.
    ///
    /// # Errors
    /// [`Error::Tensor`] when one can not be read. The stream stays usable: asking again reads again.
    ///
    /// # Panics
    /// When there is no such layer: the caller's bug.
    pub fn layer(&mut self, layer: usize) -> Result<LayerTensors<'_>> {
        self.layer_before(layer, self.layers.len())
    }

    /// [`layer`](Self::layer) in a pass that goes through the first `end` layers alone: after the last of them comes
    /// the first again, and nothing behind them is read ahead.
    ///
    /// # Errors
    /// As [`layer`](Self::layer).
    ///
    /// # Panics
    /// When there is no such layer, or it is not before `end`: the caller's bug.
    pub fn layer_before(&mut self, layer: usize, end: usize) -> Result<LayerTensors<'_>> {
        let started = Instant::now();
        assert!(layer < end && end <= self.layers.len(), "no layer {layer} of {end}");
        if !self.window.is_empty() {
            self.window.move_to(layer, end);
        }
        let (mut slot, mut bytes_read) = (None, 0);
        if self.window.is_streamed(layer) {
            let arrival = self.window.wait_for(layer).map_err(|missing| {
                missing.into_error(|tensor, source| {
                    tensor_error(&self.window.file, &self.layers, (layer, tensor), source)
                })
            })?;
            slot = Some(arrival.slot);
            bytes_read = arrival.bytes_read;
        }
        let io_wait = started.elapsed();
        self.totals.io_wait += io_wait;
        self.totals.layers += 1;
        Ok(LayerTensors { stream: self, layer, slot, bytes_read, io_wait })
    }
}

impl Drop for TensorStream {
    fn drop(&mut self) {
        self.window.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::warn!("a thread that reads tensors panicked");
            }
        }
    }
}

/// A layer's tensors, in memory as long as this value.
pub struct LayerTensors<'a> {
    stream: &'a TensorStream,
    layer: usize,
    slot: Option<usize>,
    /// Bytes read from disk for it; 0 when all of it was still there from before.
    pub bytes_read: u64,
    /// How long the caller waited for it.
    pub io_wait: Duration,
}

impl std::fmt::Debug for LayerTensors<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerTensors")
            .field("layer", &self.layer)
            .field("bytes_read", &self.bytes_read)
            .field("io_wait", &self.io_wait)
            .finish_non_exhaustive()
    }
}

impl LayerTensors<'_> {
    /// Number of the layer's tensors, locked and streamed.
    pub fn num_tensors(&self) -> usize {
        self.stream.layers[self.layer].len()
    }

    /// Tensor `tensor` of any layer, when it is locked.
    ///
    /// # Panics
    /// When there is no such tensor: the caller's bug.
    pub fn locked(&self, layer: usize, tensor: usize) -> Option<&[u8]> {
        let spec = &self.stream.layers[layer][tensor];
        let start = (spec.offset % PAGE as u64) as usize;
        match self.stream.homes[layer][tensor] {
            Home::Locked(at) => Some(&self.stream.locked.as_slice()[at + start..][..spec.bytes]),
            Home::Slot(_) => None,
        }
    }

    /// Tensor `tensor` (from 0) as the file holds it. It is aligned as in the file, up to a page.
    ///
    /// # Panics
    /// When there is no such tensor: the caller's bug.
    pub fn tensor(&self, tensor: usize) -> &[u8] {
        let spec = &self.stream.layers[self.layer][tensor];
        if spec.bytes == 0 {
            return &[];
        }
        let start = (spec.offset % PAGE as u64) as usize;
        let (at, buffer) = match (&self.stream.homes[self.layer][tensor], self.slot) {
            (Home::Locked(at), _) => {
                return &self.stream.locked.as_slice()[at + start..][..spec.bytes];
            }
            (Home::Slot(at), Some(slot)) => (at + start, self.stream.window.slot(slot)),
            (Home::Slot(_), None) => unreachable!("a streamed tensor has a slot: this is a bug"),
        };
        // SAFETY: the layer has arrived, and as long as this value lives the stream is borrowed, so the window
        // is not moved: the slot keeps its layer, of which no part is left to be read.
        unsafe { buffer.part(at..at + spec.bytes) }
    }
}

fn tensor_error(
    file: &PageFiles,
    layers: &[Layer],
    (layer, tensor): (usize, usize),
    source: std::io::Error,
) -> Error {
    let TensorSpec { role, offset, .. } = layers[layer][tensor];
    Error::Tensor { path: file.path_at(offset).to_path_buf(), layer, tensor, role, source }
}

/// Nothing is allocated for a tensor that no file holds.
fn check(layers: &[Layer], preservation: &Preservation, file: &PageFiles) -> Result<()> {
    assert_eq!(layers.len(), preservation.num_layers(), "a preservation of other layers");
    for (number, layer) in layers.iter().enumerate() {
        assert_eq!(layer.len(), preservation.num_tensors(number), "a preservation of other layers");
        for (tensor, spec) in layer.iter().enumerate() {
            if !file.holds(spec.offset, spec.bytes as u64) {
                return Err(tensor_error(file, layers, (number, tensor), ends_early()));
            }
        }
    }
    Ok(())
}

/// Where each tensor will be, and what is read of each layer when it is streamed.
fn lay_out(
    layers: &[Layer],
    preservation: &Preservation,
    read_bytes: usize,
) -> (Vec<Vec<Home>>, Vec<Vec<Part>>) {
    let (mut homes, mut parts, mut locked) = (Vec::new(), Vec::new(), 0);
    for (number, layer) in layers.iter().enumerate() {
        let (mut at, mut layer_homes, mut layer_parts) = (0, Vec::new(), Vec::new());
        for (tensor, spec) in layer.iter().enumerate() {
            if preservation.is_locked(number, tensor) {
                layer_homes.push(Home::Locked(locked));
                locked += page_bytes(spec);
            } else {
                layer_homes.push(Home::Slot(at));
                layer_parts.extend(parts_of(tensor, spec, at, read_bytes));
                at += page_bytes(spec);
            }
        }
        homes.push(layer_homes);
        parts.push(layer_parts);
    }
    (homes, parts)
}

/// The file holds them, so memory can.
pub(crate) fn page_bytes(spec: &TensorSpec) -> usize {
    let pages = spec.pages();
    (pages.end - pages.start) as usize
}

/// The reads of a tensor whose pages begin at `at` in their buffer.
pub(crate) fn parts_of(
    tensor: usize,
    spec: &TensorSpec,
    at: usize,
    read_bytes: usize,
) -> impl Iterator<Item = Part> + use<> {
    let pages = spec.pages();
    let end = spec.offset + spec.bytes as u64;
    pages.clone().step_by(read_bytes).map(move |offset| Part {
        tensor,
        offset,
        at: at + (offset - pages.start) as usize,
        room: (pages.end - offset).min(read_bytes as u64) as usize,
        wanted: (end - offset).min(read_bytes as u64) as usize,
    })
}

/// Reads all locked tensors, one after the other, on `threads` threads; returns also how many bytes were read.
fn load_locked(
    file: &PageFiles,
    layers: &[Layer],
    preservation: &Preservation,
    (threads, read_bytes): (usize, usize),
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(AlignedBuffer, u64)> {
    // The file holds them, so memory can.
    let mut locked = AlignedBuffer::new(preservation.locked_bytes() as usize);
    let (mut rest, mut jobs) = (locked.as_mut_slice(), Vec::new());
    for (number, layer) in layers.iter().enumerate() {
        for (tensor, spec) in layer.iter().enumerate() {
            if preservation.is_locked(number, tensor) {
                let (room, others) = rest.split_at_mut(page_bytes(spec));
                rest = others;
                let rooms = room.chunks_mut(read_bytes);
                let parts = parts_of(tensor, spec, 0, read_bytes).zip(rooms);
                jobs.extend(parts.map(|(part, room)| (number, part, room)));
            }
        }
    }
    let threads = threads.min(jobs.len());
    let jobs = Mutex::new(jobs.into_iter());
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    // The other threads end after what they are at.
    let leave = |why: Error| {
        while next().is_some() {}
        why
    };
    let load = |go_on: &mut dyn FnMut() -> ControlFlow<()>| -> Result<u64> {
        let mut bytes = 0;
        while let Some((layer, part, room)) = next() {
            if go_on().is_break() {
                return Err(leave(Error::Stopped));
            }
            let read = file.read(room, part.offset, part.wanted);
            bytes += read
                .map_err(|source| leave(tensor_error(file, layers, (layer, part.tensor), source)))?
                as u64;
        }
        Ok(bytes)
    };
    let bytes = std::thread::scope(|scope| {
        let other = || load(&mut || ControlFlow::Continue(()));
        let spawn =
            |_| std::thread::Builder::new().spawn_scoped(scope, other).map_err(Error::Spawn);
        let others = (1..threads).map(spawn).collect::<Result<Vec<_>>>()?;
        let mut bytes = load(go_on)?;
        for other in others {
            bytes += other.join().map_err(|_| Error::ReaderGone)??;
        }
        Ok::<_, Error>(bytes)
    })?;
    Ok((locked, bytes))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::FileExt as _,
        path::PathBuf,
    };

    use proptest::prelude::*;

    use super::*;
    use crate::{Locking, TensorRole, preserve};

    const ROLES: [TensorRole; 9] = [
        TensorRole::Query,
        TensorRole::Key,
        TensorRole::Value,
        TensorRole::Output,
        TensorRole::Gate,
        TensorRole::Up,
        TensorRole::Down,
        TensorRole::Small,
        TensorRole::OtherLarge,
    ];

    /// A file of `bytes` numbers, no two pages of which are alike.
    fn file(bytes: usize) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("weights");
        let content: Vec<u8> = (0..bytes).map(|it| (it % 251 + it / 4096) as u8).collect();
        std::fs::write(&path, &content).expect("write");
        (dir, path, content)
    }

    /// Layers of one matrix of `bytes` each, one after the other.
    fn matrices(layers: usize, bytes: usize) -> Vec<Layer> {
        let spec =
            |layer| TensorSpec { role: TensorRole::Up, offset: (layer * bytes) as u64, bytes };
        (0..layers).map(|layer| vec![spec(layer)]).collect()
    }

    fn nothing_locked(layers: &[Layer]) -> Preservation {
        preserve(layers, u64::MAX, 3, Locking::Nothing).expect("no limit")
    }

    fn small_reads() -> StreamOptions {
        StreamOptions { read_bytes: PAGE, ..StreamOptions::default() }
    }

    #[derive(Debug, Clone)]
    struct Case {
        layers: Vec<Layer>,
        options: StreamOptions,
        locking: Locking,
        /// Memory, in sixteenths between the least that works and all.
        budget: u64,
        /// What is asked for: a layer, and whether it was announced.
        visits: Vec<(usize, bool)>,
    }

    const FILE_BYTES: usize = 200_000;

    fn cases() -> impl Strategy<Value = Case> {
        let role = prop::sample::select(ROLES.to_vec());
        // Anywhere and of any length, the file's last byte included; GGUF aligns to 32.
        let tensor =
            (role, 0usize..FILE_BYTES / 32, 0usize..30_000).prop_map(|(role, at, bytes)| {
                let bytes = bytes.min(FILE_BYTES - at * 32);
                TensorSpec { role, offset: at as u64 * 32, bytes }
            });
        let layer = prop::collection::vec(tensor, 0..6);
        let options = (0usize..6, 0usize..5, 0usize..20_000, any::<bool>(), 0u8..8);
        let options = options.prop_map(|(window, io_threads, read_bytes, direct_io, prefetch)| {
            StreamOptions { window, io_threads, read_bytes, direct_io, prefetch: prefetch > 0 }
        });
        let locking =
            prop::sample::select(vec![Locking::Balanced, Locking::ByLayer, Locking::Nothing]);
        let visit = (0usize..8, prop::bool::weighted(0.2));
        let layers = prop::collection::vec(layer, 1..9);
        let visits = prop::collection::vec(visit, 0..12);
        (layers, options, locking, 0u64..=16, visits).prop_map(
            |(layers, options, locking, budget, visits)| {
                let visits = visits.into_iter().map(|(it, told)| (it % layers.len(), told));
                // Two tokens, then any order.
                let tokens = (0..2 * layers.len()).map(|it| (it % layers.len(), false));
                let visits = tokens.chain(visits).collect();
                Case { layers, options, locking, budget, visits }
            },
        )
    }

    /// The budget of a case, for its window.
    fn plan(case: &Case) -> Preservation {
        let preserve = |budget| preserve(&case.layers, budget, case.options.window, case.locking);
        let smallest = match preserve(0) {
            Ok(plan) => return plan,
            Err(Error::Budget { smallest, .. }) => smallest,
            Err(error) => panic!("{error}"),
        };
        let all = case.layers.iter().flatten().map(|it| page_bytes(it) as u64).sum::<u64>();
        preserve(smallest + all.saturating_sub(smallest) * case.budget / 16).expect("enough")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn equals_the_file_in_any_order_and_layout(case in cases()) {
            let (_dir, path, content) = file(FILE_BYTES);
            let plan = plan(&case);
            let options = case.options;
            let mut stream = TensorStream::open(&path, case.layers.clone(), plan.clone(), options)
                .expect("valid");
            let resident = stream.resident_bytes();
            let window = if options.prefetch { options.window } else { 1 };
            prop_assert_eq!(resident, plan.memory_bytes(window));
            let mut reported = 0;
            for &(layer, told) in &case.visits {
                if told {
                    stream.prefetch(layer);
                }
                let tensors = stream.layer(layer).expect("readable");
                reported += tensors.bytes_read;
                for (number, spec) in case.layers[layer].iter().enumerate() {
                    let start = spec.offset as usize;
                    let tensor = tensors.tensor(number);
                    prop_assert!(tensor == &content[start..start + spec.bytes], "{layer}.{number}");
                    let aligned = tensor.as_ptr().addr().is_multiple_of(32);
                    prop_assert!(aligned || spec.bytes == 0, "not aligned as in the file");
                }
                prop_assert_eq!(stream.resident_bytes(), resident);
            }
            let totals = stream.totals();
            prop_assert_eq!(totals.layers, case.visits.len() as u64);
            prop_assert!(reported <= totals.bytes_read);
            let streamed = plan.streamed_total() > 0;
            prop_assert_eq!(stream.threads.is_empty(), !streamed, "threads without work");
        }
    }

    #[test]
    fn several_files_are_read_as_one() {
        let dir = tempfile::tempdir().expect("temp dir");
        // None ends where a page does.
        let contents = [20_001, 5, 33_333].map(|bytes| {
            let number = |it: usize| (it % 251 + it / 4096 + bytes) as u8;
            (0..bytes).map(number).collect::<Vec<u8>>()
        });
        let paths = [0, 1, 2].map(|it| dir.path().join(format!("part-{it}")));
        paths.iter().zip(&contents).for_each(|(it, bytes)| fs::write(it, bytes).expect("written"));
        let lengths = contents.iter().map(|it| it.len() as u64);
        let files = JoinedFiles::of(paths.iter().map(PathBuf::as_path).zip(lengths));
        let files = files.expect("small");
        let spec = |file: usize, from: usize, bytes| {
            let offset = files.files()[file].start + from as u64;
            (TensorSpec { role: TensorRole::Up, offset, bytes }, &contents[file][from..][..bytes])
        };
        let tensors = [
            vec![spec(0, 0, 9_000), spec(2, 32, 4_096)],
            vec![spec(0, 20_000, 1), spec(1, 0, 5)],
            vec![spec(2, 33_000, 333), spec(0, 9_000, 11_001), spec(2, 0, 33_333)],
        ];
        let layers: Vec<Layer> =
            tensors.iter().map(|it| it.iter().map(|it| it.0).collect()).collect();
        let all = preserve(&layers, u64::MAX, 3, Locking::Balanced).expect("no limit");
        for plan in [nothing_locked(&layers), all] {
            for direct_io in [true, false] {
                let options = StreamOptions { window: 2, direct_io, ..small_reads() };
                let stream = TensorStream::open(&files, layers.clone(), plan.clone(), options);
                let mut stream = stream.expect("valid");
                for (layer, tensors) in tensors.iter().enumerate().cycle().take(9) {
                    let read = stream.layer(layer).expect("readable");
                    for (number, (_, expected)) in tensors.iter().enumerate() {
                        assert!(read.tensor(number) == *expected, "{layer}.{number}");
                    }
                }
            }
        }
        let cut = File::options().write(true).open(&paths[1]).expect("open");
        cut.set_len(4).expect("cut");
        let open = || {
            let plan = nothing_locked(&layers);
            TensorStream::open(&files, layers.clone(), plan, small_reads()).expect_err("cut")
        };
        assert!(
            matches!(open(), Error::Tensor { path, layer: 1, tensor: 1, .. } if path == paths[1])
        );
        fs::remove_file(&paths[2]).expect("removed");
        assert!(matches!(open(), Error::Open { path, .. } if path == paths[2]));
    }

    #[test]
    fn each_layer_is_read_once_per_token_and_a_window_of_all_only_once() {
        let (_dir, path, _) = file(6 * 10_000);
        let layers = matrices(6, 10_000);
        let per_token = nothing_locked(&layers).streamed_total();
        for (window, reads) in [(1, 3 * per_token), (3, 3 * per_token), (6, per_token)] {
            let options = StreamOptions { window, ..small_reads() };
            let plan = nothing_locked(&layers);
            let mut stream =
                TensorStream::open(&path, layers.clone(), plan, options).expect("valid");
            let mut bytes = 0;
            for layer in (0..6).cycle().take(18) {
                bytes += stream.layer(layer).expect("readable").bytes_read;
            }
            // The last pages end with the file.
            assert!(bytes <= reads && bytes >= reads - 3 * PAGE as u64, "{window}: {bytes}");
        }
    }

    #[test]
    fn the_next_layers_are_read_without_being_asked_for() {
        let (_dir, path, _) = file(4 * PAGE);
        let layers = matrices(4, PAGE);
        let options = StreamOptions { window: 2, ..small_reads() };
        let plan = nothing_locked(&layers);
        let mut stream = TensorStream::open(&path, layers, plan, options).expect("valid");
        let read = |stream: &TensorStream, pages: usize| {
            while stream.totals().bytes_read < (pages * PAGE) as u64 {
                std::thread::yield_now();
            }
        };
        read(&stream, 2);
        assert_eq!(stream.layer(0).expect("there").bytes_read, PAGE as u64);
        assert_eq!(stream.layer(1).expect("there").bytes_read, PAGE as u64);
        // The third is on its way, the first of the next token is not: its memory is in use.
        read(&stream, 3);
        // A new run: what was read ahead gives way.
        stream.prefetch(0);
        read(&stream, 4);
        assert_eq!(stream.layer(0).expect("there").bytes_read, PAGE as u64);
    }

    /// A prompt is read in chunks of which only the last one needs what is behind the layers.
    #[test]
    fn a_shorter_pass_begins_anew_without_reading_what_is_behind_it() {
        let (_dir, path, _) = file(6 * PAGE);
        let layers = matrices(6, PAGE);
        let options = StreamOptions { window: 3, ..small_reads() };
        let plan = nothing_locked(&layers);
        let mut stream = TensorStream::open(&path, layers, plan, options).expect("valid");
        for (layer, end, wanted) in
            [(2, 4, [2, 3, 0]), (3, 4, [3, 0, 1]), (3, 6, [3, 4, 5]), (5, 6, [5, 0, 1])]
        {
            stream.layer_before(layer, end).expect("readable");
            assert_eq!(stream.window.wanted(), wanted, "{layer} of {end}");
        }
        // Of a pass shorter than the window each layer is wanted once.
        stream.layer_before(0, 2).expect("readable");
        assert_eq!(stream.window.wanted(), [0, 1]);
        stream.prefetch(0);
        assert_eq!(stream.window.wanted(), [0, 1, 2]);
    }

    #[test]
    fn without_prefetching_nothing_is_read_unasked() {
        let (_dir, path, content) = file(4 * PAGE);
        let layers = matrices(4, PAGE);
        let options = StreamOptions { prefetch: false, ..small_reads() };
        let plan = nothing_locked(&layers);
        let mut stream = TensorStream::open(&path, layers, plan, options).expect("valid");
        assert_eq!(stream.resident_bytes(), PAGE as u64);
        for layer in 0..4 {
            assert_eq!(stream.totals().bytes_read, (layer * PAGE) as u64);
            let tensors = stream.layer(layer).expect("readable");
            assert_eq!(tensors.tensor(0), &content[layer * PAGE..(layer + 1) * PAGE]);
        }
        // Not when a run was stopped either.
        stream.prefetch(0);
        assert_eq!(stream.window.wanted(), [3]);
    }

    #[test]
    fn a_file_that_is_too_short_is_told_with_layer_and_tensor() {
        let (_dir, path, _) = file(100_000);
        let mut layers = matrices(3, 30_000);
        layers[2].push(TensorSpec { role: TensorRole::Down, offset: 90_000, bytes: 10_001 });
        let open = |layers: &Vec<Layer>| {
            let options = StreamOptions::default();
            TensorStream::open(&path, layers.clone(), nothing_locked(layers), options)
        };
        let error = open(&layers).expect_err("too short").to_string();
        assert!(error.contains("layer 3, tensor 2 (down projection)"), "{error}");
        for (offset, bytes) in [(u64::MAX, 1), (u64::MAX - 5, 5), (0, usize::MAX), (100_001, 0)] {
            layers[2][1] = TensorSpec { role: TensorRole::Down, offset, bytes };
            assert!(matches!(open(&layers), Err(Error::Tensor { layer: 2, tensor: 1, .. })));
        }
        let missing = path.with_extension("gone");
        let plan = nothing_locked(&layers);
        let error = TensorStream::open(&missing, layers, plan, StreamOptions::default());
        assert!(matches!(error, Err(Error::Open { .. })));
    }

    #[test]
    fn a_file_cut_off_meanwhile_is_an_error_until_it_is_whole_again() {
        for (direct_io, window) in [(true, 1), (true, 3), (false, 3)] {
            let (_dir, path, content) = file(6 * 20_000);
            let layers = matrices(6, 20_000);
            let options = StreamOptions { direct_io, window, io_threads: 3, ..small_reads() };
            let plan = nothing_locked(&layers);
            let mut stream = TensorStream::open(&path, layers, plan, options).expect("valid");
            let writer = File::options().write(true).open(&path).expect("open");
            for _ in 0..3 {
                writer.set_len(50_000).expect("cut");
                stream.layer(5).err();
                stream.layer(0).expect("not cut");
                for _ in 0..2 {
                    let error = stream.layer(3).expect_err("cut");
                    assert!(matches!(error, Error::Tensor { layer: 3, tensor: 0, .. }), "{error}");
                }
                stream.layer(1).expect("not cut");
                writer.write_all_at(&content, 0).expect("mend");
                for layer in 0..6 {
                    // What had failed ahead of time is read again.
                    let tensors = stream.layer(layer).expect("whole");
                    assert_eq!(tensors.tensor(0), &content[layer * 20_000..][..20_000]);
                }
            }
        }
    }

    #[test]
    fn a_locked_tensor_outlives_the_file() {
        let (_dir, path, content) = file(50_000);
        let layers = matrices(5, 10_000);
        let plan = preserve(&layers, u64::MAX, 3, Locking::Balanced).expect("all");
        let mut stream = TensorStream::open(&path, layers, plan, small_reads()).expect("valid");
        assert!(stream.threads.is_empty(), "nothing is streamed");
        File::options().write(true).open(&path).expect("open").set_len(0).expect("cut");
        for layer in (0..5).rev() {
            let tensors = stream.layer(layer).expect("in memory");
            assert_eq!(tensors.tensor(0), &content[layer * 10_000..][..10_000]);
            assert_eq!(tensors.bytes_read, 0);
        }
        assert_eq!(stream.totals().bytes_read, 0);
        assert!(stream.totals().locked_bytes_read >= 50_000);
    }

    #[test]
    fn opening_ends_when_nobody_wants_it_any_more() {
        let (_dir, path, _) = file(64 * PAGE);
        let layers = matrices(4, 16 * PAGE);
        let all = preserve(&layers, u64::MAX, 3, Locking::Balanced).expect("no limit");
        let options = StreamOptions { io_threads: 1, ..small_reads() };
        let open = |most: usize| {
            let mut asked = 0;
            let mut go_on = || {
                asked += 1;
                if asked > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let stream =
                TensorStream::open_while(&path, layers.clone(), all.clone(), options, &mut go_on);
            (stream.map(|it| it.totals().locked_bytes_read), asked)
        };
        assert!(matches!(open(5), (Err(Error::Stopped), 6)));
        assert!(matches!(open(64), (Ok(bytes), 64) if bytes == 64 * PAGE as u64));
    }

    #[test]
    fn dropping_ends_the_threads() {
        let (_dir, path, _) = file(600_000);
        let layers = matrices(6, 100_000);
        for asked in 0..4 {
            let plan = nothing_locked(&layers);
            let options = StreamOptions { io_threads: 4, ..small_reads() };
            let mut stream =
                TensorStream::open(&path, layers.clone(), plan, options).expect("valid");
            for layer in 0..asked {
                stream.layer(layer).expect("readable");
            }
            let window = Arc::downgrade(&stream.window);
            drop(stream);
            assert!(window.upgrade().is_none(), "a thread still has the window");
        }
    }
}
