//! Names of models in several files: `X-00001-of-00003.gguf`, as llama.cpp cuts them, and the same with `.safetensors`,
//! as the hub's libraries do.

/// The name of a part, or the path to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// What stands before the numbers.
    pub(crate) stem: &'a str,
    /// From 1.
    pub(crate) number: u32,
    /// Parts of the model.
    pub(crate) count: u32,
    /// Without its dot.
    ending: &'a str,
}

impl<'a> Part<'a> {
    /// What a name says; `None` where it is that of a whole model.
    pub(crate) fn of(name: &'a str) -> Option<Part<'a>> {
        let (before, ending) = name.rsplit_once('.')?;
        let (before, count) = before.rsplit_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let number_of = |it: &str| {
            let plain = it.len() == 5 && it.bytes().all(|it| it.is_ascii_digit());
            plain.then(|| it.parse::<u32>().ok()).flatten()
        };
        let (number, count) = (number_of(number)?, number_of(count)?);
        (1..=count).contains(&number).then_some(Part { stem, number, count, ending })
    }

    /// The names of all parts.
    pub(crate) fn all(self) -> impl Iterator<Item = String> {
        let Part { stem, count, ending, .. } = self;
        (1..=count).map(move |it| format!("{stem}-{it:05}-of-{count:05}.{ending}"))
    }
}

/// Whether a name is that of a part behind the first one, which stands for all.
pub(crate) fn is_later(name: &str) -> bool {
    Part::of(name).is_some_and(|it| it.number > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_told_from_others() {
        let part = Part::of("a/b-00002-of-00003.gguf").expect("a part");
        assert_eq!((part.stem, part.number, part.count), ("a/b", 2, 3));
        let all: Vec<String> = part.all().collect();
        assert_eq!(all[0], "a/b-00001-of-00003.gguf");
        assert_eq!(all[2], "a/b-00003-of-00003.gguf");
        assert!(is_later("a/b-00002-of-00003.gguf") && !is_later("a/b-00001-of-00003.gguf"));
        for whole in [
            "a.gguf",
            "one-of-many.gguf",
            "a-1-of-2.gguf",
            "a-00000-of-00002.gguf",
            "a-00003-of-00002.gguf",
            "a-00001-of-0000x.gguf",
            "a-+0001-of-00002.gguf",
            "00001-of-00002.gguf",
            "a-00001-of-00002",
            "",
        ] {
            assert_eq!(Part::of(whole), None, "{whole:?}");
        }
    }
}
