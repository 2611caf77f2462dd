//! The index of a dataset's corpus: a home of its own under the user's, kept for the next evaluation.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use riddle_rag::{
    Assistant, Config, Library, indexing::InputDocument, models::DEFAULT_SPARSE_ENCODER,
    status::StatusRequest,
};
use riddle_types::FileState;

use crate::{CorpusReport, Dataset, Error, EvalEvent, Instruments, Notice, Result};

/// Name under which the documents are kept; part of no figure.
const COLLECTION: &str = "corpus";

/// Version of what is stored: raised when the same corpus and embedder must be indexed anew.
const LAYOUT: &str = "2";

/// An open index of a corpus.
pub(crate) struct CorpusIndex {
    pub(crate) assistant: Assistant,
    pub(crate) report: CorpusReport,
    /// What the reader should know about the index.
    pub(crate) notices: Vec<Notice>,
    /// Whether documents are files, named by their paths, and not texts, kept by their numbers.
    by_path: bool,
}

impl CorpusIndex {
    /// Opens the index of this corpus and embedder, building it if it is not there or not complete.
    pub(crate) fn open(
        dataset: &Dataset,
        base: &Config,
        embedder: Option<&str>,
        instruments: &mut dyn Instruments,
        stop: &AtomicBool,
    ) -> Result<CorpusIndex> {
        let config = corpus_config(dataset, base, embedder);
        // Written when everything is in the index; without it the index may be half a corpus.
        let marker = config.home.join("complete.json");
        let earlier: Option<CorpusReport> = fs::read(&marker)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            // An index without vectors is finished when an embedder is there at last, and so with weighed terms.
            .filter(|it: &CorpusReport| {
                it.embedder.is_some() && (it.sparse_encoder.is_some() || !weighs_terms(&config))
            });
        if let Some(report) = earlier
            && let Ok(assistant) = Assistant::open(config.clone())
        {
            let sparse_encoder = assistant.status(StatusRequest::default())?.sparse_encoder;
            let report = CorpusReport { reused: true, sparse_encoder, ..report };
            return Ok(CorpusIndex::of_texts(assistant, report));
        }
        let indexed = build(dataset, &config, embedder, instruments, stop)?;
        let assistant = Assistant::open(config)?;
        let status = assistant.status(StatusRequest::default())?;
        let report = CorpusReport {
            embedder: status.embedder,
            sparse_encoder: status.sparse_encoder,
            ..indexed
        };
        let bytes = serde_json::to_vec(&report).expect("plain data serializes: this is a bug");
        fs::write(&marker, bytes).map_err(|source| Error::Io { path: marker, source })?;
        Ok(CorpusIndex::of_texts(assistant, report))
    }

    fn of_texts(assistant: Assistant, report: CorpusReport) -> CorpusIndex {
        CorpusIndex { assistant, report, notices: Vec::new(), by_path: false }
    }

    /// The index of a folder of real files, brought up to date as `riddle index` does. The ids of the
    /// dataset's documents are paths below the folder.
    pub(crate) fn of_files(
        folder: &Path,
        dataset: &Dataset,
        base: &Config,
        embedder: Option<&str>,
        instruments: &mut dyn Instruments,
        stop: &AtomicBool,
    ) -> Result<CorpusIndex> {
        let there = folder.canonicalize().ok().filter(|it| it.is_dir());
        let folder = there.ok_or_else(|| Error::NoSuchFolder { folder: folder.to_path_buf() })?;
        let identity = ["files", &folder.to_string_lossy(), embedder.unwrap_or_default()];
        let config = home_for(base, &identity);
        let mut library = Library::open(config.clone())?;
        if let Some(embedder) = embedder {
            library.choose_embedder(embedder)?;
        }
        library.add_root(&folder)?;
        let indexed =
            library.update(&mut |event| instruments.event(EvalEvent::Indexing(event)), stop)?;
        if indexed.interrupted {
            return Err(Error::Stopped);
        }
        drop(library);
        let assistant = Assistant::open(config)?;
        let status = assistant.status(StatusRequest { files: true, ..StatusRequest::default() })?;
        let found: HashSet<PathBuf> = status
            .files
            .iter()
            .flatten()
            .filter(|it| it.state == FileState::Indexed)
            .map(|it| PathBuf::from(&it.path))
            .collect();
        let absent = dataset.documents.iter().filter(|it| !found.contains(&folder.join(&it.id)));
        let absent = absent.count();
        let mut notices = Vec::new();
        let all = dataset.documents.len();
        if absent == all {
            let example = dataset.documents.first().map(|it| it.id.clone()).unwrap_or_default();
            return Err(Error::OtherFiles { folder, example });
        }
        if absent > 0 {
            notices.push(Notice::DocumentsAbsent { absent, documents: all, folder });
        }
        let report = CorpusReport {
            documents: found.len() as u64,
            chunks: status.chunks,
            index_seconds: indexed.seconds,
            embedder: status.embedder,
            sparse_encoder: status.sparse_encoder,
            reused: indexed.read == 0,
        };
        Ok(CorpusIndex { assistant, report, notices, by_path: true })
    }

    /// Ids of the documents that hold the chunks, each once, in order of first occurrence.
    pub(crate) fn documents(&self, dataset: &Dataset, chunks: &[u64]) -> Result<Vec<String>> {
        Ok(crate::metrics::distinct(self.document_of_each(dataset, chunks)?.into_iter().flatten()))
    }

    /// The id of the document that holds each chunk; `None` where there is none any longer.
    pub(crate) fn document_of_each(
        &self,
        dataset: &Dataset,
        chunks: &[u64],
    ) -> Result<Vec<Option<String>>> {
        let id = |name: String| {
            if self.by_path {
                return Some(name);
            }
            Some(dataset.documents.get(name.parse::<usize>().ok()?)?.id.clone())
        };
        let names = self.assistant.documents_of(chunks)?.into_iter();
        Ok(names.map(|it| it.and_then(id)).collect())
    }
}

/// Whether a fresh home would weigh terms.
fn weighs_terms(config: &Config) -> bool {
    config.model_dir(DEFAULT_SPARSE_ENCODER).is_ok()
}

/// The configuration of the corpus's own home; models stay where the user has them.
fn corpus_config(dataset: &Dataset, base: &Config, embedder: Option<&str>) -> Config {
    home_for(base, &[LAYOUT, &dataset.corpus_fingerprint(), embedder.unwrap_or_default()])
}

/// A home below the user's, found again by what it holds.
fn home_for(base: &Config, identity: &[&str]) -> Config {
    let mut hasher = blake3::Hasher::new();
    for part in identity {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    let name = &hasher.finalize().to_hex()[..16];
    let home: PathBuf = base.home.join("eval").join(name);
    let (models, calibrations) = (Some(base.models_dir()), Some(base.calibrations_dir()));
    Config { home, models, calibrations, ..base.clone() }
}

fn build(
    dataset: &Dataset,
    config: &Config,
    embedder: Option<&str>,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
) -> Result<CorpusReport> {
    let mut library = Library::open(config.clone())?;
    if let Some(embedder) = embedder {
        library.choose_embedder(embedder)?;
    }
    // Kept by number: an id of a dataset may be anything, and a name in a collection is a path.
    let mut documents = dataset.documents.iter().enumerate().map(|(number, it)| InputDocument {
        id: number.to_string(),
        title: it.title.clone(),
        text: it.text.clone(),
    });
    let report = library.add_documents(
        COLLECTION,
        &mut documents,
        &mut |event| instruments.event(EvalEvent::Indexing(event)),
        stop,
    )?;
    if report.interrupted {
        return Err(Error::Stopped);
    }
    Ok(CorpusReport {
        documents: dataset.documents.len() as u64,
        chunks: report.chunks,
        index_seconds: report.seconds,
        embedder: None,
        sparse_encoder: None,
        reused: false,
    })
}
