//! Calendar dates on the command line and in output, without a calendar library.

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Midnight (UTC) of a date written as `YYYY-MM-DD`, in seconds since 1970.
///
/// UTC, because the standard library does not know the local time zone; the help says so.
pub(crate) fn parse_day(text: &str) -> Result<i64, String> {
    let fail = || format!("{text:?} is not a date: write it as YYYY-MM-DD, for example 2025-03-31");
    let bytes = text.as_bytes();
    let shaped = bytes.len() == 10
        && bytes.iter().enumerate().all(|(place, byte)| match place {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !shaped {
        return Err(fail());
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().map_err(|_| fail());
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    if year < 1 || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return Err(fail());
    }
    Ok(days_since_1970(year, month, day) * DAY)
}

/// A moment as `YYYY-MM-DD HH:MM UTC`.
pub(crate) fn show(seconds: i64) -> String {
    let (year, month, day) = civil(seconds);
    let minutes = seconds.rem_euclid(DAY) / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// A day (UTC) as `3 Nov 2025`.
pub(crate) fn day(seconds: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = civil(seconds);
    let month = usize::try_from(month - 1).ok().and_then(|it| MONTHS.get(it)).unwrap_or(&"");
    format!("{day} {month} {year}")
}

/// Year, month and day (UTC) of a moment.
fn civil(seconds: i64) -> (i64, i64, i64) {
    let (mut year, mut month) = (1970, 1);
    let mut day = seconds.div_euclid(DAY);
    // The civil calendar repeats every 400 years of 146 097 days.
    year += 400 * day.div_euclid(146_097);
    day = day.rem_euclid(146_097);
    while day >= days_of_year(year) {
        day -= days_of_year(year);
        year += 1;
    }
    while day >= days_in(year, month) {
        day -= days_in(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_year(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let before = year - 1;
    let years = before * 365 + leap_days(before) - (1969 * 365 + leap_days(1969));
    years + (1..month).map(|it| days_in(year, it)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("1969-12-31", -86_400),
            ("2000-02-29", 951_782_400),
            ("2025-03-31", 1_743_379_200),
            ("2038-01-19", 2_147_472_000),
        ] {
            assert_eq!(parse_day(text), Ok(seconds), "{text}");
            assert_eq!(show(seconds), format!("{text} 00:00 UTC"));
        }
        assert_eq!(show(1_743_379_200 + 3_600 * 13 + 59), "2025-03-31 13:00 UTC");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut expected = parse_day("1800-01-01").expect("a date");
        for year in 1800..2200 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    assert_eq!(parse_day(&text), Ok(expected), "{text}");
                    assert_eq!(show(expected + DAY - 1), format!("{text} 23:59 UTC"));
                    expected += DAY;
                }
            }
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2025",
            "2025-2-3",
            "2025-02-29",
            "2025-13-01",
            "2025-00-10",
            "2025-04-31",
            "+025-01-01",
            "2025-01-0é",
            "0000-01-01",
        ] {
            let error = parse_day(text).expect_err(text);
            assert!(error.contains("YYYY-MM-DD"), "{error}");
        }
    }
}
