//! Asking a server within a budget: on a thread of its own, with tries, pauses and limits, and never after it is over.

use std::{
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use ureq::Agent;

use super::{
    StageOptions,
    breaker::{Breaker, Resting},
    scores::json,
};
use crate::{
    Endpoint, Error, Lie, Result,
    agent::{Timeouts, agent, failure, is_timeout},
    stream::message_of,
};

/// How often it is looked whether the caller still waits.
const HEARTBEAT: Duration = Duration::from_millis(20);

/// Most bytes of a refusal that are read.
const LONGEST_REFUSAL: u64 = 64 << 10;

/// What a request has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageCost {
    /// Requests that were answered.
    pub calls: u32,
    /// Requests that were sent.
    pub tries: u32,
    /// Bytes that were sent, without their heads.
    pub sent_bytes: u64,
    /// Milliseconds from the first to the last byte.
    pub ms: f64,
}

/// How long a caller waits, and how it says that it no longer does.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    pub(super) budget: Duration,
    pub(super) stop: Option<&'a AtomicBool>,
}

/// One request of the caller's, which may be several of the server.
pub(super) struct Caller {
    agent: Agent,
    endpoint: Endpoint,
    options: StageOptions,
    until: Instant,
    budget: Duration,
    over: Arc<AtomicBool>,
    pub(super) cost: StageCost,
}

/// Why a try failed.
enum Failure {
    /// The same question may be answered later, after that pause if the server asks for one.
    Passing(Error, Option<Duration>),
    /// It will not.
    Lasting(Error),
}

/// Has `work` ask the server, and waits for it: not longer than the budget, and no longer than the caller does. A
/// server that rests is not asked.
pub(super) fn asked<T: Send + 'static>(
    (endpoint, options, breaker): (&Endpoint, &StageOptions, &Breaker),
    patience: Patience<'_>,
    work: impl FnOnce(&mut Caller) -> Result<T> + Send + 'static,
) -> Result<(T, StageCost)> {
    let url = || endpoint.shown.clone();
    let started = Instant::now();
    breaker.enter(started).map_err(|Resting { failed, left }| Error::Resting {
        url: url(),
        failures: failed,
        seconds: left.as_secs().max(1),
    })?;
    let budget = patience.budget;
    let connect = options.connect_timeout.min(budget);
    let agent = agent(endpoint.is_local(), Timeouts { connect, send: budget, silence: budget });
    let over = Arc::new(AtomicBool::new(false));
    let mut caller = Caller {
        agent: agent.clone(),
        endpoint: endpoint.clone(),
        options: options.clone(),
        until: started + budget,
        budget,
        over: Arc::clone(&over),
        cost: StageCost::default(),
    };
    let (tell, told) = channel();
    // Waiting for a server blocks; the caller must be able to go all the same.
    std::thread::Builder::new()
        .name("stage".to_owned())
        .spawn(move || {
            let done = work(&mut caller);
            // Whoever waited may have gone.
            let _ = tell.send(done.map(|it| (it, caller.cost)));
        })
        .map_err(Error::Thread)?;
    let is_stopped = || patience.stop.is_some_and(|it| it.load(Ordering::Acquire));
    let done = loop {
        match told.recv_timeout(HEARTBEAT) {
            Ok(done) => break done,
            Err(RecvTimeoutError::Timeout) if is_stopped() => break Err(Error::Stopped),
            Err(RecvTimeoutError::Timeout) if started.elapsed() >= budget => {
                break Err(Error::Late { url: url(), seconds: budget.as_secs_f64() });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                break Err(Error::Panicked("the thread that asks a server".to_owned()));
            }
        }
    };
    // Whatever is still under way ends here, and nothing more is sent.
    over.store(true, Ordering::Release);
    agent.shutdown();
    match &done {
        Ok(_) => breaker.succeeded(),
        Err(Error::Stopped) => breaker.left(Instant::now()),
        Err(_) => breaker.failed(Instant::now()),
    }
    let ms = started.elapsed().as_secs_f64() * 1e3;
    done.map(|(it, cost)| (it, StageCost { ms, ..cost }))
}

impl Caller {
    /// The JSON that the server answers to `body`, of at most `limit` bytes.
    pub(super) fn ask(&mut self, body: &Value, limit: u64) -> Result<Value> {
        let body = body.to_string();
        let mut tried = 1;
        loop {
            self.in_time()?;
            self.cost.tries += 1;
            self.cost.sent_bytes += body.len() as u64;
            let (error, pause) = match self.once(body.as_bytes(), limit) {
                Ok(answer) => {
                    self.cost.calls += 1;
                    return json(&answer).map_err(|lie| self.lies(lie));
                }
                Err(Failure::Passing(error, pause)) if tried < self.options.tries => (error, pause),
                Err(Failure::Passing(error, _) | Failure::Lasting(error)) => return Err(error),
            };
            // The sixth doubling is past any budget for a sensible start.
            let own = self.options.pause.saturating_mul(1 << (tried - 1).min(6));
            let pause = pause.unwrap_or(own);
            // To wait for longer than there is time would only be late, too.
            if pause >= self.until.saturating_duration_since(Instant::now()) {
                return Err(error);
            }
            tracing::debug!(%error, tried, "the server is asked again");
            std::thread::sleep(pause);
            tried += 1;
        }
    }

    /// An answer that is none.
    pub(super) fn lies(&self, lie: Lie) -> Error {
        Error::Answer { url: self.endpoint.shown.clone(), lie }
    }

    fn in_time(&self) -> Result<()> {
        if self.over.load(Ordering::Acquire) {
            return Err(Error::Stopped);
        }
        if Instant::now() >= self.until {
            let (url, seconds) = (self.endpoint.shown.clone(), self.budget.as_secs_f64());
            return Err(Error::Late { url, seconds });
        }
        Ok(())
    }

    fn once(&self, body: &[u8], limit: u64) -> Result<Vec<u8>, Failure> {
        let mut request = self
            .agent
            .post(&self.endpoint.url)
            .header("content-type", "application/json")
            .header("accept", "application/json");
        if let Some(key) = &self.options.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let response = request.send(body).map_err(|it| self.failed(it))?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|it| it.to_str().ok());
        let pause = header("retry-after").and_then(|it| it.trim().parse().ok());
        let reader = response.into_body().into_reader();
        let mut answer = Vec::new();
        if status != 200 {
            // A refusal that can not be read is a refusal all the same.
            let _ = reader.take(LONGEST_REFUSAL).read_to_end(&mut answer);
            return Err(self.refused(status, pause.map(Duration::from_secs), &answer));
        }
        reader.take(limit + 1).read_to_end(&mut answer).map_err(|error| {
            let url = self.endpoint.shown.clone();
            if is_timeout(&error) {
                return Failure::Lasting(Error::Silent { url, seconds: self.budget.as_secs() });
            }
            Failure::Passing(Error::Connection { url, why: error.to_string() }, None)
        })?;
        if answer.len() as u64 > limit {
            return Err(Failure::Lasting(self.lies(Lie::TooLarge { limit })));
        }
        Ok(answer)
    }

    fn failed(&self, error: ureq::Error) -> Failure {
        let (error, passes) = failure(error, &self.endpoint.shown, self.budget);
        if passes { Failure::Passing(error, None) } else { Failure::Lasting(error) }
    }

    fn refused(&self, status: u16, pause: Option<Duration>, body: &[u8]) -> Failure {
        let message = serde_json::from_slice(body).map_or(String::new(), |it| message_of(&it));
        let hint = match status {
            // The advice says it.
            401 | 403 => None,
            404 | 405 => Some("check its address, and the name of the model if one is given"),
            402 => Some("the account has no credit left"),
            413 => Some("a single passage is too long for it"),
            429 => Some("it is asked too much at once"),
            300..=399 => {
                Some("it redirects, and passages are sent nowhere but to the address given")
            }
            500..=599 => Some("it has a problem of its own: its log may say more"),
            _ => Some("it does not take this request"),
        };
        let url = self.endpoint.shown.clone();
        let error = Error::Refused { url, status, message, hint };
        match status {
            408 | 425 | 429 | 500 | 502..=504 => Failure::Passing(error, pause),
            _ => Failure::Lasting(error),
        }
    }
}
