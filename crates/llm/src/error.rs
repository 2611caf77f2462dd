//! What can go wrong with a language model, in words that say what to do.

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a language model. Addresses are shown without what is secret in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller stopped while a model was opened, or a server was asked.
    #[error("stopped before it was done")]
    Stopped,
    /// The address is not one of an endpoint.
    #[error("{address:?} is not the address of an endpoint: {why}")]
    Address {
        /// As given, without secrets.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The key would travel where anybody can read it.
    #[error(
        "the key is not sent to {url}, which is not encrypted: use https, or leave the key away"
    )]
    OpenKey {
        /// The endpoint.
        url: String,
    },
    /// Network access was switched off.
    #[error("{url} is not asked: the network is switched off")]
    Offline {
        /// The endpoint.
        url: String,
    },
    /// No server answers at the address.
    #[error("{url} can not be reached ({why}): is the server running, and is the address right?")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// What the system says.
        why: String,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("the connection to {url} failed: {why}")]
    Connection {
        /// The endpoint.
        url: String,
        /// What the system says.
        why: String,
    },
    /// It says nothing.
    #[error(
        "{url} has said nothing for {seconds} s: it may be loading a model or be overloaded, ask again later"
    )]
    Silent {
        /// The endpoint.
        url: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It refuses.
    #[error("{url} answered {status}{}{}", said(message), hinted(*hint))]
    Status {
        /// The endpoint.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the server says about it.
        message: String,
        /// What that means here, where advice does not say it.
        hint: Option<&'static str>,
    },
    /// It does not speak the protocol.
    #[error("{url} does not answer as OpenAI-compatible servers do: {why}")]
    Protocol {
        /// The endpoint.
        url: String,
        /// What came instead.
        why: String,
    },
    /// A server that does a stage of a search refuses.
    #[error("{url} answered {status}{}{}", said(message), hinted(*hint))]
    Refused {
        /// The endpoint.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the server says about it.
        message: String,
        /// What that means here, where advice does not say it.
        hint: Option<&'static str>,
    },
    /// What it answers is no answer.
    #[error("{url} does not answer as servers of its kind do: {lie}")]
    Answer {
        /// The endpoint.
        url: String,
        /// What is wrong with the answer.
        lie: Lie,
    },
    /// It was not done in time.
    #[error("{url} was not done within {seconds:.1} s")]
    Late {
        /// The endpoint.
        url: String,
        /// The time that it was given.
        seconds: f64,
    },
    /// It has failed so often that it is left alone for a while.
    #[error("{url} has failed {failures} times in a row and is not asked for another {seconds} s")]
    Resting {
        /// The endpoint.
        url: String,
        /// Failures in a row.
        failures: u32,
        /// Until it is asked again.
        seconds: u64,
    },
    /// The model's file.
    #[error(transparent)]
    Model(Box<riddle_transformer::Error>),
    /// Its layers can not be read.
    #[error(transparent)]
    Layers(Box<riddle_offload::Error>),
    /// The model does not fit the memory it is given.
    #[error(
        "the model needs at least {least} MB of memory to run, the budget is {budget} MB: give it more, or choose a smaller model"
    )]
    Budget {
        /// The smallest budget that would do, in MB.
        least: u64,
        /// The budget, in MB.
        budget: u64,
    },
    /// The small model that is to guess has other tokens.
    #[error("{draft} can not guess for {model}: {why}, choose a small model of the same family")]
    Draft {
        /// The small model.
        draft: String,
        /// The one that writes.
        model: String,
        /// How their tokens differ.
        why: String,
    },
    /// The chat template of the model can not be used.
    #[error("the model's chat template can not be used: {why}")]
    Template {
        /// What is wrong with it.
        why: String,
    },
    /// A number of the sampling is out of its range.
    #[error("{name} must be {range}")]
    Sampling {
        /// The setting's name.
        name: &'static str,
        /// Values that it may have.
        range: &'static str,
    },
    /// The question alone is longer than the context.
    #[error(
        "the question takes {tokens} tokens, the model's context has room for {room}: ask in fewer words, or allow a longer context"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that fit.
        room: usize,
    },
    /// Computing was ended by a panic.
    #[error("the model was unloaded after an internal error: {0}; ask again")]
    Panicked(String),
    /// The threads that compute.
    #[error(transparent)]
    Pool(#[from] riddle_kernels::PoolError),
    /// The text given can not be a key.
    #[error("this is not a key: {0}")]
    BadKey(&'static str),
    /// This system has no secret store, or none that can be reached.
    #[error("no secret store can be used here ({why})")]
    NoSecretStore {
        /// What the system says.
        why: String,
    },
    /// The secret store is there and does not do what it is asked.
    #[error("the secret store did not do it: {why}")]
    SecretStore {
        /// What it says, and what to do.
        why: String,
    },
    /// The system gives no thread.
    #[error("no thread can be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// In which way an answer is not one: one for each.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Lie {
    /// It goes on and on.
    #[error("the answer has more than {limit} bytes")]
    TooLarge {
        /// Most that such an answer may have.
        limit: u64,
    },
    /// It ends in the middle.
    #[error("the answer ends in the middle")]
    CutOff,
    /// It is no JSON, as a page for people.
    #[error("the answer is no JSON, it begins with {begins:?}")]
    NotJson {
        /// Its first characters.
        begins: String,
    },
    /// It is JSON of another shape.
    #[error("the answer has no {missing}")]
    Shape {
        /// What is not there.
        missing: &'static str,
    },
    /// It is about fewer or more texts than were sent.
    #[error("{given} of {wanted} results")]
    Count {
        /// Results in it.
        given: usize,
        /// Texts that were sent.
        wanted: usize,
    },
    /// It is about a text that was not sent.
    #[error("a result for text {index} of {wanted}")]
    Index {
        /// The text's number, from 0.
        index: u64,
        /// Texts that were sent.
        wanted: usize,
    },
    /// It judges a text twice.
    #[error("two results for text {index}")]
    Twice {
        /// The text's number, from 0.
        index: usize,
    },
    /// A vector is shorter or longer than it must be.
    #[error("the vector of text {index} has {given} numbers and not {wanted}")]
    Dimensions {
        /// The text's number, from 0.
        index: usize,
        /// Numbers in it.
        given: usize,
        /// Numbers that vectors of this model have.
        wanted: usize,
    },
    /// A vector is none that a model makes: it is empty, or longer than any.
    #[error("the vector of text {index} has {given} numbers")]
    NoVector {
        /// The text's number, from 0.
        index: usize,
        /// Numbers in it.
        given: usize,
    },
    /// A vector points nowhere: nothing is near to it or far from it.
    #[error("the vector of text {index} has no direction")]
    NoDirection {
        /// The text's number, from 0.
        index: usize,
    },
    /// Vectors came packed, although numbers were asked for.
    #[error("the vectors are packed as base64, and numbers were asked for")]
    Packed,
    /// A number is none, or too large for one.
    #[error("what it says of text {index} is no number")]
    NotFinite {
        /// The text's number, from 0.
        index: usize,
    },
}

impl From<riddle_transformer::Error> for Error {
    fn from(error: riddle_transformer::Error) -> Error {
        Error::Model(Box::new(error))
    }
}

impl From<riddle_offload::Error> for Error {
    fn from(error: riddle_offload::Error) -> Error {
        match error {
            riddle_offload::Error::Stopped => Error::Stopped,
            error => Error::Layers(Box::new(error)),
        }
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(" ({message})") }
}

fn hinted(hint: Option<&str>) -> String {
    hint.map_or(String::new(), |it| format!(": {it}"))
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Status { status: 401 | 403, .. } => Some(Advice::GiveKey),
            Error::Status { status: 400 | 422, .. } => Some(Advice::GiveContext),
            Error::Refused { status: 401 | 403, .. } => Some(Advice::GiveServerKey),
            Error::NoSecretStore { .. } => Some(Advice::GiveKeyElsewhere),
            Error::Model(error) => error.advice(),
            Error::Layers(error) => error.advice(),
            _ => None,
        }
    }
}
