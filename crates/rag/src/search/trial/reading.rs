//! What of the files the models in use are not made for, and which others are.

use riddle_models::{InstalledModel, KNOWN, Kind, Languages, known, languages, unpromised};
use riddle_types::FileKind;

use super::question::Sample;
use crate::search::card::RerankerCard;

/// Share of the passages from which on it matters what a model does with them.
pub const TELLING_SHARE: f32 = 0.05;

/// Models to fetch that are named, at most.
const NAMED: usize = 3;

/// What the embedder or reranker in use is not made for.
#[derive(Debug, Clone, PartialEq)]
pub struct NotRead {
    /// Embedder or reranker.
    pub kind: Kind,
    /// The one in use.
    pub model: String,
    /// Languages of the files that it does not read (ISO 639-1), with their share of the passages.
    pub languages: Vec<(String, f32)>,
    /// Kinds of files for which nothing is promised, with their share of the passages.
    pub kinds: Vec<(FileKind, f32)>,
    /// Installed ones that read these languages.
    pub installed: Vec<String>,
    /// Those that can be fetched and read them, the smallest first.
    pub available: Vec<Fetchable>,
}

/// A model that can be fetched by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetchable {
    /// Its name.
    pub name: &'static str,
    /// Approximate size of the download.
    pub megabytes: u32,
    /// Its license.
    pub license: &'static str,
}

/// Which languages an installed model reads: a reranker's own card before the catalog.
pub(super) fn read_by(model: &InstalledModel) -> Option<Vec<String>> {
    if model.kind == Kind::Reranker {
        let card = RerankerCard::read(&model.dir).languages;
        if !card.is_empty() {
            return Some(card);
        }
    }
    languages(&model.name).map(|it| match it {
        Languages::Only(those) => those.iter().map(|&it| it.to_owned()).collect(),
        Languages::Many => Vec::new(),
    })
}

/// Share of passages in languages that are none of `read`, if any are named.
pub(super) fn unread_share(read: &[String], all: &[(String, f32)]) -> f32 {
    let reads = |language: &String| read.is_empty() || read.contains(language);
    all.iter().filter(|it| !reads(&it.0)).map(|it| it.1).sum()
}

/// What the models in use, of these kinds and names, are not made for; nothing of those that are made for all.
pub(super) fn not_read(
    sample: &Sample,
    installed: &[InstalledModel],
    in_use: &[(Kind, String)],
) -> Vec<NotRead> {
    let of = |(kind, name): &(Kind, String)| {
        let model = installed.iter().find(|it| it.name == *name && it.kind == *kind)?;
        let read = read_by(model).unwrap_or_default();
        let unread = |it: &&(String, f32)| !read.is_empty() && !read.contains(&it.0);
        let mut languages: Vec<(String, f32)> =
            sample.languages.iter().filter(unread).cloned().collect();
        languages.retain(|it| it.1 >= TELLING_SHARE);
        let mut kinds = sample.kinds.clone();
        kinds.retain(|it| it.1 >= TELLING_SHARE && unpromised(name).contains(&it.0));
        if languages.is_empty() && kinds.is_empty() {
            return None;
        }
        let (read_them, available) = match languages.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => readers(*kind, &languages, installed),
        };
        let model = name.clone();
        Some(NotRead { kind: *kind, model, languages, kinds, installed: read_them, available })
    };
    in_use.iter().filter_map(of).collect()
}

/// Who reads all these languages: of the installed ones, and of those that can be fetched.
fn readers(
    kind: Kind,
    wanted: &[(String, f32)],
    installed: &[InstalledModel],
) -> (Vec<String>, Vec<Fetchable>) {
    let reads = |model: &&InstalledModel| {
        model.kind == kind
            && read_by(model)
                .is_some_and(|read| wanted.iter().all(|it| read.is_empty() || read.contains(&it.0)))
    };
    let here: Vec<String> = installed.iter().filter(reads).map(|it| it.name.clone()).collect();
    let is_here = |name: &str| {
        let same = |it: &InstalledModel| known(&it.name).is_some_and(|it| it.name == name);
        installed.iter().any(same)
    };
    let mut others: Vec<Fetchable> = KNOWN
        .iter()
        .filter(|it| it.kind == kind && !is_here(it.name))
        .filter(|it| {
            languages(it.name).is_some_and(|read| wanted.iter().all(|it| read.read(&it.0)))
        })
        .map(|it| Fetchable { name: it.name, megabytes: it.megabytes, license: it.license })
        .collect();
    others.sort_by_key(|it| it.megabytes);
    others.truncate(NAMED);
    (here, others)
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, path::Path};

    use super::*;
    use crate::{Config, home::import_model};

    /// The models of a home with these embedders, which are tiny ones under known names.
    fn installed(home: &Path, embedders: &[&str]) -> Vec<InstalledModel> {
        let config = Config::new(home);
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-encoder");
        for name in embedders {
            let go_on = &mut |_: riddle_models::Progress<'_>| ControlFlow::Continue(());
            import_model(&config, &golden, Some(name), true, go_on).expect("imported");
        }
        // The bundled reranker is put into the store when it is asked for, as a trial has done before.
        config.model_dir("riddle-reranker").expect("bundled");
        config.model_store().expect("opens").list_all().expect("read")
    }

    fn of_languages(languages: &[(&str, f32)]) -> Sample {
        let languages = languages.iter().map(|it| (it.0.to_owned(), it.1)).collect();
        Sample { languages, kinds: vec![(FileKind::Markdown, 1.0)], ..Sample::default() }
    }

    fn in_use(embedder: &str) -> [(Kind, String); 2] {
        [(Kind::Reranker, "riddle-reranker".to_owned()), (Kind::Embedder, embedder.to_owned())]
    }

    #[test]
    fn a_library_in_languages_that_the_models_do_not_read_gets_that_said() {
        let home = tempfile::tempdir().expect("a folder");
        let models = installed(home.path(), &["all-MiniLM-L6-v2", "multilingual-e5-small"]);
        let sample = of_languages(&[("de", 0.48), ("ru", 0.46), ("fr", 0.04), ("en", 0.02)]);
        let told = not_read(&sample, &models, &in_use("all-MiniLM-L6-v2"));
        let found: Vec<(Kind, &str)> = told.iter().map(|it| (it.kind, it.model.as_str())).collect();
        assert_eq!(
            found,
            [(Kind::Reranker, "riddle-reranker"), (Kind::Embedder, "all-MiniLM-L6-v2")]
        );
        for it in &told {
            assert_eq!(it.languages, sample.languages[..2], "{it:?}");
            assert!(it.kinds.is_empty());
            let sizes: Vec<u32> = it.available.iter().map(|it| it.megabytes).collect();
            assert!(sizes.len() == NAMED && sizes.is_sorted(), "{it:?}");
        }
        let (reranker, embedder) = (&told[0], &told[1]);
        assert_eq!(
            (reranker.installed.len(), &embedder.installed[..]),
            (0, &["multilingual-e5-small".to_owned()][..])
        );
        assert!(!embedder.available.iter().any(|it| it.name == "multilingual-e5-small"));
        assert!(embedder.available.iter().any(|it| it.name.starts_with("granite-embedding-97m")));
    }

    #[test]
    fn what_everybody_reads_needs_no_word() {
        let home = tempfile::tempdir().expect("a folder");
        let models = installed(home.path(), &["multilingual-e5-small"]);
        let told = |languages| {
            let told =
                not_read(&of_languages(languages), &models, &in_use("multilingual-e5-small"));
            told.into_iter().map(|it| it.kind).collect::<Vec<Kind>>()
        };
        assert_eq!(told(&[("de", 1.0)]), [Kind::Reranker]);
        assert_eq!(told(&[("en", 0.96), ("de", 0.04)]), []);
        assert_eq!(told(&[]), []);
    }

    #[test]
    fn kinds_that_a_card_promises_nothing_for_are_told() {
        let home = tempfile::tempdir().expect("a folder");
        let models =
            Config::new(home.path()).model_store().expect("opens").list_all().expect("read");
        let sample = Sample {
            languages: vec![("en".to_owned(), 1.0)],
            kinds: vec![
                (FileKind::Markdown, 0.8),
                (FileKind::Code, 0.17),
                (FileKind::Spreadsheet, 0.03),
            ],
            ..Sample::default()
        };
        let in_use = |name: &str| [(Kind::Reranker, name.to_owned())];
        let found = not_read(&sample, &models, &in_use("riddle-reranker"));
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].kinds, found[0].languages.len()), (&vec![(FileKind::Code, 0.17)], 0));
        assert!(found[0].available.is_empty(), "nobody is known to be better at it");
        assert!(not_read(&sample, &models, &in_use("no-such-model")).is_empty());
    }
}
