//! Figures over time, as the interface draws them.

use riddle_metrics::{History, memory, process_tree};

use super::{Shell, lock};
use crate::{
    dto::{IndexingPoint, MemoryPoint, Performance, ProcessMemory, StagePoint, StageSeries},
    failure::Reply,
};

/// Points of a curve: as many as are told apart on a screen.
const POINTS: usize = 120;
impl Shell {
    pub(crate) fn performance(&self) -> Reply<Performance> {
        let tree = process_tree();
        let mut figures = lock(&self.figures);
        figures.note_memory(&tree);
        let stages = figures.stages.stages().map(|stage| series(&figures.stages, stage)).collect();
        Ok(Performance {
            stages,
            memory: figures
                .memory
                .iter()
                .map(|&(at, pss_bytes, rss_bytes, webview_pss_bytes)| MemoryPoint {
                    at,
                    pss_bytes,
                    rss_bytes,
                    webview_pss_bytes,
                })
                .collect(),
            indexing: figures
                .indexing
                .iter()
                .map(|&(at, files_per_second)| IndexingPoint { at, files_per_second })
                .collect(),
            index_bytes: self.index_bytes(),
            passages: self.records.chunks()?,
            cold_start_ms: self.cold_start_ms(),
            peak_rss_bytes: memory().peak_rss_bytes,
            processes: tree
                .into_iter()
                .map(|it| ProcessMemory {
                    name: it.name,
                    pid: it.pid,
                    pss_bytes: it.pss_bytes,
                    rss_bytes: it.rss_bytes,
                })
                .collect(),
        })
    }
}

fn series(history: &History, stage: &str) -> StageSeries {
    let all = history.summary(stage);
    StageSeries {
        stage: stage.to_owned(),
        count: all.count as u32,
        p50: all.p50,
        p95: all.p95,
        points: history
            .over_time(stage, POINTS)
            .into_iter()
            .map(|it| StagePoint {
                at: it.at,
                p50: it.summary.p50,
                p95: it.summary.p95,
                count: it.summary.count as u32,
            })
            .collect(),
    }
}
