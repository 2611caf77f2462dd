//! Run-time dispatch: a body written once is compiled for several instruction sets, and the best one
//! that this processor has is called.

#[cfg(target_arch = "x86_64")]
use crate::isa::{self, Isa};

/// Defines `fn $name(args)` that runs `$body` compiled for AVX-512, for AVX2, or for the baseline.
///
/// The body is ordinary safe Rust that the compiler vectorizes. Its constant `FUSED` says whether
/// [`mul_add`] is one instruction; bodies that do not use it give the same bits in all versions. A module of the
/// function's name lists them for the tests. Closures are compiled with the version's instructions only when they
/// are inlined: loops are safer.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                if $crate::dispatch::has_avx512() {
                    // SAFETY: the processor has every feature that this version is compiled for.
                    return unsafe { $name::avx512($($arg),*) };
                }
                if $crate::dispatch::has_avx2() {
                    // SAFETY: the processor has every feature that this version is compiled for.
                    return unsafe { $name::avx2($($arg),*) };
                }
            }
            $name::generic::<{ $crate::dispatch::BASELINE_FUSES }>($($arg),*)
        }

        mod $name {
            #[allow(unused_imports, reason = "some bodies use nothing but their arguments")]
            use super::*;

            #[inline(always)]
            #[allow(dead_code, reason = "only some bodies ask whether multiplications are fused")]
            pub(super) fn generic<const FUSED: bool>($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
            pub(super) fn avx512($($arg: $ty),*) { generic::<true>($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            pub(super) fn avx2($($arg: $ty),*) { generic::<true>($($arg),*) }

            /// The versions that run on this processor, the baseline first.
            #[cfg(test)]
            #[allow(dead_code, reason = "one-line bodies are tested through their callers")]
            pub(super) fn versions() -> Vec<fn($($ty),*)> {
                #[allow(unused_mut, reason = "on other processors the baseline is all")]
                let mut versions: Vec<fn($($ty),*)> = vec![|$($arg),*| {
                    generic::<{ $crate::dispatch::BASELINE_FUSES }>($($arg),*)
                }];
                #[cfg(target_arch = "x86_64")]
                {
                    if $crate::Isa::Avx2.runs_here() {
                        // SAFETY: the processor has every feature that this version is compiled for.
                        versions.push(|$($arg),*| unsafe { avx2($($arg),*) });
                    }
                    if $crate::Isa::Avx512.runs_here() {
                        // SAFETY: the processor has every feature that this version is compiled for.
                        versions.push(|$($arg),*| unsafe { avx512($($arg),*) });
                    }
                }
                versions
            }
        }
    };
}

pub(crate) use multiversion;

/// Whether the baseline has fused multiplications: every 64-bit Arm does, x86 need not.
pub(crate) const BASELINE_FUSES: bool = cfg!(target_arch = "aarch64");

/// `a · b + c`, in one instruction where there is one: without, it would be a call into the library.
#[inline(always)]
pub(crate) fn mul_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Whether to use what the `avx512` versions are compiled for.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    isa::current() >= Isa::Avx512
}

/// Whether there are instructions for bf16 besides.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512_bf16() -> bool {
    isa::current() >= Isa::Avx512Vnni && is_x86_feature_detected!("avx512bf16")
}

/// Whether to use what the `avx2` versions are compiled for.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2() -> bool {
    isa::current() >= Isa::Avx2
}

/// Elements that one thread takes at a time: 64 KiB, a fraction of a core's L2, and some ten
/// microseconds of work, well above what handing it over costs.
pub(crate) const PART: usize = 16 << 10;
