//! JSON with comments and trailing commas, changed in one place as text.

use std::ops::Range;

use serde_json::Value;

/// Members of an object: names and the places of their values.
struct Object {
    /// With its braces.
    range: Range<usize>,
    members: Vec<Member>,
}

struct Member {
    name: String,
    /// From the name to the end of the value.
    range: Range<usize>,
    value: Range<usize>,
}

/// Deepest nesting that is followed.
const DEPTH: usize = 64;

/// `text` with `value` as `list.name`; both are made where they are missing.
pub(super) fn put(text: &str, list: &str, name: &str, value: &Value) -> Result<String, String> {
    if text.trim().is_empty() {
        let whole = serde_json::json!({list: {name: value}});
        return Ok(format!("{whole:#}\n"));
    }
    let root = root(text)?;
    let Some(servers) = root.members.iter().find(|it| it.name == list) else {
        let whole = serde_json::json!({name: value});
        return Ok(insert(text, &root, list, &whole, 1));
    };
    let servers = object_at(text, servers.value.start, 1)
        .map_err(|why| format!("`{list}` is no object: {why}"))?;
    match servers.members.iter().find(|it| it.name == name) {
        None => Ok(insert(text, &servers, name, value, 2)),
        Some(old) => {
            // Written as it is already: nothing changes.
            let same = serde_json::from_str::<Value>(&text[old.value.clone()]);
            if same.is_ok_and(|it| it == *value) {
                return Ok(text.to_owned());
            }
            let new = indented(value, 2);
            Ok(format!("{}{new}{}", &text[..old.value.start], &text[old.value.end..]))
        }
    }
}

/// `text` without `list.name`, and without `list` if nothing else is in it; `None`: it is not there.
pub(super) fn take(text: &str, list: &str, name: &str) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let root = root(text)?;
    let Some(place) = root.members.iter().position(|it| it.name == list) else { return Ok(None) };
    let servers = object_at(text, root.members[place].value.start, 1)
        .map_err(|why| format!("`{list}` is no object: {why}"))?;
    let Some(found) = servers.members.iter().position(|it| it.name == name) else {
        return Ok(None);
    };
    Ok(Some(if servers.members.len() == 1 {
        without(text, &root, place)
    } else {
        without(text, &servers, found)
    }))
}

/// A member at the beginning of an object.
fn insert(text: &str, object: &Object, name: &str, value: &Value, depth: usize) -> String {
    let at = object.range.start + 1;
    let (head, rest) = text.split_at(at);
    let comma = if object.members.is_empty() { "" } else { "," };
    let pad = "  ".repeat(depth);
    let name = Value::from(name);
    // What stands on the brace's own line goes on behind the member.
    let end = if rest.starts_with(['\n', '\r']) { "" } else { "\n" };
    format!("{head}\n{pad}{name}: {}{comma}{end}{rest}", indented(value, depth))
}

fn indented(value: &Value, depth: usize) -> String {
    format!("{value:#}").replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

/// The text without a member and the comma that belongs to it.
fn without(text: &str, object: &Object, place: usize) -> String {
    let member = &object.members[place];
    let (mut from, mut to) = (member.range.start, member.range.end);
    let after = skip(text, to).unwrap_or(to);
    if text[after..].starts_with(',') {
        to = after + 1;
        if let Some(line) = text[to..].find('\n').filter(|it| text[to..to + it].trim().is_empty()) {
            to += line;
        }
    } else if place > 0 {
        from = object.members[place - 1].range.end;
    }
    let head = &text[..from];
    // The line that it stood on goes with it.
    let head = if text[to..].starts_with(['\n', '\r']) || place > 0 {
        head.trim_end_matches([' ', '\t'])
    } else {
        head
    };
    let head =
        if text[to..].starts_with('\n') { head.strip_suffix('\n').unwrap_or(head) } else { head };
    format!("{head}{}", &text[to..])
}

fn root(text: &str) -> Result<Object, String> {
    let start = skip(text, text.len() - text.trim_start_matches('\u{feff}').len())?;
    let object = object_at(text, start, 0)?;
    if skip(text, object.range.end)? < text.len() {
        return Err("something follows after its end".to_owned());
    }
    Ok(object)
}

/// Behind white space and comments.
fn skip(text: &str, mut at: usize) -> Result<usize, String> {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if trimmed.starts_with("/*") {
            at += trimmed.find("*/").ok_or("a comment has no end")? + 2;
        } else {
            return Ok(at);
        }
    }
}

fn object_at(text: &str, start: usize, depth: usize) -> Result<Object, String> {
    if !text[start..].starts_with('{') {
        return Err("an object begins with a brace".to_owned());
    }
    let mut members = Vec::new();
    let mut at = skip(text, start + 1)?;
    while !text[at..].starts_with('}') {
        let name_end = string_end(text, at)?;
        let name =
            serde_json::from_str::<String>(&text[at..name_end]).map_err(|it| it.to_string())?;
        let colon = skip(text, name_end)?;
        if !text[colon..].starts_with(':') {
            return Err(format!("a colon is missing after {name:?}"));
        }
        let value = skip(text, colon + 1)?;
        let end = value_end(text, value, depth + 1)?;
        members.push(Member { name, range: at..end, value: value..end });
        at = skip(text, end)?;
        if text[at..].starts_with(',') {
            at = skip(text, at + 1)?;
        } else if !text[at..].starts_with('}') {
            return Err("a comma or a brace is missing".to_owned());
        }
    }
    Ok(Object { range: start..at + 1, members })
}

fn value_end(text: &str, at: usize, depth: usize) -> Result<usize, String> {
    if depth > DEPTH {
        return Err("it is nested too deeply".to_owned());
    }
    match text[at..].chars().next() {
        Some('{') => Ok(object_at(text, at, depth)?.range.end),
        Some('[') => {
            let mut at = skip(text, at + 1)?;
            while !text[at..].starts_with(']') {
                at = skip(text, value_end(text, at, depth + 1)?)?;
                if text[at..].starts_with(',') {
                    at = skip(text, at + 1)?;
                } else if !text[at..].starts_with(']') {
                    return Err("a comma or a bracket is missing".to_owned());
                }
            }
            Ok(at + 1)
        }
        Some('"') => string_end(text, at),
        _ => {
            let rest = &text[at..];
            let plain = |it: char| it.is_ascii_alphanumeric() || "+-.".contains(it);
            let length = rest.find(|it| !plain(it)).unwrap_or(rest.len());
            serde_json::from_str::<Value>(&rest[..length])
                .map(|_| at + length)
                .map_err(|_| "a value is missing".to_owned())
        }
    }
}

fn string_end(text: &str, at: usize) -> Result<usize, String> {
    let rest = text[at..].strip_prefix('"').ok_or("a text in quotes is missing")?;
    let mut escaped = false;
    for (place, c) in rest.char_indices() {
        match c {
            '"' if !escaped => return Ok(at + 1 + place + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Err("a text has no end".to_owned())
}

/// A configuration of somebody's is changed in one place, which can be taken back, or left alone.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reads(text: &str) {
    let entry = serde_json::json!({"command": "x"});
    let _ = take(text, "mcpServers", "riddle");
    let Ok(with) = put(text, "mcpServers", "riddle", &entry) else { return };
    assert_eq!(put(&with, "mcpServers", "riddle", &entry).as_deref(), Ok(with.as_str()));
    let without = take(&with, "mcpServers", "riddle");
    assert!(matches!(without, Ok(Some(_))), "{with:?}: {without:?}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~äé\\\\\"/{}\\[\\],:]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z{}\"/]{0,4}", inner, 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn putting_and_taking_is_what_it_is_for_plain_json(
            members in proptest::collection::btree_map("[a-z]{1,6}", value(), 0..4),
            servers in proptest::option::of(proptest::collection::btree_map("[a-z]{1,4}", value(), 0..3)),
            pretty in any::<bool>(),
        ) {
            let mut whole = Value::Object(members.into_iter().collect());
            if let Some(servers) = &servers {
                whole["mcpServers"] = Value::Object(servers.clone().into_iter().collect());
            }
            let text = if pretty { format!("{whole:#}\n") } else { whole.to_string() };
            let entry = json!({"command": "x", "args": ["a", "b"]});
            let put_in = put(&text, "mcpServers", "riddle", &entry).expect("understood");
            let parsed: Value = serde_json::from_str(&put_in).expect("json");
            let mut wanted = whole.clone();
            wanted["mcpServers"]["riddle"] = entry;
            prop_assert_eq!(&parsed, &wanted, "{}", put_in);
            let taken = take(&put_in, "mcpServers", "riddle").expect("understood").expect("there");
            let parsed: Value = serde_json::from_str(&taken).expect("json");
            let mut wanted = whole.clone();
            if servers.as_ref().is_none_or(|it| it.is_empty())
                && let Some(fields) = wanted.as_object_mut()
            {
                fields.remove("mcpServers");
            }
            prop_assert_eq!(&parsed, &wanted, "{}", taken);
        }

        #[test]
        fn no_text_is_a_panic(text in "[{}\\[\\]\",:/* \na1\\\\ä]{0,40}") {
            let _ = put(&text, "a", "b", &json!(1));
            let _ = take(&text, "a", "1");
        }
    }
}
