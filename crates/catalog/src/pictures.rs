//! Pages that are pictures, and pictures in files: which wait to be read, and what the others say.

use std::path::PathBuf;

use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::{Catalog, FileId, FileOutcome, Result, catalog::now, paths::from_bytes};

/// A page that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingPicture {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: PathBuf,
    /// The page, from 1, or the number of a picture in the file; a file that is a picture has one.
    pub page: u32,
}

/// What the pages of a file say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SaidPictures {
    /// Hash of the bytes that were read.
    pub content_hash: Option<[u8; 32]>,
    /// Page, what it says as it was given, and how sure that is.
    pub pages: Vec<(u32, String, f64)>,
}

/// Notes which pages of a file are pictures. What they said is kept while its bytes stay the same.
pub(crate) fn note(transaction: &Transaction<'_>, outcome: &FileOutcome) -> Result<()> {
    let id = outcome.file.0;
    let before: Option<Option<Vec<u8>>> = transaction
        .prepare_cached("SELECT content_hash FROM files WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(before) = before else { return Ok(()) };
    if before.as_deref() != outcome.content_hash.as_ref().map(<[u8; 32]>::as_slice) {
        transaction.prepare_cached("DELETE FROM pictures WHERE file = ?1")?.execute([id])?;
    } else {
        let mut pages = transaction.prepare_cached("SELECT page FROM pictures WHERE file = ?1")?;
        let pages: Vec<u32> =
            pages.query_map([id], |row| row.get(0))?.collect::<std::result::Result<_, _>>()?;
        for page in pages.iter().filter(|it| !outcome.pictures.contains(it)) {
            transaction
                .prepare_cached("DELETE FROM pictures WHERE file = ?1 AND page = ?2")?
                .execute(params![id, page])?;
        }
    }
    for page in &outcome.pictures {
        transaction
            .prepare_cached(
                "INSERT INTO pictures (file, page, since) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?
            .execute(params![id, page, now()])?;
    }
    Ok(())
}

impl Catalog {
    /// Pages that wait to be read and were noted at `since` (in seconds since 1970) or later, those of one file
    /// together; files that wait to be read themselves are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn waiting_pictures(&self, since: i64, limit: usize) -> Result<Vec<WaitingPicture>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT files.id, roots.path, files.path, pictures.page
             FROM pictures JOIN files ON files.id = pictures.file JOIN roots ON roots.id = files.root
             WHERE pictures.said IS NULL AND pictures.since >= ?1
                   AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.file = files.id)
             ORDER BY files.modified_ns DESC, files.id, pictures.page LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![since, limit], |row| {
            let root: Vec<u8> = row.get(1)?;
            Ok(WaitingPicture {
                file: FileId(row.get(0)?),
                path: from_bytes(root).join(from_bytes(row.get(2)?)),
                page: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<std::result::Result<_, _>>()?)
    }

    /// Pages that wait, of those noted at `since` or later, and pages that are read.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_pictures(&self, since: i64) -> Result<(u64, u64)> {
        let counts: (i64, i64) = self.connection().query_row(
            "SELECT count(*) FILTER (WHERE said IS NULL AND since >= ?1), count(*) FILTER (WHERE said IS NOT NULL)
             FROM pictures",
            [since],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok((counts.0.cast_unsigned(), counts.1.cast_unsigned()))
    }

    /// Keeps what a page says, in the caller's own words.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn put_picture(&self, file: FileId, page: u32, said: &str, sure: f64) -> Result<()> {
        self.transaction(|transaction| {
            transaction
                .prepare_cached(
                    "UPDATE pictures SET said = ?3, sure = ?4 WHERE file = ?1 AND page = ?2",
                )?
                .execute(params![file.0, page, said, sure])?;
            Ok(())
        })
    }

    /// What the pages of a file say that are read, of those from the first to the last of `pages`: page, what it says,
    /// and how sure that is.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn said_on_pages(
        &self,
        file: FileId,
        (first, last): (u32, u32),
    ) -> Result<Vec<(u32, String, f64)>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT page, said, sure FROM pictures
             WHERE file = ?1 AND page BETWEEN ?2 AND ?3 AND said IS NOT NULL ORDER BY page",
        )?;
        let rows = statement.query_map(params![file.0, first, last], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        Ok(rows.collect::<std::result::Result<_, _>>()?)
    }

    /// What the pages of a file say that are read.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn said_pictures(&self, file: FileId) -> Result<SaidPictures> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT page, said, sure FROM pictures WHERE file = ?1 AND said IS NOT NULL ORDER BY page",
        )?;
        let rows =
            statement.query_map([file.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let pages: Vec<(u32, String, f64)> = rows.collect::<std::result::Result<_, _>>()?;
        if pages.is_empty() {
            return Ok(SaidPictures::default());
        }
        let hash: Option<Vec<u8>> = connection
            .prepare_cached("SELECT content_hash FROM files WHERE id = ?1")?
            .query_row([file.0], |row| row.get(0))
            .optional()?
            .flatten();
        let content_hash = hash.and_then(|it| it.try_into().ok());
        Ok(SaidPictures { content_hash, pages })
    }
}
