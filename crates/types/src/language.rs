//! Codes of languages.

/// Those of ISO 639-3 that a detector of languages gives, and what everyone else calls them (ISO 639-1).
const CODES: [(&str, &str); 16] = [
    ("ara", "ar"),
    ("cmn", "zh"),
    ("deu", "de"),
    ("eng", "en"),
    ("fra", "fr"),
    ("hin", "hi"),
    ("ita", "it"),
    ("jpn", "ja"),
    ("kor", "ko"),
    ("nld", "nl"),
    ("por", "pt"),
    ("rus", "ru"),
    ("spa", "es"),
    ("swe", "sv"),
    ("tur", "tr"),
    ("vie", "vi"),
];

/// The two letters of a language (ISO 639-1) that is given by three (ISO 639-3).
pub fn language_code(three_letters: &str) -> Option<&'static str> {
    CODES.iter().find(|it| it.0 == three_letters).map(|it| it.1)
}
