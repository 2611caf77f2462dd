//! Letters of the second network's columns: greedy CTC.

/// What stands for no letter, at the front of the alphabet.
const NOTHING: usize = 0;

/// The letters that the network knows: as its file names them, after nothing, and before the space.
#[derive(Debug)]
pub(crate) struct Alphabet(Vec<String>);

impl Alphabet {
    /// Of a list with a letter in each line.
    pub(crate) fn new(list: &str) -> Alphabet {
        let mut letters = vec![String::new()];
        letters.extend(list.trim_end_matches('\n').split('\n').map(str::to_owned));
        letters.push(" ".to_owned());
        Alphabet(letters)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of columns with a probability for each letter, and the mean probability of the letters that are taken.
    pub(crate) fn read(&self, columns: &[f32]) -> (String, f32) {
        let (mut text, mut sum, mut count) = (String::new(), 0.0, 0_u32);
        let mut before = NOTHING;
        for column in columns.chunks_exact(self.len()) {
            let (mut letter, mut most) = (NOTHING, f32::NEG_INFINITY);
            for (index, value) in column.iter().enumerate() {
                if *value > most {
                    (letter, most) = (index, *value);
                }
            }
            // The same letter in neighboring columns is one; twice it is with nothing in between.
            if letter != NOTHING && letter != before {
                text.push_str(&self.0[letter]);
                sum += most;
                count += 1;
            }
            before = letter;
        }
        (text, if count == 0 { 0.0 } else { sum / count as f32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_columns_are_one_letter() {
        let alphabet = Alphabet::new("a\nb\n");
        assert_eq!(alphabet.len(), 4);
        let column = |letter: usize, sure: f32| {
            let mut column = vec![0.0; 4];
            column[letter] = sure;
            column
        };
        let columns: Vec<f32> =
            [(0, 0.9), (1, 0.8), (1, 0.7), (0, 0.9), (1, 0.6), (3, 1.0), (2, 0.4)]
                .into_iter()
                .flat_map(|(letter, sure)| column(letter, sure))
                .collect();
        let (text, sure) = alphabet.read(&columns);
        assert_eq!(text, "aa b");
        assert!((sure - 0.7).abs() < 1e-6, "{sure}");
        assert_eq!(alphabet.read(&[]), (String::new(), 0.0));
    }
}
