//! What the machine draws from.

use std::{fs, path::Path};

/// Where Linux tells of it.
const SUPPLIES: &str = "/sys/class/power_supply";

/// Whether the machine draws from the mains; `None`: nobody tells.
pub fn on_mains() -> Option<bool> {
    on_mains_of(Path::new(SUPPLIES))
}

/// [`on_mains`], told by the folder `supplies`: one folder for each supply, as Linux has them. A machine that lists
/// neither a battery nor a charger has none, and draws from the mains. A device's battery (a mouse's) is not the
/// machine's.
pub fn on_mains_of(supplies: &Path) -> Option<bool> {
    let entries = fs::read_dir(supplies).ok()?;
    let (mut online, mut has_battery, mut drains) = (None, false, false);
    for supply in entries.flatten().map(|it| it.path()) {
        let read = |name: &str| {
            let text = fs::read_to_string(supply.join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        match read("type").as_str() {
            "Mains" | "USB" | "USB_C" | "Wireless" => {
                let is_online = read("online") == "1";
                online = Some(online.unwrap_or(false) || is_online);
            }
            "Battery" if read("scope") != "Device" => {
                has_battery = true;
                drains |= read("status") == "Discharging";
            }
            _ => {}
        }
    }
    Some(match online {
        // Some machines list a port of which nothing comes as a supply that is not there.
        Some(online) => online || !has_battery,
        None => !drains,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supplies(of: &[(&str, &[(&str, &str)])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, files) in of {
            let supply = folder.path().join(name);
            fs::create_dir(&supply).expect("made");
            for (file, text) in *files {
                fs::write(supply.join(file), format!("{text}\n")).expect("written");
            }
        }
        folder
    }

    #[test]
    fn a_charger_a_battery_and_neither_are_told_apart() {
        let charger = |online| ("AC", vec![("type", "Mains"), ("online", online)]);
        let battery = |status| ("BAT0", vec![("type", "Battery"), ("status", status)]);
        let mouse =
            ("mouse", vec![("type", "Battery"), ("scope", "Device"), ("status", "Discharging")]);
        let told = |of: &[(&'static str, Vec<(&'static str, &'static str)>)]| {
            let of: Vec<_> = of.iter().map(|it| (it.0, it.1.as_slice())).collect();
            on_mains_of(supplies(&of).path())
        };
        assert_eq!(told(&[charger("1"), battery("Charging")]), Some(true));
        assert_eq!(told(&[charger("0"), battery("Discharging")]), Some(false));
        assert_eq!(told(&[battery("Discharging")]), Some(false));
        assert_eq!(told(&[battery("Full")]), Some(true));
        assert_eq!(told(&[charger("0")]), Some(true), "a desktop machine with an empty port");
        assert_eq!(told(&[mouse]), Some(true));
        assert_eq!(told(&[]), Some(true));
        assert_eq!(on_mains_of(Path::new("/nowhere/at/all")), None);
    }
}
