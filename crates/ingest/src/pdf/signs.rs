//! Signs of symbol fonts, which PDFs leave in Unicode's private area: `\u{F02B}` for a plus.
//!
//! Source: Unicode Consortium, mapping of Adobe's Symbol encoding to Unicode (`symbol.txt`), by its codes.

/// Where programs put the 256 codes of a font that has signs instead of letters.
const PRIVATE: std::ops::RangeInclusive<u32> = 0xF020..=0xF0FF;

/// A text with its signs written as everybody writes them; letters of an alphabet only where one stands alone, as in a
/// formula: a row of them is a text in an unknown font. What has no sign stays.
pub(super) fn plain(text: &str) -> Option<String> {
    if !text.chars().any(|it| PRIVATE.contains(&u32::from(it))) {
        return None;
    }
    let letters: Vec<char> = text.chars().collect();
    let code = |at: usize| letters.get(at).and_then(|it| symbol(*it));
    let greek = |at: usize| code(at).and_then(greek);
    let mut out = String::with_capacity(text.len());
    for (at, letter) in letters.iter().enumerate() {
        let alone = at.checked_sub(1).and_then(greek).is_none() && greek(at + 1).is_none();
        let sign = code(at).and_then(sign).or_else(|| greek(at).filter(|_| alone));
        out.push(sign.unwrap_or(*letter));
    }
    Some(out)
}

fn symbol(letter: char) -> Option<u8> {
    PRIVATE.contains(&u32::from(letter)).then(|| u32::from(letter) as u8)
}

/// Signs that are the same in Symbol and in whatever else is written by these codes, or hardly ever another.
fn sign(code: u8) -> Option<char> {
    Some(match code {
        b' ' | b'!' | b'%' | b'(' | b')' | b'+' | b',' | b'.' | b'/' | b':' | b';' | b'<'
        | b'=' | b'>' | b'?' | b'[' | b']' | b'{' | b'|' | b'}' => char::from(code),
        b'-' => '−',
        0xA3 => '≤',
        0xA5 => '∞',
        0xA7 => '▪',
        0xAB => '↔',
        0xAC => '←',
        0xAE => '→',
        0xB0 => '°',
        0xB1 => '±',
        0xB3 => '≥',
        0xB4 => '×',
        0xB6 => '∂',
        0xB7 => '•',
        0xB8 => '÷',
        0xB9 => '≠',
        0xBB => '≈',
        0xC5 => '⊕',
        0xCE => '∈',
        0xD1 => '∇',
        0xD5 => '∏',
        0xD6 => '√',
        0xD7 => '⋅',
        0xDE => '⇒',
        0xE5 => '∑',
        0xF2 => '∫',
        _ => return None,
    })
}

/// Letters by the place of Latin ones: `a` is alpha.
fn greek(code: u8) -> Option<char> {
    const CAPITALS: [char; 26] = [
        'Α', 'Β', 'Χ', 'Δ', 'Ε', 'Φ', 'Γ', 'Η', 'Ι', 'ϑ', 'Κ', 'Λ', 'Μ', 'Ν', 'Ο', 'Π', 'Θ', 'Ρ',
        'Σ', 'Τ', 'Υ', 'ς', 'Ω', 'Ξ', 'Ψ', 'Ζ',
    ];
    const SMALL: [char; 26] = [
        'α', 'β', 'χ', 'δ', 'ε', 'φ', 'γ', 'η', 'ι', 'ϕ', 'κ', 'λ', 'μ', 'ν', 'ο', 'π', 'θ', 'ρ',
        'σ', 'τ', 'υ', 'ϖ', 'ω', 'ξ', 'ψ', 'ζ',
    ];
    match code {
        b'A'..=b'Z' => Some(CAPITALS[usize::from(code - b'A')]),
        b'a'..=b'z' => Some(SMALL[usize::from(code - b'a')]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_written_plainly_and_rows_of_letters_are_no_greek() {
        let formula = "OA \u{F02B} OB \u{F0B4} 2 \u{F0A3} \u{F061}";
        assert_eq!(plain(formula).as_deref(), Some("OA + OB × 2 ≤ α"));
        assert_eq!(plain("\u{F0B7} first").as_deref(), Some("• first"));
        let unknown = "\u{F054}\u{F068}\u{F065}";
        assert_eq!(plain(unknown).as_deref(), Some(unknown));
        assert_eq!(plain("no sign, \u{E000} neither"), None);
    }
}
