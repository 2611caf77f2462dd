//! Values of the façade as the interface gets them.

mod told;

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use riddle_rag::{
    FoundCandidate, SearchHit,
    preview::{Highlighter, Marked, SeenOnPage, excerpt, without_markup},
    records::{ChunkRecord, FileRecord},
};
use riddle_types::{self as types, FileKind, FileState, Filter};

pub(crate) use self::told::notices;
use crate::dto::{
    Advice, FileRef, Hit, Kind, KindCount, Location, LocationKind, Meaning, MeaningLimits, Order,
    PruneMode, Ranks, ReadOrder, Scans, SearchFilter, SeenLine, Span, State, StateCount, Trouble,
    Waiting, WhichScans,
};

/// Characters of a hit's excerpt: two lines of the list in a wide window.
const EXCERPT: usize = 220;

impl From<FileKind> for Kind {
    fn from(kind: FileKind) -> Kind {
        match kind {
            FileKind::Text => Kind::Text,
            FileKind::Markdown => Kind::Markdown,
            FileKind::Code => Kind::Code,
            FileKind::Html => Kind::Html,
            FileKind::Pdf => Kind::Pdf,
            FileKind::Document => Kind::Document,
            FileKind::Presentation => Kind::Presentation,
            FileKind::Spreadsheet => Kind::Spreadsheet,
            FileKind::Mail => Kind::Mail,
            FileKind::Book => Kind::Book,
            FileKind::Calendar => Kind::Calendar,
            FileKind::Contacts => Kind::Contacts,
            FileKind::History => Kind::History,
            FileKind::Image => Kind::Image,
            FileKind::Archive => Kind::Archive,
            FileKind::Other => Kind::Other,
        }
    }
}

impl From<Kind> for FileKind {
    fn from(kind: Kind) -> FileKind {
        FileKind::ALL.into_iter().find(|it| Kind::from(*it) == kind).unwrap_or(FileKind::Other)
    }
}

impl From<FileState> for State {
    fn from(state: FileState) -> State {
        match state {
            FileState::Pending => State::Pending,
            FileState::Indexed => State::Indexed,
            FileState::NoText => State::NoText,
            FileState::CloudOnly => State::CloudOnly,
            FileState::TooLarge => State::TooLarge,
            FileState::Failed => State::Failed,
            FileState::Excluded => State::Excluded,
            FileState::Unsupported => State::Unsupported,
        }
    }
}

impl From<State> for FileState {
    fn from(state: State) -> FileState {
        let same = |it: &FileState| State::from(*it) == state;
        FileState::ALL.into_iter().find(same).unwrap_or(FileState::Failed)
    }
}

impl From<SearchFilter> for Filter {
    fn from(filter: SearchFilter) -> Filter {
        Filter {
            folders: filter.folders,
            kinds: filter.kinds.into_iter().map(FileKind::from).collect(),
            tags: filter.tags,
            modified_from: filter.modified_from,
            modified_until: filter.modified_until,
            ..Filter::default()
        }
    }
}

impl From<&riddle_rag::rerank::Order> for Order {
    fn from(order: &riddle_rag::rerank::Order) -> Order {
        match order {
            riddle_rag::rerank::Order::Fused => Order::Fused,
            riddle_rag::rerank::Order::Keyword => Order::Keyword,
            riddle_rag::rerank::Order::Reranked { model } => {
                Order::Reranked { model: model.clone() }
            }
        }
    }
}

impl From<riddle_rag::rerank::Mode> for PruneMode {
    fn from(mode: riddle_rag::rerank::Mode) -> PruneMode {
        match mode {
            riddle_rag::rerank::Mode::Off => PruneMode::Off,
            riddle_rag::rerank::Mode::Order => PruneMode::Order,
            riddle_rag::rerank::Mode::Set => PruneMode::Set,
        }
    }
}

impl From<PruneMode> for riddle_rag::rerank::Mode {
    fn from(mode: PruneMode) -> riddle_rag::rerank::Mode {
        match mode {
            PruneMode::Off => riddle_rag::rerank::Mode::Off,
            PruneMode::Order => riddle_rag::rerank::Mode::Order,
            PruneMode::Set => riddle_rag::rerank::Mode::Set,
        }
    }
}

impl From<ReadOrder> for types::PassageOrder {
    fn from(order: ReadOrder) -> types::PassageOrder {
        match order {
            ReadOrder::Ranked => types::PassageOrder::Ranked,
            ReadOrder::Document => types::PassageOrder::Document,
            ReadOrder::Stored => types::PassageOrder::Stored,
        }
    }
}

impl From<riddle_rag::status::MeaningStatus> for Meaning {
    fn from(it: riddle_rag::status::MeaningStatus) -> Meaning {
        Meaning {
            passages: it.passages,
            done: it.done,
            words_alone: it.words_alone,
            kept_here: it.kept_here,
            waiting: it.waiting.map(|it| match it {
                riddle_rag::status::Rest::Battery => Waiting::Battery,
                riddle_rag::status::Rest::Load => Waiting::Load,
                riddle_rag::status::Rest::Server => Waiting::Server,
            }),
            seconds_left: it.seconds_left,
        }
    }
}

impl From<riddle_rag::indexing::ScanSettings> for Scans {
    fn from(it: riddle_rag::indexing::ScanSettings) -> Scans {
        let pictures = it.pictures;
        Scans {
            which: match it.which {
                riddle_rag::indexing::ReadScans::Off => WhichScans::Off,
                riddle_rag::indexing::ReadScans::New => WhichScans::New,
                riddle_rag::indexing::ReadScans::All => WhichScans::All,
            },
            installed: pictures.installed,
            read: pictures.read,
            waiting: if pictures.off { 0 } else { pictures.waiting },
            seconds_left: if pictures.off { 0 } else { pictures.seconds_left },
            left_out: it.left_out,
            left_out_seconds: it.left_out_seconds,
        }
    }
}

impl From<WhichScans> for riddle_rag::indexing::ReadScans {
    fn from(which: WhichScans) -> riddle_rag::indexing::ReadScans {
        match which {
            WhichScans::Off => riddle_rag::indexing::ReadScans::Off,
            WhichScans::New => riddle_rag::indexing::ReadScans::New,
            WhichScans::All => riddle_rag::indexing::ReadScans::All,
        }
    }
}

impl From<SeenOnPage> for SeenLine {
    fn from(it: SeenOnPage) -> SeenLine {
        let [left, top, right, bottom] = it.line.place;
        SeenLine { page: it.page, text: clean(&it.line.text), left, top, right, bottom }
    }
}

impl From<types::RankTrace> for Ranks {
    fn from(trace: types::RankTrace) -> Ranks {
        Ranks {
            bm25: trace.bm25_rank,
            vector: trace.vector_rank,
            terms: trace.sparse_rank,
            fused: trace.fused_rank,
            decided_at_layer: trace.decided_at_layer,
        }
    }
}

impl From<&types::Location> for Location {
    fn from(location: &types::Location) -> Location {
        let (kind, start, end, part) = match location {
            types::Location::Line { start, end } => {
                (LocationKind::Line, Some(*start), Some(*end), String::new())
            }
            types::Location::Page { start, end } => {
                (LocationKind::Page, Some(*start), Some(*end), String::new())
            }
            types::Location::Section { path, paragraph } => {
                (LocationKind::Section, Some(*paragraph), Some(*paragraph), path.join(" › "))
            }
            types::Location::Slide { number } => {
                (LocationKind::Slide, Some(*number), Some(*number), String::new())
            }
            types::Location::Rows { sheet, start, end } => {
                (LocationKind::Rows, Some(*start), Some(*end), sheet.clone())
            }
            types::Location::Cells { sheet, left, top, right, bottom } => {
                let cells = types::Location::Cells {
                    sheet: String::new(),
                    left: *left,
                    top: *top,
                    right: *right,
                    bottom: *bottom,
                };
                let part =
                    if sheet.is_empty() { cells.to_string() } else { format!("{sheet}!{cells}") };
                (LocationKind::Cells, Some(*top), Some(*bottom), part)
            }
            types::Location::Message { part, paragraph } => {
                (LocationKind::Message, Some(*paragraph), Some(*paragraph), part.clone())
            }
            types::Location::Part { name, inside } => {
                let Location { start, end, label, .. } = Location::from(&**inside);
                let part = if start.is_some() { format!("{name}, {label}") } else { name.clone() };
                (LocationKind::Part, start, end, part)
            }
            types::Location::Whole => (LocationKind::Whole, None, None, String::new()),
        };
        Location { kind, start, end, part: clean(&part), label: clean(&location.to_string()) }
    }
}

/// A count that no screen has room for is shown as the largest that it has.
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl From<types::Advice> for Advice {
    // Long: one line for each kind.
    fn from(advice: types::Advice) -> Advice {
        use types::Advice as From;
        match advice {
            From::AddFolder => Advice::AddFolder,
            From::AddFolderAgain => Advice::AddFolderAgain,
            From::ListFolders => Advice::ListFolders,
            From::UpdateIndex => Advice::UpdateIndex,
            From::UpdateIndexNowAndThen => Advice::UpdateIndexNowAndThen,
            From::RepairIndexes => Advice::RepairIndexes,
            From::UpgradeCatalog => Advice::UpgradeCatalog,
            From::GivePassphrase => Advice::GivePassphrase,
            From::ReplaceCatalog => Advice::ReplaceCatalog,
            From::UpdateProgram => Advice::UpdateProgram,
            From::GiveModel => Advice::GiveModel,
            From::NameModel => Advice::NameModel,
            From::ListModels => Advice::ListModels,
            From::GoOnline => Advice::GoOnline,
            From::GiveHubToken => Advice::GiveHubToken,
            From::GiveHubAddress => Advice::GiveHubAddress,
            From::ChooseModelFile => Advice::ChooseModelFile,
            From::GiveModelFile => Advice::GiveModelFile,
            From::JoinParts => Advice::JoinParts,
            From::ConvertModel => Advice::ConvertModel,
            From::ShardModel => Advice::ShardModel,
            From::AskForLess => Advice::AskForLess,
            From::ChoosePruning => Advice::ChoosePruning,
            From::ChooseMode => Advice::ChooseMode,
            From::AllowEndpoint => Advice::AllowEndpoint,
            From::AllowServer => Advice::AllowServer,
            From::GiveServerKey => Advice::GiveServerKey,
            From::ChooseWriter => Advice::ChooseWriter,
            From::GiveEndpoint => Advice::GiveEndpoint,
            From::GiveKey => Advice::GiveKey,
            From::GiveKeyElsewhere => Advice::GiveKeyElsewhere,
            From::GiveContext => Advice::GiveContext,
            From::InstallOnnxRuntime => Advice::InstallOnnxRuntime,
            From::GiveLibraryAddress => Advice::GiveLibraryAddress,
            From::AddLibrary => Advice::AddLibrary,
            From::CheckLibraryServer => Advice::CheckLibraryServer,
            From::GiveLibraryKey => Advice::GiveLibraryKey,
            From::NameOriginals => Advice::NameOriginals,
            From::GiveOriginalsKey => Advice::GiveOriginalsKey,
            From::EncryptLibrary => Advice::EncryptLibrary,
            From::PushLibrary => Advice::PushLibrary,
            From::WriteLibraryAnew => Advice::WriteLibraryAnew,
            From::TakeLibraryOver => Advice::TakeLibraryOver,
            From::WaitForLibrary => Advice::WaitForLibrary,
            From::MapLibraryFolder => Advice::MapLibraryFolder,
            From::ChoosePort => Advice::ChoosePort,
            From::ChooseSocket => Advice::ChooseSocket,
            From::AllowOtherMachines => Advice::AllowOtherMachines,
            From::UseLibraryEmbedder { embedder } => {
                Advice::UseLibraryEmbedder { embedder: clean(&embedder) }
            }
            From::FindModel { name } => Advice::FindModel { name: clean(&name) },
            From::PullModel { name } => Advice::PullModel { name: clean(&name) },
            From::PullModelAgain { name } => Advice::PullModelAgain { name: clean(&name) },
            From::RestoreModel { name } => Advice::RestoreModel { name: clean(&name) },
            From::ImportModelAgain { name } => Advice::ImportModelAgain { name: clean(&name) },
            From::AcceptLicense { page } => Advice::AcceptLicense { page: clean(&page) },
            From::ChooseFile { choices } => Advice::ChooseFile { choices: clean(&choices) },
            From::CalibrateModel { model } => Advice::CalibrateModel { model: clean(&model) },
            From::CalibrateOrThreshold { model } => {
                Advice::CalibrateOrThreshold { model: clean(&model) }
            }
            From::CalibrateFor { model, top_k } => {
                Advice::CalibrateFor { model: clean(&model), top_k: small(top_k) }
            }
        }
    }
}

impl From<types::Trouble> for Trouble {
    fn from(trouble: types::Trouble) -> Trouble {
        Trouble { message: clean(&trouble.what), advice: trouble.advice.map(Into::into) }
    }
}

/// Text from file names and documents, safe on one line: control characters and those that turn the direction
/// of what follows are shown as a replacement character.
pub(crate) fn clean(text: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|it| if is_odd(it) { char::REPLACEMENT_CHARACTER } else { it }).collect()
}

/// A path as it is shown.
pub(crate) fn shown(path: &Path) -> String {
    clean(&path.to_string_lossy())
}

/// A folder as it is shown: `~` for the person's own.
fn shortened(folder: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    match home.and_then(|home| folder.strip_prefix(home).ok().map(Path::to_path_buf)) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", shown(&below)),
        None => shown(folder),
    }
}

pub(crate) fn file_ref(path: &Path, kind: FileKind, bytes: u64, modified: i64) -> FileRef {
    FileRef {
        path: shown(path),
        name: clean(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()),
        folder: path.parent().map(shortened).unwrap_or_default(),
        kind: kind.into(),
        bytes,
        modified,
    }
}

pub(crate) fn file_of_record(record: &FileRecord) -> FileRef {
    file_ref(&record.path, record.kind, record.bytes, record.modified)
}

pub(crate) fn file_of_chunk(record: &ChunkRecord, bytes: u64) -> FileRef {
    file_ref(&record.path, record.kind, bytes, record.modified)
}

/// A title, or the file's name where it has none.
pub(crate) fn title_of(title: Option<&str>, path: &Path) -> String {
    match title.map(str::trim).filter(|it| !it.is_empty()) {
        Some(title) => clean(title),
        None => clean(&path.file_name().unwrap_or_default().to_string_lossy()),
    }
}

pub(crate) fn spans(pieces: Vec<Marked>) -> Vec<Span> {
    pieces.into_iter().map(|(text, mark)| Span { text, mark }).collect()
}

/// Hits as rows, the words of the query marked.
pub(crate) struct Rows {
    words: Highlighter,
}

impl Rows {
    pub(crate) fn new(query: &str) -> Rows {
        Rows { words: Highlighter::new(query) }
    }

    /// `kinds` tells each hit's kind, by chunk.
    pub(crate) fn row(&mut self, hit: &SearchHit, kind: FileKind) -> Hit {
        let path = Path::new(&hit.path);
        let text = match kind {
            FileKind::Markdown => Cow::Owned(without_markup(&hit.text)),
            _ => Cow::Borrowed(hit.text.as_str()),
        };
        Hit {
            rank: hit.rank,
            chunk: hit.chunk,
            // The size is the ledger's affair: a list of hits does not show it.
            file: file_ref(path, kind, 0, hit.modified),
            title: clean(&hit.title),
            heading: clean(&hit.heading),
            snippet: spans(excerpt(&text, &mut self.words, EXCERPT)),
            location: (&hit.location).into(),
            score: hit.score,
            ranks: hit.trace.into(),
            also_in: hit.also_in.iter().map(|it| clean(it)).collect(),
            versions: hit.versions.iter().map(|it| clean(it)).collect(),
            library: hit.library.as_deref().map(clean),
            here: hit.here.as_deref().map(clean),
            ocr_confidence: hit.ocr_confidence,
        }
    }

    /// Rows of `hits`, with the kinds of the candidates that they were chosen from.
    pub(crate) fn rows(&mut self, hits: &[SearchHit], candidates: &[FoundCandidate]) -> Vec<Hit> {
        hits.iter().map(|hit| self.row(hit, kind_of(candidates, hit.chunk))).collect()
    }
}

pub(crate) fn kind_of(candidates: &[FoundCandidate], chunk: u64) -> FileKind {
    candidates.iter().find(|it| it.hit.chunk == chunk).map_or(FileKind::Other, |it| it.kind)
}

pub(crate) fn state_counts(counts: &[(FileState, u64)]) -> Vec<StateCount> {
    counts.iter().map(|&(state, count)| StateCount { state: state.into(), count }).collect()
}

/// The most frequent kind first; those that are as frequent in the order that kinds have.
pub(crate) fn kind_counts(counts: &[(FileKind, u64)]) -> Vec<KindCount> {
    let mut counts: Vec<KindCount> =
        counts.iter().map(|&(kind, count)| KindCount { kind: kind.into(), count }).collect();
    counts.sort_by_key(|it| std::cmp::Reverse(it.count));
    counts
}

impl From<MeaningLimits> for riddle_rag::indexing::MeaningLimits {
    fn from(MeaningLimits { cpu, on_battery }: MeaningLimits) -> Self {
        riddle_rag::indexing::MeaningLimits { cpu, on_battery }
    }
}

impl From<riddle_rag::indexing::MeaningLimits> for MeaningLimits {
    fn from(it: riddle_rag::indexing::MeaningLimits) -> MeaningLimits {
        MeaningLimits { cpu: it.cpu, on_battery: it.on_battery }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_turn_the_direction_are_shown_harmless() {
        assert_eq!(clean("invoice\u{202e}fdp.exe"), "invoice\u{fffd}fdp.exe");
        assert_eq!(clean("a\nb\u{7}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(clean("<img src=x onerror=alert(1)>"), "<img src=x onerror=alert(1)>");
        assert_eq!(clean("Grüße 船"), "Grüße 船");
    }

    #[test]
    fn kinds_and_states_go_both_ways() {
        for kind in FileKind::ALL {
            assert_eq!(FileKind::from(Kind::from(kind)), kind);
        }
        for state in FileState::ALL {
            assert_eq!(FileState::from(State::from(state)), state);
        }
    }
}
