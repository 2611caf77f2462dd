//! Which language a text is in, and what is known about it.

use std::{collections::HashMap, sync::LazyLock};

use tantivy::tokenizer::{
    Language, LowerCaser, SimpleTokenizer, StopWordFilter, TextAnalyzer, TokenStream as _,
};

/// Snowball's list for English. tantivy's own is shorter: it has none of the words that questions begin
/// with, which its lists for other languages do have.
pub(crate) const ENGLISH_STOP_WORDS: &str = "i me my myself we our ours ourselves you your yours yourself \
    yourselves he him his himself she her hers herself it its itself they them their theirs themselves what \
    which who whom this that these those am is are was were be been being have has had having do does did \
    doing would should could ought a an the and but if or because as until while of at by for with about \
    against between into through during before after above below to from up down in out on off over under \
    again further then once here there when where why how all any both each few more most other some such no \
    nor not only own same so than too very will can";

/// Fewest letters from which a language is guessed: a handful of letters says nothing.
const SHORTEST: usize = 20;

/// Codes of the languages with a stemmer.
pub(crate) const ISO_CODES: [&str; 18] = [
    "ar", "da", "nl", "en", "fi", "fr", "de", "el", "hu", "it", "no", "pt", "ro", "ru", "es", "sv",
    "ta", "tr",
];

/// Stands for all languages without one.
pub(crate) const UNSTEMMED: &str = "none";

/// The stemmer of one of [`ISO_CODES`].
pub(crate) fn stemmer_of(code: &str) -> Option<Language> {
    Some(match code {
        "ar" => Language::Arabic,
        "da" => Language::Danish,
        "nl" => Language::Dutch,
        "en" => Language::English,
        "fi" => Language::Finnish,
        "fr" => Language::French,
        "de" => Language::German,
        "el" => Language::Greek,
        "hu" => Language::Hungarian,
        "it" => Language::Italian,
        "no" => Language::Norwegian,
        "pt" => Language::Portuguese,
        "ro" => Language::Romanian,
        "ru" => Language::Russian,
        "es" => Language::Spanish,
        "sv" => Language::Swedish,
        "ta" => Language::Tamil,
        "tr" => Language::Turkish,
        _ => return None,
    })
}

/// One of [`ISO_CODES`] for a text, or [`UNSTEMMED`]; `None` when nothing tells its language.
pub(crate) fn code_of(text: &str, told: Option<&str>) -> Option<&'static str> {
    let language = language_of(text, told)?;
    // `pt-BR` is Portuguese.
    let code = match language.split(['-', '_']).next().unwrap_or_default() {
        "nb" | "nn" => "no",
        other => other,
    };
    Some(ISO_CODES.into_iter().find(|it| *it == code).unwrap_or(UNSTEMMED))
}

/// The language (ISO 639-1) of a text, where something speaks for one: a few words in Latin letters do not, nor do
/// names and figures, which the detector takes for any language. Latin letters need stop words of the language, and
/// more of them than English has there.
pub fn detect_language(text: &str) -> Option<String> {
    let (mut latin, mut other) = (0, 0);
    for letter in text.chars().filter(|it| it.is_alphabetic()) {
        *(if letter <= '\u{24f}' { &mut latin } else { &mut other }) += 1;
    }
    // Another script says more than its number of letters.
    if other > latin {
        return Some(by_letters(text, latin + other).map_or_else(|| detected(text), str::to_owned));
    }
    let language = language_of(text, None)?;
    if language == "en" {
        return Some(language);
    }
    let english = share_of_stop_words(text, "en").unwrap_or_default();
    let speaks = match share_of_stop_words(text, &language) {
        Some(own) => own >= STOP_WORDS && own > english,
        // Nothing is known of it but its letters.
        None => english < STOP_WORDS && (is_accented(text) || is_prose(text)),
    };
    speaks.then_some(language)
}

/// Smallest share of a text's words that are stop words of the language that it is in: tables of names stay below,
/// prose has three to five times as many.
const STOP_WORDS: f32 = 0.1;

/// Whether letters have marks as often as in Turkish or Vietnamese, whose stop words are not known: these have twice
/// and five times as many, and German names less.
fn is_accented(text: &str) -> bool {
    let (mut all, mut marked) = (0, 0);
    for letter in text.chars().filter(|it| it.is_alphabetic()) {
        all += 1;
        marked += usize::from(!letter.is_ascii());
    }
    marked * 100 > all * 6
}

/// Whether most words begin with a small letter: names and headings of tables do not.
fn is_prose(text: &str) -> bool {
    let (mut all, mut small) = (0, 0);
    for word in text.split(|it: char| !it.is_alphanumeric()) {
        let Some(first) = word.chars().next().filter(|it| it.is_alphabetic()) else { continue };
        all += 1;
        small += usize::from(first.is_lowercase());
    }
    small * 2 > all
}

/// What leaves stop words out, by language.
static WITHOUT_STOP_WORDS: LazyLock<HashMap<&'static str, TextAnalyzer>> = LazyLock::new(|| {
    let filter = |code: &str| match code {
        "en" => {
            let words = ENGLISH_STOP_WORDS.split_whitespace().map(str::to_owned);
            Some(StopWordFilter::remove(words))
        }
        other => StopWordFilter::new(stemmer_of(other)?),
    };
    let words = || TextAnalyzer::builder(SimpleTokenizer::default()).filter(LowerCaser);
    let without = |code| Some((code, words().filter(filter(code)?).build()));
    ISO_CODES.into_iter().filter_map(without).collect()
});

/// Share of the words that are stop words of a language; `None` for one without a list.
fn share_of_stop_words(text: &str, code: &str) -> Option<f32> {
    let count = |analyzer: &mut TextAnalyzer| {
        let mut words = analyzer.token_stream(text);
        std::iter::from_fn(|| words.advance().then_some(())).count()
    };
    let left = count(&mut WITHOUT_STOP_WORDS.get(code)?.clone());
    let all = count(&mut TextAnalyzer::from(SimpleTokenizer::default()));
    Some((all - left) as f32 / all.max(1) as f32)
}

/// Share of English stop words that nearly every question in English has: *who*, *is*, *the* …
const OF_A_QUESTION: f32 = 0.15;

/// Fewest words of a question that would have one of them.
const WORDS_OF_A_QUESTION: usize = 3;

/// Whether a query is clearly in another language than this one (ISO 639-1). A few words are of any, and so are names.
///
/// Of two languages in Latin letters one has to be English, whose stop words tell: a few words do not tell neighbors
/// apart, and texts in languages that the detector does not know are taken for theirs (Romanian for Italian).
pub fn is_in_another_language(query: &str, language: &str) -> bool {
    let (mut latin, mut other) = (0, 0);
    for letter in query.chars().filter(|it| it.is_alphabetic()) {
        *(if letter <= '\u{24f}' { &mut latin } else { &mut other }) += 1;
    }
    if WITHOUT_LATIN.contains(&language) {
        return if other == 0 {
            speaks_some_language(query)
        } else {
            !may_share_script(query, language)
        };
    }
    if other > latin {
        return true;
    }
    let words = query.split_whitespace().count();
    let share = |code: &str| share_of_stop_words(query, code);
    let english = share("en").unwrap_or_default();
    let clearly = |most: f32, own: f32| most * words as f32 > 1.5 && most > 1.5 * own;
    if language != "en" {
        let own = share(language).unwrap_or_default();
        return english >= 2.0 * STOP_WORDS && clearly(english, own);
    }
    // Vietnamese and others without a list are told by their letters.
    let by_letters = || detect_language(query).is_some_and(|it| share(&it).is_none());
    let others = ISO_CODES.iter().filter(|it| **it != "en").filter_map(|it| share(it));
    let is_question = query.contains('?') && words >= WORDS_OF_A_QUESTION;
    (is_question && english < OF_A_QUESTION)
        || clearly(others.fold(0.0, f32::max), english)
        || by_letters()
}

/// Languages of the detector, and of [`by_letters`], that are not written in Latin letters.
const WITHOUT_LATIN: [&str; 9] = ["ar", "el", "hi", "ja", "ko", "ru", "ta", "th", "zh"];

/// Whether Latin letters are a sentence, and not names.
fn speaks_some_language(query: &str) -> bool {
    detect_language(query).is_some()
}

/// Whether a query that has letters beside Latin ones may be in this language. Chinese and Japanese share letters and
/// words; of a few of them nobody can tell which it is.
fn may_share_script(query: &str, language: &str) -> bool {
    let letters: String =
        query.chars().filter(|it| it.is_alphabetic() && *it > '\u{24f}').collect();
    let count = letters.chars().count();
    let own = by_letters(&letters, count).map_or_else(|| detected(&letters), str::to_owned);
    let chinese = |it: &str| ["zh", "ja"].contains(&it);
    own == language || (chinese(&own) && chinese(language))
}

/// The language to read a text in: by letters that only one has, else as told, else by detection. `None`
/// when nothing speaks for any.
fn language_of(text: &str, told: Option<&str>) -> Option<String> {
    let letters = text.chars().filter(|it| it.is_alphabetic()).count();
    if let Some(code) = by_letters(text, letters) {
        return Some(code.to_owned());
    }
    if let Some(told) = told {
        return Some(told.to_owned());
    }
    if letters < SHORTEST {
        return None;
    }
    Some(detected(text))
}

/// The language that the detector takes a text for.
fn detected(text: &str) -> String {
    code_of_detected(whichlang::detect_language(text)).to_owned()
}

fn code_of_detected(language: whichlang::Lang) -> &'static str {
    let code = riddle_types::language_code(language.three_letter_code());
    code.expect("every language of the detector has a code: this is a bug")
}

type IsOfLanguage = fn(char) -> bool;

/// Languages that the detector does not know and takes for others, by their own script or letters.
fn by_letters(text: &str, letters: usize) -> Option<&'static str> {
    let share = |is_one: IsOfLanguage, percent: usize| {
        let count = text.chars().filter(|it| is_one(*it)).count();
        count > 0 && count * 100 >= letters * percent
    };
    let scripts: [(IsOfLanguage, &str); 3] = [
        (|it| matches!(it, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}'), "el"),
        (|it| matches!(it, '\u{B80}'..='\u{BFF}'), "ta"),
        (|it| matches!(it, '\u{E00}'..='\u{E7F}'), "th"),
    ];
    if let Some((_, code)) = scripts.iter().find(|it| share(it.0, 50)) {
        return Some(code);
    }
    // One letter in a hundred: a name does not make the language. Both spellings of the Romanian comma; the
    // cedilla under s is Turkish, too.
    let own: [(IsOfLanguage, &str); 5] = [
        (|it| matches!(it, 'ț' | 'Ț' | 'ţ' | 'Ţ' | 'ș' | 'Ș'), "ro"),
        (|it| matches!(it, 'ő' | 'Ő' | 'ű' | 'Ű'), "hu"),
        (|it| matches!(it, 'æ' | 'Æ' | 'ø' | 'Ø'), "da"),
        (|it| matches!(it, 'ł' | 'Ł' | 'ż' | 'Ż'), "pl"),
        (|it| matches!(it, 'ř' | 'Ř' | 'ů' | 'Ů'), "cs"),
    ];
    own.iter().find(|it| share(it.0, 1)).map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headings_are_in_no_language_whose_stop_words_nobody_knows() {
        let table = "Month: March 2025 | Employee: Anna Kreutz | Hours: 152 | Wage: 2280\n\
                     Month: March 2025 | Employee: Bernd Holm | Hours: 140 | Wage: 2100";
        assert_eq!(detect_language(table), None);
        let german = "Januar 2025 | Anna Kreutz | 160\nMärz 2025 | Anna Kreutz | 152\nMärz 2025 | Bernd Holm | 140";
        assert_eq!(detect_language(german), None);
        let turkish = "Sözleşme ile ilgili bütün sorular için lütfen yazı işlerine başvurunuz.";
        assert_eq!(detect_language(turkish).as_deref(), Some("tr"));
        let vietnamese = "Hợp đồng này có hiệu lực kể từ ngày ký cho đến hết năm sau.";
        assert_eq!(detect_language(vietnamese).as_deref(), Some("vi"));
    }

    #[test]
    fn every_language_of_the_detector_has_a_code() {
        let mut codes: Vec<&str> = whichlang::LANGUAGES.into_iter().map(code_of_detected).collect();
        assert!(codes.contains(&"de") && codes.contains(&"zh"));
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), whichlang::LANGUAGES.len());
    }

    #[test]
    fn another_language_is_told_and_a_neighbor_is_not() {
        let differs = is_in_another_language;
        let german = "Wie hoch ist der Turm, der gebaut wurde?";
        let romanian = "Care a fost numele navei pe care au construit-o?";
        for (query, language) in [
            (german, "en"),
            (german, "ru"),
            (romanian, "en"),
            ("Wann starb Luther?", "en"),
            ("Câte puncte a cedat apărarea echipei Panthers?", "en"),
            ("Tháp được xây dựng cho triển lãm năm 1889 ở Paris", "en"),
            ("How high is the tower that was built?", "de"),
            ("How high is the tower that was built?", "vi"),
            ("How high is the tower that was built?", "zh"),
            ("这座塔是为博览会建造的", "en"),
            ("这座塔是为博览会建造的", "ru"),
            ("Башня была построена для выставки", "el"),
            ("Башня была построена для выставки", "de"),
        ] {
            assert!(differs(query, language), "{query} {language}");
        }
        for (query, language) in [
            (german, "de"),
            // Its stop words are Italian's and Spanish's, too.
            (romanian, "ro"),
            (romanian, "it"),
            ("Câte ținte a atins echipa Panthers în această competiție?", "it"),
            (romanian, "pt"),
            (german, "fr"),
            ("Câte puncte a cedat apărarea echipei Panthers?", "ro"),
            ("Wann starb Luther?", "de"),
            ("How high is the tower that was built?", "en"),
            ("Which boats need new paint?", "en"),
            ("Tháp được xây dựng cho triển lãm năm 1889 ở Paris", "vi"),
            ("这座塔是为博览会建造的", "ja"),
            ("Πόσοι είδαν τον Super Bowl των Denver Broncos και Carolina Panthers;", "el"),
            // Words to look for are of any language.
            ("Luther Wittenberg 1517", "en"),
            ("Luther Wittenberg 1517", "ru"),
            ("die hard movie cast list", "en"),
            ("harbor fee 2019", "en"),
            ("Turm", "en"),
            ("", "en"),
        ] {
            assert!(!differs(query, language), "{query} {language}");
        }
    }

    #[test]
    fn letters_tell_and_names_do_not() {
        let of = |text| language_of(text, None);
        assert_eq!(of("Το σκάφος ναυπηγήθηκε το 1931").as_deref(), Some("el"));
        assert_eq!(of("Barca a fost construită și vopsită în țară").as_deref(), Some("ro"));
        assert_eq!(
            of("A hajót 1931-ben építették, kékre festették a dokkból jövők").as_deref(),
            Some("hu")
        );
        let english =
            "The angles α, β and γ of the triangle were measured by hand, and then again by eye.";
        assert_eq!(of(english).as_deref(), Some("en"));
        assert_eq!(of("boat"), None);
        assert_eq!(language_of("boat", Some("sv")).as_deref(), Some("sv"));
        assert_eq!(code_of("barco", Some("pt-BR")), Some("pt"));
        assert_eq!(code_of("đóng thuyền", Some("vi")), Some(UNSTEMMED));
        assert_eq!(detect_language("这座塔是为博览会建造的").as_deref(), Some("zh"));
        assert_eq!(detect_language("Eiffel tower"), None);
        // Names are of no language, whatever the detector says.
        for names in [
            "Season | Club | Division | Apps | Goals\n2008 | Real Madrid Castilla | Segunda B | 31 | 7",
            "Ronaldinho Gaúcho, Luiz Felipe Scolari, José Mourinho, Wolfgang Amadeus Mozart",
            "1. Müller, Karl-Heinz 2. Schröder, Jürgen 3. Łukasz Wójcik 4. Øystein Sørensen",
        ] {
            assert_eq!(detect_language(names), None, "{names}");
        }
        for (prose, code) in [
            ("Wie hoch ist der Turm, der gebaut wurde?", "de"),
            ("La torre fue construida para la exposición de 1889", "es"),
            ("Quando foi construída a torre de ferro em Paris?", "pt"),
            ("Kule ne zaman ve kim tarafından yapıldı, biliyor musunuz?", "tr"),
            ("Tháp được xây dựng cho triển lãm năm 1889 ở Paris", "vi"),
            ("Башня была построена для выставки", "ru"),
            ("The Real Madrid players of the season were José, Raúl and Íker", "en"),
        ] {
            assert_eq!(detect_language(prose).as_deref(), Some(code), "{prose}");
        }
        assert!(ISO_CODES.into_iter().all(|it| stemmer_of(it).is_some()));
    }
}
