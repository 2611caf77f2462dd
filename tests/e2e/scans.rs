//! Scans and pictures of text: read last, found by page, and every odd picture has a state with a reason.

use std::path::Path;

use riddle_tests::{Riddle, archive, real_models, skipped, workspace, write};
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
fn pictures_in_archives_mails_and_documents_answer_with_where_they_are() {
    let Some(store) = readers() else { return skipped(WHY) };
    let (riddle, files) = (Riddle::with_models(store), TempDir::new().expect("a folder"));
    let page = std::fs::read(workspace().join("tests/golden/scan/page.jpg")).expect("a page");
    let contract = contract();
    let old: [(&str, &[u8]); 2] = [("scans/page.jpg", &page), ("contract.pdf", &contract)];
    write(files.path(), "old.zip", archive(&old));
    write(files.path(), "mooring.eml", mail("page.jpg", &page));
    write(files.path(), "mooring.docx", docx(&page));
    // What it would take is said beforehand, and why nothing is found.
    riddle.json(&["index", "--scans", "off", &files.path().to_string_lossy()]);
    let status = riddle.json(&["status", "--files"]);
    assert_eq!(
        (&status["pictures"]["read"], &status["pictures"]["waiting"]),
        (&0.into(), &5.into()),
        "{status:#}"
    );
    let of = |status: &serde_json::Value, name: &str| {
        let files = status["files"].as_array().expect("files");
        let file = files.iter().find(|it| it["path"].as_str().is_some_and(|it| it.ends_with(name)));
        file.expect("a file").to_string()
    };
    assert!(of(&status, "old.zip").contains("pictures: what they show is not read"), "{status:#}");
    assert!(of(&status, "mooring.eml").contains("1 more picture in it can be read"), "{status:#}");
    let report = riddle.json(&["index", "--scans", "all"]);
    assert_eq!(
        (&report["pictures"], &report["states"]["indexed"]),
        (&5.into(), &3.into()),
        "{report:#}"
    );
    let status = riddle.json(&["status", "--files"]);
    assert!(of(&status, "old.zip").contains("3 pictures in it read"), "{status:#}");
    // The same picture in each of them: without a filter it is found once.
    let found = |kind: &str| {
        riddle.json(&["search", "rent of the winter mooring", "--type", kind])["hits"].to_string()
    };
    for (kind, place) in
        [("archive", "scans/page.jpg"), ("mail", "\"page.jpg\""), ("document", "picture 1")]
    {
        let mooring = found(kind);
        assert!(mooring.contains(place), "{place}: {mooring}");
    }
    let deposit = riddle.json(&["search", "How high is the deposit?"]);
    let there = |it: &serde_json::Value| {
        it["location"]["kind"] == "part"
            && it["location"]["name"] == "contract.pdf"
            && it["location"]["inside"]["end"] == 2
    };
    let hits = deposit["hits"].as_array().expect("hits");
    assert!(hits.iter().any(there), "{deposit:#}");
    // Without changes nothing is read again.
    let report = riddle.json(&["index"]);
    assert_eq!((&report["pictures"], &report["read"]), (&0.into(), &0.into()), "{report:#}");
}

/// A mail with a text and a file attached.
fn mail(name: &str, bytes: &[u8]) -> Vec<u8> {
    let hex: String = bytes.iter().map(|it| format!("={it:02X}=\n")).collect();
    format!(
        "From: Ida <ida@example.org>\nTo: wells@example.org\nSubject: What we agreed on\n\
         Date: Mon, 2 Mar 2026 10:00:00 +0000\nMIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=cut\n\n--cut\nContent-Type: text/plain\n\nAs attached.\n\
         --cut\nContent-Type: image/jpeg; name=\"{name}\"\n\
         Content-Disposition: attachment; filename=\"{name}\"\n\
         Content-Transfer-Encoding: quoted-printable\n\n{hex}\n--cut--\n"
    )
    .into_bytes()
}

/// A document of one line and a picture.
fn docx(picture: &[u8]) -> Vec<u8> {
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const DRAWING: &str = "http://schemas.openxmlformats.org/drawingml/2006";
    const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
    const MAIN: &str = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    let types = format!(
        "<Types xmlns=\"{PACKAGE}/content-types\"><Default Extension=\"rels\" \
         ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"jpg\" ContentType=\"image/jpeg\"/><Override PartName=\"/word/document.xml\" \
         ContentType=\"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/></Types>"
    );
    let relation = |kind: &str, target: &str| {
        format!(
            "<Relationships xmlns=\"{PACKAGE}/relationships\"><Relationship Id=\"a\" \
             Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/></Relationships>"
        )
    };
    let (package, pictures) =
        (relation("officeDocument", "word/document.xml"), relation("image", "media/page.jpg"));
    let document = format!(
        "<w:document xmlns:w=\"{MAIN}\" xmlns:r=\"{OFFICE}\" xmlns:a=\"{DRAWING}/main\" \
         xmlns:wp=\"{DRAWING}/wordprocessingDrawing\" xmlns:pic=\"{DRAWING}/picture\"><w:body>\
         <w:p><w:r><w:t>The page of last year.</w:t></w:r></w:p><w:p><w:r><w:drawing><wp:inline><a:graphic>\
         <a:graphicData uri=\"{DRAWING}/picture\"><pic:pic><pic:nvPicPr><pic:cNvPr id=\"1\" name=\"p\"/>\
         <pic:cNvPicPr/></pic:nvPicPr><pic:blipFill><a:blip r:embed=\"a\"/></pic:blipFill><pic:spPr/></pic:pic>\
         </a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p></w:body></w:document>"
    );
    archive(&[
        ("[Content_Types].xml", types.as_bytes()),
        ("_rels/.rels", package.as_bytes()),
        ("word/document.xml", document.as_bytes()),
        ("word/_rels/document.xml.rels", pictures.as_bytes()),
        ("word/media/page.jpg", picture),
    ])
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
