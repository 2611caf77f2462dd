//! Sizes as people write them.

/// Bytes: a number, with a unit if it is not bytes, as `250MiB` or `1.5 GB`.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 8] = [
        ("kib", 1024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("b", 1.0),
        ("", 1.0),
    ];
    let text = text.trim().to_ascii_lowercase();
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let bytes = number.trim().parse::<f64>().ok()? * unit;
    // Beyond 2⁵³ bytes, which no machine has, f64 no longer counts every one.
    (1.0..9e15).contains(&bytes).then_some(bytes as u64)
}

#[test]
fn sizes_have_units() {
    let sizes = ["250MiB", "1.5 GB", "12kB", "7", "7B", " 1 gib "].map(parse_size);
    assert_eq!(sizes, [250 << 20, 1_500_000_000, 12_000, 7, 7, 1 << 30].map(Some));
    for text in ["", "MiB", "1 TB", "-1", "0", "inf", "NaN", "1e30", "ä"] {
        assert_eq!(parse_size(text), None, "{text:?}");
    }
}
