//! The table of `riddle eval --suite FOLDER --layers`.

use std::collections::BTreeSet;

use riddle_eval::{DomainReport, LayerFigures, OrderFigures, SuiteReport};

use crate::{output::Style, show};

/// What a table is about.
type Field = (&'static str, fn(&OrderFigures) -> f64);

/// Both measures of an order.
const FIELDS: [Field; 2] = [("nDCG@10", |it| it.ndcg_10), ("MRR@10", |it| it.mrr_10)];

/// The orders from the input to what is shown: a table for each measure, and which layers stay behind the input.
/// Nothing where no layers were measured.
pub(super) fn page(report: &SuiteReport, width: usize, style: Style) -> String {
    let of_sets = report.sets.iter().filter_map(|it| it.layers.as_ref());
    let layers: BTreeSet<u32> = of_sets.flat_map(|it| it.after.keys().copied()).collect();
    if layers.is_empty() {
        return String::new();
    }
    let mut page = String::new();
    for (name, field) in FIELDS {
        page.push_str(&format!("\n{}\n", style.bold(format_args!("after each layer, {name}"))));
        let after: String =
            layers.iter().map(|it| format!("{:>9}", format!("layer {it}"))).collect();
        let header = format!("{:<width$}{:>23}{after}{:>9}\n", "set", "input", "shown");
        page.push_str(&style.dim(header));
        for set in &report.sets {
            let of = show::plural(set.queries as u64, "question");
            let name = show::clean(&set.name);
            page.push_str(&row(&name, &of, set.layers.as_ref(), &layers, field, width));
        }
        for it in report.domains.iter().filter(|it| it.of > 1).chain(&report.mean) {
            let (name, of) = named(it);
            page.push_str(&row(&name, &of, it.layers.as_ref(), &layers, field, width));
        }
    }
    page.push('\n');
    layers.iter().for_each(|&layer| page.push_str(&verdict(report, layer)));
    page
}

/// A domain, or the mean over them, and how many of it the reranker has read.
fn named(it: &DomainReport) -> (String, String) {
    let read = it.layers.as_ref().map_or(0, |it| it.of) as u64;
    match &it.name {
        Some(name) => (show::clean(name), show::plural(read, "set")),
        None => ("mean of all".to_owned(), show::plural(read, "domain")),
    }
}

fn row(
    name: &str,
    of: &str,
    figures: Option<&LayerFigures>,
    layers: &BTreeSet<u32>,
    field: fn(&OrderFigures) -> f64,
    width: usize,
) -> String {
    let cell = |it: Option<&OrderFigures>| {
        it.map_or_else(|| format!("{:>9}", "–"), |it| format!("{:>9.4}", field(it)))
    };
    let after: String =
        layers.iter().map(|layer| cell(figures.and_then(|it| it.after.get(layer)))).collect();
    let (input, shown) = (cell(figures.map(|it| &it.input)), cell(figures.map(|it| &it.shown)));
    format!("{name:<width$}{of:>14}{input}{after}{shown}\n")
}

/// The domains on which the order after a layer is worth less than the one that it began with, by nDCG@10.
fn verdict(report: &SuiteReport, layer: u32) -> String {
    let gains: Vec<(String, f64)> = report
        .domains
        .iter()
        .filter_map(|it| {
            let figures = it.layers.as_ref()?;
            let gain = figures.after.get(&layer)?.ndcg_10 - figures.input.ndcg_10;
            Some((show::clean(it.name.as_deref().unwrap_or_default()), gain))
        })
        .collect();
    let behind: Vec<String> = gains
        .iter()
        .filter(|it| it.1 < 0.0)
        .map(|(name, gain)| format!("{name} ({gain:+.4})"))
        .collect();
    let of = show::plural(gains.len() as u64, "domain");
    if behind.is_empty() {
        format!("layer {layer}: not behind its input on any of {of}\n")
    } else {
        let n = behind.len();
        format!("layer {layer}: behind its input on {n} of {of}: {}\n", behind.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use riddle_eval::{Figures, SetReport};

    use super::*;

    fn figures(input: f64, after: f64, shown: f64) -> LayerFigures {
        let order = |ndcg_10| OrderFigures { ndcg_10, mrr_10: ndcg_10 / 2.0 };
        LayerFigures {
            of: 1,
            input: order(input),
            after: BTreeMap::from([(2, order(after)), (3, order(shown))]),
            shown: order(shown),
        }
    }

    fn set(name: &str, layers: Option<LayerFigures>) -> SetReport {
        SetReport {
            name: name.to_owned(),
            domain: Some(name.to_owned()),
            documents: 12,
            queries: 30,
            reused: true,
            figures: Figures::default(),
            regret: None,
            layers,
            candidate_layers_share: None,
            rerank_ms: None,
        }
    }

    fn domain(name: Option<&str>, of: usize, layers: Option<LayerFigures>) -> DomainReport {
        DomainReport { name: name.map(str::to_owned), of, layers, ..DomainReport::default() }
    }

    #[test]
    fn every_layer_is_a_column_and_who_is_behind_is_told() {
        let (mails, code) = (figures(0.4, 0.45, 0.5), figures(0.6, 0.55, 0.7));
        let mut mean = figures(0.5, 0.5, 0.6);
        mean.of = 2;
        let report = SuiteReport {
            sets: vec![
                set("mails", Some(mails.clone())),
                set("code", Some(code.clone())),
                set("thai", None),
            ],
            domains: vec![
                domain(Some("code"), 1, Some(code)),
                domain(Some("mails"), 1, Some(mails)),
                domain(Some("thai"), 1, None),
            ],
            mean: Some(domain(None, 3, Some(mean))),
            ..SuiteReport::default()
        };
        let shown = page(&report, 11, Style::with_colors(false));
        for part in [
            "after each layer, nDCG@10\nset                          input  layer 2  layer 3    shown\n",
            "mails        30 questions   0.4000   0.4500   0.5000   0.5000\n",
            "thai         30 questions        –        –        –        –\n",
            "mean of all     2 domains   0.5000   0.5000   0.6000   0.6000\n",
            "after each layer, MRR@10\n",
            "mails        30 questions   0.2000   0.2250   0.2500   0.2500\n",
            "layer 2: behind its input on 1 of 2 domains: code (-0.0500)\n",
            "layer 3: not behind its input on any of 2 domains\n",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
        assert_eq!(page(&SuiteReport::default(), 11, Style::with_colors(false)), "");
    }
}
