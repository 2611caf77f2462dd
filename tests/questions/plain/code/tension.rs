//! Spoke tension from the note that a spoke gives when it is plucked.

/// Kilograms a metre of a plain gauge spoke of 2.0 millimetres.
const MASS_PER_METRE: f64 = 0.0249;

/// Tension in newtons of a spoke that sounds with `hertz`; its free length is in millimetres.
pub fn tension(hertz: f64, length: f64) -> f64 {
    let wave = 2.0 * length / 1000.0 * hertz;
    MASS_PER_METRE * wave * wave
}

/// Why a wheel is sent back to the stand.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// A spoke has less than 600 newtons: it will come loose.
    Slack,
    /// A spoke has more than 1250 newtons: the rim may crack at its hole.
    Tight,
    /// Neighbours differ by more than a fifth.
    Uneven,
}

/// Looks at all spokes of one side.
pub fn judge(side: &[f64]) -> Option<Fault> {
    if side.iter().any(|it| *it < 600.0) {
        return Some(Fault::Slack);
    }
    if side.iter().any(|it| *it > 1250.0) {
        return Some(Fault::Tight);
    }
    side.windows(2).any(|it| (it[0] / it[1] - 1.0).abs() > 0.2).then_some(Fault::Uneven)
}
