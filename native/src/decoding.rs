//! Decodes batches of records into columns of cells, for Python.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter::repeat_n;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::blake2b::{EIGHT, Hasher};
use crate::columns::{Column, column};
use crate::endings::Endings;
use crate::reports::{Attribute, Declared, IdRule, NOT_SAID, Scale};

/// The columns of cells, by partition, in the order of the records, and of the attributes inside a
/// record.
#[derive(Default)]
struct Columns {
    hi: Vec<u64>,
    lo: Vec<u64>,
    period: Vec<u16>,
    attribute: Vec<u16>,
    code: Codes,
    partition: Vec<u16>,
    offset: Vec<i64>,
    decoded: Vec<u8>,
}

/// Codes, of two bytes each where all fit.
enum Codes {
    Narrow(Vec<i16>),
    Wide(Vec<i32>),
}

impl Default for Codes {
    fn default() -> Self {
        Codes::Narrow(Vec::new())
    }
}

impl Codes {
    #[inline(always)]
    fn push(&mut self, code: i32) {
        match self {
            Codes::Narrow(codes) => codes.push(code as i16),
            Codes::Wide(codes) => codes.push(code),
        }
    }

    fn reserve(&mut self, count: usize) {
        match self {
            Codes::Narrow(codes) => codes.reserve(count),
            Codes::Wide(codes) => codes.reserve(count),
        }
    }
}

type Numbers = HashMap<Vec<u8>, i32>;

/// A decoder of usual reports.
///
/// key: the secret key of the hashes of ids.
/// attributes: names, codes by token of JSON, and of a number the least, the most and the step.
/// periods: numbers by token of JSON.
/// ids: None, or whether ids are right as they stand, and whether their case is folded.
/// wide: whether codes need four bytes, not two.
#[pyclass(frozen, module = "stream_dp_native")]
pub struct Decoder {
    hasher: Hasher,
    declared: Declared,
    wide: bool,
}

#[pymethods]
impl Decoder {
    #[new]
    fn new(
        key: &[u8],
        attributes: Vec<(String, Numbers, Option<(i64, i64, i64)>)>,
        periods: Numbers,
        ids: Option<(bool, bool)>,
        wide: bool,
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
        let (as_written, fold) = ids.unwrap_or_default();
        let ids = IdRule { any: ids.is_some(), as_written, fold };
        let declared = Declared { attributes, periods: periods.into_iter().collect(), ids };
        Ok(Decoder { hasher, declared, wide })
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
    ) -> PyResult<Vec<Bound<'py, Column>>> {
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
            column(py, columns.hi)?,
            column(py, columns.lo)?,
            column(py, columns.period)?,
            column(py, columns.attribute)?,
            match columns.code {
                Codes::Narrow(codes) => column(py, codes)?,
                Codes::Wide(codes) => column(py, codes)?,
            },
            column(py, columns.partition)?,
            column(py, columns.offset)?,
            column(py, columns.decoded)?,
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

/// Ids whose hashes are not in the columns yet, and their numbers of cells.
type Ids<'a> = Vec<(Cow<'a, [u8]>, usize)>;

impl Columns {
    /// Makes room for so many cells, as if all reports had as many as the first.
    fn reserve(&mut self, cells: usize) {
        self.period.reserve(cells);
        self.attribute.reserve(cells);
        self.code.reserve(cells);
        self.partition.reserve(cells);
        self.offset.reserve(cells);
        self.hi.reserve(cells);
        self.lo.reserve(cells);
    }

    /// Adds the cells of a record, and makes all codes NOT_SAID again. Returns their number.
    #[inline(always)]
    fn add(&mut self, batch: &Batch, row: usize, period: i32, codes: &mut [i32]) -> usize {
        let mut cells = 0;
        for (index, code) in codes.iter_mut().enumerate() {
            if *code != NOT_SAID {
                self.attribute.push(index as u16);
                self.code.push(*code);
                *code = NOT_SAID;
                cells += 1;
            }
        }
        self.period.extend(repeat_n(period as u16, cells));
        self.partition.extend(repeat_n(batch.partitions[row] as u16, cells));
        self.offset.extend(repeat_n(batch.offsets[row], cells));
        cells
    }
}

impl Decoder {
    fn columns(&self, batch: &Batch) -> Columns {
        let count = batch.usable.len();
        let attributes = self.declared.attributes.len();
        let mut columns = Columns { decoded: vec![0; count], ..Columns::default() };
        let mut ids = Ids::with_capacity(EIGHT);
        if self.wide {
            columns.code = Codes::Wide(Vec::new());
        }
        let mut codes = vec![NOT_SAID; attributes];
        let mut endings = Endings::new(count);
        let order = by_partition(batch.partitions);
        for place in 0..count {
            let row = order.as_ref().map_or(place, |rows| rows[place] as usize);
            if batch.usable[row] == 0 {
                continue;
            }
            let value = &batch.content[batch.bounds[row] as usize..batch.bounds[row + 1] as usize];
            match self.declared.read(value, &mut endings, &mut codes) {
                Some(report) if report.period > batch.closed => {
                    columns.decoded[row] = 1;
                    if columns.offset.is_empty() {
                        let cells = codes.iter().filter(|code| **code != NOT_SAID).count();
                        // A cell takes at least five bytes: `"a":1`.
                        columns.reserve((cells * (count - place)).min(batch.content.len() / 5));
                    }
                    let cells = columns.add(batch, row, report.period, &mut codes);
                    ids.push((self.declared.ids.normal(report.person), cells));
                    if ids.len() == EIGHT {
                        self.hash(&mut ids, &mut columns);
                    }
                }
                _ => codes.fill(NOT_SAID),
            }
        }
        self.hash(&mut ids, &mut columns);
        columns
    }

    /// Hashes at most EIGHT ids, and adds the hashes to the columns, one for each cell.
    fn hash(&self, ids: &mut Ids, columns: &mut Columns) {
        let mut hashes = [(0, 0); EIGHT];
        if ids.len() == EIGHT {
            hashes = self.hasher.hash_eight(&std::array::from_fn(|i| ids[i].0.as_ref()));
        } else {
            for (hash, (id, _)) in hashes.iter_mut().zip(ids.iter()) {
                *hash = self.hasher.hash(id);
            }
        }
        for ((hi, lo), (_, cells)) in hashes.into_iter().zip(ids.drain(..)) {
            columns.hi.extend(repeat_n(hi, cells));
            columns.lo.extend(repeat_n(lo, cells));
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

/// The rows by partition, in unchanged order within each; None if they are in this order.
fn by_partition(partitions: &[i64]) -> Option<Vec<u32>> {
    let most = *partitions.iter().max()?;
    let known = 0..=i64::from(u16::MAX);
    if partitions.is_sorted() || !partitions.iter().all(|number| known.contains(number)) {
        return None;
    }
    let mut next = vec![0u32; most as usize + 2]; // the place of a partition's next row
    for number in partitions {
        next[*number as usize + 1] += 1;
    }
    for number in 1..next.len() {
        next[number] += next[number - 1];
    }
    let mut rows = vec![0; partitions.len()];
    for (row, number) in partitions.iter().enumerate() {
        let place = &mut next[*number as usize];
        rows[*place as usize] = row as u32;
        *place += 1;
    }
    Some(rows)
}
