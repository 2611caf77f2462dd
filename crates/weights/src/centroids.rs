//! Dictionaries of few entries for many weights: post-training, by their distribution alone (STI, §4.2 and §6, after
//! GOBO).
//!
//! Weights that are bytes have at most 255 values, so that a dictionary is found from a histogram, however many there
//! are; numbers are put into as many bins as make no difference.

use serde::{Deserialize, Serialize};

/// How the entries are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Centroids {
    /// Clusters of equal population, each entry the mean of one: the paper's.
    EqualPopulation,
    /// These, refined until every weight has the nearest entry and every entry is the mean of its weights (Lloyd):
    /// 1.4 to 5 dB less error on the weights of our own models.
    #[default]
    Lloyd,
}

/// Rounds of refinement at most; a few dozen settle histograms of 255 bins.
const ROUNDS: usize = 200;

/// Log density below which a weight is an outlier (§6).
const OUTLIER_LOG_DENSITY: f64 = -4.0;

/// Entries, ascending, and the index of each value's.
#[derive(Debug, Clone, PartialEq)]
pub struct Dictionary {
    /// The entries; as many as asked for, the last repeated where there are fewer values.
    pub entries: Vec<f64>,
    /// For each bin of the histogram its entry's index.
    pub index: Vec<u8>,
}

/// A dictionary of 2^`bits` entries for values that ascend, each with its weight: how often it is there, or how much
/// its error counts. An entry is a mean by weight; what has none has the nearest entry.
pub fn dictionary(values: &[f64], weights: &[f64], bits: u32, how: Centroids) -> Dictionary {
    let count = 1usize << bits;
    let total: f64 = weights.iter().sum();
    let mut entries = vec![0.0; count];
    let mut index = vec![0u8; values.len()];
    if total > 0.0 {
        let mut before = 0.0;
        for (place, weight) in index.iter_mut().zip(weights) {
            // A value that lies across the border of two clusters belongs to the one with its middle.
            let share = (before + weight / 2.0) / total;
            *place = ((share * count as f64) as usize).min(count - 1) as u8;
            before += weight;
        }
        means(values, weights, &index, &mut entries);
    }
    if how == Centroids::Lloyd {
        for _ in 0..ROUNDS {
            let nearest = nearest_of(values, &entries);
            if nearest == index && !use_idle(values, weights, &index, &mut entries) {
                break;
            }
            index = nearest_of(values, &entries);
            means(values, weights, &index, &mut entries);
        }
        index = nearest_of(values, &entries);
    }
    Dictionary { entries, index }
}

/// Gives entries that no value has to the values that lose most; says whether there were both.
fn use_idle(values: &[f64], weights: &[f64], index: &[u8], entries: &mut [f64]) -> bool {
    let mut used = vec![false; entries.len()];
    let mut losses: Vec<(f64, f64)> = Vec::new();
    for ((value, weight), place) in values.iter().zip(weights).zip(index) {
        if *weight > 0.0 {
            used[usize::from(*place)] = true;
            losses.push((weight * (value - entries[usize::from(*place)]).powi(2), *value));
        }
    }
    losses.retain(|it| it.0 > 1e-12);
    losses.sort_by(|a, b| b.0.total_cmp(&a.0));
    let idle = used.iter().enumerate().filter(|it| !it.1).map(|it| it.0);
    let mut changed = false;
    for (place, (_, value)) in idle.zip(losses) {
        entries[place] = value;
        changed = true;
    }
    entries.sort_by(f64::total_cmp);
    changed
}

/// The mean of each cluster; one without values takes that of its neighbor, so that entries ascend.
fn means(values: &[f64], weights: &[f64], index: &[u8], entries: &mut [f64]) {
    let mut sums = vec![(0.0, 0.0); entries.len()];
    for ((value, weight), place) in values.iter().zip(weights).zip(index) {
        let (sum, total) = &mut sums[usize::from(*place)];
        *sum += value * weight;
        *total += weight;
    }
    let first = sums.iter().find(|it| it.1 > 0.0).map_or(0.0, |it| it.0 / it.1);
    let mut last = first;
    for (entry, (sum, total)) in entries.iter_mut().zip(sums) {
        if total > 0.0 {
            last = sum / total;
        }
        *entry = last;
    }
}

/// The nearest entry of each value; of two at one distance the lower.
fn nearest_of(values: &[f64], entries: &[f64]) -> Vec<u8> {
    let place = |value: &f64| {
        let above = entries.partition_point(|it| it < value);
        let below = above.saturating_sub(1);
        let is_above = above < entries.len()
            && (above == below || entries[above] - value < value - entries[below]);
        (if is_above { above } else { below }) as u8
    };
    values.iter().map(place).collect()
}

/// Mean of weights and the distance from it beyond which one is an outlier: where the log density of the Gaussian that
/// fits them is below −4 (§6). The rule looks at a density, so it depends on the unit that weights have: it is that of
/// the weights as they are multiplied.
///
/// `most` caps the share of outliers, since each costs as much as a dozen others: of weights that are no Gaussian the
/// rule alone finds three times as many as of those that the paper had.
pub fn outlier_bounds(weights: impl Iterator<Item = f32> + Clone, most: f64) -> (f64, f64) {
    let (mut count, mut sum, mut squares) = (0u64, 0.0, 0.0);
    for weight in weights.clone() {
        let weight = f64::from(weight);
        count += 1;
        sum += weight;
        squares += weight * weight;
    }
    if count == 0 {
        return (0.0, f64::INFINITY);
    }
    let mean = sum / count as f64;
    let variance = (squares / count as f64 - mean * mean).max(0.0);
    if variance <= f64::MIN_POSITIVE {
        return (mean, f64::INFINITY);
    }
    let peak = -0.5 * (std::f64::consts::TAU * variance).ln();
    let by_density = (2.0 * variance * (peak - OUTLIER_LOG_DENSITY).max(0.0)).sqrt();
    // The distances, in bins of a hundredth of a deviation: enough to find a quantile.
    const BINS: usize = 4096;
    let step = variance.sqrt() / 100.0;
    let mut bins = vec![0u64; BINS];
    for weight in weights {
        let bin = ((f64::from(weight) - mean).abs() / step) as usize;
        bins[bin.min(BINS - 1)] += 1;
    }
    let allowed = (count as f64 * most) as u64;
    let mut beyond = 0;
    let mut capped = BINS;
    while capped > 0 && beyond + bins[capped - 1] <= allowed {
        capped -= 1;
        beyond += bins[capped];
    }
    (mean, by_density.max(capped as f64 * step))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(values: &[f64], weights: &[f64], of: &Dictionary) -> f64 {
        let loss = |((value, weight), index): ((&f64, &f64), &u8)| {
            weight * (value - of.entries[usize::from(*index)]).powi(2)
        };
        values.iter().zip(weights).zip(&of.index).map(loss).sum()
    }

    proptest! {
        #[test]
        fn lloyd_is_never_worse_and_gives_the_nearest_entry(
            counts in prop::collection::vec(0u32..100, 1..255), bits in 2u32..=6,
        ) {
            let values: Vec<f64> = (0..counts.len()).map(|it| it as f64 - 127.0).collect();
            let weights: Vec<f64> = counts.iter().map(|it| f64::from(*it)).collect();
            let equal = dictionary(&values, &weights, bits, Centroids::EqualPopulation);
            let lloyd = dictionary(&values, &weights, bits, Centroids::Lloyd);
            for it in [&equal, &lloyd] {
                prop_assert_eq!(it.entries.len(), 1 << bits);
                prop_assert!(it.entries.is_sorted() && it.index.is_sorted());
                prop_assert!(it.index.iter().all(|it| usize::from(*it) < 1 << bits));
            }
            prop_assert!(error(&values, &weights, &lloyd) <= error(&values, &weights, &equal) + 1e-6);
            if counts.iter().any(|it| *it > 0) {
                for (value, index) in values.iter().zip(&lloyd.index) {
                    let own = (value - lloyd.entries[usize::from(*index)]).abs();
                    prop_assert!(lloyd.entries.iter().all(|it| own <= (value - it).abs() + 1e-9));
                }
            }
        }

        #[test]
        fn no_more_outliers_than_allowed(
            weights in prop::collection::vec(-1f32..1.0, 2..400), wild in prop::collection::vec(5f32..90.0, 0..4),
        ) {
            let all: Vec<f32> = weights.iter().chain(&wild).copied().collect();
            let (mean, distance) = outlier_bounds(all.iter().copied(), 0.01);
            let outside = all.iter().filter(|it| (f64::from(**it) - mean).abs() > distance).count();
            prop_assert!(outside as f64 <= all.len() as f64 * 0.01, "{outside} of {}", all.len());
        }
    }

    #[test]
    fn clusters_of_equal_population_are_the_papers() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        let made = dictionary(&values, &[1.0; 8], 2, Centroids::EqualPopulation);
        assert_eq!(made.index, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(made.entries, [0.5, 2.5, 4.5, 6.5]);
    }

    #[test]
    fn the_density_decides_where_few_are_outside() {
        // A Gaussian of deviation 0.06: −4 lies at 3.42 deviations.
        let deviation = 0.06;
        let quantile = |i: u32| {
            // Sums of twelve uniform numbers, by a fixed generator.
            let mut state = u64::from(i) + 1;
            let sum: f64 = (0..12)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state >> 11) as f64 / (1u64 << 53) as f64
                })
                .sum();
            ((sum - 6.0) * deviation) as f32
        };
        let weights: Vec<f32> = (0..20_000).map(quantile).collect();
        let (mean, distance) = outlier_bounds(weights.iter().copied(), 0.5);
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((distance / deviation - 3.42).abs() < 0.2, "{distance}");
    }
}
