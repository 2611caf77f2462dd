//! The words of `riddle plan`.

use clap::{Args, builder::RangedU64ValueParser};
use riddle_rag::shared::Workload;

use super::values::above_zero;

/// What a library of some size needs, at home and on a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArgs {
    /// Documents, as 40000, 300k, 10M or 1B
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) documents: u64,
    /// People and programs that search
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub(crate) readers: u64,
    /// Questions that each of them asks in an hour
    #[arg(long, value_name = "N", default_value_t = Workload::default().questions_per_hour, value_parser = above_zero)]
    pub(crate) questions_per_hour: f64,
    /// Passages of a document in the mean [default: those of this home, 20 where there are none]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    pub(crate) passages: Option<f64>,
    /// Bytes of a passage's text in the mean
    #[arg(long, value_name = "N", default_value_t = Workload::default().passage_bytes, value_parser = above_zero)]
    pub(crate) passage_bytes: f64,
    /// Numbers of a vector
    #[arg(long, value_name = "N", default_value_t = Workload::default().dimensions, value_parser = dimensions())]
    pub(crate) dimensions: u32,
    /// Without weighed terms
    #[arg(long)]
    pub(crate) no_terms: bool,
    /// Copies of the library, so that a node may fail
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub(crate) copies: u64,
    /// Searches a second that one copy answers; a question is four
    #[arg(long, value_name = "N", default_value_t = Workload::default().searches_per_second, value_parser = above_zero)]
    pub(crate) searches_per_second: f64,
    /// Passages a second that the machine which writes embeds
    #[arg(long, value_name = "N", default_value_t = Workload::default().embedded_per_second, value_parser = above_zero)]
    pub(crate) embeds_per_second: f64,
    /// Price of a GiB of memory for a month
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    pub(crate) memory_price: Option<f64>,
    /// Price of a GiB in the object store for a month
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    pub(crate) store_price: Option<f64>,
}

/// As many as Milvus takes.
fn dimensions() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=32_768)
}

/// A whole number, or one of thousands, millions or billions.
fn count(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("B", 1e9)];
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit)))
        .unwrap_or((text, 1.0));
    let number = number.parse::<f64>().ok().map(|it| it * unit);
    // A trillion is more than anything here was thought through for.
    let fits = number.filter(|it| *it >= 1.0 && *it <= 1e12 && it.fract() == 0.0);
    fits.map(|it| it as u64)
        .ok_or_else(|| "a whole number such as 40000, 300k, 10M or 1B is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units_and_limits() {
        for (text, number) in
            [("1", 1), ("300k", 300_000), ("1.5M", 1_500_000), ("1B", 1_000_000_000)]
        {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in ["", "0", "-1", "1.5", "2000B", "NaN", "inf", "10 files", "M"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
