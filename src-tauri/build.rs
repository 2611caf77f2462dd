//! Puts our commands under the ACL: without this list the WebView could call all of them unasked.

use tauri_build::{AppManifest, Attributes};

const COMMANDS: &[&str] = &[
    "about",
    "ask",
    "calibration",
    "events",
    "finish_first_run",
    "history",
    "history_delete",
    "history_thread",
    "ledger",
    "ledger_exclude",
    "ledger_retry",
    "library",
    "library_add",
    "library_add_dialog",
    "library_pause",
    "library_rebuild",
    "library_remove",
    "library_rescan",
    "model_cancel",
    "model_import",
    "model_import_dialog",
    "model_pull",
    "model_remove",
    "model_use",
    "model_verify",
    "models",
    "note_first_hits",
    "open_file",
    "performance",
    "performance_export",
    "pipeline",
    "pipeline_compare",
    "pipeline_curve",
    "pipeline_replay",
    "preview",
    "preview_bytes",
    "ready",
    "reveal_file",
    "rule_preview",
    "rules",
    "rules_set",
    "search",
    "settings",
    "settings_set",
    "start",
    "stop_answer",
    "stop_search",
    "suggested_folders",
    "warm",
    "why",
];

fn main() {
    let manifest = AppManifest::new().commands(COMMANDS);
    tauri_build::try_build(Attributes::new().app_manifest(manifest))
        .expect("the app's configuration is read");
}
