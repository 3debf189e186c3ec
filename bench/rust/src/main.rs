//! Work that Rust programs do with the crates that most of them use: `rust-bench json|words|parallel`. compare.py measures
//! it under each global allocator.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fmt::Write;
use std::hint::black_box;
use std::process::ExitCode;

use bench_allocator as _;
use rayon::prelude::*;
use regex::Regex;
use serde_json::{json, Value};

/// Parses a document into a tree, changes the tree, and writes it again.
fn json() {
    let record = |number: usize| {
        json!({"id": number, "name": format!("customer {number}"), "tags": ["new", "paid", format!("group {}", number % 97)],
               "address": {"street": format!("{number} Main Street"), "city": "Springfield", "zip": number % 100_000}})
    };
    let mut text = Value::Array((0..40_000).map(record).collect()).to_string();
    for round in 0..4 {
        let mut tree: Value = serde_json::from_str(&text).unwrap();
        for record in tree.as_array_mut().unwrap().iter_mut().step_by(3) {
            record["tags"].as_array_mut().unwrap().push(json!(format!("round {round}")));
            record.as_object_mut().unwrap().remove("name");
        }
        text = tree.to_string();
    }
    black_box(text);
}

/// Finds words, and records each word's places.
fn words() {
    let mut text = String::new();
    for number in 0..400_000_usize {
        write!(text, "word{} ", number.wrapping_mul(2_654_435_761) % 30_011).unwrap();
    }
    let pattern = Regex::new(r"\b([a-z]+)(\d+)\b").unwrap();
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for found in pattern.captures_iter(&text) {
        places.entry(found[2].to_string()).or_default().push(found.get(0).unwrap().start());
    }
    let replaced = pattern.replace_all(&text, "${2}${1}").into_owned();
    let lines: Vec<String> = replaced.split(' ').map(str::to_uppercase).collect();
    black_box((places, lines));
}

/// Makes, sorts and groups strings on all threads: many are freed by another thread than made them.
fn parallel() {
    for round in 0..6_u64 {
        let mut keys: Vec<String> =
            (0..300_000_u64).into_par_iter().map(|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9) ^ round)).collect();
        keys.par_sort_unstable();
        let groups = keys
            .into_par_iter()
            .fold(BTreeMap::new, |mut groups: BTreeMap<String, Vec<String>>, key| {
                groups.entry(key[..2].to_string()).or_default().push(key);
                groups
            })
            .reduce(BTreeMap::new, |mut all, more| {
                more.into_iter().for_each(|(prefix, keys)| all.entry(prefix).or_default().extend(keys));
                all
            });
        black_box(groups);
    }
}

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("json") => json(),
        Some("words") => words(),
        Some("parallel") => parallel(),
        _ => {
            eprintln!("rust-bench json|words|parallel");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
