//! Enforcement: whatever a policy proposes, exactly `min(top_k, n)` candidates come back (invariant 3).

use riddle_types::{Decision, Ranked};
use serde::{Deserialize, Serialize};

use crate::{LayerView, PruningPolicy};

/// What pruning may change (§7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing: the full forward.
    #[default]
    Off,
    /// The top-k as a set: winners stop early too, and the order inside the set is approximate
    /// (candidates accepted earlier stand first: their cluster lay above everybody who ran on). Once
    /// the others have been dropped and there are only as many candidates as slots, the set is known.
    ///
    /// Where `top_k ≥ n` it is known before anything is computed, and only an order can be asked for:
    /// everybody runs to the end, as in [`Order`](Self::Order).
    Set,
    /// Only losers stop early: the winners' order and scores are those of the full forward.
    Order,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Off => "off",
            Mode::Set => "set",
            Mode::Order => "order",
        })
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Mode, String> {
        match name {
            "off" => Ok(Mode::Off),
            "set" => Ok(Mode::Set),
            "order" => Ok(Mode::Order),
            other => Err(format!("{other:?} is not a mode: use off, set or order")),
        }
    }
}

/// The state of one request: who runs, who has won.
#[derive(Debug)]
pub(crate) struct Contest {
    mode: Mode,
    top_k: usize,
    num_layers: u32,
    active: Vec<usize>,
    won: Vec<Winner>,
}

/// A winner: candidates accepted after an earlier layer stand before those accepted later, because
/// their cluster lay above everybody who ran on; inside a layer the score decides.
#[derive(Debug, Clone, Copy)]
struct Winner {
    index: usize,
    raw: f32,
    layer: u32,
}

/// What changed after a layer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdicts {
    pub(crate) accepted: Vec<usize>,
    pub(crate) dropped: Vec<usize>,
}

impl Contest {
    pub(crate) fn new(mode: Mode, candidates: usize, top_k: usize, num_layers: u32) -> Self {
        // Of a set that is everybody nothing is to be found out but the order, which early layers hardly know.
        let nothing_to_choose = mode == Mode::Set && top_k >= candidates;
        Contest {
            mode: if nothing_to_choose { Mode::Order } else { mode },
            top_k: top_k.min(candidates),
            num_layers,
            active: (0..candidates).collect(),
            won: Vec::new(),
        }
    }

    /// Candidates still running, ascending.
    pub(crate) fn active(&self) -> &[usize] {
        &self.active
    }

    /// Whether everything is decided.
    pub(crate) fn is_over(&self) -> bool {
        self.active.is_empty() || self.won.len() == self.top_k
    }

    /// Whether scores are needed after `layer`.
    pub(crate) fn wants_scores(&self, policy: &dyn PruningPolicy, layer: u32) -> bool {
        layer == self.num_layers || (self.mode != Mode::Off && policy.wants(layer))
    }

    /// Lets a policy drop candidates by what is known of them before the first layer, `prior` in raw scores, and gives
    /// their indexes. Nobody wins by that, not even who is left with a slot for each: a result has been read.
    pub(crate) fn judge_prior(
        &mut self,
        policy: &dyn PruningPolicy,
        prior: &[f32],
        activate: impl Fn(f32) -> f32,
    ) -> Vec<usize> {
        if prior.is_empty() || self.is_over() || self.mode == Mode::Off || !policy.wants(0) {
            return Vec::new();
        }
        let scores: Vec<f32> = prior.iter().map(|&it| activate(it)).collect();
        let mode = std::mem::replace(&mut self.mode, Mode::Order);
        let verdicts = self.judge(policy, 0, prior, &scores);
        self.mode = mode;
        verdicts.dropped
    }

    /// Applies a policy's verdicts after a layer; `raw` and `scores` follow [`active`](Self::active).
    pub(crate) fn judge(
        &mut self,
        policy: &dyn PruningPolicy,
        layer: u32,
        raw: &[f32],
        scores: &[f32],
    ) -> Verdicts {
        if layer == self.num_layers {
            return self.finish(layer, raw);
        }
        let open_slots = self.top_k - self.won.len();
        let decisions = self.ask(policy, layer, raw, scores);
        let mut descending: Vec<usize> = (0..self.active.len()).collect();
        // By raw score: activated ones saturate, and two at 1.0 would look equal.
        descending.sort_by(|&a, &b| raw[b].total_cmp(&raw[a]));
        let proposed = |place: usize| decisions.get(place).copied().unwrap_or(Decision::Keep);
        let mut keep = vec![true; self.active.len()];
        let mut verdicts = Verdicts::default();
        if self.mode == Mode::Set {
            // Best first, so that a policy that accepts too many gets the best of them.
            let wanted = descending.iter().filter(|&&it| proposed(it) == Decision::Accept);
            for &place in wanted.take(open_slots) {
                keep[place] = false;
                self.won.push(Winner { index: self.active[place], raw: raw[place], layer });
                verdicts.accepted.push(self.active[place]);
            }
        }
        // Worst first, and only as many as leave somebody for every open slot.
        let accepted = verdicts.accepted.len();
        let spare = (self.active.len() - accepted) - (open_slots - accepted);
        let dropped = descending.iter().rev().filter(|&&it| proposed(it) == Decision::Drop);
        for &place in dropped.take(spare) {
            keep[place] = false;
            verdicts.dropped.push(self.active[place]);
        }
        let survivors: Vec<usize> = (0..self.active.len()).filter(|&it| keep[it]).collect();
        if self.mode == Mode::Set && survivors.len() == self.top_k - self.won.len() {
            // As many as there are slots: they have all won (§4.1).
            for &place in &survivors {
                self.won.push(Winner { index: self.active[place], raw: raw[place], layer });
                verdicts.accepted.push(self.active[place]);
            }
            self.active.clear();
        } else if self.won.len() == self.top_k {
            verdicts.dropped.extend(survivors.iter().map(|&it| self.active[it]));
            self.active.clear();
        } else {
            self.active = survivors.into_iter().map(|it| self.active[it]).collect();
        }
        verdicts.accepted.sort_unstable();
        verdicts.dropped.sort_unstable();
        verdicts
    }

    /// What the policy proposes for each active candidate; nothing when there is nothing to decide.
    fn ask(
        &self,
        policy: &dyn PruningPolicy,
        layer: u32,
        raw: &[f32],
        scores: &[f32],
    ) -> Vec<Decision> {
        let open_slots = self.top_k - self.won.len();
        if self.mode == Mode::Off || open_slots >= self.active.len() {
            return Vec::new();
        }
        policy.judge(&LayerView {
            layer,
            num_layers: self.num_layers,
            open_slots,
            active: &self.active,
            raw,
            scores,
        })
    }

    /// Ends after this layer, whether it is the last or not.
    pub(crate) fn end(&mut self, layer: u32, raw: &[f32]) {
        self.finish(layer, raw);
    }

    /// The last layer: the best of who is left fill the open slots.
    fn finish(&mut self, layer: u32, raw: &[f32]) -> Verdicts {
        let mut descending: Vec<usize> = (0..self.active.len()).collect();
        descending.sort_by(|&a, &b| raw[b].total_cmp(&raw[a]));
        let (winners, losers) =
            descending.split_at((self.top_k - self.won.len()).min(descending.len()));
        let mut verdicts = Verdicts {
            accepted: winners.iter().map(|&it| self.active[it]).collect(),
            dropped: losers.iter().map(|&it| self.active[it]).collect(),
        };
        self.won.extend(winners.iter().map(|&it| Winner {
            index: self.active[it],
            raw: raw[it],
            layer,
        }));
        self.active.clear();
        verdicts.accepted.sort_unstable();
        verdicts.dropped.sort_unstable();
        verdicts
    }

    /// The winners, best first; equal scores keep the input order.
    pub(crate) fn ranking(mut self, activate: impl Fn(f32) -> f32) -> Vec<Ranked> {
        self.won.sort_by(|a, b| {
            a.layer.cmp(&b.layer).then(b.raw.total_cmp(&a.raw)).then(a.index.cmp(&b.index))
        });
        self.won
            .into_iter()
            .map(|it| Ranked {
                index: it.index,
                raw_score: it.raw,
                score: activate(it.raw),
                decided_at_layer: it.layer,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Says whatever it was told to: a policy that may be mad.
    struct Scripted(Vec<Decision>);

    impl PruningPolicy for Scripted {
        fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
            (0..view.scores.len() + 2)
                .map(|i| self.0[(i + view.layer as usize) % self.0.len()])
                .collect()
        }
    }

    fn decisions() -> impl Strategy<Value = Vec<Decision>> {
        prop::collection::vec(
            prop::sample::select(vec![Decision::Keep, Decision::Accept, Decision::Drop]),
            1..7,
        )
    }

    proptest! {
        #[test]
        fn exactly_min_k_n_come_back_whatever_the_policy_says(
            script in decisions(),
            mode in prop::sample::select(vec![Mode::Off, Mode::Set, Mode::Order]),
            layers in prop::collection::vec(prop::collection::vec(-5f32..5.0, 12), 1..6),
            n in 0usize..12,
            top_k in 0usize..15,
        ) {
            let policy = Scripted(script);
            let num_layers = layers.len() as u32;
            let mut contest = Contest::new(mode, n, top_k, num_layers);
            let (mut decided, mut accepted) = (Vec::new(), 0);
            for (layer, all) in (1..).zip(&layers) {
                if contest.is_over() {
                    break;
                }
                let raw: Vec<f32> = contest.active().iter().map(|&it| all[it]).collect();
                let verdicts = contest.judge(&policy, layer, &raw, &raw);
                accepted += verdicts.accepted.len();
                prop_assert!(accepted <= top_k.min(n), "more accepts than slots");
                prop_assert!(accepted + contest.active().len() >= top_k.min(n), "too few survive");
                if (mode == Mode::Order || top_k >= n) && layer < num_layers {
                    prop_assert!(verdicts.accepted.is_empty(), "winners run to the end");
                }
                if mode == Mode::Off && layer < num_layers {
                    prop_assert_eq!(contest.active().len(), n, "everybody runs to the end");
                }
                decided.extend(verdicts.accepted.iter().chain(&verdicts.dropped).copied());
            }
            prop_assert!(contest.is_over());
            let ranking = contest.ranking(|it| it);
            prop_assert_eq!(ranking.len(), top_k.min(n));
            let mut indexes: Vec<usize> = ranking.iter().map(|it| it.index).collect();
            indexes.sort_unstable();
            indexes.dedup();
            prop_assert_eq!(indexes.len(), top_k.min(n), "nobody wins twice");
            decided.sort_unstable();
            let before = decided.len();
            decided.dedup();
            prop_assert_eq!(before, decided.len(), "nobody is decided twice");
            if mode != Mode::Set || top_k >= n {
                // Winners ran to the end: their order and scores are those of the last layer.
                prop_assert!(ranking.iter().all(|it| it.decided_at_layer == num_layers));
                prop_assert!(ranking.windows(2).all(|it| it[0].raw_score >= it[1].raw_score));
            }
        }
    }

    fn set_of(n: usize, top_k: usize) -> Contest {
        Contest::new(Mode::Set, n, top_k, 4)
    }

    #[test]
    fn earlier_winners_stand_first_whatever_their_score() {
        use Decision::{Accept, Drop, Keep};
        let mut contest = set_of(5, 3);
        let scores = [0.5, 0.9, 0.5, 0.2, 0.1];
        let judge = |contest: &mut Contest, layer, decisions: &[Decision], raw: &[f32]| {
            // A policy sees the layer number; one that is told what to say turns it back.
            let mut script = decisions.to_vec();
            script.rotate_right(layer as usize % decisions.len());
            contest.judge(&Scripted(script), layer, raw, raw)
        };
        let verdicts = judge(&mut contest, 1, &[Keep, Accept, Keep, Keep, Drop], &scores);
        assert_eq!(verdicts, Verdicts { accepted: vec![1], dropped: vec![4] });
        // Both score better than the winner of layer 1 did; equal scores keep the input order.
        let verdicts = judge(&mut contest, 2, &[Accept, Accept, Keep], &[2.0, 2.0, 1.0]);
        assert_eq!(verdicts, Verdicts { accepted: vec![0, 2], dropped: vec![3] });
        assert!(contest.is_over());
        let places: Vec<usize> = contest.ranking(|it| it).iter().map(|it| it.index).collect();
        assert_eq!(places, [1, 0, 2]);
    }

    #[test]
    fn as_many_candidates_as_slots_have_won() {
        use Decision::{Drop, Keep};
        let mut contest = set_of(4, 2);
        let verdicts =
            contest.judge(&Scripted(vec![Drop, Keep]), 2, &[0.1, 0.2, 0.3, 0.4], &[0.5; 4]);
        assert_eq!(verdicts, Verdicts { accepted: vec![1, 3], dropped: vec![0, 2] });
        assert!(contest.is_over());
    }

    /// Who is asked for everybody is asked for their order: that of the last layer.
    #[test]
    fn a_set_of_everybody_is_an_order() {
        for top_k in [3, 7] {
            let mut contest = set_of(3, top_k);
            for (layer, raw) in (1..).zip([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]) {
                let verdicts = contest.judge(&Scripted(vec![Decision::Accept]), layer, &raw, &raw);
                assert_eq!(verdicts, Verdicts::default(), "layer {layer} settles nothing");
            }
            contest.judge(&Scripted(vec![Decision::Accept]), 4, &[9.0, 8.0, 7.0], &[0.5; 3]);
            let ranking = contest.ranking(|it| it);
            let places: Vec<_> = ranking.iter().map(|it| (it.index, it.decided_at_layer)).collect();
            assert_eq!(places, [(0, 4), (1, 4), (2, 4)]);
        }
    }

    #[test]
    fn saturated_scores_do_not_hide_who_is_best() {
        // The activation has rounded all three to 1: the raw scores still tell them apart.
        let mut contest = set_of(3, 1);
        let verdicts =
            contest.judge(&Scripted(vec![Decision::Accept]), 1, &[20.0, 40.0, 30.0], &[1.0; 3]);
        assert_eq!(verdicts, Verdicts { accepted: vec![1], dropped: vec![0, 2] });
    }

    #[test]
    fn mode_names_parse() {
        for mode in [Mode::Off, Mode::Set, Mode::Order] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert!("all".parse::<Mode>().is_err());
    }
}
