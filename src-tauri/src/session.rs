//! The desktop's session: what it lets a program do.

/// Whether this session is Wayland's.
pub(crate) fn is_wayland() -> bool {
    std::env::var_os("WAYLAND_DISPLAY").is_some_and(|it| !it.is_empty())
        || std::env::var("XDG_SESSION_TYPE").is_ok_and(|it| it == "wayland")
}

/// What to bind to a key where programs may not.
pub(crate) fn toggle_command() -> String {
    let program = std::env::current_exe().map(|it| it.display().to_string());
    format!("{} toggle", program.unwrap_or_else(|_| "riddle-desktop".to_owned()))
}
