//! A model that is open: prompts are made of a request as it takes them, and it writes after them.

use std::{ops::ControlFlow, path::Path, time::Instant};

use riddle_kernels::MOST_AS_ONE;
use riddle_transformer::{LanguageModel, LanguageTokenizer};
use riddle_types::{ChunkId, Generation, GenerationRequest, Notice, PassageOrder};

use super::{
    LocalOptions, Sink,
    draft::{Draft, Drafting, Lookup, NoDraft},
    engine::{End, Ends, Engine, How},
    numbers::Numbers,
    plan::Beside,
    sample::{Sampler, Sampling},
    segments::Segments,
    small::ModelDraft,
    stored::Stored,
    template::{ChatTemplate, Part, Turn, template_without},
    writer::Writer,
};
use crate::{
    Error, Prompt, Result,
    prompt::{Placed, outer_first},
};

/// A model and how it is spoken to.
pub(super) struct Open {
    pub(super) engine: Engine,
    pub(super) draft: Box<dyn Draft>,
    template: ChatTemplate,
}

/// What is to be written, and after what.
pub(super) struct Asked<'a> {
    pub(super) prompt: &'a Segments,
    pub(super) numbers: Numbers,
    pub(super) most: usize,
    /// Written whatever the model would write.
    pub(super) told: Option<Vec<u32>>,
}

/// Who guesses for the model in `path`, and what that takes beside it.
fn draft(
    path: &Path,
    options: &LocalOptions,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(Box<dyn Draft>, Beside)> {
    let rows = MOST_AS_ONE;
    Ok(match &options.draft {
        Drafting::Nothing => (Box::new(NoDraft), Beside { rows: 1, bytes: 0 }),
        Drafting::Lookup => (Box::new(Lookup::new()), Beside { rows, bytes: 0 }),
        Drafting::Model(small) => {
            let draft = ModelDraft::open(small, options, go_on)?;
            // Before gigabytes are read.
            let model = LanguageModel::open(path)?;
            draft.check(&LanguageTokenizer::open(model.file())?, path)?;
            let bytes = draft.unseen_bytes();
            (Box::new(draft), Beside { rows, bytes })
        }
    })
}

impl Open {
    pub(super) fn new(
        path: &Path,
        options: &LocalOptions,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Open> {
        let (draft, beside) = draft(path, options, go_on)?;
        let engine = Engine::open(path, options, beside, go_on)?;
        let has = |name: &str| engine.tokenizer.encode(name, true).len() == 1;
        let file = engine.model.file();
        let source = file.text("tokenizer.chat_template");
        let source = source.unwrap_or_else(|| template_without(file.architecture(), has));
        let text = |token: Option<u32>| {
            let name = token.map(|it| engine.tokenizer.name(it)).unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        let (bos, eos) = (text(engine.tokenizer.bos()), text(engine.tokenizer.eos()));
        let template = ChatTemplate::new(source, &bos, &eos)?;
        Ok(Open { engine, draft, template })
    }

    /// Bytes of weights in memory.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.engine.resident_bytes() + self.draft.resident_bytes()
    }

    /// Writes after `prompt`.
    pub(super) fn write(
        &mut self,
        mut generation: Generation,
        Asked { prompt, mut numbers, most, told }: Asked<'_>,
        sampling: Sampling,
        sink: &mut Sink<'_>,
    ) -> Result<Generation> {
        let started = Instant::now();
        let mut writer = Writer::default();
        let mut first = None;
        let mut text = String::new();
        let sampler = &mut Sampler::new(sampling);
        let how = match &told {
            Some(told) => How {
                most: most.min(told.len()),
                sampler,
                ends: Ends::Ignored,
                told,
                draft: &mut NoDraft,
            },
            None => How { most, sampler, ends: Ends::Heard, told: &[], draft: &mut *self.draft },
        };
        let (stats, end) = self.engine.generate(prompt, how, &mut |bytes| {
            let piece = numbers.push(&writer.push(bytes));
            if !piece.is_empty() {
                first.get_or_insert_with(|| started.elapsed().as_secs_f64() * 1e3);
                text.push_str(&piece);
            }
            sink(&piece)
        })?;
        let rest = numbers.push(&writer.end()) + &numbers.end();
        if !rest.is_empty() && end != End::Stopped {
            text.push_str(&rest);
            let _ = sink(&rest);
        }
        if end == End::Full && told.is_none_or(|it| it.len() > stats.tokens) {
            generation.notices.push(Notice::AnswerTooLong { tokens: stats.tokens });
        }
        generation.first_token_ms = first.unwrap_or_default();
        generation.tokens = Some(stats.tokens);
        generation.text = text;
        generation.stats = Some(stats);
        generation.stored = self.engine.left;
        Ok(generation)
    }

    /// The prompt with as many passages as fit, and its tokens.
    pub(super) fn fit(&self, request: &GenerationRequest) -> Result<(Prompt, Segments)> {
        let context = self.engine.context();
        let room = context.saturating_sub(request.max_tokens.min(context / 2));
        // Characters are counted as tokens more cautiously than most texts need.
        let mut assumed = context.saturating_mul(2);
        loop {
            let mut arrange = |placed| self.arrange(placed, request.order);
            let prompt = Prompt::in_places(request, assumed, &mut arrange);
            let (rules, pieces) = prompt.pieces();
            let chunks: Vec<_> = prompt.placed.iter().map(|it| it.chunk).collect();
            let segments = self.segments(&[Turn::rules(rules), Turn::person(pieces)], &chunks)?;
            let tokens = segments.tokens.len();
            if tokens <= room {
                return Ok((prompt, segments));
            }
            let is_empty = prompt.left_out.len() == request.passages.len();
            if is_empty || assumed == 0 {
                return Err(Error::TooLong { tokens, room });
            }
            let over = tokens - room;
            assumed = assumed.saturating_sub(over.max(assumed / 64 + 1));
        }
    }

    /// The tokens of messages, cut before each piece, the second of which is made of the first one of `chunks`. Every
    /// piece is tokenized by itself, so that its tokens do not depend on its neighbors. Control tokens in it are plain
    /// text.
    pub(super) fn segments(&self, turns: &[Turn], chunks: &[Option<ChunkId>]) -> Result<Segments> {
        let tokenizer = &self.engine.tokenizer;
        let (mut tokens, mut borders) = (Vec::new(), Vec::new());
        let mut goes_on = false;
        for part in self.template.render(turns)? {
            if matches!(part, Part::Piece(_)) {
                borders.push(tokens.len());
            }
            match part {
                Part::Template(text) => {
                    tokens.extend(tokenizer.encode(&text, true));
                    goes_on = false;
                }
                Part::Text(text) | Part::Piece(text) => {
                    let own = if goes_on {
                        tokenizer.encode_on(&text)
                    } else {
                        tokenizer.encode(&text, false)
                    };
                    tokens.extend(own);
                    goes_on = true;
                }
            }
        }
        if let Some(bos) = tokenizer.bos().filter(|_| tokenizer.adds_bos())
            && tokens.first() != Some(&bos)
        {
            tokens.insert(0, bos);
            borders.iter_mut().for_each(|it| *it += 1);
        }
        Ok(Segments::new(tokens, &borders, chunks))
    }

    /// Puts passages, best first, into the order in which they are read.
    fn arrange(&self, mut placed: Vec<Placed>, order: PassageOrder) -> Vec<Placed> {
        match order {
            PassageOrder::Ranked => outer_first(placed),
            PassageOrder::Document => {
                placed.sort_by_key(|it| it.chunk);
                placed
            }
            PassageOrder::Stored => {
                let mut first = self.longest_stored(&placed);
                let is_first = |it: &Placed| first.iter().any(|first| first.number == it.number);
                let rest = placed.into_iter().filter(|it| !is_first(it)).collect();
                let rest = outer_first(rest);
                first.extend(rest);
                first
            }
        }
    }

    /// Those of the passages that begin the longest prompt that is stored; of several, the one with the better ones
    /// first.
    fn longest_stored(&self, placed: &[Placed]) -> Vec<Placed> {
        let Some(stored) = &self.engine.stored else { return Vec::new() };
        let mut longest: Vec<Placed> = Vec::new();
        let mut waiting = vec![Vec::new()];
        while let Some(path) = waiting.pop() {
            if path.len() > longest.len() {
                longest = path.iter().map(|it: &&Placed| (*it).clone()).collect();
            }
            // Popped from the end: the best one is looked at first.
            for next in placed.iter().rev().filter(|it| !path.contains(it)) {
                let path: Vec<&Placed> = path.iter().copied().chain([next]).collect();
                if self.is_stored(stored, &path) {
                    waiting.push(path);
                }
            }
        }
        longest
    }

    /// Whether a prompt that begins with these passages is stored up to the last of them.
    fn is_stored(&self, stored: &Stored, path: &[&Placed]) -> bool {
        let mut pieces: Vec<String> =
            path.iter().zip(1..).map(|(it, place)| it.shown(place)).collect();
        pieces.push("?".to_owned());
        let turns = [Turn::rules(Prompt::rules()), Turn::person(pieces)];
        self.segments(&turns, &[]).is_ok_and(|it| {
            let tokens = it.path();
            stored.depth(&self.engine.model, &tokens) == tokens.len()
        })
    }
}
