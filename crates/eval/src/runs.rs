//! Runs that are written: who was found, in which order, for other tools and for mining negatives.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::{Error, Result, Stage};

/// One file in TREC format per stage: `query Q0 document rank score name`. Stages merge lists whose
/// scores mean different things, so the score written is the reciprocal of the rank. Beside them `evidence.jsonl`: for
/// every query a request of `riddle rerank` with what the retrievers' scores say of each candidate, and which of them
/// are relevant.
pub(crate) struct RunFiles {
    files: BTreeMap<Stage, (PathBuf, BufWriter<File>)>,
    evidence: (PathBuf, BufWriter<File>),
}

impl RunFiles {
    /// Creates `dir/STAGE.trec` for each of `stages`, replacing what is there.
    pub(crate) fn create(dir: &Path, stages: &[Stage]) -> Result<RunFiles> {
        let failed = |path: &Path, source| Error::Io { path: path.to_owned(), source };
        fs::create_dir_all(dir).map_err(|it| failed(dir, it))?;
        let create = |name: String| -> Result<_> {
            let path = dir.join(name);
            let file = File::create(&path).map_err(|it| failed(&path, it))?;
            Ok((path, BufWriter::new(file)))
        };
        let mut files = BTreeMap::new();
        for &stage in stages {
            files.insert(stage, create(format!("{}.trec", stage.as_str()))?);
        }
        Ok(RunFiles { files, evidence: create("evidence.jsonl".to_owned())? })
    }

    /// Adds the documents of one query, best first.
    pub(crate) fn write<D: AsRef<str>>(
        &mut self,
        stage: Stage,
        query: &str,
        documents: &[D],
    ) -> Result<()> {
        let Some((path, file)) = self.files.get_mut(&stage) else { return Ok(()) };
        for (place, document) in documents.iter().enumerate() {
            let rank = place + 1;
            let score = 1.0 / rank as f64;
            writeln!(file, "{query} Q0 {} {rank} {score:.6} {}", document.as_ref(), stage.as_str())
                .map_err(|source| Error::Io { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Adds what retrieval knows of every candidate of a query.
    pub(crate) fn write_evidence(&mut self, evidence: &serde_json::Value) -> Result<()> {
        let (path, file) = &mut self.evidence;
        writeln!(file, "{evidence}").map_err(|source| Error::Io { path: path.clone(), source })
    }

    /// Makes sure that everything is on disk.
    pub(crate) fn finish(self) -> Result<()> {
        for (path, mut file) in self.files.into_values().chain([self.evidence]) {
            file.flush().map_err(|source| Error::Io { path, source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_written_as_trec_wants_it() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut runs = RunFiles::create(&dir.path().join("new"), &[Stage::Bm25]).expect("create");
        runs.write(Stage::Bm25, "q1", &["d3", "d1"]).expect("write");
        runs.write(Stage::Dense, "q1", &["d9"]).expect("a stage that is not written is ignored");
        runs.finish().expect("flush");
        let text = fs::read_to_string(dir.path().join("new/bm25.trec")).expect("read");
        assert_eq!(text, "q1 Q0 d3 1 1.000000 bm25\nq1 Q0 d1 2 0.500000 bm25\n");
        assert!(!dir.path().join("new/dense.trec").exists());
    }
}
