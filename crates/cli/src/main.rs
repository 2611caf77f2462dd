//! The `riddle` command.

fn main() {}
