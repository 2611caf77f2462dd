//! The keys and values of a header.

use std::collections::{HashMap, hash_map::Entry};

use super::{Texts, source::Source};
use crate::{Error, Result};

/// Keys of a real file: fewer than a hundred.
const MAX_KEYS: u64 = 1 << 16;

/// Longest key, by the format's description.
const MAX_KEY_BYTES: u64 = (1 << 16) - 1;

/// Elements of all arrays together. The largest vocabularies have 300 thousand tokens with a string, a score and a
/// type each, and half a million merges; integers are widened to eight bytes, so this bounds memory to 64 MiB.
const MAX_ELEMENTS: u64 = 1 << 23;

/// Arrays within arrays: no key has any, the format allows them.
const MAX_DEPTH: usize = 4;

/// What a key holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
    Text(String),
    Texts(Texts),
    Floats(Vec<f32>),
    Numbers(Vec<i64>),
    /// Nothing that a model needs: an array of arrays, or of integers beyond `i64`.
    Other,
}

/// The types of values, by their numbers in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Flag = 7,
    Text = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

const KINDS: [Kind; 13] = [
    Kind::U8,
    Kind::I8,
    Kind::U16,
    Kind::I16,
    Kind::U32,
    Kind::I32,
    Kind::F32,
    Kind::Flag,
    Kind::Text,
    Kind::Array,
    Kind::U64,
    Kind::I64,
    Kind::F64,
];

impl Kind {
    /// Bytes of a value; of a string or an array, those it has at least.
    fn bytes(self) -> u64 {
        match self {
            Kind::U8 | Kind::I8 | Kind::Flag => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 | Kind::Text => 8,
            Kind::Array => 12,
        }
    }
}

/// Reads all keys and values.
pub(super) fn read(source: &mut Source, keys: u64) -> Result<HashMap<String, Value>> {
    let mut reader = Reader { source, key: String::new(), elements: 0 };
    if keys > MAX_KEYS {
        return Err(reader.bad(format!("the header counts {keys} keys, {MAX_KEYS} are allowed")));
    }
    let mut all = HashMap::new();
    for _ in 0..keys {
        reader.key = reader.source.text(MAX_KEY_BYTES, "a key")?;
        let kind = reader.kind()?;
        let value = reader.value(kind)?;
        match all.entry(std::mem::take(&mut reader.key)) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(place) => {
                reader.key = place.key().clone();
                return Err(reader.bad("it is there twice".to_owned()));
            }
        }
    }
    Ok(all)
}

struct Reader<'a, 'b> {
    source: &'a mut Source<'b>,
    /// The key at hand, for messages.
    key: String,
    /// Elements of arrays so far.
    elements: u64,
}

impl Reader<'_, '_> {
    fn bad(&self, why: String) -> Error {
        Error::BadMetadata { path: self.source.path(), key: self.key.clone(), why }
    }

    fn kind(&mut self) -> Result<Kind> {
        let number = self.source.u32()?;
        let found = KINDS.get(number as usize).copied();
        found.ok_or_else(|| self.bad(format!("its type is number {number}, which there is not")))
    }

    fn value(&mut self, kind: Kind) -> Result<Value> {
        Ok(match kind {
            Kind::Text => Value::Text(self.source.lossy_text()?),
            Kind::Array => self.array(0)?,
            Kind::F32 => Value::Float(f32::from_le_bytes(self.source.bytes()?).into()),
            Kind::F64 => Value::Float(f64::from_le_bytes(self.source.bytes()?)),
            Kind::Flag => Value::Flag(self.flag()?),
            Kind::U64 => Value::Unsigned(self.source.u64()?),
            _ => Value::Signed(self.integer(kind)?.unwrap_or_default()),
        })
    }

    fn flag(&mut self) -> Result<bool> {
        match self.source.bytes::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(self.bad(format!("a flag is 0 or 1, this one is {other}"))),
        }
    }

    /// An integer or a flag; none where it is beyond `i64`.
    fn integer(&mut self, kind: Kind) -> Result<Option<i64>> {
        Ok(Some(match kind {
            Kind::U8 => u8::from_le_bytes(self.source.bytes()?).into(),
            Kind::I8 => i8::from_le_bytes(self.source.bytes()?).into(),
            Kind::U16 => u16::from_le_bytes(self.source.bytes()?).into(),
            Kind::I16 => i16::from_le_bytes(self.source.bytes()?).into(),
            Kind::U32 => u32::from_le_bytes(self.source.bytes()?).into(),
            Kind::I32 => i32::from_le_bytes(self.source.bytes()?).into(),
            Kind::I64 => i64::from_le_bytes(self.source.bytes()?),
            Kind::U64 => return Ok(i64::try_from(self.source.u64()?).ok()),
            Kind::Flag => self.flag()?.into(),
            Kind::F32 | Kind::F64 | Kind::Text | Kind::Array => return Ok(None),
        }))
    }

    /// An array. Its count is compared with the rest of the file, and memory grows as it is read.
    fn array(&mut self, depth: usize) -> Result<Value> {
        let kind = self.kind()?;
        let count = self.source.u64()?;
        self.source.expect(count.saturating_mul(kind.bytes()))?;
        self.elements = self.elements.saturating_add(count);
        if self.elements > MAX_ELEMENTS {
            return Err(self.bad(format!("arrays hold more than {MAX_ELEMENTS} elements")));
        }
        match kind {
            Kind::Text => {
                let mut texts = Texts::default();
                for _ in 0..count {
                    texts.push_with(|out| self.source.append_text(out))?;
                }
                texts.shrink();
                Ok(Value::Texts(texts))
            }
            Kind::Array if depth == MAX_DEPTH => {
                Err(self.bad(format!("arrays lie {MAX_DEPTH} deep in arrays")))
            }
            Kind::Array => {
                for _ in 0..count {
                    self.array(depth + 1)?;
                }
                Ok(Value::Other)
            }
            Kind::F32 | Kind::F64 => {
                let mut floats = Vec::new();
                for _ in 0..count {
                    floats.push(match kind {
                        Kind::F32 => f32::from_le_bytes(self.source.bytes()?),
                        _ => f64::from_le_bytes(self.source.bytes()?) as f32,
                    });
                }
                Ok(Value::Floats(floats))
            }
            _ => {
                let (mut numbers, mut all_fit) = (Vec::new(), true);
                for _ in 0..count {
                    match self.integer(kind)? {
                        Some(number) => numbers.push(number),
                        None => all_fit = false,
                    }
                }
                Ok(if all_fit { Value::Numbers(numbers) } else { Value::Other })
            }
        }
    }
}
