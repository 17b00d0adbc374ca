// SPDX-License-Identifier: GPL-2.0
//! Keys and values in the form that the maps hold.

use crate::maps::Value;
use std::borrow::Borrow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

pub type Bytes = Box<[u8]>;
pub type Columns = [u32; 10];

/// A key, looked up in its borrowed form, without an allocation.
pub trait Key: Ord + Clone + Send + Sync + Borrow<Self::Sought> + 'static {
    type Sought: Ord + ?Sized;

    fn own(data: &[u8]) -> Self;
    fn seek<R>(data: &[u8], f: impl FnOnce(&Self::Sought) -> R) -> R;
    /// Returns its length.
    fn copy(&self, to: &mut [u8]) -> u32;
}

pub fn number(data: &[u8]) -> u64 {
    u64::from_be_bytes(data.try_into().expect("8 bytes"))
}

impl Key for u64 {
    type Sought = u64;

    fn own(data: &[u8]) -> Self {
        number(data)
    }

    fn seek<R>(data: &[u8], f: impl FnOnce(&u64) -> R) -> R {
        f(&number(data))
    }

    fn copy(&self, to: &mut [u8]) -> u32 {
        to[..8].copy_from_slice(&self.to_be_bytes());
        8
    }
}

impl Key for Bytes {
    type Sought = [u8];

    fn own(data: &[u8]) -> Self {
        data.into()
    }

    fn seek<R>(data: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
        f(data)
    }

    fn copy(&self, to: &mut [u8]) -> u32 {
        to[..self.len()].copy_from_slice(self);
        self.len() as u32
    }
}

pub trait Data: Copy + Send + Sync + 'static {
    fn take(from: &Value) -> Self;
    fn give(&self, to: &mut Value);
    /// The part that a scan copies.
    fn first(&self) -> u64;
}

impl Data for u64 {
    fn take(from: &Value) -> Self {
        // SAFETY: all bit patterns are valid.
        unsafe { from.number }
    }

    fn give(&self, to: &mut Value) {
        to.number = *self;
    }

    fn first(&self) -> u64 {
        *self
    }
}

impl Data for Columns {
    fn take(from: &Value) -> Self {
        // SAFETY: all bit patterns are valid.
        unsafe { from.columns }
    }

    fn give(&self, to: &mut Value) {
        to.columns = *self;
    }

    fn first(&self) -> u64 {
        self[0].into()
    }
}

/// A value that changes in place while others read it: one column at a time.
pub trait Cell: Send + Sync + 'static {
    fn new(from: &Value) -> Self;
    fn set(&self, from: &Value);
    fn set_column(&self, column: usize, to: u32);
    fn give(&self, to: &mut Value);
    fn first(&self) -> u64;
}

impl Cell for AtomicU64 {
    fn new(from: &Value) -> Self {
        AtomicU64::new(u64::take(from))
    }

    fn set(&self, from: &Value) {
        self.store(u64::take(from), Relaxed);
    }

    fn set_column(&self, _column: usize, _to: u32) {
        panic!("no columns");
    }

    fn give(&self, to: &mut Value) {
        self.load(Relaxed).give(to);
    }

    fn first(&self) -> u64 {
        self.load(Relaxed)
    }
}

impl Cell for [AtomicU32; 10] {
    fn new(from: &Value) -> Self {
        Columns::take(from).map(AtomicU32::new)
    }

    fn set(&self, from: &Value) {
        for (cell, value) in self.iter().zip(Columns::take(from)) {
            cell.store(value, Relaxed);
        }
    }

    fn set_column(&self, column: usize, to: u32) {
        self[column].store(to, Relaxed);
    }

    fn give(&self, to: &mut Value) {
        let mut columns = [0; 10];

        for (column, cell) in columns.iter_mut().zip(self) {
            *column = cell.load(Relaxed);
        }
        columns.give(to);
    }

    fn first(&self) -> u64 {
        self[0].load(Relaxed).into()
    }
}
