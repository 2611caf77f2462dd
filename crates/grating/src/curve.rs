//! The latency–precision curve of a calibration (Figure 10), as a table and as a chart.

use std::fmt::Write as _;

use crate::{
    Calibration, CalibrationTable, Guarantee, Measured, Meets, Mode,
    chart::{At, LineChart, Reference, Series},
};

/// Precisions that the table has a line for.
const PRECISIONS: [f64; 5] = [0.9, 0.95, 0.98, 0.99, 0.999];

/// Error probabilities that the table has a line for.
const PROBABILITIES: [f64; 4] = [0.1, 0.05, 0.02, 0.01];

impl Calibration {
    /// What can be had: for each mode and size of the result, the threshold per wanted precision and the
    /// factor per allowed error probability, with what they spare; `precision` has a line of its own. Plain text,
    /// lines end with `\n`.
    pub fn to_text(&self, precision: f64) -> String {
        let (least, most) = self.candidates;
        let mut text = format!(
            "{} requests of {least} to {most} documents, {} layers\n",
            self.queries, self.num_layers
        );
        for table in &self.tables {
            table.write(&mut text, precision);
        }
        text
    }

    /// Precision over latency for every size of the result in one mode, cluster pruning as lines and
    /// bounded errors dashed, `precision` as a level. Without recorded times the candidate × layer forwards stand for
    /// latency.
    pub fn to_chart(&self, mode: Mode, precision: f64) -> LineChart {
        // Where there are several kinds, those that most searches use.
        let any_prior = self.tables.iter().any(CalibrationTable::with_prior);
        let of_kind = move |it: &&CalibrationTable| it.mode == mode && it.with_prior() == any_prior;
        let tables = || self.tables_for(0).filter(of_kind);
        let times = tables().all(|it| it.points().all(|it| it.latency_share.is_some()));
        let x = |it: &Measured| {
            100.0 * it.latency_share.filter(|_| times).unwrap_or(it.candidate_layers_share)
        };
        let series = |name: &str, color, dashed, points: Vec<&Measured>| Series {
            name: name.to_owned(),
            points: points.iter().map(|it| (x(it), it.precision)).collect(),
            color,
            dashed,
        };
        let mut lines = Vec::new();
        for (color, table) in tables().enumerate() {
            let k = table.top_k;
            let clusters = table.curve.iter().map(|it| &it.measured).collect();
            lines.push(series(&format!("clusters, top {k}"), color, false, clusters));
        }
        for (color, table) in tables().enumerate() {
            let k = table.top_k;
            let bounded = table.bounded.points.iter().map(|it| &it.measured).collect();
            lines.push(series(&format!("bounded error, top {k}"), color, true, bounded));
        }
        let quantity = if times { "latency, estimated" } else { "candidate × layer forwards" };
        LineChart {
            title: format!("{}: precision and latency, mode {mode}", self.model),
            description: format!(
                "Share of the full forward's results that are kept, over the cost, for {} recorded requests.",
                self.queries
            ),
            x_label: format!("{quantity} (% of the full forward)"),
            y_label: "precision against the full forward".to_owned(),
            series: lines,
            references: vec![Reference {
                label: format!("precision {precision}"),
                at: At::Y(precision),
            }],
        }
    }
}

impl CalibrationTable {
    fn points(&self) -> impl Iterator<Item = &Measured> {
        let bounded = self.bounded.points.iter().map(|it| &it.measured);
        self.curve.iter().map(|it| &it.measured).chain(bounded)
    }

    fn write(&self, text: &mut String, precision: f64) {
        // Writing to a string can not fail.
        let prior = if self.with_prior() { ", with the retrieval prior" } else { "" };
        let size = self.candidates.map_or(String::new(), |it| format!(", up to {it} candidates"));
        let _ = writeln!(text, "\nmode {}, top {}{size}{prior}", self.mode, self.top_k);
        let _ = writeln!(
            text,
            "  {:<22} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7}",
            "wanted", "threshold", "precision", "bound", "forwards", "latency", "layers"
        );
        let mut precisions: Vec<f64> = PRECISIONS.into_iter().chain([precision]).collect();
        precisions.sort_by(f64::total_cmp);
        precisions.dedup();
        for precision in precisions {
            let found = self.threshold_for(precision, Meets::Mean);
            let found = found.map(|it| (it.threshold, &it.measured));
            write_line(text, &format!("precision {precision}"), found);
        }
        for probability in PROBABILITIES {
            let found = self.bounded.point_for(probability, Guarantee::Result);
            let found = found.map(|it| (Some(it.factor), &it.measured));
            write_line(text, &format!("error probability {probability}"), found);
        }
    }
}

fn write_line(text: &mut String, wanted: &str, found: Option<(Option<f32>, &Measured)>) {
    let Some((value, it)) = found else {
        let _ = writeln!(text, "  {wanted:<22} not reached with these requests");
        return;
    };
    let value = value.map_or("never".to_owned(), |it| format!("{it:.4}"));
    let latency = it.latency_share.map_or("-".to_owned(), |it| format!("{:.1} %", 100.0 * it));
    let _ = writeln!(
        text,
        "  {wanted:<22} {value:>9} {:>9.4} {:>7.4} {:>7.1} % {latency:>9} {:>7.2}",
        it.precision,
        it.precision_bound,
        100.0 * it.candidate_layers_share,
        it.layers_run
    );
}
