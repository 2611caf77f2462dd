//! The four collections of a library.
//!
//! *passages*: what is searched, with vectors (meaning, BM25 of words and names, weighed terms) and all that a reader
//! is shown. *files*: which state of every file is there, so that a run writes what changed. *rules*: who may read
//! what. *about*: the library's record, and one of each who writes it. Milvus wants a vector in every collection: the
//! last three have one that nobody looks at.

use prost::Message as _;

use crate::{
    fields::{self, LONGEST_KEY, LONGEST_PATH, LONGEST_TEXT, MOST_FOLDERS},
    proto::{CollectionSchema, FUNCTION_BM25, FieldSchema, FunctionSchema, KeyValue, data_type},
};

/// BM25 as the keyword index of a home has it.
const BM25: &str = r#"{"bm25_k1": 1.2, "bm25_b": 0.75}"#;

/// A graph as that of a home: neighbors of a node, and those looked at while it is built.
const GRAPH: &str = r#"{"M": 16, "efConstruction": 200}"#;

/// A collection: its name on the server, and its part of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Passages,
    Files,
    Rules,
    About,
}

impl Part {
    /// Name of the collection of `library`.
    pub(crate) fn collection(self, library: &str) -> String {
        let part = match self {
            Part::Passages => "passages",
            Part::Files => "files",
            Part::Rules => "rules",
            Part::About => "about",
        };
        format!("riddle_{library}_{part}")
    }

    /// The schema as bytes, for vectors of `dimensions` numbers.
    pub(crate) fn schema(self, library: &str, dimensions: usize) -> Vec<u8> {
        let (fields, functions) = match self {
            Part::Passages => (passages(dimensions), vec![bm25("words"), bm25("names")]),
            Part::Files => (files(), Vec::new()),
            Part::Rules | Part::About => (record(), Vec::new()),
        };
        let schema = CollectionSchema {
            name: self.collection(library),
            description: "A library of Riddle".to_owned(),
            fields,
            functions,
        };
        schema.encode_to_vec()
    }

    /// Fields with an index: name, type, metric, parameters.
    pub(crate) fn indexes(self) -> Vec<(&'static str, Vec<KeyValue>)> {
        let index = |kind: &str, metric: &str, params: &str| {
            vec![pair("index_type", kind), pair("metric_type", metric), pair("params", params)]
        };
        match self {
            Part::Passages => vec![
                (fields::DENSE, index("HNSW", "IP", GRAPH)),
                (fields::WORDS_BM25, index("SPARSE_INVERTED_INDEX", "BM25", BM25)),
                (fields::NAMES_BM25, index("SPARSE_INVERTED_INDEX", "BM25", BM25)),
                (fields::SPARSE, index("SPARSE_INVERTED_INDEX", "IP", "{}")),
            ],
            Part::Files | Part::Rules | Part::About => {
                vec![(fields::NOTHING, index("FLAT", "L2", "{}"))]
            }
        }
    }
}

pub(crate) fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: value.to_owned() }
}

fn field(name: &str, data_type: i32) -> FieldSchema {
    FieldSchema { name: name.to_owned(), data_type, ..FieldSchema::default() }
}

fn text(name: &str, longest: usize) -> FieldSchema {
    FieldSchema {
        type_params: vec![pair("max_length", &longest.to_string())],
        ..field(name, data_type::VARCHAR)
    }
}

fn key(name: &str) -> FieldSchema {
    FieldSchema { is_primary_key: true, ..text(name, LONGEST_KEY) }
}

/// Words with spaces between, as `tokens` writes them.
fn words(name: &str) -> FieldSchema {
    let mut field = text(name, LONGEST_TEXT);
    field.type_params.push(pair("enable_analyzer", "true"));
    field.type_params.push(pair("analyzer_params", r#"{"tokenizer": "standard"}"#));
    field
}

fn vector(name: &str, dimensions: usize) -> FieldSchema {
    FieldSchema {
        type_params: vec![pair("dim", &dimensions.to_string())],
        ..field(name, data_type::FLOAT_VECTOR)
    }
}

fn passages(dimensions: usize) -> Vec<FieldSchema> {
    let made =
        |name| FieldSchema { is_function_output: true, ..field(name, data_type::SPARSE_VECTOR) };
    let folders = FieldSchema {
        element_type: data_type::VARCHAR,
        type_params: vec![
            pair("max_capacity", &MOST_FOLDERS.to_string()),
            pair("max_length", &LONGEST_KEY.to_string()),
        ],
        ..field(fields::FOLDERS, data_type::ARRAY)
    };
    vec![
        key(fields::ID),
        text(fields::FILE, LONGEST_KEY),
        text(fields::VERSION, LONGEST_KEY),
        text(fields::ROOT, LONGEST_KEY),
        text(fields::READERS, LONGEST_KEY),
        folders,
        text(fields::PATH, LONGEST_PATH),
        text(fields::KIND, LONGEST_KEY),
        field(fields::MODIFIED, data_type::INT64),
        field(fields::ORDINAL, data_type::INT64),
        text(fields::TITLE, LONGEST_TEXT),
        text(fields::HEADING, LONGEST_TEXT),
        text(fields::TEXT, LONGEST_TEXT),
        text(fields::LOCATION, LONGEST_TEXT),
        text(fields::LANGUAGE, LONGEST_KEY),
        words(fields::WORDS),
        words(fields::NAMES),
        made(fields::WORDS_BM25),
        made(fields::NAMES_BM25),
        field(fields::HAS_DENSE, data_type::BOOL),
        vector(fields::DENSE, dimensions),
        field(fields::HAS_SPARSE, data_type::BOOL),
        field(fields::SPARSE, data_type::SPARSE_VECTOR),
    ]
}

fn files() -> Vec<FieldSchema> {
    vec![
        key(fields::ID),
        text(fields::VERSION, LONGEST_KEY),
        text(fields::ROOT, LONGEST_KEY),
        text(fields::PATH, LONGEST_PATH),
        field(fields::PASSAGES, data_type::INT64),
        vector(fields::NOTHING, 2),
    ]
}

/// A text under a key.
fn record() -> Vec<FieldSchema> {
    vec![key(fields::ID), text(fields::RECORD, LONGEST_TEXT), vector(fields::NOTHING, 2)]
}

/// The function that weighs the words of a field.
fn bm25(of: &str) -> FunctionSchema {
    FunctionSchema {
        name: format!("{of}_bm25"),
        kind: FUNCTION_BM25,
        input_field_names: vec![of.to_owned()],
        output_field_names: vec![format!("{of}_bm25")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_of_a_field_and_every_function_of_two() {
        for part in [Part::Passages, Part::Files, Part::Rules, Part::About] {
            let schema = CollectionSchema::decode(part.schema("team", 3).as_slice());
            let schema = schema.expect("a schema");
            assert!(schema.name.starts_with("riddle_team_"));
            let has = |name: &str| schema.fields.iter().any(|it| it.name == name);
            assert!(part.indexes().iter().all(|it| has(it.0)));
            let functions = &schema.functions;
            let both = functions
                .iter()
                .flat_map(|it| it.input_field_names.iter().chain(&it.output_field_names));
            assert!(both.clone().all(|it| has(it)), "{:?}", both.collect::<Vec<_>>());
            assert_eq!(schema.fields.iter().filter(|it| it.is_primary_key).count(), 1);
        }
    }
}
