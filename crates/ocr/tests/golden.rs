//! What is read equals what the reference library reads of the same picture with the same networks.

use std::path::{Path, PathBuf};

use riddle_ocr::{Ocr, Picture};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    width: f32,
    height: f32,
    lines: Vec<GoldenLine>,
}

#[derive(Deserialize)]
struct GoldenLine {
    text: String,
    sure: f32,
    #[serde(rename = "box")]
    corners: Vec<[f32; 2]>,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The networks, where they are installed; without them nothing can be compared.
fn open(test: &str) -> Option<Ocr> {
    let store = workspace().join(".cache/models");
    let library = std::fs::read_dir(store.join("onnxruntime")).ok().and_then(|entries| {
        let paths = entries.filter_map(|it| Some(it.ok()?.path()));
        paths.into_iter().find(|it| it.to_string_lossy().contains("onnxruntime."))
    });
    let models = store.join("ocr-small");
    let Some(library) = library.filter(|_| models.join("PP-OCRv6_rec_small.onnx").is_file()) else {
        use std::io::Write as _;
        let why = format!("SKIPPED: {test}: what reads pictures is not installed\n");
        let _ = std::io::stderr().write_all(why.as_bytes());
        return None;
    };
    Some(Ocr::open(&library, &models, 2).expect("the networks"))
}

#[test]
fn a_page_is_read_as_the_reference_library_reads_it() {
    let Some(mut ocr) = open("a_page_is_read_as_the_reference_library_reads_it") else { return };
    let folder = workspace().join("tests/golden/scan");
    let golden = std::fs::read(folder.join("page.json")).expect("the golden values");
    let golden: Golden = serde_json::from_slice(&golden).expect("JSON");
    let picture = std::fs::read(folder.join("page.jpg")).expect("the page");
    let picture = Picture::decode(&picture).expect("a picture");
    let read = ocr.read(&picture).expect("read");
    assert_eq!(read.turned, 0);
    assert_eq!(read.lines.len(), golden.lines.len(), "{:?}", read.lines);
    for (ours, theirs) in read.lines.iter().zip(&golden.lines) {
        assert_eq!(ours.text, theirs.text);
        // The reference cuts lines with another filter: letters are the same, how sure they are nearly so.
        assert!((ours.sure - theirs.sure).abs() < 0.03, "{ours:?}: {}", theirs.sure);
        let bound = |axis: usize, pick: fn(f32, f32) -> f32| {
            theirs.corners.iter().map(|it| it[axis]).reduce(pick).expect("corners")
        };
        let expected = [
            bound(0, f32::min) / golden.width,
            bound(1, f32::min) / golden.height,
            bound(0, f32::max) / golden.width,
            bound(1, f32::max) / golden.height,
        ];
        for (ours, theirs) in ours.place.iter().zip(expected) {
            // One part in a hundred of the page is six points of it.
            assert!((ours - theirs).abs() < 0.012, "{ours} for {theirs}");
        }
    }
}

#[test]
fn a_page_on_its_side_or_on_its_head_says_the_same() {
    let Some(mut ocr) = open("a_page_on_its_side_or_on_its_head_says_the_same") else { return };
    let page = std::fs::read(workspace().join("tests/golden/scan/page.jpg")).expect("the page");
    let mut picture = image::load_from_memory(&page).expect("a picture").into_rgb8();
    let words = |ocr: &mut Ocr, picture: &image::RgbImage| -> Vec<String> {
        let (width, height) = picture.dimensions();
        let picture = Picture::new(width, height, picture.to_vec()).expect("three bytes a point");
        let read = ocr.read(&picture).expect("read");
        let all: Vec<&str> = read.lines.iter().map(|it| it.text.as_str()).collect();
        all.join(" ").split_whitespace().map(str::to_owned).collect()
    };
    let upright = words(&mut ocr, &picture);
    assert!(upright.len() > 20, "{upright:?}");
    for quarters in 1..4 {
        picture = image::imageops::rotate90(&picture);
        let turned = words(&mut ocr, &picture);
        let same = upright.iter().filter(|it| turned.contains(it)).count();
        assert!(same * 10 >= upright.len() * 9, "{quarters} quarters: {turned:?}");
    }
}
