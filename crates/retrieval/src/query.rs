//! What a person may type: words, "phrases", -excluded. Nothing they type is an error.
//!
//! People paste, too. A minus in a command line, a list or a paragraph is no wish to leave something out, and would
//! leave out the very passages that are looked for: what is plainly pasted excludes nothing but what stands in quotes.

use unicode_normalization::char::is_combining_mark;

use crate::analyze::is_unspaced;

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Text outside quotes, exclusions taken out.
    pub(crate) words: String,
    /// Quoted phrases.
    pub(crate) phrases: Vec<String>,
    /// Words and phrases that must not occur.
    pub(crate) excluded: Vec<String>,
}

/// What a query asks for beside words, as it is written: for who tells a person how it was understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryMarks {
    /// Quoted phrases that hold a word.
    pub phrases: Vec<String>,
    /// What must not occur.
    pub excluded: Vec<String>,
}

impl QueryMarks {
    /// Those of a query.
    pub fn of(query: &str) -> QueryMarks {
        let Parsed { mut phrases, mut excluded, .. } = parse(query);
        phrases.retain(|it| has_word(it));
        excluded.retain(|it| has_word(it));
        QueryMarks { phrases, excluded }
    }
}

/// Longest query that is looked at; more is a pasted document, whose beginning says what it is about.
const LONGEST: usize = 4000;

/// Most words of a query that somebody typed as one: what is longer is a paragraph. Of 6686 questions of evaluation
/// sets 98 % have no more.
const MOST_TYPED: usize = 32;

/// Programs whose names are no word that a person would search for by itself and narrow down. Behind one of them a
/// short word with a minus is an option.
const PROGRAMS: [&str; 40] = [
    "apt",
    "apt-get",
    "awk",
    "chmod",
    "chown",
    "cp",
    "curl",
    "df",
    "dnf",
    "docker",
    "du",
    "ffmpeg",
    "gcc",
    "git",
    "grep",
    "gzip",
    "journalctl",
    "kubectl",
    "ls",
    "lsof",
    "mkdir",
    "mv",
    "netstat",
    "npm",
    "pip",
    "podman",
    "ps",
    "psql",
    "rg",
    "rm",
    "rsync",
    "scp",
    "ssh",
    "sudo",
    "systemctl",
    "tar",
    "unzip",
    "wget",
    "xargs",
    "yum",
];

/// Longest option without quotes that such a program is given in one word, as `-czvf`.
const LONGEST_OPTION: usize = 4;

/// What only a shell reads, where it stands alone. A single `|` is in titles of pages, a `>` between names of menus.
const SHELL_SIGNS: [&str; 7] = [">>", "||", "&&", "2>&1", "\\", ".", ".."];

/// What a shell begins a line with.
const PROMPTS: [&str; 4] = ["$", "#", "%", ">"];

/// Reads a query. An unbalanced quote is a plain character. A `-` counts only before a word after white space, so that
/// `well-known` and `2024-01-02` stay words, and only before a letter or a quote, so that `-5` and `--stat` do. With
/// one before a word at its beginning a query excludes nothing but what is quoted.
pub(crate) fn parse(query: &str) -> Parsed {
    let end = query.char_indices().nth(LONGEST).map_or(query.len(), |(at, _)| at);
    let mut rest = query[..end].trim_start();
    let mut parsed = Parsed::default();
    let mut plain = String::new();
    while let Some(c) = rest.chars().next() {
        let at_start = plain.is_empty() || plain.ends_with(char::is_whitespace);
        let (minus, body) = match rest.strip_prefix('-') {
            Some(body) if at_start => (true, body),
            _ => (false, rest),
        };
        if let Some((phrase, after)) = quoted(body) {
            let list = if minus { &mut parsed.excluded } else { &mut parsed.phrases };
            list.push(phrase.to_owned());
            plain.push(' ');
            rest = after;
        } else {
            plain.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    let all: Vec<&str> = plain.split_whitespace().collect();
    let from = if is_pasted(&plain, &all) { all.len() } else { exclusions_from(&all) };
    let mut words = all[..from].to_vec();
    for word in &all[from..] {
        match excludable(word) {
            Some(it) => parsed.excluded.push(it.to_owned()),
            None => words.push(word),
        }
    }
    parsed.words = words.join(" ");
    // Only exclusions: nothing could be found, so they are meant as words.
    if parsed.words.is_empty() && parsed.phrases.is_empty() {
        parsed.words = parsed.excluded.drain(..).collect::<Vec<_>>().join(" ");
    }
    parsed
}

impl Parsed {
    /// With what is quoted as plain words; `None` if nothing is. What is excluded stays so, and nothing in a phrase
    /// comes to exclude anything.
    pub(crate) fn unquoted(mut self) -> Option<Parsed> {
        if self.phrases.is_empty() {
            return None;
        }
        for phrase in self.phrases.drain(..) {
            self.words.push(' ');
            self.words.push_str(&phrase);
        }
        Some(self)
    }
}

/// What a word with a minus before it excludes. A letter alone is an option or a variable, and what holds signs of code
/// is code; a minus behind the word as well is a pair of dashes.
fn excludable(word: &str) -> Option<&str> {
    let body = word.strip_prefix('-').filter(|it| it.starts_with(char::is_alphabetic))?;
    let is_end = |it: char| is_letter(it) || "+#-".contains(it);
    let body = body.trim_end_matches(|it| !is_end(it));
    let mut letters = body.chars().filter(|it| !is_combining_mark(*it));
    let alone = matches!((letters.next(), letters.next()), (Some(it), None) if !is_unspaced(it));
    let code = body.contains(|it| "=()[]{}<>|$:;\\\"".contains(it));
    (!alone && !code && !body.ends_with('-')).then_some(body)
}

fn is_letter(it: char) -> bool {
    it.is_alphanumeric() || is_combining_mark(it)
}

fn has_word(text: &str) -> bool {
    text.chars().any(|it| it.is_alphanumeric())
}

/// The first word that a minus may exclude. In a sentence a minus is a slip, `resource -limited settings?`, unless it
/// stands at the end.
fn exclusions_from(words: &[&str]) -> usize {
    if words.last().is_some_and(|it| it.ends_with(['.', '?', '!', '。', '？', '！', '؟'])) {
        words.iter().rposition(|it| excludable(it).is_none()).map_or(0, |at| at + 1)
    } else {
        0
    }
}

/// Whether text was plainly not typed as a query: it has several lines, is a paragraph or a command line, or begins
/// with a minus, as items of lists and options do that somebody asks about (`-WhatIf of Set-Date`).
fn is_pasted(text: &str, words: &[&str]) -> bool {
    text.starts_with('-')
        || text.trim().contains(['\n', '\r'])
        || words.len() > MOST_TYPED
        || is_command(words)
        || has_dashes(words)
}

/// Whether words are given to a shell: an option that can be nothing else, a sign of the shell's, a path, or the name
/// of a program with short options.
fn is_command(words: &[&str]) -> bool {
    let option = |it: &&str| match it.strip_prefix('-') {
        Some(rest) => {
            let long = rest.strip_prefix('-').unwrap_or_default();
            long.starts_with(|it: char| it.is_ascii_alphabetic())
                || (rest.len() == 1 && rest.starts_with(|it: char| it.is_ascii_alphabetic()))
                || (rest.starts_with(|it: char| it.is_ascii_alphabetic()) && rest.contains('='))
        }
        None => false,
    };
    let path =
        |it: &&str| ["./", "../", "~/", "$(", "${"].iter().any(|start| it.starts_with(start));
    let prompt = words
        .first()
        .is_some_and(|it| PROMPTS.contains(it) || (it.contains('@') && it.ends_with(['$', '#'])));
    let short = |it: &&str| {
        let option = it.strip_prefix('-').unwrap_or_default();
        option.len() <= LONGEST_OPTION && option.starts_with(|it: char| it.is_ascii_alphabetic())
    };
    prompt
        || words.iter().any(|it| option(it) || path(it) || SHELL_SIGNS.contains(it))
        || (words.first().is_some_and(|it| PROGRAMS.contains(it)) && words.iter().any(short))
}

/// Whether a minus stands before a word, and after it or a later one: a pair of dashes around something.
fn has_dashes(words: &[&str]) -> bool {
    let opens =
        |it: &&str| it.strip_prefix('-').is_some_and(|it| it.starts_with(char::is_alphabetic));
    let closes = |it: &&str| {
        let word = it.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']).strip_suffix('-');
        word.is_some_and(|it| it.ends_with(is_letter))
    };
    words.iter().skip_while(|it| !opens(it)).any(closes)
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let close = match text.chars().next()? {
        '"' => '"',
        '“' | '„' => '”',
        '«' => '»',
        _ => return None,
    };
    let body = &text[text.chars().next()?.len_utf8()..];
    let end = body.find(close).or_else(|| if close == '”' { body.find('“') } else { None })?;
    let after = end + body[end..].chars().next()?.len_utf8();
    (!body[..end].trim().is_empty()).then(|| (&body[..end], &body[after..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn excluded(query: &str) -> Vec<String> {
        parse(query).excluded
    }

    #[test]
    fn phrases_and_exclusions() {
        let parsed = parse("steel \"dry dock\" -paint -\"blue boat\" well-known");
        assert_eq!(parsed.words.split_whitespace().collect::<Vec<_>>(), ["steel", "well-known"]);
        assert_eq!(parsed.phrases, ["dry dock"]);
        assert_eq!(parsed.excluded, ["blue boat", "paint"]);
        assert_eq!(parse("„dry dock“").phrases, ["dry dock"]);
    }

    #[test]
    fn without_its_marks_a_phrase_is_words_and_nothing_else_changes() {
        assert_eq!(parse("dry dock -paint").unquoted(), None);
        let plain = parse("steel \"dry -rust dock\" -paint -\"blue boat\"").unquoted();
        let plain = plain.expect("a phrase");
        let words: Vec<&str> = plain.words.split_whitespace().collect();
        assert_eq!(words, ["steel", "dry", "-rust", "dock"]);
        assert_eq!((plain.phrases.len(), plain.excluded.len()), (0, 2));
    }

    #[test]
    fn odd_queries_are_words() {
        assert_eq!(parse("say \"hello").words, "say \"hello");
        assert_eq!(parse("-\"only this\"").words, "only this");
        assert_eq!(parse("\"\"").phrases, Vec::<String>::new());
        assert_eq!(parse("").words, "");
    }

    #[test]
    fn a_minus_before_a_word_excludes_it_in_any_script() {
        let all = [
            ("boat -paint", "paint"),
            ("-\"paint\" boat", "paint"),
            ("\"dry dock\" -paint", "paint"),
            ("What does the mooring cost? -oven", "oven"),
            ("What does the mooring cost -oven?", "oven"),
            ("boat -paint, oak", "paint"),
            ("(boat -paint)", "paint"),
            ("boat\u{a0}-paint", "paint"),
            ("compilers -C++", "C++"),
            ("languages -C#", "C#"),
            ("boats -e-mail", "e-mail"),
            ("boats -mira@example.org", "mira@example.org"),
            ("boats -o'brien", "o'brien"),
            ("Fleetwood Mac - Rumours -live", "live"),
            ("docker -swarm", "swarm"),
            ("boat | ship -paint", "paint"),
            ("Settings > Network -wireless", "wireless"),
            ("for 5 % -paint", "paint"),
            ("Boot -Öl", "Öl"),
            ("лодка -краска", "краска"),
            ("סירה -צבע", "צבע"),
            ("قارب -طلاء", "طلاء"),
            ("नाव -हिन्दी", "हिन्दी"),
            ("船 -猫", "猫"),
        ];
        for (query, word) in all {
            assert_eq!(excluded(query), [word], "{query}");
        }
    }

    #[test]
    fn what_is_pasted_excludes_nothing_by_accident() {
        let all = [
            // Command lines.
            "git log -p --stat",
            "git log --stat -merges",
            "tar -xzf boat.tar.gz",
            "ls -la",
            "rm -rf target",
            "docker run -it ubuntu bash",
            "sudo netstat -tuln",
            "find . -name boat",
            "find ~/notes -name boat",
            "$ mvn clean -DskipTests",
            "mira@box:~$ java -jar boat.jar",
            "cd boat && less -boat",
            "> boat -paint",
            "gcc -std=c++17 -Wall boat.c",
            "java -Dfile.encoding=UTF-8 -jar boat.jar",
            "ssh -vvv harbor",
            "ffmpeg -i in.mp4 -vcodec h264",
            // Lists and several lines.
            "- milk",
            "- milk - eggs",
            "to buy:\n-milk\n-eggs\nbread",
            "-milk\r\n-eggs\r\nbread",
            "Kind regards\n-Mira",
            "-- \nMira Holm",
            // Words, numbers and signs.
            "Müller-Lüdenscheidt",
            "e-mail",
            "2010-2015",
            "2010 -2015",
            "-5 °C",
            "between -20 and -5 °C",
            "well - known",
            "a -b +c",
            "y = -log(x)",
            "-only",
            "-WhatIf of Set-Date",
            "-milk -eggs",
            "What is possible in many resource -limited settings?",
            "what methods -dash exact or approximate -dash are available.",
            "a -> b -> c",
            "boat :-) -_- oak",
            "– paint −paint —paint",
            "2026-11-30 12:00:01 ERROR [main] - boat lost",
            "the boat -which was old- sank",
            "the boat -old-, they said",
            "boat --paint",
            "boat -",
            "boat -\"",
            "boat -(paint",
        ];
        for query in all {
            let parsed = parse(query);
            assert_eq!(parsed.excluded, Vec::<String>::new(), "{query}");
            let signs = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(parsed.words, signs(query), "{query}");
        }
        let paragraph = "We left the harbor at noon ".repeat(6) + "-although it rained";
        assert_eq!(excluded(&paragraph), Vec::<String>::new());
    }

    #[test]
    fn a_phrase_is_excluded_wherever_it_was_pasted() {
        assert_eq!(excluded("git log -p -\"merge\""), ["merge"]);
        assert_eq!(excluded("git log -p -merge"), Vec::<String>::new());
        // What is quoted is no sign of a command.
        assert_eq!(excluded("\"git log -p\" -merge"), ["merge"]);
    }

    #[test]
    fn what_is_told_of_a_query_holds_words() {
        let marks = QueryMarks::of("steel \"dry dock\" \"???\" -paint -\"!\"");
        assert_eq!(
            (marks.phrases, marks.excluded),
            (vec!["dry dock".into()], vec!["paint".into()])
        );
        assert_eq!(QueryMarks::of("-\"only\""), QueryMarks::default());
    }

    proptest! {
        #[test]
        fn never_fails(query in "\\PC{0,40}|[\"“”„«» a-]{0,20}|[-a\u{301}猫+#. \n]{0,20}") {
            parse(&query);
        }

        /// A letter of the query is in its words, a phrase or an exclusion, as often as it was typed.
        #[test]
        fn no_letter_is_lost(query in "[-\"a-e猫 .$|\n]{0,40}") {
            let letters = |it: &str| {
                let mut letters: Vec<char> = it.chars().filter(|it| it.is_alphanumeric()).collect();
                letters.sort_unstable();
                letters
            };
            let Parsed { words, phrases, excluded } = parse(&query);
            let all = [vec![words], phrases, excluded].concat().concat();
            prop_assert_eq!(letters(&all), letters(&query));
        }
    }
}
