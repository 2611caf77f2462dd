//! Questions, answers, and the history of both.

use tauri::{State, ipc::Channel};

use super::{Reply, beside};
use crate::{
    dto::{Answer, AskEvent, HistoryQuery, KeptAnswers, Outgoing, Question, Reuse, ThreadSummary},
    shell::Shell,
};

/// Asks; returns at once, the answer comes over `events`.
#[tauri::command]
pub(crate) async fn ask(
    shell: State<'_, Shell>,
    question: Question,
    events: Channel<AskEvent>,
) -> Reply<()> {
    shell.ask(question, events);
    Ok(())
}

/// What the endpoint would be sent for a question; nothing is sent.
#[tauri::command]
pub(crate) async fn ask_preview(shell: State<'_, Shell>, question: Question) -> Reply<Outgoing> {
    let shell = shell.inner().clone();
    beside(move || shell.ask_preview(question)).await
}

/// Stops an answer; what was said so far is kept.
#[tauri::command]
pub(crate) async fn stop_answer(shell: State<'_, Shell>, question: u32) -> Reply<()> {
    shell.stop_answer(question);
    Ok(())
}

/// Threads of questions, the latest first.
#[tauri::command]
pub(crate) async fn history(
    shell: State<'_, Shell>,
    query: HistoryQuery,
) -> Reply<Vec<ThreadSummary>> {
    let shell = shell.inner().clone();
    beside(move || shell.history(&query)).await
}

/// All answers of a thread, the first question first.
#[tauri::command]
pub(crate) async fn history_thread(shell: State<'_, Shell>, thread: i64) -> Reply<Vec<Answer>> {
    let shell = shell.inner().clone();
    beside(move || shell.thread(thread)).await
}

/// Forgets a thread, or everything.
#[tauri::command]
pub(crate) async fn history_delete(shell: State<'_, Shell>, thread: Option<i64>) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.forget(thread)).await
}

/// The answers that are kept, and what they were good for.
#[tauri::command]
pub(crate) async fn kept_answers(shell: State<'_, Shell>) -> Reply<KeptAnswers> {
    let shell = shell.inner().clone();
    beside(move || shell.kept_answers()).await
}

/// Sets how answers that are already there are used.
#[tauri::command]
pub(crate) async fn reuse_set(shell: State<'_, Shell>, reuse: Reuse) -> Reply<KeptAnswers> {
    let shell = shell.inner().clone();
    beside(move || shell.set_reuse(reuse)).await
}

/// Forgets a kept answer, or all of them; the history stays.
#[tauri::command]
pub(crate) async fn kept_answers_delete(
    shell: State<'_, Shell>,
    answer: Option<i64>,
) -> Reply<KeptAnswers> {
    let shell = shell.inner().clone();
    beside(move || shell.forget_kept(answer)).await
}
