//! The session bus: GNOME's `org.gnome.Shell.SearchProvider2` and KDE's `org.kde.krunner1`, both at one place.
//!
//! <https://developer.gnome.org/documentation/tutorials/search-provider.html>,
//! <https://develop.kde.org/docs/plasma/krunner/>

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use dbus::{
    Message,
    arg::{PropMap, RefArg, Variant},
    blocking::{LocalConnection, stdintf::org_freedesktop_dbus::RequestNameReply},
    channel::{MatchingReceiver as _, Sender as _},
    message::MatchRule,
};

use super::shelf::{Shelf, Shown};
use crate::{commands::toggle, failure::Failure};

/// Its name on the bus, as the files of the package say it.
const NAME: &str = "app.riddle.Search";

/// How often it is looked whether anybody still asks.
const LOOK: Duration = Duration::from_secs(1);

/// What both desktops take for "fits, but may not be what is meant": KDE has 10 for the least and 100 for a name that
/// is typed in full.
const PASSAGE_FITS: i32 = 30;

/// What can be asked, for whoever looks around on the bus.
const INTERFACES: &str = r#"<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
<node>
  <interface name="org.gnome.Shell.SearchProvider2">
    <method name="GetInitialResultSet"><arg type="as" direction="in"/><arg type="as" direction="out"/></method>
    <method name="GetSubsearchResultSet"><arg type="as" direction="in"/><arg type="as" direction="in"/><arg type="as" direction="out"/></method>
    <method name="GetResultMetas"><arg type="as" direction="in"/><arg type="aa{sv}" direction="out"/></method>
    <method name="ActivateResult"><arg type="s" direction="in"/><arg type="as" direction="in"/><arg type="u" direction="in"/></method>
    <method name="LaunchSearch"><arg type="as" direction="in"/><arg type="u" direction="in"/></method>
  </interface>
  <interface name="org.kde.krunner1">
    <method name="Actions"><arg type="a(sss)" direction="out"/></method>
    <method name="Match"><arg type="s" direction="in"/><arg type="a(sssida{sv})" direction="out"/></method>
    <method name="Run"><arg type="s" direction="in"/><arg type="s" direction="in"/></method>
    <method name="Teardown"/>
  </interface>
</node>
"#;

/// What is known of a match in KDE: its id, its text, its icon, how well it fits (twice), and what stands below.
type Match = (String, String, String, i32, f64, PropMap);

/// Answers until nobody has asked for so long.
pub(super) fn serve(shelf: Shelf, patience: Duration) -> Result<(), Failure> {
    let connection = LocalConnection::new_session()?;
    // Another one that answers already goes on doing so.
    if connection.request_name(NAME, false, false, true)? != RequestNameReply::PrimaryOwner {
        return Ok(());
    }
    let asked = Rc::new(Cell::new(Instant::now()));
    let (shelf, last) = (RefCell::new(shelf), Rc::clone(&asked));
    let answer = move |message: Message, connection: &LocalConnection| {
        last.set(Instant::now());
        let answer = answer(&message, &mut shelf.borrow_mut());
        if let Some(answer) = answer.filter(|_| !message.get_no_reply()) {
            // Whoever asked has gone.
            let _ = connection.send(answer);
        }
        true
    };
    connection.start_receive(MatchRule::new_method_call(), Box::new(answer));
    while asked.get().elapsed() < patience {
        connection.process(LOOK.min(patience))?;
    }
    Ok(())
}

/// The answer to a message; `None`: it is none of ours.
fn answer(message: &Message, shelf: &mut Shelf) -> Option<Message> {
    let interface = message.interface()?;
    let member = message.member()?;
    let done = match (&*interface, &*member) {
        ("org.gnome.Shell.SearchProvider2", "GetInitialResultSet") => {
            message.read1().map(|terms| message.method_return().append1(ids(shelf, terms)))
        }
        // What fits more words need not be among what fitted fewer.
        ("org.gnome.Shell.SearchProvider2", "GetSubsearchResultSet") => {
            let both = message.read2::<Vec<String>, Vec<String>>();
            both.map(|(_, terms)| message.method_return().append1(ids(shelf, terms)))
        }
        ("org.gnome.Shell.SearchProvider2", "GetResultMetas") => {
            message.read1::<Vec<String>>().map(|ids| {
                let known = ids.iter().filter_map(|it| shelf.shown(it.parse().ok()?));
                message.method_return().append1(known.map(meta).collect::<Vec<PropMap>>())
            })
        }
        ("org.gnome.Shell.SearchProvider2", "ActivateResult") | ("org.kde.krunner1", "Run") => {
            message.read1::<String>().map(|id| {
                id.parse().ok().into_iter().for_each(|it| shelf.open(it));
                message.method_return()
            })
        }
        ("org.gnome.Shell.SearchProvider2", "LaunchSearch") => {
            message.read1::<Vec<String>>().map(|terms| {
                if let Err(error) = toggle::app(&["search", &terms.join(" ")]) {
                    tracing::warn!(?error, "the app can not be started");
                }
                message.method_return()
            })
        }
        ("org.kde.krunner1", "Actions") => {
            Ok(message.method_return().append1(Vec::<(String, String, String)>::new()))
        }
        ("org.kde.krunner1", "Match") => message.read1::<String>().map(|typed| {
            let found = shelf.search(&typed);
            let count = found.len().max(1) as f64;
            let places = found.into_iter().enumerate();
            let all = places.map(|(place, it)| matched(it, 0.9 - 0.5 * place as f64 / count));
            message.method_return().append1(all.collect::<Vec<Match>>())
        }),
        ("org.kde.krunner1", "Teardown") => Ok(message.method_return()),
        ("org.freedesktop.DBus.Introspectable", "Introspect") => {
            Ok(message.method_return().append1(INTERFACES))
        }
        _ => return dbus::channel::default_reply(message),
    };
    Some(done.unwrap_or_else(|error| refusal(message, &error.to_string())))
}

/// The message can not be read.
fn refusal(message: &Message, why: &str) -> Message {
    let why = std::ffi::CString::new(why.replace('\0', " ")).unwrap_or_default();
    message.error(&"org.freedesktop.DBus.Error.InvalidArgs".into(), &why)
}

fn ids(shelf: &mut Shelf, terms: Vec<String>) -> Vec<String> {
    shelf.search(&terms.join(" ")).into_iter().map(|it| it.id.to_string()).collect()
}

fn meta(shown: Shown) -> PropMap {
    let fields =
        [("id", shown.id.to_string()), ("name", shown.title), ("description", shown.excerpt)];
    fields.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

fn matched(shown: Shown, relevance: f64) -> Match {
    let below = PropMap::from([("subtext".to_owned(), text(shown.excerpt))]);
    (shown.id.to_string(), shown.title, "riddle-desktop".to_owned(), PASSAGE_FITS, relevance, below)
}

fn text(value: String) -> Variant<Box<dyn RefArg>> {
    Variant(Box::new(value))
}
