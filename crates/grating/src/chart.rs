//! Line charts as self-contained SVG: for curves of a calibration, memory over time, ablations.
//!
//! One string without scripts, fonts or links. Colors follow the reader's light or dark scheme, lines
//! differ in dash and mark as well as in color, and `<title>` and `<desc>` are there for readers that do
//! not see. Any text is escaped, points that are not numbers are left out.

use std::fmt::Write as _;

/// A chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineChart {
    /// Above the chart, and the accessible name.
    pub title: String,
    /// What the chart shows, for readers that do not see it.
    pub description: String,
    /// Quantity and unit along x.
    pub x_label: String,
    /// Quantity and unit along y.
    pub y_label: String,
    /// The lines.
    pub series: Vec<Series>,
    /// Lines across the whole chart.
    pub references: Vec<Reference>,
}

/// A line: points in the order in which they are joined.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// Number of the color; lines that belong together share one.
    pub color: usize,
    /// Drawn with gaps.
    pub dashed: bool,
}

/// A line across the chart at one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Written beside it.
    pub label: String,
    /// Where it is.
    pub at: At,
}

/// Where a [`Reference`] is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum At {
    /// An upright line.
    X(f64),
    /// A level line.
    Y(f64),
}

// All lengths in units of the picture, which scales to the page.
const WIDTH: f64 = 760.0;
const PLOT: Plot = Plot { left: 76.0, top: 48.0, width: 656.0, height: 320.0 };
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 20.0;
/// Columns of the legend.
const LEGEND_COLUMNS: usize = 3;
/// Ticks that an axis has at most: more run into each other at this size.
const MOST_TICKS: usize = 8;
/// Points up to which each gets a mark; more would hide the line.
const MOST_MARKS: usize = 40;

/// Colors for light and dark paper, told apart by all common kinds of sight (Okabe & Ito 2008, the dark
/// row lightened).
const COLORS: [(&str, &str); 6] = [
    ("#0072b2", "#56b4e9"),
    ("#b34700", "#ffa94d"),
    ("#007d58", "#3ddc97"),
    ("#a3417c", "#e79ac7"),
    ("#6b5b00", "#f0e442"),
    ("#444444", "#cccccc"),
];

struct Plot {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl LineChart {
    /// The picture, as the text of an SVG file.
    pub fn to_svg(&self) -> String {
        let x = Axis::over(self.values(|it| it.0, |at| matches!(at, At::X(_))));
        let y = Axis::over(self.values(|it| it.1, |at| matches!(at, At::Y(_))));
        let lines = self.series.len().div_ceil(LEGEND_COLUMNS) as f64;
        let height = PLOT.top + PLOT.height + 64.0 + lines * LEGEND_LINE;
        let mut svg = String::new();
        // Writing to a string can not fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-labelledby=\"title desc\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n",
            escape(&self.title),
            escape(&self.description),
        );
        svg.push_str(&style());
        let _ = writeln!(svg, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"title\" x=\"{}\" y=\"28\">{}</text>",
            PLOT.left,
            escape(&self.title)
        );
        self.axes(&mut svg, &x, &y);
        self.draw_references(&mut svg, &x, &y);
        self.series.iter().for_each(|it| it.draw(&mut svg, &x, &y));
        self.legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn values(&self, of: impl Fn(&(f64, f64)) -> f64, along: impl Fn(&At) -> bool) -> Vec<f64> {
        let points = self.series.iter().flat_map(|it| it.finite()).map(|it| of(&it));
        let references = self.references.iter().map(|it| it.at).filter(along);
        points.chain(references.map(At::value)).filter(|it| drawable(*it)).collect()
    }

    fn axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (right, bottom) = (PLOT.left + PLOT.width, PLOT.top + PLOT.height);
        for &tick in &y.ticks {
            let at = PLOT.y(y, tick);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{} {at:.1}H{right}\"/><text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                PLOT.left,
                PLOT.left - 8.0,
                at + 4.0,
                y.label(tick)
            );
        }
        for &tick in &x.ticks {
            let at = PLOT.x(x, tick);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {}V{bottom}\"/><text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
                PLOT.top,
                bottom + 18.0,
                x.label(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{} {}V{bottom}H{right}\"/>\n\
             <text class=\"label\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n\
             <text class=\"label\" text-anchor=\"middle\" transform=\"translate(20 {}) rotate(-90)\">{}</text>",
            PLOT.left,
            PLOT.top,
            PLOT.left + PLOT.width / 2.0,
            bottom + 42.0,
            escape(&self.x_label),
            PLOT.top + PLOT.height / 2.0,
            escape(&self.y_label),
        );
    }

    fn draw_references(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (right, bottom) = (PLOT.left + PLOT.width, PLOT.top + PLOT.height);
        for reference in self.references.iter().filter(|it| drawable(it.at.value())) {
            let label = escape(&reference.label);
            let _ = match reference.at {
                At::X(value) => {
                    let at = PLOT.x(x, value);
                    writeln!(
                        svg,
                        "<path class=\"reference\" d=\"M{at:.1} {}V{bottom}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{}\">{label}</text>",
                        PLOT.top,
                        at + 4.0,
                        PLOT.top + 12.0
                    )
                }
                At::Y(value) => {
                    let at = PLOT.y(y, value);
                    writeln!(
                        svg,
                        "<path class=\"reference\" d=\"M{} {at:.1}H{right}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\">{label}</text>",
                        PLOT.left,
                        PLOT.left + 6.0,
                        at - 5.0
                    )
                }
            };
        }
    }

    fn legend(&self, svg: &mut String) {
        let top = PLOT.top + PLOT.height + 66.0;
        let column = PLOT.width / LEGEND_COLUMNS as f64;
        for (number, series) in self.series.iter().enumerate() {
            let left = PLOT.left + (number % LEGEND_COLUMNS) as f64 * column;
            let at = top + (number / LEGEND_COLUMNS) as f64 * LEGEND_LINE;
            let _ = writeln!(
                svg,
                "<path class=\"{}\" d=\"M{left:.1} {at:.1}h28\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                series.class(),
                left + 36.0,
                at + 4.0,
                escape(&series.name)
            );
        }
    }
}

impl Series {
    fn finite(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(|it| drawable(it.0) && drawable(it.1))
    }

    fn class(&self) -> String {
        let color = self.color % COLORS.len();
        format!("line c{color}{}", if self.dashed { " dashed" } else { "" })
    }

    fn draw(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let points: Vec<(f64, f64)> =
            self.finite().map(|it| (PLOT.x(x, it.0), PLOT.y(y, it.1))).collect();
        let joined: Vec<String> =
            points.iter().map(|it| format!("{:.1} {:.1}", it.0, it.1)).collect();
        if !joined.is_empty() {
            let _ = writeln!(svg, "<path class=\"{}\" d=\"M{}\"/>", self.class(), joined.join("L"));
        }
        if points.len() <= MOST_MARKS {
            let color = self.color % COLORS.len();
            for (x, y) in points {
                let _ = writeln!(
                    svg,
                    "<circle class=\"mark c{color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>"
                );
            }
        }
    }
}

impl At {
    fn value(self) -> f64 {
        match self {
            At::X(value) | At::Y(value) => value,
        }
    }
}

impl Plot {
    fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.place(value) * self.width
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.top + (1.0 - axis.place(value)) * self.height
    }
}

/// Numbers beyond have differences and steps beyond f64: nobody plots them, and nothing may break.
const MOST_VALUE: f64 = 1e100;

/// Values closer than a billionth of this are one.
const LEAST_RANGE: f64 = 1e-90;

fn drawable(value: f64) -> bool {
    value.abs() <= MOST_VALUE
}

/// A range of values with round ticks.
struct Axis {
    ticks: Vec<f64>,
    decimals: usize,
}

impl Axis {
    /// Round ticks 1, 2 or 5 times a power of ten apart that enclose the values.
    fn over(values: Vec<f64>) -> Axis {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match (least.is_finite(), most - least) {
            (false, _) => (0.0, 1.0),
            // One value, or values that f64 hardly tells apart: a range around it.
            (true, range) if range <= least.abs().max(most.abs()).max(LEAST_RANGE) * 1e-9 => {
                let around = least.abs().max(1.0) * 0.5;
                (least - around, most + around)
            }
            (true, _) => (least, most),
        };
        let rough = (high - low) / (MOST_TICKS - 2) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
        let step = step.into_iter().find(|it| *it >= rough).unwrap_or(step[3]);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let count = ((last - first) as usize).min(2 * MOST_TICKS);
        let ticks = (0..=count).map(|it| (first + it as f64) * step).collect();
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        Axis { ticks, decimals }
    }

    fn place(&self, value: f64) -> f64 {
        let (first, last) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        ((value - first) / (last - first)).clamp(0.0, 1.0)
    }

    fn label(&self, tick: f64) -> String {
        // Longer labels leave the picture.
        if tick.abs() >= 1e7 || (tick != 0.0 && self.decimals > 6) {
            return format!("{tick:.2e}");
        }
        // Zero has no sign.
        let tick = if tick == 0.0 { 0.0 } else { tick };
        format!("{tick:.*}", self.decimals)
    }
}

fn style() -> String {
    let colors = |dark: bool| -> String {
        let numbered = COLORS.iter().enumerate();
        numbered
            .map(|(number, it)| format!(".c{number}{{--c:{}}}", if dark { it.1 } else { it.0 }))
            .collect()
    };
    format!(
        "<style>\n\
         svg{{--paper:#ffffff;--ink:#1f2328;--faint:#d0d7de;font-family:system-ui,sans-serif}}\n{}\n\
         @media (prefers-color-scheme:dark){{svg{{--paper:#0d1117;--ink:#e6edf3;--faint:#30363d}}{}}}\n\
         .paper{{fill:var(--paper)}}text{{fill:var(--ink)}}.title{{font-size:16px;font-weight:600}}\n\
         .tick{{font-size:12px}}.label{{font-size:13px}}path{{fill:none}}\n\
         .grid{{stroke:var(--faint);stroke-width:.7}}.axis{{stroke:var(--ink)}}\n\
         .reference{{stroke:var(--ink);stroke-dasharray:2 4}}\n\
         .line{{stroke:var(--c);stroke-width:2;stroke-linejoin:round}}.dashed{{stroke-dasharray:7 4}}\n\
         .mark{{fill:var(--c)}}\n</style>\n",
        colors(false),
        colors(true)
    )
}

/// Text for XML: characters that XML 1.0 does not know become the replacement character.
fn escape(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\n' | '\r' | '\t' => " ".to_owned(),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => '\u{fffd}'.to_string(),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> LineChart {
        LineChart {
            title: "a < b & \"c\"\u{0}".to_owned(),
            x_label: "time (s)".to_owned(),
            y_label: "memory (MiB)".to_owned(),
            series: vec![
                Series { name: "<ours>".to_owned(), points, ..Series::default() },
                Series { name: "none".to_owned(), color: 7, dashed: true, ..Series::default() },
            ],
            references: vec![Reference { label: "limit".to_owned(), at: At::Y(2.0) }],
            ..LineChart::default()
        }
    }

    #[test]
    fn text_is_escaped_and_everything_is_there() {
        let svg = chart(vec![(0.0, 1.0), (1.0, 3.0)]).to_svg();
        for part in [
            "<title id=\"title\">a &lt; b &amp; &quot;c&quot;\u{fffd}</title>",
            "&lt;ours&gt;",
            "time (s)",
            "memory (MiB)",
            ">limit<",
            "prefers-color-scheme:dark",
            "line c1 dashed",
        ] {
            assert!(svg.contains(part), "{part} is not in\n{svg}");
        }
        assert!(!svg.contains("<ours>") && !svg.contains('\u{0}'));
    }

    #[test]
    fn a_point_is_where_it_belongs() {
        let svg = chart(vec![(0.0, 0.0), (10.0, 4.0)]).to_svg();
        // The ticks end at the values: the line runs from corner to corner.
        let line = "d=\"M76.0 368.0L732.0 48.0\"";
        assert!(svg.contains(line), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_enclose() {
        let axis = Axis::over(vec![0.913, 0.9987]);
        assert!(axis.ticks[0] <= 0.913 && *axis.ticks.last().expect("ticks") >= 0.9987);
        assert_eq!(axis.label(axis.ticks[1]), "0.92");
        assert_eq!(axis.label(-0.0), "0.00");
    }

    proptest! {
        /// Whatever the numbers: a picture without a number that is none, and balanced marks.
        #[test]
        fn any_numbers_make_a_picture(points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..60)) {
            let svg = chart(points).to_svg();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            prop_assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
            prop_assert!(svg.len() < 100_000);
        }
    }
}
