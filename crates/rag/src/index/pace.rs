//! How much of the machine the queue of vectors takes while a person works: a share of the processor, less while others
//! want it, nothing on battery.
//!
//! Words are searched without vectors, so nothing is lost by waiting. Whoever asks for an index and waits for it gets
//! all of the machine.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use riddle_catalog::Catalog;

use crate::{
    contract::{MeaningLimits, Rest, Result},
    home::settings::meaning_limits,
};

/// Share that is taken while others wait for the processor, in percent.
const CPU_UNDER_LOAD: u32 = 25;

/// Others wait for the processor: in this share of the last ten seconds, in percent, somebody who could have run did
/// not. Vectors alone, on as many threads as there are cores, make a few percent.
const LOAD: f64 = 50.0;

/// Power supply and load are looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Where Linux tells of power supplies, and of who waits for the processor.
const POWER: &str = "/sys/class/power_supply";
const PRESSURE: &str = "/proc/pressure/cpu";

/// The pace of one run.
#[derive(Debug)]
pub(crate) struct Pace {
    /// `None`: as fast as it goes.
    limits: Option<MeaningLimits>,
    looked: Option<(Instant, Option<Rest>)>,
}

impl Pace {
    /// Somebody waits for the result.
    pub(crate) fn hurried() -> Pace {
        Pace { limits: None, looked: None }
    }

    /// Beside a person's work, as the home is set.
    pub(crate) fn beside_work(catalog: &Catalog) -> Result<Pace> {
        Ok(Pace { limits: Some(meaning_limits(catalog)?), looked: None })
    }

    /// Why it is to go slower now, or not at all.
    pub(crate) fn rest(&mut self) -> Option<Rest> {
        let limits = self.limits?;
        if let Some((_, rest)) = self.looked.filter(|it| it.0.elapsed() < LOOK_EVERY) {
            return rest;
        }
        let rest = if !limits.on_battery && on_battery(Path::new(POWER)) {
            Some(Rest::Battery)
        } else if std::fs::read_to_string(PRESSURE).is_ok_and(|it| waiting(&it) > LOAD) {
            Some(Rest::Load)
        } else {
            None
        };
        self.looked = Some((Instant::now(), rest));
        rest
    }

    /// How long to do nothing after having worked that long.
    pub(crate) fn pause_after(&self, worked: Duration, rest: Option<Rest>) -> Duration {
        let Some(limits) = self.limits else { return Duration::ZERO };
        let share = match rest {
            Some(Rest::Load) => limits.cpu.min(CPU_UNDER_LOAD),
            _ => limits.cpu,
        };
        worked * (100 - share) / share
    }
}

/// Whether the machine runs on its battery: one gives power, and no supply from outside is there. A machine that does
/// not tell has none.
fn on_battery(supplies: &Path) -> bool {
    let of = |path: &Path, name: &str| {
        std::fs::read_to_string(path.join(name)).map(|it| it.trim().to_owned()).unwrap_or_default()
    };
    let (mut discharging, mut online) = (false, false);
    for entry in std::fs::read_dir(supplies).into_iter().flatten().flatten() {
        let path = entry.path();
        if of(&path, "type") == "Battery" {
            // Mice and headphones have batteries, too.
            discharging |= of(&path, "status") == "Discharging" && of(&path, "scope") != "Device";
        } else {
            online |= of(&path, "online") == "1";
        }
    }
    discharging && !online
}

/// Percent of the last ten seconds in which somebody waited for the processor.
fn waiting(pressure: &str) -> f64 {
    let some = pressure.lines().find_map(|it| it.strip_prefix("some "));
    let average = some.and_then(|it| it.split(' ').find_map(|it| it.strip_prefix("avg10=")));
    average.and_then(|it| it.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_share_is_kept_and_who_waits_gets_everything() {
        let worked = Duration::from_millis(100);
        let pace =
            |cpu| Pace { limits: Some(MeaningLimits { cpu, on_battery: false }), looked: None };
        assert_eq!(Pace::hurried().pause_after(worked, None), Duration::ZERO);
        assert_eq!(pace(100).pause_after(worked, None), Duration::ZERO);
        assert_eq!(pace(20).pause_after(worked, None), Duration::from_millis(400));
        assert_eq!(pace(100).pause_after(worked, Some(Rest::Load)), Duration::from_millis(300));
        assert_eq!(Pace::hurried().rest(), None);
    }

    #[test]
    fn what_the_system_tells_is_read() {
        assert!(
            (waiting("some avg10=61.20 avg60=3.00 avg300=1 total=5\nfull avg10=0.00\n") - 61.2)
                .abs()
                < 1e-9
        );
        assert!(waiting("nonsense").abs() < 1e-9);
        let supplies = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = supplies.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert!(!on_battery(supplies.path()), "a machine without any");
        write("BAT0/type", "Battery\n");
        write("BAT0/status", "Discharging\n");
        assert!(on_battery(supplies.path()));
        write("AC/type", "Mains\n");
        write("AC/online", "1\n");
        assert!(!on_battery(supplies.path()), "plugged in");
        write("AC/online", "0\n");
        write("BAT0/scope", "Device\n");
        assert!(!on_battery(supplies.path()), "a mouse");
    }
}
