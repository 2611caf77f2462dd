//! Run-time dispatch: a body written once is compiled for several instruction sets, and the best one
//! that this processor has is called.

/// Defines `fn $name(args)` that runs `$body` compiled for AVX-512, for AVX2 + FMA, or for the baseline.
///
/// The body is ordinary safe Rust that the compiler vectorizes; there is one source, so all versions
/// agree up to rounding.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) {
            #[inline(always)]
            fn generic($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                fn avx512($($arg: $ty),*) { generic($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) { generic($($arg),*) }

                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the processor has every feature that this version is compiled for.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has every feature that this version is compiled for.
                    return unsafe { avx2($($arg),*) };
                }
            }
            generic($($arg),*)
        }
    };
}

pub(crate) use multiversion;

/// Elements that one thread takes at a time: 64 KiB, a fraction of a core's L2, and some ten
/// microseconds of work, well above what handing it over costs.
pub(crate) const PART: usize = 16 << 10;
