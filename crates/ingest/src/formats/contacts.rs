//! Address books (vCard): every person is a section.

use riddle_types::{Block, BlockKind, Document, Location};

use super::{
    Shares,
    lines::{Property, properties, when},
};
use crate::{outcome::ParseOutcome, remark::Remark};

/// Most people of one book.
const MOST_CARDS: usize = 20_000;

/// What is kept of a card, and what it is called.
const KEPT: &[(&str, &str)] = &[
    ("NICKNAME", "Also called"),
    ("ORG", "Organization"),
    ("TITLE", "Position"),
    ("ROLE", "Role"),
    ("TEL", "Phone"),
    ("EMAIL", "Mail"),
    ("IMPP", "Chat"),
    ("MEMBER", "Members"),
    ("ADR", "Address"),
    ("BDAY", "Birthday"),
    ("ANNIVERSARY", "Anniversary"),
    ("RELATED", "Related"),
    ("X-ABRELATEDNAMES", "Related"),
    ("X-SPOUSE", "Spouse"),
    ("X-MANAGER", "Manager"),
    ("X-ASSISTANT", "Assistant"),
    ("EXPERTISE", "Knows"),
    ("HOBBY", "Hobbies"),
    ("INTEREST", "Interests"),
    ("URL", "Link"),
    ("CATEGORIES", "Groups"),
    ("NOTE", "Notes"),
];

pub(super) fn parse(_name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let mut document = Document::default();
    let mut open: Option<Vec<Property>> = None;
    let mut cards = 0;
    for property in properties(bytes) {
        let begins = property.value.trim().eq_ignore_ascii_case("VCARD");
        match (property.name.as_str(), &mut open) {
            ("BEGIN", None) if begins => open = Some(vec![property]),
            ("END", Some(_)) if begins => {
                let mut lines = open.take().unwrap_or_default();
                lines.push(property);
                cards += 1;
                if cards > MOST_CARDS {
                    document.warnings.push(Remark::People { most: MOST_CARDS }.into());
                    break;
                }
                let location = Location::Line {
                    start: lines.first().map_or(1, |it| it.line),
                    end: lines.last().map_or(1, |it| it.line),
                };
                document.blocks.extend(card(&lines, location));
            }
            (_, Some(lines)) => lines.push(property),
            _ => {}
        }
    }
    ParseOutcome::Parsed(document)
}

/// Somebody, or a group: the name, and below it what is known.
pub(super) fn card(lines: &[Property], location: Location) -> Vec<Block> {
    let value = |name: &str| {
        let found = lines.iter().find(|it| it.name == name).map(|it| parts(&it.value));
        found.filter(|it| !it.is_empty())
    };
    let name = value("FN").or_else(|| value("N")).or_else(|| value("ORG"));
    let name = name.unwrap_or_else(|| "Somebody".to_owned());
    let mut text = Vec::new();
    for (property, label) in KEPT {
        let values: Vec<String> = lines
            .iter()
            .filter(|it| it.name == *property)
            .map(|it| {
                let value = match *property {
                    "BDAY" | "ANNIVERSARY" => celebrated(it),
                    // It has no parts.
                    "NOTE" => it.value.trim().to_owned(),
                    _ => parts(&it.value),
                };
                let kind = place(&it.parameters);
                if kind.is_empty() { value } else { format!("{value} ({kind})") }
            })
            .filter(|it| !it.is_empty())
            .collect();
        if !values.is_empty() {
            text.push(format!("{label}: {}", values.join("; ")));
        }
    }
    let mut blocks = vec![Block::new(BlockKind::Heading(1), name, location.clone())];
    if !text.is_empty() {
        blocks.push(Block::new(BlockKind::Paragraph, text.join("\n"), location));
    }
    blocks
}

/// A day that is celebrated; the year may be unknown: `--0304`, or one that Apple marks.
fn celebrated(property: &Property) -> String {
    let digits = property.value.trim().replace('-', "");
    let no_year = property.parameter("X-APPLE-OMIT-YEAR").filter(|it| digits.starts_with(it));
    let unknown = property.value.trim().starts_with("--").then_some("");
    let day = no_year.or(unknown).and_then(|it| digits.strip_prefix(it));
    // Of a leap year, since nobody knows.
    match day.map(|it| when(&format!("2000{it}"))) {
        Some(said) if said.starts_with("2000-") => said["2000-".len()..].to_owned(),
        _ => when(&digits),
    }
}

/// A value of several parts: street, town, country.
fn parts(value: &str) -> String {
    value.split(';').map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ")
}

fn place(parameters: &str) -> String {
    let parameters = parameters.to_ascii_uppercase();
    let known = ["HOME", "WORK", "CELL", "FAX"];
    let found: Vec<String> =
        known.iter().filter(|it| parameters.contains(**it)).map(|it| it.to_lowercase()).collect();
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_a_year_and_who_is_close_are_said() {
        let text = b"BEGIN:VCARD\nVERSION:4.0\nFN:Ann\nBDAY:--0412\nBDAY:--04-13\nBDAY:--04\n\
            BDAY;X-APPLE-OMIT-YEAR=1604:1604-05-01\nRELATED;TYPE=spouse;VALUE=text:Ben\n\
            item1.X-ABRELATEDNAMES:Cy\nHOBBY;LEVEL=high:kites\nEND:VCARD\n";
        let outcome = parse("x.vcf", text, &mut Shares::tried());
        let ParseOutcome::Parsed(document) = outcome else { panic!("parses") };
        assert_eq!(
            document.blocks[1].text,
            "Birthday: 04-12 (April); 04-13 (April); 04; 05-01 (May)\n\
             Related: Ben\nRelated: Cy\nHobbies: kites"
        );
    }

    #[test]
    fn people_have_phones_and_addresses() {
        let text = b"BEGIN:VCARD\nVERSION:3.0\nN:Hale;Ann\nFN:Ann Hale\nORG:Wells Boatyard;Sheds\n\
            TEL;TYPE=CELL:+44 174 55\nEMAIL:ann@example.org\nADR;TYPE=HOME:;;3 Malthouse Row;Wells;;;UK\n\
            BDAY:1980-03-04\nPHOTO;ENCODING=b:AAAA\nANNIVERSARY:20010506\nX-SPOUSE:Ben\nNOTE:tall\\; quiet\nEND:VCARD\n\
            BEGIN:VCARD\nFN:Crew\nMEMBER:mailto:ann@example.org\nEND:VCARD\nBEGIN:VCARD\nEND:VCARD\n";
        let ParseOutcome::Parsed(document) = parse("x.vcf", text, &mut Shares::tried()) else {
            panic!("parses")
        };
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Ann Hale",
                "Organization: Wells Boatyard, Sheds\nPhone: +44 174 55 (cell)\nMail: ann@example.org\n\
                 Address: 3 Malthouse Row, Wells, UK (home)\nBirthday: 1980-03-04 (March)\n\
                 Anniversary: 2001-05-06 (May)\nSpouse: Ben\nNotes: tall; quiet",
                "Crew",
                "Members: mailto:ann@example.org",
                "Somebody",
            ]
        );
    }
}
