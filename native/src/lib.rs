//! The compiled reader of stream-dp: reports from Kafka to columns, without the interpreter.

mod blake2b;
mod columns;
mod consumer;
mod decoding;
mod endings;
mod fetched;
mod librdkafka;
mod reports;
mod tables;
mod tokens;
#[cfg(target_arch = "x86_64")]
mod vectors;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ClientError", module.py().get_type::<consumer::ClientError>())?;
    module.add_class::<consumer::Consumer>()?;
    module.add_class::<decoding::Decoder>()
}
