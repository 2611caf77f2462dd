//! How much two texts have in common: ROUGE-L (Lin 2004) and BLEU (Papineni et al. 2002), by words in small letters.

use std::collections::HashMap;

/// Longest run of words that BLEU compares.
const LONGEST: usize = 4;

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|it| !it.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// F1 of the longest common subsequence of words, 0…1.
pub fn rouge_l(text: &str, reference: &str) -> f64 {
    let (a, b) = (words(text), words(reference));
    if a.is_empty() || b.is_empty() {
        return f64::from(u8::from(a.is_empty() && b.is_empty()));
    }
    let mut above = vec![0_usize; b.len() + 1];
    for word in &a {
        let mut row = vec![0_usize; b.len() + 1];
        for (at, other) in b.iter().enumerate() {
            row[at + 1] = if word == other { above[at] + 1 } else { row[at].max(above[at + 1]) };
        }
        above = row;
    }
    2.0 * above[b.len()] as f64 / (a.len() + b.len()) as f64
}

/// BLEU of one sentence, 0…1: the geometric mean of the precisions of runs of one to four words, with one added to both
/// counts of runs of two words and more (Lin & Och 2004), times the penalty for what is too short.
pub fn bleu(text: &str, reference: &str) -> f64 {
    let (a, b) = (words(text), words(reference));
    if a.is_empty() || b.is_empty() {
        return f64::from(u8::from(a.is_empty() && b.is_empty()));
    }
    let mut log = 0.0;
    for length in 1..=LONGEST {
        let (mut known, mut found, mut all) = (HashMap::new(), 0_u32, 0_u32);
        for run in b.windows(length) {
            *known.entry(run).or_insert(0_u32) += 1;
        }
        for run in a.windows(length) {
            all += 1;
            if let Some(left) = known.get_mut(run).filter(|it| **it > 0) {
                *left -= 1;
                found += 1;
            }
        }
        let added = u32::from(length > 1);
        if found + added == 0 {
            return 0.0;
        }
        log += (f64::from(found + added) / f64::from(all + added)).ln() / LONGEST as f64;
    }
    let short = if a.len() < b.len() { 1.0 - b.len() as f64 / a.len() as f64 } else { 0.0 };
    (log + short).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    /// Computed by hand.
    #[test]
    fn golden_values() {
        near(rouge_l("the cat sat on the mat", "the cat sat on the mat"), 1.0);
        // "police the gunman" is in both, in this order: 2·3/(4+4), of Lin's paper, section 3.
        near(rouge_l("police kill the gunman", "police killed the gunman"), 0.75);
        near(rouge_l("the gunman kill police", "police killed the gunman"), 0.5);
        near(rouge_l("", "a"), 0.0);
        near(rouge_l("", ""), 1.0);
        near(bleu("the cat sat on the mat", "The cat sat on the mat!"), 1.0);
        near(bleu("dog", "cat"), 0.0);
        // 1 of 2 words; (0+1)/(1+1) pairs; (0+1)/(0+1) of three and four; as long as the other.
        near(bleu("a b", "a c"), (0.5_f64 * 0.5).powf(0.25));
        // All words of a text half as long: the penalty alone, e^(1−2).
        near(bleu("a b", "a b c d"), (-1.0_f64).exp());
        // A word is found as often as it is there: 1 of 3, (0+1)/(2+1), (0+1)/(1+1), 1; as long.
        near(bleu("a a a", "a b c"), (1.0_f64 / 3.0 / 3.0 / 2.0).powf(0.25));
    }
}
