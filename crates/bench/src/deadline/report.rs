//! A grid of deadlines as tables, and what all cells say together.

use std::collections::BTreeMap;

use super::{DeadlineCell, LOADING, Measure, PRELOADED, RANDOM, STI};

/// Cells of one device, deadline and number of candidates.
type Places<'a> = BTreeMap<(u64, u64, usize), Vec<&'a DeadlineCell>>;

fn places(cells: &[DeadlineCell]) -> Places<'_> {
    let mut places: Places<'_> = BTreeMap::new();
    for cell in cells {
        let rate = cell.rate.map_or(u64::MAX, |it| it as u64);
        places.entry((rate, cell.deadline_ms as u64, cell.candidates)).or_default().push(cell);
    }
    places
}

/// The grid as Markdown tables, a row for each cell.
pub fn deadline_table(cells: &[DeadlineCell]) -> String {
    let mut table = String::new();
    for ((rate, deadline, candidates), cells) in places(cells) {
        let rate = if rate == u64::MAX { "real disk".to_owned() } else { format!("{rate} MB/s") };
        table.push_str(&format!(
            "\n**{rate}, {deadline} ms, {candidates} candidates** (as found: {:.3})\n\n",
            cells.first().map_or(0.0, |it| it.given_quality)
        ));
        let measure = cells.first().map_or(Measure::Ndcg, |it| it.measure).name();
        table.push_str(&format!(
            "| system | buffer | planned | met | p50 · p95 · p99 of T | submodel | bits | read | stall, late, delaying | off by | {measure} | kept |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        ));
        for it in cells {
            let [layers, width, read, bits] = it.submodel;
            table.push_str(&format!(
                "| {} | {:.1} MiB | {:.0} % | {:.0} % | {:.2} · {:.2} · {:.2} | {layers:.1} × {width:.1}, {read:.0} | {bits:.1} | {:.2} MB | {:.1}, {:.1}, {:.1} ms | {:.2} | {:.3} | {:.1} MB |\n",
                it.system,
                it.buffer_bytes as f64 / f64::from(1 << 20),
                it.planned * 100.0,
                it.met * 100.0,
                it.took[0],
                it.took[1],
                it.took[2],
                it.bytes_read / 1e6,
                it.stall_ms,
                it.late_ms,
                it.delayed_ms,
                it.prediction_error,
                it.quality,
                it.kept_bytes as f64 / 1e6,
            ));
        }
    }
    table
}

/// What a share of the cells has.
fn share(cells: &[&DeadlineCell], has: impl Fn(&DeadlineCell) -> bool) -> String {
    let count = cells.iter().filter(|it| has(it)).count();
    format!("{count} of {}", cells.len())
}

/// What the cells say together, as a list: whether deadlines hold, and what planning brings beside loading and beside
/// an order drawn at random. A cell is *feasible* where most questions had a plan.
pub fn deadline_summary(cells: &[DeadlineCell]) -> String {
    let mut lines = Vec::new();
    let own = cells.iter().filter(|it| it.system == STI && it.planned >= 0.5);
    let feasible: Vec<&DeadlineCell> = own.collect();
    let all = cells.iter().filter(|it| it.system == STI).count();
    let largest =
        |of: fn(&DeadlineCell) -> f64| feasible.iter().map(|it| of(it)).fold(0.0, f64::max);
    lines.push(format!("feasible cells of {STI}: {} of {all}", feasible.len()));
    lines.push(format!("deadline met by 95 %: {}", share(&feasible, |it| it.met >= 0.95)));
    let within = share(&feasible, |it| it.took[2] <= 1.1);
    lines.push(format!("p99 within 1.1 T: {within}, largest {:.2}", largest(|it| it.took[2])));
    let near = share(&feasible, |it| it.prediction_error <= 0.1);
    lines.push(format!(
        "prediction within 0.1 T at p90: {near}, largest {:.2}",
        largest(|it| it.prediction_error)
    ));
    let still = share(&feasible, |it| it.late_ms <= 3.0);
    let in_time = share(&feasible, |it| it.delayed_ms <= 3.0);
    lines.push(format!("at most 3 ms of stall beyond the planned at p90: {still}"));
    lines.push(format!("at most 3 ms later than predicted by stall, at p90: {in_time}"));
    let measure = cells.first().map_or(Measure::Ndcg, |it| it.measure);
    lines.extend(against_others(&places(cells), measure));
    lines.iter().map(|it| format!("- {it}\n")).collect()
}

/// Quality beside the best of those that load, beside everything preloaded, and beside random orders.
fn against_others(places: &Places<'_>, measure: Measure) -> Vec<String> {
    let (mut loading, mut preloaded, mut random) = (Vec::new(), Vec::new(), Vec::new());
    for cells in places.values() {
        let best = |with: &dyn Fn(&str) -> bool| {
            let of = cells.iter().filter(|it| with(&it.system)).map(|it| it.quality);
            of.reduce(f64::max)
        };
        let loads = best(&|it| LOADING.iter().any(|start| it.starts_with(start)));
        let holds = best(&|it| PRELOADED.contains(&it));
        for own in cells.iter().filter(|it| it.system == STI && it.planned >= 0.5) {
            loading.extend(loads.map(|it| own.quality - it));
            if own.buffer_bytes <= 2 << 20 {
                preloaded.extend(holds.map(|it| own.quality - it));
            }
            let others = cells
                .iter()
                .filter(|it| it.system.starts_with(RANDOM) && it.buffer_bytes == own.buffer_bytes);
            let (sum, count) =
                others.fold((0.0, 0), |(sum, count), it| (sum + it.quality, count + 1));
            // Where everything is read exactly there is no order to choose.
            if count > 0 && own.submodel[3] < 7.5 {
                random.push(own.quality - sum / f64::from(count));
            }
        }
    }
    let count = |of: &[f64], at_least: f64| of.iter().filter(|it| **it >= at_least).count();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let mut lines = Vec::new();
    if !loading.is_empty() {
        lines.push(format!(
            "{} against the best that loads: not 0.003 below in {} of {} cells, least {:+.3}, mean {:+.3}, 0.02 above in {}",
            measure.name(), count(&loading, -0.003), loading.len(), least(&loading), mean(&loading), count(&loading, 0.02)
        ));
    }
    if !preloaded.is_empty() {
        lines.push(format!(
            "against all preloaded as bytes, with at most 2 MiB kept: not 0.01 below in {} of {} cells, least {:+.3}",
            count(&preloaded, -0.01), preloaded.len(), least(&preloaded)
        ));
    }
    if !random.is_empty() {
        lines.push(format!(
            "against random importance, where bits were chosen ({} cells): mean {:+.4}, 0.01 above in {}",
            random.len(), mean(&random), count(&random, 0.01)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(system: &str, quality: f64, bits: f64) -> DeadlineCell {
        DeadlineCell {
            rate: Some(50.0),
            deadline_ms: 100.0,
            candidates: 20,
            buffer_bytes: if system.starts_with(STI) { 1 << 20 } else { 0 },
            system: system.to_owned(),
            questions: 10,
            planned: 1.0,
            met: 1.0,
            took: [0.8, 0.9, 1.2],
            measure: Measure::Ndcg,
            quality,
            given_quality: 0.5,
            prediction_error: 0.05,
            submodel: [4.0, 12.0, 20.0, bits],
            stall_ms: 4.0,
            late_ms: 3.5,
            delayed_ms: 1.5,
            bytes_read: 1e6,
            kept_bytes: 1 << 20,
        }
    }

    #[test]
    fn the_summary_says_what_the_cells_say() {
        let cells = [
            cell(STI, 0.80, 4.0),
            cell("pipeline, 4 bits", 0.77, 4.0),
            cell("load, then execute, 8 bits", 0.60, 8.0),
            cell(PRELOADED[0], 0.85, 8.0),
            cell("STI, random importance 1", 0.78, 4.0),
            cell("STI, random importance 2", 0.80, 4.0),
        ];
        let said = deadline_summary(&cells);
        for part in [
            "feasible cells of STI: 1 of 1",
            "met by 95 %: 1 of 1",
            "within 1.1 T: 0 of 1, largest 1.20",
            "at most 3 ms of stall beyond the planned at p90: 0 of 1",
            "at most 3 ms later than predicted by stall, at p90: 1 of 1",
            "not 0.003 below in 1 of 1 cells, least +0.030, mean +0.030, 0.02 above in 1",
            "not 0.01 below in 0 of 1 cells, least -0.050",
            "where bits were chosen (1 cells): mean +0.0100",
        ] {
            assert!(said.contains(part), "{part} is not in\n{said}");
        }
        assert!(deadline_table(&cells).contains("| pipeline, 4 bits |"));
        assert!(deadline_summary(&[]).contains("0 of 0"));
    }
}
