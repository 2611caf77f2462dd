//! What the settings mean for the desktop: tray, global shortcut, start at login.

use std::sync::Mutex;

use tauri::{
    AppHandle, Manager as _, Runtime,
    menu::{Menu, MenuItem},
    tray::{TrayIconBuilder, TrayIconEvent},
};
use tauri_plugin_autostart::ManagerExt as _;
use tauri_plugin_global_shortcut::{GlobalShortcutExt as _, ShortcutState};

use crate::{
    context::lock,
    dto::{Failure, SettingFault, SettingProblem, Settings, SettingsState, SystemWords},
    failure::Reply,
    session,
    shell::Shell,
    window,
};

const TRAY: &str = "tray";

/// Keeps settings and applies what concerns the desktop.
pub(crate) fn change_settings<R: Runtime>(
    app: &AppHandle<R>,
    shell: &Shell,
    settings: Settings,
) -> Reply<SettingsState> {
    let before = shell.settings_now();
    shell.keep_settings(settings.clone())?;
    let mut problems = Vec::new();
    if before.tray != settings.tray {
        note(&mut problems, "tray", set_tray(app, settings.tray));
    }
    if before.shortcut != settings.shortcut {
        note(&mut problems, "shortcut", set_shortcut(app, settings.shortcut.as_deref()));
    }
    if before.start_at_login != settings.start_at_login {
        note(&mut problems, "startAtLogin", set_autostart(app, settings.start_at_login));
    }
    Ok(shell.tell_settings(problems))
}

/// Applies what was kept, when the program starts.
pub(crate) fn apply_at_start<R: Runtime>(app: &AppHandle<R>, shell: &Shell) {
    let settings = shell.settings_now();
    let mut problems = Vec::new();
    if settings.tray {
        note(&mut problems, "tray", set_tray(app, true));
    }
    if let Some(shortcut) = &settings.shortcut {
        note(&mut problems, "shortcut", set_shortcut(app, Some(shortcut)));
    }
    if !problems.is_empty() {
        shell.tell_settings(problems);
    }
}

fn note(problems: &mut Vec<SettingProblem>, setting: &str, done: Result<(), SettingFault>) {
    if let Err(fault) = done {
        problems.push(SettingProblem { setting: setting.to_owned(), fault });
    }
}

/// What the system says.
fn system(error: impl std::fmt::Display) -> SettingFault {
    SettingFault::System { message: error.to_string() }
}

/// The words of menus and dialogs.
#[derive(Debug, Default)]
pub(crate) struct Words(Mutex<SystemWords>);

/// The words of menus and dialogs, as the interface said them last.
pub(crate) fn words<R: Runtime>(app: &AppHandle<R>) -> SystemWords {
    app.try_state::<Words>().map(|it| lock(&it.0).clone()).unwrap_or_default()
}

/// Takes the words from the interface, which knows the language on screen; a tray that is there speaks it at once.
pub(crate) fn set_words<R: Runtime>(app: &AppHandle<R>, words: SystemWords) -> Reply<()> {
    let Some(state) = app.try_state::<Words>() else { return Ok(()) };
    if std::mem::replace(&mut *lock(&state.0), words.clone()) == words {
        return Ok(());
    }
    if let Some(tray) = app.tray_by_id(TRAY) {
        tray.set_menu(Some(menu(app, &words).map_err(Failure::other)?)).map_err(Failure::other)?;
    }
    Ok(())
}

fn menu<R: Runtime>(app: &AppHandle<R>, words: &SystemWords) -> tauri::Result<Menu<R>> {
    let show = MenuItem::with_id(app, "show", &words.show, true, None::<&str>)?;
    let quit = MenuItem::with_id(app, "quit", &words.quit, true, None::<&str>)?;
    Menu::with_items(app, &[&show, &quit])
}

fn set_tray<R: Runtime>(app: &AppHandle<R>, wanted: bool) -> Result<(), SettingFault> {
    app.remove_tray_by_id(TRAY);
    if !wanted {
        return Ok(());
    }
    let menu = menu(app, &words(app)).map_err(system)?;
    let mut tray = TrayIconBuilder::with_id(TRAY)
        .tooltip("Riddle")
        .menu(&menu)
        .on_menu_event(|app, event| match event.id().as_ref() {
            "show" => window::summon(app),
            "quit" => app.exit(0),
            _ => {}
        })
        .on_tray_icon_event(|tray, event| {
            if let TrayIconEvent::Click { .. } = event {
                window::summon(tray.app_handle());
            }
        });
    if let Some(icon) = app.default_window_icon() {
        tray = tray.icon(icon.clone());
    }
    tray.build(app).map(|_| ()).map_err(system)
}

fn set_shortcut<R: Runtime>(
    app: &AppHandle<R>,
    shortcut: Option<&str>,
) -> Result<(), SettingFault> {
    let Some(shortcuts) = app.try_state::<tauri_plugin_global_shortcut::GlobalShortcut<R>>() else {
        return shortcut.map_or(Ok(()), |_| Err(SettingFault::NoShortcuts));
    };
    shortcuts.unregister_all().map_err(system)?;
    let Some(shortcut) = shortcut else { return Ok(()) };
    if session::is_wayland() {
        return Err(SettingFault::Wayland { command: session::toggle_command() });
    }
    app.global_shortcut()
        .on_shortcut(shortcut, |app, _, event| {
            if event.state == ShortcutState::Pressed {
                window::toggle(app);
            }
        })
        .map_err(system)
}

fn set_autostart<R: Runtime>(app: &AppHandle<R>, wanted: bool) -> Result<(), SettingFault> {
    if app.try_state::<tauri_plugin_autostart::AutoLaunchManager>().is_none() {
        return Err(SettingFault::NoStartList);
    }
    let autostart = app.autolaunch();
    let done = if wanted { autostart.enable() } else { autostart.disable() };
    done.map_err(system)
}
