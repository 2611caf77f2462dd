//! What a model's shards and submodels are worth, learned from questions (STI, §5.2).
//!
//! The measure of a shard is how much nearer scores come to the whole model's when it alone is exact and all others
//! have two bits: the result's quality of a few dozen questions would be noise. Submodels are held against what people
//! have marked as relevant: by nDCG@10 of lists; where all questions have a single text, as those of a classifier, by
//! how often it is called relevant (a score of 0 or more) and is, or neither.

use std::ops::ControlFlow;

use riddle_transformer::Encoded;
use riddle_types::{LayerEvent, LayerObserver, Prior};
use serde::{Deserialize, Serialize};

use super::{
    ElasticEngine, Submodel,
    pass::Pass,
    request::{Request, Within, order_of},
    state::State,
};
use crate::{
    Result, Run,
    deadline::{DeadlinePlan, Quality},
};

/// Results that are looked at.
const DEPTH: usize = 10;

/// What is known of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// By layer and slice: how much nearer scores come to the whole model's if this shard is exact.
    pub importance: Vec<Vec<f32>>,
    /// What submodels are worth.
    pub quality: Quality,
    /// Questions that it was learned from; 0: nothing was.
    pub questions: usize,
}

/// A question with its candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnQuestion {
    /// The query.
    pub query: String,
    /// What was found, in the order in which it was.
    pub candidates: Vec<String>,
    /// What is known of each before; may be empty.
    pub prior: Vec<f32>,
    /// How relevant each is; empty where nobody has said.
    pub relevant: Vec<f32>,
}

impl LearnQuestion {
    /// Whether what is relevant says anything of scores: of a list one text at least, of a single text yes or no.
    fn is_judged(&self) -> bool {
        match self.candidates.len() {
            1 => self.relevant.len() == 1,
            _ => self.relevant.iter().any(|it| *it > 0.0),
        }
    }
}

impl ElasticEngine {
    /// Learns from questions what shards and, where somebody has marked what is relevant, submodels are worth.
    /// `progress` sees how much is done, 0…1, and may stop.
    ///
    /// # Errors
    /// A question that can not be read, shards that can not, or a stop.
    pub fn learn(
        &self,
        questions: &[LearnQuestion],
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Learned> {
        let mut learned = super::unlearned(&self.shape);
        let (layers, slices) = (self.shape.layers, self.shape.slices);
        let widths: Vec<usize> = (slices.div_ceil(4)..=slices).collect();
        let total = questions.len() * (layers * slices + widths.len() + 8);
        let mut done = 0;
        let mut step = || {
            done += 1;
            match progress(done as f64 / total.max(1) as f64) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(crate::Error::Cancelled { layer: 0 }),
            }
        };
        let mut table = Table::new(layers, slices);
        // Of lists and single texts together those say nothing of an order.
        let fewest = if questions.iter().any(|it| it.candidates.len() > 1) { 2 } else { 1 };
        for question in questions.iter().filter(|it| it.candidates.len() >= fewest) {
            let asked = self.ask(question)?;
            let exact = u8::from(self.shape.numbers.exact());
            let whole = asked.last(Submodel::uniform(layers, slices, exact))?;
            step()?;
            let base = distance(&asked.last(Submodel::uniform(layers, slices, 2))?, &whole);
            for layer in 0..layers {
                for slice in 0..slices {
                    let mut bits = Submodel::uniform(layers, slices, 2);
                    bits.bits[layer][slice] = exact;
                    let nearer = base - distance(&asked.last(bits)?, &whole);
                    learned.importance[layer][slice] += nearer as f32;
                    step()?;
                }
            }
            learned.questions += 1;
            if question.is_judged() {
                table.add(&asked, &widths, &whole, &mut step)?;
            }
        }
        let count = learned.questions.max(1) as f32;
        learned.importance.iter_mut().flatten().for_each(|it| *it /= count);
        if let Some(quality) = table.quality(&widths) {
            learned.quality = quality;
        }
        Ok(learned)
    }

    fn ask<'a>(&'a self, question: &'a LearnQuestion) -> Result<AskedQuestion<'a>> {
        let order = order_of(question.candidates.len(), &question.prior);
        let texts: Vec<&str> = question.candidates.iter().map(String::as_str).collect();
        let pairs = self.encode(&question.query, &texts, &order)?;
        Ok(AskedQuestion { engine: self, question, order, pairs })
    }
}

/// A question that has been tokenized.
struct AskedQuestion<'a> {
    engine: &'a ElasticEngine,
    question: &'a LearnQuestion,
    order: Vec<usize>,
    pairs: Vec<Encoded>,
}

impl AskedQuestion<'_> {
    /// Scores after every layer, in the order of `order`.
    fn scores(&self, submodel: Submodel) -> Result<Vec<Vec<f32>>> {
        let mut state = self.engine.lock();
        let mut scores = scores_of(self.engine, &mut state, &self.pairs, &submodel.bits)?;
        for layer in &mut scores {
            for (score, index) in layer.iter_mut().zip(&self.order) {
                *score += self.question.prior.get(*index).copied().unwrap_or(0.0);
            }
        }
        Ok(scores)
    }

    fn last(&self, submodel: Submodel) -> Result<Vec<f32>> {
        Ok(self.scores(submodel)?.pop().unwrap_or_default())
    }

    /// nDCG of the order that scores make; of a single text whether it is judged right.
    fn quality(&self, scores: &[f32]) -> f64 {
        if let [score] = scores {
            return f64::from(u8::from((*score >= 0.0) == (self.relevance(0) > 0.0)));
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let gains = order.iter().map(|it| self.relevance(*it));
        ndcg(gains.collect(), self.question.relevant.clone())
    }

    /// Of the candidate at a place of `order`.
    fn relevance(&self, place: usize) -> f32 {
        self.order.get(place).and_then(|it| self.question.relevant.get(*it)).copied().unwrap_or(0.0)
    }

    /// nDCG where only the first candidates were read.
    fn quality_of_first(&self, scores: &[f32], read: usize) -> f64 {
        let lowest = scores[..read].iter().copied().fold(f32::INFINITY, f32::min);
        let mut scores = scores.to_vec();
        for (behind, score) in scores[read..].iter_mut().enumerate() {
            *score = lowest - 1.0 - behind as f32;
        }
        self.quality(&scores)
    }
}

/// Sums over questions.
struct Table {
    input: f64,
    submodels: Vec<Vec<f64>>,
    loss: Vec<f64>,
    reach: Vec<f64>,
    questions: usize,
}

const DICTIONARY_BITS: [u8; 5] = [2, 3, 4, 5, 6];

impl Table {
    fn new(layers: usize, slices: usize) -> Table {
        Table {
            input: 0.0,
            submodels: vec![vec![0.0; slices]; layers],
            loss: vec![0.0; DICTIONARY_BITS.len()],
            reach: vec![0.0; 8],
            questions: 0,
        }
    }

    fn add(
        &mut self,
        asked: &AskedQuestion<'_>,
        widths: &[usize],
        whole: &[f32],
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let layers = self.submodels.len();
        let slices = self.submodels.first().map_or(0, Vec::len);
        let exact = u8::from(asked.engine.shape.numbers.exact());
        let count = whole.len();
        let given: Vec<f32> = (0..count).map(|it| -(it as f32)).collect();
        self.input += asked.quality(&given);
        for &width in widths {
            let scores = asked.scores(Submodel::uniform(layers, width, exact))?;
            for (row, scores) in self.submodels.iter_mut().zip(&scores) {
                row[width - 1] += asked.quality(scores);
            }
            step()?;
        }
        let best = asked.quality(whole);
        for (loss, bits) in self.loss.iter_mut().zip(DICTIONARY_BITS) {
            let scores = asked.last(Submodel::uniform(layers, slices, bits))?;
            *loss += best - asked.quality(&scores);
            step()?;
        }
        for (eighth, reach) in (1..).zip(&mut self.reach) {
            *reach += asked.quality_of_first(whole, (count * eighth).div_ceil(8));
        }
        self.questions += 1;
        Ok(())
    }

    fn quality(self, widths: &[usize]) -> Option<Quality> {
        if self.questions == 0 {
            return None;
        }
        let mean = |it: f64| it / self.questions as f64;
        let input = mean(self.input);
        let least = widths.first().copied().unwrap_or(1);
        let row = |row: &Vec<f64>| {
            // Narrower ones were not looked at, and are not used.
            let of = |(place, it): (usize, &f64)| if place + 1 < least { input } else { mean(*it) };
            let mut row: Vec<f64> = row.iter().enumerate().map(of).collect();
            never_falling(row.get_mut(least - 1..).unwrap_or_default());
            row
        };
        let submodels: Vec<Vec<f64>> = self.submodels.iter().map(row).collect();
        let best = submodels.last().and_then(|it| it.last()).copied().unwrap_or(input);
        let losses = self.loss.iter().map(|it| mean(*it));
        let mut loss: Vec<(u8, f64)> = DICTIONARY_BITS.into_iter().zip(losses).collect();
        // More bits are never worse; what says otherwise is noise.
        for place in (0..loss.len() - 1).rev() {
            loss[place].1 = loss[place].1.max(loss[place + 1].1).max(0.0);
        }
        loss.extend([(8, 0.0), (32, 0.0)]);
        let gained = |it: f64| {
            if best > input { ((mean(it) - input) / (best - input)).clamp(0.0, 1.0) } else { 1.0 }
        };
        let mut reach: Vec<(f64, f64)> = (1..)
            .zip(&self.reach)
            .map(|(eighth, it)| (f64::from(eighth) / 8.0, gained(*it)))
            .collect();
        for place in 1..reach.len() {
            reach[place].1 = reach[place].1.max(reach[place - 1].1);
        }
        Some(Quality { input, submodels, loss, reach })
    }
}

/// The nearest values that never fall, by squares: neighbors that fall have their mean (pool adjacent violators). More
/// slices are never worse; what says otherwise is noise, and plans would leave slices out for it.
fn never_falling(values: &mut [f64]) {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &value in values.iter() {
        let mut pool = (value, 1);
        while let Some(&(before, count)) = pools.last()
            && before >= pool.0
        {
            let sum = before * count as f64 + pool.0 * pool.1 as f64;
            pool = (sum / (count + pool.1) as f64, count + pool.1);
            pools.pop();
        }
        pools.push(pool);
    }
    let flat = pools.iter().flat_map(|(value, count)| std::iter::repeat_n(*value, *count));
    values.iter_mut().zip(flat).for_each(|(value, pooled)| *value = pooled);
}

/// A submodel over some texts, whatever time it takes: raw scores after every layer.
pub(super) fn scores_of(
    engine: &ElasticEngine,
    state: &mut State,
    pairs: &[Encoded],
    bits: &[Vec<u8>],
) -> Result<Vec<Vec<f32>>> {
    let request = Request {
        how: Run::FULL,
        within: Within::any_time(),
        query: "",
        candidates: &[],
        prior: Prior::NONE,
        top_k: pairs.len(),
    };
    let order: Vec<usize> = (0..pairs.len()).collect();
    let plan = DeadlinePlan {
        layers: bits.len(),
        width: bits.first().map_or(0, Vec::len),
        candidates: pairs.len(),
        bits: bits.to_vec(),
        predicted_ms: 0.0,
        waiting_ms: 0.0,
        budgets_ms: Vec::new(),
        quality: 0.0,
    };
    let mut keep = Keep(Vec::new());
    let pass = Pass::new(engine, &request, &order, plan);
    pass.run(state, pairs.to_vec(), &mut keep)?;
    Ok(keep.0)
}

/// Keeps the scores of every layer.
struct Keep(Vec<Vec<f32>>);

impl LayerObserver for Keep {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.0.push(event.scores.clone());
        ControlFlow::Continue(())
    }
}

/// Mean squared difference of scores.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    sum / a.len().max(1) as f64
}

/// Normalized discounted cumulative gain of the first ten.
fn ndcg(gains: Vec<f32>, mut all: Vec<f32>) -> f64 {
    let dcg = |gains: &[f32]| -> f64 {
        let of = |(place, gain): (usize, &f32)| f64::from(*gain) / ((place + 2) as f64).log2();
        gains.iter().take(DEPTH).enumerate().map(of).sum()
    };
    all.sort_by(|a, b| b.total_cmp(a));
    let best = dcg(&all);
    if best > 0.0 { dcg(&gains) / best } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_is_pooled() {
        let pooled = |values: &[f64]| {
            let mut values = values.to_vec();
            never_falling(&mut values);
            values
        };
        assert_eq!(pooled(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        assert_eq!(pooled(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert_eq!(pooled(&[1.0, 4.0, 2.0, 5.0]), [1.0, 3.0, 3.0, 5.0]);
        assert!(pooled(&[]).is_empty());
    }

    #[test]
    fn an_ideal_order_is_worth_all_of_it() {
        assert!((ndcg(vec![2.0, 1.0, 0.0], vec![0.0, 1.0, 2.0]) - 1.0).abs() < 1e-12);
        assert!(ndcg(vec![0.0, 1.0, 2.0], vec![0.0, 1.0, 2.0]) < 0.7);
        assert_eq!(ndcg(vec![0.0], vec![0.0]), 0.0);
    }
}
