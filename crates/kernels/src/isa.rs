//! Which instruction sets the routines may use: those of the processor, or fewer where a test asks for it.

use std::{fmt, sync::OnceLock};

/// The environment variable that holds the routines back to an older processor's instructions.
pub const FORCE_ISA: &str = "RIDDLE_FORCE_ISA";

/// A level of instruction sets. Each includes those before it of the same architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor of the architecture has; the compiler vectorizes as it can.
    Scalar,
    /// AVX2 and FMA: x86 since 2013.
    Avx2,
    /// AVX2 with the 256-bit dot products of bytes (Alder Lake, Zen 5).
    AvxVnni,
    /// AVX-512 F, VL, BW and DQ, without dot products (Skylake-X).
    Avx512,
    /// AVX-512 with dot products of bytes, and those of bf16 where the processor has them (Ice Lake, Zen 4).
    Avx512Vnni,
    /// `Avx512Vnni`, and AMX's tiles of bytes and bf16 (Sapphire Rapids), on Linux.
    Amx,
    /// NEON with the dot products of bytes: Arm since 2018.
    NeonDot,
    /// `NeonDot`, and products of matrices of bytes (Neoverse V1, Apple M2).
    NeonI8mm,
}

impl Isa {
    /// All of them.
    pub(crate) const ALL: [Isa; 8] = [
        Isa::Scalar,
        Isa::Avx2,
        Isa::AvxVnni,
        Isa::Avx512,
        Isa::Avx512Vnni,
        Isa::Amx,
        Isa::NeonDot,
        Isa::NeonI8mm,
    ];

    /// Its name in [`FORCE_ISA`].
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avxvnni",
            Isa::Avx512 => "avx512",
            Isa::Avx512Vnni => "avx512vnni",
            Isa::Amx => "amx",
            Isa::NeonDot => "neondot",
            Isa::NeonI8mm => "neoni8mm",
        }
    }

    /// The levels of this processor, the poorest first.
    pub fn available() -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|it| it.runs_here()).collect()
    }

    /// Whether this processor has all of its instructions.
    pub fn runs_here(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => Isa::Avx2.runs_here() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.runs_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => Isa::Avx512.runs_here() && is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => {
                Isa::Avx512Vnni.runs_here()
                    && is_x86_feature_detected!("avx512bf16")
                    && crate::x86::amx_is_usable()
            }
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => {
                Isa::NeonDot.runs_here() && std::arch::is_aarch64_feature_detected!("i8mm")
            }
            #[allow(unreachable_patterns, reason = "which levels are left depends on the target")]
            _ => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// [`FORCE_ISA`] names no level of this processor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{FORCE_ISA}={asked} is not available here; this processor has: {}", list(available))]
pub struct IsaError {
    asked: String,
    available: Vec<Isa>,
}

fn list(available: &[Isa]) -> String {
    available.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

/// The level in use: the processor's best, or what [`FORCE_ISA`] asks for. It is read once.
///
/// # Errors
/// [`IsaError`] when the variable names a level that this processor lacks, or none; the routines then use the
/// best one, so a program should ask once and stop.
pub fn isa() -> Result<Isa, IsaError> {
    static CHOSEN: OnceLock<Result<Isa, IsaError>> = OnceLock::new();
    CHOSEN.get_or_init(|| choose(std::env::var(FORCE_ISA).ok().as_deref())).clone()
}

fn choose(asked: Option<&str>) -> Result<Isa, IsaError> {
    let available = Isa::available();
    match asked.map(str::trim).filter(|it| !it.is_empty()) {
        None => Ok(best(&available)),
        Some(asked) => match available.iter().find(|it| it.name() == asked) {
            Some(&isa) => Ok(isa),
            None => Err(IsaError { asked: asked.to_owned(), available }),
        },
    }
}

fn best(available: &[Isa]) -> Isa {
    available.last().copied().unwrap_or(Isa::Scalar)
}

/// Raised with every change after which a routine rounds differently: what was computed before and kept is then not
/// mixed with what is computed now.
const ROUTINES: u32 = 1;

/// What decides how results round, by name: equal names, equal bits.
pub fn instructions() -> String {
    // The one feature that a level leaves open.
    #[cfg(target_arch = "x86_64")]
    let bf16 = if crate::dispatch::has_avx512_bf16() { "+bf16" } else { "" };
    #[cfg(not(target_arch = "x86_64"))]
    let bf16 = "";
    format!("{} {}{bf16}, routines {ROUTINES}", std::env::consts::ARCH, current())
}

/// The level that dispatch uses.
pub(crate) fn current() -> Isa {
    static CURRENT: OnceLock<Isa> = OnceLock::new();
    *CURRENT.get_or_init(|| isa().unwrap_or_else(|error| best(&error.available)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_chosen_by_name_and_a_wrong_one_is_told_with_those_there_are() {
        assert_eq!(choose(Some("scalar")), Ok(Isa::Scalar));
        assert_eq!(choose(None), choose(Some("")));
        assert_eq!(choose(None), Ok(best(&Isa::available())));
        let error = choose(Some("avx1024")).expect_err("no such level");
        assert!(error.to_string().contains("RIDDLE_FORCE_ISA=avx1024"));
        assert!(error.to_string().contains("scalar"));
    }
}
