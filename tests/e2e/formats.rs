//! Everything a person has: tables, mails, calendars, archives. Files are made here; what is asked is answered from the
//! right place in the right one.

use std::path::Path;

use riddle_tests::{Riddle, archive, real_models, skipped, workbook, write};
use serde_json::Value;
use tempfile::TempDir;

/// Purchases, on two sheets: days are counted as spreadsheets count them (46085 is 4 March 2026).
fn purchases() -> Vec<u8> {
    workbook(&[
        (
            "Purchases",
            &[
                &["Bakery, first quarter"],
                &["Date", "Item", "Supplier", "Paid"],
                &["@46054", "Flour", "Hale mill", "287.4"],
                &["@46058", "Butter", "Dairy Nunney", "96"],
                &["@46085", "Flour", "Hale mill", "312.5"],
                &["@46090", "Salt", "Corner shop", "8.2"],
                &["@46120", "Flour", "Hale mill", "305"],
            ],
        ),
        ("Staff", &[&["Name", "Phone"], &["Oskar Lind", "0174 5552"], &["Ida Berg", "0174 9981"]]),
    ])
}

fn measurements() -> String {
    let rows = (0..2000).map(|n| format!("{n},{}.25,{}\n", n % 17, n * 3));
    std::iter::once("second,pressure,flow\n".to_owned()).chain(rows).collect()
}

fn library(folder: &Path) {
    write(folder, "purchases.xlsx", purchases());
    write(folder, "measurements.csv", measurements());
    write(folder, "rents.csv", "Place;Month;Rent\nMalthouse Row;March;740\nQuay shed;March;125\n");
    let lease = b"# Lease\n\nThe quay shed is let until October 2031.\n";
    write(folder, "papers.zip", archive(&[("shed/lease.md", lease), ("shed/plan.bin", b"\0\0\0")]));
    write(
        folder,
        "boat.ics",
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Haul out at the slip\nDTSTART:20260418T090000\n\
         LOCATION:Pier 3\nEND:VEVENT\nBEGIN:VEVENT\nSUMMARY:Insurance renewal\nDTSTART:20260601\nEND:VEVENT\n\
         END:VCALENDAR\n",
    );
    write(
        folder,
        "people.vcf",
        "BEGIN:VCARD\nFN:Jonas Weir\nORG:Weir Engines\nTEL;TYPE=CELL:0151 7770\nEND:VCARD\n",
    );
    write(
        folder,
        "archive.mbox",
        "From a Mon\nFrom: Ann <ann@example.org>\nSubject: The winch\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n\n\
         The winch takes thirteen metres of chain.\n\nFrom b Tue\nFrom: Ben <ben@example.org>\nSubject: Keys\n\
         Date: Tue, 3 Mar 2026 10:00:00 +0000\n\nThe boathouse key hangs behind the barometer.\n",
    );
    write(
        folder,
        "mail/cur/1700000000.M1.host:2,S",
        "From: Cora <cora@example.org>\nTo: ann@example.org\nSubject: Varnish\nDate: Wed, 4 Mar 2026 10:00:00 +0000\n\n\
         Three coats of spar varnish are enough for the mast.\n",
    );
    write(
        folder,
        "tides.ipynb",
        "{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"markdown\", \"source\": \"# Tides\\n\\nThe gauge at Watchet reads high.\"},\
         {\"cell_type\": \"code\", \"source\": \"offset = 0.34  # metres to subtract\"}]}",
    );
    write(
        folder,
        "film.srt",
        "1\n00:12:05,000 --> 00:12:08,000\nThe treasure is under the lighthouse stairs.\n",
    );
    more(folder);
    write(
        folder,
        "plan.org",
        "#+TITLE: Plan\n* TODO Replace the bilge hose :boat:\nIt is 38 millimetres wide.\n",
    );
}

fn more(folder: &Path) {
    write(
        folder,
        "stock.tsv",
        "Part\tShelf\tLeft\nImpeller\tC4\t2\nZinc anode\tA1\t11\nFuel filter\tB7\t5\n",
    );
    write(
        folder,
        "offer.eml",
        "From: Weir <office@example.org>\r\nTo: ann@example.org\r\nSubject: Offer for the gearbox\r\n\
         Date: Thu, 5 Mar 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n\
         --x\r\nContent-Type: text/plain\r\n\r\nOur offer is attached and holds for thirty days.\r\n--x\r\n\
         Content-Type: text/csv; name=offer.csv\r\nContent-Disposition: attachment; filename=offer.csv\r\n\r\n\
         Work,Price\r\nRebuild of the gearbox,1890\r\nNew coupling,240\r\n--x--\r\n",
    );
    write(
        folder,
        "bookmarks.html",
        "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n<DT><H3>Sailing</H3>\n<DL><p>\n\
         <DT><A HREF=\"https://tides.example.org/watchet\">Tide tables of the Bristol Channel</A>\n</DL><p>\n</DL>\n",
    );
    write(
        folder,
        "novel.fb2",
        "<FictionBook><description><title-info><book-title>The Ferryman</book-title></title-info></description><body>\
         <section><title><p>The crossing</p></title><p>Old Matthias counted nine lanterns on the far shore.</p></section>\
         </body></FictionBook>",
    );
    write(
        folder,
        "rigging.tex",
        "\\documentclass{article}\n\\begin{document}\n\\section{Shrouds}\nThe shrouds are of seven millimetre wire.\n\
         \\section{Stays}\nThe backstay is tensioned to nine hundred newtons.\n\\end{document}\n",
    );
    write(
        folder,
        "pump.rs",
        "/// Litres that the bilge pump moves in an hour.\npub const LITRES_PER_HOUR: u32 = 1900;\n\n\
         /// Stops the pump when the float switch has been down for five seconds.\npub fn stop_after() -> u32 {\n    5\n}\n",
    );
    write(
        folder,
        "house.md",
        "# House\n\n| Room | Colour | Paint left |\n|---|---|---|\n| Kitchen | ochre | half a tin |\n| Attic | white | none |\n",
    );
    let diary = "# Diary\n\nOn Sunday we rowed to the island and saw two ospreys.\n";
    write(
        folder,
        "old.zip",
        archive(&[
            ("2019/diary.md", diary.as_bytes()),
            ("2019/costs.csv", b"What,Cost\nNew oars,95\n"),
        ]),
    );
}

/// A question, its file, the place in it, and words of the passage.
const QUESTIONS: [(&str, &str, &str, &str); 32] = [
    (
        "what did we pay for flour in March",
        "purchases.xlsx",
        "Purchases!A1:D7",
        "2026-03-04 (March) | Flour | Hale mill | 312.5",
    ),
    ("phone of Oskar Lind", "purchases.xlsx", "Staff!A1:B3", "Oskar Lind | 0174 5552"),
    ("what is the rent of the quay shed", "rents.csv", "rows 2–3", "Quay shed | March | 125"),
    ("until when is the quay shed let", "papers.zip", "shed/lease.md, line 3", "October 2031"),
    ("when do we haul out at the slip", "boat.ics", "lines 2–6", "2026-04-18 09:00 (April)"),
    ("when is the insurance renewal", "boat.ics", "lines 7–10", "2026-06-01"),
    ("phone number of Jonas Weir", "people.vcf", "lines 1–5", "0151 7770"),
    ("how much chain does the winch take", "archive.mbox", "message 1", "thirteen metres"),
    ("where does the boathouse key hang", "archive.mbox", "message 2", "behind the barometer"),
    ("how many coats of varnish for the mast", "1700000000.M1.host:2,S", "message", "Three coats"),
    ("which gauge reads high", "tides.ipynb", "cell 1", "Watchet"),
    ("offset metres to subtract", "tides.ipynb", "cell 2, line 1", "0.34"),
    ("where is the treasure", "film.srt", "00:12:05–00:12:08", "lighthouse stairs"),
    ("what did the salt cost", "purchases.xlsx", "Purchases!", "Salt | Corner shop | 8.2"),
    ("who supplies the butter", "purchases.xlsx", "Purchases!", "Dairy Nunney"),
    ("phone of Ida Berg", "purchases.xlsx", "Staff!", "0174 9981"),
    ("rent of Malthouse Row", "rents.csv", "rows 2–3", "Malthouse Row | March | 740"),
    ("on which shelf is the impeller", "stock.tsv", "rows 2–4", "Impeller | C4 | 2"),
    ("how many zinc anodes are left", "stock.tsv", "rows 2–4", "Zinc anode | A1 | 11"),
    ("price of the rebuild of the gearbox", "offer.eml", "offer.csv, rows 2–3", "1890"),
    ("for how long does the gearbox offer hold", "offer.eml", "message", "thirty days"),
    ("what does a new coupling cost", "offer.eml", "offer.csv, rows 2–3", "New coupling | 240"),
    ("tide tables of the Bristol Channel", "bookmarks.html", "line 5", "tides.example.org/watchet"),
    ("how many lanterns did Matthias count", "novel.fb2", "The crossing", "nine lanterns"),
    ("how thick is the wire of the shrouds", "rigging.tex", "Shrouds", "seven millimetre"),
    ("tension of the backstay", "rigging.tex", "Stays", "nine hundred newtons"),
    ("how many litres does the bilge pump move in an hour", "pump.rs", "lines 1–", "1900"),
    ("when does the float switch stop the pump", "pump.rs", "lines ", "five seconds"),
    ("which colour has the kitchen", "house.md", "lines 1–6", "Kitchen | ochre"),
    ("what did the new oars cost", "old.zip", "2019/costs.csv, row", "New oars | 95"),
    ("where did we see two ospreys", "old.zip", "2019/diary.md, line 3", "rowed to the island"),
    ("how wide is the bilge hose", "plan.org", "lines 2–3", "38 millimetres"),
];

/// Asks everything; returns what was not found among the first two.
fn missed(riddle: &Riddle) -> Vec<String> {
    let mut missed = Vec::new();
    for (question, file, place, words) in QUESTIONS {
        let found = riddle.json(&["search", question, "--no-rerank", "-k", "2"]);
        let hits = found["hits"].as_array().expect("hits");
        let right = hits.iter().any(|it| {
            let text = it["text"].as_str().unwrap_or_default();
            it["path"].as_str().is_some_and(|it| it.ends_with(file)) && text.contains(words)
        });
        let page = riddle.run(&["search", question, "--no-rerank", "-k", "2"]).ok();
        if !right || !page.contains(place) {
            missed.push(format!("{question}: {place:?} is not in\n{page}"));
        }
    }
    missed
}

#[test]
fn what_a_person_has_is_found_where_it_stands_by_words_alone() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    library(files.path());
    let report = riddle.index(files.path());
    assert_eq!(report["states"]["indexed"], 19, "{report:#}");
    let missed = missed(&riddle);
    assert!(missed.len() * 10 <= QUESTIONS.len(), "{} missed: {}", missed.len(), missed.join("\n"));
}

#[test]
fn what_is_excluded_is_not_found_by_meaning_either() {
    let Some(store) = real_models() else {
        return skipped(
            "the default embedder is not installed: `riddle models pull all-MiniLM-L6-v2`",
        );
    };
    let (riddle, files) = (Riddle::with_models(store), TempDir::new().expect("a folder"));
    write(files.path(), "rent.md", "The monthly rent is due on the third working day.");
    write(files.path(), "flat.md", "What the flat costs us every month: 740 euros.");
    riddle.index(files.path());
    assert_eq!(riddle.find("what do we pay for rent").len(), 2);
    assert_eq!(riddle.find("what do we pay for rent -\"working day\""), ["flat.md"]);
    assert_eq!(riddle.find("what do we pay for rent -euros"), ["rent.md"]);
}

#[test]
fn numbers_have_no_vectors_and_rows_do() {
    let Some(store) = real_models() else {
        return skipped(
            "the default embedder is not installed: `riddle models pull all-MiniLM-L6-v2`",
        );
    };
    let (riddle, files) = (Riddle::with_models(store), TempDir::new().expect("a folder"));
    library(files.path());
    let report = riddle.index(files.path());
    let status = riddle.json(&["status"]);
    let meaning = &status["meaning"];
    let numbers = meaning["words_alone"].as_u64().expect("a count");
    assert!(numbers > 20, "{status:#}");
    assert_eq!(
        meaning["passages"].as_u64().map(|it| it + numbers),
        status["chunks"].as_u64(),
        "{status:#}"
    );
    assert_eq!(meaning["done"], meaning["passages"], "{status:#}");
    assert!(report["embedded"].as_u64() < Some(60), "{report:#}");
    assert!(riddle.run(&["status"]).ok().contains("searchable by words and by meaning"));
    // A measurement is found by its words.
    assert_eq!(
        riddle.find("\"1234 10.25 3702\"").first().map(String::as_str),
        Some("measurements.csv")
    );
    let missed = missed(&riddle);
    assert!(missed.len() * 10 <= QUESTIONS.len(), "{} missed: {}", missed.len(), missed.join("\n"));
}

#[test]
fn an_answer_cites_the_cells() {
    let (riddle, files) = (
        real_models().map_or_else(Riddle::new, Riddle::with_models),
        TempDir::new().expect("a folder"),
    );
    library(files.path());
    riddle.index(files.path());
    let answer = riddle.json(&["ask", "What did we pay for flour in March?"]);
    let text = answer["answer"].as_str().unwrap_or_default();
    assert!(text.contains("312.5"), "{answer:#}");
    let cited = answer["citations"].as_array().expect("citations");
    let cells =
        |it: &Value| it["location"]["kind"] == "cells" && it["location"]["sheet"] == "Purchases";
    assert!(cited.iter().any(cells), "{answer:#}");
}

#[test]
fn notes_of_a_vault_are_found_by_tags_other_names_and_what_their_links_show() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    let hull = "---\ntags: [Project/Boat]\naliases: [The blue one]\n---\nThe mooring is [[Quay|by the old crane]].\n";
    write(files.path(), "Marlin.md", hull);
    write(files.path(), "Loft.md", "The mooring of the loft's ladder is loose. #project/house\n");
    write(files.path(), "Bread.md", "No mooring here, issue #12. `#project`\n");
    riddle.index(files.path());
    let found = |more: &[&str]| {
        let asked = [&["search", "mooring", "--no-rerank"][..], more].concat();
        let hits = riddle.json(&asked)["hits"].as_array().expect("hits").clone();
        let name = |it: &Value| {
            let path = it["path"].as_str().expect("a path");
            path.rsplit('/').next().unwrap_or_default().to_owned()
        };
        let mut names: Vec<String> = hits.iter().map(name).collect();
        names.sort();
        names
    };
    assert_eq!(found(&[]).len(), 3);
    assert_eq!(found(&["--tag", "project"]), ["Loft.md", "Marlin.md"]);
    assert_eq!(found(&["--tag", "#project/BOAT"]), ["Marlin.md"]);
    assert_eq!(found(&["--tag", "project/boat", "--tag", "project/house"]).len(), 2);
    assert!(found(&["--tag", "boat"]).is_empty());
    assert_eq!(riddle.run(&["search", "mooring", "--tag", "#"]).code, Some(2));
    for words in ["the blue one", "by the old crane", "quay"] {
        assert_eq!(riddle.find(words).first().map(String::as_str), Some("Marlin.md"), "{words}");
    }
}

#[test]
fn the_same_file_in_three_places_is_shown_once() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    for name in ["a/lease.md", "b/lease copy.md", "c/old.md"] {
        write(files.path(), name, "# Lease\n\nThe quay shed is let until October 2031.\n");
    }
    write(files.path(), "other.md", "# Shed\n\nThe shed has a door.\n");
    riddle.index(files.path());
    let found = riddle.json(&["search", "until when is the quay shed let", "--no-rerank"]);
    let hits = found["hits"].as_array().expect("hits");
    assert_eq!(hits.len(), 2, "{found:#}");
    assert_eq!(hits[0]["also_in"].as_array().map(Vec::len), Some(2), "{found:#}");
    assert_eq!(hits[1]["also_in"], Value::Null, "{found:#}");
    let page = riddle.run(&["search", "quay shed", "--no-rerank"]).ok();
    assert!(page.contains("also in 2 other places: "), "{page}");
}

#[test]
fn versions_of_one_text_are_shown_once_and_other_figures_are_not() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    let lease = "The quay shed is let to the rowing club. The club repairs the roof, keeps the slipway free of weed \
        and pays 120 pounds a month; the town pays for the paint of the doors.\n";
    let versions = [
        ("lease v1.md", lease.to_owned(), 1_000_000_000),
        ("lease final.md", lease.replace("repairs", "mends"), 1_200_000_000),
        ("lease v2.md", lease.replace("repairs", "fixes"), 1_100_000_000),
        ("offer.md", lease.replace("120", "140"), 1_300_000_000),
    ];
    for (name, text, when) in &versions {
        write(files.path(), name, text);
        let file = std::fs::File::options().write(true).open(files.path().join(name));
        let when = std::time::UNIX_EPOCH + std::time::Duration::from_secs(*when);
        file.and_then(|it| it.set_modified(when)).expect("dated");
    }
    riddle.index(files.path());
    let found = riddle.json(&["search", "is the slipway free of weed", "--no-rerank"]);
    let hits = found["hits"].as_array().expect("hits");
    assert_eq!(hits.len(), 2, "{found:#}");
    let shed = hits.iter().find(|it| it["versions"].is_array()).expect("versions");
    assert!(shed["path"].as_str().is_some_and(|it| it.ends_with("lease final.md")), "{shed:#}");
    assert_eq!(shed["versions"].as_array().map(Vec::len), Some(2), "{shed:#}");
    let page = riddle.run(&["search", "slipway", "--no-rerank"]).ok();
    assert!(page.contains("other versions: "), "{page}");
    // The word that is asked for stands in one of the versions alone.
    let found = riddle.json(&["search", "who fixes the roof", "--no-rerank"]);
    let hits = found["hits"].as_array().expect("hits");
    assert!(hits[0]["path"].as_str().is_some_and(|it| it.ends_with("lease v2.md")), "{found:#}");
    assert_eq!(hits.len(), 3, "{found:#}");
}

#[test]
fn a_home_is_checked_repaired_and_taken_elsewhere() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    let nothing = riddle.run(&["check"]).failed(1);
    assert!(nothing.contains("riddle index"), "{nothing}");
    library(files.path());
    riddle.index(files.path());
    assert!(riddle.run(&["check"]).ok().contains("all is well"));
    std::fs::remove_file(files.path().join("plan.org")).expect("removed");
    std::fs::remove_dir_all(riddle.home().join("keyword")).expect("removed");
    let outcome = riddle.run(&["check"]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    for part in ["the keyword index is behind", "1 file is no longer there"] {
        assert!(outcome.stdout.contains(part), "{outcome:#?}");
    }
    let repaired = riddle.run(&["check", "--repair"]).ok();
    assert!(repaired.contains("2 problems put right"), "{repaired}");

    let away = TempDir::new().expect("a folder");
    let copy = away.path().join("library.riddle").display().to_string();
    riddle.run(&["export", &copy]).ok();
    assert!(riddle.run(&["export", &copy]).failed(1).contains("is there already"));
    let (other, moved) = (Riddle::new(), TempDir::new().expect("a folder"));
    library(moved.path());
    let (old, new) =
        (files.path().canonicalize().expect("there"), moved.path().canonicalize().expect("there"));
    let change = format!("{}={}", old.display(), new.display());
    let page = other.run(&["import", &copy, "--moved", &change]).ok();
    assert!(page.contains(&new.display().to_string()) && !page.contains("not here"), "{page}");
    other.run(&["index"]).ok();
    let found =
        other.json(&["search", "where does the boathouse key hang", "--no-rerank", "-k", "1"]);
    let path = found["hits"][0]["path"].as_str().expect("a path");
    assert!(path.starts_with(&new.display().to_string()), "{found:#}");
    let refused = other.run(&["import", &copy]).failed(1);
    assert!(
        refused.contains("holds a library already") && refused.contains("give another home"),
        "{refused}"
    );
    assert!(!refused.contains("move"), "nobody shall move a library away: {refused}");
    let nowhere = away.path().join("nowhere/copy.riddle").display().to_string();
    assert!(other.run(&["export", &nowhere]).failed(1).contains("no such folder"));
    write(away.path(), "no.riddle", "this is not a library");
    let bad = away.path().join("no.riddle").display().to_string();
    let third = Riddle::new();
    assert!(third.run(&["import", &bad]).failed(1).contains("damaged"));
    assert!(
        third
            .run(&["import", &copy, "--moved", "/nowhere=/x"])
            .failed(1)
            .contains("is not indexed")
    );
    third.run(&["import", &copy]).ok();
}

#[test]
fn hostile_containers_have_a_state_with_a_reason() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    let folder = files.path();
    let mut nested = archive(&[("deep.txt", b"the bottom")]);
    for _ in 0..8 {
        nested = archive(&[("inner.zip", &nested), ("note.txt", b"a walrus")]);
    }
    write(folder, "nested.zip", nested);
    let mut parts =
        b"From: a\nSubject: b\nDate: c\nContent-Type: multipart/mixed; boundary=x\n\n".to_vec();
    parts.extend(b"--x\nContent-Type: text/plain\n\ny\n".repeat(10_000));
    write(folder, "parts.eml", parts);
    write(folder, "broken.zip", b"PK\x03\x04 and then nothing");
    // Two cells in opposite corners: a grid of them would be 17 billion.
    let far = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>\
        <row r=\"1\"><c r=\"A1\"><v>1</v></c></row><row r=\"1048576\"><c r=\"XFD1048576\" t=\"inlineStr\">\
        <is><t>narwhal</t></is></c></row></sheetData></worksheet>";
    write(folder, "corners.xlsx", rebuilt(far));
    write(
        folder,
        "entities.fb2",
        "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>\
        <FictionBook><body><section><p>&b;&b; an ibex</p></section></body></FictionBook>",
    );
    let report = riddle.index(folder);
    assert_eq!(report["states"]["indexed"], 3, "{report:#}");
    let status = riddle.json(&["status", "--files"]);
    for file in status["files"].as_array().expect("files") {
        let told = file["reason"].is_string() || file["warnings"].is_array();
        assert!(file["state"] == "indexed" || told, "{file:#}");
    }
    assert_eq!(riddle.find("walrus"), ["nested.zip"]);
    assert_eq!(riddle.find("narwhal"), ["corners.xlsx"]);
    assert_eq!(riddle.find("ibex"), ["entities.fb2"]);
}

/// A workbook with this file as its only sheet.
fn rebuilt(sheet: &str) -> Vec<u8> {
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let packages = "http://schemas.openxmlformats.org/package/2006/relationships";
    let book = format!(
        "<workbook xmlns=\"{main}\" xmlns:r=\"{office}\"><sheets><sheet name=\"Far\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>"
    );
    let relations = format!(
        "<Relationships xmlns=\"{packages}\"><Relationship Id=\"r1\" Type=\"{office}/worksheet\" Target=\"worksheets/sheet1.xml\"/></Relationships>"
    );
    let roots = format!(
        "<Relationships xmlns=\"{packages}\"><Relationship Id=\"b\" Type=\"{office}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
    );
    archive(&[
        ("_rels/.rels", roots.as_bytes()),
        ("xl/workbook.xml", book.as_bytes()),
        ("xl/_rels/workbook.xml.rels", relations.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}
