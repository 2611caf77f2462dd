//! `riddle find`: a search that follows the typing, in a terminal.
//!
//! Three threads: one reads keys, one searches, and the command's own draws. The screen is drawn as a whole with what
//! every terminal understands, also one behind ssh, on stderr: stdout is for what was chosen.

mod open;
mod screen;
mod searching;
mod state;
mod terminal;

use std::{
    io::IsTerminal as _,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use console::{Key, Term};
use riddle_rag::SearchHit;

use self::{
    searching::{Asked, Found},
    state::{Finder, Step},
    terminal::Screen,
};
use crate::{args::FindArgs, context::Context, failure::Failure, library::Library};

/// How often it is looked whether the window has another size.
const LOOK: Duration = Duration::from_millis(250);

/// What happens.
enum Event {
    Key(std::io::Result<Key>),
    Found(Box<Found>),
}

/// Finds, and opens or prints what is chosen.
pub(crate) fn run(args: &FindArgs, context: &Context) -> Result<(), Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Failure::usage(
            "find needs a terminal to type in: riddle search finds the same without one",
        ));
    }
    let filter = args.filter.filter()?;
    let library = Library::of(context.config.clone(), args.alone)?;
    let (events, happened) = channel();
    let (ask, asked) = channel();
    let found = events.clone();
    let again = !args.no_rerank;
    let search = move || {
        let tell = |it: Found| found.send(Event::Found(Box::new(it))).is_ok();
        searching::follow(&asked, again, |it| searching::ask(&library, &filter, it), tell);
    };
    thread::Builder::new().name("search".to_owned()).spawn(search)?;
    let go_on = keys(events)?;
    let mut finder = Finder::new(args.query.as_deref().unwrap_or_default());
    let chosen = {
        let mut screen = Screen::open()?;
        follow(&mut finder, &mut screen, &ask, &happened, &go_on, context)?
    };
    // The screen is as it was.
    let Some(hit) = chosen else { return Ok(()) };
    if context.json {
        return context.out.json(&serde_json::to_value(&hit)?);
    }
    if args.print || !std::io::stdout().is_terminal() {
        return context.out.line(&hit.path);
    }
    open::open(&hit, context)
}

/// Draws and waits, until something is chosen or nothing is to be.
fn follow(
    finder: &mut Finder,
    screen: &mut Screen,
    ask: &Sender<Asked>,
    happened: &Receiver<Event>,
    go_on: &Sender<()>,
    context: &Context,
) -> Result<Option<SearchHit>, Failure> {
    if let Some(asked) = finder.ask() {
        let _ = ask.send(asked);
    }
    let _ = go_on.send(());
    while !context.stopped() {
        screen.draw(finder)?;
        match happened.recv_timeout(LOOK) {
            Ok(Event::Found(found)) => finder.take(*found),
            Ok(Event::Key(key)) => {
                match finder.on_key(&key?) {
                    Step::Stay => {}
                    Step::Search => {
                        if let Some(asked) = finder.ask() {
                            let _ = ask.send(asked);
                        }
                    }
                    Step::Quit => return Ok(None),
                    Step::Choose => return Ok(finder.chosen().cloned()),
                }
                // Only now is the next one read: whoever reads has the terminal in another state meanwhile.
                let _ = go_on.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
    Ok(None)
}

/// Reads a key each time it is told to.
fn keys(events: Sender<Event>) -> Result<Sender<()>, Failure> {
    let (go_on, next) = channel::<()>();
    let read = move || {
        let term = Term::stderr();
        for () in next {
            if events.send(Event::Key(term.read_key_raw())).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(read)?;
    Ok(go_on)
}
