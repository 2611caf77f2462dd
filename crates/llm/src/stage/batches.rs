//! Many texts in several requests: as many as a server takes at once, and each exactly once.

use std::ops::Range;

use crate::{Error, Result};

/// What goes into one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    pub(super) texts: usize,
    pub(super) bytes: usize,
}

/// The texts in their order, cut where a limit is reached. A text that is longer than the limit goes alone.
pub(super) fn batches(texts: &[String], limits: BatchLimits) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        let full = at - start >= limits.texts.max(1) || bytes + text.len() > limits.bytes;
        if at > start && full {
            all.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes += text.len();
    }
    if start < texts.len() {
        all.push(start..texts.len());
    }
    all
}

/// What `ask` says of every text, whatever batches they are asked in. One that is too large for the server, which says
/// so by one of these `too_large` statuses, is asked in halves.
pub(super) fn in_batches<T>(
    texts: &[String],
    limits: BatchLimits,
    too_large: &[u16],
    ask: &mut dyn FnMut(&[String]) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(texts.len());
    // The next one last.
    let mut waiting: Vec<Range<usize>> = batches(texts, limits).into_iter().rev().collect();
    while let Some(batch) = waiting.pop() {
        match ask(&texts[batch.clone()]) {
            Ok(said) => all.extend(said),
            Err(Error::Refused { status, .. })
                if batch.len() > 1 && too_large.contains(&status) =>
            {
                let middle = batch.start + batch.len() / 2;
                waiting.extend([middle..batch.end, batch.start..middle]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn too_large() -> Error {
        Error::Refused { url: String::new(), status: 413, message: String::new(), hint: None }
    }

    proptest! {
        /// Whatever the limits here and there: every text is asked once, and answered in its place.
        #[test]
        fn answers_are_of_the_texts_whatever_the_batches(
            texts in proptest::collection::vec("[a-c]{0,9}", 0..40),
            limits in (0_usize..12, 0_usize..40),
            takes in 1_usize..9,
        ) {
            let limits = BatchLimits { texts: limits.0, bytes: limits.1 };
            let mut asked = 0;
            let said = in_batches(&texts, limits, &[413], &mut |batch| {
                if batch.len() > takes {
                    return Err(too_large());
                }
                asked += batch.len();
                let bytes: usize = batch.iter().map(String::len).sum();
                assert!(!batch.is_empty() && batch.len() <= limits.texts.max(1));
                assert!(bytes <= limits.bytes || batch.len() == 1);
                Ok(batch.to_vec())
            });
            prop_assert_eq!(said.expect("answered"), texts.clone());
            prop_assert_eq!(asked, texts.len());
        }
    }

    #[test]
    fn what_is_too_large_alone_is_an_error() {
        let texts = ["a".to_owned()];
        let limits = BatchLimits { texts: 9, bytes: 9 };
        let said = in_batches::<()>(&texts, limits, &[413], &mut |_| Err(too_large()));
        assert!(matches!(said, Err(Error::Refused { status: 413, .. })));
    }
}
