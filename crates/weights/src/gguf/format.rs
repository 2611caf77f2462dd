//! How a GGUF tensor's numbers lie: plain, or in blocks that share scales.

/// A number format of GGUF tensors. Blocks are those of ggml (`block_q4_0` and so on in its `ggml-common.h`);
/// what lies inside is the products' affair, here they are bytes of a known length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GgmlFormat {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
    /// 32 numbers of four bits and a scale.
    Q4_0,
    /// 32 numbers of four bits, a scale and a minimum.
    Q4_1,
    /// 32 numbers of five bits and a scale.
    Q5_0,
    /// 32 numbers of five bits, a scale and a minimum.
    Q5_1,
    /// 32 signed bytes and a scale.
    Q8_0,
    /// 256 numbers of two bits; scales and minima of four bits for every 16.
    Q2K,
    /// 256 numbers of three bits; scales of six bits for every 16.
    Q3K,
    /// 256 numbers of four bits; scales and minima of six bits for every 32.
    Q4K,
    /// 256 numbers of five bits; scales and minima of six bits for every 32.
    Q5K,
    /// 256 numbers of six bits; scales of eight bits for every 16.
    Q6K,
}

/// Names of all types that ggml has had, by number; those without a name were removed before GGUF or after.
const NAMES: [&str; 42] = [
    "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K",
    "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S",
    "IQ4_XS", "I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0", "",
    "", "", "MXFP4", "NVFP4", "Q1_0",
];

impl GgmlFormat {
    /// All of them.
    pub const ALL: [GgmlFormat; 13] = [
        GgmlFormat::F32,
        GgmlFormat::F16,
        GgmlFormat::Bf16,
        GgmlFormat::Q4_0,
        GgmlFormat::Q4_1,
        GgmlFormat::Q5_0,
        GgmlFormat::Q5_1,
        GgmlFormat::Q8_0,
        GgmlFormat::Q2K,
        GgmlFormat::Q3K,
        GgmlFormat::Q4K,
        GgmlFormat::Q5K,
        GgmlFormat::Q6K,
    ];

    /// The format of a number in a file; else the name of a format that is not read.
    pub(super) fn of_number(number: u32) -> Result<GgmlFormat, String> {
        let found = GgmlFormat::ALL.into_iter().find(|it| it.number() == number);
        found.ok_or_else(|| match NAMES.get(number as usize) {
            Some(name) if !name.is_empty() => (*name).to_owned(),
            _ => format!("number {number}"),
        })
    }

    /// Its number in files (`ggml_type`).
    pub(super) fn number(self) -> u32 {
        match self {
            GgmlFormat::F32 => 0,
            GgmlFormat::F16 => 1,
            GgmlFormat::Q4_0 => 2,
            GgmlFormat::Q4_1 => 3,
            GgmlFormat::Q5_0 => 6,
            GgmlFormat::Q5_1 => 7,
            GgmlFormat::Q8_0 => 8,
            GgmlFormat::Q2K => 10,
            GgmlFormat::Q3K => 11,
            GgmlFormat::Q4K => 12,
            GgmlFormat::Q5K => 13,
            GgmlFormat::Q6K => 14,
            GgmlFormat::Bf16 => 30,
        }
    }

    /// Numbers in a block; 1 where there are no blocks.
    pub fn block_len(self) -> usize {
        match self {
            GgmlFormat::F32 | GgmlFormat::F16 | GgmlFormat::Bf16 => 1,
            GgmlFormat::Q4_0
            | GgmlFormat::Q4_1
            | GgmlFormat::Q5_0
            | GgmlFormat::Q5_1
            | GgmlFormat::Q8_0 => 32,
            GgmlFormat::Q2K
            | GgmlFormat::Q3K
            | GgmlFormat::Q4K
            | GgmlFormat::Q5K
            | GgmlFormat::Q6K => 256,
        }
    }

    /// Bytes of a block, or of a number where there are no blocks.
    pub fn block_bytes(self) -> usize {
        match self {
            GgmlFormat::F32 => 4,
            GgmlFormat::F16 | GgmlFormat::Bf16 => 2,
            // An f16 scale, bits.
            GgmlFormat::Q4_0 => 2 + 16,
            GgmlFormat::Q4_1 => 2 + 2 + 16,
            GgmlFormat::Q5_0 => 2 + 4 + 16,
            GgmlFormat::Q5_1 => 2 + 2 + 4 + 16,
            GgmlFormat::Q8_0 => 2 + 32,
            // Scales of parts, bits, f16 scales of the whole.
            GgmlFormat::Q2K => 16 + 64 + 4,
            GgmlFormat::Q3K => 32 + 64 + 12 + 2,
            GgmlFormat::Q4K => 4 + 12 + 128,
            GgmlFormat::Q5K => 4 + 12 + 32 + 128,
            GgmlFormat::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// Bytes of a row of so many numbers; `None` where the row is not whole blocks, or no machine holds it.
    pub fn row_bytes(self, columns: usize) -> Option<usize> {
        if !columns.is_multiple_of(self.block_len()) {
            return None;
        }
        (columns / self.block_len()).checked_mul(self.block_bytes())
    }

    /// Its name as ggml writes it.
    pub fn name(self) -> &'static str {
        NAMES[self.number() as usize]
    }
}

impl std::str::FromStr for GgmlFormat {
    type Err = String;

    /// By ggml's name, in upper or lower case.
    fn from_str(name: &str) -> Result<GgmlFormat, String> {
        let found = GgmlFormat::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names: Vec<_> = GgmlFormat::ALL.iter().map(|it| it.name().to_lowercase()).collect();
            format!("{name:?} is not a number format: use one of {}", names.join(", "))
        })
    }
}
