//! Days and times of a calendar: in which zone, and how much later something ends.

use super::super::lines::{Property, when_in};

pub(in crate::formats) const DAY: i64 = 24 * 60 * 60;

/// A day, or a day and a time, as calendars write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    value: String,
    zone: Option<String>,
}

impl Moment {
    pub(super) fn of(property: &Property) -> Option<Moment> {
        /// Longest name of a zone.
        const LONGEST: usize = 60;
        let value = property.value.trim();
        let zone = property.parameter("TZID").map(|it| {
            // Some programs put their own name before that of the zone.
            let own = it.strip_prefix('/').and_then(|it| {
                let (at, _) = it.rmatch_indices('/').nth(1)?;
                Some(&it[at + 1..])
            });
            own.unwrap_or(it).chars().take(LONGEST).collect()
        });
        (!value.is_empty()).then(|| Moment { value: value.to_owned(), zone })
    }

    pub(super) fn said(&self) -> String {
        when_in(&self.value, self.zone.as_deref())
    }

    /// Said beside the moment at which a series begins: what is at its time, by the day alone.
    pub(super) fn said_in_series(&self, begin: Option<&Moment>) -> String {
        let clock = |it: &Moment| it.value.get(8..).map(str::to_owned);
        let same = |it: &Moment| it.zone == self.zone && clock(it) == clock(self);
        match self.value.get(..8) {
            Some(day) if begin.is_some_and(same) => when_in(day, None),
            _ => self.said(),
        }
    }

    /// What begins now and ends then.
    pub(super) fn until(&self, end: Option<Moment>) -> String {
        // Days end with the beginning of the next one.
        let end = end.and_then(|it| if it.is_day() { it.moved(-DAY) } else { Some(it) });
        match end {
            Some(end) if end.is_day() && end.value <= self.value => self.said(),
            Some(end) if end != *self => format!("{} to {}", self.said(), end.said()),
            _ => self.said(),
        }
    }

    /// As much later as a duration says: `P1DT2H30M`, `P2W`.
    pub(super) fn later(&self, duration: &str) -> Option<Moment> {
        self.moved(seconds(duration)?)
    }

    fn is_day(&self) -> bool {
        self.value.len() == 8
    }

    fn moved(&self, seconds: i64) -> Option<Moment> {
        let (day, time) = match self.value.split_once(['T', 't']) {
            Some((day, time)) => (day, Some(time)),
            None => (self.value.as_str(), None),
        };
        let digits = |text: &str, at: usize, count: usize| -> Option<i64> {
            let digits = text.get(at..at + count)?;
            digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        if day.len() != 8 {
            return None;
        }
        let (year, month, day) = (digits(day, 0, 4)?, digits(day, 4, 2)?, digits(day, 6, 2)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let clock = match time {
            Some(time) => {
                let second = digits(time, 4, 2).unwrap_or(0);
                digits(time, 0, 2)? * 3600 + digits(time, 2, 2)? * 60 + second
            }
            None => 0,
        };
        let all = days(year, month, day) * DAY + clock + seconds;
        if !(0..=9999).contains(&date(all.div_euclid(DAY)).0) {
            return None;
        }
        let mut value = stamp(all - days(1970, 1, 1) * DAY);
        if time.is_none() && all.rem_euclid(DAY) == 0 {
            value.truncate(8);
        } else if self.value.ends_with('Z') {
            value.push('Z');
        }
        Some(Moment { value, zone: self.zone.clone() })
    }
}

/// The seconds of a duration; none that end before they begin.
fn seconds(duration: &str) -> Option<i64> {
    let duration = duration.strip_prefix('+').unwrap_or(duration);
    let mut rest = duration.strip_prefix(['P', 'p'])?;
    let mut all = None;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix(['T', 't']) {
            rest = time;
            continue;
        }
        let at = rest.find(|c: char| !c.is_ascii_digit())?;
        // Nine digits are thirty years of seconds.
        let number: i64 = rest[..at].parse().ok().filter(|_| at <= 9)?;
        let unit = match rest.as_bytes()[at].to_ascii_uppercase() {
            b'W' => 7 * DAY,
            b'D' => DAY,
            b'H' => 3600,
            b'M' => 60,
            b'S' => 1,
            _ => return None,
        };
        all = Some(all.unwrap_or(0_i64).checked_add(number * unit)?);
        rest = &rest[at + 1..];
    }
    all
}

/// Seconds since 1970 as calendars write a day and a time: `20260304T100000`.
pub(in crate::formats) fn stamp(seconds: i64) -> String {
    let (year, month, day) = date(days(1970, 1, 1) + seconds.div_euclid(DAY));
    let clock = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}")
}

/// Days since the first of March of the year 0: months are counted from March, so that the day that is missing in most
/// years is the last one.
pub(in crate::formats) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month < 3 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap + (month * 306 + 5) / 10 + day - 1
}

/// The year, month and day of such a number.
pub(in crate::formats) fn date(number: i64) -> (i64, i64, i64) {
    // A year or two too high: 400 years have 146 097 days.
    let mut year = (number * 400).div_euclid(146_097) + 1;
    while days(year, 3, 1) > number {
        year -= 1;
    }
    let rest = number - days(year, 3, 1);
    let month = (rest * 10 + 5) / 306;
    let day = rest - (month * 306 + 5) / 10 + 1;
    let month = (month + 2) % 12 + 1;
    (if month < 3 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_found_again_and_follows_the_one_before() {
        let lengths = |year: i64| {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut expected = days(1600, 1, 1);
        for year in 1600..2410 {
            for (length, month) in lengths(year).into_iter().zip(1..) {
                for day in 1..=length {
                    assert_eq!(days(year, month, day), expected, "{year}-{month}-{day}");
                    assert_eq!(date(expected), (year, month, day));
                    expected += 1;
                }
            }
        }
    }

    #[test]
    fn moments_are_written_as_calendars_do() {
        assert_eq!(stamp(0), "19700101T000000");
        assert_eq!(stamp(1_772_445_600), "20260302T100000");
        assert_eq!(stamp(-1), "19691231T235959");
    }

    #[test]
    fn zones_are_named_without_the_program() {
        let zone = |of: &str| {
            let line = format!("DTSTART;TZID={of}:20260304T100000");
            let property = super::super::super::lines::properties(line.as_bytes()).remove(0);
            Moment::of(&property).and_then(|it| it.zone)
        };
        assert_eq!(zone("Europe/Zurich").as_deref(), Some("Europe/Zurich"));
        assert_eq!(zone("/example.org/Tzfile/Europe/Zurich").as_deref(), Some("Europe/Zurich"));
        assert_eq!(zone("\"(UTC+01:00) Bern; Rome\"").as_deref(), Some("(UTC+01:00) Bern; Rome"));
    }

    #[test]
    fn times_that_make_no_sense_are_not_moved() {
        for value in
            ["20261304T100000", "2026", "soon", "20260304Tx", "２０２６０３０４", "99991231T230000"]
        {
            let moment = Moment { value: value.to_owned(), zone: None };
            assert_eq!(moment.later("PT2H"), None, "{value}");
        }
    }
}
