//! Values that options of several commands take, and what is said of those that are none.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use riddle_rag::{
    install::StorePrecision,
    rerank::{Mode, ShardNumbers},
};

pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number of at least 1 is needed".to_owned()),
        Ok(number) => Ok(number),
    }
}

pub(super) fn not_negative(text: &str) -> Result<f32, String> {
    let number = text.parse::<f32>().ok().filter(|it| it.is_finite() && *it >= 0.0);
    number.ok_or_else(|| "a number of 0 or more is needed".to_owned())
}

/// A number above 0, and no larger than anything that is counted here.
pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|it| *it > 0.0 && *it <= 1e6);
    number.ok_or_else(|| "a number above 0, of a million at most, is needed".to_owned())
}

/// A part of a whole: a number from 0 to 1.
pub(super) fn share<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + From<u8>,
{
    let number = text.parse::<T>().ok().filter(|it| (T::from(0)..=T::from(1)).contains(it));
    number.ok_or_else(|| "a number from 0 to 1 is needed".to_owned())
}

/// A time: a number with its unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 2] = [("ms", 1e-3), ("s", 1.0)];
    let text = text.trim();
    let number = UNITS.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * seconds)
    });
    // An hour is longer than anybody waits for a ranking.
    let fits = number.filter(|it| *it > 0.0 && *it <= 3600.0);
    fits.map(Duration::from_secs_f64)
        .ok_or_else(|| "a time such as 150ms or 1s is needed".to_owned())
}

/// Bytes: a number, with a unit if it is not bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit)))
        .unwrap_or((text, 1));
    let bytes = number.parse::<f64>().ok().map(|it| it * unit as f64);
    // Beyond 2⁵³ bytes no machine has, f64 no longer counts every one.
    let bytes = bytes.filter(|it| (1.0..9e15).contains(it));
    bytes.map(|it| it as u64).ok_or_else(|| "a size such as 250MiB or 1.5GB is needed".to_owned())
}

/// Number formats of weights.
pub(super) fn dtypes() -> impl TypedValueParser<Value = StorePrecision> {
    PossibleValuesParser::new(StorePrecision::ALL.map(StorePrecision::as_str))
        .try_map(|name| name.parse::<StorePrecision>())
}

/// What pruning may change.
pub(super) fn pruning_modes() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["set", "order"]).try_map(|name| name.parse::<Mode>())
}

/// What shards are made of.
pub(super) fn shard_numbers() -> impl TypedValueParser<Value = ShardNumbers> {
    PossibleValuesParser::new(["int8", "f32"])
        .map(|it| if it == "f32" { ShardNumbers::F32 } else { ShardNumbers::Int8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = ["250MiB", "1.5 GB", "12kB", "7", "7B"].map(|it| size(it).ok());
        assert_eq!(sizes, [250 << 20, 1_500_000_000, 12_000, 7, 7].map(Some));
        let times = ["150ms", "1.5 s", "1s"].map(|it| time(it).ok());
        assert_eq!(times, [150, 1500, 1000].map(|it| Some(Duration::from_millis(it))));
        for text in ["", "150", "0ms", "-1s", "2h", "NaNs", "1e9s"] {
            assert!(time(text).is_err_and(|it| it.contains("150ms")), "{text}");
        }
        for text in ["", "MiB", "1 TB", "-1", "inf", "NaN", "1e30"] {
            assert!(size(text).is_err(), "{text:?}");
        }
    }
}
