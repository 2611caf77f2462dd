//! Any bytes as the two files of a GGUF model in parts: opening and reading end in values or an error, and every tensor
//! is read from the file that names it.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use riddle_weights::gguf::Gguf;
use riddle_weights_fuzz::Folder;

thread_local! {
    static FOLDER: OnceCell<Folder> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let (one, two) = bytes.split_at(length);
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(Folder::new);
        folder.write("m-00002-of-00002.gguf", two);
        let Ok(gguf) = Gguf::open(&folder.write("m-00001-of-00002.gguf", one)) else { return };
        let files = gguf.files().files();
        let parts = [one, two];
        for tensor in gguf.tensors() {
            let at = files.iter().rposition(|it| it.start <= tensor.offset).expect("a file");
            let place = (tensor.offset - files[at].start) as usize;
            let mut whole = vec![0; tensor.bytes as usize];
            gguf.read(tensor, &mut whole).expect("it lies in the file");
            assert_eq!(whole, parts[at][place..place + whole.len()]);
        }
    });
});
