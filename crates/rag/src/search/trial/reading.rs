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
    use std::{ops::ControlFlow, path::Path, sync::atomic::AtomicBool};

    use super::*;
    use crate::{
        Assistant, Config,
        home::import_model,
        index::{InputDocument, Library},
        search::trial::{Trial, TrialRequest, try_models},
    };

    const GERMAN: [(&str, &str); 3] = [
        (
            "Der Hafen",
            "Im Hafen liegen die alten Boote den ganzen Winter über an Land, weil das Eis sie sonst zerdrückt.",
        ),
        (
            "Die Bäckerei",
            "Der Bäcker in unserer Straße backt sein Brot noch immer jeden Morgen mit Holz aus dem Wald.",
        ),
        (
            "Die Uhr",
            "Die große Uhr am Rathaus geht seit dem letzten Sturm jeden Tag einige Minuten zu langsam.",
        ),
    ];

    const RUSSIAN: [(&str, &str); 3] = [
        (
            "Мост",
            "Старый мост через реку закрыли на ремонт, потому что опоры размыло весенним паводком.",
        ),
        (
            "Сад",
            "В саду за мельницей растут яблони и груши, которые посадил ещё мой дедушка после войны.",
        ),
        (
            "Поезд",
            "Утренний поезд на побережье теперь отправляется на десять минут раньше, чем прошлым летом.",
        ),
    ];

    /// Texts of some sentences each; each sentence is in one of them alone.
    fn documents(name: &str, texts: &[(&str, &str)], more: &[&str]) -> Vec<InputDocument> {
        let each = |number: usize| {
            let (title, sentence) = texts[number % texts.len()];
            let word = more[number % more.len()];
            let text = format!(
                "{sentence} {word} {number}: {}. {} {word} {number}.",
                texts[(number + 1) % texts.len()].1.trim_end_matches('.'),
                texts[(number + 2) % texts.len()].1,
            );
            InputDocument { id: format!("{name}-{number}"), title: title.to_owned(), text }
        };
        (0..12).map(each).collect()
    }

    fn tried(home: &Path, documents: Vec<InputDocument>, embedders: &[&str]) -> Trial {
        let config = Config::new(home);
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-encoder");
        for name in embedders {
            let go_on = &mut |_: riddle_models::Progress<'_>| ControlFlow::Continue(());
            import_model(&config, &golden, Some(name), true, go_on).expect("imported");
        }
        let mut library = Library::open(config.clone()).expect("opens");
        library.choose_embedder(embedders[0]).expect("a model");
        let (mut all, stop) = (documents.into_iter(), AtomicBool::new(false));
        library.add_documents("notes", &mut all, &mut |_| {}, &stop).expect("indexed");
        drop(library);
        let assistant = Assistant::open(config).expect("opens");
        let request = TrialRequest { questions: 12, ..TrialRequest::default() };
        let go_on = &mut |_: &str, _, _| ControlFlow::Continue(());
        try_models(&assistant, &request, go_on).expect("tried").expect("not stopped")
    }

    #[test]
    fn a_library_in_languages_that_the_models_do_not_read_gets_that_said() {
        let home = tempfile::tempdir().expect("a folder");
        let mut both = documents("de", &GERMAN, &["Notiz", "Bericht", "Abschnitt"]);
        both.extend(documents("ru", &RUSSIAN, &["Заметка", "Отчёт", "Раздел"]));
        let embedders = ["all-MiniLM-L6-v2", "multilingual-e5-small"];
        let trial = tried(home.path(), both, &embedders);
        let found: Vec<(Kind, &str)> =
            trial.not_read.iter().map(|it| (it.kind, it.model.as_str())).collect();
        assert_eq!(
            found,
            [(Kind::Reranker, "riddle-reranker"), (Kind::Embedder, "all-MiniLM-L6-v2")]
        );
        for it in &trial.not_read {
            let mut languages: Vec<&str> = it.languages.iter().map(|it| it.0.as_str()).collect();
            languages.sort_unstable();
            assert_eq!(languages, ["de", "ru"], "{it:?}");
            assert!(it.kinds.is_empty());
            let sizes: Vec<u32> = it.available.iter().map(|it| it.megabytes).collect();
            assert!(sizes.len() == NAMED && sizes.is_sorted(), "{it:?}");
        }
        let (reranker, embedder) = (&trial.not_read[0], &trial.not_read[1]);
        assert_eq!(
            (reranker.installed.len(), &embedder.installed[..]),
            (0, &["multilingual-e5-small".to_owned()][..])
        );
        assert!(!embedder.available.iter().any(|it| it.name == "multilingual-e5-small"));
        assert!(embedder.available.iter().any(|it| it.name.starts_with("granite-embedding-97m")));
        // Both have the same weights: what decides is who reads the files.
        let advised = trial.embedders.advised.map(|at| trial.embedders.models[at].name.clone());
        assert_eq!(advised.flatten().as_deref(), Some("multilingual-e5-small"));
    }

    #[test]
    fn what_everybody_reads_needs_no_word() {
        let home = tempfile::tempdir().expect("a folder");
        let german = documents("de", &GERMAN, &["Notiz", "Bericht", "Abschnitt"]);
        let trial = tried(home.path(), german, &["multilingual-e5-small"]);
        let kinds: Vec<Kind> = trial.not_read.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [Kind::Reranker]);
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
