use proptest::prelude::*;

use super::*;

/// Shards of a thousand bytes a bit; one read takes a millisecond and a mebibyte so long that a thousand bytes take
/// `each` milliseconds.
struct Even {
    layers: usize,
    slices: usize,
    fidelities: Vec<u8>,
}

impl ShardSizes for Even {
    fn layers(&self) -> usize {
        self.layers
    }

    fn slices(&self) -> usize {
        self.slices
    }

    fn fidelities(&self) -> &[u8] {
        &self.fidelities
    }

    fn bytes(&self, _layer: usize, _slice: usize, bits: u8) -> usize {
        1000 * usize::from(bits)
    }
}

fn even(layers: usize, slices: usize) -> Even {
    Even { layers, slices, fidelities: vec![2, 3, 4, 5, 6, 8] }
}

/// Reading that takes `each` milliseconds for a thousand bytes.
fn rate(latency: f64, each: f64) -> ReadCost {
    ReadCost { latency, mebibyte: each * f64::from(1 << 20) / 1000.0 }
}

const COMPUTE: ComputeCost = ComputeCost {
    layer: 0.1,
    token: 0.001,
    token_slice: 0.0004,
    square_slice: 0.000_001,
    assemble_slice: 0.02,
    embed_token: 0.002,
    last: 0.4,
};

/// The paper's figure 6: two layers of three slices, a second each; three shards of two bits of the first are in
/// memory, which would take 0.2 s each.
#[test]
fn the_papers_example_has_its_budgets() {
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
    let compute = [1.0, 1.0];
    let budgets = accumulated_budgets(&compute, 0.0, &[0.6]);
    assert!(near(&budgets, &[0.6, 1.6]), "{budgets:?}");
    let after = budget::left(&budgets, &[0.6, 0.0]);
    assert!(near(&after, &[0.0, 1.0]), "{after:?}");
    // Only the second layer has something to spend: a second.
    for (second, valid) in [(0.9, true), (1.0, true), (1.1, false)] {
        assert_eq!(is_valid(&budgets, &[0.6, second]), valid);
    }
    let overdrawn = budget::left(&budgets, &[0.6, 1.1]);
    assert!(near(&overdrawn[1..], &[-0.1]), "{overdrawn:?}");
    // What is in memory need not be read: the same by not counting it at all.
    let sizes = Even { fidelities: vec![2, 3, 4, 6, 32], ..even(2, 3) };
    let mut kept = Kept::nothing(2, 3);
    kept.0[0] = vec![Some(2); 3];
    let budgets = accumulated_budgets(&compute, 0.0, &[]);
    let importance = [vec![0.1, 0.2, 0.3], vec![0.4, 0.6, 0.5]];
    let (bits, valid) = allocate(&sizes, rate(0.0, 0.1), &budgets, &kept, &importance, true);
    assert!(valid);
    // A second buys nine bits and three bits' worth of nothing: 3 × 3 bits, and one shard a bit more.
    assert_eq!(bits, [vec![2, 2, 2], vec![3, 4, 3]]);
}

/// So many milliseconds for all candidates, each of which has as many rows that are new.
fn evenly(all: f64, candidates: usize) -> Vec<f64> {
    (1..=candidates).map(|it| all * it as f64 / candidates as f64).collect()
}

proptest! {
    /// A plan is valid if and only if its reading never makes it later than its budget.
    #[test]
    fn budgets_say_what_a_simulated_pipeline_does(
        layers in prop::collection::vec((0.1f64..20.0, 0.0f64..40.0), 1..9), slack in 0.0f64..50.0,
    ) {
        let (compute, reading): (Vec<f64>, Vec<f64>) = layers.into_iter().unzip();
        let budgets = accumulated_budgets(&compute, slack, &[]);
        let late = finish(&compute, &reading) - slack - compute.iter().sum::<f64>();
        prop_assume!(late.abs() > 1e-6);
        prop_assert_eq!(is_valid(&budgets, &reading), late <= 0.0);
    }

    /// On a tiny model against every choice there is: a plan is found where there is one, and no shard could have more.
    #[test]
    fn two_passes_find_a_plan_and_leave_nothing_over(
        compute in prop::collection::vec(0.5f64..8.0, 2), slack in -2.0f64..20.0, latency in 0.0f64..1.0,
        importance in prop::collection::vec(prop::collection::vec(0f32..1.0, 2), 2),
        kept in prop::collection::vec(prop::collection::vec(prop::option::of(prop::sample::select(vec![2u8, 3, 8])), 2), 2),
    ) {
        let sizes = Even { fidelities: vec![2, 3, 8], ..even(2, 2) };
        let (read, kept) = (rate(latency, 0.4), Kept(kept));
        let budgets = accumulated_budgets(&compute, slack, &[]);
        let reading = |bits: &Bits| -> Vec<f64> {
            (0..2).map(|it| budget::reading_ms(&sizes, read, it, &bits[it], &kept)).collect()
        };
        let (bits, valid) = allocate(&sizes, read, &budgets, &kept, &importance, true);
        prop_assert_eq!(valid, is_valid(&budgets, &reading(&bits)));
        let every = (0..81usize).map(|it| {
            let of = |place: u32| sizes.fidelities[it / 3usize.pow(place) % 3];
            vec![vec![of(0), of(1)], vec![of(2), of(3)]]
        });
        let choices: Vec<Bits> = every.filter(|it| is_valid(&budgets, &reading(it))).collect();
        if valid {
            prop_assert!(choices.contains(&bits));
            let sum = |bits: &Bits| bits.iter().flatten().map(|it| u32::from(*it)).sum::<u32>();
            // Uniform bits are a lower bound: the second pass only adds.
            for uniform in [2u8, 3, 8] {
                let uniform = vec![vec![uniform; 2]; 2];
                if choices.contains(&uniform) && kept.0.iter().flatten().all(Option::is_none) {
                    prop_assert!(sum(&bits) >= sum(&uniform));
                }
            }
        } else {
            // The fewest bits that are not in memory already are the least that can be read, but for reads that would
            // be one.
            let most_kept = kept.0.iter().flatten().flatten().count();
            prop_assert!(choices.is_empty() || latency > 0.0 && most_kept > 0);
        }
    }

    #[test]
    fn a_plan_meets_its_deadline_and_more_time_is_never_worse(
        lengths in prop::collection::vec(10usize..300, 1..40), deadline in 5.0f64..400.0, each in 0.01f64..0.4,
        rows in 0.0f64..40.0, elapsed in 0.0f64..10.0,
    ) {
        let sizes = even(4, 6);
        let quality = Quality::unknown(4, 6);
        let importance: Vec<Vec<f32>> = (0..4).map(|l| (0..6).map(|s| (l * s) as f32).collect()).collect();
        let kept = Kept::nothing(4, 6);
        let planner = Planner {
            sizes: &sizes, importance: &importance, quality: &quality, read: rate(0.1, each), compute: COMPUTE,
            usual: COMPUTE.times(0.8), kept: &kept, upgrades: true, overlap: true,
        };
        let rows_ms = evenly(rows, lengths.len());
        let asked = Asked { lengths: &lengths, deadline_ms: deadline, elapsed_ms: elapsed, rows_ms: &rows_ms };
        let made = planner.plan(&asked);
        let longer = planner.plan(&Asked { deadline_ms: deadline + 50.0, ..asked });
        match made {
            Ok(plan) => {
                prop_assert!(plan.predicted_ms <= deadline, "{plan:?}");
                prop_assert!((-1e-9..=plan.predicted_ms).contains(&plan.waiting_ms), "{plan:?}");
                prop_assert!(plan.budgets_ms.iter().all(|it| *it >= -1e-6));
                prop_assert!((1..=lengths.len()).contains(&plan.candidates));
                prop_assert_eq!(plan.bits.len(), plan.layers);
                prop_assert!(plan.bits.iter().all(|it| it.len() == plan.width));
                let longer = longer.expect("more time is enough, too");
                prop_assert!(longer.quality >= plan.quality - 1e-3, "{} < {}", longer.quality, plan.quality);
            }
            Err(NoPlan::TooShort { least_ms }) => {
                prop_assert!(least_ms > deadline);
                let enough = Asked { deadline_ms: least_ms + 1.0, ..asked };
                prop_assert!(planner.plan(&enough).is_ok(), "{least_ms} are not enough");
            }
            Err(NoPlan::NothingGained) => prop_assert!(false, "the whole model gains"),
        }
    }

    #[test]
    fn the_rest_is_what_the_clock_allows(
        remaining in 0.0f64..200.0, done in 1usize..4, ahead in 0usize..3, coming in 0.0f64..20.0,
    ) {
        let sizes = even(4, 6);
        let quality = Quality::unknown(4, 6);
        let kept = Kept::nothing(4, 6);
        let planner = Planner {
            sizes: &sizes, importance: &[], quality: &quality, read: rate(0.1, 0.1), compute: COMPUTE, usual: COMPUTE,
            kept: &kept,
            upgrades: true,
            overlap: true,
        };
        let mut plan = DeadlinePlan {
            waiting_ms: 0.0,
            layers: 4, width: 6, candidates: 10, bits: vec![vec![3; 6]; 4], predicted_ms: 50.0, budgets_ms: vec![0.0; 4],
            quality: 1.0,
        };
        let load = Load::of(&[100; 10]);
        let before = plan.bits.clone();
        let free = (done + ahead).min(4);
        let coming = if ahead > 0 { coming } else { 0.0 };
        planner.rest(&mut plan, done, free, load, remaining, coming);
        prop_assert!((0.0..=remaining).contains(&plan.waiting_ms), "{plan:?}");
        prop_assert!(plan.layers >= done && plan.layers <= 4 && plan.bits.len() == plan.layers);
        // What is read or being read stays what it is.
        let fixed = free.min(plan.layers);
        prop_assert_eq!(&plan.bits[..fixed], &before[..fixed]);
        prop_assert!(COMPUTE.layers_ms(load, 6, plan.layers - done).iter().sum::<f64>() <= remaining);
    }
}

fn table(quality: &mut Quality, layers: usize, slices: usize, value: f64) {
    quality.submodels[layers - 1][slices - 1] = value;
}

#[test]
fn what_ranks_worse_than_its_input_is_not_computed() {
    let (sizes, kept) = (even(4, 6), Kept::nothing(4, 6));
    let mut quality = Quality::unknown(4, 6);
    (quality.input, quality.submodels) = (0.75, vec![vec![0.7; 6]; 4]);
    let plan = |quality: &Quality, deadline_ms: f64| {
        let planner = Planner {
            sizes: &sizes,
            importance: &[],
            quality,
            read: rate(0.1, 0.1),
            compute: COMPUTE,
            usual: COMPUTE,
            kept: &kept,
            upgrades: true,
            overlap: true,
        };
        let lengths = [120; 20];
        planner.plan(&Asked {
            lengths: &lengths,
            deadline_ms,
            elapsed_ms: 0.0,
            rows_ms: &evenly(1.0, 20),
        })
    };
    assert_eq!(plan(&quality, 1000.0), Err(NoPlan::NothingGained));
    // The deeper one is worth it, but only where there is time for it.
    table(&mut quality, 3, 6, 0.8);
    table(&mut quality, 4, 6, 0.83);
    let sizes_of = |it: DeadlinePlan| (it.layers, it.width, it.candidates);
    assert_eq!(plan(&quality, 1000.0).map(sizes_of), Ok((4, 6, 20)));
    let Err(NoPlan::TooShort { least_ms }) = plan(&quality, 5.0) else { panic!("5 ms are enough") };
    let least = plan(&quality, least_ms + 0.5).expect("enough by its own words");
    assert!(least.candidates < 20 && least.layers >= 3, "{least:?}");
    // Between the two fewer candidates are read before a submodel is used that gains nothing.
    for deadline in (0..60).map(|it| f64::from(it) * 2.0 + least_ms) {
        if let Ok(plan) = plan(&quality, deadline) {
            assert!(plan.layers >= 3 && plan.width == 6, "{plan:?}");
        }
    }
}

#[test]
fn what_is_in_memory_is_worth_its_time() {
    let (sizes, quality) = (even(4, 6), Quality::unknown(4, 6));
    let nothing = Kept::nothing(4, 6);
    let mut first = nothing.clone();
    first.0[0] = vec![Some(8); 6];
    let mean = |kept: &Kept| {
        let planner = Planner {
            sizes: &sizes,
            importance: &[],
            quality: &quality,
            read: rate(0.2, 0.4),
            compute: COMPUTE,
            usual: COMPUTE,
            kept,
            upgrades: true,
            overlap: true,
        };
        let lengths = [120; 20];
        let rows_ms = evenly(5.0, 20);
        let asked =
            Asked { lengths: &lengths, deadline_ms: 100.0, elapsed_ms: 0.0, rows_ms: &rows_ms };
        let plan = planner.plan(&asked).expect("enough time");
        plan.quality
    };
    assert!(mean(&first) > mean(&nothing));
}

#[test]
fn of_the_last_layer_only_one_state_of_each_sequence_is_computed() {
    let load = Load::of(&[100; 10]);
    let fixed = COMPUTE.layer + 6.0 * COMPUTE.assemble_slice;
    let each = COMPUTE.layer_ms(load, 6);
    let layers = COMPUTE.layers_ms(load, 6, 3);
    assert_eq!(layers[..2], [each; 2]);
    assert!((layers[2] - fixed - 0.4 * (each - fixed)).abs() < 1e-9, "{layers:?}");
    // Costs that were kept before anybody measured it are plans with time to spare.
    let before = ComputeCost { last: 0.0, ..COMPUTE };
    assert_eq!(before.layers_ms(load, 6, 3), [each; 3]);
    assert!(before.layers_ms(load, 6, 0).is_empty());
    let text = serde_json::to_string(&COMPUTE).expect("JSON").replace(",\"last\":0.4", "");
    assert_eq!(serde_json::from_str::<ComputeCost>(&text).expect("as it was kept"), before);
}

#[test]
fn a_run_that_is_a_little_late_keeps_its_layers() {
    let (sizes, quality, kept) = (even(4, 6), Quality::unknown(4, 6), Kept::nothing(4, 6));
    let planner = Planner {
        sizes: &sizes,
        importance: &[],
        quality: &quality,
        read: rate(0.0, 0.0),
        compute: COMPUTE,
        usual: COMPUTE,
        kept: &kept,
        upgrades: true,
        overlap: true,
    };
    let lengths = [100; 10];
    let asked = Asked { lengths: &lengths, deadline_ms: 60.0, elapsed_ms: 0.0, rows_ms: &[] };
    let plan = planner.plan(&asked).expect("enough time");
    let load = Load::of(&lengths[..plan.candidates]);
    let needed: f64 = COMPUTE.layers_ms(load, plan.width, plan.layers - 1).iter().sum();
    let layers = |remaining: f64| {
        let mut rest = plan.clone();
        planner.rest(&mut rest, 1, plan.layers, load, remaining, 0.0);
        rest.layers
    };
    assert_eq!(plan.layers, 4);
    // Half of the margin is left, then less than that.
    assert_eq!(layers((needed + 0.51) / 0.96), 4);
    assert!(layers((needed + 0.49) / 0.96) < 4);
}

#[test]
fn what_is_usual_is_predicted_and_what_is_slow_is_planned_with() {
    let (sizes, quality, kept) = (even(4, 6), Quality::unknown(4, 6), Kept::nothing(4, 6));
    let plan = |usual: f64| {
        let planner = Planner {
            sizes: &sizes,
            importance: &[],
            quality: &quality,
            read: rate(0.1, 0.1),
            compute: COMPUTE,
            usual: COMPUTE.times(usual),
            kept: &kept,
            upgrades: true,
            overlap: true,
        };
        let asked = Asked { lengths: &[120; 20], deadline_ms: 60.0, elapsed_ms: 1.0, rows_ms: &[] };
        planner.plan(&asked).expect("enough time")
    };
    let (slow, quick) = (plan(1.0), plan(0.7));
    assert_eq!((slow.layers, slow.width, &slow.bits), (quick.layers, quick.width, &quick.bits));
    assert!(quick.predicted_ms < 0.85 * slow.predicted_ms, "{slow:?} {quick:?}");
    // Who computes sooner waits no less for what is read.
    assert!(quick.waiting_ms >= slow.waiting_ms);
}
