//! Any bytes as a request in each shape that is spoken, as a message of the protocol, as a part of an address or a
//! header, and as a configuration to be changed: reading ends in a request within limits or in words, never in a panic.
//!
//! Run it with `cargo fuzz run requests -- -max_len=4096 -dict=requests.dict`; `corpus/requests` has a seed of each
//! kind.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| riddle_doors::reading::all(bytes));
