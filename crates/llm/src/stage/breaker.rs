//! Leaving a server alone that fails again and again, so that not every search waits for it in vain.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Counts failures in a row.
#[derive(Debug)]
pub(super) struct Breaker {
    failures: u32,
    rest: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failed: u32,
    rests_until: Option<Instant>,
}

/// It is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resting {
    /// Failures in a row.
    pub(super) failed: u32,
    /// Until it may be asked again.
    pub(super) left: Duration,
}

impl Breaker {
    pub(super) fn new(failures: u32, rest: Duration) -> Breaker {
        Breaker { failures: failures.max(1), rest, state: Mutex::default() }
    }

    /// Whether it may be asked now. After its rest one may ask, and the others wait for what becomes of that.
    pub(super) fn enter(&self, now: Instant) -> Result<(), Resting> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = state.rests_until else { return Ok(()) };
        if now < until {
            return Err(Resting { failed: state.failed, left: until - now });
        }
        state.rests_until = Some(now + self.rest);
        Ok(())
    }

    /// It has answered.
    pub(super) fn succeeded(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// It has not.
    pub(super) fn failed(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed = state.failed.saturating_add(1);
        if state.failed >= self.failures {
            state.rests_until = Some(now + self.rest);
        }
    }

    /// Nobody knows: whoever asked has gone.
    pub(super) fn left(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The one who may ask after a rest is the next one then.
        state.rests_until = state.rests_until.map(|_| now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(30);

    #[test]
    fn three_failures_in_a_row_and_it_rests_until_one_has_tried() {
        let (breaker, began) = (Breaker::new(3, REST), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        for _ in 0..2 {
            breaker.failed(began);
        }
        breaker.succeeded();
        for _ in 0..2 {
            breaker.failed(began);
            assert_eq!(breaker.enter(began), Ok(()), "not in a row");
        }
        breaker.failed(began);
        let left = Duration::from_secs(20);
        assert_eq!(breaker.enter(at(10)), Err(Resting { failed: 3, left }));
        // One may try, the others wait.
        assert_eq!(breaker.enter(at(30)), Ok(()));
        assert!(breaker.enter(at(31)).is_err());
        breaker.failed(at(32));
        assert!(breaker.enter(at(60)).is_err() && breaker.enter(at(62)).is_ok());
        breaker.left(at(63));
        assert_eq!(breaker.enter(at(63)), Ok(()));
        breaker.succeeded();
        assert_eq!((breaker.enter(at(64)), breaker.enter(at(64))), (Ok(()), Ok(())));
    }
}
