//! Language models of random weights: a GGUF file each.

use std::{
    fs,
    path::{Path, PathBuf},
};

use riddle_weights::gguf::{
    Gguf, RANDOM_MARK, RandomFormat, RandomModel, random_mark, write_random,
    write_random_with_words_of,
};

use crate::{Error, Result};

/// The file of `model` in `root`, which is written if it is not there yet: gigabytes, part by part. Its tokens are
/// those of the GGUF file `words`, or made up.
///
/// # Errors
/// When it can not be written, or another file has its name; `words` that can not be read, or has too many tokens.
pub fn prepare_language(
    model: RandomModel,
    format: RandomFormat,
    words: Option<&Path>,
    root: &Path,
) -> Result<PathBuf> {
    let words = words.map(Gguf::open).transpose()?;
    let of = words.as_ref().and_then(|it| it.path().file_stem());
    let of = of.map(|it| format!("-words-of-{}", it.to_string_lossy())).unwrap_or_default();
    let name = format!("{}-{}{of}.gguf", model.as_str(), format.as_str());
    let path = root.join(&name);
    if path.exists() {
        let is_ours =
            Gguf::open(&path).is_ok_and(|it| it.text(RANDOM_MARK) == Some(&random_mark(format)));
        return if is_ours { Ok(path) } else { Err(Error::NotOurs { dir: path }) };
    }
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    fs::create_dir_all(root).map_err(io(root))?;
    let partial = root.join(format!("{name}.partial"));
    match &words {
        Some(words) => write_random_with_words_of(words, model, format, &partial)?,
        None => write_random(model, format, &partial)?,
    }
    fs::rename(&partial, &path).map_err(io(&path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_model_is_written_once_and_other_files_are_left_alone() {
        let root = tempfile::tempdir().expect("temp dir");
        let prepare = |format: &str| {
            let format = format.parse().expect("a format");
            prepare_language(RandomModel::TinyQwen3, format, None, root.path())
        };
        let path = prepare("q4_k_m").expect("written");
        assert_eq!(Gguf::open(&path).expect("opens").architecture(), "qwen3");
        let written = || fs::metadata(&path).and_then(|it| it.modified()).ok();
        let first = written();
        assert_eq!(prepare("q4_k_m").expect("kept"), path);
        assert_eq!(written(), first);
        let other = root.path().join("tiny-qwen3-f16.gguf");
        fs::write(&other, "mine").expect("written");
        assert!(matches!(prepare("f16"), Err(Error::NotOurs { .. })));
        assert_eq!(fs::read(&other).expect("still there"), b"mine");
    }

    #[test]
    fn a_shape_takes_the_words_of_another_model() {
        let root = tempfile::tempdir().expect("temp dir");
        let format = "q8_0".parse().expect("a format");
        let prepare = |model, words| prepare_language(model, format, words, root.path());
        let llama = prepare(RandomModel::TinyLlama, None).expect("written");
        let path = prepare(RandomModel::TinyQwen2, Some(&llama)).expect("written");
        assert!(path.ends_with("tiny-qwen2-q8_0-words-of-tiny-llama-q8_0.gguf"));
        let (it, of) = (Gguf::open(&path).expect("opens"), Gguf::open(&llama).expect("opens"));
        assert_eq!((it.architecture(), of.architecture()), ("qwen2", "llama"));
        for key in ["tokens", "merges"].map(|it| format!("tokenizer.ggml.{it}")) {
            let all = |it: &Gguf| {
                let texts = it.texts(&key).expect("are there");
                texts.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            assert_eq!(all(&it), all(&of), "{key}");
        }
        for key in ["tokenizer.ggml.pre", "tokenizer.chat_template"] {
            assert_eq!((it.text(key), it.text(key).is_some()), (of.text(key), true));
        }
        assert_eq!(it.flag("tokenizer.ggml.add_bos_token"), Some(true));
        let large = prepare(RandomModel::SmolLm2Of360M, None).expect("written");
        let told = prepare(RandomModel::TinyQwen2, Some(&large)).expect_err("too many tokens");
        assert!(
            told.to_string().contains("49152 tokens, and the shape no more than 600"),
            "{told}"
        );
    }
}
