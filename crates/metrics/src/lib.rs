//! Stage timings from tracing spans and peak memory from the operating system.
