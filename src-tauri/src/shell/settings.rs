//! Settings: read once, kept in the catalog, turned into requests.

use std::path::{Component, Path};

use riddle_rag::{
    self as rag, Records, SearchRequest,
    writer::{LLM_LOCAL, LocalLlm, RemoteLlm},
};

use super::{Shell, lock};
use crate::{
    dto::{
        AppEvent, DRAFT_LOOKUP, DRAFT_NONE, Endpoint, EndpointKey, Failure, KeyPlace, Pruning,
        Remote, SearchFilter, SettingProblem, Settings, SettingsState,
    },
    failure::Reply,
    requests, session,
};

/// Setting: everything a person has set, as JSON.
const SETTINGS: &str = "desktop.settings";

/// Setting: which form [`SETTINGS`] has; none where it is the first one.
const FORM_SETTING: &str = "desktop.settings_form";

/// The form that is written now.
const FORM: &str = "2";

/// Results and candidates that the first form wrote down where nobody had chosen any.
const UNCHOSEN: (u32, u32) = (20, 20);

/// What the rest of the program and the smallest models take together.
const SMALLEST_BUDGET: u64 = 256 << 20;

/// The settings as they were saved. The defaults where these can not be read: another version wrote them, or a person.
pub(super) fn read(records: &Records) -> rag::Result<Settings> {
    let text = records.setting(SETTINGS)?;
    let read = text.map(|it| serde_json::from_str(&it));
    Ok(match read {
        Some(Ok(settings)) => as_now(settings, records.setting(FORM_SETTING)?.as_deref()),
        Some(Err(error)) => {
            tracing::warn!("the settings can not be read, the defaults hold: {error}");
            Settings::default()
        }
        None => Settings::default(),
    })
}

/// Settings of an earlier version: with as many candidates as results nobody is pruned, and nobody had chosen that.
fn as_now(settings: Settings, form: Option<&str>) -> Settings {
    let is_unchosen = (settings.results, settings.candidates) == UNCHOSEN && form.is_none();
    let Settings { results, candidates, .. } = Settings::default();
    if is_unchosen { Settings { results, candidates, ..settings } } else { settings }
}

impl Settings {
    /// What is wrong with them.
    fn check(&self) -> Result<(), Failure> {
        let bad = |what: &str| Err(Failure::bad(what));
        let rerank = &self.rerank;
        if !(80..=200).contains(&self.text_size) {
            return bad("the text size is between 80 % and 200 %");
        }
        if !(5..=100).contains(&self.results) || !(5..=200).contains(&self.candidates) {
            return bad("results are between 5 and 100, candidates between 5 and 200");
        }
        let known =
            [rag::writer::LLM_EXTRACTIVE, rag::writer::LLM_REMOTE].contains(&self.llm.as_str());
        if !known && self.local_model().is_none() {
            return bad(
                "answers are quoted (extractive), or written by an installed model (local:NAME) or an endpoint (remote)",
            );
        }
        if !(1024..=1_000_000).contains(&self.remote.context_tokens) {
            return bad("a model's context is between 1024 and 1000000 tokens");
        }
        if self.local.context_tokens.is_some_and(|it| !(512..=1_000_000).contains(&it)) {
            return bad(
                "the context of a model on this computer is between 512 and 1000000 tokens",
            );
        }
        let draft = self.local.draft.as_str();
        if ![DRAFT_LOOKUP, DRAFT_NONE].contains(&draft) && !is_model_name(draft) {
            return bad(
                "guesses are made from the passages (lookup), by an installed model, or by nobody (none)",
            );
        }
        if self.local.memory_budget.is_some_and(|it| it < SMALLEST_BUDGET) {
            return bad("a language model's memory is 256 MiB or more");
        }
        if rerank.deadline_ms.is_some_and(|it| !(10..=60_000).contains(&it)) {
            return bad("a deadline is between 10 and 60000 ms");
        }
        if rerank.preload_bytes.is_some_and(|it| it > 1 << 30) {
            return bad("what is kept between searches is 1 GiB at most");
        }
        if rerank.window == Some(0) || rerank.micro_batch_tokens == Some(0) {
            return bad("window and micro-batch are at least 1");
        }
        if rerank.row_share.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
            return bad("the share of rows is between 0 and 1");
        }
        let in_range = match rerank.pruning {
            Pruning::Standard | Pruning::Full => true,
            Pruning::Threshold { threshold } => threshold.is_finite() && threshold >= 0.0,
            Pruning::Precision { precision } => precision > 0.0 && precision <= 1.0,
            Pruning::ErrorProbability { probability } => probability > 0.0 && probability < 1.0,
        };
        if !in_range {
            return bad("a threshold is 0 or more, a precision or probability between 0 and 1");
        }
        Ok(())
    }

    /// The model in this process that answers: its name in the store, never a path.
    pub(super) fn local_model(&self) -> Option<&str> {
        self.llm.strip_prefix(LLM_LOCAL).filter(|it| is_model_name(it))
    }
}

/// A name as the store has them, and no file of somebody.
fn is_model_name(name: &str) -> bool {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("gguf"));
    let plain = path.components().all(|it| matches!(it, Component::Normal(_)));
    !name.trim().is_empty() && !is_file && plain
}

impl Shell {
    pub(crate) fn settings(&self) -> SettingsState {
        let settings = self.settings_now();
        SettingsState {
            endpoint: self.endpoint(&settings.remote.url),
            settings,
            problems: lock(&self.problems).clone(),
            wayland: session::is_wayland(),
            toggle_command: session::toggle_command(),
        }
    }

    /// Keeps settings; what they mean for the desktop is the caller's to apply, who then tells the problems.
    pub(crate) fn keep_settings(&self, settings: Settings) -> Reply<()> {
        let before = self.settings_now();
        settings.check()?;
        let text = serde_json::to_string(&settings).map_err(Failure::other)?;
        self.records.set_setting(SETTINGS, Some(&text))?;
        self.records.set_setting(FORM_SETTING, Some(FORM))?;
        if before.keep_history && !settings.keep_history {
            self.records.clear_answers(true)?;
        }
        if settings.offline {
            self.cancel_pull();
        }
        // An address that is none yet can be sent nothing either.
        if self.records.endpoint(&settings.remote.url).is_ok_and(|it| !it.is_local) {
            self.records.allow_endpoint(&settings.remote.url, settings.remote.allowed)?;
        }
        let is_other = (&before.llm, &before.local) != (&settings.llm, &settings.local);
        if is_other && before.local_model().is_some() {
            // Nobody asks it any more, and it may be most of what this process takes.
            self.run(|shell, _| shell.engine.release_models());
        }
        self.set_settings(settings);
        Ok(())
    }

    pub(crate) fn tell_settings(&self, problems: Vec<SettingProblem>) -> SettingsState {
        *lock(&self.problems) = problems;
        let state = self.settings();
        self.tell(AppEvent::Settings { state: state.clone() });
        state
    }

    fn endpoint(&self, url: &str) -> Endpoint {
        match self.records.endpoint(url) {
            Ok(it) => Endpoint { origin: it.origin, local: it.is_local, problem: None },
            Err(error) => {
                Endpoint { origin: String::new(), local: false, problem: Some(error.to_string()) }
            }
        }
    }

    /// Where the key of the endpoint is. Nobody is asked to unlock anything for that.
    pub(crate) fn endpoint_key(&self) -> Reply<EndpointKey> {
        if key_of_environment().is_some() {
            return Ok(EndpointKey { place: KeyPlace::Environment, problem: None });
        }
        Ok(match self.records.key_state(&self.settings_now().remote.url)? {
            rag::status::KeyState::None => EndpointKey { place: KeyPlace::None, problem: None },
            rag::status::KeyState::Kept => EndpointKey { place: KeyPlace::Kept, problem: None },
            rag::status::KeyState::Unknown(why) => {
                EndpointKey { place: KeyPlace::Unknown, problem: Some(why.into()) }
            }
        })
    }

    pub(crate) fn set_endpoint_key(&self, key: &str) -> Reply<EndpointKey> {
        self.records.keep_key(&self.settings_now().remote.url, key)?;
        self.endpoint_key()
    }

    pub(crate) fn forget_endpoint_key(&self) -> Reply<EndpointKey> {
        self.records.forget_key(&self.settings_now().remote.url)?;
        self.endpoint_key()
    }

    /// The model that answers, where an endpoint does.
    pub(crate) fn remote(&self) -> Option<RemoteLlm> {
        let Remote { url, model, context_tokens, .. } = self.settings_now().remote;
        let model = model.trim().to_owned();
        (!model.is_empty()).then(|| RemoteLlm {
            url,
            model,
            key: key_of_environment(),
            context_tokens: Some(context_tokens as usize),
        })
    }

    /// How a model in this process runs.
    pub(crate) fn local(&self) -> LocalLlm {
        requests::local(&self.settings_now())
    }

    /// A search as the settings want it.
    pub(crate) fn request(&self, text: &str, filter: SearchFilter) -> SearchRequest {
        requests::search(&self.settings_now(), text, filter)
    }
}

/// The key that the environment gives; it goes before one that is kept.
fn key_of_environment() -> Option<String> {
    riddle_rag::llm::given_key(std::env::var("RIDDLE_LLM_KEY").ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dto::{PruneMode, Rerank},
        requests::rerank_settings,
    };

    #[test]
    fn settings_out_of_range_are_refused() {
        let wrong: [fn(&mut Settings); 15] = [
            |it| it.remote.context_tokens = 10,
            |it| it.local.context_tokens = Some(10),
            |it| it.local.memory_budget = Some(1 << 20),
            |it| it.local.draft = String::new(),
            |it| it.local.draft = "../tiny".to_owned(),
            |it| it.llm = "local:".to_owned(),
            |it| it.llm = "local:/etc/passwd".to_owned(),
            |it| it.llm = "local:../tiny".to_owned(),
            |it| it.llm = "local:model.gguf".to_owned(),
            |it| it.text_size = 10,
            |it| it.results = 0,
            |it| it.llm = "oracle".to_owned(),
            |it| it.rerank.window = Some(0),
            |it| it.rerank.row_share = Some(f32::NAN),
            |it| it.rerank.pruning = Pruning::Threshold { threshold: -1.0 },
        ];
        assert!(Settings::default().check().is_ok());
        for llm in ["remote", "local:tiny", "local:org/tiny"] {
            let settings = Settings { llm: llm.to_owned(), ..Settings::default() };
            assert!(settings.check().is_ok(), "{llm}");
        }
        for spoil in wrong {
            let mut settings = Settings::default();
            spoil(&mut settings);
            assert!(settings.check().is_err(), "{settings:?}");
        }
    }

    #[test]
    fn candidates_that_nobody_chose_follow_the_default_and_a_choice_is_kept() {
        let of = |results, candidates, form| {
            let settings = Settings { results, candidates, text_size: 125, ..Settings::default() };
            let now = as_now(settings, form);
            assert_eq!(now.text_size, 125, "the others stay");
            (now.results, now.candidates)
        };
        assert_eq!(of(20, 20, None), (20, 24));
        for chosen in [(10, 20), (20, 50), (5, 5), (20, 24)] {
            assert_eq!(of(chosen.0, chosen.1, None), chosen);
        }
        // Chosen since the default is another one.
        assert_eq!(of(20, 20, Some(FORM)), (20, 20));
    }

    #[test]
    fn nobody_is_pruned_by_nobody() {
        let full = Rerank { mode: PruneMode::Set, pruning: Pruning::Full, ..Rerank::default() };
        let settings = rerank_settings(&full);
        assert_eq!(
            (settings.mode, settings.pruning),
            (rag::rerank::Mode::Off, rag::rerank::Pruning::Never)
        );
        let off = Rerank { pruning: Pruning::Threshold { threshold: 0.3 }, ..Rerank::default() };
        assert_eq!(rerank_settings(&off).pruning, rag::rerank::Pruning::Never);
    }

    #[test]
    fn who_has_chosen_nothing_has_the_standard_and_a_choice_is_kept() {
        let pruning = |text: &str| {
            let rerank: Rerank = serde_json::from_str(text).expect("settings");
            rerank_settings(&rerank).pruning
        };
        // As earlier versions kept what nobody had chosen.
        for untouched in ["{}", r#"{"mode": "off", "pruning": {"kind": "never"}}"#] {
            assert_eq!(pruning(untouched), rag::rerank::Pruning::Standard, "{untouched}");
        }
        assert_eq!(
            pruning(r#"{"mode": "off", "pruning": {"kind": "full"}}"#),
            rag::rerank::Pruning::Never
        );
        let chosen = r#"{"mode": "set", "pruning": {"kind": "threshold", "threshold": 0.5}}"#;
        assert_eq!(pruning(chosen), rag::rerank::Pruning::Threshold(0.5));
    }
}
