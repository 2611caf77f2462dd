//! `riddle serve`.

use std::io::Write as _;

use riddle_doors::{Started, serve};
use serde_json::json;

use crate::{args::ServeArgs, context::Context, failure::Failure, show};

/// Serves until Ctrl-C.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), Failure> {
    let mut closed = None;
    let ready = |started: &Started| {
        if started.beyond_this_machine {
            // With stderr closed there is nobody to tell.
            let _ = writeln!(
                std::io::stderr(),
                "riddle: other machines can ask this server, and what it says travels without encryption: put a proxy with TLS before it"
            );
        }
        if let Err(failure) = tell(started, context) {
            closed = Some(failure);
            return Err(riddle_doors::Error::Stopped);
        }
        Ok(())
    };
    let served = serve(context.config.clone(), &args.options(), context.stop_flag(), ready);
    match closed {
        Some(failure) => Err(failure),
        None => Ok(served?),
    }
}

/// Where it is, and what has to be known.
fn tell(started: &Started, context: &Context) -> Result<(), Failure> {
    if context.json {
        return context.out.json(&json!({
            "url": started.url,
            "token_file": started.token_file,
            "pid": std::process::id(),
        }));
    }
    let file = show::path(&started.token_file.to_string_lossy());
    context.out.line(format_args!(
        "serving at {}\nthe token is in {file}: send it as `Authorization: Bearer …`\nCtrl-C ends it",
        context.style.bold(&started.url)
    ))
}
