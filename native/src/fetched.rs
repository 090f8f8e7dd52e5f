//! The columns of messages that were taken from librdkafka's queue.

use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::columns::column;
use crate::librdkafka::{Library, Message, text};

const HEADER_BYTES: usize = 100; // of memory that a header takes beside its name and its value
const ROOM: usize = 16; // the share of bytes by which the next messages may be longer

/// A column of byte strings and nulls, as Arrow stores `large_binary`.
struct Texts {
    content: Vec<u8>,
    bounds: Vec<i64>, // one more than strings
    valid: Vec<u8>,   // a bit for each string; empty while nothing is null
    nulls: usize,
}

impl Texts {
    fn with_room(count: usize, bytes: usize) -> Self {
        let mut bounds = Vec::with_capacity(count + 1);
        bounds.push(0);
        Texts { content: Vec::with_capacity(bytes), bounds, valid: Vec::new(), nulls: 0 }
    }

    /// Adds a string; a null pointer is a null.
    #[inline(always)]
    unsafe fn push(&mut self, start: *const u8, length: usize) {
        let row = self.bounds.len() - 1;
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
    fn buffers<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let valid = if self.nulls > 0 { Some(column(py, self.valid)?) } else { None };
        (valid, column(py, self.bounds)?, column(py, self.content)?).into_pyobject(py)
    }
}

/// An event: the code of an error, the topic, partition, offset, and librdkafka's text.
pub type Event = (c_int, String, i32, i64, String);
type Headers = Vec<(String, Vec<u8>)>;

/// The size of fetched messages: their number, and the bytes of keys and of values.
#[derive(Clone, Copy, Default)]
pub struct Size {
    count: usize,
    key_bytes: usize,
    value_bytes: usize,
}

/// Messages in columns, and the events among them.
pub struct Fetched {
    partitions: Vec<i64>,
    offsets: Vec<i64>,
    times: Vec<i64>,
    ends: Vec<(i32, i64)>, // of each partition with messages, the offset after its last one
    keys: Texts,
    values: Texts,
    headers: Vec<(usize, Option<Headers>)>, // by row; None if a name is not text
    events: Vec<Event>,
    header_bytes: usize,
}

impl Fetched {
    /// No messages yet, with room for as many as the last ones, and for at most `limit`.
    pub fn with_room(last: Size, limit: usize) -> Self {
        let count = last.count.min(limit);
        Fetched {
            partitions: Vec::with_capacity(count),
            offsets: Vec::with_capacity(count),
            times: Vec::with_capacity(count),
            ends: Vec::new(),
            keys: Texts::with_room(count, last.key_bytes + last.key_bytes / ROOM),
            values: Texts::with_room(count, last.value_bytes + last.value_bytes / ROOM),
            headers: Vec::new(),
            events: Vec::new(),
            header_bytes: 0,
        }
    }

    pub fn size(&self) -> Size {
        Size {
            count: self.count(),
            key_bytes: self.keys.content.len(),
            value_bytes: self.values.content.len(),
        }
    }

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
            self.end(read.partition).1 = read.offset + 1;
            self.partitions.push(i64::from(read.partition));
            self.offsets.push(read.offset);
            self.times.push((library.message_timestamp)(message, &mut kind));
            self.keys.push(read.key, read.key_length);
            self.values.push(read.payload, read.length);
        }
    }

    /// The end of a partition, last in `ends`.
    #[inline(always)]
    fn end(&mut self, partition: i32) -> &mut (i32, i64) {
        if self.ends.last().is_none_or(|(number, _)| *number != partition) {
            match self.ends.iter().position(|(number, _)| *number == partition) {
                Some(place) => {
                    let end = self.ends.remove(place);
                    self.ends.push(end);
                }
                None => self.ends.push((partition, 0)),
            }
        }
        self.ends.last_mut().expect("added above")
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
    /// rows that have any, the ends of partitions, the events, and the bytes in memory.
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
            column(py, self.partitions)?,
            column(py, self.offsets)?,
            column(py, self.times)?,
            self.keys.buffers(py)?,
            self.values.buffers(py)?,
            headers,
            self.ends,
            self.events,
            bytes,
        )
            .into_pyobject(py)
    }
}
