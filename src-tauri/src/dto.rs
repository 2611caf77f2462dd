//! Everything that crosses the border to the user interface, in one file.
//!
//! `cargo xtask bindings` reads this file and the commands and writes `ui/src/lib/bindings.ts`; `cargo xtask
//! tidy` fails when that is not current. Plain data only: structs with named fields, enums without payload,
//! and enums with named fields under an `event` or `kind` tag. Numbers that count stay below 2⁵³.

// Long: one file is the contract; cut into several it would have to be read in several.

use serde::{Deserialize, Serialize};

/// Why a command failed, for people and for the program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    pub(crate) code: FailureCode,
    /// What is wrong, in English; the codes that say it themselves have a sentence in each language.
    pub(crate) message: String,
    /// What can be done about it.
    pub(crate) advice: Option<Advice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FailureCode {
    /// Nothing is indexed yet.
    NothingIndexed,
    /// The request makes no sense.
    BadRequest,
    /// The file, model or entry is gone.
    NotFound,
    /// The network is switched off.
    Offline,
    /// Another process or another request is at it.
    Busy,
    /// A newer request took its place.
    Cancelled,
    /// A part of the program broke down and was unloaded; trying again loads it anew.
    Unloaded,
    /// Anything else.
    Other,
}

// ---- Other programs ----------------------------------------------------------------------------------

/// The door, who may come in, and what was asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoorState {
    /// Where it is open; `null`: it is closed.
    pub(crate) url: Option<String>,
    /// File with the token that opens everything.
    pub(crate) token_file: String,
    /// What can be asked, by name.
    pub(crate) tools: Vec<String>,
    pub(crate) clients: Vec<DoorClient>,
    /// Newest first.
    pub(crate) log: Vec<DoorEntry>,
}

/// A program with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoorClient {
    pub(crate) name: String,
    /// Seconds since 1970.
    pub(crate) since: i64,
    /// It was sent away.
    pub(crate) revoked: bool,
    /// It has a token of its own; without one an assistant starts it through a pipe.
    pub(crate) has_token: bool,
    pub(crate) may: DoorMay,
    /// Whose rights to files it has; `null`: those of the person whose computer it is.
    pub(crate) reads_as: Option<DoorReader>,
    /// Seconds since 1970; `null`: not lately.
    pub(crate) last_asked: Option<i64>,
}

/// A user whose rights to files a program has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoorReader {
    /// By name, or `#` and a number.
    pub(crate) user: String,
    /// Groups that the user is in.
    pub(crate) groups: Vec<String>,
}

/// What a program may do; empty lists are no condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoorMay {
    pub(crate) tools: Vec<String>,
    /// Absolute folders.
    pub(crate) folders: Vec<String>,
    /// Folders that never leave this computer, too.
    pub(crate) with_confined: bool,
}

/// A program that was let in.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoorAdded {
    /// Told this once.
    pub(crate) token: String,
    pub(crate) state: DoorState,
}

/// Something that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoorEntry {
    /// Seconds since 1970.
    pub(crate) at: i64,
    pub(crate) client: String,
    /// The person has given it this name.
    pub(crate) known: bool,
    /// A tool, or a route.
    pub(crate) what: String,
    /// The question; `null`: there was none, or questions are not kept.
    pub(crate) asked: Option<String>,
    /// Passages that were given.
    pub(crate) passages: u32,
    pub(crate) ms: u32,
    pub(crate) outcome: DoorOutcome,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DoorOutcome {
    Answered,
    Refused,
    Failed,
}

// ---- Encryption ------------------------------------------------------------------------------------

/// What stands before the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Gate {
    /// Nothing.
    Open,
    /// It is encrypted; without a passphrase its key is in the system's keyring, which does not give it.
    Locked { by_passphrase: bool },
    /// It is to be encrypted.
    Encrypt,
    /// Its encryption is to be taken back.
    Decrypt { by_passphrase: bool },
}

/// How the library lies on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Encryption {
    pub(crate) encrypted: bool,
    /// Whether a passphrase opens it; without one the system's keyring does.
    pub(crate) by_passphrase: bool,
}

// ---- What is told: kinds and fields, of which the interface makes sentences in its language ---------

/// What a person can do about something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Advice {
    AddFolder,
    AddFolderAgain,
    ListFolders,
    UpdateIndex,
    UpdateIndexNowAndThen,
    RepairIndexes,
    UpgradeCatalog,
    GivePassphrase,
    ReplaceCatalog,
    UpdateProgram,
    FindModel { name: String },
    GiveModel,
    NameModel,
    ListModels,
    PullModel { name: String },
    PullModelAgain { name: String },
    RestoreModel { name: String },
    ImportModelAgain { name: String },
    GoOnline,
    ChooseFile { choices: String },
    AcceptLicense { page: String },
    GiveHubToken,
    GiveHubAddress,
    ChooseModelFile,
    GiveModelFile,
    JoinParts,
    ConvertModel,
    ShardModel,
    CalibrateModel { model: String },
    CalibrateOrThreshold { model: String },
    CalibrateFor { model: String, top_k: u32 },
    AskForLess,
    ChoosePruning,
    ChooseMode,
    AllowEndpoint,
    AllowServer,
    GiveServerKey,
    ChooseWriter,
    GiveEndpoint,
    GiveKey,
    GiveKeyElsewhere,
    GiveContext,
    InstallOnnxRuntime,
    GiveLibraryAddress,
    AddLibrary,
    CheckLibraryServer,
    GiveLibraryKey,
    NameOriginals,
    GiveOriginalsKey,
    EncryptLibrary,
    PushLibrary,
    WriteLibraryAnew,
    TakeLibraryOver,
    WaitForLibrary,
    MapLibraryFolder,
    ChoosePort,
    ChooseSocket,
    AllowOtherMachines,
    UseLibraryEmbedder { embedder: String },
}

/// Something that is wrong, in English, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trouble {
    pub(crate) message: String,
    pub(crate) advice: Option<Advice>,
}

/// What should be known of a result that is there all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Notice {
    NothingIndexedYet,
    KeywordsNotSearched {
        why: Trouble,
    },
    MeaningNotSearched {
        why: Trouble,
    },
    NoEmbedder {
        name: String,
    },
    EmbedderChanging {
        embedder: String,
    },
    EmbedderMissing {
        embedder: String,
    },
    VectorsWait {
        waiting: u64,
        why: Trouble,
    },
    NotAsQuoted {
        phrases: Vec<String>,
    },
    LeftOut {
        words: Vec<String>,
    },
    /// Languages are ISO 639-1 codes.
    KeywordsDecide {
        model: String,
        languages: Vec<String>,
        language: String,
    },
    NotReranked {
        why: Trouble,
    },
    NotRankedElsewhere {
        server: String,
        why: NotElsewhere,
    },
    SettingsNotElsewhere {
        server: String,
    },
    NobodyPruned {
        why: Trouble,
    },
    NotRerankedInLanguage {
        model: String,
        languages: Vec<String>,
        language: String,
    },
    NotRewritten {
        why: RewriteFault,
        with_words_before: bool,
    },
    CheckedWithoutReranker {
        why: NoJudge,
    },
    Repeats,
    PassagesLeftOut {
        count: u64,
    },
    PassageCut {
        number: u32,
    },
    AnswerBreaksOff {
        why: Trouble,
    },
    AnswerCutOff,
    AnswerTooLong {
        tokens: u64,
    },
    FolderNotWatched {
        folder: String,
        why: String,
    },
    FolderPolled {
        folder: String,
        why: String,
    },
    FolderMoved {
        from: String,
        to: String,
    },
    LibraryNotSearched {
        name: String,
        why: Trouble,
    },
    /// Nothing below it was removed from the index.
    FolderUnreachable {
        folder: String,
        why: String,
    },
    /// A sentence in an answer of the history, as an earlier version put it.
    Told {
        text: String,
    },
}

/// Why a question was not put anew by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum RewriteFault {
    Slow { seconds: u64 },
    Failed { why: Trouble },
    Nothing,
    TooMuch,
    NoQuestion,
    SomethingElse,
}

/// Why a server did not rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum NotElsewhere {
    Failed { why: Trouble },
    HeldBack { count: u64 },
}

/// Why no reranker judges an answer's sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum NoJudge {
    NotChosen,
    OtherModel { known: String, chosen: String },
    Language { model: String, languages: Vec<String>, language: String },
    Failed { why: Trouble },
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NoAnswer {
    Nothing,
    NothingThatMayLeave,
    AllHeldBack,
    Stopped,
    ModelWroteNothing,
    ModelFoundNothing,
}

// ---- The start, and what the app says unasked --------------------------------------------------------

/// What the interface needs before it can show anything.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start {
    pub(crate) version: String,
    /// Nothing was set up yet: show the first run.
    pub(crate) first_run: bool,
    pub(crate) settings: SettingsState,
    pub(crate) library: LibraryState,
    /// An embedder is installed: search by meaning works.
    pub(crate) has_embedder: bool,
    /// Reranker in use.
    pub(crate) reranker: Option<String>,
    pub(crate) platform: String,
}

/// A folder that the first run proposes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SuggestedFolder {
    pub(crate) path: String,
    pub(crate) name: String,
}

/// What the app tells unasked, over the channel given to `events`. A second call replaces the first channel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum AppEvent {
    /// Indexing went on, at most four times a second.
    Library { state: LibraryState },
    /// Searches see what was indexed last: one that has found nothing may find something now.
    Refreshed,
    /// Settings changed, by this window or by the tray.
    Settings { state: SettingsState },
    /// Models were installed, removed or chosen.
    Models,
    /// A part of the program broke down and was unloaded: show a banner.
    PartUnloaded { part: String, message: String },
    /// The window was called by the shortcut or by `toggle`: focus the search box.
    Summoned,
    /// A link names a passage: show it.
    Linked { chunk: u64 },
    /// Somebody has typed elsewhere what is to be searched for here.
    Typed { text: String },
    /// Files are held over the window.
    DragOver,
    /// They left it again.
    DragLeft,
    /// They were dropped: pass the paths to `library_add`.
    Dropped { paths: Vec<String> },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    pub(crate) version: String,
    pub(crate) license: String,
    pub(crate) home: String,
    pub(crate) models_folder: String,
    pub(crate) webview: String,
    pub(crate) cpu_threads: u32,
    /// Milliseconds from the start of the process to a usable search box.
    pub(crate) cold_start_ms: Option<f64>,
}

// ---- Search ------------------------------------------------------------------------------------------

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    Text,
    Markdown,
    Code,
    Html,
    Pdf,
    Document,
    Presentation,
    Spreadsheet,
    Mail,
    Book,
    Calendar,
    Contacts,
    History,
    Image,
    Archive,
    Other,
}

/// Conditions on files; empty lists and `null` set none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchFilter {
    /// Absolute folders; a file passes below any of them.
    pub(crate) folders: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
    /// Tags of notes; a file passes with any of them, or with one below it.
    pub(crate) tags: Vec<String>,
    /// Modified at or after, in seconds since 1970.
    pub(crate) modified_from: Option<i64>,
    /// Modified before, in seconds since 1970.
    pub(crate) modified_until: Option<i64>,
    /// Names of shared libraries, `home` for this computer's files, `all`; none: this computer's alone.
    pub(crate) libraries: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchQuery {
    /// Chosen by the interface, rising. A newer query ends the older ones.
    pub(crate) id: u32,
    pub(crate) text: String,
    pub(crate) filter: SearchFilter,
    /// Hits that fit on the screen.
    pub(crate) first: u32,
}

/// What happens during a search, in this order: `firstHits`, perhaps `moreHits`, any number of `layer`, then exactly
/// one of `settled`, `cancelled` and `failed`. Without a reranker `settled` follows at once with the same hits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum SearchEvent {
    /// Keyword and vector hits, fused: those that fit on the screen.
    FirstHits {
        query: u32,
        hits: Vec<Hit>,
        order: Order,
        notices: Vec<Notice>,
        /// Milliseconds from the arrival of the query.
        ms: f64,
        /// A reranker goes on: `settled` will bring another order.
        reranking: bool,
    },
    /// Those below the first ones, once the typing rests: what comes with every key must be small.
    MoreHits {
        query: u32,
        hits: Vec<Hit>,
    },
    /// The reranker finished a layer.
    Layer {
        query: u32,
        layer: u32,
        layers: u32,
        /// Candidates that go on.
        active: u32,
        /// Chunks that are in the result for certain, best first.
        accepted: Vec<u64>,
        /// Chunks that are not.
        dropped: Vec<u64>,
        /// The layer as the pipeline panel draws it; its candidates are places in the fused list.
        trace: LayerTrace,
    },
    /// The final order.
    Settled {
        query: u32,
        hits: Vec<Hit>,
        order: Order,
        notices: Vec<Notice>,
        ms: f64,
        layers_run: Option<u32>,
        /// Candidate × layer forwards that were computed, 0…1.
        computed_share: Option<f64>,
    },
    Cancelled {
        query: u32,
    },
    Failed {
        query: u32,
        failure: Failure,
    },
}

/// Which order hits are in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Order {
    /// Keyword and vector ranks, fused.
    Fused,
    /// Keywords alone.
    Keyword,
    Reranked {
        model: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hit {
    /// From 1.
    pub(crate) rank: u32,
    /// The passage; what all other commands ask for.
    pub(crate) chunk: u64,
    pub(crate) file: FileRef,
    /// The file's own title, else its name.
    pub(crate) title: String,
    /// Headings above the passage.
    pub(crate) heading: String,
    /// The part of the passage that counts, matched words marked.
    pub(crate) snippet: Vec<Span>,
    pub(crate) location: Location,
    /// 0…1 when reranked, a sum of reciprocal ranks when fused.
    pub(crate) score: f32,
    pub(crate) ranks: Ranks,
    /// Other files that hold the very same passage.
    pub(crate) also_in: Vec<String>,
    /// Other files that hold nearly the same passage: versions, of which this is the newest.
    pub(crate) versions: Vec<String>,
    /// The shared library that it is from; `null`: this computer's files. Its file is on another machine.
    pub(crate) library: Option<String>,
    /// Where a file from elsewhere lies on this computer, if its folder is mapped.
    pub(crate) here: Option<String>,
    /// How sure reading the passage from a picture was, 0…1; `null`: it was not read from one.
    pub(crate) ocr_confidence: Option<f32>,
}

/// A piece of text, marked or not. Never HTML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) mark: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileRef {
    /// Shown, never sent back: control characters and bidi overrides are replaced.
    pub(crate) path: String,
    pub(crate) name: String,
    /// The folder, shortened by the home folder (`~`).
    pub(crate) folder: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// In seconds since 1970.
    pub(crate) modified: i64,
}

/// Where in a file a passage is; numbers count from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Location {
    pub(crate) kind: LocationKind,
    /// First line, page, row, slide or paragraph; `null` for the whole file.
    pub(crate) start: Option<u32>,
    pub(crate) end: Option<u32>,
    /// Sheet, mail part, or headings.
    pub(crate) part: String,
    /// The same for people, in English: `page 3`.
    pub(crate) label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LocationKind {
    Line,
    Page,
    Section,
    Slide,
    Rows,
    Cells,
    Part,
    Message,
    Whole,
}

/// Ranks from 1 and the layer after which the place was settled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ranks {
    pub(crate) bm25: Option<u32>,
    pub(crate) vector: Option<u32>,
    /// By weighed terms.
    pub(crate) terms: Option<u32>,
    pub(crate) fused: Option<u32>,
    pub(crate) decided_at_layer: Option<u32>,
}

/// Why a hit of the last search is where it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Why {
    pub(crate) rank: Option<u32>,
    pub(crate) ranks: Ranks,
    /// Length of each list.
    pub(crate) bm25_hits: u32,
    pub(crate) vector_hits: u32,
    /// `null`: weighed terms were not searched.
    pub(crate) terms_hits: Option<u32>,
    pub(crate) fused_hits: u32,
    pub(crate) model: Option<String>,
    pub(crate) num_layers: u32,
    pub(crate) layers: Vec<WhyLayer>,
    /// Words of the query that the passage has.
    pub(crate) matched_words: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyLayer {
    pub(crate) layer: u32,
    /// Provisional score after the layer, 0…1; `null` where the head was not run.
    pub(crate) score: Option<f32>,
    /// Place among those that ran, from 1.
    pub(crate) place: Option<u32>,
    pub(crate) of: u32,
    pub(crate) outcome: Outcome,
}

/// What became of a candidate after a layer, or in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    /// Ran on.
    Kept,
    /// In the result for certain.
    Accepted,
    /// Out of it for certain.
    Dropped,
}

// ---- Preview -----------------------------------------------------------------------------------------

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Preview {
    pub(crate) chunk: u64,
    pub(crate) file: FileRef,
    pub(crate) title: String,
    pub(crate) location: Location,
    /// The whole passage, matched words marked.
    pub(crate) passage: Vec<Span>,
    pub(crate) body: PreviewBody,
    /// The file changed after it was indexed: the passage may be elsewhere by now.
    pub(crate) changed: bool,
    /// The shared library that it is from: its file is on another machine.
    pub(crate) library: Option<String>,
    /// Where that file lies on this computer, if its folder is mapped.
    pub(crate) here: Option<String>,
    /// That file can be fetched from the store which keeps it.
    pub(crate) original: bool,
    /// How sure reading the passage from a picture was, 0…1; `null`: it was not read from one.
    pub(crate) ocr_confidence: Option<f32>,
    /// The film that these subtitles lie beside.
    pub(crate) film: Option<Film>,
}

/// A film, and when in it the passage is said.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Film {
    pub(crate) name: String,
    /// From its beginning.
    pub(crate) seconds: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum PreviewBody {
    /// Text and code as it is. The passage is the lines `passageStart` to `passageEnd`, both included.
    Text {
        text: String,
        /// Number of the first line sent: long files are cut around the passage.
        first_line: u32,
        passage_start: u32,
        passage_end: u32,
        code: bool,
        /// Extension without the dot, in lower case.
        language: String,
        truncated: bool,
    },
    /// As `text`; to be shown formatted, HTML in it as text.
    Markdown {
        text: String,
        first_line: u32,
        passage_start: u32,
        passage_end: u32,
        truncated: bool,
    },
    /// Fetch the bytes with `preview_bytes` and show this page, the passage highlighted. `seen` are the lines of pages
    /// without a text layer.
    Pdf { page: u32, last_page: u32, seen: Vec<SeenLine> },
    /// A picture with text: fetch the bytes with `preview_bytes` and mark the passage's lines.
    Picture { seen: Vec<SeenLine> },
    /// Rows of a sheet, those of the passage among them.
    Table { table: PreviewTable },
    /// The text that was read from any other format, passage by passage.
    Passages { passages: Vec<PreviewPassage> },
    /// The file can not be shown; the passage above still can.
    Unavailable { reason: String },
}

/// A line of a page that was read as a picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenLine {
    pub(crate) page: u32,
    pub(crate) text: String,
    /// Sides as parts of the page, from its upper left corner.
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreviewPassage {
    pub(crate) chunk: u64,
    pub(crate) heading: String,
    pub(crate) location: Location,
    pub(crate) text: String,
    pub(crate) current: bool,
}

/// A part of a sheet: some two hundred rows and a hundred columns at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreviewTable {
    /// Empty where the format has none.
    pub(crate) sheet: String,
    /// The first column, 1 is A; `null` where columns have no letters.
    pub(crate) left: Option<u32>,
    /// Names of the columns; empty: they have none.
    pub(crate) columns: Vec<String>,
    /// What the passage says besides its rows.
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<TableRow>,
    /// The sheet has rows before these.
    pub(crate) more_above: bool,
    /// The sheet has rows after these.
    pub(crate) more_below: bool,
    pub(crate) columns_left_out: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TableRow {
    /// As the sheet counts, from 1.
    pub(crate) number: u32,
    /// One for each column, or one for the whole row.
    pub(crate) cells: Vec<String>,
    /// The only cell is the whole row: which columns it fills is not certain.
    pub(crate) whole: bool,
    /// It belongs to the passage.
    pub(crate) current: bool,
}

/// Which file to open: the one of a passage, or one of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum FileTarget {
    Chunk { chunk: u64 },
    File { file: i64 },
}

// ---- Ask ---------------------------------------------------------------------------------------------

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// Chosen by the interface, rising; what `stop_answer` takes.
    pub(crate) id: u32,
    pub(crate) text: String,
    /// The thread that this follows up; `null` begins one.
    pub(crate) thread: Option<i64>,
    pub(crate) filter: SearchFilter,
    /// Has the model write, even if the answer is there already.
    #[serde(default)]
    pub(crate) fresh: bool,
}

/// `rewritten` for some that follow others, `evidence`, any number of `piece` and `checked`, then one of `done` and
/// `failed`. A stopped answer is `done` with
/// `stopped` set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[expect(clippy::large_enum_variant, reason = "one at a time, and gone when it is sent")]
pub(crate) enum AskEvent {
    /// A language model has put a question that follows others so that it stands by itself.
    Rewritten {
        question: u32,
        text: String,
    },
    /// The passages that the answer may cite, in the order of their numbers.
    Evidence {
        question: u32,
        passages: Vec<Hit>,
        order: Order,
        notices: Vec<Notice>,
        /// What was searched for; differs from the question in a thread.
        searched_for: String,
    },
    /// More of the answer; citations are written `[n]`.
    Piece {
        question: u32,
        text: String,
    },
    /// The pieces since the one before are this sentence, which has been held against what it cites.
    Checked {
        question: u32,
        sentence: Sentence,
    },
    Done {
        question: u32,
        answer: Answer,
    },
    Failed {
        question: u32,
        failure: Failure,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// Number in the history; 0 when history is off.
    pub(crate) entry: i64,
    /// The thread: pass it back for a follow-up.
    pub(crate) thread: i64,
    /// In seconds since 1970.
    pub(crate) at: i64,
    pub(crate) question: String,
    /// Sentences in reading order; empty when nothing in the files answers.
    pub(crate) sentences: Vec<Sentence>,
    /// What the files say themselves, where nothing of what a model wrote was found in them.
    #[serde(default)]
    pub(crate) quotes: Vec<Sentence>,
    /// Why there is no answer.
    pub(crate) reason: Option<NoAnswer>,
    pub(crate) citations: Vec<Citation>,
    /// How well the best sentence fits the question, 0…1.
    pub(crate) evidence: f32,
    /// `extractive`, or the model.
    pub(crate) llm: String,
    pub(crate) order: Order,
    pub(crate) notices: Vec<Notice>,
    /// Files that were not searched, by state.
    pub(crate) not_searched: Vec<StateCount>,
    pub(crate) first_words_ms: f64,
    pub(crate) ms: f64,
    pub(crate) stopped: bool,
    /// Tokens that a model has written.
    #[serde(default)]
    pub(crate) tokens: Option<u32>,
    /// What a model was asked, word for word.
    #[serde(default)]
    pub(crate) prompt: Option<String>,
    /// What was searched for, where it is not the question as typed.
    #[serde(default)]
    pub(crate) searched_for: Option<String>,
    /// Passages that the answer was written from.
    #[serde(default)]
    pub(crate) passages: Vec<u64>,
    /// Passages that were not sent, because their folders never leave this computer.
    #[serde(default)]
    pub(crate) held_back: u64,
    /// What it took, where a model in this process wrote it.
    #[serde(default)]
    pub(crate) generation: Option<Generation>,
    /// Where it comes from, when it was there already.
    #[serde(default)]
    pub(crate) cached: Option<CachedAnswer>,
}

/// An answer that was there already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CachedAnswer {
    /// The question that it was written for.
    pub(crate) asked: String,
    /// When, in seconds since 1970.
    pub(crate) at: i64,
    /// Similarity of the two questions, 0…1.
    pub(crate) similarity: f32,
    /// It was held against the files just now.
    pub(crate) checked: bool,
    /// It was written before anybody asked.
    pub(crate) prepared: bool,
}

/// A question whose answer is kept, or is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptAnswer {
    pub(crate) id: i64,
    pub(crate) question: String,
    /// Nobody has asked it yet.
    pub(crate) foreseen: bool,
    /// It can be given; otherwise it is to be written, or written again.
    pub(crate) ready: bool,
    /// In seconds since 1970.
    pub(crate) at: i64,
    pub(crate) uses: u32,
}

/// The answers that are kept, and what they were good for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptAnswers {
    pub(crate) reuse: Reuse,
    /// The latest first; not all of many.
    pub(crate) answers: Vec<KeptAnswer>,
    pub(crate) bytes: u64,
    /// Questions asked of a model, and of these the ones whose answer was there.
    pub(crate) asked: u64,
    pub(crate) hits: u64,
    pub(crate) seconds_saved: f64,
    pub(crate) idle_seconds: f64,
    /// Tokens of the prompts of those questions, and of these the ones that nobody had to read.
    pub(crate) prompt_tokens: f64,
    pub(crate) known_tokens: f64,
    pub(crate) reading_saved_seconds: f64,
    /// The last questions that were asked, each with the similarity of the nearest other one whose answer is there:
    /// what another threshold would let through.
    pub(crate) near: Vec<NearQuestion>,
}

/// How near a question is to another one whose answer is kept, 0…1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NearQuestion {
    pub(crate) similarity: f32,
    /// The nearest one with equal numbers, names, negations and what is asked for.
    pub(crate) by_words: f32,
}

/// How answers that are already there are used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Reuse {
    pub(crate) grade: ReuseGrade,
    /// Similarity of two questions, 0…1.
    pub(crate) threshold: f32,
    /// Bytes that answers may take; 0: none are kept.
    pub(crate) limit_bytes: u64,
    /// Answers are prepared while nobody waits.
    pub(crate) prepare: bool,
    /// Not only on mains.
    pub(crate) on_battery: bool,
}

/// How much has to be known of an answer that is given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReuseGrade {
    Off,
    Same,
    Checked,
    Instant,
}

/// What a model in this process took for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Generation {
    /// Its name in the store.
    pub(crate) model: String,
    pub(crate) prompt_tokens: u64,
    /// Of these, tokens that were known from the prompt before.
    pub(crate) reused_tokens: u64,
    /// Of these, tokens whose keys and values were loaded from disk.
    pub(crate) loaded_tokens: u64,
    /// Milliseconds of looking for them and loading them.
    pub(crate) load_ms: f64,
    /// Milliseconds of reading the rest of the prompt.
    pub(crate) prompt_ms: f64,
    /// Milliseconds from the prompt to the first words; 0 when there are none.
    pub(crate) first_token_ms: f64,
    /// Tokens written.
    pub(crate) tokens: u64,
    /// Milliseconds of writing them.
    pub(crate) decode_ms: f64,
    /// Tokens that were guessed, and computed together with those before them.
    pub(crate) drafted_tokens: u64,
    /// Of these, tokens that the model wrote.
    pub(crate) accepted_tokens: u64,
    pub(crate) tokens_per_second: f64,
    /// Tokens read and written together at most.
    pub(crate) context_tokens: u64,
    /// Layers that were read ahead, where a part of the model is read from disk.
    pub(crate) window_layers: u64,
    pub(crate) resident_weight_bytes: u64,
    /// Keys and values, when the context is full.
    pub(crate) kv_cache_bytes: u64,
    /// What each token reads from disk; 0: the model is in memory.
    pub(crate) streamed_bytes_per_token: u64,
    pub(crate) bytes_read: u64,
    /// Milliseconds that the computation waited for them.
    pub(crate) io_wait_ms: f64,
    /// Of a mixture of experts, what became of these.
    pub(crate) experts: Option<Experts>,
}

/// The experts of a mixture while an answer was written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Experts {
    /// Experts of all layers.
    pub(crate) all: u64,
    /// Of these, as many as have room in memory.
    pub(crate) held: u64,
    /// The share of those that were asked that were in memory.
    pub(crate) hit_rate: f64,
}

/// What the endpoint would be sent for a question; nothing is sent to find that out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outgoing {
    /// Scheme, host and port that it would be sent to.
    pub(crate) origin: String,
    pub(crate) question: String,
    /// In the order of their numbers.
    pub(crate) passages: Vec<Hit>,
    /// Folders that the passages come from.
    pub(crate) folders: Vec<OutgoingFolder>,
    /// Passages that would not be sent, because their folders never leave this computer.
    pub(crate) held_back: u64,
    /// What it would be asked, word for word; in a thread also to understand the question.
    pub(crate) prompt: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutgoingFolder {
    /// Shortened by the home folder (`~`).
    pub(crate) folder: String,
    pub(crate) passages: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sentence {
    pub(crate) text: String,
    /// The citation it was checked against.
    pub(crate) citation: Option<u32>,
    /// How sure it is that what it cites says so, 0…1.
    pub(crate) support: f32,
    /// `null` in answers that an earlier version kept.
    #[serde(default)]
    pub(crate) verdict: Option<Verdict>,
}

/// Whether a sentence is true to what it cites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    Supported,
    Weak,
    Unsupported,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Citation {
    pub(crate) n: u32,
    pub(crate) chunk: u64,
    pub(crate) file: FileRef,
    pub(crate) title: String,
    pub(crate) location: Location,
    /// The words that were used.
    pub(crate) quote: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryQuery {
    /// Part of a question or an answer; empty: all.
    pub(crate) text: String,
    pub(crate) limit: u32,
}

/// A thread of questions, newest threads first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadSummary {
    pub(crate) thread: i64,
    pub(crate) at: i64,
    /// The first question.
    pub(crate) question: String,
    pub(crate) questions: u32,
    /// Beginning of the last answer; empty where there is none.
    pub(crate) answer: String,
}

// ---- Library -----------------------------------------------------------------------------------------

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    Indexed,
    Pending,
    NoText,
    CloudOnly,
    TooLarge,
    Unsupported,
    Failed,
    Excluded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StateCount {
    pub(crate) state: State,
    pub(crate) count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LibraryState {
    pub(crate) folders: Vec<Folder>,
    /// Names of the shared libraries that can be searched beside them.
    pub(crate) shared: Vec<String>,
    pub(crate) counts: Vec<StateCount>,
    /// Files that are indexed, the most frequent kind first.
    pub(crate) kinds: Vec<KindCount>,
    pub(crate) lately: Lately,
    pub(crate) queue: Queue,
    pub(crate) passages: u64,
    /// How many of them meaning finds; `null` before there is an embedder.
    pub(crate) meaning: Option<Meaning>,
    pub(crate) meaning_limits: MeaningLimits,
    pub(crate) scans: Scans,
    /// Whether the pages that browsers remember are read.
    pub(crate) reads_browsing: bool,
    pub(crate) phase: Phase,
    /// While something is being done.
    pub(crate) progress: Option<Progress>,
    /// Bytes on disk.
    pub(crate) index_bytes: IndexBytes,
    /// When the index was last up to date, in seconds since 1970.
    pub(crate) as_of: Option<i64>,
    pub(crate) notices: Vec<Notice>,
    /// Why indexing stopped, if it did.
    pub(crate) error: Option<Trouble>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindCount {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
}

/// What waits; pages that are pictures are told by `scans`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    /// Files that wait to be read, the most frequent kind first.
    pub(crate) files: Vec<KindCount>,
    /// Passages of prose that wait to be found by meaning.
    pub(crate) prose: u64,
    /// Passages of tables, which come after them.
    pub(crate) tables: u64,
    /// Files that are larger than the limit, and are not read.
    pub(crate) too_large: u64,
}

/// Files that were first read lately, or had changed when they were read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lately {
    /// Within so many days.
    pub(crate) days: u32,
    pub(crate) files: u64,
}

/// How much of this computer the search by meaning may take to get ready, beside a person's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MeaningLimits {
    /// Percent of the processor, 1…100.
    pub(crate) cpu: u32,
    /// On battery, too.
    pub(crate) on_battery: bool,
}

/// Pages of scans and pictures of text, and which of them are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scans {
    pub(crate) which: WhichScans,
    /// Whether what reads them is installed.
    pub(crate) installed: bool,
    pub(crate) read: u64,
    /// Those that are to be read.
    pub(crate) waiting: u64,
    pub(crate) seconds_left: u64,
    /// Those that are not.
    pub(crate) left_out: u64,
    /// Seconds that reading those would take.
    pub(crate) left_out_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WhichScans {
    Off,
    /// Those that are found from now on.
    New,
    All,
}

/// How many passages can be found by meaning; by words all can.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meaning {
    pub(crate) passages: u64,
    pub(crate) done: u64,
    /// Columns of numbers, which words alone find.
    pub(crate) words_alone: u64,
    /// Passages that words alone find, because the server that embeds is not sent them.
    pub(crate) kept_here: u64,
    /// Why the others wait, if something holds them up.
    pub(crate) waiting: Option<Waiting>,
    pub(crate) seconds_left: Option<f64>,
}

/// What holds vectors up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Waiting {
    Battery,
    Load,
    /// The server that makes them.
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// No folder yet.
    Empty,
    Starting,
    Scanning,
    Reading,
    Embedding,
    /// Weighing terms.
    Weighing,
    /// Reading pages that are pictures.
    Looking,
    Syncing,
    /// Up to date, following changes.
    Watching,
    Paused,
    /// Another process holds the home: it is tried again.
    Locked,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// Over the last ten seconds.
    pub(crate) per_second: f64,
    pub(crate) seconds_left: Option<f64>,
    /// Files since the beginning that failed.
    pub(crate) failed: u64,
    pub(crate) current: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexBytes {
    pub(crate) catalog: u64,
    pub(crate) keyword: u64,
    pub(crate) vector: u64,
    pub(crate) terms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Folder {
    pub(crate) id: i64,
    pub(crate) path: String,
    pub(crate) name: String,
    /// It is there now; a missing one keeps its entries.
    pub(crate) present: bool,
    /// Its text never leaves this computer.
    pub(crate) confined: bool,
    /// On a network share, whose changes nobody tells of: minutes between two looks at it.
    pub(crate) looked_at_every: Option<u64>,
    /// On a disk that comes and goes.
    pub(crate) removable: bool,
    pub(crate) counts: Vec<StateCount>,
}

/// What became of a folder that was to be added.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Added {
    pub(crate) path: String,
    /// Why it was not.
    pub(crate) problem: Option<Trouble>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LedgerQuery {
    /// Empty: all.
    pub(crate) states: Vec<State>,
    pub(crate) folder: Option<i64>,
    /// Only those that are new or have changed lately.
    pub(crate) lately: bool,
    /// Part of the path.
    pub(crate) text: String,
    pub(crate) sort: LedgerSort,
    pub(crate) descending: bool,
    pub(crate) offset: u64,
    /// At most 1 000 rows are sent.
    pub(crate) limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LedgerSort {
    Path,
    State,
    Bytes,
    Modified,
    Passages,
    /// When they were found to be new or to have changed.
    Changed,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LedgerPage {
    /// Rows of the whole answer.
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) rows: Vec<LedgerRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LedgerRow {
    /// For `FileTarget`, `ledger_retry` and `ledger_exclude`.
    pub(crate) id: i64,
    pub(crate) file: FileRef,
    pub(crate) state: State,
    pub(crate) reason: String,
    pub(crate) passages: u64,
    pub(crate) warnings: Vec<String>,
    /// When it was found to be new or to have changed, in seconds since 1970.
    pub(crate) changed: Option<i64>,
}

/// A pattern in the syntax of `.gitignore`, for one folder or for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) folder: Option<i64>,
    pub(crate) pattern: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RulePreview {
    /// Files that are searched now and would not be.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) passages: u64,
    /// Some of them.
    pub(crate) examples: Vec<String>,
    /// Why the pattern is none.
    pub(crate) problem: Option<String>,
}

// ---- Pipeline ----------------------------------------------------------------------------------------

/// Everything that is known about the last search or question.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PipelineTrace {
    pub(crate) text: String,
    pub(crate) at: i64,
    pub(crate) asked: bool,
    /// `embed`, `embed_remote`, `bm25`, `vector`, `weigh`, `terms`, `shared`, `fuse`, `rerank_remote`, `rerank`,
    /// `generate`, `check`: those that ran. The embedding and `vector` run beside `bm25`, `weigh` and `terms`.
    pub(crate) stages: Vec<StageTime>,
    pub(crate) total_ms: f64,
    /// In fused order; `null` model: nothing was reranked, and the lists below are empty.
    pub(crate) candidates: Vec<TraceCandidate>,
    pub(crate) model: Option<String>,
    /// Weighed terms were searched.
    pub(crate) terms: bool,
    pub(crate) top_k: u32,
    pub(crate) mode: PruneMode,
    pub(crate) threshold: Option<f32>,
    /// What pruning promised of this result; `null`: nothing, or nobody was pruned.
    pub(crate) promise: Option<PruningPromise>,
    pub(crate) num_layers: u32,
    pub(crate) layers: Vec<LayerTrace>,
    pub(crate) plan: Option<Plan>,
    pub(crate) computed_share: Option<f64>,
    /// Process memory while it ran.
    pub(crate) memory: Vec<MemorySample>,
    pub(crate) memory_budget: Option<u64>,
    /// Scores of every candidate after every layer are there: `pipeline_replay` computes nothing. Otherwise
    /// it runs the full forward once.
    pub(crate) replayable: bool,
    /// What it took to write the answer, where a model in this process did.
    pub(crate) generation: Option<Generation>,
    /// What became of the deadline, if there was one.
    pub(crate) deadline: Option<DeadlineTrace>,
    /// What a server did, where one embeds the question.
    pub(crate) embedding: Option<RemoteRun>,
    /// What a server did, where one has ranked: there are no layers then.
    pub(crate) remote: Option<RemoteRun>,
}

/// What a server did of a search, and how long was waited for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteRun {
    /// Scheme, host and port.
    pub(crate) server: String,
    /// Where it is known.
    pub(crate) model: Option<String>,
    pub(crate) ms: f64,
    /// Requests that were answered.
    pub(crate) calls: u32,
    /// Requests that were sent.
    pub(crate) tries: u32,
    /// Passages that were sent.
    pub(crate) passages: u32,
    pub(crate) sent_bytes: u64,
}

/// How a run with a deadline ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DeadlineEnd {
    /// As planned.
    Ranked,
    /// The time was up: the order is that after the last layer that was done.
    Provisional,
    /// Before the first scores.
    NotRanked,
    /// There was too little time for anything that is better than the order that was found.
    TooShort,
    /// No part of the model ranks better than the order that was found.
    NothingGained,
}

/// A deadline, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadlineTrace {
    pub(crate) target_ms: f64,
    pub(crate) took_ms: f64,
    pub(crate) met: bool,
    pub(crate) end: DeadlineEnd,
    /// Milliseconds that would be enough for something, where these were not.
    pub(crate) least_ms: Option<f64>,
    /// Layers and slices of the model.
    pub(crate) layers: u32,
    pub(crate) slices: u32,
    /// Bits of each shard that was used, by layer and slice; empty: nobody was read.
    pub(crate) bits: Vec<Vec<u32>>,
    /// Milliseconds of reading that were left to each layer by plan.
    pub(crate) budgets_ms: Vec<f64>,
    pub(crate) candidates: u32,
    pub(crate) predicted_ms: f64,
    pub(crate) preload_bytes: u64,
    pub(crate) bytes_read: u64,
}

/// What a calibrated pruning promises, on searches like those it was calibrated with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PruningPromise {
    /// Share of the results that are not those of the full forward, at most, on average.
    pub(crate) error: f64,
    pub(crate) results: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StageTime {
    pub(crate) stage: String,
    pub(crate) ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TraceCandidate {
    pub(crate) chunk: u64,
    pub(crate) title: String,
    pub(crate) file: FileRef,
    pub(crate) location: Location,
    pub(crate) ranks: Ranks,
    /// Place in the result; `null` outside of it.
    pub(crate) rank: Option<u32>,
    pub(crate) outcome: Outcome,
    /// Layer after which it was settled.
    pub(crate) at_layer: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LayerTrace {
    /// From 1.
    pub(crate) layer: u32,
    pub(crate) ms: f64,
    pub(crate) io_wait_ms: f64,
    pub(crate) bytes_read: u64,
    pub(crate) resident_weight_bytes: u64,
    /// σ/μ of the provisional scores.
    pub(crate) dispersion: Option<f32>,
    /// Indexes into `candidates` of those that ran.
    pub(crate) active: Vec<u32>,
    /// Their provisional scores, 0…1; empty where the head was not run.
    pub(crate) scores: Vec<f32>,
    pub(crate) accepted: Vec<u32>,
    pub(crate) dropped: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub(crate) window_layers: u32,
    pub(crate) micro_batch_tokens: u64,
    pub(crate) embedding_rows: u64,
    pub(crate) hidden_on_disk: bool,
    pub(crate) planned_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemorySample {
    /// Milliseconds since the reranker began.
    pub(crate) ms: f64,
    pub(crate) rss_bytes: u64,
    pub(crate) weight_bytes: u64,
}

/// What pruning may change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PruneMode {
    /// Nothing: the full forward.
    #[default]
    Off,
    /// Only who is out: the result's order is that of the full forward.
    Order,
    /// Also the order inside the result.
    Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayRequest {
    /// Dispersion threshold, 0 or more; `null`: the full forward.
    pub(crate) threshold: Option<f32>,
    pub(crate) mode: PruneMode,
}

/// What a run under another threshold would have brought.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayResult {
    pub(crate) threshold: Option<f32>,
    pub(crate) mode: PruneMode,
    pub(crate) top_k: u32,
    /// Per candidate, in the order of the trace's candidates.
    pub(crate) candidates: Vec<ReplayCandidate>,
    pub(crate) layers_run: u32,
    /// Candidates that each layer would have computed.
    pub(crate) active: Vec<u32>,
    /// Candidate × layer forwards as a share of all, 0…1.
    pub(crate) computed_share: f64,
    /// Milliseconds of the full forward, and what of them would have been spared, by the layers' own times.
    pub(crate) full_ms: f64,
    pub(crate) saved_ms: f64,
    /// Results of the full forward that stay.
    pub(crate) kept: u32,
    /// Indexes of those that would be lost.
    pub(crate) lost: Vec<u32>,
    pub(crate) same_order: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayCandidate {
    pub(crate) rank: Option<u32>,
    pub(crate) outcome: Outcome,
    pub(crate) at_layer: u32,
}

/// One point of the curve that the threshold's slider moves on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CurvePoint {
    pub(crate) threshold: f32,
    pub(crate) computed_share: f64,
    pub(crate) kept: u32,
}

/// The settings in use against the full forward, on the candidates of the last search.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// What ran in full.
    pub(crate) model: String,
    /// The server that the settings name: it is held against the model of this computer.
    pub(crate) server: Option<String>,
    pub(crate) candidates: u32,
    pub(crate) top_k: u32,
    pub(crate) with_settings: RunFigures,
    pub(crate) full: RunFigures,
    pub(crate) same_set: bool,
    pub(crate) same_order: bool,
    /// Results that both have.
    pub(crate) common: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFigures {
    pub(crate) ms: f64,
    /// Of which a server was waited for.
    pub(crate) remote_ms: f64,
    pub(crate) io_wait_ms: f64,
    pub(crate) layers_run: u32,
    pub(crate) computed_share: f64,
    pub(crate) weight_bytes: u64,
    pub(crate) scratch_bytes: u64,
    /// Most memory of the process while it ran, where the system tells.
    pub(crate) peak_rss_bytes: u64,
    /// Chunks of the result, best first.
    pub(crate) result: Vec<u64>,
}

/// Which promises a calibration of the reranker can make; tables are for one mode and size of result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CalibrationInfo {
    pub(crate) model: Option<String>,
    /// Requests it was made from; 0 without one.
    pub(crate) queries: u32,
    pub(crate) tables: Vec<CalibrationTable>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CalibrationTable {
    pub(crate) mode: PruneMode,
    pub(crate) top_k: u32,
}

// ---- Performance -------------------------------------------------------------------------------------

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Performance {
    /// `first_hits` is from the arrival of a query to its first hits, `key_to_first_hits` from the key to
    /// the rows on screen; the rest are stages.
    pub(crate) stages: Vec<StageSeries>,
    pub(crate) memory: Vec<MemoryPoint>,
    pub(crate) indexing: Vec<IndexingPoint>,
    pub(crate) index_bytes: IndexBytes,
    pub(crate) passages: u64,
    pub(crate) cold_start_ms: Option<f64>,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) processes: Vec<ProcessMemory>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StageSeries {
    pub(crate) stage: String,
    pub(crate) count: u32,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) points: Vec<StagePoint>,
}

/// The runs of a slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StagePoint {
    /// In seconds since 1970.
    pub(crate) at: i64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryPoint {
    pub(crate) at: i64,
    pub(crate) pss_bytes: u64,
    pub(crate) rss_bytes: u64,
    /// Processes of the WebView.
    pub(crate) webview_pss_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexingPoint {
    pub(crate) at: i64,
    pub(crate) files_per_second: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessMemory {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) pss_bytes: u64,
    pub(crate) rss_bytes: u64,
}

// ---- Models ------------------------------------------------------------------------------------------

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ModelKind {
    Embedder,
    SparseEncoder,
    Reranker,
    Llm,
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Models {
    pub(crate) installed: Vec<InstalledModel>,
    pub(crate) available: Vec<AvailableModel>,
    /// Name of the model that is being fetched.
    pub(crate) fetching: Option<String>,
    pub(crate) offline: bool,
    pub(crate) folder: String,
    /// Memory of this computer, where the system tells.
    pub(crate) memory_bytes: Option<u64>,
    /// The reranker of this computer, which ranks where a server does not.
    pub(crate) reranker_here: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstalledModel {
    pub(crate) name: String,
    pub(crate) kind: ModelKind,
    pub(crate) bytes: u64,
    pub(crate) license: Option<String>,
    /// Where it came from.
    pub(crate) source: String,
    /// Searches or answers use it.
    pub(crate) active: bool,
    /// A language model that can write answers in this process.
    pub(crate) writes: bool,
    /// Another program keeps it: its files are read where they are, and never removed from here.
    pub(crate) elsewhere: bool,
    /// Why one that is kept elsewhere does not run here.
    pub(crate) problem: Option<Trouble>,
    /// It is a server, named by its address and behind a `#` by the model there.
    pub(crate) server: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AvailableModel {
    pub(crate) name: String,
    pub(crate) kind: ModelKind,
    pub(crate) bytes: u64,
    pub(crate) license: String,
    pub(crate) about: String,
    pub(crate) installed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ModelEvent {
    Progress {
        stage: ModelStage,
        file: String,
        done: u64,
        /// 0 while it is unknown.
        total: u64,
    },
    Done {
        name: String,
    },
    Cancelled,
    Failed {
        failure: Failure,
    },
}

/// What would be fetched under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelPlan {
    pub(crate) name: String,
    /// A model of this name is here, and is replaced.
    pub(crate) installed: bool,
    /// The page that it comes from.
    pub(crate) page: String,
    /// `null`: nobody says.
    pub(crate) license: Option<String>,
    /// Where its words are.
    pub(crate) license_page: Option<String>,
    /// Its files are only for who has accepted the license on the page.
    pub(crate) gated: bool,
    /// Bytes of the files that come with whichever weights.
    pub(crate) beside: u64,
    /// Bytes of everything, with the weights that are chosen; 0 while none are.
    pub(crate) bytes: u64,
    /// The weights to choose from.
    pub(crate) weights: Vec<ModelWeights>,
}

/// Weights of a model, in one file or in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelWeights {
    pub(crate) file: String,
    /// How exactly its numbers are kept, by its name.
    pub(crate) quantization: Option<String>,
    /// They are a language model's.
    pub(crate) writes: bool,
    pub(crate) bytes: u64,
    pub(crate) parts: u32,
    /// They are taken where nobody chooses.
    pub(crate) usual: bool,
    pub(crate) chosen: bool,
}

/// The hub that models come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelSource {
    pub(crate) address: String,
    /// Scheme, host and port: whom the token is for.
    pub(crate) origin: String,
    /// Nobody has chosen another one.
    pub(crate) usual: bool,
    /// It is asked as ModelScope is.
    pub(crate) modelscope: bool,
    /// The environment names it, before whatever is chosen.
    pub(crate) environment: bool,
    pub(crate) token: EndpointKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ModelStage {
    Asking,
    Fetching,
    Waiting,
    Checking,
}

// ---- Shared libraries ---------------------------------------------------------------------------------

/// A library that lives elsewhere, as it is known here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SharedLibrary {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Scheme, host and port of its server: whom the key is for.
    pub(crate) origin: String,
    /// When this computer last wrote all of it, in seconds since 1970; `null`: never.
    pub(crate) pushed_at: Option<i64>,
    pub(crate) key: EndpointKey,
    /// Folders of it that this computer can reach.
    pub(crate) folders: Vec<MappedFolder>,
    /// The object store that keeps its files; `null`: none is known here.
    pub(crate) originals: Option<Originals>,
}

/// An object store that keeps the files of a shared library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Originals {
    pub(crate) address: String,
    pub(crate) key: EndpointKey,
}

/// A folder of another computer, and where it is on this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MappedFolder {
    pub(crate) there: String,
    pub(crate) here: String,
}

/// Who writes a shared library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SharedWriter {
    pub(crate) key: String,
    pub(crate) machine: String,
    /// It is this computer.
    pub(crate) own: bool,
    pub(crate) files: u64,
    pub(crate) passages: u64,
    /// When it last wrote all of it, in seconds since 1970; `null`: never.
    pub(crate) written_at: Option<i64>,
    pub(crate) unfinished: bool,
    /// Its folders, by their paths there.
    pub(crate) folders: Vec<String>,
    /// The object store that it keeps the files in.
    pub(crate) originals: Option<String>,
}

/// What its server says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SharedLook {
    pub(crate) files: u64,
    pub(crate) passages: u64,
    /// `null`: nothing is there yet.
    pub(crate) embedder: Option<String>,
    /// Who writes it.
    pub(crate) writers: Vec<SharedWriter>,
    /// When it was last written to its end by one of them, in seconds since 1970.
    pub(crate) written_at: Option<i64>,
    /// Somebody is writing it, or has broken off.
    pub(crate) unfinished: bool,
    /// It says who may read what.
    pub(crate) with_rights: bool,
    /// Why nothing is known of it.
    pub(crate) problem: Option<Trouble>,
}

/// What writing to a shared library tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum PushEvent {
    /// Files that were looked at, of how many.
    Progress {
        done: u64,
        total: u64,
    },
    Done {
        report: PushReport,
    },
    Failed {
        failure: Failure,
    },
}

/// What was written to a shared library.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushReport {
    /// Files.
    pub(crate) written: u64,
    pub(crate) unchanged: u64,
    pub(crate) deleted: u64,
    /// Files that stay here, in folders that never leave this computer.
    pub(crate) held_back: u64,
    /// Files that were sent to the store that keeps them; `null`: there is none.
    pub(crate) originals: Option<u64>,
    pub(crate) passages: u64,
    /// It went on where a run before had broken off.
    pub(crate) resumed: bool,
    /// It was stopped: the next run goes on from here.
    pub(crate) interrupted: bool,
    pub(crate) seconds: f64,
}

/// What trying the installed models tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum TrialEvent {
    Progress {
        /// Empty while questions are made.
        name: String,
        done: u64,
        total: u64,
    },
    Done {
        trial: ModelTrial,
    },
    Cancelled,
    Failed {
        failure: Failure,
    },
}

/// Installed models on questions made from the library, best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelTrial {
    pub(crate) questions: u32,
    /// Passages that embedders were tried on.
    pub(crate) passages: u32,
    pub(crate) rerankers: Vec<TriedModel>,
    pub(crate) embedders: Vec<TriedModel>,
    /// What the models in use are not made for.
    pub(crate) not_read: Vec<NotRead>,
}

/// What the embedder or reranker in use is not made for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotRead {
    pub(crate) kind: ModelKind,
    pub(crate) model: String,
    /// Languages of the library that it does not read (ISO 639-1); none where it reads all.
    pub(crate) languages: Vec<String>,
    /// Share of the library that is in them.
    pub(crate) share: f32,
    /// Kinds of files for which nothing is promised.
    pub(crate) kinds: Vec<Kind>,
    /// Installed models that read these languages.
    pub(crate) installed: Vec<String>,
    /// Those that can be fetched and read them, the smallest first.
    pub(crate) available: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TriedModel {
    /// `null`: no reranker, the order as it was found.
    pub(crate) name: Option<String>,
    pub(crate) in_use: bool,
    /// The fastest of those that are equally good here.
    pub(crate) advised: bool,
    /// Mean reciprocal rank of the right passage, 0 to 1, and its 95 % interval.
    pub(crate) quality: f32,
    pub(crate) low: f32,
    pub(crate) high: f32,
    /// Milliseconds a question.
    pub(crate) ms: f64,
    /// Passages that it embeds in a second; `null` for what embeds none.
    pub(crate) passages_per_second: Option<f64>,
    /// Bytes of weights in memory.
    pub(crate) bytes: u64,
    pub(crate) too_large: bool,
    /// Share of the library that is in languages it does not read.
    pub(crate) unread: f32,
    /// Why it could not be tried.
    pub(crate) problem: Option<Trouble>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelCheck {
    pub(crate) good: bool,
    pub(crate) files: u32,
    pub(crate) problems: Vec<Trouble>,
}

// ---- Settings ----------------------------------------------------------------------------------------

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SettingsState {
    pub(crate) settings: Settings,
    pub(crate) endpoint: Endpoint,
    /// What could not be done about a setting, by its name here.
    pub(crate) problems: Vec<SettingProblem>,
    /// Global shortcuts do not work in this session: bind `toggleCommand` in the desktop's settings.
    pub(crate) wayland: bool,
    pub(crate) toggle_command: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SettingProblem {
    pub(crate) setting: String,
    pub(crate) fault: SettingFault,
}

/// Why a setting has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum SettingFault {
    /// Shortcuts do not work in this session.
    NoShortcuts,
    /// Wayland lets no program take a key: `command` is to be bound in the desktop's settings.
    Wayland { command: String },
    /// The system has no list of programs to start.
    NoStartList,
    /// What the system says, in its words.
    System { message: String },
}

/// Words of menus and dialogs that the system draws, in the language on screen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SystemWords {
    /// Of the tray's menu.
    pub(crate) show: String,
    pub(crate) quit: String,
    /// Titles of dialogs.
    pub(crate) folders_to_search: String,
    pub(crate) folder_of_model: String,
    pub(crate) save_figures: String,
}

impl Default for SystemWords {
    /// Before the interface has said otherwise.
    fn default() -> Self {
        SystemWords {
            show: "Show Riddle".to_owned(),
            quit: "Quit".to_owned(),
            folders_to_search: "Folders to search".to_owned(),
            folder_of_model: "Folder of a model".to_owned(),
            save_figures: "Save figures".to_owned(),
        }
    }
}

/// What a person may set; unknown fields are refused, missing ones take their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) theme: Theme,
    /// Percent, 80…200.
    pub(crate) text_size: u32,
    /// `system` or a language tag.
    pub(crate) language: String,
    pub(crate) start_at_login: bool,
    /// Keep running in the tray when the window is closed.
    pub(crate) tray: bool,
    /// As `Ctrl+Alt+Space`; `null`: none.
    pub(crate) shortcut: Option<String>,
    pub(crate) offline: bool,
    pub(crate) keep_history: bool,
    /// Seconds without use after which models leave the memory; 0: never.
    pub(crate) unload_after: u32,
    /// `extractive`, `remote`, or `local:NAME` with the name of an installed language model.
    pub(crate) llm: String,
    pub(crate) remote: Remote,
    pub(crate) local: Local,
    /// Hits shown, 5…100.
    pub(crate) results: u32,
    /// Candidates that are left when the lists of all indexes are merged, 5…200: the reranker reads so many, and never
    /// fewer than `results`.
    pub(crate) candidates: u32,
    pub(crate) rerank: Rerank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Theme {
    System,
    Light,
    Dark,
}

/// An endpoint that speaks the OpenAI protocol, and its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Remote {
    /// As `http://localhost:11434/v1`.
    pub(crate) url: String,
    pub(crate) model: String,
    /// Tokens that the model reads and writes together, 1024…1000000.
    pub(crate) context_tokens: u32,
    /// Questions and passages may be sent to it, although it is on another machine.
    pub(crate) allowed: bool,
}

impl Default for Remote {
    fn default() -> Self {
        Remote {
            url: "http://localhost:11434/v1".to_owned(),
            model: String::new(),
            context_tokens: 8192,
            allowed: false,
        }
    }
}

/// How a language model runs in this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Local {
    /// Bytes that the process is to stay within, 256 MiB or more: what does not fit is read from disk while the
    /// model writes; `null`: it is wholly in memory.
    pub(crate) memory_budget: Option<u64>,
    /// Tokens that it reads and writes together, 512…1000000; `null`: as many as are useful and fit.
    pub(crate) context_tokens: Option<u32>,
    /// Who guesses what it writes next: `lookup` (what stands in the passages), `none`, or the name of an installed
    /// model of the same family.
    pub(crate) draft: String,
    /// In which order it reads the passages.
    pub(crate) order: ReadOrder,
}

impl Default for Local {
    fn default() -> Local {
        Local {
            memory_budget: None,
            context_tokens: None,
            draft: DRAFT_LOOKUP.to_owned(),
            order: ReadOrder::Ranked,
        }
    }
}

/// In which order a model reads passages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReadOrder {
    /// The best first and the second-best last.
    #[default]
    Ranked,
    /// As the files have them.
    Document,
    /// Those first that it has read before in this order.
    Stored,
}

/// [`Local::draft`]: the passages.
pub(crate) const DRAFT_LOOKUP: &str = "lookup";

/// [`Local::draft`]: nobody.
pub(crate) const DRAFT_NONE: &str = "none";

/// Where the endpoint's key is. The key itself never comes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum KeyPlace {
    /// There is none.
    None,
    /// In the system's secret store.
    Kept,
    /// In the environment, which goes before one that is kept.
    Environment,
    /// Nobody knows: there is no secret store that answers.
    Unknown,
}

/// What is known of the endpoint's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointKey {
    pub(crate) place: KeyPlace,
    /// Why nobody knows.
    pub(crate) problem: Option<Trouble>,
}

/// What is known of the endpoint without asking it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Endpoint {
    /// Scheme, host and port; empty for an address that is none.
    pub(crate) origin: String,
    /// It is on this very computer.
    pub(crate) local: bool,
    /// What is wrong with the address.
    pub(crate) problem: Option<String>,
}

/// How the reranker runs; `null` leaves it to the engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Rerank {
    pub(crate) mode: PruneMode,
    pub(crate) pruning: Pruning,
    /// Layers in memory at once.
    pub(crate) window: Option<u32>,
    pub(crate) micro_batch_tokens: Option<u32>,
    /// Share of the vocabulary whose rows may be in memory, 0…1.
    pub(crate) row_share: Option<f32>,
    /// Bytes that the process is to stay within.
    pub(crate) memory_budget: Option<u64>,
    /// Milliseconds from the call to the ranking, 10…60000; `null`: the whole model, however long it takes.
    pub(crate) deadline_ms: Option<u32>,
    /// Bytes of weights that stay between searches with a deadline; `null`: none.
    pub(crate) preload_bytes: Option<u64>,
}

/// Who decides about pruning; all but `standard` are without effect in mode `off`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Pruning {
    /// Nobody has chosen: the program's own, where the reranker's calibration promises it. What earlier versions kept
    /// as `never` was no choice either.
    #[default]
    #[serde(alias = "never")]
    Standard,
    /// Nobody is pruned.
    Full,
    Threshold {
        threshold: f32,
    },
    /// Needs a calibration.
    Precision {
        precision: f64,
    },
    /// Needs a calibration.
    ErrorProbability {
        probability: f64,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            theme: Theme::System,
            text_size: 100,
            language: "system".to_owned(),
            start_at_login: false,
            tray: false,
            shortcut: None,
            offline: false,
            keep_history: true,
            unload_after: 60,
            llm: "extractive".to_owned(),
            remote: Remote::default(),
            local: Local::default(),
            results: 20,
            // As many as the bundled reranker was calibrated on: with no more than results nobody could be pruned.
            candidates: riddle_rag::DEFAULT_FUSED as u32,
            rerank: Rerank::default(),
        }
    }
}
