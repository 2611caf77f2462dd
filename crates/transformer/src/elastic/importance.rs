//! Which heads and neurons come first: those without which the fewest outputs change.

/// The order of a layer's heads and neurons: slice i has the i-th head and the i-th share of the neurons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SliceOrder {
    /// The model's numbers of the heads.
    pub(super) heads: Vec<u16>,
    /// The model's numbers of the neurons.
    pub(super) neurons: Vec<u32>,
}

impl SliceOrder {
    /// As the model has them.
    pub(super) fn unchanged(heads: usize, neurons: usize) -> SliceOrder {
        SliceOrder { heads: (0..heads as u16).collect(), neurons: (0..neurons as u32).collect() }
    }

    /// Whether it names each head and each neuron once.
    pub(super) fn is_whole(&self, heads: usize, neurons: usize) -> bool {
        let mut sorted = self.heads.clone();
        sorted.sort_unstable();
        let mut ascending = self.neurons.clone();
        ascending.sort_unstable();
        sorted.iter().map(|it| usize::from(*it)).eq(0..heads)
            && ascending.iter().map(|it| *it as usize).eq(0..neurons)
    }
}
