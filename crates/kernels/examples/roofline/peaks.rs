//! What the units of a processor can do at most: loops over registers, no memory.

use std::time::Instant;

use riddle_kernels::Isa;

/// A unit's loop: how many turns it ran per second at best is its peak.
pub(crate) struct Unit {
    /// Its name.
    pub(crate) name: &'static str,
    /// The level that has it.
    pub(crate) isa: Isa,
    /// Operations of a turn.
    operations: f64,
    run: fn(u64),
}

impl Unit {
    /// Operations per second of one thread.
    pub(crate) fn peak(&self) -> f64 {
        const TURNS: u64 = 20_000;
        let mut best = f64::INFINITY;
        for _ in 0..2_000 {
            let started = Instant::now();
            (self.run)(TURNS);
            best = best.min(started.elapsed().as_secs_f64());
        }
        TURNS as f64 * self.operations / best
    }
}

/// Twelve sums hide the latency of any of these instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! unit {
    ($name:ident, $instruction:literal, $register:literal) => {
        pub(super) fn $name(turns: u64) {
            // SAFETY: only registers that are named are changed; the caller asks the processor for the level.
            unsafe {
                std::arch::asm!(
                    "2:",
                    concat!($instruction, " ", $register, "0, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "1, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "2, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "3, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "4, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "5, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "6, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "7, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "8, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "9, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "10, ", $register, "14, ", $register, "15"),
                    concat!($instruction, " ", $register, "11, ", $register, "14, ", $register, "15"),
                    "dec {turns}",
                    "jnz 2b",
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod loops {
    unit!(f32_256, "vfmadd231ps", "ymm");
    unit!(int8_256, "{{vex}} vpdpbusd", "ymm");
    unit!(bytes_256, "vpmaddubsw", "ymm");
    unit!(f32_512, "vfmadd231ps", "zmm");
    unit!(bf16_512, "vdpbf16ps", "zmm");
    unit!(int8_512, "vpdpbusd", "zmm");
}

/// The units of this processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn units() -> Vec<Unit> {
    let unit = |name, isa, lanes: f64, run| Unit { name, isa, operations: 12.0 * 2.0 * lanes, run };
    let mut units = vec![
        unit("f32 products, AVX2", Isa::Avx2, 8.0, loops::f32_256 as fn(u64)),
        unit("byte products without sums, AVX2", Isa::Avx2, 32.0, loops::bytes_256),
        unit("byte products, AVX-VNNI", Isa::AvxVnni, 32.0, loops::int8_256),
        unit("f32 products, AVX-512", Isa::Avx512, 16.0, loops::f32_512),
        unit("byte products, AVX-512", Isa::Avx512Vnni, 64.0, loops::int8_512),
    ];
    if is_x86_feature_detected!("avx512bf16") {
        units.push(unit("bf16 products, AVX-512", Isa::Avx512Vnni, 32.0, loops::bf16_512));
    }
    units
}

/// None are known.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn units() -> Vec<Unit> {
    Vec::new()
}
