//! Notebooks (Jupyter), cell by cell: prose as Markdown, code as code, and what it printed.

use riddle_types::{Block, BlockKind, Document, Location};
use serde_json::Value;

use super::Shares;
use crate::{
    code,
    outcome::ParseOutcome,
    remark::Remark,
    text::{decode, parse_markdown},
};

/// Most characters that are kept of what a cell printed.
const LONGEST_OUTPUT: usize = 2000;

pub(super) fn parse(_name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let (text, _) = decode(bytes);
    let notebook: Value = match serde_json::from_str(&text) {
        Ok(notebook) => notebook,
        Err(error) => return ParseOutcome::Failed(Remark::NotNotebook(error.to_string()).into()),
    };
    // Before version 4 cells stood on sheets.
    let sheets = notebook["worksheets"].as_array().into_iter().flatten();
    let cells = sheets.flat_map(|it| it["cells"].as_array().into_iter().flatten());
    let cells: Vec<&Value> =
        notebook["cells"].as_array().into_iter().flatten().chain(cells).collect();
    if cells.is_empty() {
        return ParseOutcome::NoText(Remark::NoCells.into());
    }
    let mut document = Document::default();
    for (cell, number) in cells.into_iter().zip(1..) {
        one(cell, number, &mut document);
    }
    ParseOutcome::Parsed(document)
}

fn one(cell: &Value, number: u32, document: &mut Document) {
    let source = text_of(&cell["source"]).or_else(|| text_of(&cell["input"])).unwrap_or_default();
    let part = match cell["cell_type"].as_str() {
        Some("markdown" | "heading") => parse_markdown("", &source),
        Some("raw") => crate::text::parse_plain(&source),
        _ => code::parse(&source),
    };
    let place =
        |inside| Location::Part { name: format!("cell {number}"), inside: Box::new(inside) };
    if document.title.is_none() {
        document.title = part.title;
    }
    document.blocks.extend(
        part.blocks.into_iter().map(|it| Block { location: place(it.location.clone()), ..it }),
    );
    for output in cell["outputs"].as_array().into_iter().flatten() {
        let printed = text_of(&output["text"])
            .or_else(|| text_of(&output["data"]["text/plain"]))
            .or_else(|| {
                let (name, value) = (output["ename"].as_str()?, output["evalue"].as_str()?);
                Some(format!("{name}: {value}"))
            });
        let Some(printed) = printed.filter(|it| !it.trim().is_empty()) else { continue };
        let end = printed.char_indices().nth(LONGEST_OUTPUT).map_or(printed.len(), |it| it.0);
        let text = printed[..end].trim_end().to_owned();
        let kind = if crate::table::numeric(&text) { BlockKind::Numbers } else { BlockKind::Code };
        document.blocks.push(Block::new(kind, text, place(Location::Whole)));
    }
}

/// Text as one string or as a list of lines.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_prose_code_and_output() {
        let text = br##"{"nbformat": 4, "cells": [
            {"cell_type": "markdown", "source": ["# Flour\n", "How it rises."]},
            {"cell_type": "code", "source": "rise(3)", "outputs": [
                {"output_type": "stream", "text": ["it rose by three fingers\n"]},
                {"data": {"image/png": "AAAA"}},
                {"ename": "OvenError", "evalue": "too hot"}]}]}"##;
        let ParseOutcome::Parsed(document) = parse("x.ipynb", text, &mut Shares::tried()) else {
            panic!("parses")
        };
        let seen: Vec<(&str, String)> =
            document.blocks.iter().map(|it| (it.text.as_str(), it.location.to_string())).collect();
        assert_eq!(
            seen,
            [
                ("Flour", "cell 1, line 1".to_owned()),
                ("How it rises.", "cell 1, line 2".to_owned()),
                ("rise(3)", "cell 2, line 1".to_owned()),
                ("it rose by three fingers", "cell 2".to_owned()),
                ("OvenError: too hot", "cell 2".to_owned()),
            ]
        );
        assert_eq!(document.title.as_deref(), Some("Flour"));
        for odd in [&b"{"[..], b"[]", b"{\"cells\": 3}", b"{\"cells\": [3, null, {\"source\": 7}]}"]
        {
            parse("x.ipynb", odd, &mut Shares::tried());
        }
    }
}
