//! Clocks of a place: what they show at a moment (MS-OXOCAL 2.2.1.39 and 2.2.1.41).
//!
//! Outlook keeps the moments of an appointment in UTC, and beside them the rules of the place that it was made in.

use super::store::number;
use crate::formats::calendar::{DAY, date, days};

/// Most rules of one place: one for each year in which they were changed.
const MOST: usize = 200;

/// The rules of a place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zone {
    /// As Windows calls it.
    pub(super) name: Option<String>,
    rules: Vec<Rule>,
}

/// From a year on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rule {
    year: i64,
    /// Seconds that UTC is ahead, in winter and in summer.
    winter: i64,
    summer: i64,
    /// When winter and summer begin; none where clocks are not put forward.
    begin: Option<[Turn; 2]>,
}

/// When clocks are turned: at an hour of the first, second, … or last such day of a month; or on a date.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    year: i64,
    month: i64,
    weekday: i64,
    day: i64,
    clock: i64,
}

impl Zone {
    /// What Outlook has written since 2007: a name and rules.
    pub(super) fn of(bytes: &[u8]) -> Option<Zone> {
        /// Bytes of a rule; its year stands behind six of them, and the rest behind fourteen more.
        const RULE: usize = 66;
        let part = |at, size| number(bytes, at, size).map(|it| it as usize);
        let header = part(2, 2)?.checked_add(4)?;
        let letters = bytes.get(8..8 + 2 * part(6, 2)?)?;
        let count = number(bytes, header.checked_sub(2)?, 2)? as usize;
        let name = encoding_rs::UTF_16LE.decode_without_bom_handling(letters).0.into_owned();
        let mut rules = Vec::new();
        for rule in bytes.get(header..)?.chunks_exact(RULE).take(count.min(MOST)) {
            let turns = [rule.get(34..50)?, rule.get(50..66)?];
            rules.push(Rule::of(number(rule, 6, 2)? as i64, &rule[22..34], turns)?);
        }
        rules.sort_by_key(|it| it.year);
        let name = Some(name).filter(|it| !it.trim().is_empty());
        (!rules.is_empty()).then_some(Zone { name, rules })
    }

    /// What Outlook has written before, and still does of what repeats: one rule.
    pub(super) fn of_old(bytes: &[u8], name: Option<String>) -> Option<Zone> {
        let turns = [bytes.get(14..30)?, bytes.get(32..48)?];
        Some(Zone { name, rules: vec![Rule::of(0, &bytes[..12], turns)?] })
    }

    /// Seconds since 1970 as the clocks there show them.
    pub(super) fn local(&self, moment: i64) -> i64 {
        let year = year_of(moment);
        let rule = self.rules.iter().rev().find(|it| it.year <= year).or(self.rules.first());
        rule.map_or(moment, |it| moment - it.ahead(moment))
    }
}

impl Rule {
    /// Minutes that UTC is ahead, those that winter adds, and those that summer does; when each begins.
    fn of(year: i64, minutes: &[u8], turns: [&[u8]; 2]) -> Option<Rule> {
        /// Most minutes between two places.
        const MOST: i64 = 24 * 60;
        let signed = |at| number(minutes, at, 4).map(|it| i64::from(it as u32 as i32));
        let (all, winter, summer) = (signed(0)?, signed(4)?, signed(8)?);
        let (winter, summer) = (all + winter, all + summer);
        if winter.abs() > MOST || summer.abs() > MOST {
            return None;
        }
        let begin = turns.map(Turn::of);
        let begin = match begin {
            [Some(winter), Some(summer)] => Some([winter, summer]),
            _ => None,
        };
        Some(Rule { year, winter: winter * 60, summer: summer * 60, begin })
    }

    /// Seconds that UTC is ahead at a moment.
    fn ahead(&self, moment: i64) -> i64 {
        let Some([winter, summer]) = self.begin else { return self.winter };
        let year = year_of(moment - self.winter);
        // Clocks show the time of before when they are turned.
        let (winter, summer) =
            (winter.of_year(year) + self.summer, summer.of_year(year) + self.winter);
        let is_summer = if summer < winter {
            (summer..winter).contains(&moment)
        } else {
            !(winter..summer).contains(&moment)
        };
        if is_summer { self.summer } else { self.winter }
    }
}

impl Turn {
    /// Year, month, weekday, day, hour, minute and second; a month of 0 is none.
    fn of(bytes: &[u8]) -> Option<Turn> {
        let part = |index: usize| number(bytes, 2 * index, 2).map(|it| it as i64);
        let (month, weekday, day) = (part(1)?, part(2)?, part(3)?);
        let clock = part(4)? * 3600 + part(5)? * 60 + part(6)?;
        let sound =
            (1..=12).contains(&month) && (0..=6).contains(&weekday) && (1..=31).contains(&day);
        (sound && clock <= DAY).then_some(Turn { year: part(0)?, month, weekday, day, clock })
    }

    /// Seconds since 1970 that clocks show then.
    fn of_year(&self, year: i64) -> i64 {
        let first = since(year, self.month, 1);
        let day = if self.year != 0 {
            first + self.day - 1
        } else {
            // 1970 began on a Thursday.
            let to_first = (self.weekday - (first + 4)).rem_euclid(7);
            let next = if self.month == 12 {
                since(year + 1, 1, 1)
            } else {
                since(year, self.month + 1, 1)
            };
            let wanted = first + to_first + 7 * (self.day.min(5) - 1);
            // The fifth of four is the last.
            if wanted < next { wanted } else { wanted - 7 }
        };
        day * DAY + self.clock
    }
}

/// Days since 1970.
fn since(year: i64, month: i64, day: i64) -> i64 {
    days(year, month, day) - days(1970, 1, 1)
}

fn year_of(moment: i64) -> i64 {
    date(days(1970, 1, 1) + moment.div_euclid(DAY)).0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Zurich since 1996, as a rule: clocks are turned on the last Sundays of March and October.
    fn rule(year: u16) -> Vec<u8> {
        let mut rule = vec![2, 1, 0x3E, 0, 2, 0];
        rule.extend(year.to_le_bytes());
        rule.resize(22, 0);
        rule.extend([-60_i32, 0, -60].into_iter().flat_map(i32::to_le_bytes));
        for turn in [[0_u16, 10, 0, 5, 3, 0, 0, 0], [0, 3, 0, 5, 2, 0, 0, 0]] {
            rule.extend(turn.into_iter().flat_map(u16::to_le_bytes));
        }
        rule
    }

    /// What Outlook writes of it.
    pub(in super::super) fn zurich() -> Vec<u8> {
        let name: Vec<u8> =
            "W. Europe Standard Time".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut zone = vec![2, 1];
        zone.extend((name.len() as u16 + 6).to_le_bytes());
        zone.extend([2, 0]);
        zone.extend((name.len() as u16 / 2).to_le_bytes());
        zone.extend(&name);
        zone.extend([1, 0]);
        zone.extend(rule(1996));
        zone
    }

    fn at(year: i64, month: i64, day: i64, hour: i64) -> i64 {
        since(year, month, day) * DAY + hour * 3600
    }

    #[test]
    fn clocks_are_turned_on_the_last_sundays() {
        let zone = Zone::of(&zurich()).expect("a zone");
        assert_eq!(zone.name.as_deref(), Some("W. Europe Standard Time"));
        for (utc, hours) in [
            (at(2026, 1, 15, 12), 1),
            (at(2026, 3, 29, 0), 1),
            (at(2026, 3, 29, 1), 2),
            (at(2026, 7, 1, 12), 2),
            (at(2026, 10, 25, 0), 2),
            (at(2026, 10, 25, 1), 1),
            (at(2026, 12, 31, 23), 1),
            // Before the first rule the first one counts.
            (at(1990, 7, 1, 12), 2),
        ] {
            assert_eq!(zone.local(utc) - utc, hours * 3600, "{utc}");
        }
    }

    #[test]
    fn in_the_south_summer_goes_over_the_new_year() {
        // Sydney: from the first Sunday of October to that of April.
        let mut old: Vec<u8> = [-600_i32, 0, -60].into_iter().flat_map(i32::to_le_bytes).collect();
        for turn in [[0_u16, 4, 0, 1, 3, 0, 0, 0], [0, 10, 0, 1, 2, 0, 0, 0]] {
            old.extend([0, 0]);
            old.extend(turn.into_iter().flat_map(u16::to_le_bytes));
        }
        let zone = Zone::of_old(&old, None).expect("a zone");
        for (utc, hours) in [
            (at(2026, 1, 1, 0), 11),
            (at(2026, 4, 4, 15), 11),
            (at(2026, 4, 4, 16), 10),
            (at(2026, 10, 3, 15), 10),
            (at(2026, 10, 3, 16), 11),
        ] {
            assert_eq!(zone.local(utc) - utc, hours * 3600, "{utc}");
        }
    }

    #[test]
    fn what_is_no_zone_is_none() {
        let whole = zurich();
        for length in 0..whole.len() {
            assert_eq!(Zone::of(&whole[..length]), None, "{length} bytes");
        }
        let mut far = whole.clone();
        let at = far.len() - 44;
        far[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert_eq!(Zone::of(&far), None);
        assert_eq!(Zone::of_old(&[0; 47], None), None);
        // One that never turns its clocks.
        let zone = Zone::of_old(&[0; 48], None).expect("a zone");
        assert_eq!(zone.local(12), 12);
    }
}
