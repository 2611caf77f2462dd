//! A server that embeds in the place of a model on this machine.
//!
//! It is no [`Embedder`](riddle_types::Embedder): nobody sends it a text without saying so. What is searched for and
//! the passages of the home are sent, each by a function of its own; what programs embed through this one, what answers
//! are judged by and what is prepared while nobody waits is not.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use riddle_catalog::{Catalog, Embeds};
use riddle_embedding::known_prefixes;
use riddle_llm::{Embeddings, Endpoint, RemoteEmbedder, StageOptions};
use riddle_types::{Advice, Trouble};
use serde::{Deserialize, Serialize};

use super::{
    config::Config,
    cosines::{self, CosineLevels},
    endpoints::{allowed_embedder, bad, kept_key},
    open_servers::OpenServer,
    settings::{EMBEDDED_WITH, EMBEDDER_NUMBERS, EMBEDDER_SETTING},
};
use crate::contract::{EmbedPrompts, Error, RemoteStage, Result, StageServer};

/// Setting: what is known of servers that embed or did, as JSON.
const SERVERS_SETTING: &str = "embedding_servers";

/// Where a local embedder's identity says how it pools.
const POOLED_BY: &str = "server";

/// What a server is asked when it is chosen, beside what its cosines are measured with: nothing of the person's.
const PROBE: &str = "The sky over the harbor is blue.";

/// Cosine of two vectors of the same text from which they are by the same model. Number formats, down to four bits,
/// move one by some hundredths; two models have nothing in common.
const SAME_MODEL: f32 = 0.9;

/// Time for a batch of passages: a server may have to load the model first, and may have no graphics card.
const PASSAGES_BUDGET: Duration = Duration::from_secs(120);

/// Time for the first request, at which somebody looks: long enough for most models to be loaded.
const CHOICE_BUDGET: Duration = Duration::from_secs(60);

/// Time for a query: who searches sees what words find when it is over.
const QUERY_BUDGET: Duration = Duration::from_secs(5);

/// What was found out when a server was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Address, and behind a `#` the model there.
    name: String,
    dimensions: usize,
    prompts: EmbedPrompts,
    /// Its vector of [`PROBE`].
    probe: Vec<f32>,
}

impl Known {
    /// Name of the model there, the same at every address. Ollama calls the version that is taken without one `latest`.
    fn model(&self) -> String {
        let model = StageServer::of(&self.name).and_then(|it| it.model).unwrap_or_default();
        model.strip_suffix(":latest").unwrap_or(&model).to_owned()
    }

    /// As those of models here, in parts: the name, and what else decides what a vector is. Not the address: a model is
    /// the same wherever it runs.
    fn id(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for prompt in [&self.prompts.query, &self.prompts.passage] {
            hash.update(&(prompt.len() as u64).to_le_bytes()).update(prompt.as_bytes());
        }
        let digest = hash.finalize().to_hex();
        format!("{}/{}/{POOLED_BY}/{}", self.model(), self.dimensions, &digest[..8])
    }
}

fn known_servers(catalog: &Catalog) -> Result<Vec<Known>> {
    let setting = catalog.setting(SERVERS_SETTING)?.unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&setting).map_err(|it| {
        let what = format!("the list of servers that embed can not be read: {it}");
        Error::BadRequest(Trouble::with(what, Advice::ListModels))
    })
}

/// Where vectors are made, as the home is set.
pub(crate) fn embeds(catalog: &Catalog) -> Result<Embeds> {
    let server = catalog.setting(EMBEDDED_WITH)?.and_then(|it| StageServer::of(&it));
    Ok(server.map_or(Embeds::Here, |it| embeds_at(&it.url)))
}

fn embeds_at(url: &str) -> Embeds {
    if riddle_models::web::is_local(url) { Embeds::Here } else { Embeds::Elsewhere }
}

/// The server that embeds: scheme, host and port; `None`: a model on this machine does.
pub(crate) fn origin(catalog: &Catalog) -> Result<Option<String>> {
    let server = catalog.setting(EMBEDDED_WITH)?.and_then(|it| StageServer::of(&it));
    Ok(server.map(|it| it.origin()))
}

/// Why a server has made no vectors.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The caller no longer wanted them.
    Stopped,
    Failed(Trouble),
}

impl From<riddle_llm::Error> for Unanswered {
    fn from(error: riddle_llm::Error) -> Unanswered {
        match error {
            riddle_llm::Error::Stopped => Unanswered::Stopped,
            error => Unanswered::Failed(Trouble::of(&error)),
        }
    }
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered::Failed(Trouble::of(&error))
    }
}

/// A server that embeds.
pub(crate) struct EmbeddingServer {
    server: StageServer,
    known: Known,
    id: String,
    open: Arc<OpenServer>,
}

impl EmbeddingServer {
    /// The server of that name; nobody is asked. `None`: it was never chosen here.
    pub(crate) fn open(
        config: &Config,
        catalog: &Catalog,
        name: &str,
    ) -> Result<Option<Arc<EmbeddingServer>>> {
        let known = known_servers(catalog)?.into_iter().find(|it| it.name == name);
        let (Some(known), Some(server)) = (known, StageServer::of(name)) else { return Ok(None) };
        let id = known.id();
        let open = config.shared.servers.get(&format!("{name} {id}"));
        Ok(Some(Arc::new(EmbeddingServer { server, known, id, open })))
    }

    /// What it makes is compared only with what has the same identity.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.known.dimensions
    }

    /// Which passages may be sent there: all, where it is on this machine.
    pub(crate) fn embeds(&self) -> Embeds {
        embeds_at(&self.server.url)
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        self.server.origin()
    }

    /// The vector of what is searched for; `offline`: no other machine is asked. With it what that has cost, where the
    /// server was asked.
    pub(crate) fn query(
        &self,
        config: &Config,
        catalog: &Catalog,
        text: &str,
        offline: bool,
    ) -> Result<(Vec<f32>, Option<RemoteStage>), Unanswered> {
        if let Some((_, vector)) = self.open.last().as_ref().filter(|it| it.0 == text) {
            return Ok((vector.clone(), None));
        }
        let texts = vec![format!("{}{text}", self.known.prompts.query)];
        let made = self.ask(config, catalog, texts, offline, (Some(QUERY_BUDGET), None))?;
        let told = self.told(&made, 1);
        // As many vectors as texts.
        let vector = made.vectors.into_iter().next().unwrap_or_default();
        *self.open.last() = Some((text.to_owned(), vector.clone()));
        Ok((vector, Some(told)))
    }

    /// Vectors of passages, which the caller knows may be sent there.
    pub(crate) fn passages(
        &self,
        config: &Config,
        catalog: &Catalog,
        texts: &[&str],
        stop: &AtomicBool,
    ) -> Result<(Vec<Vec<f32>>, RemoteStage), Unanswered> {
        let prompt = &self.known.prompts.passage;
        let prompted = texts.iter().map(|it| format!("{prompt}{it}")).collect();
        let made = self.ask(config, catalog, prompted, false, (None, Some(stop)))?;
        let told = self.told(&made, texts.len());
        Ok((made.vectors, told))
    }

    /// Whether it may be asked is looked up every time.
    fn ask(
        &self,
        config: &Config,
        catalog: &Catalog,
        texts: Vec<String>,
        offline: bool,
        (within, stop): (Option<Duration>, Option<&AtomicBool>),
    ) -> Result<Embeddings, Unanswered> {
        let endpoint = allowed_embedder(catalog, &self.server)?;
        let offline = offline || config.is_offline();
        if offline && !endpoint.is_local() {
            let url = endpoint.origin().to_owned();
            return Err(riddle_llm::Error::Offline { url }.into());
        }
        let client = self.client(config, endpoint)?;
        let made = client.embed(texts, Some(self.known.dimensions), within, stop);
        if let Err(riddle_llm::Error::Refused { status: 401 | 403, .. }) = made {
            // Somebody may give another key.
            *self.open.client() = None;
        }
        Ok(made?)
    }

    fn client(&self, config: &Config, endpoint: Endpoint) -> Result<Arc<RemoteEmbedder>> {
        let mut client = self.open.client();
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let opened = Arc::new(connect(config, endpoint, &self.server, false)?);
        *client = Some(Arc::clone(&opened));
        Ok(opened)
    }

    fn told(&self, made: &Embeddings, texts: usize) -> RemoteStage {
        told(made, &self.server, texts)
    }
}

fn told(made: &Embeddings, server: &StageServer, texts: usize) -> RemoteStage {
    RemoteStage {
        server: server.origin(),
        model: server.model.clone().or_else(|| made.model.clone()),
        ms: made.cost.ms,
        calls: made.cost.calls,
        tries: made.cost.tries,
        texts: texts as u64,
        sent_bytes: made.cost.sent_bytes,
    }
}

/// What asks it, which nobody has asked yet.
fn connect(
    config: &Config,
    endpoint: Endpoint,
    server: &StageServer,
    offline: bool,
) -> Result<RemoteEmbedder> {
    let given = config.embedder_key.as_ref().map(|it| it.reveal().to_owned());
    let options = StageOptions {
        model: server.model.clone(),
        key: given.or_else(|| kept_key(&endpoint)),
        budget: PASSAGES_BUDGET,
        offline,
        ..StageOptions::default()
    };
    RemoteEmbedder::new(endpoint, options).map_err(bad)
}

/// Has a server embed from now on. It is asked once, about nothing of the person's: how long its vectors are is a part
/// of their identity.
///
/// # Errors
/// A server without the name of a model; one that may not be asked, or does not answer; one of another model under the
/// same name.
pub(crate) fn choose(
    config: &Config,
    catalog: &Catalog,
    server: &StageServer,
    prompts: Option<EmbedPrompts>,
) -> Result<RemoteStage> {
    let model = server.model.as_deref().unwrap_or_default();
    if model.rsplit('/').next().is_none_or(str::is_empty) || model.contains(char::is_control) {
        let what = "an embedder at a server is known by the name of its model, which stands behind the address and a #";
        return Err(Error::BadRequest(what.into()));
    }
    let endpoint = allowed_embedder(catalog, server)?;
    let client = connect(config, endpoint, server, config.is_offline())?;
    let prompts = prompts.unwrap_or_else(|| {
        let (query, passage) = known_prefixes(model);
        EmbedPrompts { query: query.to_owned(), passage: passage.to_owned() }
    });
    let (known, levels, told) = introduced(&client, server, prompts)?;
    // To choose one is what mends a list that can not be read.
    let mut all = known_servers(catalog).unwrap_or_default();
    let with = catalog.setting(EMBEDDED_WITH)?;
    let before = all.iter().find(|it| it.id() == known.id() && with.as_ref() == Some(&it.name));
    if let Some(before) = before {
        let cosine = cosine(&before.probe, &known.probe);
        if cosine < SAME_MODEL {
            let what = format!(
                "what answers at {} as {model} is another model than the one of that name that made the vectors \
                 (cosine {cosine:.2}): give it another name there",
                server.origin()
            );
            return Err(Error::BadRequest(what.into()));
        }
    }
    cosines::keep(catalog, &known.id(), levels)?;
    all.retain(|it| it.name != known.name && with.as_ref() == Some(&it.name));
    all.push(known);
    let setting = serde_json::to_string(&all).expect("numbers and texts: this is a bug");
    catalog.set_setting(SERVERS_SETTING, Some(&setting))?;
    // What a model of this machine was shortened to is none of a server's.
    catalog.set_setting(EMBEDDER_NUMBERS, None)?;
    catalog.set_setting(EMBEDDER_SETTING, Some(&server.name()))?;
    Ok(told)
}

/// What a server makes of texts that are nobody's, and what that says of its cosines.
fn introduced(
    client: &RemoteEmbedder,
    server: &StageServer,
    prompts: EmbedPrompts,
) -> Result<(Known, Option<CosineLevels>, RemoteStage)> {
    let (questions, passages) = cosines::texts();
    let of_passages = std::iter::once(PROBE).chain(passages).map(|it| (&prompts.passage, it));
    let of_questions = questions.iter().map(|&it| (&prompts.query, it));
    let texts = of_passages.chain(of_questions).map(|(prompt, it)| format!("{prompt}{it}"));
    let texts: Vec<String> = texts.collect();
    let count = texts.len();
    let mut made = client.embed(texts, None, Some(CHOICE_BUDGET), None).map_err(bad)?;
    let told = told(&made, server, count);
    // As many vectors as texts: the probe's, those of passages, those of questions.
    let of_questions = made.vectors.split_off(count - questions.len());
    let levels = CosineLevels::of(&of_questions, &made.vectors[1..]);
    let probe = made.vectors.swap_remove(0);
    let known = Known { name: server.name(), dimensions: probe.len(), prompts, probe };
    Ok((known, levels, told))
}

/// Of vectors of length 1.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::embedder::encoder_name;

    fn known(name: &str, dimensions: usize, query: &str) -> Known {
        let prompts = EmbedPrompts { query: query.to_owned(), passage: String::new() };
        Known { name: name.to_owned(), dimensions, prompts, probe: Vec::new() }
    }

    #[test]
    fn an_identity_is_of_the_model_and_not_of_the_address() {
        let id = |name: &str| known(name, 768, "").id();
        assert_eq!(id("http://gpu:8080#m"), id("https://far.test/v1/embeddings#m"));
        assert_eq!(id("http://gpu:11434#nomic:latest"), id("http://gpu:11434#nomic"));
        assert_ne!(id("http://gpu#m"), id("http://gpu#n"));
        assert_ne!(id("http://gpu#m"), known("http://gpu#m", 512, "").id());
        assert_ne!(id("http://gpu#m"), known("http://gpu#m", 768, "query: ").id());
        for model in ["all-MiniLM-L6-v2", "BAAI/bge-m3", "nomic-embed-text:v1.5"] {
            let id = known(&format!("http://gpu#{model}"), 768, "").id();
            assert_eq!(Some(encoder_name(&id)), model.rsplit('/').next(), "{id}");
        }
    }
}
