//! What draws the window. Without a graphics card the processor draws by itself instead of emulating a card, which took
//! it half as long again. When the process that draws ends by itself the page is loaded anew, and says so; indexing
//! goes on meanwhile, it is another process.

#[cfg(target_os = "linux")]
use std::path::Path;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Failures in [`WITHIN`] after which another page would only fail again.
const MOST: usize = 3;
const WITHIN: Duration = Duration::from_secs(60);

/// The last failures.
#[derive(Debug, Default)]
struct Failures(VecDeque<Instant>);

impl Failures {
    /// Whether the page is worth loading after one more failure at `now`.
    fn again(&mut self, now: Instant) -> bool {
        self.0.retain(|it| now.duration_since(*it) < WITHIN);
        self.0.push_back(now);
        self.0.len() <= MOST
    }
}

/// Chooses how the page is drawn, and loads it anew whenever its process has ended.
///
/// # Errors
/// When the window can not be asked for its view.
#[cfg(target_os = "linux")]
pub(crate) fn prepare<R: tauri::Runtime>(window: &tauri::WebviewWindow<R>) -> tauri::Result<()> {
    use tauri::Manager as _;
    use webkit2gtk::{HardwareAccelerationPolicy, SettingsExt as _, WebViewExt as _};

    let app = window.app_handle().clone();
    window.with_webview(move |view| {
        let settings =
            view.inner().settings().filter(|_| !has_graphics_card(Path::new("/dev/dri")));
        if let Some(settings) = settings {
            settings.set_hardware_acceleration_policy(HardwareAccelerationPolicy::Never);
        }
        let failures = std::cell::RefCell::new(Failures::default());
        view.inner().connect_web_process_terminated(move |view, reason| {
            if failures.borrow_mut().again(Instant::now()) {
                tracing::warn!("the window's view has ended ({reason:?}): it is loaded again");
                if let Some(shell) = app.try_state::<crate::shell::Shell>() {
                    shell.tell_later(
                        "the window’s view",
                        "It was loaded again. Your library and your history are as they were.",
                    );
                }
                view.reload();
            } else {
                tracing::error!(
                    "the window's view ended {} times in a minute ({reason:?}). Update WebKitGTK \
                     (Debian: libwebkit2gtk-4.1-0), or start with WEBKIT_DISABLE_DMABUF_RENDERER=1",
                    MOST + 1
                );
                app.exit(1);
            }
        });
    })
}

/// Whether a card is there that draws for programs without a screen of their own: its render node.
#[cfg(target_os = "linux")]
fn has_graphics_card(devices: &Path) -> bool {
    std::fs::read_dir(devices).is_ok_and(|entries| {
        entries.flatten().any(|it| it.file_name().to_string_lossy().starts_with("renderD"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_card_that_only_shows_is_none() {
        let devices = tempfile::tempdir().expect("a folder");
        assert!(!has_graphics_card(&devices.path().join("none")));
        std::fs::write(devices.path().join("card0"), "").expect("a file");
        assert!(!has_graphics_card(devices.path()));
        std::fs::write(devices.path().join("renderD128"), "").expect("a file");
        assert!(has_graphics_card(devices.path()));
    }

    #[test]
    fn many_failures_in_a_minute_are_too_many() {
        let (mut failures, begin) = (Failures::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!([0, 1, 2].into_iter().all(|it| failures.again(at(it))));
        assert!(!failures.again(at(3)));
        // Those of a minute ago do not count.
        assert!(failures.again(at(62)) && failures.again(at(63)) && failures.again(at(64)));
        assert!(!failures.again(at(65)));
    }
}
