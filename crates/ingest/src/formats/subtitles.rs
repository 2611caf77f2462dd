//! Subtitles: what is said, a minute or so to a passage, with its time.

use riddle_types::{Block, BlockKind, Document, Location};

use super::Shares;
use crate::{outcome::ParseOutcome, text::decode};

/// Characters after which a pause ends a passage.
const PASSAGE: usize = 600;

/// Seconds without a word that end a passage: what is said then is another scene.
const PAUSE: u32 = 30;

/// A line that is said, and when.
struct Cue {
    start: String,
    end: String,
    text: String,
    line: u32,
}

/// What names of subtitles end in beside a language: for whom they are.
const KINDS: [&str; 7] = ["forced", "default", "full", "sdh", "cc", "hi", "signs"];

/// Languages as such names tell them: films lie beside subtitles in several.
const LANGUAGES: [&str; 104] = [
    "ar", "ara", "bg", "bul", "bs", "ca", "cat", "chi", "chs", "cht", "cs", "cze", "ces", "da",
    "dan", "de", "deu", "ger", "el", "ell", "gre", "en", "eng", "es", "spa", "et", "est", "eu",
    "fa", "per", "fas", "fi", "fin", "fr", "fra", "fre", "gl", "he", "heb", "hin", "hr", "hrv",
    "hu", "hun", "id", "ind", "is", "ice", "isl", "it", "ita", "ja", "jpn", "ko", "kor", "lt",
    "lit", "lv", "lav", "mk", "mac", "ms", "may", "nb", "nob", "nl", "nld", "dut", "nn", "no",
    "nor", "pl", "pol", "pt", "por", "pob", "ro", "ron", "rum", "ru", "rus", "sk", "slo", "slk",
    "sl", "slv", "sq", "alb", "sr", "srp", "sv", "swe", "ta", "te", "th", "tha", "tr", "tur", "uk",
    "ukr", "vi", "vie", "zh", "zho",
];

/// The film's name: that of the file, without its language.
fn film(name: &str) -> Option<String> {
    let mut film = name.rsplit_once('.').map_or(name, |it| it.0);
    while let Some((before, last)) = film.rsplit_once('.') {
        let last = last.to_ascii_lowercase();
        // A region may follow: `pt-BR`, `zh_Hans`.
        let language = last.split(['-', '_']).next().unwrap_or(&last);
        if before.is_empty() || !(KINDS.contains(&language) || LANGUAGES.contains(&language)) {
            break;
        }
        film = before;
    }
    Some(film.trim().to_owned()).filter(|it| !it.is_empty())
}

pub(super) fn parse(name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let (text, warning) = decode(bytes);
    let mut document = Document { title: film(name), ..Document::default() };
    let mut open: Vec<Cue> = Vec::new();
    for cue in cues(&text) {
        let full = open.iter().map(|it| it.text.len()).sum::<usize>() + cue.text.len() > PASSAGE;
        let later = open.last().is_some_and(|it| seconds(&cue.start) > seconds(&it.end) + PAUSE);
        if full || later {
            push(std::mem::take(&mut open), &mut document);
        }
        // Two lines of the same words are one that stays.
        if open.last().is_none_or(|it| it.text != cue.text) {
            open.push(cue);
        }
    }
    push(open, &mut document);
    document.warnings.extend(warning);
    ParseOutcome::Parsed(document)
}

fn push(cues: Vec<Cue>, document: &mut Document) {
    let (Some(first), Some(last)) = (cues.first(), cues.last()) else { return };
    let location = Location::Part {
        name: format!("{}–{}", first.start, last.end),
        inside: Box::new(Location::Line { start: first.line, end: last.line }),
    };
    let text = cues.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n");
    document.blocks.push(Block::new(BlockKind::Paragraph, text, location));
}

fn cues(text: &str) -> Vec<Cue> {
    let mut cues: Vec<Cue> = Vec::new();
    let mut open: Option<Cue> = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if let Some((start, end)) = times(line) {
            cues.extend(open.take().filter(|it| !it.text.is_empty()));
            open = Some(Cue { start, end, text: String::new(), line: number });
        } else if let Some(said) = dialogue(line, number) {
            cues.push(said);
        } else if line.is_empty() {
            cues.extend(open.take().filter(|it| !it.text.is_empty()));
        } else if let Some(cue) = &mut open {
            let said = without_tags(line);
            if !cue.text.is_empty() && !said.is_empty() {
                cue.text.push(' ');
            }
            cue.text.push_str(&said);
        }
    }
    cues.extend(open.filter(|it| !it.text.is_empty()));
    cues
}

/// `00:01:02,500 --> 00:01:04,000`, and with a point and without hours.
fn times(line: &str) -> Option<(String, String)> {
    let (start, rest) = line.split_once("-->")?;
    Some((clock(start)?, clock(rest.split_whitespace().next()?)?))
}

/// `Dialogue: 0,0:01:02.50,0:01:04.00,Style,Name,0,0,0,,Text`
fn dialogue(line: &str, number: u32) -> Option<Cue> {
    let fields: Vec<&str> = line.strip_prefix("Dialogue:")?.splitn(10, ',').collect();
    let text = without_tags(&fields.get(9)?.replace("\\N", " ").replace("\\n", " "));
    let (start, end) = (clock(fields[1])?, clock(fields[2])?);
    (!text.is_empty()).then_some(Cue { start, end, text, line: number })
}

/// A time to the second: hours, minutes, seconds.
fn clock(time: &str) -> Option<String> {
    let time = time.trim().split([',', '.']).next()?;
    let parts: Vec<u32> = time.split(':').map(|it| it.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = match parts.as_slice() {
        [hours, minutes, seconds] => [*hours, *minutes, *seconds],
        [minutes, seconds] => [0, *minutes, *seconds],
        _ => return None,
    };
    Some(format!("{hours:02}:{minutes:02}:{seconds:02}"))
}

/// The seconds of a time as [`clock`] writes it.
fn seconds(time: &str) -> u32 {
    time.split(':').filter_map(|it| it.parse::<u32>().ok()).fold(0, |all, it| all * 60 + it)
}

/// Without `<i>`, `{\an8}` and who speaks in angles.
fn without_tags(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut inside = None;
    for c in line.chars() {
        match (inside, c) {
            (None, '<') => inside = Some('>'),
            (None, '{') => inside = Some('}'),
            (None, c) => out.push(c),
            (Some(end), c) if c == end => inside = None,
            _ => {}
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_the_film_without_a_language() {
        let title = |name: &str| {
            let text = b"00:01:02,500 --> 00:01:04,000\nThe boat\n";
            let ParseOutcome::Parsed(document) = parse(name, text, &mut Shares::tried()) else {
                panic!("parses")
            };
            document.title.unwrap_or_default()
        };
        for (name, film) in [
            ("The Boat (1981).srt", "The Boat (1981)"),
            ("The Boat (1981).en.srt", "The Boat (1981)"),
            ("boat.2026.pt-BR.forced.vtt", "boat.2026"),
            ("boat.DEU.sdh.ass", "boat"),
            ("Mr. Ed.srt", "Mr. Ed"),
            ("it.srt", "it"),
            (".en.srt", ".en"),
        ] {
            assert_eq!(title(name), film, "{name}");
        }
    }

    #[test]
    fn what_is_said_has_its_time() {
        let seen = |text: &str| {
            let ParseOutcome::Parsed(document) =
                parse("x.srt", text.as_bytes(), &mut Shares::tried())
            else {
                panic!("parses")
            };
            let of = |it: &Block| (it.text.clone(), it.location.to_string());
            document.blocks.iter().map(of).collect::<Vec<_>>()
        };
        let said =
            [("The boat\nis blue. Really.".to_owned(), "00:01:02–00:01:09, lines 2–7".to_owned())];
        assert_eq!(
            seen(
                "1\n00:01:02,500 --> 00:01:04,000\n<i>The boat</i>\n\n2\n\n00:01:05,000 --> 00:01:09,000\nis blue.\n{\\an8}Really.\n"
            ),
            said
        );
        let apart = "1\n00:00:02,000 --> 00:00:04,000\nHello.\n\n2\n00:41:00,000 --> 00:41:04,000\nGoodbye.\n";
        let places: Vec<String> = seen(apart).into_iter().map(|it| it.1).collect();
        assert_eq!(places, ["00:00:02–00:00:04, line 2", "00:41:00–00:41:04, line 6"]);
        assert_eq!(
            seen("WEBVTT\n\n01:02.500 --> 01:04.000 align:start\nThe boat\n")[0],
            ("The boat".to_owned(), "00:01:02–00:01:04, line 3".to_owned())
        );
        assert_eq!(
            seen("[Events]\nDialogue: 0,0:01:02.50,0:01:04.00,D,,0,0,0,,{\\b1}The\\Nboat\n")[0].0,
            "The boat"
        );
        assert_eq!(seen("no times at all"), []);
    }
}
