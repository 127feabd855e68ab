//! A whole worker on real sockets, in front of a scripted upstream, spoken to in raw bytes.

mod drain;
mod forwarding;
mod framing;
mod harness;
mod limits;
mod records;
mod uploads;
mod waiting;
