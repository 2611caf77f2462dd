//! What the settings mean for the desktop: tray, global shortcut, start at login.

use tauri::{
    AppHandle, Manager as _, Runtime,
    menu::{Menu, MenuItem},
    tray::{TrayIconBuilder, TrayIconEvent},
};
use tauri_plugin_autostart::ManagerExt as _;
use tauri_plugin_global_shortcut::{GlobalShortcutExt as _, ShortcutState};

use crate::{
    dto::{SettingProblem, Settings, SettingsState},
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

fn note(problems: &mut Vec<SettingProblem>, setting: &str, done: Result<(), String>) {
    if let Err(message) = done {
        problems.push(SettingProblem { setting: setting.to_owned(), message });
    }
}

fn set_tray<R: Runtime>(app: &AppHandle<R>, wanted: bool) -> Result<(), String> {
    app.remove_tray_by_id(TRAY);
    if !wanted {
        return Ok(());
    }
    let text = |error: tauri::Error| error.to_string();
    let show = MenuItem::with_id(app, "show", "Show Riddle", true, None::<&str>).map_err(text)?;
    let quit = MenuItem::with_id(app, "quit", "Quit", true, None::<&str>).map_err(text)?;
    let menu = Menu::with_items(app, &[&show, &quit]).map_err(text)?;
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
    tray.build(app).map(|_| ()).map_err(text)
}

fn set_shortcut<R: Runtime>(app: &AppHandle<R>, shortcut: Option<&str>) -> Result<(), String> {
    let Some(shortcuts) = app.try_state::<tauri_plugin_global_shortcut::GlobalShortcut<R>>() else {
        return shortcut
            .map_or(Ok(()), |_| Err("shortcuts do not work in this session".to_owned()));
    };
    shortcuts.unregister_all().map_err(|error| error.to_string())?;
    let Some(shortcut) = shortcut else { return Ok(()) };
    if session::is_wayland() {
        return Err(format!(
            "Wayland lets no program take a key: bind `{}` in the desktop's keyboard settings",
            session::toggle_command()
        ));
    }
    app.global_shortcut()
        .on_shortcut(shortcut, |app, _, event| {
            if event.state == ShortcutState::Pressed {
                window::toggle(app);
            }
        })
        .map_err(|error| error.to_string())
}

fn set_autostart<R: Runtime>(app: &AppHandle<R>, wanted: bool) -> Result<(), String> {
    if app.try_state::<tauri_plugin_autostart::AutoLaunchManager>().is_none() {
        return Err("this system has no list of programs to start".to_owned());
    }
    let autostart = app.autolaunch();
    let done = if wanted { autostart.enable() } else { autostart.disable() };
    done.map_err(|error| error.to_string())
}
