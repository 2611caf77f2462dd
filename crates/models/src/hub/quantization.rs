//! How exactly the numbers of a GGUF file are kept, by its name: `Q4_K_M`, `IQ2_XXS`, `UD-Q4_K_XL`, `BF16`.

/// Whose mixtures carry their maker's mark before the name.
const MARK: &str = "UD";

/// The name of the quantization in the path of a file, in capitals; of the folder where the file says none.
pub(super) fn of(path: &str) -> Option<String> {
    let stem = path.rsplit_once('.').map_or(path, |it| it.0);
    let stem = stem.split_once("-00001-of-").map_or(stem, |it| it.0);
    stem.rsplit('/').find_map(in_name)
}

fn in_name(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split(['-', '.']).collect();
    let at = parts.iter().rposition(|it| is_quantization(it))?;
    let name = parts[at].to_ascii_uppercase();
    let marked = at > 0 && parts[at - 1].eq_ignore_ascii_case(MARK);
    Some(if marked { format!("{MARK}-{name}") } else { name })
}

fn is_quantization(part: &str) -> bool {
    let upper = part.to_ascii_uppercase();
    if matches!(upper.as_str(), "F16" | "FP16" | "BF16" | "F32" | "FP32" | "MXFP4" | "MXFP4_MOE") {
        return true;
    }
    let Some(rest) = ["IQ", "TQ", "Q"].iter().find_map(|it| upper.strip_prefix(it)) else {
        return false;
    };
    let mut all = rest.split('_');
    let bits = all.next().unwrap_or_default();
    let is_number = bits.len() == 1 && bits.bytes().all(|it| it.is_ascii_digit());
    is_number
        && all.all(|it| {
            !it.is_empty() && it.len() <= 4 && it.bytes().all(|it| it.is_ascii_alphanumeric())
        })
}

/// Whether somebody who writes `asked` means the quantization `name`: with or without the maker's mark.
pub(super) fn is(name: &str, asked: &str) -> bool {
    name.eq_ignore_ascii_case(asked)
}

/// The same without the mark.
pub(super) fn is_without_mark(name: &str, asked: &str) -> bool {
    name.strip_prefix(MARK).and_then(|it| it.strip_prefix('-')).is_some_and(|it| is(it, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_how_its_numbers_are_kept() {
        for (path, expected) in [
            ("Qwen3-1.7B-Q4_K_M.gguf", Some("Q4_K_M")),
            ("llama-2-7b.Q8_0.gguf", Some("Q8_0")),
            ("qwen2.5-0.5b-instruct-q4_k_m.gguf", Some("Q4_K_M")),
            ("gemma-3-4b-it-IQ2_XXS.gguf", Some("IQ2_XXS")),
            ("model-UD-Q4_K_XL.gguf", Some("UD-Q4_K_XL")),
            ("gpt-oss-20b-MXFP4.gguf", Some("MXFP4")),
            ("BF16/model-BF16-00001-of-00002.gguf", Some("BF16")),
            ("Q6_K/model-00001-of-00003.gguf", Some("Q6_K")),
            ("smollm2-f16.gguf", Some("F16")),
            ("Phi-3-mini-4k-instruct-q4.gguf", Some("Q4")),
            ("model.gguf", None),
            ("qwen3-quality.gguf", None),
            ("q4_.gguf", None),
            ("", None),
            ("ä-Q4_ö.gguf", None),
        ] {
            assert_eq!(of(path).as_deref(), expected, "{path}");
        }
        assert!(is("Q4_K_M", "q4_k_m") && !is("Q4_K_M", "Q4_K"));
        assert!(is_without_mark("UD-Q4_K_XL", "q4_k_xl") && !is_without_mark("Q4_K_M", "Q4_K_M"));
    }
}
