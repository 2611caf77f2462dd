//! Which token comes next.

use crate::{Error, Result};

/// How a token is chosen from the logits. Temperature 0, the default, takes the most likely one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0: the most likely token.
    pub temperature: f32,
    /// Only the most likely tokens; 0: all.
    pub top_k: usize,
    /// Only the most likely tokens that together have this probability (Holtzman et al. 2020); 1: all.
    pub top_p: f32,
    /// Only tokens with at least this share of the most likely one's probability (Nguyen et al. 2024); 0: all.
    pub min_p: f32,
    /// Divides positive logits of tokens that were there already and multiplies negative ones (Keskar et al. 2019);
    /// 1: no difference.
    pub repeat_penalty: f32,
    /// Tokens back that count as there already.
    pub repeat_window: usize,
    /// Seed of the choice.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_window: 64,
            seed: 0,
        }
    }
}

/// Sets the seed of guesses apart (the golden ratio's bits).
const GUESSES: u64 = 0x9e37_79b9_7f4a_7c15;

impl Sampling {
    /// The same for guesses that this judges. Their random numbers must not know each other: those of seeds that are
    /// alike do, so the seed is drawn.
    pub(crate) fn for_guesses(self) -> Sampling {
        Sampling { seed: fastrand::Rng::with_seed(self.seed ^ GUESSES).u64(..), ..self }
    }

    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`Error::Sampling`] with the one that is not.
    pub fn check(&self) -> Result<()> {
        let wrong = |name, range| Err(Error::Sampling { name, range });
        if !(0.0..=10.0).contains(&self.temperature) {
            return wrong("temperature", "0 to 10");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return wrong("top-p", "above 0 to 1");
        }
        if !(0.0..1.0).contains(&self.min_p) {
            return wrong("min-p", "0 to below 1");
        }
        if !(self.repeat_penalty > 0.0 && self.repeat_penalty <= 10.0) {
            return wrong("repeat penalty", "above 0 to 10");
        }
        Ok(())
    }
}

/// A token that may come next, in somebody else's opinion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Guess {
    pub(crate) token: u32,
    /// The probabilities with which it was drawn, the token's own among them; empty where it was not drawn.
    pub(crate) odds: Vec<(u32, f32)>,
}

impl Guess {
    /// A guess that could not have been another.
    pub(crate) fn certain(token: u32) -> Guess {
        Guess { token, odds: Vec::new() }
    }
}

/// Chooses token after token.
#[derive(Debug)]
pub(crate) struct Sampler {
    options: Sampling,
    random: fastrand::Rng,
    /// Tokens that are still in question, with logits that become probabilities.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    pub(crate) fn new(options: Sampling) -> Sampler {
        Sampler { options, random: fastrand::Rng::with_seed(options.seed), candidates: Vec::new() }
    }

    /// The next token after `tokens`. `logits` are changed.
    pub(crate) fn choose(&mut self, logits: &mut [f32], tokens: &[u32]) -> u32 {
        self.penalize(logits, tokens);
        if self.options.temperature == 0.0 {
            return most_likely(logits);
        }
        self.weigh(logits);
        draw(&self.candidates, self.random.f32())
    }

    /// As [`choose`](Self::choose), where a guess is there: it is taken as often as it would be chosen, and what is
    /// chosen otherwise makes up for it, so that tokens are distributed as without guesses (Leviathan et al. 2023,
    /// section 2.3).
    ///
    /// A guess that is certain of itself, q = 1, is taken with its probability p, and otherwise the others are drawn by
    /// theirs: drawing as ever and comparing is that, and a seed chooses the tokens that it chooses without guesses.
    pub(crate) fn judge(&mut self, logits: &mut [f32], tokens: &[u32], guess: &Guess) -> u32 {
        if guess.odds.is_empty() || self.options.temperature == 0.0 {
            return self.choose(logits, tokens);
        }
        self.penalize(logits, tokens);
        self.weigh(logits);
        let total: f32 = self.candidates.iter().map(|it| it.1).sum();
        let of = |odds: &[(u32, f32)], token: u32| -> f32 {
            odds.iter().find(|it| it.0 == token).map_or(0.0, |it| it.1)
        };
        let (p, q) = (of(&self.candidates, guess.token) / total, of(&guess.odds, guess.token));
        if self.random.f32() * q < p {
            return guess.token;
        }
        // What the guesses do not give often enough: max(0, p - q).
        for (token, weight) in &mut self.candidates {
            *weight = (*weight / total - of(&guess.odds, *token)).max(0.0);
        }
        draw(&self.candidates, self.random.f32())
    }

    /// A guess for the model that judges it, drawn as this one's choice is, with the probabilities of all that it might
    /// have been; `None` where even the likeliest is less likely than `least`, whatever would be drawn.
    pub(crate) fn guess(
        &mut self,
        logits: &mut [f32],
        tokens: &[u32],
        least: f32,
    ) -> Option<Guess> {
        self.penalize(logits, tokens);
        if self.options.temperature == 0.0 {
            let token = most_likely(logits);
            let top = logits.get(token as usize).copied().unwrap_or_default();
            let total: f32 = logits.iter().map(|it| (it - top).exp()).sum();
            return (1.0 / total >= least).then(|| Guess::certain(token));
        }
        self.weigh(logits);
        let total: f32 = self.candidates.iter().map(|it| it.1).sum();
        let odds = self.candidates.iter().map(|it| (it.0, it.1 / total));
        let odds: Vec<(u32, f32)> = odds.collect();
        let likely = odds.first().is_some_and(|it| it.1 >= least);
        likely.then(|| Guess { token: draw(&odds, self.random.f32()), odds })
    }

    /// Leaves the likely tokens in `candidates`, with weights in the proportion of their probabilities.
    fn weigh(&mut self, logits: &[f32]) {
        self.candidates.clear();
        let finite = (0u32..).zip(logits.iter().copied()).filter(|it| !it.1.is_nan());
        self.candidates.extend(finite);
        self.cut();
    }

    /// Each token once, however often it was there.
    fn penalize(&self, logits: &mut [f32], tokens: &[u32]) {
        let penalty = self.options.repeat_penalty;
        if penalty == 1.0 {
            return;
        }
        let mut last = tokens[tokens.len().saturating_sub(self.options.repeat_window)..].to_vec();
        last.sort_unstable();
        last.dedup();
        for token in last {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// Leaves the likely candidates, with their probabilities at this temperature, the likeliest first. What is left
    /// is decided before the temperature flattens it.
    fn cut(&mut self) {
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.options;
        let candidates = &mut self.candidates;
        let likelier = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k - 1, likelier);
            candidates.truncate(top_k);
        }
        candidates.sort_unstable_by(likelier);
        let Some(&(_, top)) = candidates.first() else { return };
        let likelihood = |logit: f32| (logit - top).exp();
        let total: f32 = candidates.iter().map(|it| likelihood(it.1)).sum();
        let mut sum = 0.0;
        let wanted = candidates
            .iter()
            .position(|it| {
                sum += likelihood(it.1) / total;
                sum >= top_p
            })
            .map_or(candidates.len(), |it| it + 1);
        candidates.truncate(wanted);
        let likely = candidates.iter().take_while(|it| likelihood(it.1) >= min_p).count();
        candidates.truncate(likely.max(1));
        for (_, logit) in candidates {
            *logit = ((*logit - top) / temperature).exp();
        }
    }
}

/// A token by its weight, with a random number below one.
fn draw(candidates: &[(u32, f32)], random: f32) -> u32 {
    let total: f32 = candidates.iter().map(|it| it.1).sum();
    let mut rest = random * total;
    for &(token, weight) in candidates {
        rest -= weight;
        if rest < 0.0 {
            return token;
        }
    }
    candidates.last().map_or(0, |it| it.0)
}

fn most_likely(logits: &[f32]) -> u32 {
    let mut best = (0u32, f32::NEG_INFINITY);
    for (token, &logit) in (0u32..).zip(logits) {
        if logit > best.1 {
            best = (token, logit);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The tokens that may be chosen, by the definitions, one filter after the other over a sorted list.
    fn allowed(logits: &[f32], options: Sampling) -> Vec<u32> {
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
        if options.top_k > 0 {
            order.truncate(options.top_k);
        }
        let weight =
            |token: u32| f64::from(logits[token as usize] - logits[order[0] as usize]).exp();
        let total: f64 = order.iter().map(|it| weight(*it)).sum();
        let mut kept = Vec::new();
        let mut sum = 0.0;
        for &token in &order {
            kept.push(token);
            sum += weight(token) / total;
            if sum >= f64::from(options.top_p) - 1e-6 {
                break;
            }
        }
        kept.retain(|it| *it == order[0] || weight(*it) >= f64::from(options.min_p) - 1e-6);
        kept
    }

    proptest! {
        #[test]
        fn only_likely_tokens_are_chosen_and_a_seed_repeats_the_choice(
            logits in prop::collection::vec(-8f32..8.0, 1..60), top_k in 0usize..20, top_p in 0.05f32..1.0,
            min_p in 0f32..0.5, temperature in 0.1f32..3.0, seed in any::<u64>(),
        ) {
            let options = Sampling { temperature, top_k, top_p, min_p, seed, ..Sampling::default() };
            prop_assert!(options.check().is_ok());
            let allowed = allowed(&logits, options);
            let choose = || {
                let mut sampler = Sampler::new(options);
                (0..20).map(|_| sampler.choose(&mut logits.clone(), &[])).collect::<Vec<_>>()
            };
            let chosen = choose();
            prop_assert!(chosen.iter().all(|it| allowed.contains(it)), "{chosen:?} {allowed:?}");
            prop_assert_eq!(chosen, choose());
        }

        #[test]
        fn without_temperature_the_largest_logit_wins(logits in prop::collection::vec(-8f32..8.0, 1..60)) {
            let chosen = Sampler::new(Sampling::default()).choose(&mut logits.clone(), &[]) as usize;
            prop_assert!(logits.iter().all(|it| *it <= logits[chosen]));
        }
    }

    /// How often each token is chosen.
    fn counts(times: usize, tokens: usize, choose: &mut dyn FnMut() -> u32) -> Vec<f64> {
        let mut counts = vec![0.0; tokens];
        (0..times).for_each(|_| counts[choose() as usize] += 1.0);
        counts
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whatever a guess is drawn from, tokens come as often as without it, and guesses are taken as often as the
        /// two distributions overlap (Leviathan et al. 2023, corollary 3.6).
        #[test]
        fn judged_tokens_come_as_often_as_chosen_ones(
            logits in prop::collection::vec(-3f32..3.0, 2..7), others in prop::collection::vec(-3f32..3.0, 6),
            top_k in 0usize..7, top_p in 0.3f32..1.0, min_p in 0f32..0.3, temperature in 0.3f32..2.0,
            repeat_penalty in prop::sample::select(vec![1.0f32, 1.7]), seed in any::<u64>(), is_certain in any::<bool>(),
        ) {
            const TIMES: usize = 8_000;
            let tokens = logits.len();
            let options = Sampling { temperature, top_k, top_p, min_p, repeat_penalty, seed, ..Sampling::default() };
            let mut plain = Sampler::new(options);
            let chosen = counts(TIMES, tokens, &mut || plain.choose(&mut logits.clone(), &[0]));
            let judging = Sampling { seed: !seed, ..options };
            let mut judge = Sampler::new(judging);
            let mut draft = Sampler::new(Sampling { top_k: 0, ..judging.for_guesses() });
            let mut taken = 0.0;
            let judged = counts(TIMES, tokens, &mut || {
                let guess = draft.guess(&mut others[..tokens].to_vec(), &[0], 0.0).expect("a guess");
                let guess = if is_certain { Guess::certain(guess.token) } else { guess };
                let token = judge.judge(&mut logits.clone(), &[0], &guess);
                taken += f64::from(u8::from(token == guess.token));
                token
            });
            for (a, b) in chosen.iter().zip(&judged) {
                // Six standard deviations of the difference of two counts.
                prop_assert!((a - b).abs() <= 6.0 * (a + b).sqrt() + 6.0, "{chosen:?} {judged:?}");
            }
            let odds = |sampler: &mut Sampler, logits: &[f32]| {
                let mut logits = logits.to_vec();
                sampler.penalize(&mut logits, &[0]);
                sampler.weigh(&logits);
                let total: f32 = sampler.candidates.iter().map(|it| it.1).sum();
                let mut odds = vec![0.0; tokens];
                sampler.candidates.iter().for_each(|it| odds[it.0 as usize] = f64::from(it.1 / total));
                odds
            };
            let (p, q) = (odds(&mut plain, &logits), odds(&mut draft, &others[..tokens]));
            let overlap = |(p, q): (&f64, &f64)| if is_certain { p * q } else { p.min(*q) };
            let expected = TIMES as f64 * p.iter().zip(&q).map(overlap).sum::<f64>();
            prop_assert!((taken - expected).abs() <= 6.0 * expected.sqrt() + 6.0, "{taken} of {expected}");
        }

        /// A guess that is certain changes nothing of what a seed chooses.
        #[test]
        fn a_certain_guess_leaves_a_seed_its_choice(
            logits in prop::collection::vec(-3f32..3.0, 2..9), temperature in prop::sample::select(vec![0.0f32, 0.7, 1.5]),
            guesses in prop::collection::vec(0u32..9, 20), seed in any::<u64>(),
        ) {
            let options = Sampling { temperature, seed, ..Sampling::default() };
            let (mut plain, mut judge) = (Sampler::new(options), Sampler::new(options));
            for guess in guesses {
                let expected = plain.choose(&mut logits.clone(), &[]);
                prop_assert_eq!(judge.judge(&mut logits.clone(), &[], &Guess::certain(guess)), expected);
            }
        }
    }

    #[test]
    fn a_guess_that_is_not_likely_enough_is_none() {
        let odds = [0.6f32.ln(), 0.3f32.ln(), 0.1f32.ln()];
        for temperature in [0.0, 1.0] {
            let options = Sampling { temperature, ..Sampling::default() };
            let mut sampler = Sampler::new(options);
            assert!(sampler.guess(&mut odds.clone(), &[], 0.55).is_some());
            assert!(sampler.guess(&mut odds.clone(), &[], 0.65).is_none());
        }
        // Nonsense is guessed about as it is chosen.
        let mut hot = Sampler::new(Sampling { temperature: 1.0, ..Sampling::default() });
        assert!(hot.guess(&mut [f32::NAN; 3], &[], 0.0).is_none());
        let guess = Guess { token: 1, odds: vec![(1, 1.0)] };
        assert_eq!(hot.judge(&mut [f32::NAN; 3], &[], &guess), 0);
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let options =
            Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Sampling::default() };
        let mut sampler = Sampler::new(options);
        let logits = [0.7f32.ln(), 0.2f32.ln(), 0.1f32.ln()];
        let mut counts = [0usize; 3];
        for _ in 0..10_000 {
            counts[sampler.choose(&mut logits.clone(), &[]) as usize] += 1;
        }
        // Five standard deviations of a share of 0.7 of 10 000 are 230.
        for (count, expected) in counts.iter().zip([7000usize, 2000, 1000]) {
            assert!(count.abs_diff(expected) < 230, "{counts:?}");
        }
    }

    #[test]
    fn what_was_said_is_less_likely_and_nonsense_is_survived() {
        let options = Sampling { repeat_penalty: 2.0, repeat_window: 2, ..Sampling::default() };
        let mut sampler = Sampler::new(options);
        assert_eq!(sampler.choose(&mut [1.0, 1.5, 1.2], &[1]), 2);
        assert_eq!(sampler.choose(&mut [1.0, 1.5, 1.2], &[1, 0, 0]), 1);
        assert_eq!(sampler.choose(&mut [-1.0, -1.5], &[0, 9]), 1);
        assert_eq!(sampler.choose(&mut [f32::NAN, 0.5, f32::NAN], &[]), 1);
        let hot = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(Sampler::new(hot).choose(&mut [f32::NAN; 3], &[]), 0);
        assert!(Sampling { top_p: f32::NAN, ..hot }.check().is_err());
        assert!(Sampling { temperature: -1.0, ..hot }.check().is_err());
    }
}
