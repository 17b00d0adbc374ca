// SPDX-License-Identifier: GPL-2.0
//! Ordered maps written in Rust, for the benchmark's driver: see `peers.h`. A process
//! has one of them.

mod keys;
mod maps;

use keys::{Bytes, Columns};
use maps::{Congee, Map, Scan, SkipList, TreeIndex, Value};
use std::ptr::{addr_of, addr_of_mut};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The map, and the kinds of its keys and values.
#[derive(Clone, Copy)]
struct Kind {
    map: u32,
    fixed: bool,
    wide: bool,
}

static mut KIND: Kind = Kind {
    map: 0,
    fixed: false,
    wide: false,
};
static mut MAP: Option<Box<dyn Map>> = None;

fn make(kind: Kind) -> Box<dyn Map> {
    match (kind.map, kind.fixed, kind.wide) {
        (0, true, false) => Box::new(SkipList::<u64, AtomicU64>::new()),
        (0, false, false) => Box::new(SkipList::<Bytes, AtomicU64>::new()),
        (0, false, true) => Box::new(SkipList::<Bytes, [AtomicU32; 10]>::new()),
        (1, true, false) => Box::new(TreeIndex::<u64, u64>::new()),
        (1, false, false) => Box::new(TreeIndex::<Bytes, u64>::new()),
        (1, false, true) => Box::new(TreeIndex::<Bytes, Columns>::new()),
        (2, true, false) => Box::new(Congee::new()),
        _ => panic!("no such map"),
    }
}

fn map() -> &'static dyn Map {
    // SAFETY: it only changes while no other thread works.
    unsafe { (*addr_of!(MAP)).as_deref().expect("open") }
}

/// # Safety
/// `data` points to `len` bytes.
unsafe fn bytes<'a>(data: *const u8, len: u32) -> &'a [u8] {
    std::slice::from_raw_parts(data, len as usize)
}

/// # Safety
/// Called once, before everything else.
#[no_mangle]
pub unsafe extern "C" fn peer_open(map: u32, fixed: bool, wide: bool) {
    *addr_of_mut!(KIND) = Kind { map, fixed, wide };
    peer_clear();
}

/// # Safety
/// No other thread uses the map.
#[no_mangle]
pub unsafe extern "C" fn peer_clear() {
    *addr_of_mut!(MAP) = None;
    *addr_of_mut!(MAP) = Some(make(*addr_of!(KIND)));
}

/// # Safety
/// The pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn peer_put(data: *const u8, len: u32, value: *const Value) {
    map().put(bytes(data, len), &*value);
}

/// # Safety
/// The pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn peer_get(data: *const u8, len: u32, value: *mut Value) -> bool {
    map().get(bytes(data, len), &mut *value)
}

/// # Safety
/// The pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn peer_remove(data: *const u8, len: u32) -> bool {
    map().remove(bytes(data, len))
}

/// # Safety
/// The pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn peer_put_column(data: *const u8, len: u32, column: u32, to: u32) -> bool {
    map().put_column(bytes(data, len), column as usize, to)
}

/// # Safety
/// The pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn peer_scan(data: *const u8, len: u32, nr: u32, out: *mut Scan) -> u32 {
    map().scan(bytes(data, len), nr as usize, &mut *out) as u32
}
