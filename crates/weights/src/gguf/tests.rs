use std::fs;

use proptest::prelude::*;

use super::*;

/// A file of which every byte of the header can be chosen.
#[derive(Clone)]
struct Raw {
    magic: [u8; 4],
    version: u32,
    counts: (u64, u64),
    body: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn key(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(name)[..], &kind.to_le_bytes(), value].concat()
}

fn tensor(name: &str, shape: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name);
    out.extend((shape.len() as u32).to_le_bytes());
    shape.iter().for_each(|it| out.extend(it.to_le_bytes()));
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

fn array(kind: u32, count: u64, values: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), values].concat()
}

impl Raw {
    fn new(keys: &[Vec<u8>], tensors: &[Vec<u8>]) -> Raw {
        let keys = [&[key("general.architecture", 8, &text("llama"))], keys].concat();
        let counts = (tensors.len() as u64, keys.len() as u64);
        Raw { magic: MAGIC, version: 3, counts, body: [keys.concat(), tensors.concat()].concat() }
    }

    fn bytes(&self, data: usize) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.counts.0.to_le_bytes());
        out.extend(self.counts.1.to_le_bytes());
        out.extend(&self.body);
        out.resize(out.len().next_multiple_of(32) + data, 7);
        out
    }

    fn open(&self, data: usize) -> Result<Gguf> {
        open(&self.bytes(data))
    }
}

fn open(bytes: &[u8]) -> Result<Gguf> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), bytes).expect("written");
    Gguf::open(file.path())
}

/// A file with one of everything.
fn sample() -> Vec<u8> {
    let mut writer = GgufWriter::new("qwen3");
    writer.text("general.name", "A model");
    writer.number("qwen3.block_count", 2);
    writer.float("qwen3.rope.freq_base", 1e6);
    writer.flag("tokenizer.ggml.add_bos_token", false);
    writer.texts("tokenizer.ggml.tokens", &[&b"a"[..], b"", b"\xff\x00", b"long"]);
    writer.numbers("tokenizer.ggml.token_type", &[1, -3, 6]);
    writer.floats("tokenizer.ggml.scores", &[0.5, -1.0]);
    writer.tensor("norm", &[3], GgmlFormat::F32);
    writer.tensor("matrix", &[64, 3], GgmlFormat::Q8_0);
    writer.tensor("deep", &[2, 3, 4], GgmlFormat::F16);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut data = writer.create(file.path()).expect("created");
    data.tensor([[1; 12]]).expect("written");
    data.tensor((0..3).map(|row| [row; 68])).expect("written");
    data.tensor([[4; 48]]).expect("written");
    data.finish().expect("flushed");
    fs::read(file.path()).expect("read")
}

#[test]
fn what_was_written_is_read() {
    let gguf = open(&sample()).expect("opens");
    assert_eq!(gguf.architecture(), "qwen3");
    assert_eq!(gguf.text("general.name"), Some("A model"));
    assert_eq!(gguf.number("qwen3.block_count"), Some(2));
    assert_eq!(gguf.float("qwen3.block_count"), Some(2.0));
    assert_eq!(gguf.float("qwen3.rope.freq_base"), Some(1e6));
    assert_eq!(gguf.flag("tokenizer.ggml.add_bos_token"), Some(false));
    assert_eq!(gguf.number("tokenizer.ggml.add_bos_token"), None);
    let tokens = gguf.texts("tokenizer.ggml.tokens").expect("there");
    assert!(tokens.iter().eq([&b"a"[..], b"", b"\xff\x00", b"long"]));
    assert_eq!(gguf.numbers("tokenizer.ggml.token_type"), Some(&[1, -3, 6][..]));
    assert_eq!(gguf.floats("tokenizer.ggml.scores"), Some(&[0.5, -1.0][..]));
    assert!(gguf.contains("general.name") && !gguf.contains("general.nam"));
    let names: Vec<&str> = gguf.tensors().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["norm", "matrix", "deep"]);
    let matrix = gguf.tensor("matrix").expect("there");
    assert_eq!((matrix.columns(), matrix.rows(), matrix.bytes), (64, 3, 204));
    let mut whole = vec![0; 204];
    gguf.read(matrix, &mut whole).expect("read");
    assert_eq!(whole, [[0; 68], [1; 68], [2; 68]].concat());
    let mut rows = vec![0; 2 * 68];
    gguf.read_rows(matrix, 1, &mut rows).expect("read");
    assert_eq!(rows, whole[68..]);
    assert!(matches!(
        gguf.read_rows(matrix, 2, &mut rows),
        Err(Error::RowOutOfRange { row: 3, rows: 3, .. })
    ));
    let deep = gguf.tensor("deep").expect("there");
    assert_eq!((&deep.shape[..], deep.rows(), deep.bytes), (&[2, 3, 4][..], 12, 48));
}

#[test]
fn integers_of_all_types_are_numbers() {
    let keys = [
        key("u8", 0, &[200]),
        key("i8", 1, &[0xff]),
        key("u16", 2, &65_535u16.to_le_bytes()),
        key("i16", 3, &(-2i16).to_le_bytes()),
        key("i32", 5, &7i32.to_le_bytes()),
        key("u64", 10, &u64::MAX.to_le_bytes()),
        key("i64", 11, &9i64.to_le_bytes()),
        key("f64", 12, &0.25f64.to_le_bytes()),
        key("flags", 9, &array(7, 2, &[1, 0])),
        key("large", 9, &array(10, 1, &u64::MAX.to_le_bytes())),
        key("doubles", 9, &array(12, 1, &0.5f64.to_le_bytes())),
        key("nested", 9, &array(9, 1, &array(0, 2, &[1, 2]))),
        key("bytes", 8, &[&3u64.to_le_bytes()[..], b"a\xffb"].concat()),
    ];
    let gguf = Raw::new(&keys, &[]).open(0).expect("opens");
    let numbers = ["u8", "i8", "u16", "i16", "i32", "u64", "i64", "f64"].map(|it| gguf.number(it));
    let expected = [Some(200), None, Some(65_535), None, Some(7), Some(u64::MAX), Some(9), None];
    assert_eq!(numbers, expected);
    assert_eq!(gguf.float("i8"), Some(-1.0));
    assert_eq!(gguf.float("f64"), Some(0.25));
    assert_eq!(gguf.numbers("flags"), Some(&[1, 0][..]));
    assert_eq!(gguf.numbers("large"), None);
    assert_eq!(gguf.floats("doubles"), Some(&[0.5][..]));
    assert!(gguf.contains("nested"));
    assert_eq!(gguf.text("bytes"), Some("a\u{fffd}b"));
}

#[test]
fn other_files_versions_and_byte_orders_are_told_apart() {
    let raw = Raw::new(&[], &[]);
    let why = |change: fn(&mut Raw)| {
        let mut raw = raw.clone();
        change(&mut raw);
        match raw.open(0) {
            Err(Error::NotGguf { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why(|it| it.magic = *b"GGML").contains("first bytes"));
    assert!(why(|it| it.version = 1).contains("version 1"));
    assert!(why(|it| it.version = 3u32.swap_bytes()).contains("big-endian"));
    assert!(why(|it| it.version = 4).contains("version 4"));
    let mut older = raw.clone();
    older.version = 2;
    assert!(older.open(0).is_ok());
    assert!(matches!(open(b""), Err(Error::Truncated { .. })));
    assert!(matches!(open(b"{}"), Err(Error::Truncated { .. })));
    assert!(matches!(Gguf::open(Path::new("/nowhere/x.gguf")), Err(Error::Io { .. })));
}

#[test]
fn counts_and_lengths_beyond_the_file_are_refused() {
    let huge = u64::MAX;
    for lie in [
        key("long", 8, &huge.to_le_bytes()),
        key("list", 9, &array(4, huge, &[])),
        key("texts", 9, &array(8, huge / 8, &[])),
        key("texts", 9, &array(8, 1, &huge.to_le_bytes())),
        key("lists", 9, &array(9, 1 << 60, &[])),
        huge.to_le_bytes().to_vec(),
    ] {
        let opened = Raw::new(&[lie], &[]).open(0);
        assert!(matches!(opened, Err(Error::Truncated { .. })), "{opened:?}");
    }
    let mut raw = Raw::new(&[], &[]);
    raw.counts.0 = huge;
    assert!(matches!(raw.open(0), Err(Error::TooManyTensors { .. })));
    raw.counts = (0, huge);
    assert!(matches!(raw.open(0), Err(Error::BadMetadata { .. })));
    raw.counts = (3, 1);
    assert!(raw.open(0).is_err());
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let head = Raw::new(&[key("long", 8, &(1u64 << 39).to_le_bytes())], &[]).bytes(0);
    fs::write(file.path(), head).expect("written");
    // A hole: nothing of it is on disk.
    file.as_file().set_len(1 << 40).expect("grown");
    assert!(matches!(Gguf::open(file.path()), Err(Error::HeaderTooLarge { .. })));
    let head = Raw::new(&[key("list", 9, &array(0, 100_000_000, &[]))], &[]).bytes(0);
    fs::write(file.path(), head).expect("written");
    file.as_file().set_len(1 << 30).expect("grown");
    assert!(matches!(Gguf::open(file.path()), Err(Error::BadMetadata { .. })));
}

#[test]
fn lying_keys_are_refused_by_name() {
    let nested = (0..6).fold(array(0, 0, &[]), |inner, _| array(9, 1, &inner));
    for (lie, part) in [
        (vec![key("a", 13, &[])], "type"),
        (vec![key("a", 7, &[2])], "flag"),
        (vec![key("a", 0, &[2]), key("a", 0, &[2])], "twice"),
        (vec![key("a", 9, &nested)], "deep"),
        (vec![key("general.alignment", 4, &48u32.to_le_bytes())], "power of two"),
        (vec![key("general.alignment", 4, &0u32.to_le_bytes())], "power of two"),
        (vec![key("general.alignment", 4, &(1u32 << 31).to_le_bytes())], "power of two"),
        (vec![key("general.alignment", 8, &text("32"))], "not a number"),
    ] {
        match Raw::new(&lie, &[]).open(0) {
            Err(Error::BadMetadata { key, why, .. }) => {
                assert!(key == "a" || key == "general.alignment", "{key}");
                assert!(why.contains(part), "{why}");
            }
            other => panic!("{part}: {other:?}"),
        }
    }
    let mut nameless = Raw::new(&[], &[]);
    nameless.counts.1 = 0;
    nameless.body.clear();
    assert!(matches!(nameless.open(0), Err(Error::BadMetadata { .. })));
    let odd = [key("a\u{0}", 0, &[2]), [&2u64.to_le_bytes()[..], b"\xff\xff"].concat()];
    assert!(matches!(Raw::new(&odd, &[]).open(0), Err(Error::BadName { .. })));
    let parts = key("split.count", 2, &3u16.to_le_bytes());
    assert!(matches!(Raw::new(&[parts], &[]).open(0), Err(Error::NotFirstPart { parts: 3, .. })));
    let whole = key("split.count", 2, &1u16.to_le_bytes());
    assert!(Raw::new(&[whole], &[]).open(0).is_ok());
}

#[test]
fn lying_tensors_are_refused_by_name() {
    let f32 = 0;
    for (lie, part) in [
        (tensor("a", &[], f32, 0), "0 dimensions"),
        (tensor("a", &[1; 5], f32, 0), "5 dimensions"),
        (tensor("a", &[4, 0], f32, 0), "dimension of 0"),
        (tensor("a", &[33], 8, 0), "whole blocks"),
        (tensor("a", &[1 << 40, 1 << 40], f32, 0), "no machine"),
        (tensor("a", &[1 << 61, 2], f32, 0), "no machine"),
        (tensor("a", &[4], f32, 16), "multiple of 32"),
    ] {
        match Raw::new(&[], &[lie]).open(64) {
            Err(Error::BadTensor { tensor, why, .. }) => {
                assert!(tensor == "a" && why.contains(part), "{why}");
            }
            other => panic!("{part}: {other:?}"),
        }
    }
    for outside in [
        tensor("a", &[17], f32, 0),
        tensor("a", &[4], f32, 64),
        tensor("a", &[4], f32, u64::MAX - 31),
        tensor("a", &[1 << 61], f32, 0),
    ] {
        let opened = Raw::new(&[], std::slice::from_ref(&outside)).open(64);
        assert!(
            matches!(opened, Err(Error::Truncated { .. } | Error::BadTensor { .. })),
            "{opened:?}"
        );
    }
    let twice = [tensor("a", &[4], f32, 0), tensor("a", &[4], f32, 32)];
    assert!(matches!(Raw::new(&[], &twice).open(64), Err(Error::DuplicateTensor { .. })));
    let over = [tensor("b", &[4], f32, 32), tensor("a", &[9], f32, 0)];
    assert!(matches!(
        Raw::new(&[], &over).open(64),
        Err(Error::Overlap { tensor, other, .. }) if tensor == "b" && other == "a"
    ));
    let long = tensor(&"x".repeat(65), &[4], f32, 0);
    assert!(matches!(Raw::new(&[], &[long]).open(64), Err(Error::BadName { .. })));
    for (number, name) in [(23, "IQ4_XS"), (4, "number 4"), (999, "number 999")] {
        let error = Raw::new(&[], &[tensor("a", &[256], number, 0)]).open(64).expect_err("refused");
        assert!(matches!(error, Error::UnsupportedBlocks { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    // A larger alignment, and places in another order than names.
    let alignment = key("general.alignment", 4, &64u32.to_le_bytes());
    let tensors = [tensor("b", &[4], f32, 64), tensor("a", &[4], f32, 0)];
    let gguf = Raw::new(&[alignment], &tensors).open(256).expect("opens");
    assert!(gguf.tensors().iter().all(|it| it.offset.is_multiple_of(64)));
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    let whole = sample();
    // The last tensor ends 16 bytes before the file does.
    for end in 0..whole.len() - 16 {
        assert!(open(&whole[..end]).is_err(), "cut off at {end}");
    }
    assert!(open(&whole[..whole.len() - 16]).is_ok());
}

#[test]
fn formats_have_the_sizes_of_ggml_and_names_that_are_read_again() {
    let bits: Vec<usize> =
        GgmlFormat::ALL.iter().map(|it| it.row_bytes(256).expect("whole blocks")).collect();
    assert_eq!(bits, [1024, 512, 512, 144, 160, 176, 192, 272, 84, 110, 144, 176, 210]);
    for format in GgmlFormat::ALL {
        assert_eq!(format.name().to_lowercase().parse(), Ok(format));
        assert_eq!(GgmlFormat::of_number(format.number()), Ok(format));
    }
    assert_eq!(GgmlFormat::Q4K.row_bytes(32), None);
    assert_eq!(GgmlFormat::F16.row_bytes(usize::MAX), None);
    assert!("q4_k_m".parse::<GgmlFormat>().is_err());
}

/// Everything that a header promises is there.
fn check(bytes: &[u8]) {
    let Ok(gguf) = open(bytes) else { return };
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for tensor in gguf.tensors() {
        let end = tensor.offset + tensor.bytes;
        assert!(end <= bytes.len() as u64);
        assert!(taken.iter().all(|it| it.1 <= tensor.offset || end <= it.0));
        taken.push((tensor.offset, end));
        assert_eq!((tensor.rows() * tensor.row_bytes()) as u64, tensor.bytes);
        let mut whole = vec![0; tensor.bytes as usize];
        gguf.read(tensor, &mut whole).expect("it lies in the file");
        assert_eq!(whole, bytes[tensor.offset as usize..end as usize]);
        assert_eq!(gguf.tensor(&tensor.name), Some(tensor));
    }
}

proptest! {
    #[test]
    fn changed_bytes_are_an_error_or_another_true_file(
        changes in prop::collection::vec((0usize..1000, any::<u8>()), 1..4),
    ) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        check(&bytes);
    }

    #[test]
    fn garbage_behind_the_magic_is_an_error(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => 0u8..14, 1 => any::<u8>()], 0..300),
    ) {
        check(&[&b"GGUF\x03\0\0\0"[..], &bytes].concat());
    }

    #[test]
    fn whatever_is_written_is_read(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..50),
        numbers in prop::collection::vec(any::<i32>(), 0..50),
        floats in prop::collection::vec(-1e9f32..1e9, 0..50),
        shapes in prop::collection::vec((0usize..13, 1usize..4, 1usize..5), 0..8),
    ) {
        let mut writer = GgufWriter::new("llama");
        writer.texts("texts", &texts);
        writer.numbers("numbers", &numbers);
        writer.floats("floats", &floats);
        for (at, &(format, columns, rows)) in shapes.iter().enumerate() {
            let format = GgmlFormat::ALL[format];
            writer.tensor(&format!("t{at}"), &[columns * format.block_len(), rows], format);
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut data = writer.create(file.path()).expect("created");
        for (at, &(format, columns, rows)) in shapes.iter().enumerate() {
            let bytes = columns * rows * GgmlFormat::ALL[format].block_bytes();
            data.tensor(vec![vec![at as u8]; bytes]).expect("written");
        }
        data.finish().expect("flushed");
        let gguf = Gguf::open(file.path()).expect("opens");
        prop_assert!(gguf.texts("texts").expect("there").iter().eq(texts.iter().map(Vec::as_slice)));
        let wide: Vec<i64> = numbers.iter().map(|it| i64::from(*it)).collect();
        prop_assert_eq!(gguf.numbers("numbers"), Some(&wide[..]));
        prop_assert_eq!(gguf.floats("floats"), Some(&floats[..]));
        prop_assert_eq!(gguf.tensors().len(), shapes.len());
        for (at, tensor) in gguf.tensors().iter().enumerate() {
            let mut whole = vec![0; tensor.bytes as usize];
            gguf.read(tensor, &mut whole).expect("read");
            prop_assert!(whole.iter().all(|it| usize::from(*it) == at));
        }
        check(&fs::read(file.path()).expect("read"));
    }
}
