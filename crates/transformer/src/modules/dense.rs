//! A dense layer as sentence-transformers saves one: a folder with its configuration and its weights.

use std::path::Path;

use riddle_kernels::{Matrix, Output, Panels, gelu, linear, tanh};
use riddle_weights::{Checkpoint, read_json};
use serde::Deserialize;

use crate::{
    Error, Result,
    layer::{bytes_of, read},
};

/// `activation(x · wᵀ + bias)`, and with a residual `+ x` or `+ x · rᵀ`.
#[derive(Debug)]
pub(crate) struct Dense {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    residual: Residual,
    inputs: usize,
    outputs: usize,
    activation: Activation,
    gives_score: bool,
}

#[derive(Debug)]
enum Residual {
    None,
    Input,
    Projected(Vec<f32>),
}

/// What a layer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// One vector of a text (sentence-transformers' own class).
    Text,
    /// A vector of each token (PyLate's class: no activation unless it names one, and residuals).
    Tokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activation {
    Identity,
    Tanh,
    Gelu,
    Relu,
    Silu,
    Sigmoid,
}

/// `config.json` of the layer's folder.
#[derive(Deserialize)]
pub(super) struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "super::yes")]
    bias: bool,
    #[serde(default)]
    activation_function: Stated,
    #[serde(default)]
    use_residual: bool,
    #[serde(default)]
    module_input_name: Option<String>,
    #[serde(default)]
    module_output_name: Option<String>,
}

/// A class, `null` or nothing at all, which is not the same.
#[derive(Default, Deserialize)]
#[serde(from = "Option<String>")]
enum Stated {
    #[default]
    Nothing,
    Class(Option<String>),
}

impl From<Option<String>> for Stated {
    fn from(class: Option<String>) -> Stated {
        Stated::Class(class)
    }
}

impl DenseConfig {
    pub(super) fn is_score(&self) -> bool {
        self.out_features == 1 && self.module_output_name.as_deref() == Some("scores")
    }

    /// The class of its activation, which a class of layers may say without it.
    fn activation(&self, reads: Reads) -> &str {
        match (&self.activation_function, reads) {
            (Stated::Class(class), _) => class.as_deref().unwrap_or("Identity"),
            (Stated::Nothing, Reads::Text) => "Tanh",
            (Stated::Nothing, Reads::Tokens) => "Identity",
        }
    }
}

impl Dense {
    /// The layer in `folder` behind something that gives `inputs` numbers.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not computed.
    pub(crate) fn open(folder: &Path, inputs: usize, reads: Reads) -> Result<Dense> {
        let path = folder.join("config.json");
        let config = read_json::<DenseConfig>(&path)?;
        let unsupported = |why: String| Err(Error::Module { path: path.clone(), why });
        if config.use_residual && reads == Reads::Text {
            return unsupported("a residual (use_residual) is not supported".to_owned());
        }
        let (wanted, whose) = match reads {
            Reads::Text => ("sentence_embedding", "one vector of a text"),
            Reads::Tokens => ("token_embeddings", "a vector of each token"),
        };
        let input = config.module_input_name.as_deref().unwrap_or(wanted);
        if input != wanted {
            return unsupported(format!("it reads {input:?}, which is not {whose}"));
        }
        if config.in_features != inputs {
            return unsupported(format!(
                "it takes {} numbers, and what comes before gives {inputs}",
                config.in_features
            ));
        }
        if config.out_features == 0 {
            return unsupported("it gives no numbers".to_owned());
        }
        let class = config.activation(reads);
        let Some(activation) = Activation::named(class) else {
            return unsupported(format!("its activation_function {class:?} is not supported"));
        };
        let checkpoint = Checkpoint::open_safetensors(folder)?;
        let outputs = config.out_features;
        let matrix = |name: &str| read(&checkpoint, name, &[outputs, inputs]);
        Ok(Dense {
            bias: config.bias.then(|| read(&checkpoint, "linear.bias", &[outputs])).transpose()?,
            weight: matrix("linear.weight")?,
            residual: match config.use_residual {
                false => Residual::None,
                true if inputs == outputs => Residual::Input,
                true => Residual::Projected(matrix("residual.weight")?),
            },
            inputs,
            outputs,
            activation,
            gives_score: config.is_score(),
        })
    }

    /// A product and nothing else, of a matrix `[outputs, inputs]`.
    pub(crate) fn product(weight: Vec<f32>, inputs: usize, outputs: usize) -> Dense {
        Dense {
            weight,
            bias: None,
            residual: Residual::None,
            inputs,
            outputs,
            activation: Activation::Identity,
            gives_score: false,
        }
    }

    /// Numbers that come out.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Whether it names what it gives a score.
    pub(super) fn gives_score(&self) -> bool {
        self.gives_score
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> u64 {
        let residual = match &self.residual {
            Residual::Projected(weight) => bytes_of(&[weight]),
            Residual::None | Residual::Input => 0,
        };
        bytes_of(&[&self.weight]) + self.bias.as_ref().map_or(0, |it| bytes_of(&[it])) + residual
    }

    /// Some of the weights, which no two trainings share.
    pub(crate) fn fingerprint(&self) -> &[u8] {
        bytemuck::cast_slice(&self.weight[..self.weight.len().min(4096)])
    }

    /// Of each of `rows` `[n, inputs]` what becomes of it `[n, outputs]`. Runs on the threads of the current pool.
    pub(crate) fn apply(&self, rows: &[f32]) -> Vec<f32> {
        let multiply = |weight: &[f32], bias: Option<&[f32]>| {
            let mut out = vec![0.0; rows.len() / self.inputs * self.outputs];
            let place = Output::dense(&mut out, self.outputs);
            let none = &mut Panels::default();
            linear(rows, Matrix::F32(weight), bias, self.inputs, self.outputs, place, none);
            out
        };
        let mut out = multiply(&self.weight, self.bias.as_deref());
        self.activation.apply(&mut out);
        let add = |out: &mut [f32], more: &[f32]| {
            out.iter_mut().zip(more).for_each(|(out, more)| *out += more);
        };
        match &self.residual {
            Residual::None => {}
            Residual::Input => add(&mut out, rows),
            Residual::Projected(weight) => add(&mut out, &multiply(weight, None)),
        }
        out
    }
}

impl Activation {
    fn named(class: &str) -> Option<Activation> {
        Some(match class.rsplit('.').next().unwrap_or_default() {
            "Identity" => Activation::Identity,
            "Tanh" => Activation::Tanh,
            "GELU" => Activation::Gelu,
            "ReLU" => Activation::Relu,
            "SiLU" => Activation::Silu,
            "Sigmoid" => Activation::Sigmoid,
            _ => return None,
        })
    }

    fn apply(self, values: &mut [f32]) {
        match self {
            Activation::Identity => {}
            Activation::Tanh => tanh(values),
            Activation::Gelu => gelu(values),
            Activation::Relu => values.iter_mut().for_each(|it| *it = it.max(0.0)),
            Activation::Silu => values.iter_mut().for_each(|it| *it /= 1.0 + (-*it).exp()),
            Activation::Sigmoid => {
                values.iter_mut().for_each(|it| *it = 1.0 / (1.0 + (-*it).exp()))
            }
        }
    }
}
