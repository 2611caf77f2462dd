//! Scans and pictures of text: read last, found by page, and every odd picture has a state with a reason.

use std::path::Path;

use riddle_tests::{Riddle, real_models, skipped, workspace, write};
use tempfile::TempDir;

/// The store, if it has what reads pictures.
pub(crate) fn readers() -> Option<std::path::PathBuf> {
    let store = real_models()?;
    let all = ["ocr-small", "pdfium", "onnxruntime"];
    all.iter().all(|it| store.join(it).join("riddle-model.json").is_file()).then_some(store)
}

const WHY: &str = "what reads pictures is not installed: `riddle models pull ocr-small`";

pub(crate) fn contract() -> Vec<u8> {
    std::fs::read(workspace().join("tests/golden/scan/contract.pdf")).expect("the contract")
}

#[test]
fn a_scanned_contract_answers_with_its_page() {
    let Some(store) = readers() else { return skipped(WHY) };
    let (riddle, files) = (Riddle::with_models(store), TempDir::new().expect("a folder"));
    write(files.path(), "contract.pdf", contract());
    write(files.path(), "boat.md", "# Boat\n\nSandpiper is nine metres long.\n");
    // Off: nothing is read, and it is said how much there is.
    let report = riddle.json(&["index", "--scans", "off", &files.path().to_string_lossy()]);
    assert_eq!(report["states"]["no_text"], 1, "{report:#}");
    assert_eq!(report["pictures"], 0, "{report:#}");
    let report = riddle.json(&["index", "--scans", "all"]);
    assert_eq!(
        (&report["pictures"], &report["states"]["indexed"]),
        (&2.into(), &2.into()),
        "{report:#}"
    );
    assert_eq!(report["read"], 0, "no file, only what is in it: {report:#}");
    let status = riddle.json(&["status", "--files"]);
    assert_eq!(
        (&status["pictures"]["read"], &status["pictures"]["waiting"]),
        (&2.into(), &0.into())
    );
    let warned = status["files"].to_string();
    assert!(warned.contains("2 pages read as pictures"), "{status:#}");
    let answer = riddle.json(&["ask", "How high is the deposit?"]);
    assert!(answer["answer"].as_str().is_some_and(|it| it.contains("1,480")), "{answer:#}");
    let cited = answer["citations"].as_array().expect("citations");
    let there = |it: &serde_json::Value| {
        it["location"]["kind"] == "page"
            && it["location"]["end"] == 2
            && it.to_string().contains("contract.pdf")
    };
    assert!(cited.iter().any(there), "{answer:#}");
    // Without changes nothing is read again.
    assert_eq!(riddle.json(&["index"])["pictures"], 0);
}

#[test]
fn odd_pictures_have_a_state_with_a_reason() {
    let files = TempDir::new().expect("a folder");
    odd(files.path());
    let riddle = readers().map_or_else(Riddle::new, Riddle::with_models);
    let report = riddle.index(files.path());
    let status = riddle.json(&["status", "--files"]);
    for file in status["files"].as_array().expect("files") {
        assert_eq!(file["state"], "no_text", "{report:#} {status:#}");
        assert!(file["reason"].as_str().is_some_and(|it| !it.is_empty()), "{status:#}");
    }
}

/// Truncated, lying, and huge ones.
fn odd(folder: &Path) {
    write(folder, "cut.png", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x40\0\0\0\x40\0"[..]);
    write(folder, "lies.jpg", &b"no picture at all"[..]);
    let mut bitmap = b"BM".to_vec();
    bitmap.extend([0; 8]);
    for number in [54_u32, 40, 60_000, 60_000] {
        bitmap.extend(number.to_le_bytes());
    }
    bitmap.extend([1, 0, 24, 0]);
    bitmap.extend([0; 24]);
    write(folder, "huge.bmp", bitmap);
}
