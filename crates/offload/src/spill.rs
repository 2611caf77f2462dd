//! Hidden states on disk, three micro-batches in memory (GRATING §4.3, the lower part of Figure 6).

use std::{
    fs::File,
    ops::Range,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use crate::{Error, Result};

/// Micro-batches in memory at most: one computing, one being written, one being read.
pub const SPILL_BUFFERS: usize = 3;

/// A temporary file of f32 numbers that lives as long as this value; its name is gone from the beginning.
#[derive(Debug)]
pub struct SpillFile {
    file: File,
    buffers: Vec<Vec<f32>>,
}

/// What a pass does with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The work gets what the file holds; without, it gets what happens to be in the buffer and fills it.
    pub read: bool,
    /// The file gets what the work leaves.
    pub write: bool,
}

enum Request {
    Read(usize, Vec<f32>),
    Write(usize, Vec<f32>),
}

enum Response {
    Read(usize, Vec<f32>),
    Written(Vec<f32>),
}

impl SpillFile {
    /// A file in `dir` for micro-batches of up to `largest` numbers.
    ///
    /// # Errors
    /// When the file can not be made.
    pub fn new(dir: &Path, largest: usize) -> Result<SpillFile> {
        let file = tempfile::tempfile_in(dir).map_err(Error::Spill)?;
        Ok(SpillFile { file, buffers: vec![vec![0.0; largest]; SPILL_BUFFERS] })
    }

    /// Bytes of the buffers in memory.
    pub fn buffer_bytes(&self) -> u64 {
        let numbers: usize = self.buffers.iter().map(Vec::capacity).sum();
        (numbers * size_of::<f32>()) as u64
    }

    /// Calls `work` with every micro-batch in order; reading the next one and writing the last one happen
    /// meanwhile. A micro-batch is a list of places in the file, in numbers, and is given as one slice.
    /// Returns how long the work had to wait.
    ///
    /// # Errors
    /// The work's first error, or that of the file; what the file then holds is undefined.
    ///
    /// # Panics
    /// When a micro-batch is larger than promised: the caller's bug.
    pub fn pass<E: From<Error>>(
        &mut self,
        batches: &[Vec<Range<u64>>],
        pass: Pass,
        mut work: impl FnMut(usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<Duration, E> {
        let lengths: Vec<usize> = batches.iter().map(|it| length(it)).collect();
        let largest = self.buffers.iter().map(Vec::len).min().unwrap_or(0);
        assert!(lengths.iter().all(|&it| it <= largest), "a micro-batch is larger than promised");
        let mut free = std::mem::take(&mut self.buffers);
        let file = &self.file;
        let (waited, free) = std::thread::scope(|scope| {
            let (requests, incoming) = channel();
            let (outgoing, responses) = channel();
            let spawned = std::thread::Builder::new()
                .name("hidden-states".to_owned())
                .spawn_scoped(scope, move || serve(file, batches, &incoming, &outgoing));
            if let Err(error) = spawned {
                return (Err(Error::Spawn(error).into()), free);
            }
            let mut line =
                Line { requests, responses, asked: 0, writing: 0, batches: batches.len() };
            let waited = line.run(pass, &lengths, &mut free, &mut work);
            (waited, free)
        });
        self.buffers = free;
        // After an error a buffer may be lost with the thread that had it.
        self.buffers.resize_with(SPILL_BUFFERS, || vec![0.0; largest]);
        waited
    }
}

/// The caller's end of a pass.
struct Line {
    requests: Sender<Request>,
    responses: Receiver<Result<Response>>,
    /// Micro-batches that have been asked for.
    asked: usize,
    /// Micro-batches that are on their way to the file.
    writing: usize,
    batches: usize,
}

impl Line {
    fn run<E: From<Error>>(
        &mut self,
        pass: Pass,
        lengths: &[usize],
        free: &mut Vec<Vec<f32>>,
        work: &mut impl FnMut(usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<Duration, E> {
        let mut waited = Duration::ZERO;
        for (batch, &length) in lengths.iter().enumerate() {
            let started = Instant::now();
            let mut buffer = self.next(batch, pass, free)?;
            waited += started.elapsed();
            let worked = work(batch, &mut buffer[..length]);
            if pass.write && worked.is_ok() {
                self.writing += 1;
                self.send(Request::Write(batch, buffer))?;
            } else {
                free.push(buffer);
            }
            worked?;
        }
        let started = Instant::now();
        while self.writing > 0 {
            self.receive(free)?;
        }
        Ok(waited + started.elapsed())
    }

    /// The buffer of `batch`, with the next one asked for.
    fn next(&mut self, batch: usize, pass: Pass, free: &mut Vec<Vec<f32>>) -> Result<Vec<f32>> {
        let mut got = None;
        loop {
            if pass.read {
                while self.asked < self.batches.min(batch + 2)
                    && let Some(buffer) = free.pop()
                {
                    self.send(Request::Read(self.asked, buffer))?;
                    self.asked += 1;
                }
            } else if got.is_none() {
                got = free.pop();
            }
            if let Some(buffer) = got {
                return Ok(buffer);
            }
            got = self.receive(free)?.map(|(read, buffer)| {
                debug_assert_eq!(read, batch, "micro-batches come in order");
                buffer
            });
        }
    }

    /// Waits for one response; what was written gives its buffer back.
    fn receive(&mut self, free: &mut Vec<Vec<f32>>) -> Result<Option<(usize, Vec<f32>)>> {
        match self.responses.recv().map_err(|_| Error::ReaderGone)?? {
            Response::Read(batch, buffer) => Ok(Some((batch, buffer))),
            Response::Written(buffer) => {
                self.writing -= 1;
                free.push(buffer);
                Ok(None)
            }
        }
    }

    fn send(&self, request: Request) -> Result<()> {
        self.requests.send(request).map_err(|_| Error::ReaderGone)
    }
}

/// The file's end of a pass: one thread, requests in order.
fn serve(
    file: &File,
    batches: &[Vec<Range<u64>>],
    incoming: &Receiver<Request>,
    outgoing: &Sender<Result<Response>>,
) {
    for request in incoming {
        let response = match request {
            Request::Read(batch, mut buffer) => {
                let done = each_place(&batches[batch], &mut buffer, |part, at| {
                    read_exact_at(file, part, at)
                });
                done.map(|()| Response::Read(batch, buffer))
            }
            Request::Write(batch, mut buffer) => {
                let done = each_place(&batches[batch], &mut buffer, |part, at| {
                    write_all_at(file, part, at)
                });
                done.map(|()| Response::Written(buffer))
            }
        };
        // Nobody listens any more: the pass has ended, and after an error that is soon.
        if outgoing.send(response.map_err(Error::Spill)).is_err() {
            break;
        }
    }
}

fn each_place(
    places: &[Range<u64>],
    buffer: &mut [f32],
    mut act: impl FnMut(&mut [u8], u64) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut rest = buffer;
    for place in places {
        let (part, tail) = rest.split_at_mut((place.end - place.start) as usize);
        act(bytemuck::cast_slice_mut(part), place.start * size_of::<f32>() as u64)?;
        rest = tail;
    }
    Ok(())
}

fn length(places: &[Range<u64>]) -> usize {
    places.iter().map(|it| (it.end - it.start) as usize).sum()
}

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

// Other systems move the file's position: one thread at a time uses it.
#[cfg(not(unix))]
fn read_exact_at(mut file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Read as _, Seek as _};
    file.seek(std::io::SeekFrom::Start(offset))?;
    file.read_exact(out)
}

#[cfg(not(unix))]
fn write_all_at(mut file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Seek as _, Write as _};
    file.seek(std::io::SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITE: Pass = Pass { read: false, write: true };
    const BOTH: Pass = Pass { read: true, write: true };
    const READ: Pass = Pass { read: true, write: false };

    /// Sequences of the given lengths, one after the other, in micro-batches of `per_batch`; those that have
    /// left are not in any.
    fn batches(
        lengths: &[u64],
        stay: impl Fn(usize) -> bool,
        per_batch: usize,
    ) -> Vec<Vec<Range<u64>>> {
        let mut at = 0;
        let places = lengths.iter().map(|length| {
            at += length;
            at - length..at
        });
        let staying: Vec<Range<u64>> =
            places.enumerate().filter(|it| stay(it.0)).map(|it| it.1).collect();
        staying.chunks(per_batch).map(<[_]>::to_vec).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The file against a vector: written once, changed some passes by those who stay, read.
        #[test]
        fn equals_memory(
            lengths in prop::collection::vec(0u64..9, 1..20), per_batch in 1usize..5, passes in 0usize..4,
        ) {
            let total: u64 = lengths.iter().sum();
            let mut twin: Vec<f32> = (0..total).map(|it| it as f32).collect();
            let mut file = SpillFile::new(&std::env::temp_dir(), 9 * 5).expect("made");
            let all = batches(&lengths, |_| true, per_batch);
            let ok = |result: Result<Duration, Error>| result.map(|_| ()).map_err(|it| it.to_string());
            prop_assert_eq!(ok(file.pass(&all, WRITE, |batch, part| {
                let values = all[batch].iter().cloned().flatten();
                part.iter_mut().zip(values).for_each(|(it, value)| *it = value as f32);
                Ok(())
            })), Ok(()));
            for pass in 0..passes {
                let some = batches(&lengths, |it| it % (pass + 1) == 0, per_batch + pass % 2);
                for place in some.iter().flatten() {
                    twin[place.start as usize..place.end as usize].iter_mut().for_each(|it| *it += 0.5);
                }
                prop_assert_eq!(ok(file.pass(&some, BOTH, |_, part| {
                    part.iter_mut().for_each(|it| *it += 0.5);
                    Ok(())
                })), Ok(()));
            }
            let mut back = Vec::new();
            prop_assert_eq!(ok(file.pass(&all, READ, |_, part| {
                back.extend_from_slice(part);
                Ok(())
            })), Ok(()));
            prop_assert_eq!(back, twin);
        }
    }

    #[test]
    fn three_micro_batches_are_in_memory_and_an_error_ends_the_pass() {
        let mut file = SpillFile::new(&std::env::temp_dir(), 100).expect("made");
        assert_eq!(file.buffer_bytes(), 3 * 400);
        let all = batches(&[100; 20], |_| true, 1);
        let mut done = 0;
        let error = file.pass(&all, WRITE, |batch, _| {
            done += 1;
            if batch == 7 { Err(Error::ReaderGone) } else { Ok(()) }
        });
        assert!(matches!(error, Err(Error::ReaderGone)));
        assert_eq!((done, file.buffer_bytes()), (8, 3 * 400));
        // What was never written can not be read.
        let error = file.pass(&batches(&[100; 40], |_| true, 1), READ, |_, _| Ok::<(), Error>(()));
        assert!(matches!(error, Err(Error::Spill(_))), "{error:?}");
        assert_eq!(file.buffer_bytes(), 3 * 400);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(matches!(SpillFile::new(Path::new("/nowhere/at/all"), 1), Err(Error::Spill(_))));
    }
}
