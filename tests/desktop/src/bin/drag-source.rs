//! A window in the corner from which a path can be dragged, as from a file manager: `drag-source PATH`.
//!
//! The tests press the mouse on it and let go over the app, so that what is dropped comes to the app as the desktop
//! brings it. It stands beside [`riddle_desktop_tests::Session`], which drives the app itself. Not here: pressing and
//! moving, which `xdotool` does, and anything that is not Linux, where the window would have to be another.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use gtk::{gdk, glib, prelude::*};

    let path = std::env::args_os().nth(1).ok_or("which path?")?;
    let uri = glib::filename_to_uri(path, None)?;
    gtk::init()?;
    let window = gtk::Window::new(gtk::WindowType::Popup);
    window.set_title("Drag source");
    window.set_default_size(60, 60);
    window.move_(0, 0);
    let area = gtk::EventBox::new();
    window.add(&area);
    let target = gtk::TargetEntry::new("text/uri-list", gtk::TargetFlags::empty(), 0);
    area.drag_source_set(gdk::ModifierType::BUTTON1_MASK, &[target], gdk::DragAction::COPY);
    area.connect_drag_data_get(move |_, _, data, _, _| {
        data.set_uris(&[&uri]);
    });
    window.show_all();
    gtk::main();
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
