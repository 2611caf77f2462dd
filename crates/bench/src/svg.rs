//! Memory over time as a drawing.

use std::fmt::Write as _;

use crate::{BenchReport, Sample};

/// Size of the drawing and of its margins, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Height of a line of the legend.
const LEGEND_LINE: f64 = 18.0;

/// Colors that stay apart for most eyes (Okabe and Ito 2008).
const COLORS: [&str; 6] = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7"];

/// One line per step, from the moment when the request began.
pub fn memory_chart(report: &BenchReport) -> String {
    let lines: Vec<(&str, Vec<&Sample>)> = report
        .steps
        .iter()
        .map(|it| {
            let during = it.memory_over_time.iter().filter(|it| it.ms >= 0.0).collect();
            (it.name.as_str(), during)
        })
        .collect();
    let all = || lines.iter().flat_map(|(_, samples)| samples.iter());
    let until = nice(all().map(|it| it.ms / 1e3).fold(0.0, f64::max));
    let most = nice(all().map(|it| mib(it.rss_bytes)).fold(0.0, f64::max));
    let x = |ms: f64| LEFT + ms / 1e3 / until * (WIDTH - LEFT - RIGHT);
    let y = |mib: f64| HEIGHT - BOTTOM - mib / most * (HEIGHT - TOP - BOTTOM);
    let mut svg = head(report);
    // Writing to a String can not fail.
    for part in 0..=TICKS {
        let (seconds, size) =
            (until * part as f64 / TICKS as f64, most * part as f64 / TICKS as f64);
        let _ = writeln!(
            svg,
            r##"<line x1="{LEFT}" x2="{:.1}" y1="{:.1}" y2="{:.1}" stroke="#ddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{size:.0}</text><text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
            WIDTH - RIGHT,
            y(size),
            y(size),
            LEFT - 8.0,
            y(size) + 4.0,
            x(seconds * 1e3),
            HEIGHT - BOTTOM + 18.0,
            short(seconds),
        );
    }
    for (index, (name, samples)) in lines.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let points: Vec<String> = samples
            .iter()
            .map(|it| format!("{:.1},{:.1}", x(it.ms), y(mib(it.rss_bytes))))
            .collect();
        let _ = writeln!(
            svg,
            r#"<polyline fill="none" stroke="{color}" stroke-width="2" points="{}"/><text x="{:.1}" y="{:.1}" fill="{color}" text-anchor="end">{}</text>"#,
            points.join(" "),
            WIDTH - RIGHT,
            TOP - 22.0 + LEGEND_LINE * index as f64 + 26.0,
            escaped(name),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Parts that each axis is divided into.
const TICKS: usize = 5;

fn head(report: &BenchReport) -> String {
    let weights = if report.random_weights { ", random weights" } else { "" };
    let title = format!(
        "{}{weights}: {} × {} tokens, {} cores of {}",
        report.shape.as_deref().unwrap_or(&report.model),
        report.candidates,
        report.pair_tokens.max,
        report.machine.cores,
        report.machine.processor,
    );
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/><text x="{LEFT}" y="20" font-size="14">{}</text>
<text x="{LEFT}" y="{}">resident memory of the process, MiB</text><text x="{}" y="{}" text-anchor="end">seconds since the request</text>
"##,
        escaped(&title),
        TOP - 4.0,
        WIDTH - RIGHT,
        HEIGHT - 12.0,
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The next number of one digit times a power of ten, or of one and a half or two and a half.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|it| it * unit).find(|it| *it >= value).unwrap_or(value)
}

/// A number of seconds without digits that say nothing.
fn short(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_numbers_that_read_well() {
        assert_eq!(
            [0.0, 0.9, 1.2, 47.0, 101.0, 1000.0].map(nice),
            [1.0, 1.0, 1.5, 50.0, 150.0, 1000.0]
        );
        assert_eq!([0.0, 0.25, 2.0].map(short), ["0", "0.25", "2"]);
    }
}
