//! The one window.

use tauri::{
    App, AppHandle, DragDropEvent, Manager as _, Runtime, WebviewUrl, WebviewWindow,
    WebviewWindowBuilder, WindowEvent,
};

use crate::{
    dto::{AppEvent, Failure},
    failure::Reply,
    instance::Ask,
    shell::Shell,
};

/// Its label: what the capability is for.
const MAIN: &str = "main";

/// Makes the window, hidden: it is shown when there is something in it.
pub(crate) fn create<R: Runtime>(app: &App<R>) -> tauri::Result<WebviewWindow<R>> {
    let window = WebviewWindowBuilder::new(app, MAIN, WebviewUrl::default())
        .title("Riddle")
        .inner_size(1280.0, 800.0)
        .min_inner_size(640.0, 480.0)
        .visible(false)
        // Nothing but our own pages, whatever a document says.
        .on_navigation(|url| {
            matches!(url.scheme(), "tauri")
                || matches!(url.host_str(), Some("tauri.localhost"))
                || cfg!(debug_assertions) && url.host_str() == Some("localhost")
        })
        .build()?;
    #[cfg(target_os = "linux")]
    crate::view::prepare(&window)?;
    let handle = app.handle().clone();
    window.on_window_event(move |event| on_event(&handle, event));
    Ok(window)
}

fn on_event<R: Runtime>(app: &AppHandle<R>, event: &WindowEvent) {
    let Some(shell) = app.try_state::<Shell>() else { return };
    match event {
        WindowEvent::CloseRequested { api, .. } if shell.settings_now().tray => {
            api.prevent_close();
            hide(app);
        }
        WindowEvent::DragDrop(DragDropEvent::Enter { .. }) => shell.tell(AppEvent::DragOver),
        WindowEvent::DragDrop(DragDropEvent::Leave) => shell.tell(AppEvent::DragLeft),
        WindowEvent::DragDrop(DragDropEvent::Drop { paths, .. }) => {
            let paths = paths.iter().filter_map(|it| Some(it.to_str()?.to_owned())).collect();
            shell.tell(AppEvent::DragLeft);
            shell.tell(AppEvent::Dropped { paths });
        }
        _ => {}
    }
}

fn main<R: Runtime>(app: &AppHandle<R>) -> Option<WebviewWindow<R>> {
    app.get_webview_window(MAIN)
}

/// Shows the window, unless the program was started to wait in the background.
pub(crate) fn show<R: Runtime>(app: &AppHandle<R>) -> Reply<()> {
    let waits = app.try_state::<StartHidden>().is_some_and(|it| it.take());
    match main(app) {
        Some(window) if !waits => window.show().map_err(Failure::other),
        _ => Ok(()),
    }
}

/// Brings the window to the front with the search box ready.
pub(crate) fn summon<R: Runtime>(app: &AppHandle<R>) {
    if let Some(window) = main(app) {
        // Each of these may be refused by a window manager; the others still help.
        let _ = window.show();
        let _ = window.unminimize();
        let _ = window.set_focus();
    }
    if let Some(shell) = app.try_state::<Shell>() {
        shell.tell(AppEvent::Summoned);
    }
}

/// Brings the window to the front with what is asked for in it.
pub(crate) fn summon_for<R: Runtime>(app: &AppHandle<R>, ask: Ask) {
    summon(app);
    if let (Some(shell), Some(event)) = (app.try_state::<Shell>(), event(ask)) {
        shell.tell_or_keep(event);
    }
}

/// What the page is told; `None`: that it is there is enough.
pub(crate) fn event(ask: Ask) -> Option<AppEvent> {
    match ask {
        Ask::Show | Ask::Toggle => None,
        Ask::Passage(chunk) => Some(AppEvent::Linked { chunk }),
        Ask::Search(text) => Some(AppEvent::Typed { text }),
    }
}

/// Shows the window, or hides it when it is in front.
pub(crate) fn toggle<R: Runtime>(app: &AppHandle<R>) {
    let in_front = main(app)
        .is_some_and(|it| it.is_visible().unwrap_or(false) && it.is_focused().unwrap_or(false));
    if in_front { hide(app) } else { summon(app) }
}

fn hide<R: Runtime>(app: &AppHandle<R>) {
    if let Some(window) = main(app) {
        let _ = window.hide();
    }
}

/// The program was started to wait in the background: the first `ready` shows nothing.
#[derive(Default)]
pub(crate) struct StartHidden(pub(crate) std::sync::atomic::AtomicBool);

impl StartHidden {
    fn take(&self) -> bool {
        self.0.swap(false, std::sync::atomic::Ordering::AcqRel)
    }
}
