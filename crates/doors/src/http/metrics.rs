//! Figures in the text format of Prometheus: routes by their pattern, never by what was asked.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

use super::Door;
use crate::resident::Lane;

/// Upper ends of the classes of durations, in seconds: from what is in memory to a language model's answer.
const CLASSES: [f64; 10] = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Requests by route and status.
#[derive(Debug, Default)]
pub(super) struct Metrics(Mutex<BTreeMap<(&'static str, u16), Series>>);

#[derive(Debug, Default, Clone)]
struct Series {
    count: u64,
    seconds: f64,
    classes: [u64; CLASSES.len()],
}

impl Metrics {
    pub(super) fn count(&self, route: &'static str, status: StatusCode, time: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let series = all.entry((route, status.as_u16())).or_default();
        let seconds = time.as_secs_f64();
        series.count += 1;
        series.seconds += seconds;
        for (class, end) in series.classes.iter_mut().zip(CLASSES) {
            *class += u64::from(seconds <= end);
        }
    }

    fn text(&self) -> String {
        const NAME: &str = "riddle_http_request_seconds";
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text =
            format!("# HELP {NAME} Time until a response began.\n# TYPE {NAME} histogram\n");
        for ((route, status), series) in all {
            let labels = format!("route=\"{route}\",status=\"{status}\"");
            let counts = CLASSES.iter().map(ToString::to_string).zip(series.classes);
            for (end, count) in counts.chain([("+Inf".to_owned(), series.count)]) {
                let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"{end}\"}} {count}");
            }
            let _ = writeln!(text, "{NAME}_sum{{{labels}}} {}", series.seconds);
            let _ = writeln!(text, "{NAME}_count{{{labels}}} {}", series.count);
        }
        text
    }
}

pub(super) async fn metrics(State(door): State<Door>) -> Response {
    let load = door.resident.load();
    // Whoever opens a model holds it meanwhile: that is waited for on another thread than this.
    let weights = door.run(Lane::Catalog, "metrics", |it, _| Ok(it.resident_weight_bytes()));
    let weights = weights.await.unwrap_or_default();
    let memory = riddle_metrics::memory();
    let mut text = door.metrics.text();
    for (name, kind, help, value) in [
        ("riddle_queue_waiting", "gauge", "Requests that wait.", load.waiting as u64),
        ("riddle_queue_running", "gauge", "Requests that are computed.", load.running as u64),
        (
            "riddle_reranks_together_total",
            "counter",
            "Reranks that shared their forward with others.",
            door.batch.together(),
        ),
        ("riddle_queue_done_total", "counter", "Requests that were computed.", load.done),
        ("riddle_model_weight_bytes", "gauge", "Model weights in memory.", weights),
        ("riddle_peak_memory_bytes", "gauge", "Most memory of the process.", memory.peak_rss_bytes),
        ("riddle_uptime_seconds", "gauge", "Since the start.", door.started.elapsed().as_secs()),
    ] {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[test]
fn classes_add_up() {
    let metrics = Metrics::default();
    for ms in [1, 30, 700] {
        metrics.count("/health", StatusCode::OK, Duration::from_millis(ms));
    }
    let text = metrics.text();
    for line in [
        "riddle_http_request_seconds_bucket{route=\"/health\",status=\"200\",le=\"0.005\"} 1\n",
        "riddle_http_request_seconds_bucket{route=\"/health\",status=\"200\",le=\"0.05\"} 2\n",
        "riddle_http_request_seconds_bucket{route=\"/health\",status=\"200\",le=\"+Inf\"} 3\n",
        "riddle_http_request_seconds_count{route=\"/health\",status=\"200\"} 3\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}
