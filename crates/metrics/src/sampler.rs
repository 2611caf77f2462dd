//! Memory of this process while something runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::memory;

/// Memory at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Milliseconds since the beginning.
    pub ms: f64,
    /// Bytes resident.
    pub rss_bytes: u64,
}

/// Often enough to see a layer's buffers come and go, seldom enough not to be seen in the times: a reading
/// takes about 30 µs.
const EVERY: Duration = Duration::from_millis(8);

/// Runs `work` and reads this process's resident memory meanwhile; at least once before and once after. Empty
/// where the system does not tell.
pub fn sample_memory<T>(work: impl FnOnce() -> T) -> (T, Vec<Sample>) {
    let done = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let read = move || {
        let rss_bytes = memory().rss_bytes?;
        Some(Sample { ms: started.elapsed().as_secs_f64() * 1e3, rss_bytes })
    };
    let mut samples: Vec<Sample> = read().into_iter().collect();
    let sampler = std::thread::Builder::new().name("memory".to_owned()).spawn({
        let done = Arc::clone(&done);
        move || {
            let mut samples = Vec::new();
            while !done.load(Ordering::Acquire) {
                std::thread::park_timeout(EVERY);
                samples.extend(read());
            }
            samples
        }
    });
    let value = work();
    done.store(true, Ordering::Release);
    // Without a thread to spare the two readings around the work remain.
    if let Ok(sampler) = sampler {
        sampler.thread().unpark();
        samples.extend(sampler.join().unwrap_or_default());
    }
    samples.extend(read());
    (value, samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_comes_and_goes_is_seen() {
        let (sum, samples) = sample_memory(|| {
            let block = vec![1u8; 96 << 20];
            std::thread::sleep(EVERY * 4);
            block.iter().map(|&it| u64::from(it)).sum::<u64>()
        });
        assert_eq!(sum, 96 << 20);
        if let Some(first) = samples.first() {
            let peak = samples.iter().map(|it| it.rss_bytes).max().expect("samples");
            assert!(peak >= first.rss_bytes + (64 << 20), "{samples:?}");
            assert!(samples.windows(2).all(|it| it[0].ms <= it[1].ms));
        }
    }
}
