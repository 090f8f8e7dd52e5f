//! Decodes batches of records into columns of cells, for Python.

use std::borrow::Cow;
use std::collections::HashMap;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::blake2b::{Hash, Hasher};
use crate::reports::{Attribute, Declared, IdRule, NOT_SAID, Scale};

/// The columns of cells, in the order of the records, and of the attributes inside a record.
#[derive(Default)]
struct Columns {
    hi: Vec<u64>,
    lo: Vec<u64>,
    period: Vec<u16>,
    attribute: Vec<u16>,
    code: Vec<i32>,
    partition: Vec<u16>,
    offset: Vec<i64>,
    decoded: Vec<u8>,
}

type Numbers = HashMap<Vec<u8>, i32>;

/// A decoder of usual reports.
///
/// key: the secret key of the hashes of ids.
/// attributes: names, codes by token of JSON, and of a number the least, the most and the step.
/// periods: numbers by token of JSON.
/// ids: None, or whether ids are trimmed, and whether their case is folded.
#[pyclass(frozen, module = "stream_dp_native")]
pub struct Decoder {
    hasher: Hasher,
    declared: Declared,
}

#[pymethods]
impl Decoder {
    #[new]
    fn new(
        key: &[u8],
        attributes: Vec<(String, Numbers, Option<(i64, i64, i64)>)>,
        periods: Numbers,
        ids: Option<(bool, bool)>,
    ) -> PyResult<Self> {
        let Some(hasher) = Hasher::new(key) else {
            return Err(PyValueError::new_err("a key has 1 to 64 bytes"));
        };
        let attributes = attributes
            .into_iter()
            .map(|(name, codes, scale)| Attribute {
                name: name.into_bytes(),
                scale: scale.map(|(least, most, step)| Scale { least, most, step }),
                codes: codes.into_iter().collect(),
            })
            .collect();
        let (trim, fold) = ids.unwrap_or_default();
        let ids = IdRule { any: ids.is_some(), trim, fold };
        let declared = Declared { attributes, periods: periods.into_iter().collect(), ids };
        Ok(Decoder { hasher, declared })
    }

    /// Decodes the usual reports among records.
    ///
    /// bounds: of the values in `content`, one more than records.
    /// usable: of each record, whether its value may be read.
    /// closed: the last closed period; reports for it or an earlier one are left.
    ///
    /// Returns the columns hi, lo, period, attribute, code, partition and offset, and whether each
    /// record was decoded.
    #[allow(clippy::too_many_arguments)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        content: PyBuffer<u8>,
        bounds: PyBuffer<i64>,
        usable: PyBuffer<u8>,
        partitions: PyBuffer<i64>,
        offsets: PyBuffer<i64>,
        closed: i32,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (content, bounds) = (view(&content)?, view(&bounds)?);
        let (usable, partitions) = (view(&usable)?, view(&partitions)?);
        let offsets = view(&offsets)?;
        let count = usable.len();
        if bounds.len() != count + 1 || partitions.len() != count || offsets.len() != count {
            return Err(PyValueError::new_err("columns differ in length"));
        }
        let ordered = bounds.windows(2).all(|pair| pair[0] <= pair[1]);
        if !ordered || bounds[0] < 0 || bounds[count] as usize > content.len() {
            return Err(PyValueError::new_err("bounds do not fit the content"));
        }
        let batch = Batch { content, bounds, usable, partitions, offsets, closed };
        let columns = py.detach(|| self.columns(&batch));
        Ok(vec![
            raw(py, &columns.hi),
            raw(py, &columns.lo),
            raw(py, &columns.period),
            raw(py, &columns.attribute),
            raw(py, &columns.code),
            raw(py, &columns.partition),
            raw(py, &columns.offset),
            raw(py, &columns.decoded),
        ])
    }
}

struct Batch<'a> {
    content: &'a [u8],
    bounds: &'a [i64],
    usable: &'a [u8],
    partitions: &'a [i64],
    offsets: &'a [i64],
    closed: i32,
}

impl Columns {
    /// Adds the cells of a record, and makes all codes NOT_SAID again. Returns their number.
    #[inline(always)]
    fn add(&mut self, batch: &Batch, row: usize, period: i32, codes: &mut [i32]) -> u16 {
        let mut cells = 0;
        for (index, code) in codes.iter_mut().enumerate() {
            if *code != NOT_SAID {
                self.period.push(period as u16);
                self.attribute.push(index as u16);
                self.code.push(*code);
                self.partition.push(batch.partitions[row] as u16);
                self.offset.push(batch.offsets[row]);
                *code = NOT_SAID;
                cells += 1;
            }
        }
        cells
    }
}

impl Decoder {
    fn columns(&self, batch: &Batch) -> Columns {
        let count = batch.usable.len();
        let attributes = self.declared.attributes.len();
        let mut columns = Columns { decoded: vec![0; count], ..Columns::default() };
        let mut persons: Vec<Cow<[u8]>> = Vec::with_capacity(count);
        let mut cells_of: Vec<u16> = Vec::with_capacity(count); // by decoded record
        columns.period.reserve(count);
        columns.attribute.reserve(count);
        columns.code.reserve(count);
        columns.partition.reserve(count);
        columns.offset.reserve(count);
        let mut codes = vec![NOT_SAID; attributes];
        for row in 0..count {
            if batch.usable[row] == 0 {
                continue;
            }
            let value = &batch.content[batch.bounds[row] as usize..batch.bounds[row + 1] as usize];
            match self.declared.read(value, &mut codes) {
                Some(report) if report.period > batch.closed => {
                    columns.decoded[row] = 1;
                    persons.push(self.declared.ids.normal(report.person));
                    cells_of.push(columns.add(batch, row, report.period, &mut codes));
                }
                _ => codes.fill(NOT_SAID),
            }
        }
        self.hash(&persons, &cells_of, &mut columns);
        columns
    }

    fn hash(&self, persons: &[Cow<[u8]>], cells_of: &[u16], columns: &mut Columns) {
        columns.hi.reserve(columns.code.len());
        columns.lo.reserve(columns.code.len());
        let mut add = |(hi, lo): Hash, cells: u16| {
            for _ in 0..cells {
                columns.hi.push(hi);
                columns.lo.push(lo);
            }
        };
        let mut fours = persons.chunks_exact(4);
        let mut cells = cells_of.iter();
        for four in &mut fours {
            let hashes = self.hasher.hash_four(&[&four[0], &four[1], &four[2], &four[3]]);
            for (hash, cells) in hashes.into_iter().zip(&mut cells) {
                add(hash, *cells);
            }
        }
        for (person, cells) in fours.remainder().iter().zip(cells) {
            add(self.hasher.hash(person), *cells);
        }
    }
}

/// The elements of a buffer that nobody writes to while it is read.
fn view<T: pyo3::buffer::Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("a column is not contiguous"));
    }
    if buffer.item_count() == 0 {
        return Ok(&[]);
    }
    // Safety: contiguous, of the element's type, and alive as long as the buffer.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr() as *const T, buffer.item_count()) })
}

/// The bytes of a column of numbers.
pub fn raw<'py, T: Copy>(py: Python<'py>, column: &[T]) -> Bound<'py, PyBytes> {
    // Safety: the columns are of integers, which have no padding.
    let bytes = unsafe {
        std::slice::from_raw_parts(column.as_ptr() as *const u8, std::mem::size_of_val(column))
    };
    PyBytes::new(py, bytes)
}
