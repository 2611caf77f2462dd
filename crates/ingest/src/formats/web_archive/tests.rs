use super::*;

/// What a list is made of.
enum Thing {
    Named(Vec<(&'static str, Thing)>),
    List(Vec<Thing>),
    Text(&'static str),
    Data(Vec<u8>),
}

/// The bytes of every thing, numbers of two bytes for what is in it.
fn things(thing: &Thing, all: &mut Vec<Vec<u8>>) -> u16 {
    let number = all.len() as u16;
    all.push(Vec::new());
    let headed = |kind: u8, count: usize| {
        let mut bytes = vec![kind << 4 | 15, 0x12];
        bytes.extend((count as u32).to_be_bytes());
        bytes
    };
    all[usize::from(number)] = match thing {
        Thing::Named(pairs) => {
            let names: Vec<u16> = pairs.iter().map(|it| things(&Thing::Text(it.0), all)).collect();
            let values: Vec<u16> = pairs.iter().map(|it| things(&it.1, all)).collect();
            let numbers = names.iter().chain(&values).flat_map(|it| it.to_be_bytes());
            headed(13, pairs.len()).into_iter().chain(numbers).collect()
        }
        Thing::List(values) => {
            let numbers: Vec<u16> = values.iter().map(|it| things(it, all)).collect();
            let numbers = numbers.iter().flat_map(|it| it.to_be_bytes());
            headed(10, values.len()).into_iter().chain(numbers).collect()
        }
        Thing::Text(text) if text.is_ascii() => {
            [headed(5, text.len()), text.as_bytes().to_vec()].concat()
        }
        Thing::Text(text) => {
            let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            [headed(6, units.len() / 2), units].concat()
        }
        Thing::Data(data) => [headed(4, data.len()), data.clone()].concat(),
    };
    number
}

fn list_of(all: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"bplist00".to_vec();
    let mut table = Vec::new();
    for thing in all {
        table.extend((bytes.len() as u32).to_be_bytes());
        bytes.extend(thing);
    }
    let at = bytes.len() as u64;
    bytes.extend(table);
    bytes.extend([0, 0, 0, 0, 0, 0, 4, 2]);
    for number in [all.len() as u64, 0, at] {
        bytes.extend(number.to_be_bytes());
    }
    bytes
}

fn binary(thing: &Thing) -> Vec<u8> {
    let mut all = Vec::new();
    things(thing, &mut all);
    list_of(&all)
}

fn in_xml(thing: &Thing) -> String {
    match thing {
        Thing::Named(pairs) => {
            let pair = |it: &(&str, Thing)| format!("<key>{}</key>\n{}", it.0, in_xml(&it.1));
            format!("<dict>{}</dict>", pairs.iter().map(pair).collect::<String>())
        }
        Thing::List(values) if values.is_empty() => "<array/>".to_owned(),
        Thing::List(values) => {
            format!("<array>{}</array>", values.iter().map(in_xml).collect::<String>())
        }
        Thing::Text(text) => format!("<string>{}</string>", text.replace('&', "&amp;")),
        Thing::Data(data) => format!("<data>\n\t{}\n\t</data>", base64(data)),
    }
}

fn base64(data: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |it: &[u8]| {
        let byte = |at: usize| u32::from(it.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let letter = |at: usize| {
            if at <= it.len() {
                char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63])
            } else {
                '='
            }
        };
        (0..4).map(letter).collect::<String>()
    };
    data.chunks(3).map(group).collect::<Vec<_>>().join("\n\t")
}

fn xml_file(thing: &Thing) -> Vec<u8> {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n{}\n</plist>\n",
        in_xml(thing)
    )
    .into_bytes()
}

fn page(html: &[u8], kind: &'static str, encoding: &'static str, address: &'static str) -> Thing {
    Thing::Named(vec![
        (DATA, Thing::Data(html.to_vec())),
        ("WebResourceFrameName", Thing::Text("")),
        (TYPE, Thing::Text(kind)),
        (ENCODING, Thing::Text(encoding)),
        (ADDRESS, Thing::Text(address)),
    ])
}

fn saved() -> Thing {
    let inner = b"<p>The gauge in the inner frame reads 3.2 bar.</p>";
    let outer =
        b"<html><head><title>Prices</title></head><body><p>An anode costs nine.</p></body></html>";
    let frame = |of: Thing, frames: Vec<Thing>| {
        Thing::Named(vec![(PAGE, of), (FRAMES, Thing::List(frames))])
    };
    let inner = frame(page(inner, "text/html", "UTF-8", "https://a.example.org/?x=1&y=2"), vec![]);
    let empty = frame(page(b"<script>1</script>", "text/html", "UTF-8", ""), vec![]);
    Thing::Named(vec![
        (
            PAGE,
            page(
                // The page says another encoding than the one it was saved in.
                "<html><head><meta charset=\"iso-8859-5\"><title>Überwintern</title></head>\
                 <body><h1>Rumpf</h1><p>Der Kiel ist grün.</p></body></html>"
                    .as_bytes(),
                "text/html",
                "UTF-8",
                "https://boat.example.org/keel",
            ),
        ),
        ("WebSubresources", Thing::List(vec![page(b"GIF89a", "image/gif", "", "é.gif")])),
        (
            FRAMES,
            Thing::List(vec![
                empty,
                frame(page(outer, "text/html", "", "https://b.example.org"), vec![inner]),
            ]),
        ),
    ])
}

fn read(bytes: &[u8]) -> ParseOutcome {
    parse("Kiel.webarchive", bytes, &mut Shares::tried())
}

#[test]
fn a_saved_page_is_read_with_its_frames() {
    for bytes in [binary(&saved()), xml_file(&saved())] {
        let ParseOutcome::Parsed(document) = read(&bytes) else { panic!("parses") };
        assert_eq!(document.title.as_deref(), Some("Überwintern"));
        assert_eq!(document.warnings, Vec::<String>::new());
        let seen: Vec<(&str, String)> =
            document.blocks.iter().map(|it| (it.text.as_str(), it.location.to_string())).collect();
        assert_eq!(
            seen,
            [
                ("Rumpf", "Rumpf, paragraph 1".to_owned()),
                ("Der Kiel ist grün.", "Rumpf, paragraph 2".to_owned()),
                ("Prices", "frame 2".to_owned()),
                ("An anode costs nine.", "frame 2, paragraph 1".to_owned()),
                ("https://a.example.org/?x=1&y=2", "frame 3".to_owned()),
                ("The gauge in the inner frame reads 3.2 bar.", "frame 3, paragraph 1".to_owned()),
            ]
        );
    }
}

#[test]
fn texts_are_read_in_their_encoding_and_pictures_are_no_text() {
    let saved = |of: Thing| binary(&Thing::Named(vec![(PAGE, of)]));
    let text = page(b"gr\xFCn", "text/plain", "iso-8859-1", "https://x.example.org/a.txt");
    let ParseOutcome::Parsed(document) = read(&saved(text)) else { panic!("parses") };
    assert_eq!(document.blocks[0].text, "grün");
    assert_eq!(document.title.as_deref(), Some("https://x.example.org/a.txt"));
    let picture = read(&saved(page(b"GIF89a", "image/gif", "", "")));
    assert!(matches!(picture, ParseOutcome::NoText(_)), "{picture:?}");
    let nothing = read(&saved(Thing::Named(vec![])));
    assert!(matches!(nothing, ParseOutcome::NoText(_)), "{nothing:?}");
}

#[test]
fn other_lists_and_cut_ones_have_a_reason() {
    let other = Thing::Named(vec![("Name", Thing::Text("x"))]);
    for bytes in [binary(&other), xml_file(&other), b"not a list".to_vec(), b"bplist00".to_vec()] {
        assert!(matches!(read(&bytes), ParseOutcome::Failed(why) if !why.is_empty()));
    }
    for whole in [binary(&saved()), xml_file(&saved())] {
        // Behind its last value an XML list may end: nothing more is looked for.
        for at in (0..whole.len() - 60).step_by(31) {
            let outcome = read(&whole[..at]);
            assert!(matches!(outcome, ParseOutcome::Failed(_)), "{at}: {outcome:?}");
        }
    }
}

#[test]
fn whatever_bytes_are_changed_it_ends() {
    for whole in [binary(&saved()), xml_file(&saved())] {
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0xFF;
            if other.starts_with(b"bplist") {
                let _ = Binary::open(&other).and_then(|mut it| it.value(it.top, 0));
            } else {
                let _ = xml(&decode(&other).0);
            }
        }
    }
}

#[test]
fn lists_in_themselves_and_lists_that_grow_end_with_a_reason() {
    // What the page is in is the page.
    let own = [vec![0xD1, 0, 1, 0, 0], b"\x5F\x10\x0FWebMainResource".to_vec()];
    assert_eq!(read(&list_of(&own)), ParseOutcome::Failed(Remark::TooDeep.into()));
    // What it is called by is the list itself.
    assert_eq!(
        read(&list_of(&[vec![0xD1, 0, 0, 0, 0]])),
        ParseOutcome::Failed(Remark::NotWebArchive.into())
    );
    // Each list names the next one twelve times.
    let frames = vec![0xD1, 0, 1, 0, 2];
    let mut grown = vec![frames, b"\x5F\x10\x13WebSubframeArchives".to_vec()];
    for next in 3..12_u8 {
        grown.push(std::iter::once(0xAC).chain([0, next].repeat(12)).collect());
    }
    grown.push(vec![0xA0]);
    assert_eq!(read(&list_of(&grown)), ParseOutcome::Failed(Remark::TooMany.into()));
    let deep = "<array>".repeat(100_000);
    let deep = format!("<plist version=\"1.0\"><dict><key>{PAGE}</key>{deep}");
    assert_eq!(read(deep.as_bytes()), ParseOutcome::Failed(Remark::TooDeep.into()));
}

#[test]
fn lengths_that_lie_have_a_reason() {
    for huge in [u32::MAX, 1 << 20] {
        for kind in [0x4F, 0x5F, 0xAF, 0xDF] {
            let mut thing = vec![kind, 0x12];
            thing.extend(huge.to_be_bytes());
            let outcome = read(&list_of(&[thing]));
            assert!(matches!(outcome, ParseOutcome::Failed(_)), "{outcome:?}");
        }
    }
    let whole = binary(&saved());
    for at in whole.len() - 26..whole.len() {
        for byte in [0, 1, 9, 0xFF] {
            let mut other = whole.clone();
            other[at] = byte;
            let _ = read(&other);
        }
    }
}

#[test]
fn not_all_of_a_thousand_frames_are_read() {
    let frame = || Thing::Named(vec![(PAGE, page(b"<p>word</p>", "text/html", "", ""))]);
    let frames = Thing::List((0..1000).map(|_| frame()).collect());
    let outcome =
        read(&binary(&Thing::Named(vec![(PAGE, page(b"<p>x</p>", "", "", "")), (FRAMES, frames)])));
    let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
    assert_eq!(document.blocks.iter().filter(|it| it.text == "word").count(), MOST_FRAMES);
    assert_eq!(document.warnings, ["not all of it is read: it holds too many files"]);
}
