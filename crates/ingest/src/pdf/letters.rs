//! Letters that mean what they look like, told from those of fonts that do not say which they draw.
//!
//! A page of such letters looks like text and is found by nobody: it is to be read as a scan.

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// Texts of fewer letters are believed.
pub(super) const SHORTEST: usize = 120;

/// Frequencies of a to z, per thousand: in the mean of English, French, German, Spanish and Italian, and of Polish,
/// Czech and Croatian.
const LETTERS: [[f64; 26]; 2] = [
    [
        88.0, 15.0, 32.0, 40.0, 144.0, 13.0, 17.0, 23.0, 76.0, 3.0, 5.0, 48.0, 27.0, 77.0, 63.0,
        23.0, 6.0, 66.0, 67.0, 74.0, 38.0, 13.0, 8.0, 3.0, 8.0, 7.0,
    ],
    [
        95.0, 15.0, 35.0, 35.0, 80.0, 3.0, 14.0, 15.0, 85.0, 25.0, 38.0, 35.0, 30.0, 55.0, 85.0,
        30.0, 1.0, 42.0, 48.0, 42.0, 30.0, 22.0, 25.0, 1.0, 28.0, 45.0,
    ],
];

/// Whether letters stand where others are meant: codes without a character; or Latin letters as often as in no language
/// that is written with them.
pub(crate) fn is_gibberish(text: &str) -> bool {
    let all = text.chars().filter(|it| !it.is_whitespace()).count();
    if is_of_codes(text, all) || mixes_alphabets(text) {
        return true;
    }
    let mut counts = [0u32; 26];
    let (mut others, mut pairs, mut changes) = (0u32, 0u32, 0u32);
    let mut before = None;
    let (mut last, mut run) = ('\0', 0);
    for c in text.nfd().filter(|it| !is_combining_mark(*it)).flat_map(char::to_lowercase) {
        run = if c == last { run + 1 } else { 0 };
        last = c;
        // What somebody has made unreadable, XXXXX, is no letter.
        if run >= 2 {
            continue;
        }
        let vowel = c.is_ascii_lowercase().then(|| "aeiouy".contains(c));
        if let Some(vowel) = vowel {
            counts[c as usize - 'a' as usize] += 1;
            if let Some(before) = before {
                pairs += 1;
                changes += u32::from(before != vowel);
            }
        } else if c.is_alphabetic() {
            others += 1;
        }
        before = vowel;
    }
    let letters: u32 = counts.iter().sum();
    // Other alphabets, and names of chemicals in a table, are not judged.
    if (letters as usize) < SHORTEST || others > letters || (letters as usize) * 2 < all {
        // A cipher by a shift of codes turns small letters into capitals, figures and signs.
        return shifted(text, all);
    }
    if is_spoken(text) || is_alphabet(text) {
        return false;
    }
    let surprise = |of: &[f64; 26]| -> f64 {
        let share = |count: u32| f64::from(count) / f64::from(letters);
        counts.iter().zip(of).map(|(count, usual)| -share(*count) * (usual / 1000.0).log2()).sum()
    };
    let surprise = LETTERS.iter().map(surprise).fold(f64::INFINITY, f64::min);
    if in_pieces(text) {
        return true;
    }
    let alternation = f64::from(changes) / f64::from(pairs.max(1));
    surprise > MOST_SURPRISE || (surprise > MUCH_SURPRISE && alternation < LEAST_ALTERNATION)
}

/// Whether codes without a character, or names of them, stand where letters are meant.
fn is_of_codes(text: &str, all: usize) -> bool {
    let codes = text
        .chars()
        .filter(|it| {
            matches!(u32::from(*it), 0..=8 | 14..=31 | 0x7F..=0x9F | 0xE000..=0xF8FF | 0xFFFD | 0xF0000..)
        })
        .count();
    let named = text.matches("(cid:").count() * 6 + glyph_names(text) * 4;
    let spoken = text.chars().filter(|it| it.is_alphanumeric()).count();
    // Of a few letters a code among them says nothing, but more codes than letters do.
    if codes * 2 > all && codes >= FEWEST_CODES {
        return true;
    }
    // Or nothing but the marks between words is left.
    all >= 40 && ((codes + named) * 5 > all || spoken * 5 < all)
}

/// Codes that are more than a slip in a text that has little beside them.
const FEWEST_CODES: usize = 4;

/// Whether a third of the words have letters of several alphabets, as `ထഁୡࣧҨ` has of five: somebody has numbered the
/// letters of a font. Latin ones do not count: they stand among those of any other without a space.
fn mixes_alphabets(text: &str) -> bool {
    const SHORTEST_WORD: usize = 3;
    const FEWEST_WORDS: usize = 3;
    let (mut all, mut mixed) = (0_usize, 0_usize);
    for word in text.split(|it: char| it.is_whitespace() || it.is_control()) {
        let mut alphabets = word.chars().filter(|it| it.is_alphabetic()).map(alphabet);
        let letters = alphabets.clone().count();
        if letters < SHORTEST_WORD {
            continue;
        }
        all += 1;
        let first = alphabets.find(|it| *it != LATIN);
        mixed +=
            usize::from(first.is_some_and(|first| alphabets.any(|it| it != LATIN && it != first)));
    }
    mixed >= FEWEST_WORDS && mixed * 3 > all
}

const LATIN: u32 = 0;

/// A number for the alphabet that a letter is of; those that one language writes side by side have one.
fn alphabet(letter: char) -> u32 {
    match u32::from(letter) {
        // With the letters of phonetics, and those that stand for numbers, formulas and units.
        0..=0x36F
        | 0x1AB0..=0x1AFF
        | 0x1D00..=0x1EFF
        | 0x2000..=0x2BFF
        | 0x2C60..=0x2C7F
        | 0xA700..=0xA7FF
        | 0xAB30..=0xAB6F
        | 0xFB00..=0xFB06
        | 0xFF00..=0xFF5E
        | 0x1D400..=0x1D7FF => LATIN,
        0x370..=0x3FF | 0x1F00..=0x1FFF => 1,
        0x400..=0x52F | 0x1C80..=0x1C8F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F => 2,
        0x590..=0x5FF | 0xFB1D..=0xFB4F => 3,
        0x600..=0x6FF | 0x750..=0x77F | 0x870..=0x8FF | 0xFB50..=0xFDFF | 0xFE70..=0xFEFF => 4,
        0x1000..=0x109F | 0xA9E0..=0xA9FF | 0xAA60..=0xAA7F => 5,
        0x10A0..=0x10FF | 0x1C90..=0x1CBF | 0x2D00..=0x2D2F => 6,
        0x1200..=0x139F | 0x2D80..=0x2DDF | 0xAB00..=0xAB2F => 7,
        0x1780..=0x17FF | 0x19E0..=0x19FF => 8,
        0x1800..=0x18AF => 9,
        // Chinese, Japanese, Korean.
        0x1100..=0x11FF
        | 0x2E80..=0x9FFF
        | 0xA960..=0xA97F
        | 0xAC00..=0xD7FF
        | 0xF900..=0xFAFF
        | 0xFF5F..=0xFFEF
        | 0x1B000..=0x1B16F
        | 0x20000..=0x3FFFF => 10,
        // Those of India, Thai, Lao, Tibetan and others have 128 places each.
        other => 1000 + other / 128,
    }
}

/// Words that no text of their language does without; pieces of words and exchanged letters do not make them.
const USUAL: [&str; 44] = [
    "the", "and", "for", "with", "that", "from", "this", "you", "are", "not", "der", "die", "und",
    "das", "ist", "von", "mit", "den", "les", "des", "une", "est", "dans", "pour", "que", "los",
    "las", "por", "para", "con", "una", "per", "che", "del", "della", "het", "een", "van", "nie",
    "jest", "och", "att", "som", "til",
];

/// Whether a twentieth of the words are such as every text has.
fn is_spoken(text: &str) -> bool {
    let (mut all, mut usual) = (0_usize, 0_usize);
    for word in text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()) {
        all += 1;
        usual += usize::from(USUAL.contains(&word.to_lowercase().as_str()));
    }
    usual >= 3 && usual * 20 >= all
}

/// Whether letters stand one after the other as in the alphabet: a list of what a font can draw.
fn is_alphabet(text: &str) -> bool {
    const FEWEST: usize = 20;
    let letters: Vec<u32> = text.chars().filter(|it| !it.is_whitespace()).map(u32::from).collect();
    let next = letters.windows(2).filter(|it| it[1] == it[0] + 1).count();
    // In languages it is one pair in thirty.
    next >= FEWEST && next * 4 > letters.len()
}

/// Names of letters in the place of letters: `/a108 /a118`.
pub(super) fn glyph_names(text: &str) -> usize {
    let after = |it: &str| {
        let mut characters = it.chars();
        characters.next().is_some_and(|it| it.is_ascii_alphabetic())
            && characters.next().is_some_and(|it| it.is_ascii_digit())
    };
    text.split('/').skip(1).filter(|it| after(it)).count()
}

/// Whether letters are missing everywhere, so that of words only pieces are left: single letters are up to an eighth of
/// the words of a language.
fn in_pieces(text: &str) -> bool {
    const FEWEST_WORDS: usize = 60;
    let words: Vec<&str> =
        text.split_whitespace().filter(|it| it.chars().all(char::is_alphabetic)).collect();
    let single = words.iter().filter(|it| it.chars().count() == 1).count();
    words.len() >= FEWEST_WORDS && single * 4 > words.len()
}

/// Bits a letter takes by [`LETTERS`] beyond which no language of Europe is: they have 4.2 to 4.6, letters exchanged at
/// random nearly always more than 5.
const MOST_SURPRISE: f64 = 5.05;

/// Bits beyond which vowels and consonants have to take turns as they do in languages.
const MUCH_SURPRISE: f64 = 4.7;

/// In languages 0.55 to 0.8 of the neighbors in words are a vowel and a consonant; exchanged at random about 0.35.
const LEAST_ALTERNATION: f64 = 0.48;

/// Whether words are made of capitals, figures and signs together: `7KLV LV D WHVW` for `This is a test`.
fn shifted(text: &str, all: usize) -> bool {
    if all < SHORTEST {
        return false;
    }
    let words: Vec<&str> = text.split_whitespace().filter(|it| it.chars().count() >= 3).collect();
    let odd = |word: &&&str| {
        let inside = word.trim_matches(|it: char| !it.is_alphanumeric());
        let signs =
            inside.chars().filter(|it| it.is_ascii_punctuation() && !"-'./:,@&_".contains(*it));
        let small = inside.chars().any(char::is_lowercase);
        !small && signs.count() > 0 && inside.chars().any(char::is_alphabetic)
    };
    words.len() >= 20 && words.iter().filter(odd).count() * 3 > words.len()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::pdf) const ENGLISH: &str = "The hull was painted in spring, and Jonas replaced the door seals of the oven because the \
        old ones had become hard. Nobody expected the winter mooring to cost that much, so we looked for another place.";

    /// Codes moved by 29, as fonts without a table of characters leave them.
    pub(in crate::pdf) fn moved(text: &str) -> String {
        text.chars()
            .map(|it| if it == ' ' { ' ' } else { char::from((it as u8).wrapping_sub(29)) })
            .collect()
    }

    /// Letters exchanged for others.
    fn exchanged(text: &str) -> String {
        let other = |it: char| match it {
            'a'..='z' => char::from(b'a' + (it as u8 - b'a' + 11) % 26),
            other => other,
        };
        text.to_lowercase().chars().map(other).collect()
    }

    #[test]
    fn letters_without_meaning_are_told_from_languages() {
        let good = [
            ENGLISH,
            "Der Bäcker in Zürich verkauft grüne Äpfel und süße Brötchen, aber am Montag bleibt das Geschäft wegen der \
             Inventur geschlossen, und erst am Dienstag gibt es wieder frisches Brot.",
            "Příliš žluťoučký kůň úpěl ďábelské ódy a všechny děti v městečku to slyšely, protože bydlely hned vedle \
             velkého rybníka u starého mlýna na konci vesnice.",
            "W Szczebrzeszynie chrząszcz brzmi w trzcinie i Szczebrzeszyn z tego słynie, a wół go pyta: panie \
             chrząszczu, po cóż pan tak brzęczy w gąszczu, kiedy wszyscy już dawno śpią.",
            "船は青い色です。パンを焼くのが好きです。",
            "PO-4471 QX17 Z9 KR-22 TT",
            "fn main() { let x = vec![1, 2, 3]; println!(\"{:?}\", x.iter().map(|it| it + 1).collect::<Vec<_>>()); }",
        ];
        for text in good {
            assert!(!is_gibberish(text), "{text}");
        }
        let codes: String = ENGLISH
            .chars()
            .map(|it| char::from_u32(0xE000 + u32::from(it)).unwrap_or(it))
            .collect();
        for text in
            [moved(ENGLISH), exchanged(ENGLISH), codes, "(cid:12)(cid:7) (cid:99)".repeat(20)]
        {
            assert!(is_gibberish(&text), "{text}");
        }
        let glyphs = "V/a225c /a108a /a118 Ha/a18/a101 /a108' /a115 ".repeat(8);
        let pieces =
            "Lor um olo t me con t u p ing it ed iam o y r mod e mpo i u l o c m o uo e ".repeat(6);
        // A line with all letters once is no usual text, and still one.
        let pangram = "The quick brown fox jumps over the lazy dog. ".repeat(4);
        assert!(!is_gibberish(&pangram));
        for text in [glyphs, pieces, ". , . . . , B . , . 2 . , . ".repeat(12)] {
            assert!(is_gibberish(&text), "{text}");
        }
    }

    /// What some files of a well-known collection of odd PDFs are, in texts of our own.
    #[test]
    fn nonsense_of_odd_files_is_refused_and_odd_sense_is_read() {
        // Names of letters, two thousand pages of them (TAMReview); pieces of words (issue13242); letters moved in
        // their alphabet (issue918, issue5801), in capitals and signs.
        let names = "/g134/g87/g3 /g44/g81/g3 /g87/g75/g72 ".repeat(12);
        let pieces = "Th b at i p i t d in sp i g nd the o n k ys h g b h nd t e d o r ".repeat(5);
        let shifted =
            "7KH KXOO ZDV SDLQWHG LQ VSULQJ DQG -RQDV UHSODFHG WKH GRRU VHDOV RI WKH RYHQ "
                .repeat(4);
        for text in [&names, &pieces, &shifted, &moved(ENGLISH)] {
            assert!(is_gibberish(text), "{text}");
        }
        // Letters numbered through all of Unicode (complex_ttf_font), and few words of nothing but codes (bug1001080).
        for text in ["ଋҨ\u{3}ୡȥ ဎഁୡࣧҨ ဎಱೌ ਮΝ\u{3}ੌͱʺ", "\u{1}\u{4}\u{5} \u{6}\u{7} \u{8}"]
        {
            assert!(is_gibberish(text), "{text}");
        }
        // Alphabets side by side as people write them, and as words of one list.
        let spoken = [
            "東京のAIモデル123をβ版OCRで 試しています。長さは5μmです。",
            "Δx и Δy, Москва и Αθήνα, Ελλάδα, Україна, שלום, สวัสดีOK, العربية, हिन्दी",
            "한국어漢字 混用文도 읽는다, 그리고 カタカナ",
        ];
        for text in spoken {
            assert!(!is_gibberish(text), "{text}");
        }
        // All letters of a font in their order (standard_fonts), names blacked out (issue6410), German with marks for
        // where words may be cut.
        let letters = (0x21..0x17F_u32).filter_map(char::from_u32).filter(|it| !it.is_control());
        let font = letters.map(|it| format!("{it} ")).collect::<String>();
        let hidden = "POLICY INFORMATION XXXXXXXX Insurance Agent XXXXXXXXXX XXXXXX Named Insured XXXXXXX XXXXXXXX \
            Effective Date 09/01/2015 Policy Address XXXXXXXXXXXX XXXXXX Expiration Date XXXXXXXXXXXXX Agent XXXXXXXX";
        for text in [&font, hidden] {
            assert!(!is_gibberish(text), "{text}");
        }
    }
}
