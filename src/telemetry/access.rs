//! stub
/// Where access lines go: a bounded queue with a writer of its own.
#[derive(Clone, Debug)]
pub struct AccessSink;
/// stub
#[derive(Debug)]
pub struct AccessEntry;
