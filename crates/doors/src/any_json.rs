//! Bodies as a hostile client would send them: any JSON, often with the names that a reader knows.

use proptest::prelude::*;
use serde_json::{Map, Value};

/// An object whose fields are often of these names, with values of any kind.
pub(crate) fn body(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let name =
        prop_oneof![4 => proptest::sample::select(names).prop_map(str::to_owned), 1 => "\\PC{0,6}"];
    let fields = proptest::collection::vec((name, value(names)), 0..8);
    fields.prop_map(|it| Value::Object(it.into_iter().collect::<Map<String, Value>>()))
}

fn value(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3_i64..40_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(
            &["", " ", "off", "set", "user", "system", "250MiB", "base64", "text"][..]
        )
        .prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        let named = proptest::sample::select(names).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((named, inner), 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}
