//! Dates as clients write them, in UTC.

use crate::error::{Error, Result};

/// Seconds since 1970 of midnight of `YYYY-MM-DD`.
pub(super) fn parse(name: &str, text: &str) -> Result<i64> {
    let wrong =
        || Error::BadRequest(format!("`{name}` is {text:?}: a date is written as YYYY-MM-DD"));
    let bytes = text.as_bytes();
    let shaped = bytes.len() == 10
        && bytes.iter().enumerate().all(|(place, byte)| match place {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !shaped {
        return Err(wrong());
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().map_err(|_| wrong());
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let days = days_before(year, month) + day - 1;
    // A day that a month does not have is one of the next.
    let next = if month == 12 { days_before(year + 1, 1) } else { days_before(year, month + 1) };
    if !(1..=12).contains(&month) || day < 1 || days >= next {
        return Err(wrong());
    }
    Ok(days * 86_400)
}

/// The day of a moment.
pub(super) fn show(seconds: i64) -> String {
    let mut day = seconds.div_euclid(86_400);
    let mut year = 1970 + day.div_euclid(146_097) * 400;
    day = day.rem_euclid(146_097) + days_before(year, 1);
    while day >= days_before(year + 1, 1) {
        year += 1;
    }
    let month = (1..=12).rev().find(|it| days_before(year, *it) <= day).unwrap_or(1);
    format!("{year:04}-{month:02}-{:02}", day - days_before(year, month) + 1)
}

/// Days from 1970 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let years = year - 1;
    let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let in_year = BEFORE[usize::try_from(month - 1).unwrap_or(0).min(11)];
    years * 365 + leap_days - 719_162 + in_year + i64::from(is_leap && month > 2)
}

#[test]
fn days_are_read_and_shown() {
    for (text, seconds) in [
        ("1970-01-01", 0),
        ("1970-01-02", 86_400),
        ("2000-02-29", 951_782_400),
        ("2024-12-31", 1_735_603_200),
        ("2026-11-23", 1_795_392_000),
        ("1969-12-31", -86_400),
    ] {
        assert_eq!(parse("after", text).expect(text), seconds, "{text}");
        assert_eq!(show(seconds + 5), text);
    }
    for text in [
        "",
        "2025-2-1",
        "2025-02-30",
        "2025-13-01",
        "2025-00-01",
        "2025-01-00",
        "yesterday",
        "２０２５",
    ] {
        assert!(parse("after", text).is_err(), "{text}");
    }
}
