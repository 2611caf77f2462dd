//! `riddle completions SHELL`.

use clap::CommandFactory as _;

use crate::{
    args::{Cli, CompletionsArgs},
    context::Context,
    failure::Failure,
};

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, context: &Context) -> Result<(), Failure> {
    // Made in memory first: the generator panics when its writer fails, and stdout may be closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "riddle", &mut script);
    context.out.text(String::from_utf8_lossy(&script))
}
