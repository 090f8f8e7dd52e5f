//! The columns of messages that were taken from librdkafka's queue.

use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::decoding::raw;
use crate::librdkafka::{Library, Message, text};

const HEADER_BYTES: usize = 100; // of memory that a header takes beside its name and its value

/// A column of byte strings and nulls, as Arrow stores `large_binary`.
#[derive(Default)]
struct Texts {
    content: Vec<u8>,
    bounds: Vec<i64>,
    valid: Vec<u8>, // a bit for each string; empty while nothing is null
    nulls: usize,
}

impl Texts {
    /// Adds a string; a null pointer is a null.
    #[inline(always)]
    unsafe fn push(&mut self, start: *const u8, length: usize) {
        let row = self.bounds.len();
        if start.is_null() {
            if self.nulls == 0 {
                self.valid = vec![0xff; row / 8 + 1];
            }
            self.nulls += 1;
        } else {
            // Safety: librdkafka's pointer and length of a message that is not destroyed yet.
            self.content.extend_from_slice(unsafe { std::slice::from_raw_parts(start, length) });
        }
        if self.nulls > 0 {
            if row / 8 >= self.valid.len() {
                self.valid.push(0xff);
            }
            if start.is_null() {
                self.valid[row / 8] &= !(1 << (row % 8));
            }
        }
        self.bounds.push(self.content.len() as i64);
    }

    /// The validity bits or None, the bounds, the content.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let valid = (self.nulls > 0).then(|| raw(py, &self.valid));
        let mut bounds = vec![0i64];
        bounds.extend_from_slice(&self.bounds);
        (valid, raw(py, &bounds), raw(py, &self.content)).into_pyobject(py)
    }
}

/// An event: the code of an error, the topic, partition, offset, and librdkafka's text.
pub type Event = (c_int, String, i32, i64, String);
type Headers = Vec<(String, Vec<u8>)>;

/// Messages in columns, and the events among them.
#[derive(Default)]
pub struct Fetched {
    partitions: Vec<i64>,
    offsets: Vec<i64>,
    times: Vec<i64>,
    keys: Texts,
    values: Texts,
    headers: Vec<(usize, Option<Headers>)>, // by row; None if a name is not text
    events: Vec<Event>,
    header_bytes: usize,
}

impl Fetched {
    pub fn count(&self) -> usize {
        self.offsets.len()
    }

    /// The bytes of keys, values and headers in memory.
    pub fn bytes(&self) -> usize {
        self.keys.content.len() + self.values.content.len() + self.header_bytes
    }

    pub fn ended(&self) -> bool {
        !self.events.is_empty()
    }

    /// Adds a message or an event of librdkafka.
    ///
    /// # Safety
    ///
    /// The message is librdkafka's and not destroyed.
    #[inline(always)]
    pub unsafe fn push(&mut self, library: &Library, message: *const Message) {
        // Safety: see above; the functions take any message.
        unsafe {
            let read = &*message;
            if read.error != 0 {
                let topic = match read.topic.is_null() {
                    true => String::new(),
                    false => text((library.topic_name)(read.topic)),
                };
                let reason = text((library.message_errstr)(message));
                self.events.push((read.error, topic, read.partition, read.offset, reason));
                return;
            }
            let (mut kind, mut headers) = (0, null_mut());
            if (library.message_headers)(message, &mut headers) == 0 {
                self.push_headers(library, headers);
            }
            self.partitions.push(i64::from(read.partition));
            self.offsets.push(read.offset);
            self.times.push((library.message_timestamp)(message, &mut kind));
            self.keys.push(read.key, read.key_length);
            self.values.push(read.payload, read.length);
        }
    }

    unsafe fn push_headers(&mut self, library: &Library, headers: *mut std::ffi::c_void) {
        let mut several = Some(Headers::new());
        for index in 0.. {
            let (mut name, mut value, mut length) = (std::ptr::null(), std::ptr::null(), 0);
            // Safety: librdkafka's headers of a message that is not destroyed; an index beyond the
            // last is an error, and a name ends in a zero byte.
            let (name, value) = unsafe {
                if (library.header_get_all)(headers, index, &mut name, &mut value, &mut length) != 0
                {
                    break;
                }
                let value = match value.is_null() {
                    true => &[],
                    false => std::slice::from_raw_parts(value, length),
                };
                (CStr::from_ptr(name), value)
            };
            self.header_bytes += name.count_bytes() + value.len() + HEADER_BYTES;
            match name.to_str() {
                Ok(name) => {
                    several.as_mut().map(|several| several.push((name.into(), value.into())))
                }
                Err(_) => {
                    several = None;
                    break;
                }
            };
        }
        self.headers.push((self.offsets.len(), several));
    }

    /// For Python: partitions, offsets, times, the buffers of keys and of values, the headers of
    /// rows that have any, the events, and the bytes in memory.
    pub fn columns<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let headers = PyList::empty(py);
        for (row, several) in &self.headers {
            let named = match several {
                None => None,
                Some(several) => Some(PyTuple::new(
                    py,
                    several.iter().map(|(name, value)| (name, PyBytes::new(py, value))),
                )?),
            };
            headers.append((*row, named))?;
        }
        let bytes = self.bytes();
        (
            raw(py, &self.partitions),
            raw(py, &self.offsets),
            raw(py, &self.times),
            self.keys.buffers(py)?,
            self.values.buffers(py)?,
            headers,
            self.events,
            bytes,
        )
            .into_pyobject(py)
    }
}
