//! Names of users and groups by their numbers.
//!
//! `/etc/passwd` and `/etc/group` are read; what stands in neither (a directory service has it) is asked of `getent`,
//! once for a while. What has no name is `#` and the number, which no name begins with.

use std::{
    collections::HashMap,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long an answer of the directory service is taken for true.
const LASTS: Duration = Duration::from_secs(60);

/// Most answers that are kept: then all are asked for anew.
const MOST_KEPT: usize = 65_536;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Users,
    Groups,
}

/// Names by database and number, each with when it was told.
type Told = HashMap<(Of, u32), (String, Instant)>;

/// What the directory service has said.
static ASKED: Mutex<Option<Told>> = Mutex::new(None);

/// Names, as the files have them now.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) users: Option<HashMap<u32, String>>,
    pub(super) groups: Option<HashMap<u32, String>>,
}

impl Names {
    pub(super) fn user(&mut self, id: u32) -> String {
        let known = self.users.get_or_insert_with(|| read("/etc/passwd"));
        known.get(&id).cloned().unwrap_or_else(|| asked(Of::Users, id))
    }

    pub(super) fn group(&mut self, id: u32) -> String {
        let known = self.groups.get_or_insert_with(|| read("/etc/group"));
        known.get(&id).cloned().unwrap_or_else(|| asked(Of::Groups, id))
    }
}

fn read(path: &str) -> HashMap<u32, String> {
    let text = std::fs::read(path).unwrap_or_default();
    parse(&String::from_utf8_lossy(&text))
}

/// Lines `NAME:…:NUMBER:…`; of two names for a number the first counts, as it does for the system.
fn parse(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let (name, id) = (fields.next().unwrap_or_default(), fields.nth(1));
        let Some(id) = id.and_then(|it| it.parse().ok()) else { continue };
        // `+` and `-` begin entries that stand for others.
        if !name.is_empty() && !name.starts_with(['#', '+', '-']) {
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}

fn asked(of: Of, id: u32) -> String {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = asked.get_or_insert_default();
    if let Some((name, at)) = known.get(&(of, id))
        && at.elapsed() < LASTS
    {
        return name.clone();
    }
    let name = ask(of, id).unwrap_or_else(|| format!("#{id}"));
    if known.len() >= MOST_KEPT {
        known.clear();
    }
    known.insert((of, id), (name.clone(), Instant::now()));
    name
}

fn ask(of: Of, id: u32) -> Option<String> {
    let database = match of {
        Of::Users => "passwd",
        Of::Groups => "group",
    };
    let mut command = Command::new("getent");
    command.args([database, &id.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
    let said = command.output().ok()?;
    parse(&String::from_utf8_lossy(&said.stdout)).remove(&id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_numbers() {
        let text = "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n+nis:x:5:\n#a:x:6:\n:x:7:\nx\nbad:x:-1:\n\
                    domain users:*:70000:ada,bob";
        let names = parse(text);
        assert_eq!(names.get(&0).map(String::as_str), Some("root"));
        assert_eq!(names.get(&70_000).map(String::as_str), Some("domain users"));
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn what_has_no_name_is_its_number() {
        let mut names = Names::default();
        for id in [3_999_999_999, 3_999_999_998, 3_999_999_999] {
            assert_eq!(names.user(id), format!("#{id}"));
            assert_eq!(names.group(id), format!("#{id}"));
        }
    }
}
