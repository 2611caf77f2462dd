//! What a panic says about itself.

use std::any::Any;

/// The words of a panic that was caught.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason was given")
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, resume_unwind};

    use super::*;

    #[test]
    fn words_are_told_and_other_things_are_not() {
        let caught = |work: fn()| catch_unwind(work).expect_err("it panics");
        assert_eq!(panic_message(&*caught(|| resume_unwind(Box::new("lost")))), "lost");
        let layer = caught(|| resume_unwind(Box::new(format!("layer {}", 3))));
        assert_eq!(panic_message(&*layer), "layer 3");
        let number = caught(|| resume_unwind(Box::new(7)));
        assert_eq!(panic_message(&*number), "no reason was given");
    }
}
