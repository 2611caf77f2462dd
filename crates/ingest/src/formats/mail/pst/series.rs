//! What of an appointment that repeats is not as it repeats: days that were deleted, and those that were changed
//! (MS-OXOCAL 2.2.1.44).
//!
//! Times are minutes since 1601 as the clocks of the appointment's place show them. The days that are deleted have
//! those that were changed among them: what was changed says which day it was.

use std::collections::HashSet;

use super::store::number;
use crate::formats::calendar::{DAY, stamp};

/// Most days of one series that are looked at: one for each day of ten years.
const MOST: usize = 3660;

/// What is not as the series.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Series {
    /// The midnights that begin days without it, in seconds since 1970 as clocks show them.
    pub(super) deleted: Vec<i64>,
    pub(super) changed: Vec<Changed>,
    /// Seconds that each of it takes.
    pub(super) length: i64,
}

/// One that was changed; in seconds since 1970 as clocks show them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changed {
    pub(super) begin: i64,
    pub(super) end: i64,
    /// When it would have begun.
    pub(super) instead_of: i64,
    pub(super) title: Option<Text>,
    pub(super) place: Option<Text>,
    pub(super) canceled: bool,
}

/// A text as Outlook writes it since 2003; as it was written before, in the encoding of the thing.
#[derive(Debug, PartialEq)]
pub(super) enum Text {
    Wide(Vec<u8>),
    Narrow(Vec<u8>),
}

/// What of a changed one is not as in the series.
mod flag {
    pub(super) const TITLE: u64 = 0x01;
    pub(super) const STATE: u64 = 0x02;
    pub(super) const PLACE: u64 = 0x10;
    /// What is passed over between the state and the place, and behind it: reminders, whether one is busy, has files
    /// or a whole day, and its color.
    pub(super) const BEFORE: [u64; 2] = [0x04, 0x08];
    pub(super) const BEHIND: [u64; 4] = [0x20, 0x40, 0x80, 0x100];
}

impl Series {
    /// Reads what `PidLidAppointmentRecur` holds; what is cut off or not as it should be ends it, and what was read
    /// before that counts.
    pub(super) fn of(bytes: &[u8]) -> Option<Series> {
        /// What it begins with, and the version from which on there is more of each that was changed.
        const APPOINTMENT: u64 = 0x3006;
        const MARKS: u64 = 0x3009;
        let mut rest = Rest { bytes, at: 0 };
        let left_out = rest.pattern()?.left_out;
        if rest.number(4)? != APPOINTMENT {
            return None;
        }
        let version = rest.number(4)?;
        let (begin, end) = (rest.number(4)? as i64, rest.number(4)? as i64);
        let count = rest.number(2)? as usize;
        let mut series = Series { length: (end - begin) * 60, ..Series::default() };
        let mut flags = Vec::new();
        for _ in 0..count.min(MOST) {
            let Some((changed, flag)) = rest.changed() else { break };
            series.changed.push(changed);
            flags.push(flag);
        }
        // Where one of them is not known, a day that was changed would be said to be deleted.
        if series.changed.len() == count {
            let changed = series.changed.iter().map(|it| it.instead_of.div_euclid(DAY));
            let changed: HashSet<i64> = changed.collect();
            let deleted = |it: &i64| !changed.contains(&it.div_euclid(DAY));
            series.deleted = left_out.into_iter().filter(deleted).collect();
            rest.wide_texts(&mut series.changed, &flags, version >= MARKS);
        }
        series.changed.retain(|it| it.says_something(series.length));
        Some(series)
    }
}

/// How a task repeats, which has no days that were changed (MS-OXOTASK 2.2.2.2.15).
#[derive(Debug, PartialEq)]
pub(super) struct Pattern {
    /// As calendars write it: `FREQ=WEEKLY;BYDAY=MO`.
    pub(super) rule: String,
    /// Days without it, those that were changed among them.
    left_out: Vec<i64>,
    /// How many were changed.
    changed: usize,
}

impl Pattern {
    pub(super) fn of(bytes: &[u8]) -> Option<Pattern> {
        Rest { bytes, at: 0 }.pattern()
    }

    /// Days that were deleted; none where one of them may be a changed one.
    pub(super) fn deleted(&self) -> &[i64] {
        if self.changed == 0 { &self.left_out } else { &[] }
    }
}

/// Kinds of patterns: of a day, a week, a day of a month, the nth weekday of a month, and its end; the last three of
/// another calendar, too.
mod kind {
    pub(super) const DAY: u64 = 0;
    pub(super) const WEEK: u64 = 1;
    pub(super) const MONTH: [u64; 2] = [2, 0xA];
    pub(super) const NTH: [u64; 2] = [3, 0xB];
    pub(super) const END: [u64; 2] = [4, 0xC];
}

/// A rule as calendars write it, of how often, the kind of the pattern, its period, and what is special to the kind.
fn rule(often: u64, of: u64, period: u64, special: [u64; 2]) -> String {
    const OFTEN: [&str; 4] = ["DAILY", "WEEKLY", "MONTHLY", "YEARLY"];
    const WEEKDAYS: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
    /// Minutes, and months.
    const DAY: u64 = 24 * 60;
    const YEAR: u64 = 12;
    let at = often.checked_sub(0x200A).map_or(OFTEN.len(), |it| it as usize);
    // Every weekday is a pattern of weeks.
    let (at, period) = match (at, of) {
        (0, kind::WEEK) => (1, period),
        (0, _) => (0, period / DAY),
        (3, _) => (3, period / YEAR),
        other => (other.0, period),
    };
    let mut parts: Vec<String> = OFTEN.get(at).map(|it| format!("FREQ={it}")).into_iter().collect();
    if period > 1 {
        parts.push(format!("INTERVAL={period}"));
    }
    let days = WEEKDAYS.iter().zip(0..).filter(|(_, bit)| special[0] >> bit & 1 == 1);
    let days: Vec<&str> = days.map(|it| *it.0).collect();
    let nth = if special[1] == 5 { "-1".to_owned() } else { special[1].to_string() };
    match of {
        kind::DAY => {}
        kind::WEEK => parts.push(format!("BYDAY={}", days.join(","))),
        it if kind::MONTH.contains(&it) => parts.push(format!("BYMONTHDAY={}", special[0])),
        it if kind::END.contains(&it) => parts.push("BYMONTHDAY=-1".to_owned()),
        _ => parts.push(match days.as_slice() {
            [one] => format!("BYDAY={nth}{one}"),
            _ => format!("BYDAY={};BYSETPOS={nth}", days.join(",")),
        }),
    }
    parts.join(";")
}

impl Changed {
    /// Whether it is about more than a reminder.
    fn says_something(&self, length: i64) -> bool {
        let moved = self.begin != self.instead_of || self.end - self.begin != length;
        moved || self.title.is_some() || self.place.is_some() || self.canceled
    }
}

/// What is not read yet.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn number(&mut self, size: usize) -> Option<u64> {
        let number = number(self.bytes, self.at, size)?;
        self.at += size;
        Some(number)
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(taken)
    }

    fn skip(&mut self, size: usize) -> Option<()> {
        self.take(size).map(|_| ())
    }

    /// How often, and the days without (2.2.1.44.1).
    fn pattern(&mut self) -> Option<Pattern> {
        const PATTERN: u64 = 0x3004;
        /// How a series ends.
        const ON_A_DAY: u64 = 0x2021;
        const AFTER_SOME: u64 = 0x2022;
        if self.number(2)? != PATTERN {
            return None;
        }
        self.skip(2)?;
        let (often, of) = (self.number(2)?, self.number(2)?);
        self.skip(2 + 4)?;
        let (period, slides) = (self.number(4)?, self.number(4)?);
        let mut special = [0; 2];
        let specials = match of {
            kind::DAY => 0,
            it if kind::NTH.contains(&it) => 2,
            _ => 1,
        };
        for value in &mut special[..specials] {
            *value = self.number(4)?;
        }
        let (ends, count) = (self.number(4)?, self.number(4)?);
        self.skip(4)?;
        let (left_out, changed) = (self.days()?, self.days()?.len());
        self.skip(4)?;
        let last = self.time()?;
        let mut rule = rule(often, of, period, special);
        match ends {
            ON_A_DAY => rule.push_str(&format!(";UNTIL={}", &stamp(last)[..8])),
            AFTER_SOME => rule.push_str(&format!(";COUNT={count}")),
            _ => {}
        }
        // It begins again when somebody has done it, whenever that is.
        if slides != 0 {
            rule.push_str(";after each is done");
        }
        Some(Pattern { rule, left_out, changed })
    }

    /// A block that nobody knows: its size, and so many bytes.
    fn skip_block(&mut self) -> Option<()> {
        let size = self.number(4)? as usize;
        self.skip(size)
    }

    /// Seconds since 1970, of minutes since 1601.
    fn time(&mut self) -> Option<i64> {
        const BETWEEN: i64 = 11_644_473_600;
        Some(self.number(4)? as i64 * 60 - BETWEEN)
    }

    /// Days behind their number.
    fn days(&mut self) -> Option<Vec<i64>> {
        let count = self.number(4)? as usize;
        let size = count.checked_mul(4).filter(|it| *it <= self.bytes.len())?;
        let mut days = Rest { bytes: self.take(size)?, at: 0 };
        Some((0..count.min(MOST)).filter_map(|_| days.time()).collect())
    }

    /// One that was changed, and its flags (2.2.1.44.2).
    fn changed(&mut self) -> Option<(Changed, u64)> {
        const CANCELED: u64 = 4;
        let (begin, end, instead_of) = (self.time()?, self.time()?, self.time()?);
        let flags = self.number(2)?;
        let mut changed = Changed { begin, end, instead_of, ..Changed::default() };
        if flags & flag::TITLE != 0 {
            changed.title = Some(Text::Narrow(self.narrow()?));
        }
        if flags & flag::STATE != 0 {
            changed.canceled = self.number(4)? & CANCELED != 0;
        }
        let present = |all: &[u64]| all.iter().filter(|it| flags & **it != 0).count();
        self.skip(4 * present(&flag::BEFORE))?;
        if flags & flag::PLACE != 0 {
            changed.place = Some(Text::Narrow(self.narrow()?));
        }
        self.skip(4 * present(&flag::BEHIND))?;
        Some((changed, flags))
    }

    /// A text behind its length, which is said twice, the first time with a zero at its end.
    fn narrow(&mut self) -> Option<Vec<u8>> {
        self.skip(2)?;
        let size = self.number(2)? as usize;
        self.take(size).map(<[u8]>::to_vec)
    }

    /// A text in letters of two bytes behind the number of letters.
    fn wide(&mut self) -> Option<Text> {
        let letters = self.number(2)? as usize;
        self.take(2 * letters).map(|it| Text::Wide(it.to_vec()))
    }

    /// The texts of those that were changed again, in every script (2.2.1.44.4); what is cut off leaves the others.
    fn wide_texts(&mut self, all: &mut [Changed], flags: &[u64], marks: bool) -> Option<()> {
        self.skip_block()?;
        for (changed, flags) in all.iter_mut().zip(flags) {
            if marks {
                self.skip_block()?;
            }
            self.skip_block()?;
            if flags & (flag::TITLE | flag::PLACE) == 0 {
                continue;
            }
            // The times once more.
            self.skip(3 * 4)?;
            if flags & flag::TITLE != 0 {
                changed.title = Some(self.wide()?);
            }
            if flags & flag::PLACE != 0 {
                changed.place = Some(self.wide()?);
            }
            self.skip_block()?;
        }
        Some(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        digits
            .map(|it| {
                u8::from_str_radix(std::str::from_utf8(it).expect("digits"), 16).expect("two")
            })
            .collect()
    }

    /// MS-OXOCAL 4.1.1.3: every three days, of which two were deleted.
    fn deleted() -> Vec<u8> {
        bytes(
            "043004300A2000000000A0050000E010000000000000212000000A0000000000000002000000A0C1DC0C80D2DC0C\
             00000000207EDC0C0016DD0C0630000009300000E0010000FE01000000000000000000000000",
        )
    }

    /// MS-OXOCAL 4.1.1.2: three days of a week, of which one has another time, name and place.
    fn moved() -> Vec<u8> {
        bytes(
            "043004300B2001000000C0210000010000000000000032000000222000000C0000000000000001000000A096BC0C\
             01000000A096BC0C8020BC0C20ADBC0C0630000009300000580200007602000001003499BC0C5299BC0CF898BC0C\
             11002200210053696D706C6520526563757272656E6365207769746820657863657074696F6E7308000700333\
             42F34313431000000000400000000000000000000003499BC0C5299BC0CF898BC0C2100530069006D0070006C00\
             6500200052006500630075007200720065006E006300650020007700690074006800200065007800630065007000\
             740069006F006E0073000700330034002F0034003100340031000000000000000000",
        )
    }

    /// MS-OXOCAL 4.1.1.6: each year, of which one has another reminder.
    fn reminded() -> Vec<u8> {
        bytes(
            "043004300D200200080080750A000C0000000000000003000000232000000A0000000000000001000000207EDC0C\
             01000000207EDC0C6074C40CDF80E95A0630000009300000E0010000FE01000001000080DC0C1E80DC0C0080DC0C\
             24023C000000010000000000000004000000000000000000000000000000",
        )
    }

    #[test]
    fn patterns_are_rules_as_calendars_write_them() {
        for (bytes, rule) in [
            (deleted(), "FREQ=DAILY;INTERVAL=3;UNTIL=20110504"),
            (moved(), "FREQ=WEEKLY;BYDAY=MO,TH,FR;COUNT=12"),
            (reminded(), "FREQ=YEARLY;BYMONTHDAY=3"),
        ] {
            assert_eq!(Pattern::of(&bytes).map(|it| it.rule).as_deref(), Some(rule));
            assert_eq!(Pattern::of(&bytes[..40]), None);
        }
        assert_eq!(Pattern::of(&deleted()).expect("a pattern").deleted().len(), 2);
        // One of these was changed.
        assert!(Pattern::of(&moved()).expect("a pattern").deleted().is_empty());
        assert_eq!(rule(0x200A, 1, 1, [0b011_1110, 0]), "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR");
        assert_eq!(rule(0x200C, 3, 2, [0b100, 5]), "FREQ=MONTHLY;INTERVAL=2;BYDAY=-1TU");
        assert_eq!(rule(0x200C, 3, 1, [0b110, 1]), "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=1");
        assert_eq!(rule(0x200C, 4, 1, [31, 0]), "FREQ=MONTHLY;BYMONTHDAY=-1");
        assert_eq!(rule(9, 0, 0, [0, 0]), "");
    }

    /// Minutes since 1601 of seconds since 1970.
    fn minutes(time: i64) -> Vec<u8> {
        u32::try_from((time + 11_644_473_600) / 60).expect("minutes").to_le_bytes().to_vec()
    }

    /// One of a series: begin, end, what it is instead of, name and place, and whether it is canceled.
    pub(in super::super) type One<'a> = (i64, i64, i64, &'a str, &'a str, bool);

    /// What Outlook writes of a series of the nth weekday of months: from when to when it is each day, days that are
    /// deleted or changed, and those that are changed.
    pub(in super::super) fn written(clock: [u32; 2], days: &[i64], all: &[One<'_>]) -> Vec<u8> {
        let count = |it: usize| (it as u32).to_le_bytes();
        let short = |it: usize| (it as u16).to_le_bytes();
        let mut blob = bytes("043004300C2003000000000000000100000000000000");
        blob.extend([2, 0, 0, 0, 1, 0, 0, 0, 0x23, 0x20, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0]);
        blob.extend(count(days.len()));
        days.iter().for_each(|it| blob.extend(minutes(*it)));
        blob.extend(count(all.len()));
        all.iter().for_each(|it| blob.extend(minutes(it.0 - it.0.rem_euclid(DAY))));
        blob.extend([0; 8]);
        blob.extend([0x06, 0x30, 0, 0, 0x09, 0x30, 0, 0]);
        clock.into_iter().for_each(|it| blob.extend(it.to_le_bytes()));
        blob.extend(short(all.len()));
        for (begin, end, instead_of, title, place, canceled) in all {
            [begin, end, instead_of].into_iter().for_each(|it| blob.extend(minutes(*it)));
            let set = |is: bool, flag| if is { flag } else { 0 };
            let flags = set(!title.is_empty(), 0x01)
                | set(*canceled, 0x02)
                | set(!place.is_empty(), 0x10)
                | 0x20;
            blob.extend([flags, 0]);
            // Letters that this writer does not have.
            let narrow = |it: &str| "?".repeat(it.chars().count()).into_bytes();
            let text = |it: &str| {
                let it = narrow(it);
                [short(it.len() + 1).as_slice(), &short(it.len()), &it].concat()
            };
            blob.extend(if title.is_empty() { Vec::new() } else { text(title) });
            blob.extend(if *canceled { vec![5, 0, 0, 0] } else { Vec::new() });
            blob.extend(if place.is_empty() { Vec::new() } else { text(place) });
            blob.extend([1, 0, 0, 0]);
        }
        blob.extend([0; 4]);
        for (begin, end, instead_of, title, place, _) in all {
            blob.extend([8, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0]);
            if title.is_empty() && place.is_empty() {
                continue;
            }
            [begin, end, instead_of].into_iter().for_each(|it| blob.extend(minutes(*it)));
            for text in [title, place].into_iter().filter(|it| !it.is_empty()) {
                let letters: Vec<u16> = text.encode_utf16().collect();
                blob.extend(short(letters.len()));
                blob.extend(letters.into_iter().flat_map(u16::to_le_bytes));
            }
            blob.extend([0; 4]);
        }
        blob.extend([0; 4]);
        blob
    }

    fn wide(text: &str) -> Option<Text> {
        Some(Text::Wide(text.encode_utf16().flat_map(u16::to_le_bytes).collect()))
    }

    #[test]
    fn the_examples_of_the_specification_say_what_it_says_of_them() {
        let series = Series::of(&deleted()).expect("a series");
        let days: Vec<String> = series.deleted.iter().map(|it| stamp(*it)).collect();
        // The specification has the year wrong once: its own table says 2007.
        assert_eq!(days, ["20110419T000000", "20110422T000000"]);
        assert_eq!((series.changed, series.length), (Vec::new(), 1800));
        let series = Series::of(&moved()).expect("a series");
        assert_eq!((series.deleted.as_slice(), series.changed.len()), ([].as_slice(), 1));
        let one = &series.changed[0];
        assert_eq!(stamp(one.begin), "20070416T110000");
        assert_eq!(stamp(one.end), "20070416T113000");
        assert_eq!(stamp(one.instead_of), "20070416T100000");
        assert_eq!(one.title, wide("Simple Recurrence with exceptions"));
        assert_eq!(one.place, wide("34/4141"));
        // Neither deleted nor changed in what is said.
        let series = Series::of(&reminded()).expect("a series");
        assert_eq!(series, Series { length: 1800, ..Series::default() });
    }

    #[test]
    fn what_is_written_is_read() {
        let monday = 1_772_445_600;
        let midnight = |it: i64| it - it.rem_euclid(DAY);
        let days = [monday, monday + 7 * DAY, monday + 14 * DAY, monday + 21 * DAY].map(midnight);
        let all = [
            (monday + DAY, monday + DAY + 3600, monday, "Naß", "", false),
            (monday + 7 * DAY, monday + 7 * DAY + 3600, monday + 7 * DAY, "", "", false),
            (monday + 14 * DAY, monday + 14 * DAY + 3600, monday + 14 * DAY, "", "Steg", true),
        ];
        let series = Series::of(&written([600, 660], &days, &all)).expect("a series");
        assert_eq!(series.deleted, [days[3]]);
        assert_eq!(series.length, 3600);
        let seen: Vec<(i64, &Option<Text>, &Option<Text>, bool)> =
            series.changed.iter().map(|it| (it.begin, &it.title, &it.place, it.canceled)).collect();
        // The second is as all others.
        assert_eq!(
            seen,
            [
                (monday + DAY, &wide("Naß"), &None, false),
                (monday + 14 * DAY, &None, &wide("Steg"), true)
            ]
        );
    }

    #[test]
    fn what_is_cut_off_or_lies_says_nothing_wrong() {
        for whole in [deleted(), moved(), reminded()] {
            let all = Series::of(&whole).expect("a series");
            for length in 0..whole.len() {
                let Some(part) = Series::of(&whole[..length]) else { continue };
                assert!(part.deleted.is_empty() || part.deleted == all.deleted, "{length}");
                assert!(part.changed.len() <= all.changed.len(), "{length}");
            }
            let mut lies = whole.clone();
            for at in 0..whole.len() {
                for lie in [0, 0x7F, 0xFF] {
                    lies[at..(at + 4).min(whole.len())].fill(lie);
                    let read = Series::of(&lies).unwrap_or_default();
                    assert!(read.deleted.len() + read.changed.len() <= whole.len());
                    lies.copy_from_slice(&whole);
                }
            }
        }
        // A day that was changed is not deleted where what it was changed to is not there.
        let part = &moved()[..100];
        assert_eq!(Series::of(part), Some(Series { length: 1800, ..Series::default() }));
    }

    #[test]
    fn what_is_cut_off_within_the_texts_has_those_of_before() {
        let whole = moved();
        let series = Series::of(&whole[..whole.len() - 60]).expect("a series");
        let narrow = Text::Narrow(b"Simple Recurrence with exceptions".to_vec());
        assert_eq!(series.changed[0].title, Some(narrow));
        assert_eq!(series.changed[0].place, Some(Text::Narrow(b"34/4141".to_vec())));
    }
}
