//! Models in several files, as `gguf-split` of llama.cpp cuts them and every program that reads GGUF expects them:
//! `X-00001-of-00003.gguf` and its siblings. Each is a whole GGUF file with `split.no` (from 0) and `split.count`; the
//! first one has all other keys and `split.tensors.count`, the tensors of all; tensors lie in any of them.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use super::{ARCHITECTURE, Header, MAX_TENSORS, metadata::Value};
use crate::{Error, Result};

/// Files of a model that are read together. Each is open up to five times (for its header, and for layers and experts
/// with and without the page cache), and a system lets a program open 256 at least. Published models that fit a
/// desktop's disk have one to five parts: llama.cpp's users cut at 50 GB.
const MAX_PARTS: u64 = 32;

/// The keys.
pub(super) const NUMBER: &str = "split.no";
pub(super) const COUNT: &str = "split.count";
pub(super) const TENSORS: &str = "split.tensors.count";

fn number(metadata: &HashMap<String, Value>, key: &str) -> Option<u64> {
    match metadata.get(key)? {
        Value::Unsigned(it) => Some(*it),
        Value::Signed(it) => u64::try_from(*it).ok(),
        _ => None,
    }
}

/// Name of part `number`, from 0, of `count`, without the ending.
pub(super) fn name_of(stem: &str, number: u64, count: u64) -> String {
    format!("{stem}-{:05}-of-{count:05}", number + 1)
}

/// The headers of the files that belong to the one whose header is `first`: none where it is whole.
///
/// # Errors
/// A part that is not the first one, is missing, damaged or of another model; tensors that are missing or there twice.
pub(super) fn others(first: &Header) -> Result<Vec<Header>> {
    let path = &first.path;
    let count = match number(&first.metadata, COUNT) {
        None | Some(0 | 1) => return Ok(Vec::new()),
        Some(count) if count > MAX_PARTS => {
            return Err(Error::TooManyParts { path: path.clone(), parts: count, limit: MAX_PARTS });
        }
        Some(count) => count,
    };
    let siblings = match number(&first.metadata, NUMBER) {
        Some(0) => siblings(path, count),
        _ => None,
    };
    let Some(siblings) = siblings else {
        let ending = format!("{}.gguf", name_of("", 0, count));
        return Err(Error::NotFirstPart { path: path.clone(), parts: count, ending });
    };
    let all = number(&first.metadata, TENSORS);
    let mut others = Vec::new();
    for (at, sibling) in (1..).zip(siblings) {
        let header = match Header::read(&sibling) {
            Err(Error::Io { source, path }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::MissingPart { path, parts: count });
            }
            header => header?,
        };
        fits(&header, first, at, count, all)?;
        others.push(header);
    }
    check_tensors(first, &others, all)?;
    Ok(others)
}

/// The files of the other parts, by the name of the first; none where it is not named so.
fn siblings(path: &Path, count: u64) -> Option<Vec<PathBuf>> {
    let file = path.file_name()?.to_str()?;
    let (before, ending) = file.rsplit_once('.')?;
    let stem = before.strip_suffix(&name_of("", 0, count))?;
    let sibling = |at| path.with_file_name(format!("{}.{ending}", name_of(stem, at, count)));
    Some((1..count).map(sibling).collect())
}

/// Compares what a part says of itself with the first one.
fn fits(header: &Header, first: &Header, at: u64, count: u64, all: Option<u64>) -> Result<()> {
    let differs = |why: String| Err(Error::BadPart { path: header.path.clone(), why });
    match number(&header.metadata, NUMBER) {
        Some(number) if number == at => {}
        Some(number) => {
            return differs(format!("it says that it is part {}", number.saturating_add(1)));
        }
        None => return differs("it does not say which part it is".to_owned()),
    }
    match number(&header.metadata, COUNT) {
        Some(number) if number == count => {}
        Some(number) => return differs(format!("it says that there are {number} parts")),
        None => return differs("it does not say how many parts there are".to_owned()),
    }
    // Most are silent about what the first one says.
    if let Some(tensors) = number(&header.metadata, TENSORS)
        && Some(tensors) != all
    {
        return differs(format!(
            "it is of another model: it says that there are {tensors} tensors"
        ));
    }
    match (header.metadata.get(ARCHITECTURE), first.metadata.get(ARCHITECTURE)) {
        (Some(own), Some(other)) if own != other => {
            differs("it is of another model: its architecture differs".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether all parts together have what the first one promises, and nothing twice.
fn check_tensors(first: &Header, others: &[Header], promised: Option<u64>) -> Result<()> {
    let mut names = HashSet::new();
    for header in [first].into_iter().chain(others) {
        for tensor in &header.tensors {
            if !names.insert(tensor.name.as_str()) {
                let (path, tensor) = (header.path.clone(), tensor.name.clone());
                return Err(Error::DuplicateTensor { path, tensor });
            }
        }
        let count = names.len() as u64;
        if count > MAX_TENSORS {
            let path = first.path.clone();
            return Err(Error::TooManyTensors { path, count, limit: MAX_TENSORS });
        }
    }
    let found = names.len();
    let why = match promised {
        Some(promised) if promised == found as u64 => return Ok(()),
        Some(promised) => format!("it promises {promised} tensors, and all parts have {found}"),
        None => "it does not say how many tensors all parts have".to_owned(),
    };
    Err(Error::BadPart { path: first.path.clone(), why })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;
    use crate::gguf::{GgmlFormat, Gguf, GgufWriter, RandomModel, write_parts, write_random};

    fn tiny(dir: &Path) -> PathBuf {
        let path = dir.join("whole.gguf");
        let format = "q8_0".parse().expect("a format");
        write_random(RandomModel::TinyQwen3, format, &path).expect("written");
        path
    }

    fn all_of(gguf: &Gguf) -> Vec<(String, Vec<usize>, Vec<u8>)> {
        let read = |it: &crate::gguf::GgufTensor| {
            let mut bytes = vec![0; it.bytes as usize];
            gguf.read(it, &mut bytes).expect("read");
            let mut last = vec![0; it.row_bytes()];
            gguf.read_rows(it, it.rows() - 1, &mut last).expect("read");
            assert!(bytes.ends_with(&last), "{}", it.name);
            (it.name.clone(), it.shape.clone(), bytes)
        };
        gguf.tensors().iter().map(read).collect()
    }

    #[test]
    fn a_model_in_parts_is_that_in_one_file() {
        let dir = TempDir::new().expect("a folder");
        let whole = Gguf::open(&tiny(dir.path())).expect("opens");
        let (expected, tensors) = (all_of(&whole), whole.tensors().len());
        for cuts in [vec![1], vec![0], vec![tensors], vec![5, 5, 9], (1..tensors).collect()] {
            let parts = write_parts(whole.path(), &dir.path().join("cut.up"), &cuts);
            let parts = parts.expect("written");
            let gguf = Gguf::open(&parts[0]).expect("opens");
            assert_eq!((gguf.path(), gguf.architecture()), (&*parts[0], "qwen3"));
            assert_eq!(gguf.files().files().len(), cuts.len() + 1);
            let sizes = parts.iter().map(|it| it.metadata().expect("there").len());
            assert_eq!(gguf.bytes(), sizes.sum::<u64>());
            assert!(all_of(&gguf) == expected, "{cuts:?}");
            let tokens = |it: &Gguf| {
                let texts = it.texts("tokenizer.ggml.tokens").expect("there");
                texts.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            assert_eq!(tokens(&gguf), tokens(&whole));
            for other in &parts[1..] {
                let error = Gguf::open(other).expect_err("not the first");
                assert!(matches!(error, Error::NotFirstPart { .. }), "{error}");
                assert!(error.to_string().contains("-00001-of-"), "{error}");
            }
            parts.iter().for_each(|it| fs::remove_file(it).expect("removed"));
        }
    }

    /// What a part says, where it says anything.
    #[derive(Default, Clone, Copy)]
    struct Says<'a> {
        architecture: Option<&'a str>,
        number: Option<u32>,
        count: Option<u32>,
        tensors: Option<u32>,
        names: &'a [&'a str],
    }

    impl Says<'_> {
        fn write(self, path: &Path) {
            let mut header = GgufWriter::default();
            let text = self.architecture.map(|it| (ARCHITECTURE, it));
            text.into_iter().for_each(|(key, it)| header.text(key, it));
            for (key, it) in [(NUMBER, self.number), (COUNT, self.count), (TENSORS, self.tensors)] {
                it.into_iter().for_each(|it| header.number(key, it));
            }
            self.names.iter().for_each(|it| header.tensor(it, &[2], GgmlFormat::F32));
            let mut data = header.create(path).expect("created");
            self.names.iter().for_each(|_| data.tensor([[1; 8]]).expect("written"));
            data.finish().expect("flushed");
        }
    }

    const FIRST: Says<'_> = Says {
        architecture: Some("llama"),
        number: Some(0),
        count: Some(2),
        tensors: Some(3),
        names: &["a", "b"],
    };
    const SECOND: Says<'_> = Says {
        architecture: None,
        number: Some(1),
        count: Some(2),
        tensors: Some(3),
        names: &["c"],
    };

    #[test]
    fn parts_that_lie_are_refused_by_name() {
        let dir = TempDir::new().expect("a folder");
        let [one, two] = [1, 2].map(|it| dir.path().join(format!("m-0000{it}-of-00002.gguf")));
        let open = |first: Says<'_>, second: Says<'_>| {
            first.write(&one);
            second.write(&two);
            Gguf::open(&one)
        };
        assert_eq!(open(FIRST, SECOND).expect("opens").tensors().len(), 3);
        let silent = Says { tensors: None, ..SECOND };
        assert!(open(FIRST, silent).is_ok(), "the first one's count is enough");
        let refused = [
            (
                FIRST,
                Says { number: Some(2), ..SECOND },
                "m-00002-of-00002.gguf: this part",
                "part 3",
            ),
            (
                FIRST,
                Says { number: None, ..SECOND },
                "m-00002-of-00002.gguf: this part",
                "which part",
            ),
            (
                FIRST,
                Says { count: Some(3), ..SECOND },
                "m-00002-of-00002.gguf: this part",
                "3 parts",
            ),
            (
                FIRST,
                Says { count: None, ..SECOND },
                "m-00002-of-00002.gguf: this part",
                "how many parts",
            ),
            (FIRST, Says { tensors: Some(9), ..SECOND }, "another model", "9 tensors"),
            (FIRST, Says { architecture: Some("bert"), ..SECOND }, "another model", "architecture"),
            (FIRST, Says { names: &["b"], ..SECOND }, "m-00002-of-00002.gguf", "b"),
            (FIRST, Says { names: &[], ..SECOND }, "promises 3", "have 2"),
            (FIRST, Says { names: &["c", "d"], ..SECOND }, "promises 3", "have 4"),
            (Says { tensors: None, ..FIRST }, silent, "m-00001-of-00002.gguf", "how many tensors"),
            (Says { number: None, ..FIRST }, SECOND, "the first one", "-00001-of-00002.gguf"),
            (Says { number: Some(1), ..FIRST }, SECOND, "the first one", "-00001-of-00002.gguf"),
            (Says { count: Some(3), ..FIRST }, SECOND, "the first one", "-00001-of-00003.gguf"),
            (Says { count: Some(65_535), ..FIRST }, SECOND, "65535 parts", "32"),
            (Says { architecture: None, ..FIRST }, SECOND, "general.architecture", "missing"),
        ];
        for (first, second, word, other) in refused {
            let error = open(first, second).expect_err(other).to_string();
            assert!(error.contains(word) && error.contains(other), "{word}: {error}");
        }
    }

    #[test]
    fn parts_that_are_missing_damaged_or_named_otherwise_are_told() {
        let dir = TempDir::new().expect("a folder");
        let [one, two] = [1, 2].map(|it| dir.path().join(format!("m-0000{it}-of-00002.gguf")));
        FIRST.write(&one);
        let error = Gguf::open(&one).expect_err("alone");
        assert!(matches!(&error, Error::MissingPart { path, parts: 2 } if *path == two), "{error}");
        SECOND.write(&two);
        let whole = fs::read(&two).expect("read");
        for bytes in [&whole[..whole.len() - 32], &whole[..30], b"GGUF", b"", b"PK\x03\x04 archive"]
        {
            fs::write(&two, bytes).expect("written");
            let error = Gguf::open(&one).expect_err("damaged");
            assert!(error.to_string().contains("00002-of-00002.gguf"), "{error}");
        }
        fs::remove_file(&two).expect("removed");
        fs::create_dir(&two).expect("made");
        assert!(Gguf::open(&one).is_err(), "a folder");
        for name in ["m.gguf", "m-00001-of-00003.gguf", "m-1-of-2.gguf", "00001-of-00002.gguf"] {
            let other = dir.path().join(name);
            fs::copy(&one, &other).expect("copied");
            let error = Gguf::open(&other).expect_err("no name");
            assert!(matches!(error, Error::NotFirstPart { parts: 2, .. }), "{name}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_a_part_end_in_a_model_or_an_error(
            flips in proptest::collection::vec((0usize..400, any::<u8>()), 1..6),
            cut in 0usize..400,
            which in 0usize..2,
        ) {
            let dir = TempDir::new().expect("a folder");
            let [one, two] = [1, 2].map(|it| dir.path().join(format!("m-0000{it}-of-00002.gguf")));
            FIRST.write(&one);
            SECOND.write(&two);
            let path = [&one, &two][which];
            let mut bytes = fs::read(path).expect("read");
            for (at, byte) in flips {
                if let Some(it) = bytes.get_mut(at) {
                    *it ^= byte;
                }
            }
            bytes.truncate(bytes.len() - cut % bytes.len() / 8);
            fs::write(path, bytes).expect("written");
            if let Ok(gguf) = Gguf::open(&one) {
                all_of(&gguf);
            }
        }
    }
}
