//! Watches the water in the bilge of Sedge Warbler and wakes me before it wakes me by itself.
//!
//! A float on a potentiometer gives the level, a relay switches the pump, a buzzer sits above my bunk. Runs on a
//! little board beside the batteries and draws 12 mA.

use std::time::{Duration, Instant};

/// The pump starts when the bilge water stands 70 millimetres deep.
pub const PUMP_ON_MM: u16 = 70;

/// The pump stops at 25 millimetres: lower than that it sucks air and burns out, as the first one did.
pub const PUMP_OFF_MM: u16 = 25;

/// The buzzer sounds when the pump has run for four minutes and the water still does not fall.
pub const ALARM_AFTER: Duration = Duration::from_secs(4 * 60);

/// What the board should do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub pump: bool,
    pub buzzer: bool,
}

/// State between two readings.
#[derive(Debug, Default)]
pub struct Monitor {
    running_since: Option<(Instant, u16)>,
}

impl Monitor {
    /// Takes one reading, in millimetres above the bottom plate.
    pub fn read(&mut self, level_mm: u16, now: Instant) -> Output {
        match self.running_since {
            None if level_mm >= PUMP_ON_MM => self.running_since = Some((now, level_mm)),
            Some(_) if level_mm <= PUMP_OFF_MM => self.running_since = None,
            _ => {}
        }
        let buzzer = self.running_since.is_some_and(|(since, at_start)| {
            now.duration_since(since) >= ALARM_AFTER && level_mm >= at_start
        });
        Output { pump: self.running_since.is_some(), buzzer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hose_that_bursts_wakes_me() {
        let mut monitor = Monitor::default();
        let start = Instant::now();
        assert!(monitor.read(71, start).pump);
        assert!(monitor.read(90, start + ALARM_AFTER).buzzer);
    }

    #[test]
    fn ripples_between_the_marks_change_nothing() {
        let mut monitor = Monitor::default();
        assert!(!monitor.read(69, Instant::now()).pump);
    }
}
