//! The tensors of a layer: which there must be, and how their bytes are multiplied.

use std::borrow::Cow;

use riddle_kernels::{BlockFormat, BlockMatrix, Matrix};
use riddle_weights::{
    Dtype, Error as WeightsError, LanguageConfig, LanguageFamily,
    gguf::{GgmlFormat, Gguf, GgufTensor},
};

use crate::Result;

/// What a tensor of a layer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorPart {
    /// Norms and biases.
    Small,
    /// Matrix of the queries.
    Query,
    /// Matrix of the keys.
    Key,
    /// Matrix of the values.
    Value,
    /// The three as one.
    QueryKeyValue,
    /// Matrix of what attention gives.
    Output,
    /// Matrix of the feed-forward gate.
    Gate,
    /// Matrix that widens.
    Up,
    /// Both as one.
    GateUp,
    /// Matrix that narrows.
    Down,
    /// Matrix that scores the experts.
    Router,
    /// Matrix of the three parts of a convolution.
    ConvolutionInput,
    /// Matrix of what a convolution gives.
    ConvolutionOutput,
}

/// A tensor of a layer.
#[derive(Debug, Clone)]
pub struct LayerTensor {
    /// What it is for.
    pub part: TensorPart,
    /// Where it lies.
    pub tensor: GgufTensor,
}

/// The matrices of all experts of a layer: each tensor holds one part of every expert, one after the other.
#[derive(Debug, Clone)]
pub struct ExpertTensors {
    /// Matrices of the gates.
    pub gate: GgufTensor,
    /// Matrices that widen.
    pub up: GgufTensor,
    /// Matrices that narrow.
    pub down: GgufTensor,
}

/// Finds tensors by name and checks their shapes, which are in the file's order: the length of a row first.
pub(super) struct Finder<'a> {
    pub(super) file: &'a Gguf,
}

impl<'a> Finder<'a> {
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<&'a GgufTensor> {
        let dir = || self.file.path().to_path_buf();
        let tensor = self
            .file
            .tensor(name)
            .ok_or_else(|| WeightsError::MissingTensor { dir: dir(), tensor: name.to_owned() })?;
        if tensor.shape != shape {
            let (tensor, actual) = (name.to_owned(), tensor.shape.clone());
            let expected = shape.to_vec();
            return Err(WeightsError::WrongShape { dir: dir(), tensor, actual, expected }.into());
        }
        Ok(tensor)
    }

    /// A small tensor, which is kept as f32.
    pub(super) fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let tensor = self.float_tensor(name, &[len])?;
        let mut raw = vec![0; tensor.bytes as usize];
        self.file.read(tensor, &mut raw)?;
        let mut values = vec![0.0; len];
        Dtype::F32.widen(&raw, &mut values);
        Ok(values)
    }

    pub(super) fn optional_vector(&self, name: &str, len: usize) -> Result<Option<Vec<f32>>> {
        match self.file.tensor(name) {
            Some(_) => self.vector(name, len).map(Some),
            None => Ok(None),
        }
    }

    fn float_tensor(&self, name: &str, shape: &[usize]) -> Result<&'a GgufTensor> {
        let tensor = self.tensor(name, shape)?;
        if tensor.format != GgmlFormat::F32 {
            let dir = self.file.path().to_path_buf();
            let dtype = tensor.format.name().to_owned();
            return Err(WeightsError::WrongDtype { dir, tensor: name.to_owned(), dtype }.into());
        }
        Ok(tensor)
    }
}

/// The tensors of layer `layer`, in the order of [`Cut`](super::layer::Cut).
pub(super) fn of_layer(
    finder: &Finder<'_>,
    config: &LanguageConfig,
    layer: usize,
) -> Result<Vec<LayerTensor>> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let mut found = Found { finder, layer, tensors: Vec::new() };
    found.vector("attn_norm.weight", hidden)?;
    if config.family.is_parallel() {
        found.vector("attn_norm.bias", hidden)?;
        attention_of_layer(&mut found, config)?;
        found.matrix(TensorPart::Up, "ffn_up.weight", &[hidden, wide])?;
        found.vector("ffn_up.bias", wide)?;
        found.matrix(TensorPart::Down, "ffn_down.weight", &[wide, hidden])?;
        found.vector("ffn_down.bias", hidden)?;
        return Ok(found.tensors);
    }
    match &config.convolution {
        Some(convolution) if config.is_convolution(layer) => {
            let (input, output) = (TensorPart::ConvolutionInput, TensorPart::ConvolutionOutput);
            found.matrix(input, "shortconv.in_proj.weight", &[hidden, 3 * hidden])?;
            found.small("shortconv.conv.weight", &[convolution.tokens, hidden])?;
            found.matrix(output, "shortconv.out_proj.weight", &[hidden, hidden])?;
        }
        _ => attention_of_layer(&mut found, config)?,
    }
    found.vector("ffn_norm.weight", hidden)?;
    if let Some(experts) = config.experts {
        found.matrix(TensorPart::Router, "ffn_gate_inp.weight", &[hidden, experts.count])?;
        return Ok(found.tensors);
    }
    if matches!(config.family, LanguageFamily::Phi3 | LanguageFamily::Glm4) {
        found.matrix(TensorPart::GateUp, "ffn_up.weight", &[hidden, 2 * wide])?;
    } else {
        found.matrix(TensorPart::Gate, "ffn_gate.weight", &[hidden, wide])?;
        found.matrix(TensorPart::Up, "ffn_up.weight", &[hidden, wide])?;
    }
    found.matrix(TensorPart::Down, "ffn_down.weight", &[wide, hidden])?;
    if config.family.normalizes_parts() {
        found.vector("post_ffw_norm.weight", hidden)?;
    }
    Ok(found.tensors)
}

/// The tensors of attention, between its norm and the next one.
fn attention_of_layer(found: &mut Found<'_>, config: &LanguageConfig) -> Result<()> {
    let (hidden, dim) = (config.hidden_size, config.head_dim);
    let (width, kv_width) = (config.num_attention_heads * dim, config.num_key_value_heads * dim);
    let all = width + 2 * kv_width;
    if config.family.fuses_queries() {
        found.matrix(TensorPart::QueryKeyValue, "attn_qkv.weight", &[hidden, all])?;
    } else {
        found.matrix(TensorPart::Query, "attn_q.weight", &[hidden, width])?;
        found.matrix(TensorPart::Key, "attn_k.weight", &[hidden, kv_width])?;
        found.matrix(TensorPart::Value, "attn_v.weight", &[hidden, kv_width])?;
    }
    if config.has_biases && config.family.fuses_queries() {
        found.vector("attn_qkv.bias", all)?;
    } else if config.has_biases {
        found.vector("attn_q.bias", width)?;
        found.vector("attn_k.bias", kv_width)?;
        found.vector("attn_v.bias", kv_width)?;
    }
    if config.family.normalizes_heads() {
        found.vector("attn_q_norm.weight", dim)?;
        found.vector("attn_k_norm.weight", dim)?;
    }
    found.matrix(TensorPart::Output, "attn_output.weight", &[width, hidden])?;
    if config.family.is_parallel() {
        found.vector("attn_output.bias", hidden)?;
    }
    if config.family.normalizes_parts() {
        found.vector("post_attention_norm.weight", hidden)?;
    }
    Ok(())
}

/// The experts of layer `layer`.
pub(super) fn experts_of_layer(
    finder: &Finder<'_>,
    config: &LanguageConfig,
    layer: usize,
) -> Result<ExpertTensors> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let count = config.experts.map_or(0, |it| it.count);
    let tensor = |name, shape: [usize; 3]| {
        finder.tensor(&format!("blk.{layer}.{name}.weight"), &shape).cloned()
    };
    Ok(ExpertTensors {
        gate: tensor("ffn_gate_exps", [hidden, wide, count])?,
        up: tensor("ffn_up_exps", [hidden, wide, count])?,
        down: tensor("ffn_down_exps", [wide, hidden, count])?,
    })
}

struct Found<'a> {
    finder: &'a Finder<'a>,
    layer: usize,
    tensors: Vec<LayerTensor>,
}

impl Found<'_> {
    fn vector(&mut self, name: &str, len: usize) -> Result<()> {
        self.small(name, &[len])
    }

    fn small(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        let name = format!("blk.{}.{name}", self.layer);
        let tensor = self.finder.float_tensor(&name, shape)?.clone();
        self.tensors.push(LayerTensor { part: TensorPart::Small, tensor });
        Ok(())
    }

    fn matrix(&mut self, part: TensorPart, name: &str, shape: &[usize]) -> Result<()> {
        let name = format!("blk.{}.{name}", self.layer);
        let tensor = self.finder.tensor(&name, shape)?.clone();
        self.tensors.push(LayerTensor { part, tensor });
        Ok(())
    }
}

/// A matrix as the products take it.
///
/// # Panics
/// When the bytes are not what its shape takes: the caller's bug, shapes were checked when the file was opened.
pub(super) fn matrix(
    format: GgmlFormat,
    bytes: &[u8],
    outputs: usize,
    inputs: usize,
) -> Matrix<'_> {
    let format = match format {
        GgmlFormat::F32 => return Matrix::F32(bytemuck::cast_slice(bytes)),
        GgmlFormat::F16 => return Matrix::F16(bytemuck::cast_slice(bytes)),
        GgmlFormat::Bf16 => return Matrix::Bf16(bytemuck::cast_slice(bytes)),
        GgmlFormat::Q4_0 => BlockFormat::Q4_0,
        GgmlFormat::Q4_1 => BlockFormat::Q4_1,
        GgmlFormat::Q5_0 => BlockFormat::Q5_0,
        GgmlFormat::Q5_1 => BlockFormat::Q5_1,
        GgmlFormat::Q8_0 => BlockFormat::Q8_0,
        GgmlFormat::Q2K => BlockFormat::Q2K,
        GgmlFormat::Q3K => BlockFormat::Q3K,
        GgmlFormat::Q4K => BlockFormat::Q4K,
        GgmlFormat::Q5K => BlockFormat::Q5K,
        GgmlFormat::Q6K => BlockFormat::Q6K,
    };
    let blocks = BlockMatrix::new(format, bytes, outputs, inputs);
    Matrix::Blocks(blocks.expect("shapes were checked when the file was opened: this is a bug"))
}

/// One row of a table as f32.
pub(super) fn widen_row(format: GgmlFormat, raw: &[u8], out: &mut [f32]) {
    match format {
        GgmlFormat::F32 => Dtype::F32.widen(raw, out),
        GgmlFormat::F16 => Dtype::F16.widen(raw, out),
        GgmlFormat::Bf16 => Dtype::Bf16.widen(raw, out),
        _ => {
            let Matrix::Blocks(row) = matrix(format, raw, 1, out.len()) else { return };
            row.widen_row(0, out);
        }
    }
}

/// Numbers of a small tensor, in place where they are aligned.
pub(super) fn numbers(bytes: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) => Cow::Borrowed(values),
        Err(_) => {
            let mut values = vec![0.0; bytes.len() / size_of::<f32>()];
            Dtype::F32.widen(bytes, &mut values);
            Cow::Owned(values)
        }
    }
}
