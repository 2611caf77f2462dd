//! `desktop-search`: what is typed into the search of GNOME or KDE finds passages, too.
//!
//! The session bus starts it with the first question, and it ends when nobody has asked for a while. It answers whoever
//! is on the bus of the person's own session, so nothing is held back: what is shown stays on this machine.

#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
mod bus;
#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
mod shelf;

use crate::{args::DesktopSearchArgs, context::Context, failure::Failure};

/// Answers until nobody asks any more.
#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
pub(crate) fn run(args: &DesktopSearchArgs, context: &Context) -> Result<(), Failure> {
    let patience = std::time::Duration::from_secs(args.patience as u64);
    bus::serve(shelf::Shelf::new(context.config.clone()), patience)
}

/// There is no session bus.
#[cfg(not(all(unix, not(target_vendor = "apple"), not(target_os = "android"))))]
pub(crate) fn run(_: &DesktopSearchArgs, _: &Context) -> Result<(), Failure> {
    Err(Failure::run("only the desktops of Linux and the BSDs ask in this way"))
}
