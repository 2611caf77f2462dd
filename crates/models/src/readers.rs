//! What reads files: libraries and models that are no part of the program and are fetched when they are wanted.
//!
//! A library runs in this program, so it is taken for one reason only: its checksum stands here, with that of the
//! package it comes in. No library of another checksum is ever put into the store.

use crate::{Format, Kind, KnownModel, Wheel, catalog::said};

/// Name of the second engine for PDFs, a library.
pub const PDFIUM: &str = "pdfium";

/// Name of ONNX Runtime, the library that models in ONNX need.
pub const ONNX_RUNTIME: &str = "onnxruntime";

/// Name of the models that read pictures of text.
pub const OCR: &str = "ocr-small";

/// What must be there as well for this one to be of use.
pub fn companions(name: &str) -> &'static [&'static str] {
    if name.eq_ignore_ascii_case(OCR) { &[PDFIUM, ONNX_RUNTIME] } else { &[] }
}

const fn library(
    name: &'static str,
    license: &'static str,
    megabytes: u32,
    about: &'static str,
    files: &'static [&'static str],
    pinned: &'static [(&'static str, &'static str)],
    wheel: Wheel,
) -> KnownModel {
    KnownModel {
        name,
        repository: "",
        kind: Kind::Reader,
        format: Format::Library,
        files,
        pinned,
        license,
        megabytes,
        about,
        wheel: Some(wheel),
    }
}

macro_rules! pdfium {
    ($platform:literal, $size:literal, $sha256:literal, $file:literal, $unpacked:literal, $inner:literal) => {
        library(
            PDFIUM,
            "bsd-3-clause",
            4,
            "second engine for PDFs: finds text that the first one misses, and draws pages",
            &[$file],
            &[($file, $inner)],
            Wheel {
                project: "pypdfium2",
                version: "5.15.2",
                file: concat!("pypdfium2-5.15.2-py3-none-", $platform, ".whl"),
                size: $size,
                sha256: $sha256,
                folder: "pypdfium2_raw/",
                unpacked: $unpacked,
            },
        )
    };
}

macro_rules! onnx_runtime {
    ($platform:literal, $size:literal, $sha256:literal, $file:literal, $unpacked:literal, $inner:literal) => {
        library(
            ONNX_RUNTIME,
            "mit",
            23,
            "runs models in ONNX: other embedders, and those that read pictures",
            &[$file],
            &[($file, $inner)],
            Wheel {
                project: "onnxruntime",
                version: "1.31.1",
                file: concat!("onnxruntime-1.31.1-cp311-cp311-", $platform, ".whl"),
                size: $size,
                sha256: $sha256,
                folder: "onnxruntime/capi/",
                unpacked: $unpacked,
            },
        )
    };
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) const LIBRARIES: [KnownModel; 2] = [
    pdfium!(
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        4_020_833,
        "dc31aea5b0fb9fefc9b537a65f4113980b2c40798445736a7e6565bc85161e37",
        "libpdfium.so",
        8_271_176,
        "c76dc0f7839644bfa7c3e3107a6068df714e339c861bb7d4519907b821d427f9"
    ),
    onnx_runtime!(
        "manylinux_2_28_x86_64",
        23_753_652,
        "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
        "libonnxruntime.so.1.31.1",
        29_352_200,
        "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3"
    ),
];

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
pub(crate) const LIBRARIES: [KnownModel; 2] = [
    pdfium!(
        "manylinux_2_17_aarch64.manylinux2014_aarch64",
        3_887_212,
        "dd46e93c0c3a73f6cea8489baff6d77a5d0759dd53fbbce0aeb49c91830176fc",
        "libpdfium.so",
        8_308_952,
        "4378615ad9710397c96c112611be9018629bbfe38805d91a2663a534b99c28ca"
    ),
    onnx_runtime!(
        "manylinux_2_28_aarch64",
        21_413_526,
        "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
        "libonnxruntime.so.1.31.1",
        25_265_040,
        "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467"
    ),
];

#[cfg(all(target_os = "windows", target_arch = "x86_64"))]
pub(crate) const LIBRARIES: [KnownModel; 2] = [
    pdfium!(
        "win_amd64",
        4_187_589,
        "74d1bace34fb01c660d0b64344d5a4b7d276942b7c6623c88ab59ea21c5acfbd",
        "pdfium.dll",
        7_835_648,
        "42d87f68957d745ce9377dfb1d8d63691e19082a7ec29ff421d22779d3142b29"
    ),
    onnx_runtime!(
        "win_amd64",
        14_885_761,
        "c3d91b5de31e2fc82d71bd65b2b22bddee8b49057a3a36338e9a868e0ea90c05",
        "onnxruntime.dll",
        19_288_888,
        "8482d2ee174e28504f99730fb01d6861575870283de4ed3a897ad39170d9a9b9"
    ),
];

/// Elsewhere a library that the system has is used, and the second engine is not there.
#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(target_os = "windows", target_arch = "x86_64")
)))]
pub(crate) const LIBRARIES: [KnownModel; 0] = [];

/// PP-OCR, as its makers converted it: where text stands, and what a line says.
pub(crate) const OCR_SMALL: KnownModel = KnownModel {
    name: OCR,
    repository: "",
    kind: Kind::Reader,
    format: Format::Onnx,
    files: &["PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"],
    pinned: &[
        (
            "PP-OCRv6_det_small.onnx",
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        ),
        (
            "PP-OCRv6_rec_small.onnx",
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
        ),
    ],
    license: "apache-2.0",
    megabytes: 32,
    about: said("reads scans and pictures of text (Latin letters, Chinese, Japanese)"),
    wheel: Some(Wheel {
        project: "rapidocr",
        version: "3.10.0",
        file: "rapidocr-3.10.0-py3-none-any.whl",
        size: 27_288_134,
        sha256: "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
        folder: "rapidocr/models/",
        unpacked: 31_163_977,
    }),
};
