//! Times the full forward of an encoder over texts of one length:
//! `cargo run --release -p riddle-transformer --example forward --
//! MODEL_DIR [TEXTS [LENGTH [THREADS [MICRO_BATCH_TOKENS]]]]`

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{error::Error, path::Path, sync::Arc, time::Instant};

use riddle_kernels::Pool;
use riddle_offload::{EmbeddingRows, LayerWindow};
use riddle_transformer::{Bert, Encoded, RaggedBatch, Scratch, ScratchSize, Tokenizer, Wanted};

/// Runs of each measurement; the fastest counts, because everything else is the machine's other work.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let model =
        args.next().ok_or("usage: forward MODEL_DIR [TEXTS [LENGTH [THREADS [TOKENS]]]]")?;
    let mut number = |default| args.next().map_or(Ok(default), |it| it.parse::<usize>());
    let (texts, length) = (number(20)?.max(1), number(256)?.max(1));
    let (threads, micro_batch_tokens) = (number(2)?, number(1024)?);

    let opened = Instant::now();
    let bert = Bert::open(Path::new(&model))?;
    let depth = bert.layers().layers().len();
    let mut window = LayerWindow::new(Arc::new(bert.layers().clone()), depth)?;
    let mut rows = EmbeddingRows::new(bert.checkpoint().clone(), bert.token_table().clone(), 1.0);
    let config = bert.config();
    println!("model opened in {:.1} ms", opened.elapsed().as_secs_f64() * 1e3);
    let opened = Instant::now();
    Tokenizer::open(Path::new(&model), config.max_tokens(), config.vocab_size)?;
    println!("tokenizer opened in {:.1} ms", opened.elapsed().as_secs_f64() * 1e3);

    let (width, vocabulary) = (config.hidden_size, config.vocab_size);
    let per_batch = (micro_batch_tokens / length).clamp(1, texts);
    let batches = batches(texts, length, per_batch, vocabulary);
    let pool = Pool::new(threads)?;
    let size = ScratchSize { tokens: per_batch * length, longest: length, threads };
    let mut scratch = Scratch::new(&bert.scratch_shape(), size);
    let mut hidden = vec![0.0; texts * length * width];

    let seconds = fastest(|| {
        let mut rest = hidden.as_mut_slice();
        for batch in &batches {
            let (part, tail) = rest.split_at_mut(batch.tokens() * width);
            rows.gather(&batch.input_ids, part)?;
            bert.embed(batch, part);
            rest = tail;
        }
        for layer in 0..depth {
            pool.run(|| -> Result<(), riddle_offload::Error> {
                let view = window.advance_to(layer)?;
                let mut rest = hidden.as_mut_slice();
                for batch in &batches {
                    let (part, tail) = rest.split_at_mut(batch.tokens() * width);
                    let (weights, ends) = (view.weights, &batch.cu_seqlens);
                    bert.layer(layer, weights, ends, Wanted::All, part, &mut scratch);
                    rest = tail;
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    let flops = flops(&bert, texts, length);
    println!(
        "{texts} × {length} tokens, {depth} layers, {threads} threads, micro-batches of {} tokens: \
         {seconds:.3} s, {:.0} GFLOP/s; scratch {:.1} MiB",
        per_batch * length,
        flops / seconds / 1e9,
        scratch.bytes() as f64 / f64::from(1 << 20),
    );
    Ok(())
}

/// Micro-batches of `per_batch` texts.
fn batches(texts: usize, length: usize, per_batch: usize, vocabulary: usize) -> Vec<RaggedBatch> {
    let all: Vec<Encoded> = (0..texts).map(|text| synthetic(text, length, vocabulary)).collect();
    all.chunks(per_batch).map(RaggedBatch::pack).collect()
}

/// Token ids spread over the vocabulary: the values do not matter, the distinct rows do.
fn synthetic(text: usize, length: usize, vocabulary: usize) -> Encoded {
    let id = |i: usize| ((text * length + i) * 7919 % vocabulary) as u32;
    Encoded { ids: (0..length).map(id).collect(), type_ids: vec![0; length] }
}

/// Multiplications and additions of all products of the forward pass.
fn flops(bert: &Bert, texts: usize, length: usize) -> f64 {
    let config = bert.config();
    let (width, wide) = (config.hidden_size as f64, config.intermediate_size as f64);
    let tokens = (texts * length) as f64;
    let per_token = 4.0 * width * width + 2.0 * width * wide + 2.0 * length as f64 * width;
    2.0 * per_token * tokens * config.num_hidden_layers as f64
}

fn fastest(
    mut work: impl FnMut() -> Result<(), riddle_offload::Error>,
) -> Result<f64, riddle_offload::Error> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let started = Instant::now();
        work()?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(best)
}
