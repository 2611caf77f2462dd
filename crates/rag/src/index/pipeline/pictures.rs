//! Pages that are pictures: read last, one at a time.

use std::time::Instant;

use super::{Pipeline, vector_run::VectorRun};
use crate::{
    contract::{IndexEvent, IndexReport, Result},
    index::{pace::Pace, read::read_picture},
};

impl Pipeline<'_> {
    /// Reads pages that wait and are pictures, those of files that were changed lately first; files all of whose pages
    /// are read are queued, to be read once more with them. Ends early, in good order, when told to stop or when
    /// `interrupted`; whether a file was queued, and whether it came to the end.
    pub(crate) fn read_pictures(
        &self,
        since: i64,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<(bool, bool)> {
        let waiting = self.catalog.waiting_pictures(since, usize::MAX)?;
        let total = waiting.len() as u64;
        let mut run = VectorRun::new(total, self.catalog)?;
        let mut queued = false;
        for (done, picture) in waiting.iter().enumerate() {
            let end = &mut || self.stopped() || interrupted();
            if !self.may_go_on(pace, end, &mut run, observer)? {
                return Ok((queued, false));
            }
            observer(IndexEvent::Pictures { done: done as u64, total });
            self.background.give_way(|| self.stopped());
            let worked = Instant::now();
            let max_bytes = self.config.max_file_bytes;
            // A file that is gone or has changed is the next scan's.
            if let Some((said, sure)) =
                read_picture(&picture.path, picture.page, max_bytes, self.parsers)
            {
                let said = serde_json::to_string(&said).unwrap_or_default();
                self.catalog.put_picture(picture.file, picture.page, &said, f64::from(sure))?;
                report.pictures += 1;
            }
            // Pages of one file come together.
            if waiting.get(done + 1).is_none_or(|it| it.file != picture.file) {
                self.catalog.retry_files(&[picture.file])?;
                queued = true;
            }
            std::thread::sleep(pace.pause_after(worked.elapsed(), run.rest));
        }
        Ok((queued, true))
    }
}
