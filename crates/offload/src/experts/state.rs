//! Which expert is in which slot, who is wanted, and what is read next: everything that is decided under the lock.

use std::{collections::VecDeque, io};

use super::ExpertTotals;
use crate::tensors::Part;

/// A layer and one of its experts.
type Key = (usize, usize);

/// Guesses take no more than this part of the slots: what is wanted now is worth more than what may be next.
const GUESSED_SHARE: usize = 4;

/// Who has a claim to a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nobody: it goes to the next one that needs it.
    #[default]
    Free,
    /// It may be wanted in the next layer.
    Guessed,
    /// It is wanted.
    Wanted,
    /// The caller computes with it.
    Given,
}

/// A slot of memory.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Whose weights it holds or will hold. `None`: nobody needs what may still be being read into it.
    key: Option<Key>,
    claim: Claim,
    /// Its reads, of which the first `taken` were begun.
    parts: Vec<Part>,
    taken: usize,
    /// Reads that go on.
    pending: usize,
    failure: Option<(usize, io::Error)>,
    /// It was read because of a guess, and was not wanted yet.
    by_guess: bool,
    /// Something was written into it once.
    filled: bool,
}

impl Slot {
    fn is_there(&self) -> bool {
        self.key.is_some()
            && self.taken == self.parts.len()
            && self.pending == 0
            && self.failure.is_none()
    }
}

pub(super) struct State {
    slots: Vec<Slot>,
    /// Of each layer the slot of each expert.
    places: Vec<Vec<Option<usize>>>,
    /// The logarithm of the worth of each expert, as if uses grew with time instead of fading.
    worth: Vec<Vec<f64>>,
    /// Layers that were wanted.
    clock: f64,
    /// Of these as many halve a use.
    half_life: f64,
    /// Slots of what is wanted, given or not.
    wanted: Vec<usize>,
    /// Slots of what is guessed.
    guessed: Vec<usize>,
    /// Wanted experts without a slot.
    waiting: VecDeque<Key>,
    /// Slots with parts to be read: of what is wanted, and of guesses.
    queue: VecDeque<usize>,
    guesses: VecDeque<usize>,
    pub(super) totals: ExpertTotals,
    pub(super) stop: bool,
    /// A thread panicked.
    pub(super) gone: bool,
}

impl State {
    /// Layers of so many experts; a use counts half after `half_life` layers.
    pub(super) fn new(counts: &[usize], slots: usize, half_life: f64) -> State {
        State {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            places: counts.iter().map(|it| vec![None; *it]).collect(),
            worth: counts.iter().map(|it| vec![f64::NEG_INFINITY; *it]).collect(),
            clock: 0.0,
            half_life: half_life.max(1.0),
            wanted: Vec::new(),
            guessed: Vec::new(),
            waiting: VecDeque::new(),
            queue: VecDeque::new(),
            guesses: VecDeque::new(),
            totals: ExpertTotals::default(),
            stop: false,
            gone: false,
        }
    }

    pub(super) fn filled(&self) -> usize {
        self.slots.iter().filter(|it| it.filled).count()
    }

    pub(super) fn holds_all(&self) -> bool {
        self.slots.len() >= self.places.iter().map(Vec::len).sum()
    }

    /// Begins a layer.
    pub(super) fn want(&mut self, layer: usize, experts: &[usize]) {
        self.forget();
        self.clock += 1.0;
        for &expert in experts {
            self.totals.wanted += 1;
            self.touch((layer, expert));
            match self.place_of((layer, expert)) {
                Some(number) => self.claim(number),
                None => self.waiting.push_back((layer, expert)),
            }
        }
        // Guesses that were wrong.
        for number in std::mem::take(&mut self.guessed) {
            if self.slots[number].claim == Claim::Guessed {
                self.unclaim(number);
            }
        }
    }

    /// The slot of an expert. What failed some time ago says nothing about now.
    fn place_of(&mut self, (layer, expert): Key) -> Option<usize> {
        let number = self.places[layer][expert]?;
        if self.slots[number].failure.is_some() {
            self.abandon(number);
            return None;
        }
        Some(number)
    }

    /// A wanted expert is in this slot, or on its way.
    fn claim(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.claim = Claim::Wanted;
        self.wanted.push(number);
        if std::mem::take(&mut slot.by_guess) {
            self.totals.right += 1;
        } else {
            self.totals.found += 1;
        }
        if let Some(place) = self.guesses.iter().position(|it| *it == number) {
            self.guesses.remove(place);
            self.queue.push_back(number);
        }
    }

    /// Nothing is wanted any more.
    fn forget(&mut self) {
        self.waiting.clear();
        for number in std::mem::take(&mut self.wanted) {
            if matches!(self.slots[number].claim, Claim::Wanted | Claim::Given) {
                self.unclaim(number);
            }
        }
    }

    /// Counts a use, after the earlier ones have faded.
    fn touch(&mut self, (layer, expert): Key) {
        let now = self.clock / self.half_life;
        let worth = &mut self.worth[layer][expert];
        *worth = ((*worth - now).exp2() + 1.0).log2() + now;
    }

    /// Takes the claim from a slot. What has not arrived is not waited for.
    fn unclaim(&mut self, number: usize) {
        self.slots[number].claim = Claim::Free;
        if !self.slots[number].is_there() {
            self.abandon(number);
        }
    }

    fn abandon(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        if let Some((layer, expert)) = slot.key.take() {
            self.places[layer][expert] = None;
        }
        (slot.claim, slot.failure) = (Claim::Free, None);
        self.queue.retain(|it| *it != number);
        self.guesses.retain(|it| *it != number);
    }

    /// A slot that nobody claims: an empty one, or the one of the expert that is worth least.
    fn free_slot(&self) -> Option<usize> {
        let worth = |slot: &Slot| match slot.key {
            Some((layer, expert)) => self.worth[layer][expert],
            None => f64::NEG_INFINITY,
        };
        let free = |it: &(usize, &Slot)| it.1.claim == Claim::Free && it.1.pending == 0;
        let slots = self.slots.iter().enumerate().filter(free);
        // Of equals an empty one, then one that was not read yet, then one that has memory already.
        let rank = |slot: &Slot| (slot.key.is_some(), slot.is_there(), !slot.filled);
        let least = slots.min_by(|a, b| {
            worth(a.1).total_cmp(&worth(b.1)).then_with(|| rank(a.1).cmp(&rank(b.1)))
        });
        least.map(|it| it.0)
    }

    fn place(&mut self, key: Key, claim: Claim, parts: Vec<Part>) -> bool {
        let Some(number) = self.free_slot() else { return false };
        self.abandon(number);
        self.places[key.0][key.1] = Some(number);
        let by_guess = claim == Claim::Guessed;
        let key = Some(key);
        let filled = self.slots[number].filled;
        self.slots[number] = Slot { key, claim, parts, by_guess, filled, ..Slot::default() };
        let (claimed, queue) = if by_guess {
            (&mut self.guessed, &mut self.guesses)
        } else {
            (&mut self.wanted, &mut self.queue)
        };
        claimed.push(number);
        queue.push_back(number);
        true
    }

    /// Gives slots to those that are wanted and have none.
    pub(super) fn settle(&mut self, parts: &impl Fn(usize, usize) -> Vec<Part>) {
        while let Some(&key) = self.waiting.front() {
            if !self.place(key, Claim::Wanted, parts(key.0, key.1)) {
                break;
            }
            self.waiting.pop_front();
        }
    }

    /// Lets guesses be read, and holds those that are there.
    pub(super) fn guess(
        &mut self,
        layer: usize,
        experts: &[usize],
        parts: &impl Fn(usize, usize) -> Vec<Part>,
    ) {
        let mut room = self.slots.len() / GUESSED_SHARE;
        for &expert in experts {
            if room == 0 || !self.waiting.is_empty() {
                return;
            }
            room -= 1;
            match self.place_of((layer, expert)) {
                Some(number) => {
                    let slot = &mut self.slots[number];
                    if slot.claim == Claim::Free {
                        slot.claim = Claim::Guessed;
                        self.guessed.push(number);
                    }
                }
                None => {
                    if self.place((layer, expert), Claim::Guessed, parts(layer, expert)) {
                        self.totals.guessed += 1;
                    }
                }
            }
        }
    }

    /// Lets experts be read into all slots that nobody has, the same share of each layer, behind everything else.
    pub(super) fn fill(&mut self, parts: &impl Fn(usize, usize) -> Vec<Part>) {
        let mut empty: Vec<usize> = (0..self.slots.len()).collect();
        empty.retain(|it| self.slots[*it].key.is_none() && self.slots[*it].pending == 0);
        let most = self.places.iter().map(Vec::len).max().unwrap_or(0);
        for expert in 0..most {
            for layer in 0..self.places.len() {
                if self.places[layer].get(expert) != Some(&None) {
                    continue;
                }
                let Some(number) = empty.pop() else { return };
                self.places[layer][expert] = Some(number);
                let slot = &mut self.slots[number];
                (slot.key, slot.parts, slot.taken) =
                    (Some((layer, expert)), parts(layer, expert), 0);
                self.guesses.push_back(number);
            }
        }
    }

    /// How many slots are still being filled, or the first expert that could not be read.
    pub(super) fn filling(&mut self) -> Result<usize, (Key, usize, io::Error)> {
        let failed = self.slots.iter().position(|it| it.failure.is_some());
        if let Some(number) = failed {
            let slot = &mut self.slots[number];
            if let (Some(key), Some((tensor, source))) = (slot.key, slot.failure.take()) {
                self.guesses.clear();
                return Err((key, tensor, source));
            }
        }
        Ok(self.slots.iter().filter(|it| it.key.is_some() && !it.is_there()).count())
    }

    /// Those that were given go back.
    pub(super) fn release(&mut self) {
        let slots = &mut self.slots;
        self.wanted.retain(|number| {
            let slot = &mut slots[*number];
            let is_given = slot.claim == Claim::Given;
            if is_given {
                slot.claim = Claim::Free;
            }
            !is_given
        });
    }

    /// The wanted experts that are there; nothing when others must be waited for.
    pub(super) fn give(&mut self) -> Option<Vec<usize>> {
        let mut given = Vec::new();
        let mut is_waiting = !self.waiting.is_empty();
        for &number in &self.wanted {
            let slot = &mut self.slots[number];
            match slot.key.filter(|_| slot.is_there()) {
                Some((_, expert)) => {
                    slot.claim = Claim::Given;
                    given.push(expert);
                }
                None => is_waiting = true,
            }
        }
        given.sort_unstable();
        (!given.is_empty() || !is_waiting).then_some(given)
    }

    /// The slot of an expert that was given.
    pub(super) fn given(&self, layer: usize, expert: usize) -> Option<usize> {
        let number = *self.places.get(layer)?.get(expert)?;
        number.filter(|it| self.slots[*it].claim == Claim::Given)
    }

    /// The first wanted expert that could not be read, with its tensor; nothing is wanted any more then.
    pub(super) fn failure(&mut self) -> Option<(usize, usize, io::Error)> {
        let mut wanted = self.wanted.iter().copied();
        let number = wanted.find(|it| self.slots[*it].failure.is_some())?;
        let slot = &mut self.slots[number];
        let (tensor, source) = slot.failure.take()?;
        let expert = slot.key.map_or(0, |it| it.1);
        self.forget();
        Some((expert, tensor, source))
    }

    /// The next part to be read: of what is wanted, then of guesses.
    pub(super) fn take_part(&mut self) -> Option<(usize, Part)> {
        for queue in [&mut self.queue, &mut self.guesses] {
            while let Some(&number) = queue.front() {
                let slot = &mut self.slots[number];
                if slot.failure.is_none()
                    && let Some(&part) = slot.parts.get(slot.taken)
                {
                    slot.taken += 1;
                    slot.pending += 1;
                    slot.filled = true;
                    return Some((number, part));
                }
                queue.pop_front();
            }
        }
        None
    }

    /// A part was read, or could not be. Whether whoever waits should look.
    pub(super) fn finish(&mut self, number: usize, tensor: usize, read: io::Result<usize>) -> bool {
        let slot = &mut self.slots[number];
        slot.pending -= 1;
        if slot.key.is_none() {
            // Nobody needs it any more, and somebody may wait for its memory.
            return slot.pending == 0;
        }
        if let Err(source) = read {
            slot.failure.get_or_insert((tensor, source));
            if slot.claim == Claim::Guessed && slot.pending == 0 {
                // Nobody has asked for it; whoever does will be told.
                self.abandon(number);
                return true;
            }
        }
        let slot = &self.slots[number];
        slot.is_there() || slot.failure.is_some()
    }
}
