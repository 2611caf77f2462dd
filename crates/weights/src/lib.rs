//! Bytes on disk to tensors: safetensors and Hugging Face configurations, validated.
