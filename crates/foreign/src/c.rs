//! The same for C, as `include/riddle.h` has it. A panic never crosses the border, a null pointer is an error with
//! words, and what went wrong last is kept for each thread.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use riddle_types::panic_message;

use crate::{Mode, Options, Reranker};

/// `riddle_options`: everything zero is everything left open.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct COptions {
    /// Bytes of this structure as the caller knows it.
    pub size: usize,
    /// Folder or name of a model; null: the one that comes with Riddle.
    pub model: *const c_char,
    /// The model store; null: the user's.
    pub models_dir: *const c_char,
    /// Where the model that comes with Riddle is unpacked; null: the user's folder for such things.
    pub cache_dir: *const c_char,
    /// A calibration; null: the one in the model's folder.
    pub calibration: *const c_char,
    /// `off`, `set`, `order`, or null.
    pub mode: *const c_char,
    /// Above 0 and below 1; 0: not said.
    pub precision: f64,
    /// Bytes; 0: none.
    pub memory_budget: u64,
    /// 0: all cores.
    pub threads: u32,
    /// 0: what the model was made for.
    pub max_tokens: u32,
}

/// `riddle_result`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CResult {
    /// Which of the documents, from 0.
    pub index: usize,
    /// 0…1.
    pub score: f32,
    /// The logit.
    pub raw_score: f32,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the words, without the zero bytes that would end them early.
fn failed(words: &str) {
    let words = CString::new(words.replace('\0', " ")).unwrap_or_default();
    LAST.with(|it| *it.borrow_mut() = words);
}

/// What comes of the work; `None` with the reason kept.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(format!("internal error ({}): this is a bug", panic_message(&*panic)))
    });
    done.map_err(|words| failed(&words)).ok()
}

/// The text at a pointer; `None` at a null one.
///
/// # Safety
/// A pointer that is not null is to a text that ends with a zero byte and lives as long as `'a`.
unsafe fn text<'a>(what: &str, at: *const c_char) -> Result<Option<&'a str>, String> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller says that it ends.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map(Some).map_err(|_| format!("{what} is not UTF-8"))
}

/// As [`text`], where there has to be one.
///
/// # Safety
/// As there.
unsafe fn needed<'a>(what: &str, at: *const c_char) -> Result<&'a str, String> {
    // SAFETY: the caller's.
    unsafe { text(what, at) }?.ok_or_else(|| format!("{what} is null"))
}

/// Reads the options.
///
/// # Safety
/// A pointer that is not null is to `size` readable bytes, and the texts are as [`text`] wants them.
unsafe fn options(given: *const COptions) -> Result<Options, String> {
    if given.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: every structure of these options begins with its size.
    let size = unsafe { ptr::read_unaligned(given.cast::<usize>()) };
    if size < size_of::<usize>() || size > size_of::<COptions>() {
        return Err(format!(
            "the options have {size} bytes, and this library knows {}: set `size` to sizeof(riddle_options), \
             from the header of this library or an older one",
            size_of::<COptions>()
        ));
    }
    let mut known = COptions {
        size,
        model: ptr::null(),
        models_dir: ptr::null(),
        cache_dir: ptr::null(),
        calibration: ptr::null(),
        mode: ptr::null(),
        precision: 0.0,
        memory_budget: 0,
        threads: 0,
        max_tokens: 0,
    };
    // SAFETY: `size` bytes are readable there by the caller's word, and no more than `known` has; every pattern of
    // bytes is a number or a pointer.
    unsafe {
        ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut known).cast::<u8>(), size);
    }
    let small = |it: u32| (it > 0).then(|| usize::try_from(it).unwrap_or(usize::MAX));
    // SAFETY: texts, by the caller's word.
    unsafe {
        Ok(Options {
            model: text("model", known.model)?.map(str::to_owned),
            models_dir: text("models_dir", known.models_dir)?.map(Into::into),
            cache_dir: text("cache_dir", known.cache_dir)?.map(Into::into),
            calibration: text("calibration", known.calibration)?.map(Into::into),
            mode: text("mode", known.mode)?.map(str::parse::<Mode>).transpose()?,
            precision: (known.precision != 0.0).then_some(known.precision),
            error_probability: None,
            memory_budget: (known.memory_budget > 0).then_some(known.memory_budget),
            threads: small(known.threads),
            max_tokens: small(known.max_tokens),
            instruction: None,
        })
    }
}

/// Opens a reranker; null when it can not be, and [`riddle_last_error`] says why.
///
/// # Safety
/// `given` is null, or to options whose `size` and texts are what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riddle_open(given: *const COptions) -> *mut Reranker {
    let opened = guarded(|| {
        // SAFETY: the caller's.
        let options = unsafe { options(given) }?;
        Reranker::open(&options).map_err(|it| it.to_string())
    });
    opened.map_or(ptr::null_mut(), |it| Box::into_raw(Box::new(it)))
}

/// Puts documents in order, the best `top_k` of them (0: all) into `results`, best first; how many those are, or -1,
/// and [`riddle_last_error`] says why. Several threads may ask one reranker.
///
/// # Safety
/// `reranker` is open; `query` is a text; `documents` are `count` texts; `results` has room for as many as are asked
/// for, and never needs more than `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riddle_rank(
    reranker: *const Reranker,
    query: *const c_char,
    documents: *const *const c_char,
    count: usize,
    top_k: usize,
    results: *mut CResult,
) -> i64 {
    let ranked = guarded(|| {
        if reranker.is_null() {
            return Err("the reranker is null".to_owned());
        }
        if count > 0 && (documents.is_null() || results.is_null()) {
            return Err("documents or results are null".to_owned());
        }
        // SAFETY: not null, and open by the caller's word.
        let reranker = unsafe { &*reranker };
        // SAFETY: a text by the caller's word.
        let query = unsafe { needed("the query", query) }?;
        let document = |at: usize| {
            // SAFETY: one of `count` texts by the caller's word.
            unsafe { needed(&format!("document {at}"), *documents.add(at)) }
        };
        let documents = (0..count).map(document).collect::<Result<Vec<&str>, String>>()?;
        let top_k = if top_k == 0 { count } else { top_k };
        let ranking = reranker.rank(query, &documents, Some(top_k)).map_err(|it| it.to_string())?;
        for (at, it) in ranking.results.iter().enumerate() {
            let result = CResult { index: it.index, score: it.score, raw_score: it.raw_score };
            // SAFETY: there is room for as many as were asked for, of which there are never more than `count`.
            unsafe { results.add(at).write(result) };
        }
        i64::try_from(ranking.results.len()).map_err(|it| it.to_string())
    });
    ranked.unwrap_or(-1)
}

/// Closes a reranker; null is closed already.
///
/// # Safety
/// `reranker` is null or one that [`riddle_open`] has given and nobody has closed or still asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riddle_free(reranker: *mut Reranker) {
    guarded(|| {
        if !reranker.is_null() {
            // SAFETY: it came out of a box, by the caller's word only once.
            drop(unsafe { Box::from_raw(reranker) });
        }
        Ok(())
    });
}

/// What went wrong last on this thread, in words; empty where nothing has. It holds until the next call of this
/// library on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn riddle_last_error() -> *const c_char {
    LAST.with(|it| it.borrow().as_ptr())
}

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn riddle_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
