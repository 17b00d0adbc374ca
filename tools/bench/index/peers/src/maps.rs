// SPDX-License-Identifier: GPL-2.0
//! The maps, with a common interface.

use crate::keys::{number, Cell, Columns, Data, Key};
use crossbeam_skiplist::SkipMap;
use std::ops::Bound::{self, Included, Unbounded};

/// `union bench_value`
#[repr(C)]
pub union Value {
    pub number: u64,
    pub columns: Columns,
}

pub const SCAN_MAX: usize = 100;
pub const KEY_MAX: usize = 48;

/// `struct bench_scan`
#[repr(C)]
pub struct Scan {
    key: [[u8; KEY_MAX]; SCAN_MAX],
    len: [u32; SCAN_MAX],
    value: [u64; SCAN_MAX],
}

/// The range from a key on.
fn from<Q: ?Sized>(key: &Q) -> (Bound<&Q>, Bound<&Q>) {
    (Included(key), Unbounded)
}

pub trait Map: Send + Sync {
    fn put(&self, key: &[u8], value: &Value);
    fn get(&self, key: &[u8], value: &mut Value) -> bool;
    fn remove(&self, key: &[u8]) -> bool;
    fn scan(&self, key: &[u8], nr: usize, out: &mut Scan) -> usize;

    /// Returns whether the key exists.
    fn put_column(&self, key: &[u8], column: usize, to: u32) -> bool {
        let mut value = Value { number: 0 };

        if !self.get(key, &mut value) {
            return false;
        }
        // SAFETY: get() has filled all columns.
        unsafe { value.columns[column] = to };
        self.put(key, &value);
        true
    }
}

/// Inserting an existing key removes it for a moment, so values are cells.
pub struct SkipList<K, C>(SkipMap<K, C>);

impl<K: Key, C: Cell> SkipList<K, C> {
    pub fn new() -> Self {
        Self(SkipMap::new())
    }
}

impl<K: Key, C: Cell> Map for SkipList<K, C> {
    fn put(&self, key: &[u8], value: &Value) {
        let entry = self.0.get_or_insert_with(K::own(key), || C::new(value));

        entry.value().set(value);
    }

    fn get(&self, key: &[u8], value: &mut Value) -> bool {
        let entry = K::seek(key, |k| self.0.get(k));

        entry.map(|e| e.value().give(value)).is_some()
    }

    fn remove(&self, key: &[u8]) -> bool {
        K::seek(key, |k| self.0.remove(k)).is_some()
    }

    fn put_column(&self, key: &[u8], column: usize, to: u32) -> bool {
        let entry = K::seek(key, |k| self.0.get(k));

        entry.map(|e| e.value().set_column(column, to)).is_some()
    }

    fn scan(&self, key: &[u8], nr: usize, out: &mut Scan) -> usize {
        K::seek(key, |k| {
            let mut n = 0;

            for e in self.0.range::<K::Sought, _>(from(k)).take(nr) {
                out.len[n] = e.key().copy(&mut out.key[n]);
                out.value[n] = e.value().first();
                n += 1;
            }
            n
        })
    }
}

pub struct TreeIndex<K: 'static, V: 'static>(scc::TreeIndex<K, V>);

impl<K: Key, V: Data> TreeIndex<K, V> {
    pub fn new() -> Self {
        Self(scc::TreeIndex::new())
    }
}

impl<K: Key, V: Data> Map for TreeIndex<K, V> {
    fn put(&self, key: &[u8], value: &Value) {
        self.0.upsert_sync(K::own(key), V::take(value));
    }

    fn get(&self, key: &[u8], value: &mut Value) -> bool {
        K::seek(key, |k| self.0.peek_with(k, |_, v| v.give(value))).is_some()
    }

    fn remove(&self, key: &[u8]) -> bool {
        K::seek(key, |k| self.0.remove_sync(k))
    }

    fn scan(&self, key: &[u8], nr: usize, out: &mut Scan) -> usize {
        let guard = scc::Guard::new();

        K::seek(key, |k| {
            let mut n = 0;

            for (k, v) in self.0.range::<K::Sought, _>(from(k), &guard).take(nr) {
                out.len[n] = k.copy(&mut out.key[n]);
                out.value[n] = v.first();
                n += 1;
            }
            n
        })
    }
}

/// It only supports keys of eight bytes and values of one word.
pub struct Congee(congee::Congee<usize, usize>);

impl Congee {
    pub fn new() -> Self {
        Self(congee::Congee::default())
    }
}

impl Map for Congee {
    fn put(&self, key: &[u8], value: &Value) {
        let guard = self.0.pin();
        let value = u64::take(value) as usize;

        self.0
            .insert(number(key) as usize, value, &guard)
            .expect("memory");
    }

    fn get(&self, key: &[u8], value: &mut Value) -> bool {
        let guard = self.0.pin();
        let found = self.0.get(&(number(key) as usize), &guard);

        found.map(|v| (v as u64).give(value)).is_some()
    }

    fn remove(&self, key: &[u8]) -> bool {
        let guard = self.0.pin();

        self.0.remove(&(number(key) as usize), &guard).is_some()
    }

    fn scan(&self, key: &[u8], nr: usize, out: &mut Scan) -> usize {
        let mut found = [(0, 0); SCAN_MAX];
        let guard = self.0.pin();
        let from = number(key) as usize;
        let n = self.0.range(&from, &usize::MAX, &mut found[..nr], &guard);

        for (i, (key, value)) in found[..n].iter().enumerate() {
            out.len[i] = (*key as u64).copy(&mut out.key[i]);
            out.value[i] = *value as u64;
        }
        n
    }
}
