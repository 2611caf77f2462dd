//! The program from outside, without a display.

use std::process::{Command, Stdio};

#[test]
fn the_program_is_its_own_parser() {
    let mut parser = Command::new(env!("CARGO_BIN_EXE_riddle-desktop"))
        .arg("parse-worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    // A closed pipe is how a parser is told to end: no window, no home, no error.
    drop(parser.stdin.take());
    assert!(parser.wait().expect("ends").success());
}
