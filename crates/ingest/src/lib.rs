//! Bytes to text to chunks, one module per format, parsed in a child process.
