//! The second engine for PDFs: pdfium, a library that is loaded when the parent says where it lies.
//!
//! It reads what a reader sees (forms and notes are drawn into the page first), says how large letters are and where
//! they stand, and draws a page as a picture. Only the functions that are needed are bound, by hand: their interface
//! has been the same for years. Scripts do not run: the form filler that would run them is never started.

use std::{
    ffi::{c_char, c_double, c_float, c_int, c_uint, c_ulong, c_void},
    path::Path,
    ptr::{NonNull, null},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Instant,
};

use libloading::Library;

/// Most letters that are read of one file: more than the longest books have.
const MOST_LETTERS: usize = 16 << 20;

/// A page with fewer words than this and a picture over half of it is a scan with a stamp on it.
const FEW_WORDS: usize = 8;

/// Most points of a picture that a page is drawn as: a page of A3 at 200 points an inch has 7.7 million.
const MOST_POINTS: f64 = 24e6;

type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks all of them up.
            fn find(library: &Library) -> Result<Functions, libloading::Error> {
                Ok(Functions {
                    // SAFETY: the types are those of pdfium's public headers, which do not change.
                    $($field: unsafe { *library.get(concat!($name, "\0").as_bytes())? },)*
                })
            }
        }
    };
}

functions! {
    start = "FPDF_InitLibrary": fn();
    load = "FPDF_LoadMemDocument64": fn(*const c_void, usize, *const c_char) -> Handle;
    last_error = "FPDF_GetLastError": fn() -> c_ulong;
    close = "FPDF_CloseDocument": fn(Handle);
    pages = "FPDF_GetPageCount": fn(Handle) -> c_int;
    load_page = "FPDF_LoadPage": fn(Handle, c_int) -> Handle;
    close_page = "FPDF_ClosePage": fn(Handle);
    flatten = "FPDFPage_Flatten": fn(Handle, c_int) -> c_int;
    width = "FPDF_GetPageWidthF": fn(Handle) -> c_float;
    height = "FPDF_GetPageHeightF": fn(Handle) -> c_float;
    objects = "FPDFPage_CountObjects": fn(Handle) -> c_int;
    object = "FPDFPage_GetObject": fn(Handle, c_int) -> Handle;
    object_kind = "FPDFPageObj_GetType": fn(Handle) -> c_int;
    object_bounds = "FPDFPageObj_GetBounds": fn(Handle, *mut c_float, *mut c_float, *mut c_float, *mut c_float) -> c_int;
    load_text = "FPDFText_LoadPage": fn(Handle) -> Handle;
    close_text = "FPDFText_ClosePage": fn(Handle);
    letters = "FPDFText_CountChars": fn(Handle) -> c_int;
    letter = "FPDFText_GetUnicode": fn(Handle, c_int) -> c_uint;
    size = "FPDFText_GetFontSize": fn(Handle, c_int) -> c_double;
    place = "FPDFText_GetCharBox": fn(Handle, c_int, *mut c_double, *mut c_double, *mut c_double, *mut c_double) -> c_int;
    bitmap = "FPDFBitmap_Create": fn(c_int, c_int, c_int) -> Handle;
    fill = "FPDFBitmap_FillRect": fn(Handle, c_int, c_int, c_int, c_int, c_ulong) -> c_int;
    draw = "FPDF_RenderPageBitmap": fn(Handle, Handle, c_int, c_int, c_int, c_int, c_int, c_int);
    points = "FPDFBitmap_GetBuffer": fn(Handle) -> *const u8;
    stride = "FPDFBitmap_GetStride": fn(Handle) -> c_int;
    drop_bitmap = "FPDFBitmap_Destroy": fn(Handle);
}

/// The loaded library. It may be used by one thread at a time.
pub(crate) struct Pdfium {
    functions: Functions,
    one_at_a_time: Mutex<()>,
    // Last: what points into it is dropped before.
    _library: Library,
}

/// A line of a page's text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Of most of its letters, in points.
    pub(crate) size: f64,
    /// From the page's left and lower edge, in points.
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
    pub(crate) top: f64,
}

/// What a page says.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// In the order of the file, which is that of reading in nearly all.
    pub(crate) lines: Vec<Line>,
    /// It is (nearly) nothing but a picture.
    pub(crate) picture: bool,
}

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) pages: Vec<Page>,
    /// Time or room has ended before the last page.
    pub(crate) cut: bool,
}

/// Why a file can not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It wants a password.
    Password,
    /// It is no PDF that this engine reads.
    Damaged,
}

/// A drawn page: red, green and blue of each point, rows from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgb: Vec<u8>,
}

/// The library at `path`, loaded once; `None` where it can not be.
pub(crate) fn open(path: &Path) -> Option<&'static Pdfium> {
    static LOADED: OnceLock<Option<Pdfium>> = OnceLock::new();
    let load = || {
        // SAFETY: the parent names a file that it has installed and compared with a checksum of ours; what runs when
        // it is loaded is what that library does for everybody.
        let library = unsafe { Library::new(path) };
        let library = library.inspect_err(|error| eprint_cause(&error.to_string())).ok()?;
        let found = Functions::find(&library);
        let functions = found.inspect_err(|error| eprint_cause(&error.to_string())).ok()?;
        // SAFETY: it is called once, before all other functions.
        unsafe { (functions.start)() };
        Some(Pdfium { functions, one_at_a_time: Mutex::new(()), _library: library })
    };
    LOADED.get_or_init(load).as_ref()
}

/// Says why the library is not used; the file is read without it.
fn eprint_cause(why: &str) {
    tracing::warn!(why, "the second engine for PDFs can not be loaded");
}

/// A thing of the library that is closed when it is dropped.
struct Held<'a> {
    handle: NonNull<c_void>,
    close: unsafe extern "C" fn(Handle),
    _library: &'a Functions,
}

impl<'a> Held<'a> {
    fn new(
        handle: Handle,
        close: unsafe extern "C" fn(Handle),
        library: &'a Functions,
    ) -> Option<Held<'a>> {
        Some(Held { handle: NonNull::new(handle)?, close, _library: library })
    }

    fn get(&self) -> Handle {
        self.handle.as_ptr()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is not null, came from the function that `close` belongs to, and is closed only here.
        unsafe { (self.close)(self.handle.as_ptr()) };
    }
}

/// An open file: bytes outlive it.
struct Opened<'a> {
    document: Held<'a>,
    functions: &'a Functions,
    pages: c_int,
    _turn: MutexGuard<'a, ()>,
}

impl Pdfium {
    fn open<'a>(&'a self, bytes: &'a [u8]) -> Result<Opened<'a>, Refusal> {
        let turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let functions = &self.functions;
        // SAFETY: the pointer and length are those of `bytes`, which outlives the document by its lifetime; a null
        // password means none.
        let document = unsafe { (functions.load)(bytes.as_ptr().cast(), bytes.len(), null()) };
        let Some(document) = Held::new(document, functions.close, functions) else {
            // The number for a password that is missing or wrong in pdfium's header.
            const PASSWORD: c_ulong = 4;
            // SAFETY: it takes nothing and returns a number.
            let why = unsafe { (functions.last_error)() };
            return Err(if why == PASSWORD { Refusal::Password } else { Refusal::Damaged });
        };
        // SAFETY: the document is open.
        let pages = unsafe { (functions.pages)(document.get()) };
        Ok(Opened { document, functions, pages, _turn: turn })
    }

    /// The text of all pages, as far as time suffices.
    pub(crate) fn read(&self, bytes: &[u8], end: Instant) -> Result<Text, Refusal> {
        let opened = self.open(bytes)?;
        let mut text = Text::default();
        let mut room = MOST_LETTERS;
        for number in 0..opened.pages {
            if Instant::now() >= end || room == 0 {
                text.cut = true;
                break;
            }
            let page = opened.flat_page(number).map(|it| opened.say(&it, &mut room));
            text.pages.push(page.unwrap_or_default());
        }
        Ok(text)
    }

    /// Draws a page, from 1, with so many points an inch.
    pub(crate) fn draw(&self, bytes: &[u8], number: u32, dpi: f64) -> Result<Drawn, Refusal> {
        let opened = self.open(bytes)?;
        let number = c_int::try_from(number).ok().filter(|it| (1..=opened.pages).contains(it));
        let page = number.and_then(|it| opened.flat_page(it - 1)).ok_or(Refusal::Damaged)?;
        opened.draw(&page, dpi).ok_or(Refusal::Damaged)
    }
}

impl Opened<'_> {
    fn page(&self, number: c_int) -> Option<Held<'_>> {
        // SAFETY: the document is open; a number without a page gives null.
        let page = unsafe { (self.functions.load_page)(self.document.get(), number) };
        Held::new(page, self.functions.close_page, self.functions)
    }

    /// A page with its forms and notes drawn into it.
    fn flat_page(&self, number: c_int) -> Option<Held<'_>> {
        const FOR_DISPLAY: c_int = 0;
        let page = self.page(number)?;
        // SAFETY: the page is open. It changes the copy in memory alone.
        unsafe { (self.functions.flatten)(page.get(), FOR_DISPLAY) };
        // What was drawn is seen when the page is opened again.
        drop(page);
        self.page(number)
    }

    fn say(&self, page: &Held<'_>, room: &mut usize) -> Page {
        let lines = self.lines(page, room);
        let words: usize = lines.iter().map(|it| it.text.split_whitespace().count()).sum();
        let picture = words < FEW_WORDS && self.is_picture(page, words);
        Page { lines, picture }
    }

    fn lines(&self, page: &Held<'_>, room: &mut usize) -> Vec<Line> {
        let functions = self.functions;
        // SAFETY: the page is open and stays so until the text is closed.
        let text = unsafe { (functions.load_text)(page.get()) };
        let Some(text) = Held::new(text, functions.close_text, functions) else {
            return Vec::new();
        };
        // SAFETY: the text is open.
        let count = unsafe { (functions.letters)(text.get()) };
        let mut lines = Lines::default();
        for index in 0..count {
            if *room == 0 {
                break;
            }
            *room -= 1;
            // SAFETY: the text is open and the index below its count.
            let letter = unsafe { (functions.letter)(text.get(), index) };
            // SAFETY: as above.
            let size = unsafe { (functions.size)(text.get(), index) };
            let mut place = [0.0; 4];
            let [left, right, bottom, top] = &mut place;
            // SAFETY: as above; the four places are written to and live through the call.
            let known = unsafe { (functions.place)(text.get(), index, left, right, bottom, top) };
            lines.push(letter, size, (known != 0).then_some(place));
        }
        lines.end()
    }

    /// Whether there is something to be seen where there are few words.
    fn is_picture(&self, page: &Held<'_>, words: usize) -> bool {
        /// The number of pictures among the kinds of objects, and of groups of objects.
        const PICTURE: c_int = 3;
        const GROUP: c_int = 5;
        /// Of a page with thousands of lines the first say enough.
        const LOOKED_AT: c_int = 400;
        let functions = self.functions;
        // SAFETY: the page is open.
        let (count, area) = unsafe {
            let area = (functions.width)(page.get()) * (functions.height)(page.get());
            ((functions.objects)(page.get()), area)
        };
        let mut covered = 0.0;
        for index in 0..count.min(LOOKED_AT) {
            // SAFETY: the page is open and the index below its count; the object belongs to the page.
            let object = unsafe { (functions.object)(page.get(), index) };
            if object.is_null() {
                continue;
            }
            // SAFETY: the object is not null and its page open.
            let kind = unsafe { (functions.object_kind)(object) };
            if kind != PICTURE && kind != GROUP {
                continue;
            }
            let (mut left, mut bottom, mut right, mut top) = (0.0, 0.0, 0.0, 0.0);
            // SAFETY: as above; the four places are written to and live through the call.
            let known = unsafe {
                (functions.object_bounds)(object, &mut left, &mut bottom, &mut right, &mut top)
            };
            if known != 0 {
                covered += ((right - left) * (top - bottom)).max(0.0);
            }
        }
        // Strips of a scan lie side by side. A page of drawn letters has no picture at all.
        covered > area / 2.0 || (words == 0 && (covered > area / 50.0 || count > 20))
    }

    fn draw(&self, page: &Held<'_>, dpi: f64) -> Option<Drawn> {
        /// Draw notes too, and letters without the fringes of colored screens.
        const WITH_NOTES: c_int = 0x01;
        const POINTS_AN_INCH: f64 = 72.0;
        let functions = self.functions;
        // SAFETY: the page is open.
        let (width, height) = unsafe {
            (f64::from((functions.width)(page.get())), f64::from((functions.height)(page.get())))
        };
        let mut scale = dpi / POINTS_AN_INCH;
        let points = width * height * scale * scale;
        if !points.is_finite() || width < 1.0 || height < 1.0 {
            return None;
        }
        if points > MOST_POINTS {
            scale *= (MOST_POINTS / points).sqrt();
        }
        let side = |length: f64| (length * scale).round().clamp(1.0, 65_535.0) as c_int;
        let (width, height) = (side(width), side(height));
        // SAFETY: both sides are positive and small; without room for it null comes back.
        let bitmap = unsafe { (functions.bitmap)(width, height, 0) };
        let bitmap = Held::new(bitmap, functions.drop_bitmap, functions)?;
        // SAFETY: bitmap and page are open, the rectangle is the bitmap's own.
        let (points, stride) = unsafe {
            (functions.fill)(bitmap.get(), 0, 0, width, height, 0xFFFF_FFFF);
            (functions.draw)(bitmap.get(), page.get(), 0, 0, width, height, 0, WITH_NOTES);
            ((functions.points)(bitmap.get()), (functions.stride)(bitmap.get()))
        };
        let (columns, rows) = (usize::try_from(width).ok()?, usize::try_from(height).ok()?);
        let stride = usize::try_from(stride).ok().filter(|it| *it >= columns * 4)?;
        if points.is_null() {
            return None;
        }
        // SAFETY: the bitmap is `rows` times `stride` bytes and is open until the end of this function.
        let points = unsafe { std::slice::from_raw_parts(points, stride * rows) };
        let mut rgb = Vec::with_capacity(columns * rows * 3);
        for row in points.chunks_exact(stride) {
            for point in row[..columns * 4].chunks_exact(4) {
                rgb.extend([point[2], point[1], point[0]]);
            }
        }
        Some(Drawn { width: width.unsigned_abs(), height: height.unsigned_abs(), rgb })
    }
}

/// Makes lines of letters that come one by one.
#[derive(Default)]
struct Lines {
    done: Vec<Line>,
    text: String,
    sizes: Vec<f64>,
    place: Option<[f64; 4]>,
    /// The first half of a character beyond the first 65 536.
    half: Option<u16>,
    /// The library has marked a place where a word may be cut.
    cut: bool,
}

impl Lines {
    fn push(&mut self, letter: u32, size: f64, place: Option<[f64; 4]>) {
        let letter = match u16::try_from(letter) {
            Ok(half @ 0xD800..=0xDBFF) => {
                self.half = Some(half);
                return;
            }
            Ok(half @ 0xDC00..=0xDFFF) => {
                let first = self.half.take().unwrap_or(half);
                char::decode_utf16([first, half]).next().and_then(Result::ok)
            }
            // How the library marks a hyphen that cuts a word at the end of a line; it is none where the line goes on.
            Ok(0x02 | 0xFFFE) => {
                self.cut = true;
                return;
            }
            _ => char::from_u32(letter),
        };
        let cut = std::mem::take(&mut self.cut);
        match letter {
            Some('\r' | '\n') => {
                if cut {
                    self.text.push('-');
                }
                self.finish();
            }
            Some('\0') | None => {}
            Some(letter) => {
                self.text.push(letter);
                if letter.is_whitespace() {
                    return;
                }
                self.sizes.push(size);
                if let Some([left, right, bottom, top]) = place {
                    self.place = Some(match self.place {
                        Some(it) => {
                            [it[0].min(left), it[1].max(right), it[2].min(bottom), it[3].max(top)]
                        }
                        None => [left, right, bottom, top],
                    });
                }
            }
        }
    }

    fn finish(&mut self) {
        let text = std::mem::take(&mut self.text);
        let mut sizes = std::mem::take(&mut self.sizes);
        let [left, right, bottom, top] = self.place.take().unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return;
        }
        sizes.sort_by(f64::total_cmp);
        let size = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
        // The size of a font says nothing where a matrix makes its letters large.
        let size = if size > 2.0 { size } else { top - bottom };
        self.done.push(Line { text, size, left, right, bottom, top });
    }

    fn end(mut self) -> Vec<Line> {
        self.finish();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_become_lines() {
        let mut lines = Lines::default();
        let place = |left: f64| Some([left, left + 5.0, 10.0, 20.0]);
        for (index, letter) in "A\u{2}b\u{2}\r\nc  d".chars().enumerate() {
            lines.push(u32::from(letter), 12.0, place(index as f64));
        }
        for half in [0xD83D_u32, 0xDE00] {
            lines.push(half, 12.0, None);
        }
        let lines = lines.end();
        let texts: Vec<&str> = lines.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["Ab-", "c d😀"]);
        assert_eq!((lines[0].left, lines[0].right, lines[0].size), (0.0, 7.0, 12.0));
    }

    #[test]
    fn a_library_that_is_not_there_is_none() {
        assert!(open(Path::new("/nowhere/libpdfium.so")).is_none());
    }
}
