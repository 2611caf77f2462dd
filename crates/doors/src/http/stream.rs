//! Answers in pieces: server-sent events.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, header},
    response::Response,
};
use hyper::body::Frame;
use riddle_rag::Assistant;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Door;
use crate::{
    cancel::{Cancel, CancelOnDrop},
    error::{Error, Result},
    resident::Lane,
    words,
};

/// Where events go; an answer's length is bounded, so what waits here is, too.
#[derive(Debug, Clone)]
pub(super) struct Events(UnboundedSender<Told>);

#[derive(Debug)]
enum Told {
    Text(String),
    /// The work was not begun.
    Refused(Error),
}

impl Events {
    /// An event without a name, as OpenAI has it.
    pub(super) fn data(&self, data: &str) {
        self.send(format!("data: {data}\n\n"));
    }

    pub(super) fn named(&self, name: &str, data: &Value) {
        self.send(format!("event: {name}\ndata: {data}\n\n"));
    }

    fn send(&self, text: String) {
        // A receiver that is gone belongs to a client that is: its work is being stopped.
        let _ = self.0.send(Told::Text(text));
    }
}

/// Has something computed and told in events. `finish` tells the end.
///
/// # Errors
/// When the work was not begun, or failed before it had told anything.
pub(super) async fn events<T: Send + 'static>(
    door: &Door,
    client: &str,
    work: impl FnOnce(&Assistant, &Cancel, &Events) -> Result<T> + Send + 'static,
    finish: impl FnOnce(std::result::Result<T, String>, &Events) + Send + 'static,
) -> Result<Response> {
    let cancel = Cancel::default();
    let gone = cancel.on_drop();
    let (sender, mut receiver) = unbounded_channel();
    let (out, end) = (Events(sender.clone()), Events(sender));
    let work = move |assistant: &Assistant, cancel: &Cancel| work(assistant, cancel, &out);
    let begun = move |done: Result<T>| match done {
        Err(error) => {
            // Whoever has seen nothing yet is told by the status, everybody else by an event.
            let words = words::error(&error);
            let _ = end.0.send(Told::Refused(error));
            finish(Err(words), &end);
        }
        Ok(done) => finish(Ok(done), &end),
    };
    door.resident.submit(Lane::Models, client, cancel, work, begun);
    let first = match receiver.recv().await {
        Some(Told::Text(text)) => text,
        Some(Told::Refused(error)) => return Err(error),
        None => return Err(Error::Stopped),
    };
    let body = Pieces { first: Some(first), receiver, _gone: gone };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The body; dropping it stops the work.
struct Pieces {
    first: Option<String>,
    receiver: UnboundedReceiver<Told>,
    _gone: CancelOnDrop,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(first)))));
        }
        loop {
            match self.receiver.poll_recv(context) {
                Poll::Ready(Some(Told::Text(text))) => {
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))));
                }
                // The event of the error comes next.
                Poll::Ready(Some(Told::Refused(_))) => {}
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
