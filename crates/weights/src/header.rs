//! The header of a safetensors file: JSON that says what lies where.

use std::{collections::HashSet, fmt, path::Path};

use safetensors::tensor::TensorInfo;
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};

use crate::{Error, Result};

/// The key under which a header keeps remarks instead of a tensor.
const REMARKS: &str = "__metadata__";

/// Parses the header of `path` and checks what the file itself can not contradict: no name twice, each
/// tensor as long as its shape and number format say, and one behind the other without hole or overlap.
/// Returns the tensors in the order of their place.
pub(crate) fn parse(path: &Path, json: &[u8]) -> Result<Vec<(String, TensorInfo)>> {
    let path = || path.to_path_buf();
    let Entries(mut entries) = serde_json::from_slice(json)
        .map_err(|error| Error::BadHeader { path: path(), why: error.to_string() })?;
    let mut names = HashSet::new();
    if let Some((name, _)) = entries.iter().find(|(name, _)| !names.insert(name.as_str())) {
        return Err(Error::DuplicateTensor { path: path(), tensor: name.clone() });
    }
    entries.sort_by_key(|(_, info)| info.data_offsets);
    let mut expected = 0;
    for (name, info) in &entries {
        let (start, end) = info.data_offsets;
        if start != expected || end < start {
            return Err(Error::BadOffsets {
                path: path(),
                tensor: name.clone(),
                start,
                end,
                expected,
            });
        }
        if bytes(info) != Some(end - start) {
            return Err(Error::WrongSize {
                path: path(),
                tensor: name.clone(),
                bytes: end - start,
                shape: info.shape.clone(),
                dtype: format!("{:?}", info.dtype),
            });
        }
        expected = end;
    }
    Ok(entries)
}

/// Bytes that shape and number format ask for; `None` when no machine holds them.
fn bytes(info: &TensorInfo) -> Option<usize> {
    let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |n, &size| n.checked_mul(size))?;
    Some(bits.div_ceil(8))
}

/// The header as it is written. A map type would keep the last of two equal names and hide the lie.
struct Entries(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == REMARKS {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let info = map
                        .next_value()
                        .map_err(|error| de::Error::custom(format!("tensor {name:?}: {error}")))?;
                    entries.push((name, info));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(json: &str) -> Result<Vec<(String, TensorInfo)>> {
        parse(Path::new("model.safetensors"), json.as_bytes())
    }

    #[test]
    fn tensors_come_in_the_order_of_their_place() {
        let entries = check(
            r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#,
        )
        .expect("valid");
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_name_twice_is_refused_even_if_both_agree() {
        let tensor = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
        assert!(matches!(
            check(&format!("{{{tensor},{tensor}}}")),
            Err(Error::DuplicateTensor { tensor, .. }) if tensor == "a"
        ));
    }

    #[test]
    fn holes_overlaps_and_backward_offsets_are_refused() {
        for header in [
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#,
        ] {
            assert!(matches!(check(header), Err(Error::BadOffsets { .. })), "{header}");
        }
    }

    #[test]
    fn sizes_that_contradict_the_shape_are_refused() {
        for header in [
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
            r#"{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,4]}}"#,
            r#"{"a":{"dtype":"F32","shape":[4611686018427387904,16],"data_offsets":[0,0]}}"#,
        ] {
            assert!(matches!(check(header), Err(Error::WrongSize { .. })), "{header}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused_with_the_tensor_named() {
        for header in ["", "[1,2,3]", "{", "null", "\u{0}"] {
            assert!(matches!(check(header), Err(Error::BadHeader { .. })), "{header:?}");
        }
        let error = check(r#"{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}"#)
            .expect_err("no such format")
            .to_string();
        assert!(error.contains("\"a\""), "{error}");
    }

    proptest! {
        /// Any bytes are an answer, never a panic.
        #[test]
        fn garbage_is_an_error(mut json in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..60, byte in any::<u8>()) {
            let _ = parse(Path::new("x"), &json);
            json = br#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#.to_vec();
            let last = json.len() - 1;
            json[at.min(last)] = byte;
            if let Ok(entries) = parse(Path::new("x"), &json) {
                let end = entries.last().map_or(0, |(_, info)| info.data_offsets.1);
                prop_assert_eq!(end, entries.iter().filter_map(|(_, info)| bytes(info)).sum::<usize>());
            }
        }
    }
}
