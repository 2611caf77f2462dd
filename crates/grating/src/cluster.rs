//! Exact one-dimensional k-means, the number of clusters chosen by silhouette (for §4.1).
//!
//! In one dimension an optimal clustering is a partition of the sorted values into runs, which dynamic
//! programming finds exactly (Wang & Song 2011, Ckmeans.1d.dp): no random start, no local optimum, the
//! same answer every time.

/// A clustering of scores; cluster 0 has the lowest.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    /// Cluster of each value, in the order the values were given.
    pub assignment: Vec<usize>,
    /// Number of clusters.
    pub clusters: usize,
    /// Mean silhouette of the chosen partition, −1…1; 0 when there is only one cluster.
    pub silhouette: f64,
}

/// Clusters `values` into 2…`max_clusters` runs; equal values are never separated. Fewer than two
/// distinct values make one cluster.
///
/// O(max_clusters · n²) time for n distinct values, which are at most the candidates of a request.
pub fn cluster(values: &[f32], max_clusters: usize) -> Clustering {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let sorted: Vec<f64> = order.iter().map(|&it| f64::from(values[it])).collect();
    let runs = Runs::new(&sorted);
    let most = max_clusters.min(runs.distinct());
    let (mut cuts, mut silhouette) = (vec![0, sorted.len()], 0.0);
    if most >= 2 {
        let partitions = runs.optimal_partitions(most);
        // Strictly better only: of equally good partitions the coarser one prunes less eagerly.
        for candidate in partitions {
            let score = runs.mean_silhouette(&candidate);
            if cuts.len() == 2 || score > silhouette {
                (cuts, silhouette) = (candidate, score);
            }
        }
    }
    let mut assignment = vec![0; values.len()];
    for (number, run) in cuts.windows(2).enumerate() {
        for &value in &order[run[0]..run[1]] {
            assignment[value] = number;
        }
    }
    Clustering { assignment, clusters: cuts.len() - 1, silhouette }
}

/// Sorted values with prefix sums; a group of equal values is one atom that no cut divides.
struct Runs<'a> {
    sorted: &'a [f64],
    /// Start of each group of equal values, and the end.
    atoms: Vec<usize>,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl<'a> Runs<'a> {
    fn new(sorted: &'a [f64]) -> Self {
        let mut atoms: Vec<usize> =
            (0..sorted.len()).filter(|&i| i == 0 || sorted[i] != sorted[i - 1]).collect();
        atoms.push(sorted.len());
        // Centered on the median: differences of large prefix sums would lose the small spread.
        let center = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        let prefix = |f: fn(f64) -> f64| {
            let mut sum = 0.0;
            let mut sums = vec![0.0];
            sums.extend(sorted.iter().map(|it| {
                sum += f(it - center);
                sum
            }));
            sums
        };
        Runs { sorted, atoms, sums: prefix(|it| it), squares: prefix(|it| it * it) }
    }

    fn distinct(&self) -> usize {
        self.atoms.len() - 1
    }

    /// Sum of squared distances to the mean of `sorted[start..end]`.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let sum = self.sums[end] - self.sums[start];
        let squares = self.squares[end] - self.squares[start];
        (squares - sum * sum / (end - start) as f64).max(0.0)
    }

    /// The optimal partition for every number of clusters 2…`most`, as cut positions from 0 to n.
    fn optimal_partitions(&self, most: usize) -> Vec<Vec<usize>> {
        let atoms = &self.atoms;
        let n = self.distinct();
        // best[k][j]: least cost of the first j atoms in k + 1 clusters; from[k][j]: where the last begins.
        let mut best = vec![vec![f64::INFINITY; n + 1]; most];
        let mut from = vec![vec![0; n + 1]; most];
        for j in 1..=n {
            best[0][j] = self.cost(0, atoms[j]);
        }
        for k in 1..most {
            for j in k + 1..=n {
                for start in k..j {
                    let cost = best[k - 1][start] + self.cost(atoms[start], atoms[j]);
                    if cost < best[k][j] {
                        best[k][j] = cost;
                        from[k][j] = start;
                    }
                }
            }
        }
        (1..most)
            .map(|last| {
                let mut cuts = vec![atoms[n]];
                let mut end = n;
                for k in (1..=last).rev() {
                    end = from[k][end];
                    cuts.push(atoms[end]);
                }
                cuts.push(0);
                cuts.reverse();
                cuts
            })
            .collect()
    }

    /// Mean silhouette (Rousseeuw 1987): (b − a) / max(a, b) with a the mean distance to the own cluster
    /// and b to the nearest other, which in one dimension is a neighbor. A cluster of one counts 0.
    fn mean_silhouette(&self, cuts: &[usize]) -> f64 {
        let clusters: Vec<(usize, usize)> = cuts.windows(2).map(|it| (it[0], it[1])).collect();
        let mut total = 0.0;
        for (number, &(start, end)) in clusters.iter().enumerate() {
            if end - start == 1 {
                continue;
            }
            for i in start..end {
                let own = self.distance_sum(i, start, end) / (end - start - 1) as f64;
                let neighbor = |it: Option<&(usize, usize)>| {
                    it.map_or(f64::INFINITY, |&(start, end)| {
                        self.distance_sum(i, start, end) / (end - start) as f64
                    })
                };
                let below = neighbor(number.checked_sub(1).and_then(|it| clusters.get(it)));
                let other = below.min(neighbor(clusters.get(number + 1)));
                let larger = own.max(other);
                if larger > 0.0 {
                    total += (other - own) / larger;
                }
            }
        }
        total / self.sorted.len() as f64
    }

    /// Sum of |sorted[i] − x| over x in `sorted[start..end]`.
    fn distance_sum(&self, i: usize, start: usize, end: usize) -> f64 {
        // Centered value of i, in the same terms as the prefix sums.
        let value = self.sums[i + 1] - self.sums[i];
        let split = i.clamp(start, end);
        let below = (split - start) as f64 * value - (self.sums[split] - self.sums[start]);
        let above = (self.sums[end] - self.sums[split]) - (end - split) as f64 * value;
        below + above
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive_cost(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|it| (it - mean).powi(2)).sum()
    }

    /// Least cost over all partitions of the sorted values into `k` runs, equal values together.
    fn naive_best(sorted: &[f64], k: usize) -> f64 {
        if k == 1 {
            return if sorted.is_empty() { f64::INFINITY } else { naive_cost(sorted) };
        }
        (1..sorted.len())
            .filter(|&cut| sorted[cut] != sorted[cut - 1])
            .map(|cut| naive_best(&sorted[..cut], k - 1) + naive_cost(&sorted[cut..]))
            .fold(f64::INFINITY, f64::min)
    }

    fn naive_silhouette(values: &[f64], assignment: &[usize], k: usize) -> f64 {
        let mean_distance = |i: usize, c: usize| {
            let members: Vec<usize> =
                (0..values.len()).filter(|&j| assignment[j] == c && j != i).collect();
            members.iter().map(|&j| (values[i] - values[j]).abs()).sum::<f64>()
                / members.len() as f64
        };
        let total: f64 = (0..values.len())
            .filter(|&i| assignment.iter().filter(|&&it| it == assignment[i]).count() > 1)
            .map(|i| {
                let own = mean_distance(i, assignment[i]);
                let other = (0..k)
                    .filter(|&c| c != assignment[i])
                    .map(|c| mean_distance(i, c))
                    .fold(f64::INFINITY, f64::min);
                if own.max(other) > 0.0 { (other - own) / own.max(other) } else { 0.0 }
            })
            .sum();
        total / values.len() as f64
    }

    proptest! {
        #[test]
        fn partitions_are_optimal(values in prop::collection::vec((0i32..40).prop_map(|it| it as f32 / 40.0), 2..10), k in 2usize..5) {
            let mut sorted: Vec<f64> = values.iter().map(|&it| f64::from(it)).collect();
            sorted.sort_by(f64::total_cmp);
            let runs = Runs::new(&sorted);
            prop_assume!(runs.distinct() >= k);
            let cuts = runs.optimal_partitions(k).pop().expect("k ≥ 2");
            let cost: f64 = cuts.windows(2).map(|it| naive_cost(&sorted[it[0]..it[1]])).sum();
            prop_assert!((cost - naive_best(&sorted, k)).abs() < 1e-9);
        }

        #[test]
        fn the_silhouette_is_the_definition_and_assignments_follow_the_order(
            values in prop::collection::vec(0f32..1.0, 2..12), k in 2usize..5,
        ) {
            let clustering = cluster(&values, k);
            prop_assert!(clustering.clusters <= k);
            for (a, x) in values.iter().enumerate() {
                for (b, y) in values.iter().enumerate() {
                    if x <= y && clustering.assignment[a] > clustering.assignment[b] {
                        prop_assert!(x == y, "order");
                    }
                    if x == y {
                        prop_assert_eq!(clustering.assignment[a], clustering.assignment[b]);
                    }
                }
            }
            if clustering.clusters > 1 {
                let wide: Vec<f64> = values.iter().map(|&it| f64::from(it)).collect();
                let expected = naive_silhouette(&wide, &clustering.assignment, clustering.clusters);
                prop_assert!((clustering.silhouette - expected).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn obvious_groups_are_found() {
        let clustering = cluster(&[0.9, 0.1, 0.92, 0.11, 0.5, 0.52], 4);
        assert_eq!(clustering.assignment, [2, 0, 2, 0, 1, 1]);
        assert_eq!(clustering.clusters, 3);
    }

    #[test]
    fn equal_values_are_one_cluster() {
        assert_eq!(cluster(&[0.3; 5], 4).clusters, 1);
        assert_eq!(cluster(&[], 4).assignment, Vec::<usize>::new());
    }
}
