//! Several threads read the tensors of the next layers into the window's slots (FlexInfer §3.2).
//!
//! A slot is a buffer for what is streamed of one layer. Reading is cut into *parts*; a thread takes the next
//! part of the nearest wanted layer, so all threads work on the layer that is needed first, and a layer that
//! is large costs the next one nothing. One lock guards who has which slot and which part; reading itself
//! happens outside it.

use std::{
    io,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Error, Result, buffer::SharedBuffer, file::PageFiles};

/// Pages of a streamed tensor that are read at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Which of the layer's tensors.
    pub(crate) tensor: usize,
    /// Place in the files.
    pub(crate) offset: u64,
    /// Place in the slot.
    pub(crate) at: usize,
    /// Whole pages.
    pub(crate) room: usize,
    /// Bytes of them that the tensor needs: the file may end behind.
    pub(crate) wanted: usize,
}

/// What the caller and the reading threads share.
pub(super) struct Window {
    pub(super) file: PageFiles,
    /// Of each layer what is streamed, in the order of computation.
    layers: Vec<Vec<Part>>,
    /// Layers of which anything is streamed, ascending.
    streamed: Vec<usize>,
    slots: Vec<SharedBuffer>,
    state: Mutex<State>,
    /// There may be something to read, or it is time to stop.
    work: Condvar,
    /// A layer is there, or will not be.
    arrived: Condvar,
    bytes_read: AtomicU64,
}

struct State {
    slots: Vec<Slot>,
    /// Layers that belong into the window, the one that is needed first in front.
    wanted: Vec<usize>,
    stop: bool,
    /// A thread panicked.
    gone: bool,
}

#[derive(Default)]
struct Slot {
    /// Layer whose tensors it holds or will hold. `None`: nobody needs what is still being read into it.
    layer: Option<usize>,
    /// Parts that threads have taken.
    taken: usize,
    /// Parts that are being read.
    pending: usize,
    failure: Option<Failure>,
    /// Bytes read for the layer, until they are reported once.
    unreported: u64,
}

struct Failure {
    tensor: usize,
    source: io::Error,
}

/// A part that a thread has taken.
struct Job {
    slot: usize,
    part: Part,
}

/// A layer that is there.
pub(super) struct Arrival {
    pub(super) slot: usize,
    pub(super) bytes_read: u64,
}

/// A layer's tensor that could not be read, or no thread that could.
pub(super) enum Missing {
    Tensor { tensor: usize, source: io::Error },
    ReaderGone,
}

impl Window {
    /// A window of at most `slots` layers. `layers` are each layer's parts.
    pub(super) fn new(file: PageFiles, layers: Vec<Vec<Part>>, slots: usize) -> Window {
        let bytes = |parts: &Vec<Part>| parts.iter().map(|it| it.room).sum::<usize>();
        let largest = layers.iter().map(bytes).max().unwrap_or(0);
        let streamed: Vec<usize> = (0..layers.len()).filter(|&it| !layers[it].is_empty()).collect();
        let slots = slots.max(1).min(streamed.len());
        let state = State {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            wanted: Vec::new(),
            stop: false,
            gone: false,
        };
        Window {
            file,
            layers,
            streamed,
            slots: (0..slots).map(|_| SharedBuffer::new(largest)).collect(),
            state: Mutex::new(state),
            work: Condvar::new(),
            arrived: Condvar::new(),
            bytes_read: AtomicU64::new(0),
        }
    }

    /// Layers that belong into the window now.
    #[cfg(test)]
    pub(super) fn wanted(&self) -> Vec<usize> {
        self.lock().wanted.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of the slots.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.slots.iter().map(|it| it.len() as u64).sum()
    }

    /// Bytes read into slots so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    pub(super) fn is_streamed(&self, layer: usize) -> bool {
        !self.layers[layer].is_empty()
    }

    /// The slots. Reading one is sound for a layer from its arrival until the window is moved.
    pub(super) fn slot(&self, slot: usize) -> &SharedBuffer {
        &self.slots[slot]
    }

    /// Moves the window: `layer` is needed next, then those after it, and after the one before `end` the first.
    pub(super) fn move_to(&self, layer: usize, end: usize) {
        let mut state = self.lock();
        let streamed = &self.streamed[..self.streamed.partition_point(|&it| it < end)];
        let first = streamed.partition_point(|&it| it < layer);
        let ring = streamed.iter().cycle().skip(first);
        state.wanted.clear();
        state.wanted.extend(ring.take(self.slots.len().min(streamed.len())));
        // What failed some time ago says nothing about now.
        for slot in &mut state.slots {
            if slot.layer == Some(layer) && slot.failure.is_some() {
                slot.abandon();
            }
        }
        state.settle();
        self.work.notify_all();
    }

    /// Waits for `layer`, to which the window has been moved.
    pub(super) fn wait_for(&self, layer: usize) -> Result<Arrival, Missing> {
        let mut state = self.lock();
        loop {
            if state.gone {
                return Err(Missing::ReaderGone);
            }
            if let Some(number) = state.slots.iter().position(|it| it.layer == Some(layer)) {
                let slot = &mut state.slots[number];
                if let Some(Failure { tensor, source }) = slot.failure.take() {
                    slot.abandon();
                    return Err(Missing::Tensor { tensor, source });
                }
                if slot.taken == self.layers[layer].len() && slot.pending == 0 {
                    let bytes_read = std::mem::take(&mut slot.unreported);
                    return Ok(Arrival { slot: number, bytes_read });
                }
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the threads after the parts that they are at.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.work.notify_all();
    }

    /// What a reading thread does.
    pub(super) fn serve(&self) {
        let _alarm = Alarm(self);
        while let Some(Job { slot, part }) = self.next_job() {
            // SAFETY: parts of a layer do not overlap, and this one was taken by this thread alone. The slot
            // gets another layer, or counts as complete and is read, only when none of its parts is pending.
            let room = unsafe { self.slots[slot].part_mut(part.at..part.at + part.room) };
            let read = self.file.read(room, part.offset, part.wanted);
            self.finish(slot, part.tensor, read);
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(job) = state.take_part(&self.layers) {
                return Some(job);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, number: usize, tensor: usize, read: io::Result<usize>) {
        let bytes = *read.as_ref().unwrap_or(&0) as u64;
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.lock();
        let slot = &mut state.slots[number];
        slot.pending -= 1;
        let Some(layer) = slot.layer else {
            // Nobody needs it any more. Once nothing is being read into it, it is free for another layer.
            if slot.pending == 0 {
                state.settle();
                self.work.notify_all();
            }
            return;
        };
        slot.unreported += bytes;
        if let Err(source) = read {
            slot.failure.get_or_insert(Failure { tensor, source });
        }
        let complete = slot.taken == self.layers[layer].len() && slot.pending == 0;
        if complete || slot.failure.is_some() {
            self.arrived.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics; a thread that did elsewhere has said so (`gone`).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Its layer is not needed, or must be read anew.
    fn abandon(&mut self) {
        self.layer = None;
        self.failure = None;
    }
}

impl State {
    /// Gives the wanted layers the slots of those that are not wanted.
    fn settle(&mut self) {
        for slot in &mut self.slots {
            if slot.layer.is_some_and(|it| !self.wanted.contains(&it)) {
                slot.abandon();
            }
        }
        for &layer in &self.wanted {
            if self.slots.iter().any(|it| it.layer == Some(layer)) {
                continue;
            }
            let mut free = self.slots.iter_mut().filter(|it| it.layer.is_none() && it.pending == 0);
            let Some(slot) = free.next() else { break };
            *slot = Slot { layer: Some(layer), ..Slot::default() };
        }
    }

    /// The next part of the nearest wanted layer.
    fn take_part(&mut self, layers: &[Vec<Part>]) -> Option<Job> {
        for &layer in &self.wanted {
            let number = self.slots.iter().position(|it| it.layer == Some(layer));
            let Some(number) = number else { continue };
            let slot = &mut self.slots[number];
            if slot.failure.is_none()
                && let Some(&part) = layers[layer].get(slot.taken)
            {
                slot.taken += 1;
                slot.pending += 1;
                return Some(Job { slot: number, part });
            }
        }
        None
    }
}

/// Tells the caller when a reading thread panics, so that it does not wait forever.
struct Alarm<'a>(&'a Window);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().gone = true;
            self.0.arrived.notify_all();
        }
    }
}

impl Missing {
    pub(super) fn into_error(self, name: impl FnOnce(usize, io::Error) -> Error) -> Error {
        match self {
            Missing::Tensor { tensor, source } => name(tensor, source),
            Missing::ReaderGone => Error::ReaderGone,
        }
    }
}
