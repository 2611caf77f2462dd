//! A session with the built desktop app in its real WebView.
//!
//! [`Session::start`] starts a WebKitWebDriver and lets it start the app, over a home of the test's own;
//! [`Session`] finds elements by their `data-testid` and waits for what is to come. What is missing here
//! (a display, the driver, the built app) makes a test say `SKIPPED` and why.
//!
//! Not here: the commands behind the views, which `src-tauri` tests without a display.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use fantoccini::{Client, ClientBuilder, Locator, elements::Element};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use tokio::process::Child;

/// Longest that a session waits for something: a loaded machine of continuous integration included.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Error of a session: what was waited for in vain, or what the driver said.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The app over a home, in a WebView that is driven from outside.
#[derive(Debug)]
pub struct Session {
    client: Client,
    /// It ends with the session, whatever happens.
    driver: Child,
    home: PathBuf,
}

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a session needs, or why there is none.
///
/// # Errors
/// What is missing.
pub fn requirements() -> Result<PathBuf, String> {
    if std::env::var_os("DISPLAY").is_none() {
        return Err("there is no display: run under xvfb-run".to_owned());
    }
    if Command::new("WebKitWebDriver").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err("WebKitWebDriver is not installed (Debian: webkit2gtk-driver)".to_owned());
    }
    let given = std::env::var_os("RIDDLE_DESKTOP").map(PathBuf::from);
    let program = given.unwrap_or_else(|| {
        // The test lies in target/PROFILE/deps.
        let test = std::env::current_exe().unwrap_or_default();
        test.ancestors().nth(2).unwrap_or(Path::new(".")).join("riddle-desktop")
    });
    if !program.is_file() {
        return Err(format!("{} is not built", program.display()));
    }
    if !repository().join("ui/dist/assets").is_dir() {
        return Err("the user interface is not built: npm run build in ui".to_owned());
    }
    Ok(program)
}

impl Session {
    /// Starts the app over `home` and waits until its search box can be used.
    ///
    /// # Errors
    /// When the driver or the app does not start, or is not ready in time.
    pub async fn start(program: &Path, home: &Path) -> Result<Session, Error> {
        Session::start_with(program, home, &[]).await
    }

    /// [`start`](Self::start), with more variables in the app's environment.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        program: &Path,
        home: &Path,
        environment: &[(&str, String)],
    ) -> Result<Session, Error> {
        let port = free_port()?;
        let driver = tokio::process::Command::new("WebKitWebDriver")
            .kill_on_drop(true)
            .args([format!("--port={port}"), "--host=127.0.0.1".to_owned()])
            // Without these two a session is never created.
            .env("TAURI_AUTOMATION", "true")
            .env("TAURI_WEBVIEW_AUTOMATION", "true")
            .env("RIDDLE_HOME", home)
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("LANG", "C.UTF-8")
            // The home goes away while the WebView's processes still end.
            .env("MESA_SHADER_CACHE_DISABLE", "true")
            // No test speaks to the desktop that it was started from.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut capabilities = Map::new();
        let options = json!({ "binary": program, "args": [] });
        capabilities.insert("webkitgtk:browserOptions".to_owned(), options);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        let address = format!("http://127.0.0.1:{port}");
        let begun = Instant::now();
        let client = loop {
            match tokio::time::timeout(PATIENCE, builder.connect(&address)).await {
                Ok(Ok(client)) => break client,
                // The driver needs a moment to listen.
                Ok(Err(error)) if begun.elapsed() > PATIENCE => return Err(error.into()),
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(_) => return Err("the driver made no session in time".into()),
            }
        };
        let session = Session { client, driver, home: home.to_path_buf() };
        // A session answers before the page has loaded.
        session
            .until("the app is ready", "return document.documentElement.hasAttribute('data-ready')")
            .await?;
        Ok(session)
    }

    /// Ends the app and waits until it is gone, so that the next one does not meet it.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn close(self) -> Result<(), Error> {
        let Session { client, mut driver, home } = self;
        // Who works in a home writes its number there.
        let app = std::fs::read_to_string(home.join("lock")).unwrap_or_default().trim().to_owned();
        client.close().await?;
        let begun = Instant::now();
        let mut told = false;
        while Path::new("/proc").join(&app).is_dir()
            && !app.is_empty()
            && begun.elapsed() < PATIENCE
        {
            // The driver ends the page, and mostly the app with it.
            if !told && begun.elapsed() > Duration::from_secs(2) {
                told = Command::new("kill").arg(&app).status().is_ok();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        driver.kill().await?;
        Ok(())
    }

    /// Runs a script in the page.
    ///
    /// # Errors
    /// What it throws.
    pub async fn script(&self, script: &str) -> Result<Value, Error> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Calls a command of ours as the page does, and returns what it replies.
    ///
    /// # Errors
    /// What it refuses with.
    pub async fn invoke(&self, command: &str, arguments: Value) -> Result<Value, Error> {
        let script = "const [command, args, done] = arguments;
            window.__TAURI_INTERNALS__.invoke(command, args)
                .then((value) => done({ value }), (error) => done({ error }));";
        let arguments = vec![json!(command), arguments];
        let reply = self.client.execute_async(script, arguments).await?;
        match reply.get("error") {
            Some(error) => Err(format!("{command}: {error}").into()),
            None => Ok(reply["value"].clone()),
        }
    }

    /// Waits until a script returns something that counts as true, and returns it.
    ///
    /// # Errors
    /// When it does not in time: with what the page shows then.
    pub async fn until(&self, what: &str, script: &str) -> Result<Value, Error> {
        let begun = Instant::now();
        loop {
            let last = self.client.execute(script, Vec::new()).await;
            match &last {
                Ok(value) if is_true(value) => return Ok(value.clone()),
                _ if begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                _ => {
                    let page = "return document.body ? document.body.innerText : ''";
                    let page = self.client.execute(page, Vec::new()).await;
                    return Err(
                        format!("waited in vain: {what}; last {last:?}; page {page:?}").into()
                    );
                }
            }
        }
    }

    /// Waits until an element of that `data-testid` exists; `more` is a further selector beside it.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn find(&self, id: &str, more: &str) -> Result<Element, Error> {
        let selector = selector(id, more);
        let script = format!("return document.querySelector({}) !== null", json!(selector));
        self.until(&selector, &script).await?;
        Ok(self.client.find(Locator::Css(&selector)).await?)
    }

    /// Clicks an element once it is there.
    ///
    /// # Errors
    /// When it can not be clicked in time.
    pub async fn click(&self, id: &str, more: &str) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let clicked = match self.find(id, more).await {
                Ok(element) => element.click().await.map_err(Error::from),
                Err(error) => return Err(error),
            };
            match clicked {
                Ok(()) => return Ok(()),
                // Replaced between finding and clicking, or still covered.
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Replaces what an input holds, key by key.
    ///
    /// # Errors
    /// When it can not be typed into.
    pub async fn enter(&self, id: &str, text: &str) -> Result<(), Error> {
        let element = self.find(id, "").await?;
        element.clear().await?;
        // The driver takes no empty text.
        if !text.is_empty() {
            element.send_keys(text).await?;
        }
        Ok(())
    }

    /// How many elements of that `data-testid` there are.
    ///
    /// # Errors
    /// When the page does not answer.
    pub async fn count(&self, id: &str) -> Result<u64, Error> {
        let script =
            format!("return document.querySelectorAll({}).length", json!(selector(id, "")));
        Ok(self.script(&script).await?.as_u64().unwrap_or(0))
    }

    /// A picture of the page, as PNG.
    ///
    /// # Errors
    /// When the driver can not take one.
    pub async fn screenshot(&self) -> Result<Vec<u8>, Error> {
        Ok(self.client.screenshot().await?)
    }

    /// Sets the window's size.
    ///
    /// # Errors
    /// When the driver refuses.
    pub async fn resize(&self, width: u32, height: u32) -> Result<(), Error> {
        Ok(self.client.set_window_size(width, height).await?)
    }
}

fn selector(id: &str, more: &str) -> String {
    format!("[data-testid=\"{id}\"]{more}")
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value != &json!(0) && value != &json!("")
}

fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
