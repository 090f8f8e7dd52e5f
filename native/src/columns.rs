//! Columns of numbers and bytes that Python reads without a copy.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The memory of a column, for NumPy and Arrow, which keep this object as long as they use it.
#[pyclass(frozen, module = "stream_dp_native")]
pub struct Column {
    _elements: Box<dyn Any + Send + Sync>,
    start: usize, // the address of the first element
    bytes: usize,
}

#[pymethods]
impl Column {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view"));
        }
        let column = slf.get();
        // Safety: the view keeps this object alive, and with it the elements, which do not move.
        let code = unsafe {
            (*view).obj = null_mut();
            let (start, bytes) = (column.start as *mut c_void, column.bytes as ffi::Py_ssize_t);
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, bytes, 1, flags)
        };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A column of integers, which have no padding, for Python.
pub fn column<T>(py: Python<'_>, elements: Vec<T>) -> PyResult<Bound<'_, Column>>
where
    T: Copy + Send + Sync + 'static,
{
    let start = elements.as_ptr() as usize;
    let bytes = std::mem::size_of_val(elements.as_slice());
    Bound::new(py, Column { _elements: Box::new(elements), start, bytes })
}
