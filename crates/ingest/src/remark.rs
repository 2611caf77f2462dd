//! What the ledger says of a file, in English: why nothing of it is read, or why not all.
//!
//! All of it stands here because the app says it in other languages: `cargo xtask bindings` takes these sentences, and
//! those of all errors, out of the sources, and the interface is not built while a language lacks one.

/// A reason or a warning. What is around it decides which: an outcome has one reason, a document has warnings.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Remark {
    /// It is encrypted.
    #[error("protected by a password")]
    Password,
    /// Digital rights management of a book.
    #[error("protected against copying")]
    CopyProtected,
    /// Nothing in it says anything.
    #[error("no text in it")]
    NoText,
    /// It has no bytes.
    #[error("empty file")]
    Empty,
    /// Its format is known and not read.
    #[error("no parser for .{ending} files")]
    NoParserFor {
        /// Of its name.
        ending: String,
    },
    /// Its format is not known.
    #[error("no parser for this format")]
    NoParser,
    /// It was one when the folder was looked through.
    #[error("no longer a regular file")]
    NotRegular,
    /// The system does not give its bytes.
    #[error("can not be read: {0}")]
    Unreadable(String),
    /// Its size forbids reading it.
    #[error("larger than the limit of {mib} MiB")]
    TooLarge {
        /// The limit.
        mib: u64,
    },
    /// Other bytes than its name says, or some of them, with what the parser says.
    #[error("damaged, or not what its name says: {0}")]
    Unparsed(String),
    /// Bytes that make no sense.
    #[error("it is damaged")]
    Damaged,
    /// The same, where something before them could be read.
    #[error("damaged: what follows is not read")]
    RestDamaged,
    /// The same, with what the parser says.
    #[error("what follows is not read: {0}")]
    RestNotRead(String),
    /// Markup that ends early.
    #[error("damaged: {0}")]
    DamagedMarkup(String),

    /// Pages without letters.
    #[error("no text layer: probably a scan")]
    ProbablyScan,
    /// Letters that are drawn and not told.
    #[error("its fonts do not say which letters they draw: to be read as a scan")]
    OddFonts,
    /// A form or notes on pages without letters.
    #[error("no text layer beside its form and notes: probably a scan")]
    ScanBesideForm,
    /// The library that reads what the first engine can not.
    #[error("the second engine is not there")]
    NoSecondEngine,
    /// Some pages of it were read as pictures.
    #[error("1 page read as a picture, {percent} % sure")]
    PageSeen {
        /// How sure it is what it says.
        percent: f64,
    },
    /// The same of several.
    #[error("{pages} pages read as pictures, {percent} % sure")]
    PagesSeen {
        /// How many.
        pages: usize,
        /// How sure it is what they say, in the mean.
        percent: f64,
    },
    /// A page is a picture and was not looked at.
    #[error("1 more page can be read as a picture")]
    PageUnseen,
    /// The same of several.
    #[error("{pages} more pages can be read as pictures")]
    PagesUnseen {
        /// How many.
        pages: usize,
    },

    /// Some pictures in it were read.
    #[error("1 picture in it read, {percent} % sure")]
    PictureSeen {
        /// How sure it is what it says.
        percent: f64,
    },
    /// The same of several.
    #[error("{pictures} pictures in it read, {percent} % sure")]
    PicturesSeen {
        /// How many.
        pictures: usize,
        /// How sure it is what they say, in the mean.
        percent: f64,
    },
    /// A picture in it was not looked at.
    #[error("1 more picture in it can be read")]
    PictureUnseen,
    /// The same of several.
    #[error("{pictures} more pictures in it can be read")]
    PicturesUnseen {
        /// How many.
        pictures: usize,
    },
    /// More pictures than are looked at.
    #[error("only the first {most} pictures in it are read")]
    PicturesBeyond {
        /// The limit.
        most: usize,
    },
    /// It holds nothing but pictures, and they are not looked at.
    #[error("pictures: what they show is not read")]
    Pictures,
    /// It is not where it was when the file was read.
    #[error("a picture in it is not found again")]
    PictureGone,

    /// It tells nothing of itself, and is not looked at.
    #[error("a picture: what it shows is not read")]
    Picture,
    /// It was looked at.
    #[error("a picture without text")]
    PictureWithoutText,
    /// What was seen is no language, or of a script that the networks have not learned.
    #[error(
        "a picture whose letters can not be read: others than clear Latin, Chinese and Japanese ones need Tesseract"
    )]
    PictureIllegible,
    /// The same of most that stands on one.
    #[error(
        "most letters can not be read: others than clear Latin, Chinese and Japanese ones need Tesseract"
    )]
    MostIllegible,
    /// Something about one of several pages that are pictures.
    #[error("page {page}: {why}")]
    OfPage {
        /// From 1.
        page: u32,
        /// What.
        why: String,
    },
    /// The same of several.
    #[error("{pages} pages: {why}")]
    OfPages {
        /// How many.
        pages: usize,
        /// What.
        why: String,
    },
    /// Pages beyond the limit of one picture.
    #[error("only the first {most} pages are read")]
    Pages {
        /// The limit.
        most: usize,
    },
    /// The library that draws pages of PDFs.
    #[error("what draws pages is not there")]
    NothingDraws,
    /// The library and the networks that read pictures.
    #[error("what reads pictures is not there")]
    NothingSees,
    /// The library does not draw this one.
    #[error("the page can not be drawn")]
    NotDrawn,
    /// A page without width or height.
    #[error("an empty page")]
    EmptyPage,

    /// None of its files says anything.
    #[error("no text in its files")]
    NoTextInFiles,
    /// One of its files is of a kind that is not read.
    #[error("1 file in it holds no text that is read")]
    FileWithoutText,
    /// Some of its files are of kinds that are not read.
    #[error("{count} files in it hold no text that is read")]
    FilesWithoutText {
        /// How many.
        count: u32,
    },
    /// A limit ended the reading.
    #[error("not all of it is read: {0}")]
    NotAll(Box<Remark>),
    /// Archives in archives.
    #[error("files lie too deep inside of each other")]
    TooDeep,
    /// More files than are looked at.
    #[error("it holds too many files")]
    TooMany,
    /// More bytes than are unpacked.
    #[error("it holds too much")]
    TooMuch,
    /// More time than a file is given.
    #[error("it takes too long")]
    TooSlow,
    /// A packing that is not read.
    #[error("it is packed by {method}")]
    PackedBy {
        /// Its name.
        method: String,
    },
    /// A dictionary that is larger than the limit.
    #[error("unpacking it takes too much memory")]
    UnpackingMemory,
    /// Other bytes than its name says.
    #[error("not a 7z archive")]
    NotSevenZip,
    /// Other bytes than its name says.
    #[error("not a tape archive")]
    NotTape,
    /// Something about a file in it.
    #[error("{name}: {why}")]
    Within {
        /// Its name in the archive.
        name: String,
        /// What.
        why: String,
    },
    /// A file in an archive that is too large.
    #[error("{name}: larger than {mib} MiB unpacked")]
    LargeUnpacked {
        /// Its name in the archive.
        name: String,
        /// The limit.
        mib: u64,
    },
    /// Something about a file in it whose name is unknown.
    #[error("entry {number}: {why}")]
    Entry {
        /// From 1.
        number: usize,
        /// What.
        why: String,
    },

    /// Rows beyond the limit of one sheet.
    #[error("from row {row} of {sheet} on nothing is read: {most} rows are kept of a sheet")]
    RowsOfSheet {
        /// The first that is not read.
        row: u32,
        /// Name of the sheet.
        sheet: String,
        /// The limit.
        most: usize,
    },
    /// The same where there are no sheets.
    #[error("only the first {most} rows are read")]
    Rows {
        /// The limit.
        most: usize,
    },
    /// Cells beyond the limit of one file.
    #[error("from row {row} on nothing is read: {mib} MiB of cells are kept of one file")]
    CellsFromRow {
        /// The first that is not read.
        row: u32,
        /// The limit.
        mib: usize,
    },
    /// The same where there are sheets.
    #[error(
        "from row {row} of {sheet} on nothing is read: {mib} MiB of cells are kept of one file"
    )]
    CellsFromRowOf {
        /// The first that is not read.
        row: u32,
        /// Name of the sheet.
        sheet: String,
        /// The limit.
        mib: usize,
    },
    /// The same for whole sheets.
    #[error("from sheet {sheet} on nothing is read: {mib} MiB of cells are kept of one file")]
    CellsFromSheet {
        /// The first that is not read.
        sheet: String,
        /// The limit.
        mib: usize,
    },
    /// Who hides a sheet does not want it found.
    #[error("hidden sheets are not read ({count})")]
    HiddenSheets {
        /// How many.
        count: u32,
    },
    /// One of several sheets.
    #[error("sheet {sheet}: {why}")]
    Sheet {
        /// Its name.
        sheet: String,
        /// What is wrong with it.
        why: String,
    },
    /// Passages of tables beyond the limit of one file.
    #[error("a table without end: rows beyond the first {most} passages are not kept")]
    EndlessTable {
        /// The limit.
        most: usize,
    },
    /// Passages of tables beyond those that get vectors.
    #[error("a long table: rows beyond the first {most} passages are found by words alone")]
    LongTable {
        /// The limit.
        most: usize,
    },

    /// What OneNote has not recognized on some pages.
    #[error("handwriting on {pages} pages that OneNote has not recognized is not read")]
    Handwriting {
        /// How many.
        pages: u32,
    },

    /// A file with larger pages, which no other program is meant to read.
    #[error("a copy that Outlook keeps for itself: the same mails are read from a PST file")]
    OutlookCopy,
    /// Other bytes than its name says.
    #[error("not an Outlook file, whatever its name says: rename it if it is something else")]
    NotOutlook,
    /// A file of Outlook's that is cut off or whose first bytes lie.
    #[error(
        "a damaged Outlook file: copy it again while Outlook is closed, or repair it with Outlook's Inbox Repair Tool"
    )]
    OutlookDamaged,
    /// Something about one of several mails.
    #[error("message {number}: {why}")]
    Message {
        /// From 1.
        number: usize,
        /// What.
        why: String,
    },
    /// A mail that is made to take long.
    #[error("more than {most} parts in one mail")]
    MailParts {
        /// The limit.
        most: usize,
    },
    /// A calendar's entries beyond the limit.
    #[error("only the first {most} entries are read")]
    Entries {
        /// The limit.
        most: usize,
    },
    /// An address book's people beyond the limit.
    #[error("only the first {most} people are read")]
    People {
        /// The limit.
        most: usize,
    },
    /// Other text than its name says.
    #[error("not bookmarks: {0}")]
    NotBookmarks(String),
    /// A person has to agree first.
    #[error("browsing history: it is read when you allow it in the settings")]
    BrowsingHistory,
    /// Another database than its name says.
    #[error("not the history of a browser that is known")]
    NotHistory,
    /// Visited pages beyond the limit.
    #[error("only the newest {most} pages are read")]
    OlderPages {
        /// The limit.
        most: usize,
    },
    /// The browser has written them into another file.
    #[error("the newest visits can be missing: a browser that is open keeps them beside this file")]
    NewestVisits,
    /// Other text than its name says.
    #[error("not a notebook: {0}")]
    NotNotebook(String),
    /// Other bytes than its name says.
    #[error("not a web archive")]
    NotWebArchive,
    /// A notebook that nobody wrote in.
    #[error("a notebook without cells")]
    NoCells,
    /// Other text than its name says.
    #[error("not a book: {0}")]
    NotBook(String),
    /// Other bytes than its name says.
    #[error("not a book for Kindle or Mobipocket")]
    NotMobi,
    /// A packing of books that is not read.
    #[error("packed by Huffman codes, which are not read")]
    Huffman,

    /// Its mark says how its letters are encoded, and some are not.
    #[error("some bytes are not valid {encoding}")]
    NotValid {
        /// The encoding.
        encoding: String,
    },
    /// Nothing says how its letters are encoded.
    #[error("not UTF-8: read as {encoding}")]
    ReadAs {
        /// The likeliest encoding.
        encoding: String,
    },
    /// The same, and the likeliest does not fit, either.
    #[error("not UTF-8: read as {encoding}, some bytes are not valid in it")]
    ReadDoubtfullyAs {
        /// The likeliest encoding.
        encoding: String,
    },
    /// The parser of its kind has died of it.
    #[error("its own parser failed: read as plain text, at most 256 KiB of it")]
    ReadAsText,

    /// The parser's program.
    #[error("the parser {program} can not be started: {why}")]
    NotStarted {
        /// Its path.
        program: String,
        /// What the system says.
        why: String,
    },
    /// No thread for the parser.
    #[error("no thread to parse it on: {0}")]
    NoThread(String),
    /// An error in the parser.
    #[error("the parser gave up: {0}")]
    GaveUp(String),
    /// Its process has ended.
    #[error("the parser's process is gone")]
    Gone,
    /// The program was replaced while it ran.
    #[error("the parser is of another version: install Riddle again")]
    OtherVersion,
    /// Something else than a reply came.
    #[error("the parser's answer makes no sense: {0}")]
    Nonsense(String),
    /// The limit of time.
    #[error("parsing took longer than {seconds} seconds")]
    Slow {
        /// The limit.
        seconds: f32,
    },
    /// The limit of memory.
    #[error("parsing needed more than {mib} MiB of memory")]
    Memory {
        /// The limit.
        mib: u64,
    },
    /// The limit of the stack.
    #[error("the parser crashed: the document is nested too deeply")]
    Nested,
    /// The process has died.
    #[error("the parser crashed ({0})")]
    Crashed(String),
    /// Of it, by an error in its memory.
    #[error("invalid memory access")]
    InvalidMemory,
    /// Of it, by its own will.
    #[error("it aborted")]
    Aborted,
    /// Of it, by the system.
    #[error("it was killed, perhaps for lack of memory")]
    Killed,
    /// Of it, by something else.
    #[error("signal {0}")]
    Signal(i32),
}

impl From<Remark> for String {
    fn from(remark: Remark) -> String {
        remark.to_string()
    }
}
