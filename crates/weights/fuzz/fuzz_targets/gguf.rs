//! Any bytes as a GGUF file: opening and reading end in values or an error, never in a panic, a read outside the
//! file or memory that the file does not account for.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use riddle_weights::gguf::Gguf;
use riddle_weights_fuzz::Folder;

thread_local! {
    static FOLDER: OnceCell<Folder> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(Folder::new);
        let path = folder.write("model.gguf", bytes);
        let Ok(gguf) = Gguf::open(&path) else { return };
        assert!(!gguf.architecture().is_empty() || gguf.text("general.architecture").is_some());
        if let Some(texts) = gguf.texts("tokenizer.ggml.tokens") {
            assert!(texts.iter().map(<[u8]>::len).sum::<usize>() <= bytes.len());
        }
        for tensor in gguf.tensors() {
            let place = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
            let mut whole = vec![0; tensor.bytes as usize];
            gguf.read(tensor, &mut whole).expect("it lies in the file");
            assert_eq!(whole, bytes[place]);
            let mut row = vec![0; tensor.row_bytes()];
            gguf.read_rows(tensor, tensor.rows() - 1, &mut row).expect("the last row");
            assert!(whole.ends_with(&row));
            assert!(gguf.read_rows(tensor, tensor.rows(), &mut row).is_err());
        }
    });
});
