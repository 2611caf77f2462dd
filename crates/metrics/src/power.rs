//! What the machine draws from, and how warm it is.

use std::{fs, path::Path};

/// Where Linux tells of it.
const SUPPLIES: &str = "/sys/class/power_supply";
const THERMAL: &str = "/sys/class/thermal";

/// Thousandths of a degree below the heat in which a machine turns itself off: where nothing is said of slowing down,
/// it is hot from here on.
const BELOW_CRITICAL: i64 = 10_000;

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

/// Whether the machine is so warm that it slows itself down; `None`: nobody tells.
pub fn is_hot() -> Option<bool> {
    is_hot_of(Path::new(THERMAL))
}

/// [`is_hot`], told by the folder `thermal`: one folder for each place that is measured, as Linux has them, with the
/// temperature (thousandths of a degree) and those at which something is done. From the passive ones on the system
/// slows the processor down; at the active ones it turns a fan on, which is no reason to do less.
pub fn is_hot_of(thermal: &Path) -> Option<bool> {
    let zones = fs::read_dir(thermal).ok()?;
    let mut known = None;
    for zone in zones.flatten().map(|it| it.path()) {
        let read = |name: &str| fs::read_to_string(zone.join(name)).ok();
        let number = |name: &str| read(name)?.trim().parse::<i64>().ok();
        let Some(now) = number("temp") else { continue };
        let trips = (0..).map_while(|it| {
            let kind = read(&format!("trip_point_{it}_type"))?;
            Some((kind.trim().to_owned(), number(&format!("trip_point_{it}_temp"))))
        });
        let limit = trips.filter_map(|(kind, at)| {
            // What is turned off is said to be at nought or below.
            let at = at.filter(|it| *it > 0)?;
            match kind.as_str() {
                "passive" | "hot" => Some(at),
                "critical" => Some(at - BELOW_CRITICAL),
                _ => None,
            }
        });
        if let Some(limit) = limit.min() {
            known = Some(known.unwrap_or(false) || now >= limit);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slows_down_is_hot_and_what_turns_a_fan_on_is_not() {
        let zone = |temp: &'static str, trips: &[(&'static str, &'static str)]| {
            let folder = tempfile::tempdir().expect("a folder");
            let zone = folder.path().join("thermal_zone0");
            fs::create_dir(&zone).expect("made");
            let write = |name: String, text: &str| {
                fs::write(zone.join(name), format!("{text}\n")).expect("written");
            };
            write("temp".to_owned(), temp);
            for (place, (kind, at)) in trips.iter().enumerate() {
                write(format!("trip_point_{place}_type"), kind);
                write(format!("trip_point_{place}_temp"), at);
            }
            is_hot_of(folder.path())
        };
        let trips = [("active", "55000"), ("passive", "85000"), ("critical", "100000")];
        assert_eq!(zone("60000", &trips), Some(false));
        assert_eq!(zone("85000", &trips), Some(true));
        assert_eq!(zone("89000", &[("critical", "100000")]), Some(false));
        assert_eq!(zone("90000", &[("critical", "100000")]), Some(true));
        assert_eq!(zone("90000", &[("passive", "-273200"), ("critical", "0")]), None, "turned off");
        assert_eq!(zone("warm", &trips), None, "what can not be read");
        assert_eq!(is_hot_of(Path::new("/nowhere/at/all")), None);
    }

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
