//! Which tensors stay in memory: FlexInfer's balanced locking (§3.3) and its Algorithm 1 (§3.4).
//!
//! A generated token needs every weight once, so what is not locked is read again for every token. Locking
//! the same share of every layer keeps reading and computing in step; which tensors make up that share is
//! Algorithm 1: first whole steps of one FFN tensor of every layer, as many as fit, then attention tensors one
//! by one, and all FFN tensors only where half of the attention fits beside them.
//!
//! The paper has layers of equal size, and counts locked tensors alone. Where this differs, and why:
//!
//! - The budget also covers the buffers of the prefetch window, which shrink when a step is complete: a
//!   process has one number of bytes to promise. What counts is a tensor's whole pages
//!   ([`TensorSpec::pages`]), because that is what direct IO reads and what a buffer holds.
//! - Layers may differ (mixed quantizations). A step takes of every layer its largest FFN tensor left, and its
//!   smallest attention tensor left: W_k and W_v before W_q and W_o, as the paper's footnote prefers. Of the
//!   layers, those with the most left to be read come first, and equals are taken spread over the model, not
//!   front to back.
//! - Attention may be used up while memory is left: with grouped queries all of it is smaller than one FFN
//!   tensor. The rest then goes to FFN tensors one by one, where the paper leaves it idle.
//! - Rounding may make a smaller case stream less than the one that Algorithm 1 picks (a whole step just
//!   fits, and the rest is too small for anything). The case that streams less is taken, so that more memory
//!   never means more reading.

use std::{cmp::Reverse, ops::Range};

use riddle_weights::PAGE;

use crate::{Error, Result};

/// What a tensor is to its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorRole {
    /// Attention: W_q.
    Query,
    /// Attention: W_k.
    Key,
    /// Attention: W_v.
    Value,
    /// Attention: W_o.
    Output,
    /// Attention: W_q, W_k and W_v in one matrix.
    QueryKeyValue,
    /// FFN: W_gate.
    Gate,
    /// FFN: W_up.
    Up,
    /// FFN: W_down.
    Down,
    /// FFN: W_gate and W_up in one matrix.
    GateUp,
    /// A norm or a bias: always locked.
    Small,
    /// A large tensor of another kind: locked after all others.
    OtherLarge,
}

impl std::fmt::Display for TensorRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TensorRole::Query => "queries",
            TensorRole::Key => "keys",
            TensorRole::Value => "values",
            TensorRole::Output => "attention output",
            TensorRole::QueryKeyValue => "queries, keys and values",
            TensorRole::GateUp => "gate and up projection",
            TensorRole::Gate => "gate",
            TensorRole::Up => "up projection",
            TensorRole::Down => "down projection",
            TensorRole::Small => "norm or bias",
            TensorRole::OtherLarge => "other",
        })
    }
}

/// A tensor of a layer, and where it lies in the file, or among several
/// ([`JoinedFiles`](riddle_weights::JoinedFiles)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorSpec {
    /// What it is.
    pub role: TensorRole,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its length.
    pub bytes: usize,
}

impl TensorSpec {
    /// The whole pages of the file that hold it: what is read for it, and what it takes in memory.
    pub fn pages(&self) -> Range<u64> {
        let page = PAGE as u64;
        let start = self.offset / page * page;
        let end = self.offset.saturating_add(self.bytes as u64);
        // A lie of a length near 2⁶⁴ stays near it: no budget allows it, and opening compares with the file.
        let end = end.checked_next_multiple_of(page).unwrap_or(u64::MAX / page * page);
        if self.bytes == 0 { start..start } else { start..end }
    }

    fn page_bytes(&self) -> u64 {
        let Range { start, end } = self.pages();
        end - start
    }
}

/// The tensors of a layer, in the order in which they are computed with.
pub type Layer = Vec<TensorSpec>;

/// How tensors are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// The same share of every layer: Algorithm 1.
    Balanced,
    /// Layer after layer from the first one (the paper's *w/o balance*).
    ByLayer,
    /// Attention tensors before FFN tensors, each spread over the layers: Algorithm 1 without its choice (the paper's
    /// *attention first*).
    AttentionFirst,
    /// FFN tensors before attention tensors (the paper's *FFN first*).
    FfnFirst,
    /// Small tensors alone (the paper's *prefetch only*).
    Nothing,
}

/// Which tensors are locked in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preservation {
    locked: Vec<Vec<bool>>,
    locked_bytes: u64,
    /// Of each layer.
    streamed: Vec<u64>,
}

impl Preservation {
    /// Small tensors locked, nothing else.
    fn of_small(layers: &[Layer]) -> Preservation {
        let mut plan = Preservation {
            locked: layers.iter().map(|it| vec![false; it.len()]).collect(),
            locked_bytes: 0,
            streamed: Vec::with_capacity(layers.len()),
        };
        for layer in layers {
            let bytes = layer.iter().map(TensorSpec::page_bytes);
            plan.streamed.push(bytes.fold(0, u64::saturating_add));
        }
        for (number, layer) in layers.iter().enumerate() {
            for (tensor, spec) in layer.iter().enumerate() {
                if spec.role == TensorRole::Small {
                    plan.lock((number, tensor), spec);
                }
            }
        }
        plan
    }

    fn lock(&mut self, (layer, tensor): Place, spec: &TensorSpec) {
        let bytes = spec.page_bytes();
        self.locked[layer][tensor] = true;
        self.locked_bytes = self.locked_bytes.saturating_add(bytes);
        self.streamed[layer] = self.streamed[layer].saturating_sub(bytes);
    }

    /// Number of layers.
    pub fn num_layers(&self) -> usize {
        self.locked.len()
    }

    /// Number of tensors of `layer`, small ones included.
    ///
    /// # Panics
    /// When there is no such layer: the caller's bug.
    pub fn num_tensors(&self, layer: usize) -> usize {
        self.locked[layer].len()
    }

    /// Whether tensor `tensor` of layer `layer` stays in memory.
    ///
    /// # Panics
    /// When there is no such tensor: the caller's bug.
    pub fn is_locked(&self, layer: usize, tensor: usize) -> bool {
        self.locked[layer][tensor]
    }

    /// Bytes of memory that locked tensors take.
    pub fn locked_bytes(&self) -> u64 {
        self.locked_bytes
    }

    /// Bytes that are read for `layer` each time it is needed.
    ///
    /// # Panics
    /// When there is no such layer: the caller's bug.
    pub fn streamed_bytes(&self, layer: usize) -> u64 {
        self.streamed[layer]
    }

    /// Bytes that are read for a token: those of all layers.
    pub fn streamed_total(&self) -> u64 {
        self.streamed.iter().copied().fold(0, u64::saturating_add)
    }

    /// Bytes of memory that the buffers of a window of `window` layers take: none when nothing is streamed.
    pub fn window_bytes(&self, window: usize) -> u64 {
        let streamed = self.streamed.iter().filter(|&&it| it > 0).count();
        let largest = self.streamed.iter().copied().max().unwrap_or(0);
        (window.clamp(1, streamed.max(1)) as u64).saturating_mul(largest)
    }

    /// All bytes of memory: of locked tensors, and of the window's buffers.
    pub fn memory_bytes(&self, window: usize) -> u64 {
        self.locked_bytes.saturating_add(self.window_bytes(window))
    }
}

/// A layer and one of its tensors.
type Place = (usize, usize);

/// Tensors in the order in which they are locked. A plan is the beginning of one: a larger budget allows
/// every beginning that a smaller one does, which is why more memory never means more reading.
struct Order {
    places: Vec<Place>,
    /// Memory that is needed when the first n are locked, for every n.
    needs: Vec<u64>,
    /// How many must fit before this order may be taken.
    condition: usize,
}

impl Order {
    fn new(layers: &[Layer], window: usize, places: Vec<Place>, condition: usize) -> Order {
        let mut plan = Preservation::of_small(layers);
        let mut needs = vec![plan.memory_bytes(window)];
        for &(layer, tensor) in &places {
            plan.lock((layer, tensor), &layers[layer][tensor]);
            needs.push(plan.memory_bytes(window));
        }
        Order { places, needs, condition }
    }

    /// The least memory with which this order works.
    fn smallest(&self) -> u64 {
        let least = self.needs.iter().copied().min().unwrap_or(u64::MAX);
        if self.condition == 0 { least } else { self.needs[self.condition] }
    }

    /// The plan of the most tensors within `budget`.
    fn plan(&self, layers: &[Layer], budget: u64) -> Option<Preservation> {
        if budget < self.smallest() {
            return None;
        }
        let count = self.needs.iter().rposition(|&it| it <= budget)?;
        let mut plan = Preservation::of_small(layers);
        for &(layer, tensor) in &self.places[..count] {
            plan.lock((layer, tensor), &layers[layer][tensor]);
        }
        Some(plan)
    }
}

/// Chooses what stays in memory when locked tensors and the buffers of a window of `window` layers (at least
/// one) may take `budget_bytes`. When everything fits, everything is locked and there is no window, except
/// with [`Locking::Nothing`].
///
/// # Errors
/// [`Error::Budget`] with the smallest budget that works, when this one does not.
pub fn preserve(
    layers: &[Layer],
    budget_bytes: u64,
    window: usize,
    locking: Locking,
) -> Result<Preservation> {
    let orders = match locking {
        Locking::Balanced => balanced_orders(layers, window),
        Locking::AttentionFirst | Locking::FfnFirst => {
            let Steps { ffn, attention, other } = Steps::of(layers);
            let all = if locking == Locking::FfnFirst {
                [ffn, attention, other].concat()
            } else {
                [attention, ffn, other].concat()
            };
            vec![Order::new(layers, window, one_by_one(layers, &all), 0)]
        }
        Locking::ByLayer => {
            let large = |layer: usize| large_tensors(&layers[layer], |_| true);
            let places = (0..layers.len())
                .flat_map(|layer| large(layer).into_iter().map(move |tensor| (layer, tensor)));
            vec![Order::new(layers, window, places.collect(), 0)]
        }
        Locking::Nothing => vec![Order::new(layers, window, Vec::new(), 0)],
    };
    // Of two that stream as much the later one, which is Algorithm 1's choice.
    let plans = orders.iter().filter_map(|it| it.plan(layers, budget_bytes));
    let best = plans.rev().min_by_key(Preservation::streamed_total);
    best.ok_or_else(|| Error::Budget {
        budget: budget_bytes,
        smallest: orders.iter().map(Order::smallest).min().unwrap_or(0),
        window: window.max(1),
    })
}

/// The large tensors of all layers by what they are, in the steps in which each kind is locked.
struct Steps {
    ffn: Vec<Step>,
    attention: Vec<Step>,
    other: Vec<Step>,
}

impl Steps {
    fn of(layers: &[Layer]) -> Steps {
        use TensorRole::{Down, Gate, GateUp, Key, Output, Query, QueryKeyValue, Up, Value};
        let is_attention = |it| matches!(it, Query | Key | Value | Output | QueryKeyValue);
        Steps {
            ffn: steps(layers, |it| matches!(it, Gate | Up | Down | GateUp), true),
            attention: steps(layers, is_attention, false),
            other: steps(layers, |it| it == TensorRole::OtherLarge, true),
        }
    }
}

/// One order for each case of Algorithm 1: no FFN tensor of every layer first, one, two, …, all.
fn balanced_orders(layers: &[Layer], window: usize) -> Vec<Order> {
    let Steps { ffn, attention, other } = Steps::of(layers);
    let count = |steps: &[Step]| steps.iter().map(Vec::len).sum::<usize>();
    let half = count(&attention[..half_of(layers, &attention)]);
    let order = |case: usize| {
        let (first, last) = ffn.split_at(case);
        let all = [first, &attention, last, &other].concat();
        // Algorithm 1's first line: all FFN tensors only where half of the attention fits beside them.
        let beside = if case > 0 && case == ffn.len() { half } else { 0 };
        Order::new(layers, window, one_by_one(layers, &all), count(first) + beside)
    };
    (0..=ffn.len()).map(order).collect()
}

/// At most one tensor of each layer.
type Step = Vec<Place>;

/// The tensors of some roles in steps: the first step has the largest (or smallest) one of each layer.
fn steps(layers: &[Layer], roles: impl Fn(TensorRole) -> bool, largest: bool) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let mut tensors = large_tensors(layer, &roles);
        if largest {
            tensors.sort_by_key(|&it| Reverse(layer[it].bytes));
        } else {
            tensors.sort_by_key(|&it| layer[it].bytes);
        }
        steps.resize(steps.len().max(tensors.len()), Step::new());
        for (step, tensor) in steps.iter_mut().zip(tensors) {
            step.push((number, tensor));
        }
    }
    steps
}

/// The tensors of a layer that are not locked in any case.
fn large_tensors(layer: &Layer, roles: impl Fn(TensorRole) -> bool) -> Vec<usize> {
    let large = |it: &usize| layer[*it].role != TensorRole::Small && roles(layer[*it].role);
    (0..layer.len()).filter(large).collect()
}

/// How many of the steps hold half of all their bytes: two of the paper's four attention tensors.
fn half_of(layers: &[Layer], steps: &[Step]) -> usize {
    let bytes = |step: &Step| {
        let each = step.iter().map(|&(layer, tensor)| layers[layer][tensor].page_bytes());
        each.fold(0, u64::saturating_add)
    };
    let all = steps.iter().map(bytes).fold(0, u64::saturating_add);
    let mut held = 0u64;
    let mut count = 0;
    while count < steps.len() && held < all.div_ceil(2) {
        held = held.saturating_add(bytes(&steps[count]));
        count += 1;
    }
    count
}

/// The tensors of `steps` one by one: within a step first those of the layers with the most left to be read,
/// and of equal layers such that every beginning is spread over the model.
fn one_by_one(layers: &[Layer], steps: &[Step]) -> Vec<Place> {
    let mut plan = Preservation::of_small(layers);
    let mut places = Vec::new();
    for step in steps {
        let mut step = step.clone();
        // Bits backwards, van der Corput's sequence: 0, 4, 2, 6, 1, … of eight.
        step.sort_by_key(|&(layer, _)| (Reverse(plan.streamed[layer]), layer.reverse_bits()));
        for (layer, tensor) in step {
            plan.lock((layer, tensor), &layers[layer][tensor]);
            places.push((layer, tensor));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Layers of q, k, v, o, gate, up, down and a norm of these sizes, one after the other.
    fn model(layers: usize, sizes: [usize; 8]) -> Vec<Layer> {
        use TensorRole::{Down, Gate, Key, Output, Query, Small, Up, Value};
        let roles = [Query, Key, Value, Output, Gate, Up, Down, Small];
        let mut offset = 0;
        let mut layer = || {
            let tensor = |(role, bytes): (TensorRole, usize)| {
                let spec = TensorSpec { role, offset, bytes };
                offset += bytes as u64;
                spec
            };
            roles.into_iter().zip(sizes).map(tensor).collect()
        };
        (0..layers).map(|_| layer()).collect()
    }

    fn count(plan: &Preservation, tensors: &[usize]) -> usize {
        let locked = |layer: usize| tensors.iter().filter(move |&&it| plan.is_locked(layer, it));
        (0..plan.num_layers()).map(|it| locked(it).count()).sum()
    }

    /// Any layers: several formats, tensors left out, nothing but norms.
    fn models() -> impl Strategy<Value = Vec<Layer>> {
        use TensorRole::{Down, Gate, Key, OtherLarge, Output, Query, Small, Up, Value};
        let roles = [
            Query,
            Key,
            Value,
            Output,
            Gate,
            Up,
            Down,
            Small,
            OtherLarge,
            TensorRole::QueryKeyValue,
            TensorRole::GateUp,
        ];
        let size = prop_oneof![Just(8_000usize), Just(40_000), Just(100_000), 1usize..200_000];
        let tensor = (prop::sample::select(roles.to_vec()), size);
        let any = prop::collection::vec(prop::collection::vec(tensor, 0..8), 0..10);
        let any = any.prop_map(|layers| {
            let mut offset = 0;
            let mut spec = |(role, bytes): (TensorRole, usize)| {
                let spec = TensorSpec { role, offset, bytes };
                offset += bytes.next_multiple_of(32) as u64;
                spec
            };
            layers.into_iter().map(|it| it.into_iter().map(&mut spec).collect()).collect()
        });
        let equal =
            (1usize..40, 1usize..60, 1usize..60, 1usize..200).prop_map(|(n, q, kv, ffn)| {
                model(n, [q, kv, kv, q, ffn, ffn, ffn, 1].map(|it| it * 1000))
            });
        prop_oneof![any, equal]
    }

    fn lockings() -> impl Strategy<Value = Locking> {
        use Locking::{AttentionFirst, Balanced, ByLayer, FfnFirst, Nothing};
        prop::sample::select(vec![Balanced, ByLayer, AttentionFirst, FfnFirst, Nothing])
    }

    fn smallest(layers: &[Layer], window: usize, locking: Locking) -> u64 {
        match preserve(layers, 0, window, locking) {
            Ok(_) => 0,
            Err(Error::Budget { smallest, .. }) => smallest,
            Err(error) => panic!("{error}"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn a_budget_is_kept_and_more_of_it_never_means_more_reading(
            layers in models(),
            window in 0usize..6,
            locking in lockings(),
            mut steps in prop::collection::vec(0u64..=1 << 20, 1..30),
        ) {
            let all: u64 = layers.iter().flatten().map(TensorSpec::page_bytes).sum();
            let smallest = smallest(&layers, window, locking);
            prop_assert!(smallest == 0 || preserve(&layers, smallest - 1, window, locking).is_err());
            steps.sort_unstable();
            let mut before = u64::MAX;
            for step in steps {
                let budget = smallest + (all.saturating_sub(smallest) * step) / (1 << 20);
                let plan = preserve(&layers, budget, window, locking).expect("enough");
                prop_assert!(plan.memory_bytes(window) <= budget);
                prop_assert!(plan.streamed_total() <= before, "more memory, more reading");
                before = plan.streamed_total();
                // What a plan says about itself is what it locks.
                let mut locked = 0;
                for (number, layer) in layers.iter().enumerate() {
                    let mut streamed = 0;
                    for (tensor, spec) in layer.iter().enumerate() {
                        let bytes = spec.page_bytes();
                        if plan.is_locked(number, tensor) { locked += bytes } else { streamed += bytes }
                        prop_assert!(spec.role != TensorRole::Small || plan.is_locked(number, tensor));
                    }
                    prop_assert_eq!(plan.streamed_bytes(number), streamed);
                }
                prop_assert_eq!(plan.locked_bytes(), locked);
            }
        }

        #[test]
        fn what_fits_is_locked(layers in models(), window in 1usize..6, by_layer in any::<bool>()) {
            let all: u64 = layers.iter().flatten().map(TensorSpec::page_bytes).sum();
            let locking = if by_layer { Locking::ByLayer } else { Locking::Balanced };
            let plan = preserve(&layers, all, window, locking).expect("fits");
            prop_assert_eq!((plan.locked_bytes(), plan.streamed_total()), (all, 0));
            prop_assert_eq!(plan.window_bytes(window), 0);
        }

        /// §3.3: of equal layers none reads more than another by more than one tensor.
        #[test]
        fn equal_layers_stay_balanced(
            layers in 1usize..40,
            pages in (1usize..20, 1usize..20, 1usize..60),
            window in 1usize..5,
            share in 0u64..=100,
        ) {
            let (q, kv, ffn) = pages;
            let sizes = [q, kv, kv, q, ffn, ffn, ffn, 1].map(|it| it * PAGE);
            let layers = model(layers, sizes);
            let all: u64 = layers.iter().flatten().map(TensorSpec::page_bytes).sum();
            let least = smallest(&layers, window, Locking::Balanced);
            let budget = least + all.saturating_sub(least) * share / 100;
            let plan = preserve(&layers, budget, window, Locking::Balanced).expect("enough");
            let of = |it: usize| plan.streamed_bytes(it);
            let most = (0..layers.len()).map(of).max().unwrap_or(0);
            let fewest = (0..layers.len()).map(of).min().unwrap_or(0);
            prop_assert!(most - fewest <= (sizes[4].max(sizes[0]).max(sizes[1])) as u64);
            // What is left idle is less than a tensor.
            let idle = budget - plan.memory_bytes(window);
            prop_assert!(most == 0 || idle < sizes.iter().copied().max().unwrap_or(0) as u64);
        }
    }

    /// The paper's sizes: attention to FFN as 1 to 3, 32 layers. `memory` is what Algorithm 1 is given, in attention
    /// tensors of all layers.
    fn paper(memory: f64) -> (usize, usize) {
        let (layers, a) = (32, 3 * MIB);
        let layers_of_model = model(layers, [a, a, a, a, 3 * a, 3 * a, 3 * a, 0]);
        let given = (memory * (layers * a) as f64) as u64;
        // The window's buffers come on top; how large they are depends on the plan.
        let budgets = (0..40).map(|it| given + (it * a) as u64);
        let fits = |budget| {
            let plan = preserve(&layers_of_model, budget, 2, Locking::Balanced).ok()?;
            (budget - plan.window_bytes(2) >= given).then_some(plan)
        };
        let plan = budgets.filter_map(fits).next().expect("one of them");
        (count(&plan, &[4, 5, 6]), count(&plan, &[0, 1, 2, 3]))
    }

    #[test]
    fn the_cases_are_those_of_algorithm_1() {
        // Less than an FFN tensor of each layer: attention alone.
        assert_eq!(paper(0.5), (0, 16));
        assert_eq!(paper(2.5), (0, 80));
        // One, then attention.
        assert_eq!(paper(3.0), (32, 0));
        assert_eq!(paper(4.5), (32, 48));
        // Two.
        assert_eq!(paper(6.25), (64, 8));
        assert_eq!(paper(9.5), (64, 112));
        // Two and all of the attention, although three would fit; the paper leaves the rest idle.
        assert_eq!(paper(10.5), (64 + 5, 128));
        // All, and half of the attention.
        assert_eq!(paper(11.0), (96, 64));
        assert_eq!(paper(12.5), (96, 112));
    }

    #[test]
    fn with_grouped_queries_keys_and_values_come_first_and_no_memory_stays_idle() {
        // Llama 3.2 1B in Q8_0.
        let row = 34 * 2048 / 32;
        let sizes = [
            2048 * row,
            512 * row,
            512 * row,
            2048 * row,
            8192 * row,
            8192 * row,
            8192 * row,
            8192,
        ];
        let layers = model(16, sizes);
        let window = preserve(&layers, u64::MAX, 3, Locking::Nothing).expect("all").memory_bytes(3);
        let with = |bytes: usize| {
            let budget = window + (16 * bytes) as u64;
            let plan = preserve(&layers, budget, 3, Locking::Balanced).expect("enough");
            assert!(budget - plan.memory_bytes(3) < sizes[4] as u64 + PAGE as u64);
            plan
        };
        let plan = with(2 * 512 * row);
        assert_eq!((count(&plan, &[1, 2]), count(&plan, &[4, 5, 6])), (32, 0));
        // All of the attention, and FFN tensors of a part of the layers: the paper leaves that part idle.
        let plan = with(2048 * 5 / 2 * row + 1024 * row);
        assert_eq!(count(&plan, &[0, 1, 2, 3]), 64);
        assert!(count(&plan, &[4, 5, 6]) > 0);
        // No other choice than that of attention first: where the two are measured apart, something else is.
        let budget = plan.memory_bytes(3);
        let other = preserve(&layers, budget, 3, Locking::AttentionFirst).expect("enough");
        assert_eq!(plan, other);
    }

    #[test]
    fn one_kind_before_the_other_where_that_is_asked_for() {
        let a = MIB;
        let layers = model(8, [a, a, a, a, 3 * a, 3 * a, 3 * a, 0]);
        let window = preserve(&layers, u64::MAX, 1, Locking::Nothing).expect("all").memory_bytes(1);
        let locked = |locking| {
            let plan = preserve(&layers, window + 40 * a as u64, 1, locking).expect("enough");
            (count(&plan, &[0, 1, 2, 3]), count(&plan, &[4, 5, 6]))
        };
        // The window shrinks by what is locked of every layer.
        let (attention, ffn) = locked(Locking::AttentionFirst);
        assert!(attention == 32 && ffn > 0, "{attention} {ffn}");
        let (attention, ffn) = locked(Locking::FfnFirst);
        assert!(attention == 0 && ffn >= 13, "{attention} {ffn}");
    }

    /// As Phi 3 has it: queries, keys and values are one matrix, and so are gate and up projection.
    #[test]
    fn fused_tensors_are_chosen_by_algorithm_1() {
        let fused = |number: u64| -> Layer {
            let roles = [
                (TensorRole::QueryKeyValue, 3 * MIB),
                (TensorRole::Output, MIB),
                (TensorRole::GateUp, 6 * MIB),
                (TensorRole::Down, 3 * MIB),
            ];
            let mut offset = number << 30;
            let mut spec = |(role, bytes): (TensorRole, usize)| {
                offset += bytes as u64;
                TensorSpec { role, offset: offset - bytes as u64, bytes }
            };
            roles.into_iter().map(&mut spec).collect()
        };
        let layers: Vec<Layer> = (0..8).map(fused).collect();
        let window = preserve(&layers, u64::MAX, 1, Locking::Nothing).expect("all").memory_bytes(1);
        let plan = |mebibytes: u64| {
            let plan = preserve(&layers, window + (mebibytes << 20), 1, Locking::Balanced);
            let plan = plan.expect("enough");
            [0, 1, 2, 3].map(|it| count(&plan, &[it]))
        };
        // Less than an FFN tensor of each layer: attention, the small matrix first.
        assert_eq!(plan(8), [0, 8, 0, 0]);
        assert_eq!(plan(20)[1..], [8, 0, 0]);
        // More: the larger FFN matrix of every layer, then attention.
        assert_eq!(plan(46)[2..], [8, 0]);
    }

    #[test]
    fn a_beginning_of_a_step_is_spread_over_the_model() {
        let layers = model(8, [MIB, MIB, MIB, MIB, 3 * MIB, 3 * MIB, 3 * MIB, 0]);
        let window = preserve(&layers, u64::MAX, 1, Locking::Nothing).expect("all").memory_bytes(1);
        let plan =
            preserve(&layers, window + 4 * MIB as u64, 1, Locking::Balanced).expect("enough");
        let locked: Vec<usize> = (0..8).filter(|&it| plan.is_locked(it, 0)).collect();
        assert_eq!(locked, [0, 2, 4, 6]);
        let plan = preserve(&layers, window + 5 * MIB as u64, 1, Locking::ByLayer).expect("enough");
        assert_eq!(count(&plan, &[0, 1, 2, 3]), 4);
        assert_eq!(plan.streamed_bytes(1), plan.streamed_bytes(7));
    }

    #[test]
    fn layers_of_a_finer_format_are_locked_first() {
        // As Q4_K_M has it: some layers' values and down projections take half as much again.
        let mut layers = model(6, [MIB, MIB, MIB, MIB, 3 * MIB, 3 * MIB, 3 * MIB, 0]);
        let offset = 1 << 40;
        for layer in [1, 4] {
            layers[layer][6] = TensorSpec { role: TensorRole::Down, offset, bytes: 5 * MIB };
        }
        let window = preserve(&layers, u64::MAX, 1, Locking::Nothing).expect("all").memory_bytes(1);
        let budget = window + 19 * MIB as u64;
        let plan = preserve(&layers, budget, 1, Locking::Balanced).expect("enough");
        // One FFN tensor of each layer, the largest one: what is left is the same for all.
        assert!(plan.is_locked(1, 6) && plan.is_locked(4, 6));
        let first = plan.streamed_bytes(0);
        assert!((0..6).all(|it| plan.streamed_bytes(it).abs_diff(first) <= MIB as u64));
    }

    #[test]
    fn too_little_memory_names_what_would_be_enough() {
        let layers = model(4, [MIB; 8]);
        let error = preserve(&layers, 5 << 20, 3, Locking::Nothing).expect_err("too little");
        // Four norms, and three layers of seven matrices.
        assert_eq!(
            error.to_string(),
            "5 MiB are too little memory for this model's weights with a window of 3 layers: allow 25 MiB, \
             or a smaller window"
        );
        assert!(preserve(&layers, 25 << 20, 3, Locking::Nothing).is_ok());
        assert_eq!(smallest(&[], 3, Locking::Balanced), 0);
    }
}
