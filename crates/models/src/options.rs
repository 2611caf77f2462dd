//! What somebody asks to be fetched: the name as it was written, and what is wanted of the model.

use std::borrow::Cow;

use crate::{Error, Format, KnownModel, Network, Result, catalog, hub, name};

/// What people write before a repository's name.
const PREFIXES: [&str; 4] =
    ["https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"];

/// Largest model that is fetched when nothing else is said: more than any that runs on a desktop computer.
const LARGEST_MODEL: u64 = 64 << 30;

/// What to fetch and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullOptions {
    /// How to reach the sources.
    pub network: Network,
    /// Branch, tag or commit on the hub; `main` is the usual one, whatever the hub calls it.
    pub revision: String,
    /// The weight file to take, where there are several, or the name of its quantization.
    pub file: Option<String>,
    /// The format to take, where there are several.
    pub format: Option<Format>,
    /// Fetch it even when it is installed and sound.
    pub again: bool,
    /// Largest model to fetch, in bytes.
    pub max_bytes: u64,
}

impl PullOptions {
    /// The usual model from the sources in `network`.
    pub fn new(network: Network) -> PullOptions {
        PullOptions {
            network,
            revision: "main".to_owned(),
            file: None,
            format: None,
            again: false,
            max_bytes: LARGEST_MODEL,
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.file.is_none() && self.format.is_none() && self.revision == "main"
    }

    /// What to take of a repository.
    pub(crate) fn choice<'a>(&'a self, known: Option<&KnownModel>) -> hub::Choice<'a> {
        hub::Choice {
            files: known.map_or(&[], |it| it.files),
            file: self.file.as_deref(),
            format: self.format,
        }
    }
}

impl Default for PullOptions {
    /// The usual model from the sources that the environment names.
    fn default() -> Self {
        PullOptions::new(Network::from_env())
    }
}

/// A name as somebody wrote it: a model, and perhaps a quantization.
pub(crate) struct Asked<'a> {
    pub(crate) name: &'a str,
    pub(crate) known: Option<&'static KnownModel>,
    /// What stands behind a colon, which no name has.
    tag: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(text: &'a str) -> Asked<'a> {
        let text = PREFIXES.iter().find_map(|it| text.strip_prefix(it)).unwrap_or(text);
        let (name, tag) = match text.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (text, None),
        };
        let known = catalog::known(name);
        Asked { name: known.map_or(name, |it| it.name), known, tag }
    }

    /// With the quantization as the file to take, where no other is said.
    pub(crate) fn options<'b>(&self, options: &'b PullOptions) -> Cow<'b, PullOptions> {
        match self.tag {
            Some(tag) if options.file.is_none() => {
                Cow::Owned(PullOptions { file: Some(tag.to_owned()), ..options.clone() })
            }
            _ => Cow::Borrowed(options),
        }
    }
}

/// A repository has two parts; without one the model is from elsewhere.
pub(crate) fn check_repository(name: &str, repository: &str) -> Result<()> {
    if repository.is_empty() {
        return Ok(());
    }
    if repository.split('/').count() != 2 {
        let why = "it is not in the catalog, and a repository has the form ORG/NAME";
        return Err(Error::Name { name: name.to_owned(), why });
    }
    name::folder_of(repository).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;

    #[test]
    fn a_name_may_have_a_quantization_behind_it() {
        for (text, name, tag) in [
            ("o/n", "o/n", None),
            ("o/n:Q4_K_M", "o/n", Some("Q4_K_M")),
            ("hf.co/o/n:q8_0", "o/n", Some("q8_0")),
            ("https://huggingface.co/o/n", "o/n", None),
            ("https://evil.test/o/n", "https", Some("//evil.test/o/n")),
            ("all-minilm-l6-v2", "all-MiniLM-L6-v2", None),
            ("", "", None),
        ] {
            let asked = Asked::of(text);
            assert_eq!((asked.name, asked.tag), (name, tag), "{text}");
        }
        let mut options = PullOptions::new(Network::default());
        let file = |options: &PullOptions| Asked::of("o/n:Q8_0").options(options).file.clone();
        assert_eq!(file(&options).as_deref(), Some("Q8_0"));
        options.file = Some("other.gguf".to_owned());
        assert_eq!(file(&options).as_deref(), Some("other.gguf"), "the flag says it exactly");
    }
}
