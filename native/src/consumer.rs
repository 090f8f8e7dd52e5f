//! A consumer of Kafka with manual assignment, whose queue is drained without the interpreter.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;
use std::sync::Mutex;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::fetched::{Fetched, Size};
use crate::librdkafka::{Library, Message, Opaque, text};

const CONSUMER: c_int = 1; // rd_kafka_type_t
const AT_ONCE: usize = 256; // messages whose memory is freed while it is in the cache
const BYTES_AT_ONCE: usize = 1 << 20;

create_exception!(
    stream_dp_native,
    ClientError,
    PyException,
    "An error code of librdkafka, and its text."
);

struct Client {
    library: Library,
    client: Opaque,
    queue: Opaque,
    process: u32,
    last: Cell<Size>, // of the last fetched messages
}

// Safety: librdkafka's clients and queues may be used by any thread.
unsafe impl Send for Client {}

/// Topics with their partitions, and the offsets to read from.
type Places = Vec<(String, i32, i64)>;

/// A consumer. path: of the shared library of the Kafka client of Python.
///
/// settings: librdkafka's. Errors name a setting, and quote no value.
#[pyclass(frozen, module = "stream_dp_native")]
pub struct Consumer {
    client: Mutex<Option<Client>>,
}

extern "C" fn quiet(_: Opaque, _: c_int, _: *const c_char, _: *const c_char) {}

impl Client {
    fn new(path: &str, settings: BTreeMap<String, String>) -> PyResult<Self> {
        let library = Library::of(path)?;
        let mut reason = [0 as c_char; 512]; // not shown: it may quote a value
        // Safety: the calls of librdkafka's manual; `new` takes the configuration if it succeeds.
        unsafe {
            let conf = (library.conf_new)();
            (library.conf_set_log_cb)(conf, quiet);
            for (name, value) in settings {
                let texts = CString::new(name.as_str()).ok().zip(CString::new(value).ok());
                let set = texts.is_some_and(|(name, value)| {
                    let (name, value) = (name.as_ptr(), value.as_ptr());
                    (library.conf_set)(conf, name, value, reason.as_mut_ptr(), reason.len()) == 0
                });
                if !set {
                    (library.conf_destroy)(conf);
                    return Err(PyValueError::new_err(format!(
                        "configuration property \"{name}\""
                    )));
                }
            }
            let client = (library.new)(CONSUMER, conf, reason.as_mut_ptr(), reason.len());
            if client.is_null() {
                (library.conf_destroy)(conf);
                return Err(PyValueError::new_err("the client refuses its settings"));
            }
            (library.poll_set_consumer)(client);
            let queue = (library.queue_get_consumer)(client);
            if queue.is_null() {
                (library.destroy)(client);
                return Err(PyValueError::new_err("configuration property \"group.id\""));
            }
            let (process, last) = (std::process::id(), Cell::default());
            Ok(Client { library, client, queue, process, last })
        }
    }

    fn check(&self, code: c_int) -> PyResult<()> {
        if code == 0 {
            return Ok(());
        }
        // Safety: every code has a text.
        Err(ClientError::new_err((code, unsafe { text((self.library.err2str)(code)) })))
    }

    /// Checks an error object, and destroys it.
    fn check_object(&self, error: Opaque) -> PyResult<()> {
        if error.is_null() {
            return Ok(());
        }
        // Safety: librdkafka's error, which is the caller's to destroy.
        unsafe {
            let code = (self.library.error_code)(error);
            let reason = text((self.library.error_string)(error));
            (self.library.error_destroy)(error);
            Err(ClientError::new_err((code, reason)))
        }
    }

    /// Calls a function with a list of partitions.
    fn with_list<R>(&self, places: &Places, call: impl FnOnce(Opaque) -> R) -> PyResult<R> {
        let topics = places.iter().map(|(topic, ..)| CString::new(topic.as_str()));
        let topics = topics.collect::<Result<Vec<_>, _>>()?;
        // Safety: the list is destroyed after the call, which copies it; nothing here returns early.
        unsafe {
            let list = (self.library.list_new)(places.len() as c_int);
            for (topic, (_, partition, offset)) in topics.iter().zip(places) {
                (self.library.list_add)(list, topic.as_ptr(), *partition);
                (self.library.list_set_offset)(list, topic.as_ptr(), *partition, *offset);
            }
            let result = call(list);
            (self.library.list_destroy)(list);
            Ok(result)
        }
    }

    fn fetch(&self, limit: usize, most_bytes: usize, wait: c_int) -> Fetched {
        let mut fetched = Fetched::with_room(self.last.get(), limit);
        let mut messages = [null_mut::<Message>(); AT_ONCE];
        let (mut wait, mut room) = (wait, 1);
        let first_wait = wait;
        while fetched.count() < limit && fetched.bytes() < most_bytes && !fetched.ended() {
            // A request for several messages would also wait behind the last one.
            room = if wait > 0 { 1 } else { room.min(AT_ONCE).min(limit - fetched.count()) };
            // Safety: room for so many messages, each of which is destroyed once.
            let count = unsafe {
                let array = messages.as_mut_ptr();
                (self.library.consume_batch_queue)(self.queue, wait, array, room)
            };
            if count <= 0 {
                if wait == first_wait {
                    break;
                }
                wait = first_wait;
                continue;
            }
            let before = fetched.bytes();
            for message in &messages[..count as usize] {
                // Safety: see above.
                unsafe {
                    fetched.push(&self.library, *message);
                    (self.library.message_destroy)(*message);
                }
            }
            let mean = (fetched.bytes() - before) / count as usize + 1;
            (wait, room) = (0, (BYTES_AT_ONCE / mean).clamp(1, 2 * room));
        }
        self.last.set(fetched.size());
        fetched
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The threads of librdkafka do not exist in a child process.
        if self.process == std::process::id() {
            // Safety: nobody uses the queue and the client any more.
            unsafe {
                (self.library.queue_destroy)(self.queue);
                (self.library.consumer_close)(self.client);
                (self.library.destroy)(self.client);
            }
        }
    }
}

impl Consumer {
    /// Calls a function with the client, without the interpreter. Raises RuntimeError when closed.
    fn using<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Client) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| match self.client.lock().expect("no call panics").as_ref() {
            None => Err(PyRuntimeError::new_err("the consumer is closed")),
            Some(client) => call(client),
        })
    }
}

#[pymethods]
impl Consumer {
    #[new]
    fn new(py: Python<'_>, path: &str, settings: BTreeMap<String, String>) -> PyResult<Self> {
        let client = py.detach(|| Client::new(path, settings))?;
        Ok(Consumer { client: Mutex::new(Some(client)) })
    }

    fn assign(&self, py: Python<'_>, places: Places) -> PyResult<()> {
        self.using(py, |client| {
            // Safety: librdkafka's client and list.
            let assign = |list| unsafe { (client.library.assign)(client.client, list) };
            client.check(client.with_list(&places, assign)?)
        })
    }

    fn unassign(&self, py: Python<'_>) -> PyResult<()> {
        // Safety: no list stands for no partitions.
        self.using(py, |client| unsafe {
            client.check((client.library.assign)(client.client, null_mut()))
        })
    }

    fn incremental_assign(&self, py: Python<'_>, places: Places) -> PyResult<()> {
        self.using(py, |client| {
            let assign = client.library.incremental_assign;
            // Safety: librdkafka's client and list.
            client.check_object(
                client.with_list(&places, |list| unsafe { assign(client.client, list) })?,
            )
        })
    }

    fn incremental_unassign(&self, py: Python<'_>, places: Places) -> PyResult<()> {
        self.using(py, |client| {
            let unassign = client.library.incremental_unassign;
            // Safety: librdkafka's client and list.
            client.check_object(
                client.with_list(&places, |list| unsafe { unassign(client.client, list) })?,
            )
        })
    }

    /// Looks up the leaders of a topic's partitions. wait: milliseconds.
    fn look_up(&self, py: Python<'_>, topic: &str, wait: c_int) -> PyResult<()> {
        let name = CString::new(topic)?;
        self.using(py, |client| {
            let library = &client.library;
            // Safety: the objects are destroyed after their use.
            unsafe {
                let topic = (library.topic_new)(client.client, name.as_ptr(), null_mut());
                let mut metadata = null_mut();
                let code = (library.metadata)(client.client, 0, topic, &mut metadata, wait);
                if code == 0 {
                    (library.metadata_destroy)(metadata);
                }
                if !topic.is_null() {
                    (library.topic_destroy)(topic);
                }
                client.check(code)
            }
        })
    }

    /// Takes messages from the queue, up to an event, until none comes for `wait` milliseconds.
    ///
    /// limit: of messages. most_bytes: in memory; the last message may go beyond it.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
        most_bytes: usize,
        wait: c_int,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.using(py, |client| Ok(client.fetch(limit, most_bytes, wait)))?.columns(py)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.client.lock().expect("no call panics").take()));
    }
}
