//! Language models of random weights: a GGUF file each.

use std::{
    fs,
    path::{Path, PathBuf},
};

use riddle_weights::gguf::{
    Gguf, RANDOM_MARK, RandomFormat, RandomModel, random_mark, write_random,
};

use crate::{Error, Result};

/// The file of `model` in `root`, which is written if it is not there yet: gigabytes, part by part.
///
/// # Errors
/// When it can not be written, or another file has its name.
pub fn prepare_language(model: RandomModel, format: RandomFormat, root: &Path) -> Result<PathBuf> {
    let name = format!("{}-{}.gguf", model.as_str(), format.as_str());
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
    write_random(model, format, &partial)?;
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
            prepare_language(RandomModel::TinyQwen3, format, root.path())
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
}
