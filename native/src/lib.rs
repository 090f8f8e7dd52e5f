//! The compiled reader of stream-dp: reports to columns of cells, without the interpreter.

mod blake2b;
mod decoding;
mod reports;
mod tables;
mod tokens;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<decoding::Decoder>()
}
