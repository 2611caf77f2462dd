//! `riddle rerank`: the engine alone.

use std::{
    fs::File,
    io::{BufRead, BufReader, IsTerminal as _, Read},
    ops::ControlFlow,
    path::Path,
};

use riddle_rag::{
    Error,
    rerank::{
        Mode, Pruning, RequestReranker, RerankRequest, RerankResponse, RerankSettings, Trace,
        TraceRecorder,
    },
    servers::StageServer,
};
use riddle_types::{LayerEvent, LayerObserver, Prior, SilentObserver};
use serde_json::{Value, json};

use crate::{
    args::RerankArgs,
    context::Context,
    failure::Failure,
    measures::{Times, say, with_measures},
    progress::Progress,
    show, words,
};

/// Largest request that is read: a thousand documents of 64 KB. More is a mistake, not a request.
pub(crate) const MAX_REQUEST_BYTES: u64 = 64 << 20;

/// Reads a request, reranks, prints the response: always JSON.
pub(crate) fn run(args: &RerankArgs, context: &Context) -> Result<(), Failure> {
    let settings = args.settings();
    if args.trace.is_some() && StageServer::of(&args.model).is_some() {
        return Err(Failure::usage("a server tells of no layers: leave out --trace"));
    }
    let mut reranker =
        RequestReranker::new(&context.config, &args.model, &settings, args.raw_scores)?;
    let source = Source::open(args.request.as_deref())?;
    if args.lines {
        return answer_lines(source, &mut reranker, context);
    }
    let request = source.request()?;
    let mut watch = Watch::new(context, args.trace.is_some());
    let response = reranker.rerank(&request, &mut watch);
    watch.progress.clear();
    let response = response?;
    if let (Some(file), Some(recorder)) = (&args.trace, watch.recorder) {
        let num_layers = num_layers(args, context)?;
        write_trace(file, &recorder.into_trace(num_layers, response.threshold))?;
    }
    context.out.json(&value(&response)?)
}

/// A response as it is printed.
fn value(response: &RerankResponse) -> serde_json::Result<Value> {
    let mut value = with_measures(response, &Times::new())?;
    if !response.notices.is_empty() {
        say(&mut value, "notices", response.notices.iter().map(words::notice));
    }
    Ok(value)
}

/// Answers a request per line until there are no more. A request that can not be answered costs the others nothing:
/// its answer is `{"error": …}`.
fn answer_lines(
    mut source: Source,
    reranker: &mut RequestReranker<'_>,
    context: &Context,
) -> Result<(), Failure> {
    let (mut number, mut failed) = (0_u64, 0_u64);
    loop {
        let line = source.line()?;
        if line.is_empty() {
            break;
        }
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = answer_line(&line, reranker, context)?.unwrap_or_else(|why| {
            failed += 1;
            json!({"error": format!("line {number}: {why}")})
        });
        context.out.line(answer)?;
    }
    if failed > 0 {
        return Err(Failure::run(format!(
            "{failed} of {number} lines could not be answered: their answers say why"
        )));
    }
    Ok(())
}

/// The response to a request, or why this one can not be answered.
///
/// # Errors
/// Only trouble that would keep every other request from being answered, too.
fn answer_line(
    line: &[u8],
    reranker: &mut RequestReranker<'_>,
    context: &Context,
) -> Result<Result<Value, String>, Failure> {
    let request = match parse_request(line) {
        Ok(request) => request,
        Err(why) => return Ok(Err(why)),
    };
    let mut watch = Watch::new(context, false);
    let response = reranker.rerank(&request, &mut watch);
    watch.progress.clear();
    match response {
        Ok(response) => Ok(Ok(value(&response)?)),
        Err(error @ Error::Stage { .. }) if !context.stopped() => Ok(Err(words::told(&error))),
        Err(error) => Err(error.into()),
    }
}

/// Shows how far a run is and which results are certain already, keeps its layers if they are wanted, and
/// stops it at Ctrl-C.
struct Watch<'a> {
    context: &'a Context,
    progress: Progress,
    recorder: Option<TraceRecorder>,
    settled: usize,
}

impl<'a> Watch<'a> {
    fn new(context: &'a Context, record: bool) -> Watch<'a> {
        let recorder = record.then(TraceRecorder::default);
        Watch { context, progress: Progress::new(), recorder, settled: 0 }
    }
}

impl LayerObserver for Watch<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.settled += event.accepted.len();
        let left = event.accepted.len() + event.dropped.len();
        self.progress.layer(event.layer, event.active.len() - left, self.settled);
        if self.context.stopped() {
            return ControlFlow::Break(());
        }
        match &mut self.recorder {
            Some(recorder) => recorder.on_layer(event),
            None => ControlFlow::Continue(()),
        }
    }

    fn on_prior(&mut self, prior: Prior<'_>, dropped: &[usize]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.on_prior(prior, dropped);
        }
    }
}

/// Layers of the model: a pruned run may have ended before the last one.
fn num_layers(args: &RerankArgs, context: &Context) -> Result<u32, Failure> {
    let full = RerankSettings { mode: Mode::Off, pruning: Pruning::Never, ..args.settings() };
    let engine = riddle_rag::rerank::open_reranker(&context.config, &args.model, &full, 0)?;
    // Without candidates nothing is computed; the figures of the model are there all the same.
    let outcome = engine.rerank("layers", &[], 0, &mut SilentObserver).map_err(Failure::from)?;
    Ok(outcome.stats.num_layers)
}

/// Where requests come from, and how messages call it.
struct Source {
    name: String,
    from: Box<dyn BufRead>,
}

impl Source {
    fn open(path: Option<&Path>) -> Result<Source, Failure> {
        let Some(path) = path else {
            if std::io::stdin().is_terminal() {
                return Err(Failure::usage(
                    "the request comes from a file or stdin: riddle rerank < request.json",
                ));
            }
            return Ok(Source {
                name: "stdin".to_owned(),
                from: Box::new(std::io::stdin().lock()),
            });
        };
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| {
            let reason = show::io_reason(&error);
            Failure::run(format!("{name}: {reason}: give the file with the request"))
        })?;
        Ok(Source { name, from: Box::new(BufReader::new(file)) })
    }

    /// All of it as one request.
    fn request(self) -> Result<RerankRequest, Failure> {
        let Source { name, from } = self;
        let text = read_limited(from)
            .map_err(|error| Failure::run(format!("{name}: {}", show::io_reason(&error))))?;
        parse_request(&text).map_err(|why| Failure::run(format!("{name}: {why}")))
    }

    /// The next line with its end; nothing where there is no more.
    fn line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let length = (&mut self.from).take(MAX_REQUEST_BYTES + 1).read_until(b'\n', &mut line);
        length
            .and_then(|_| within_limit(line))
            .map_err(|error| Failure::run(format!("{}: {}", self.name, show::io_reason(&error))))
    }
}

pub(crate) fn parse_request(text: &[u8]) -> Result<RerankRequest, String> {
    const SHAPE: &str = r#"a request is {"query": "…", "documents": ["…", {"id": "…", "text": "…", "cosine": 0.5}], "top_n": 10}"#;
    serde_json::from_slice(text).map_err(|error| format!("{error}: {SHAPE}"))
}

fn read_limited(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_REQUEST_BYTES + 1).read_to_end(&mut bytes)?;
    within_limit(bytes)
}

fn within_limit(bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if bytes.len() as u64 > MAX_REQUEST_BYTES {
        let why = format!("a request is larger than {} MiB", MAX_REQUEST_BYTES >> 20);
        return Err(std::io::Error::other(why));
    }
    Ok(bytes)
}

fn write_trace(path: &Path, trace: &Trace) -> Result<(), Failure> {
    let text = serde_json::to_vec(trace)?;
    std::fs::write(path, text).map_err(|error| {
        Failure::run(format!(
            "{}: the trace can not be written: {}",
            path.display(),
            show::io_reason(&error)
        ))
    })
}

#[cfg(test)]
mod tests {
    use riddle_rag::rerank::RerankDocument;

    use super::*;

    #[test]
    fn both_kinds_of_documents_are_read() {
        let text = br#"{"query": "q", "documents": ["a", {"id": 7, "text": "b", "extra": 1}], "model": "x"}"#;
        let request = parse_request(text).expect("a request");
        assert_eq!(request.top_n, None);
        assert_eq!(request.documents[0], RerankDocument::Text("a".to_owned()));
        let named = RerankDocument::Named {
            id: Some(7.into()),
            text: "b".to_owned(),
            cosine: None,
            keyword: None,
            sparse: None,
        };
        assert_eq!(request.documents[1], named);
    }

    #[test]
    fn what_is_no_request_is_told_the_shape() {
        for text in [
            &b""[..],
            b"{",
            b"[]",
            b"{\"query\": 1, \"documents\": []}",
            b"{\"documents\": []}",
            b"\xff",
        ] {
            let error = parse_request(text).expect_err("no request");
            assert!(error.contains("a request is {\"query\""), "{error}");
        }
    }

    #[test]
    fn too_much_is_refused() {
        let error = read_limited(std::io::repeat(b' ')).expect_err("endless").to_string();
        assert!(error.contains("64 MiB"), "{error}");
    }
}
