//! Pages that are pictures: which of them are read, what reading the others would take, and where on a page its lines
//! stand.

use std::time::{SystemTime, UNIX_EPOCH};

use riddle_catalog::{Catalog, FileId};
use riddle_ingest::SeenLine;
use riddle_types::Block;
use serde::{Deserialize, Serialize};

use super::{
    records::Records,
    settings::{READ_SCANS, scans_since},
    status::{self, SECONDS_A_PAGE},
};
use crate::contract::{ReadScans, Result, ScanSettings};

/// What is kept of a page that is a picture.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PictureSaid {
    /// Its text.
    pub(crate) blocks: Vec<Block>,
    /// Why there is none.
    pub(crate) why: Option<String>,
    /// Its lines, with their places on the page; homes of earlier versions have none.
    #[serde(default)]
    pub(crate) lines: Vec<SeenLine>,
}

/// A line of a page that was read as a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenOnPage {
    /// The page, from 1; a file that is a picture has one.
    pub page: u32,
    /// What the line says, and where.
    pub line: SeenLine,
}

/// Which pages that are pictures are read from now on.
pub(crate) fn read_scans(catalog: &Catalog, which: ReadScans) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let value = match which {
        ReadScans::Off => "off".to_owned(),
        ReadScans::New => format!("new {now}"),
        ReadScans::All => "all".to_owned(),
    };
    Ok(catalog.set_setting(READ_SCANS, Some(&value))?)
}

impl Records {
    /// Which scans and pictures are read, how far that is, and what reading the others would take.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn scans(&self) -> Result<ScanSettings> {
        let which = match scans_since(&self.catalog)? {
            None => ReadScans::Off,
            Some(i64::MIN) => ReadScans::All,
            Some(_) => ReadScans::New,
        };
        let pictures = status::pictures(&self.config, &self.catalog)?;
        let all = self.catalog.count_pictures(i64::MIN)?.0;
        let left_out = if which == ReadScans::Off { all } else { all - pictures.waiting };
        Ok(ScanSettings { which, pictures, left_out, left_out_seconds: left_out * SECONDS_A_PAGE })
    }

    /// Which scans and pictures are read from now on. What is at work sees it when it begins anew.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn read_scans(&self, which: ReadScans) -> Result<()> {
        read_scans(&self.catalog, which)
    }

    /// Lines of `pages` of a file, the first and the last of them included, as far as they were read as pictures.
    pub(super) fn seen(&self, file: FileId, pages: (u32, u32)) -> Result<Vec<SeenOnPage>> {
        Ok(lines(self.catalog.said_on_pages(file, pages)?))
    }
}

/// Lines of what pages say.
fn lines(pages: Vec<(u32, String, f64)>) -> Vec<SeenOnPage> {
    let of = |(page, said, _): (u32, String, f64)| {
        let said: PictureSaid = serde_json::from_str(&said).unwrap_or_default();
        said.lines.into_iter().map(move |line| SeenOnPage { page, line })
    };
    pages.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Config;

    #[test]
    fn what_is_read_is_chosen_and_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(dir.path().join("home"))).expect("a home");
        assert_eq!(records.scans().expect("read").which, ReadScans::All);
        for which in [ReadScans::Off, ReadScans::New, ReadScans::All] {
            records.read_scans(which).expect("written");
            let scans = records.scans().expect("read");
            assert_eq!((scans.which, scans.left_out, scans.left_out_seconds), (which, 0, 0));
            assert_eq!(scans.pictures.off, which == ReadScans::Off);
        }
    }

    #[test]
    fn lines_of_pages_are_found_and_homes_of_before_have_none() {
        let line = |text: &str| SeenLine {
            text: text.to_owned(),
            place: [0.1, 0.2, 0.3, 0.4],
            sure: None,
        };
        let said = |text: &str| {
            let said = PictureSaid { lines: vec![line(text)], ..PictureSaid::default() };
            serde_json::to_string(&said).expect("JSON")
        };
        let before = r#"{"blocks": [], "why": null}"#.to_owned();
        let pages = vec![(1, said("one"), 0.9), (2, before, 0.9), (3, said("three"), 0.9)];
        let all: Vec<(u32, String)> =
            lines(pages).into_iter().map(|it| (it.page, it.line.text)).collect();
        assert_eq!(all, [(1, "one".to_owned()), (3, "three".to_owned())]);
        assert_eq!(lines(Vec::new()), []);
    }
}
