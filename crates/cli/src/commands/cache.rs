//! `riddle cache`.

use std::time::Instant;

use riddle_rag::{
    AskRequest, Assistant, Records,
    prefixes::Freed,
    prepare::{PrepareReport, Prepared},
    records::{AnswersStatus, BankAnswer},
    reuse::{NearQuestion, ReuseSettings},
};
use serde_json::{Value, json};

use super::prefixes;
use crate::{
    args::{CacheArgs, CacheCommand, CacheSetArgs, CacheWarmArgs},
    context::Context,
    dates,
    failure::Failure,
    output::Style,
    show,
};

/// Kept questions that are listed.
const LISTED: usize = 1000;

/// Thresholds whose effect is shown.
const THRESHOLDS: [f32; 4] = [0.85, 0.9, 0.93, 0.96];

pub(crate) fn run(args: &CacheArgs, context: &Context) -> Result<(), Failure> {
    match &args.command {
        CacheCommand::Status { list } => status(*list, None, context),
        CacheCommand::Clear => {
            if Records::is_there(&context.config) {
                Records::open(context.config.clone())?.clear_answers(false)?;
            }
            let freed = riddle_rag::prefixes::prefixes(&context.config)?.clear()?;
            status(false, Some(freed), context)
        }
        CacheCommand::Limit { size } => {
            let freed = riddle_rag::prefixes::set_limit(&context.config, Some(*size))?;
            status(false, Some(freed), context)
        }
        CacheCommand::Set(args) => set(args, context),
        CacheCommand::Warm(args) => warm(args, context),
    }
}

/// Both layers: what was written and what was read.
fn status(list: bool, freed: Option<Freed>, context: &Context) -> Result<(), Failure> {
    let stored = riddle_rag::prefixes::prefixes(&context.config)?.status()?;
    let (mut kept, mut answers, mut near) = (Vec::new(), None, Vec::new());
    if Records::is_there(&context.config) {
        let records = Records::open(context.config.clone())?;
        answers = Some((records.answers_status()?, records.reuse()?));
        near = records.near_questions()?;
        kept = if list { records.kept_answers(LISTED)? } else { Vec::new() };
    }
    let (status, settings) = answers.unwrap_or_default();
    if context.json {
        let mut value = prefixes::json(&stored, freed);
        value["answers"] = answers_json(&status, &settings);
        value["near"] = near
            .iter()
            .map(|it| json!({ "similarity": it.similarity, "by_words": it.by_words }))
            .collect();
        if list {
            value["questions"] = kept.iter().map(kept_json).collect();
        }
        return context.out.json(&value);
    }
    let mut page = prefixes::page(&stored, freed);
    page.push_str(&answers_page(&status, &settings));
    page.push_str(&near_line(&near));
    for it in &kept {
        page.push_str(&kept_line(it, context.style));
    }
    context.out.text(page)
}

fn answers_json(status: &AnswersStatus, settings: &ReuseSettings) -> Value {
    let counts = &status.counts;
    json!({
        "fresh": counts.fresh,
        "suspect": counts.suspect,
        "pending": counts.pending,
        "foreseen": counts.foreseen,
        "descriptions": counts.abstracts,
        "bytes": counts.bytes,
        "asked": status.asked,
        "hits": { "same": status.same, "checked": status.checked, "instant": status.instant },
        "seconds_saved": status.seconds_saved,
        "idle_seconds": status.idle_seconds,
        "prompt_tokens": status.prompt_tokens,
        "known_tokens": status.known_tokens,
        "reading_saved_seconds": status.reading_saved,
        "settings": settings,
    })
}

fn kept_json(it: &BankAnswer) -> Value {
    json!({
        "id": it.id,
        "question": it.question,
        "by": it.by.as_str(),
        "state": it.state.as_str(),
        "at": it.made_at,
        "uses": it.uses,
    })
}

fn kept_line(it: &BankAnswer, style: Style) -> String {
    let by = format!("{}, {}", it.by.as_str(), it.state.as_str());
    format!("{} {}\n", style.dim(format_args!("({by})")), show::clean(&it.question))
}

fn answers_page(status: &AnswersStatus, settings: &ReuseSettings) -> String {
    let counts = &status.counts;
    let hits = status.same + status.checked + status.instant;
    let percent = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
    let share = percent(hits, status.asked);
    let known = percent(status.known_tokens, status.prompt_tokens);
    format!(
        "answers: {} ready, {} to be written again, {} to be written · {} of them foreseen\n\
         taken: {} of {} ({share:.0} %; {} the same, {} checked, {} instant)\n\
         read: {known:.0} % of {} prompt tokens were known already\n\
         saved: {:.0} s of writing, {:.0} s of reading · spent while nobody waited: {:.0} s\n\
         space: {} of {}\n\
         given again: {}, from a similarity of {} · prepared: {}\n",
        counts.fresh,
        counts.suspect,
        counts.pending,
        counts.foreseen,
        show::plural(hits as u64, "answer"),
        status.asked,
        status.same,
        status.checked,
        status.instant,
        status.prompt_tokens,
        status.seconds_saved,
        status.reading_saved,
        status.idle_seconds,
        show::bytes(counts.bytes),
        show::bytes(settings.limit_bytes),
        settings.grade.as_str(),
        settings.threshold,
        match (settings.prepare, settings.on_battery) {
            (false, _) => "no",
            (true, false) => "on mains",
            (true, true) => "always",
        },
    )
}

/// What other thresholds would let through of the last questions.
fn near_line(near: &[NearQuestion]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let at = |threshold: f32| {
        let through = near.iter().filter(|it| it.by_words >= threshold).count();
        format!("{through} at {threshold}")
    };
    format!(
        "of your last {} so many would find another one's answer, by similarity: {}\n",
        show::plural(near.len() as u64, "question"),
        THRESHOLDS.map(at).join(" · "),
    )
}

fn set(args: &CacheSetArgs, context: &Context) -> Result<(), Failure> {
    let records = Records::open(context.config.clone())?;
    let mut settings = records.reuse()?;
    settings.grade = args.reuse.map_or(settings.grade, Into::into);
    settings.threshold = args.threshold.unwrap_or(settings.threshold);
    settings.limit_bytes = args.limit.unwrap_or(settings.limit_bytes);
    settings.prepare = args.prepare.unwrap_or(settings.prepare);
    settings.on_battery = args.on_battery.unwrap_or(settings.on_battery);
    settings.remote = args.remote.unwrap_or(settings.remote);
    records.set_reuse(&settings)?;
    status(false, None, context)
}

fn warm(args: &CacheWarmArgs, context: &Context) -> Result<(), Failure> {
    let assistant = Assistant::open(context.config.clone())?;
    // As `riddle ask` asks: what is prepared otherwise would never be taken.
    let request = AskRequest { local: args.local.settings(None), ..AskRequest::new("") };
    let started = Instant::now();
    let mut go_on = || args.budget.is_none_or(|it| started.elapsed() < it) && !context.stopped();
    let (mut lines, mut closed) = (Vec::new(), None);
    let mut tell = |it: &Prepared| match context.json {
        true => lines.push(prepared_json(it)),
        false => closed = closed.take().or(context.out.text(prepared_line(it)).err()),
    };
    let report = assistant.prepare(&request, &args.llm, &mut go_on, &mut tell)?;
    if let Some(failure) = closed {
        return Err(failure);
    }
    match context.json {
        true => context.out.json(&report_json(&report, &lines)),
        false => context.out.text(summary(&report)),
    }
}

fn prepared_line(it: &Prepared) -> String {
    let (what, words) = match it {
        Prepared::Answered { question, again: false } => ("answered", question),
        Prepared::Answered { question, again: true } => ("answered again", question),
        Prepared::Read { question } => ("read for", question),
        Prepared::Dropped { question } => ("not in the files", question),
        Prepared::Described { sentence } => ("described", sentence),
        Prepared::Foreseen { question } => ("foreseen", question),
    };
    format!("{what}: {}\n", show::clean(words))
}

fn prepared_json(it: &Prepared) -> Value {
    match it {
        Prepared::Answered { question, again } => {
            json!({ "did": "answered", "question": question, "again": again })
        }
        Prepared::Read { question } => json!({ "did": "read", "question": question }),
        Prepared::Dropped { question } => json!({ "did": "dropped", "question": question }),
        Prepared::Described { sentence } => json!({ "did": "described", "sentence": sentence }),
        Prepared::Foreseen { question } => json!({ "did": "foreseen", "question": question }),
    }
}

fn report_json(report: &PrepareReport, steps: &[Value]) -> Value {
    json!({
        "answered": report.answered,
        "again": report.again,
        "read": report.read,
        "dropped": report.dropped,
        "described": report.described,
        "foreseen": report.foreseen,
        "tokens": report.tokens,
        "seconds": report.seconds,
        "done": report.done,
        "steps": steps,
    })
}

fn summary(report: &PrepareReport) -> String {
    format!(
        "{} answered ({} again), {} read, {} not in the files, {} described, {} foreseen in {:.0} s{}\n",
        report.answered,
        report.again,
        report.read,
        report.dropped,
        report.described,
        report.foreseen,
        report.seconds,
        if report.done { "; nothing is left to be done" } else { "" },
    )
}

/// The line below an answer that was there already.
pub(crate) fn line(cached: &riddle_rag::reuse::Cached, question: &str) -> String {
    let when = dates::day(cached.at);
    let how = if cached.prepared { "Prepared" } else { "Answered" };
    let asked = match cached.asked == question.trim() {
        true => String::new(),
        false => format!(" for “{}”", show::clean(&cached.asked)),
    };
    let checked = match cached.checked {
        true => "checked against your files just now",
        false => "not checked",
    };
    format!("{how} on {when}{asked} · {checked} · ask the model: --fresh")
}

#[cfg(test)]
mod tests {
    use riddle_rag::reuse::{Cached, ReuseGrade};

    use super::*;

    #[test]
    fn an_answer_that_was_there_says_whose_it_is() {
        let cached = Cached {
            kind: ReuseGrade::Checked,
            asked: "When is the rehearsal?".to_owned(),
            at: 1_762_128_000,
            similarity: 0.93,
            checked: true,
            prepared: false,
        };
        assert_eq!(
            line(&cached, "At what time do we rehearse?"),
            "Answered on 3 Nov 2025 for “When is the rehearsal?” · checked against your files just now · ask the model: --fresh"
        );
        let own = Cached { prepared: true, checked: false, ..cached };
        assert_eq!(
            line(&own, "When is the rehearsal? "),
            "Prepared on 3 Nov 2025 · not checked · ask the model: --fresh"
        );
    }

    #[test]
    fn the_status_counts_what_was_taken() {
        let status = AnswersStatus { asked: 8.0, same: 1.0, checked: 3.0, ..Default::default() };
        let page = answers_page(&status, &ReuseSettings::default());
        assert!(
            page.contains("taken: 4 answers of 8 (50 %; 1 the same, 3 checked, 0 instant)"),
            "{page}"
        );
    }
}
