//! The messages of Milvus' gRPC API that are needed, written out by hand: numbers and types are those of
//! `milvus.proto`, `schema.proto` and `common.proto` of milvus-io/milvus-proto. Fields that nobody reads are left out,
//! which protocol buffers allow; enumerations are whole numbers on the wire and here.

use prost::{Message, Oneof};

/// Types of fields.
pub(crate) mod data_type {
    pub(crate) const BOOL: i32 = 1;
    pub(crate) const INT64: i32 = 5;
    pub(crate) const VARCHAR: i32 = 21;
    pub(crate) const ARRAY: i32 = 22;
    pub(crate) const FLOAT_VECTOR: i32 = 101;
    pub(crate) const SPARSE_VECTOR: i32 = 104;
}

/// Types of what is searched for.
pub(crate) mod placeholder_type {
    pub(crate) const VARCHAR: i32 = 21;
    pub(crate) const FLOAT_VECTOR: i32 = 101;
    pub(crate) const SPARSE_VECTOR: i32 = 104;
}

/// How fresh what is read must be.
pub(crate) mod consistency {
    /// All that was written before.
    pub(crate) const STRONG: i32 = 0;
    /// All but what was written in the last seconds.
    pub(crate) const BOUNDED: i32 = 2;
    /// What the server expects beside [`BOUNDED`] in the place of a time.
    pub(crate) const BOUNDED_TIMESTAMP: u64 = 2;
}

/// A function that makes BM25 weights of a text.
pub(crate) const FUNCTION_BM25: i32 = 1;

/// A filter in the language of expressions.
pub(crate) const DSL_EXPRESSION: i32 = 1;

/// A collection that can be searched.
pub(crate) const LOADED: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) error_code: i32,
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
    #[prost(bool, tag = "4")]
    pub(crate) retriable: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldSchema {
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(bool, tag = "3")]
    pub(crate) is_primary_key: bool,
    #[prost(int32, tag = "5")]
    pub(crate) data_type: i32,
    #[prost(message, repeated, tag = "6")]
    pub(crate) type_params: Vec<KeyValue>,
    #[prost(int32, tag = "10")]
    pub(crate) element_type: i32,
    #[prost(bool, tag = "16")]
    pub(crate) is_function_output: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionSchema {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "4")]
    pub(crate) kind: i32,
    #[prost(string, repeated, tag = "5")]
    pub(crate) input_field_names: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    pub(crate) output_field_names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CollectionSchema {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) fields: Vec<FieldSchema>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) functions: Vec<FunctionSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bools {
    #[prost(bool, repeated, tag = "1")]
    pub(crate) data: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Longs {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) data: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Floats {
    #[prost(float, repeated, tag = "1")]
    pub(crate) data: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Strings {
    #[prost(string, repeated, tag = "1")]
    pub(crate) data: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Arrays {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data: Vec<Scalars>,
    #[prost(int32, tag = "2")]
    pub(crate) element_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseVectors {
    /// Of each row: pairs of a term (u32) and its weight (f32), both with the lowest byte first.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) contents: Vec<Vec<u8>>,
    #[prost(int64, tag = "2")]
    pub(crate) dimensions: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scalars {
    #[prost(oneof = "Scalar", tags = "1, 3, 6, 8")]
    pub(crate) data: Option<Scalar>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Scalar {
    #[prost(message, tag = "1")]
    Bools(Bools),
    #[prost(message, tag = "3")]
    Longs(Longs),
    #[prost(message, tag = "6")]
    Strings(Strings),
    #[prost(message, tag = "8")]
    Arrays(Arrays),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Vectors {
    #[prost(int64, tag = "1")]
    pub(crate) dimensions: i64,
    #[prost(oneof = "Vector", tags = "2, 6")]
    pub(crate) data: Option<Vector>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Vector {
    #[prost(message, tag = "2")]
    Floats(Floats),
    #[prost(message, tag = "6")]
    Sparse(SparseVectors),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldData {
    #[prost(int32, tag = "1")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "2")]
    pub(crate) field_name: String,
    #[prost(oneof = "Column", tags = "3, 4")]
    pub(crate) column: Option<Column>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Column {
    #[prost(message, tag = "3")]
    Scalars(Scalars),
    #[prost(message, tag = "4")]
    Vectors(Vectors),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ids {
    #[prost(message, optional, tag = "2")]
    pub(crate) strings: Option<Strings>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetVersionRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetVersionResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateCollectionRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    /// A [`CollectionSchema`] as bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) schema: Vec<u8>,
    #[prost(int32, tag = "5")]
    pub(crate) shards_num: i32,
    #[prost(int32, tag = "6")]
    pub(crate) consistency_level: i32,
}

/// Of every call that names a collection and says no more.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CollectionRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BoolResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(bool, tag = "2")]
    pub(crate) value: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateIndexRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) field_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) extra_params: Vec<KeyValue>,
    #[prost(string, tag = "6")]
    pub(crate) index_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetLoadStateRequest {
    #[prost(string, tag = "2")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) db_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetLoadStateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(int32, tag = "2")]
    pub(crate) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpsertRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) fields_data: Vec<FieldData>,
    #[prost(uint32, tag = "7")]
    pub(crate) num_rows: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "5")]
    pub(crate) expr: String,
    #[prost(int32, tag = "7")]
    pub(crate) consistency_level: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MutationResult {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) err_index: Vec<u32>,
    #[prost(int64, tag = "7")]
    pub(crate) delete_cnt: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlaceholderValue {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(int32, tag = "2")]
    pub(crate) kind: i32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlaceholderGroup {
    #[prost(message, repeated, tag = "1")]
    pub(crate) placeholders: Vec<PlaceholderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "5")]
    pub(crate) dsl: String,
    /// A [`PlaceholderGroup`] as bytes.
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) placeholder_group: Vec<u8>,
    #[prost(int32, tag = "7")]
    pub(crate) dsl_type: i32,
    #[prost(string, repeated, tag = "8")]
    pub(crate) output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) search_params: Vec<KeyValue>,
    #[prost(uint64, tag = "11")]
    pub(crate) guarantee_timestamp: u64,
    #[prost(int64, tag = "12")]
    pub(crate) nq: i64,
    #[prost(int32, tag = "14")]
    pub(crate) consistency_level: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchResultData {
    #[prost(float, repeated, tag = "4")]
    pub(crate) scores: Vec<f32>,
    #[prost(message, optional, tag = "5")]
    pub(crate) ids: Option<Ids>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchResults {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub(crate) results: Option<SearchResultData>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) expr: String,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output_fields: Vec<String>,
    #[prost(uint64, tag = "8")]
    pub(crate) guarantee_timestamp: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) query_params: Vec<KeyValue>,
    #[prost(int32, tag = "11")]
    pub(crate) consistency_level: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryResults {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) fields_data: Vec<FieldData>,
}

/// An answer with a status in it.
pub(crate) trait Answer {
    /// The status, where the server gave one.
    fn status(&self) -> Option<&Status>;
}

impl Answer for Status {
    fn status(&self) -> Option<&Status> {
        Some(self)
    }
}

macro_rules! answers {
    ($($name:ident),+) => {
        $(impl Answer for $name {
            fn status(&self) -> Option<&Status> {
                self.status.as_ref()
            }
        })+
    };
}

answers!(
    GetVersionResponse,
    BoolResponse,
    GetLoadStateResponse,
    MutationResult,
    SearchResults,
    QueryResults
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_published_schema() {
        // Written by hand after the encoding of protocol buffers: field number × 8 + wire type, length, content.
        let request = QueryRequest {
            collection_name: "c".to_owned(),
            expr: "x".to_owned(),
            output_fields: vec!["f".to_owned()],
            query_params: vec![KeyValue { key: "k".to_owned(), value: "v".to_owned() }],
            consistency_level: 2,
            ..QueryRequest::default()
        };
        let expected = b"\x1a\x01c\x22\x01x\x2a\x01f\x4a\x06\x0a\x01k\x12\x01v\x58\x02";
        assert_eq!(request.encode_to_vec(), expected);
        let column = FieldData {
            data_type: data_type::INT64,
            field_name: "n".to_owned(),
            column: Some(Column::Scalars(Scalars {
                data: Some(Scalar::Longs(Longs { data: vec![5] })),
            })),
        };
        assert_eq!(column.encode_to_vec(), b"\x08\x05\x12\x01n\x1a\x05\x1a\x03\x0a\x01\x05");
    }

    #[test]
    fn fields_that_are_not_known_are_passed_over() {
        let status = Status::decode(&b"\x12\x02no\x18\x64\x2a\x03abc"[..]).expect("a status");
        assert_eq!((status.reason.as_str(), status.code), ("no", 100));
    }
}
