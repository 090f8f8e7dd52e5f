//! The functions of librdkafka, from the library that the Kafka client of Python has loaded.
//!
//! So both have one version, one TLS library and one way to find certificates.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// An object of librdkafka.
pub type Opaque = *mut c_void;

/// `rd_kafka_message_t`, whose layout librdkafka keeps.
#[repr(C)]
pub struct Message {
    pub error: c_int,
    pub topic: Opaque,
    pub partition: i32,
    pub payload: *const u8,
    pub length: usize,
    pub key: *const u8,
    pub key_length: usize,
    pub offset: i64,
    private: Opaque,
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> Opaque;
    fn dlsym(handle: Opaque, name: *const c_char) -> Opaque;
}
const RTLD_NOW: c_int = 2;

type LogCallback = extern "C" fn(Opaque, c_int, *const c_char, *const c_char);

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of librdkafka, by their names without the prefix.
        #[derive(Clone, Copy)]
        pub struct Library {
            $(pub $field: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Library {
            /// Finds the functions in a loaded shared library or in what it is linked with.
            pub fn of(path: &str) -> PyResult<Self> {
                let path = CString::new(path)?;
                // Safety: a path that ends in a zero byte; the library is loaded already.
                let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
                if handle.is_null() {
                    return Err(PyOSError::new_err("the Kafka client's library cannot be opened"));
                }
                // Safety: the types are those of librdkafka's header, which keeps them.
                unsafe { Ok(Library { $($field: std::mem::transmute::<
                    Opaque, unsafe extern "C" fn($($type),*) $(-> $result)?
                >(found(handle, $name)?),)* }) }
            }
        }
    };
}

functions! {
    conf_new = c"rd_kafka_conf_new": fn() -> Opaque;
    conf_set = c"rd_kafka_conf_set":
        fn(Opaque, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    conf_set_log_cb = c"rd_kafka_conf_set_log_cb": fn(Opaque, LogCallback);
    conf_destroy = c"rd_kafka_conf_destroy": fn(Opaque);
    new = c"rd_kafka_new": fn(c_int, Opaque, *mut c_char, usize) -> Opaque;
    destroy = c"rd_kafka_destroy": fn(Opaque);
    poll_set_consumer = c"rd_kafka_poll_set_consumer": fn(Opaque) -> c_int;
    queue_get_consumer = c"rd_kafka_queue_get_consumer": fn(Opaque) -> Opaque;
    queue_destroy = c"rd_kafka_queue_destroy": fn(Opaque);
    consumer_close = c"rd_kafka_consumer_close": fn(Opaque) -> c_int;
    consume_batch_queue = c"rd_kafka_consume_batch_queue":
        fn(Opaque, c_int, *mut *mut Message, usize) -> isize;
    message_destroy = c"rd_kafka_message_destroy": fn(*mut Message);
    message_timestamp = c"rd_kafka_message_timestamp": fn(*const Message, *mut c_int) -> i64;
    message_headers = c"rd_kafka_message_headers": fn(*const Message, *mut Opaque) -> c_int;
    message_errstr = c"rd_kafka_message_errstr": fn(*const Message) -> *const c_char;
    header_get_all = c"rd_kafka_header_get_all":
        fn(Opaque, usize, *mut *const c_char, *mut *const u8, *mut usize) -> c_int;
    err2str = c"rd_kafka_err2str": fn(c_int) -> *const c_char;
    error_code = c"rd_kafka_error_code": fn(Opaque) -> c_int;
    error_string = c"rd_kafka_error_string": fn(Opaque) -> *const c_char;
    error_destroy = c"rd_kafka_error_destroy": fn(Opaque);
    list_new = c"rd_kafka_topic_partition_list_new": fn(c_int) -> Opaque;
    list_add = c"rd_kafka_topic_partition_list_add": fn(Opaque, *const c_char, i32) -> Opaque;
    list_set_offset = c"rd_kafka_topic_partition_list_set_offset":
        fn(Opaque, *const c_char, i32, i64) -> c_int;
    list_destroy = c"rd_kafka_topic_partition_list_destroy": fn(Opaque);
    assign = c"rd_kafka_assign": fn(Opaque, Opaque) -> c_int;
    incremental_assign = c"rd_kafka_incremental_assign": fn(Opaque, Opaque) -> Opaque;
    incremental_unassign = c"rd_kafka_incremental_unassign": fn(Opaque, Opaque) -> Opaque;
    topic_new = c"rd_kafka_topic_new": fn(Opaque, *const c_char, Opaque) -> Opaque;
    topic_name = c"rd_kafka_topic_name": fn(Opaque) -> *const c_char;
    topic_destroy = c"rd_kafka_topic_destroy": fn(Opaque);
    metadata = c"rd_kafka_metadata": fn(Opaque, c_int, Opaque, *mut Opaque, c_int) -> c_int;
    metadata_destroy = c"rd_kafka_metadata_destroy": fn(Opaque);
}

unsafe fn found(handle: Opaque, name: &CStr) -> PyResult<Opaque> {
    // Safety: an open library and a name that ends in a zero byte.
    let function = unsafe { dlsym(handle, name.as_ptr()) };
    if function.is_null() {
        let name = name.to_string_lossy();
        return Err(PyOSError::new_err(format!("the Kafka client has no function {name}")));
    }
    Ok(function)
}

/// The text at a pointer of librdkafka; empty for a null pointer.
///
/// # Safety
///
/// The pointer is null, or that of a text that ends in a zero byte.
pub unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
