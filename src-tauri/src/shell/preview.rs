//! What of a file is shown beside a hit, and where it is opened.

use riddle_rag::{
    FoundCandidate,
    preview::{FilmAt, Grid, Highlighter, Shown, marked, show, shown_passages},
    records::{ChunkRecord, FileId},
    shared::Fetched,
};
use riddle_types::FileKind;

use super::Shell;
use crate::{
    convert::{clean, file_of_chunk, file_ref, spans, title_of},
    dto::{
        Failure, FileTarget, Film, Preview, PreviewBody, PreviewPassage, PreviewTable, SeenLine,
        TableRow,
    },
    failure::Reply,
};

/// Largest PDF or picture that is handed to the interface.
const MAX_SHOWN_BYTES: u64 = 128 << 20;

impl Shell {
    pub(crate) fn preview(&self, chunk: u64, query: &str) -> Reply<Preview> {
        if let Some(it) = self.shared_candidate(chunk) {
            return Ok(self.preview_of_shared(&it, query));
        }
        let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
        let (shown, changed) = show(&self.records, &passage)?;
        let record = &passage.record;
        let body = body(shown, record, chunk);
        Ok(Preview {
            chunk,
            file: file_of_chunk(record, passage.bytes),
            title: title_of(record.title.as_deref(), &record.path),
            location: (&record.location).into(),
            passage: spans(marked(&record.text, &mut Highlighter::new(query))),
            body,
            changed,
            library: None,
            here: None,
            original: false,
            ocr_confidence: self.records.how_sure(record)?,
            film: self.records.film(record)?.map(|it| film(&it)),
        })
    }

    /// What the library has of the file around the passage; where it can not be asked the passage alone.
    fn preview_of_shared(&self, candidate: &FoundCandidate, query: &str) -> Preview {
        let around = candidate.hit.library.as_deref().map(|library| {
            let assistant = self.engine.assistant()?;
            Ok::<_, Failure>(assistant.passages_around(library, candidate.hit.chunk)?)
        });
        let around = around.transpose().unwrap_or_else(|failure| {
            tracing::debug!(?failure, "the library is not asked for more of the file");
            None
        });
        let library = candidate.hit.library.as_deref();
        let original = library.is_some_and(|it| self.has_originals(it));
        Preview { original, ..preview_of_shared(candidate, &around.unwrap_or_default(), query) }
    }

    /// Whether files of a library can be fetched from the store that keeps them.
    fn has_originals(&self, library: &str) -> bool {
        let known = self.records.libraries().unwrap_or_default();
        known.iter().any(|it| it.name == library && it.originals.is_some())
    }

    /// The film beside the subtitles that a passage is from, and when in it that is.
    pub(crate) fn film_of(&self, chunk: u64) -> Reply<FilmAt> {
        let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
        let film = self.records.film(&passage.record)?;
        film.ok_or_else(|| {
            Failure::gone("the film is gone: it no longer lies beside its subtitles")
        })
    }

    pub(crate) fn preview_bytes(&self, chunk: u64) -> Reply<Vec<u8>> {
        let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
        if !matches!(passage.record.kind, FileKind::Pdf | FileKind::Image) {
            return Err(Failure::bad("only PDF files and pictures are handed over as they are"));
        }
        let path = self.records.safe_path(&passage.record)?;
        let size = path.metadata().map_err(Failure::other)?.len();
        if size > MAX_SHOWN_BYTES {
            return Err(Failure::bad(format!(
                "the file has {} MiB, more than can be shown here: open it instead",
                size >> 20
            )));
        }
        std::fs::read(&path).map_err(Failure::other)
    }

    /// A file that is to be opened, where it is: in the home's library and below its folder, in a folder of another
    /// computer that this one reaches, or fetched from the store that keeps it.
    pub(crate) fn file_of(&self, target: FileTarget) -> Reply<Fetched> {
        let shown = |path| Fetched { path, shows: true };
        match target {
            FileTarget::Chunk { chunk } => {
                if let Some(it) = self.shared_candidate(chunk)
                    && let Some(library) = &it.hit.library
                {
                    let path = &it.hit.path;
                    return Ok(match self.records.path_here(library, path) {
                        Err(_) if self.has_originals(library) => {
                            self.records.fetch_original(library, path)?
                        }
                        here => shown(here?),
                    });
                }
                let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
                Ok(shown(self.records.safe_path(&passage.record)?))
            }
            FileTarget::File { file } => Ok(shown(self.records.path_of(FileId(file))?)),
        }
    }
}

/// What is shown of the file that `chunk` is a passage of.
fn body(shown: Shown, record: &ChunkRecord, chunk: u64) -> PreviewBody {
    match shown {
        Shown::Text { text, first_line, passage, truncated } => {
            let (passage_start, passage_end) = passage;
            if record.kind == FileKind::Markdown {
                PreviewBody::Markdown { text, first_line, passage_start, passage_end, truncated }
            } else {
                PreviewBody::Text {
                    text,
                    first_line,
                    passage_start,
                    passage_end,
                    code: record.kind == FileKind::Code,
                    language: extension(&record.path),
                    truncated,
                }
            }
        }
        Shown::Pdf { pages, seen } => PreviewBody::Pdf {
            page: pages.0,
            last_page: pages.1,
            seen: seen.into_iter().map(SeenLine::from).collect(),
        },
        Shown::Picture(seen) => {
            PreviewBody::Picture { seen: seen.into_iter().map(SeenLine::from).collect() }
        }
        Shown::Grid(grid) => PreviewBody::Table { table: table(grid) },
        Shown::Passages(passages) => PreviewBody::Passages {
            passages: passages.iter().map(|it| shown_passage(it, chunk)).collect(),
        },
        Shown::Unavailable(reason) => PreviewBody::Unavailable { reason: clean(&reason) },
    }
}

fn table(grid: Grid) -> PreviewTable {
    let rows = grid.rows.into_iter().map(|it| TableRow {
        number: it.number,
        cells: it.cells,
        whole: it.whole,
        current: it.cited,
    });
    PreviewTable {
        sheet: clean(&grid.sheet),
        left: grid.left,
        columns: grid.names,
        notes: grid.notes,
        rows: rows.collect(),
        more_above: grid.more_above,
        more_below: grid.more_below,
        columns_left_out: u32::try_from(grid.columns_left_out).unwrap_or(u32::MAX),
    }
}

fn film(it: &FilmAt) -> Film {
    let name = it.path.file_name().unwrap_or_default().to_string_lossy();
    Film { name: clean(&name), seconds: it.seconds }
}

fn shown_passage(it: &ChunkRecord, current: u64) -> PreviewPassage {
    PreviewPassage {
        chunk: it.id.0,
        heading: clean(&it.heading),
        location: (&it.location).into(),
        current: it.id.0 == current,
        text: it.text.clone(),
    }
}

/// The passage, among those around it in its file as far as the library gave them.
fn preview_of_shared(candidate: &FoundCandidate, around: &[ChunkRecord], query: &str) -> Preview {
    let hit = &candidate.hit;
    let location: crate::dto::Location = (&hit.location).into();
    let alone = || PreviewPassage {
        chunk: hit.chunk,
        heading: clean(&hit.heading),
        location: location.clone(),
        current: true,
        text: hit.text.clone(),
    };
    // A file that was written anew since then may have lost the passage.
    let body = match around.iter().any(|it| it.id.0 == hit.chunk && it.text == hit.text) {
        true => match shown_passages(around.to_vec(), hit.chunk) {
            Shown::Grid(grid) => PreviewBody::Table { table: table(grid) },
            _ => PreviewBody::Passages {
                passages: around.iter().map(|it| shown_passage(it, hit.chunk)).collect(),
            },
        },
        false => PreviewBody::Passages { passages: vec![alone()] },
    };
    Preview {
        chunk: hit.chunk,
        file: file_ref(hit.path.as_ref(), candidate.kind, 0, hit.modified),
        title: clean(&hit.title),
        passage: spans(marked(&hit.text, &mut Highlighter::new(query))),
        body,
        location,
        changed: false,
        library: hit.library.as_deref().map(clean),
        here: hit.here.as_deref().map(clean),
        original: false,
        ocr_confidence: None,
        film: None,
    }
}

fn extension(path: &std::path::Path) -> String {
    path.extension().map(|it| clean(&it.to_string_lossy().to_lowercase())).unwrap_or_default()
}

fn passage_gone() -> Failure {
    Failure::gone("this passage is gone: its file has changed or was removed; search again")
}

#[cfg(test)]
mod tests {
    use riddle_rag::SearchHit;
    use riddle_types::RankTrace;

    use super::*;

    /// A name from another machine is shown harmless, and nothing of this machine is looked at.
    #[test]
    fn a_passage_from_elsewhere_is_all_that_is_shown_of_it() {
        let hit = SearchHit {
            rank: 1,
            path: "/srv/team/boat\u{202e}dm.md".to_owned(),
            title: "Boat".to_owned(),
            heading: "Hull".to_owned(),
            text: "The hull is blue.".to_owned(),
            location: riddle_types::Location::Line { start: 3, end: 4 },
            score: 0.5,
            trace: RankTrace::default(),
            modified: 7,
            chunk: (1 << 52) + 1,
            also_in: Vec::new(),
            versions: Vec::new(),
            library: Some("team".to_owned()),
            here: None,
            ocr_confidence: None,
        };
        let candidate = FoundCandidate { hit, kind: FileKind::Markdown };
        let shown = preview_of_shared(&candidate, &[], "hull");
        assert_eq!(shown.library.as_deref(), Some("team"));
        assert!(!shown.file.name.contains('\u{202e}'), "{shown:?}");
        assert!(shown.passage.iter().any(|it| it.mark && it.text == "hull"), "{shown:?}");
        let PreviewBody::Passages { passages } = &shown.body else { panic!("{shown:?}") };
        assert_eq!((passages.len(), passages[0].text.as_str()), (1, "The hull is blue."));

        // What stands around it is shown with it, unless the file was written anew since then.
        let record = |id: u64, text: &str| ChunkRecord {
            id: riddle_types::ChunkId(id),
            file: FileId(-1),
            path: "/srv/team/boat.md".into(),
            kind: FileKind::Markdown,
            modified: 7,
            title: None,
            language: None,
            ordinal: 0,
            heading: String::new(),
            text: text.to_owned(),
            location: riddle_types::Location::Whole,
            also_in: Vec::new(),
            versions: Vec::new(),
        };
        let around = [record(5, "It has two masts."), record((1 << 52) + 1, "The hull is blue.")];
        let shown = preview_of_shared(&candidate, &around, "hull");
        let PreviewBody::Passages { passages } = &shown.body else { panic!("{shown:?}") };
        assert_eq!(passages.iter().map(|it| it.current).collect::<Vec<_>>(), [false, true]);
        let around = [record(5, "It has two masts."), record((1 << 52) + 1, "The hull is red.")];
        let shown = preview_of_shared(&candidate, &around, "hull");
        let PreviewBody::Passages { passages } = &shown.body else { panic!("{shown:?}") };
        assert_eq!(passages.len(), 1, "{passages:?}");
    }
}
