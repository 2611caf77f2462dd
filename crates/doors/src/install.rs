//! The configurations of programs that speak the Model Context Protocol: an entry is put in and taken out, and nothing
//! else of the file is touched, its comments and order included.

mod jsonc;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// What the entry is called.
const NAME: &str = "riddle";

/// Largest configuration that is changed, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A program whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude's app.
    ClaudeDesktop,
    /// Claude in a terminal.
    ClaudeCode,
    /// Codex in a terminal.
    Codex,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Zed.
    Zed,
    /// Gemini in a terminal.
    Gemini,
    /// LM Studio.
    LmStudio,
}

/// Where configurations are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The person's home.
    pub home: PathBuf,
    /// Where programs keep their configurations: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    pub config: PathBuf,
}

impl Places {
    /// Of this system, if the environment tells them.
    pub fn of_environment() -> Option<Places> {
        let var =
            |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = var("HOME").or_else(|| var("USERPROFILE"))?;
        let config = if cfg!(windows) {
            var("APPDATA")?
        } else if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            let given = var("XDG_CONFIG_HOME").filter(|it| it.is_absolute());
            given.unwrap_or_else(|| home.join(".config"))
        };
        Some(Places { home, config })
    }
}

/// How the program is started by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// What would be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The configuration.
    pub path: PathBuf,
    /// What it is before; `None`: there is none.
    pub before: Option<String>,
    /// What it is after.
    pub after: String,
    /// The part that is put in or taken out.
    pub entry: String,
}

impl Client {
    /// All that are known.
    pub const ALL: [Client; 8] = [
        Client::ClaudeDesktop,
        Client::ClaudeCode,
        Client::Codex,
        Client::Cursor,
        Client::VsCode,
        Client::Zed,
        Client::Gemini,
        Client::LmStudio,
    ];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "claude-desktop",
            Client::ClaudeCode => "claude-code",
            Client::Codex => "codex",
            Client::Cursor => "cursor",
            Client::VsCode => "vscode",
            Client::Zed => "zed",
            Client::Gemini => "gemini",
            Client::LmStudio => "lm-studio",
        }
    }

    /// Its configuration.
    pub fn path(self, places: &Places) -> PathBuf {
        let Places { home, config } = places;
        match self {
            Client::ClaudeDesktop => config.join("Claude/claude_desktop_config.json"),
            Client::ClaudeCode => home.join(".claude.json"),
            Client::Codex => home.join(".codex/config.toml"),
            Client::Cursor => home.join(".cursor/mcp.json"),
            Client::VsCode => config.join("Code/User/mcp.json"),
            // Zed keeps to ~/.config on every system.
            Client::Zed => home.join(".config/zed/settings.json"),
            Client::Gemini => home.join(".gemini/settings.json"),
            Client::LmStudio => home.join(".lmstudio/mcp.json"),
        }
    }

    /// The member of the configuration that lists servers.
    fn list(self) -> &'static str {
        match self {
            Client::VsCode => "servers",
            Client::Zed => "context_servers",
            Client::Codex => "mcp_servers",
            _ => "mcpServers",
        }
    }

    fn entry(self, start: &Start) -> Value {
        let mut entry = json!({"command": start.command, "args": start.args});
        match self {
            Client::VsCode | Client::ClaudeCode => entry["type"] = json!("stdio"),
            Client::Zed => entry["source"] = json!("custom"),
            _ => {}
        }
        entry
    }

    /// What putting it in would change.
    ///
    /// # Errors
    /// When the configuration can not be read or understood: it is never guessed at.
    pub fn install(self, places: &Places, start: &Start) -> Result<Change> {
        let path = self.path(places);
        let before = read(&path)?;
        let text = before.clone().unwrap_or_default();
        if self == Client::Codex {
            let entry = toml_entry(start);
            let without = without_table(&text);
            let gap = if without.trim().is_empty() { "" } else { "\n" };
            let mut kept = without.trim_end().to_owned();
            if !kept.is_empty() {
                kept.push('\n');
            }
            return Ok(Change { path, before, after: format!("{kept}{gap}{entry}"), entry });
        }
        let value = self.entry(start);
        let after = jsonc::put(&text, self.list(), NAME, &value)
            .map_err(|why| Error::BadConfiguration { path: path.clone(), why })?;
        let entry = format!("\"{NAME}\": {value:#}\n");
        Ok(Change { path, before, after, entry })
    }

    /// What taking it out would change; `None`: it is not there.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub fn uninstall(self, places: &Places) -> Result<Option<Change>> {
        let path = self.path(places);
        let Some(before) = read(&path)? else { return Ok(None) };
        let after = if self == Client::Codex {
            let without = without_table(&before);
            (without != before).then(|| format!("{}\n", without.trim_end()).trim_start().to_owned())
        } else {
            jsonc::take(&before, self.list(), NAME)
                .map_err(|why| Error::BadConfiguration { path: path.clone(), why })?
        };
        let entry = format!("{NAME} in {}\n", self.list());
        Ok(after.map(|after| Change { path, before: Some(before), after, entry }))
    }
}

impl Change {
    /// Where what was there before is kept.
    pub fn backup(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".before-riddle");
        PathBuf::from(name)
    }

    /// Keeps what was there, then writes; whoever reads meanwhile sees the one or the other.
    ///
    /// # Errors
    /// When a file can not be written.
    pub fn write(&self) -> Result<()> {
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Io { path, source }
        };
        // A link to a file kept elsewhere stays a link.
        let target = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(io(folder))?;
        }
        if self.before.is_some() {
            fs::copy(&target, self.backup()).map_err(io(&self.backup()))?;
        }
        let mut staged = target.clone().into_os_string();
        staged.push(".riddle-new");
        let staged = PathBuf::from(staged);
        fs::write(&staged, &self.after).map_err(io(&staged))?;
        if let Ok(metadata) = fs::metadata(&target) {
            fs::set_permissions(&staged, metadata.permissions()).map_err(io(&staged))?;
        }
        fs::rename(&staged, &target).map_err(io(&target))
    }
}

fn read(path: &Path) -> Result<Option<String>> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    match fs::metadata(path) {
        Ok(it) if it.len() > MAX_BYTES => Err(Error::BadConfiguration {
            path: path.to_path_buf(),
            why: "it is larger than any configuration".to_owned(),
        }),
        Ok(_) => fs::read_to_string(path).map(Some).map_err(io),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(error)),
    }
}

/// The table as Codex reads it. Texts of TOML and JSON are written alike.
fn toml_entry(start: &Start) -> String {
    let args: Vec<String> = start.args.iter().map(|it| json!(it).to_string()).collect();
    format!(
        "[mcp_servers.{NAME}]\ncommand = {}\nargs = [{}]\n",
        json!(start.command),
        args.join(", ")
    )
}

/// The text without our table: from its head to the next one.
fn without_table(text: &str) -> String {
    let head = |line: &str| {
        let line = line.trim();
        let inner = line.strip_prefix('[')?.split(']').next()?;
        Some(inner.replace([' ', '"', '\''], ""))
    };
    let own = format!("mcp_servers.{NAME}");
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if let Some(name) = head(line) {
            inside = name == own || name.starts_with(&format!("{own}."));
        }
        if !inside {
            out.push_str(line);
        }
    }
    out
}

/// Somebody's configuration, read as this program would.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn reads(text: &str) {
    jsonc::reads(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> (tempfile::TempDir, Places) {
        let dir = tempfile::tempdir().expect("a folder");
        let places = Places { home: dir.path().join("jo"), config: dir.path().join("jo/.config") };
        (dir, places)
    }

    fn start() -> Start {
        Start { command: "/opt/with space/riddle".to_owned(), args: vec!["mcp".to_owned()] }
    }

    #[test]
    fn every_client_gets_its_entry_once_and_gives_it_back() {
        for client in Client::ALL {
            let (_dir, places) = places();
            assert_eq!(client.uninstall(&places).expect("nothing there"), None);
            let change = client.install(&places, &start()).expect("a change");
            assert_eq!(change.before, None);
            change.write().expect("written");
            let again = client.install(&places, &start()).expect("a change");
            assert_eq!(again.before.as_deref(), Some(again.after.as_str()), "{client:?}");
            assert!(again.after.contains("/opt/with space/riddle"), "{}", again.after);
            let gone = client.uninstall(&places).expect("readable").expect("there");
            gone.write().expect("written");
            assert!(!gone.after.contains("riddle"), "{client:?}: {}", gone.after);
            assert_eq!(client.uninstall(&places).expect("readable"), None, "{client:?}");
            let kept = fs::read_to_string(gone.backup()).expect("a backup");
            assert_eq!(Some(kept), gone.before);
        }
    }

    #[test]
    fn what_else_is_in_a_file_stays_as_it_is() {
        let (_dir, places) = places();
        let text = "// mine\n{\n  \"theme\": \"dark\", // at night\n  \"context_servers\": {\n    \"other\": {\"command\": \"x\"},\n  },\n  \"z\": 1,\n  \"a\": 2\n}\n";
        let path = Client::Zed.path(&places);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        let change = Client::Zed.install(&places, &start()).expect("a change");
        for part in [
            "// mine\n",
            "\"dark\", // at night",
            "\"other\": {\"command\": \"x\"}",
            "\"z\": 1,\n  \"a\": 2\n}",
        ] {
            assert!(change.after.contains(part), "{part}: {}", change.after);
        }
        change.write().expect("written");
        let gone = Client::Zed.uninstall(&places).expect("readable").expect("there");
        let plain = |it: &str| it.split_whitespace().collect::<String>().replace(",}", "}");
        assert_eq!(plain(&gone.after), plain(text));
    }

    #[test]
    fn a_table_of_codex_is_replaced_and_its_neighbors_stay() {
        let (_dir, places) = places();
        let text = "model = \"x\"\n\n[mcp_servers.\"riddle\"]\ncommand = \"old\"\n[mcp_servers.riddle.env]\nA = \"1\"\n\n[mcp_servers.riddle2]\ncommand = \"y\"\n";
        let path = Client::Codex.path(&places);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        let change = Client::Codex.install(&places, &start()).expect("a change");
        assert!(
            !change.after.contains("old") && !change.after.contains("A = "),
            "{}",
            change.after
        );
        assert!(change.after.contains("model = \"x\"") && change.after.contains("riddle2"));
        assert_eq!(change.after.matches("[mcp_servers.riddle]").count(), 1);
    }

    #[test]
    fn what_can_not_be_understood_is_not_changed() {
        let (_dir, places) = places();
        let path = Client::Cursor.path(&places);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        for text in [
            "{",
            "[]",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": {\"riddle\": }",
            "{} x",
            "{\"a\" 1}",
        ] {
            fs::write(&path, text).expect("written");
            let error = Client::Cursor.install(&places, &start()).expect_err(text);
            assert!(error.to_string().contains("nothing was changed"), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
    }
}
