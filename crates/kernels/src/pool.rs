//! The threads that compute.

use rayon::prelude::*;

/// A fixed set of threads; every kernel called inside [`run`](Pool::run) uses these and no others, so
/// two models in one process never oversubscribe the machine by accident.
#[derive(Debug)]
pub struct Pool(rayon::ThreadPool);

/// The operating system refused the threads.
#[derive(Debug, thiserror::Error)]
#[error("can not start {threads} compute threads: {source}")]
pub struct PoolError {
    threads: usize,
    source: rayon::ThreadPoolBuildError,
}

impl Pool {
    /// A pool of `threads` threads; 0 counts as 1.
    ///
    /// # Errors
    /// When the operating system refuses the threads.
    pub fn new(threads: usize) -> Result<Pool, PoolError> {
        let threads = threads.max(1);
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("compute-{i}"))
            .build()
            .map(Pool)
            .map_err(|source| PoolError { threads, source })
    }

    /// Runs `work` on the pool and waits for it; a panic inside is a panic of the caller.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.install(work)
    }

    /// What `work` makes of each item, in their order; the threads share the items.
    pub fn map<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Send + Sync,
    ) -> Vec<R> {
        self.run(|| items.par_iter().map(work).collect())
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }
}

/// Runs both, on threads of the current pool, and waits for them; a panic of either is a panic of the caller.
pub fn join<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    rayon::join(first, second)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn work_runs_on_the_pool_and_a_panic_leaves_it_usable() {
        let pool = Pool::new(0).expect("threads");
        assert_eq!(pool.threads(), 1);
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(pool.run(name).as_deref(), Some("compute-0"));
        let panicked = catch_unwind(AssertUnwindSafe(|| pool.run(|| panic!("kernel"))));
        assert!(panicked.is_err());
        assert_eq!(pool.run(|| 1 + 1), 2);
    }
}
