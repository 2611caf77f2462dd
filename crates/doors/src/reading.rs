//! The readers of requests, for whoever tries them with what no client would send. Not in any program.

/// Reads bytes in every way in which a client could mean them; panics where a reader breaks its word.
pub fn all(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    crate::http::reads(&text);
    crate::message::reads(&text);
    crate::install::reads(&text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            super::all(&bytes);
        }

        #[test]
        fn what_is_nearly_a_request_is_no_panic(
            text in r#"(\{|\[|\}|\]|,|:|//|"(query|documents|texts|input|messages|role|content|mcpServers|riddle|jsonrpc|id|method|2\.0)"|-?[0-9]{1,3}|null| |%[0-9a-z]{2}|\\u00e4){0,40}"#,
        ) {
            super::all(text.as_bytes());
        }
    }
}
