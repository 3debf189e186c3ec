//! Compiles the C sources with the flags of cmake/HakmemFlags.cmake. Every variant is one static library, which becomes
//! a part of the crate's rlib.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Layers of the source (csrc/src/README.md in the repository), without `override`.
const FOLDERS: [&str; 11] =
    ["base", "os", "policy", "space", "heap", "api", "unwind", "pprof", "inspect", "report", "serve"];
/// Stands in for the instruments, which this crate has.
const LEFT_OUT: &str = "no_instruments.c";
/// The names of the C library. (The folder's other files are for the shared library.)
const OVERRIDE: [&str; 2] = ["csrc/src/override/libc.c", "csrc/src/override/seccomp.c"];

const FLAGS: [&str; 13] = [
    "-fno-lto",
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-ftls-model=initial-exec",
    "-fno-plt",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-ffunction-sections",
    "-fdata-sections",
    "-fomit-frame-pointer",
    // The stacks of heap profiles come from these tables, also in a program that aborts on panic.
    "-fasynchronous-unwind-tables",
];

fn main() {
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || target("POINTER_WIDTH") != "64" {
        panic!("hakmem-alloc runs on 64-bit Linux only, and the target is {}", env::var("TARGET").unwrap_or_default());
    }
    // docs.rs reads the Rust code alone, for targets for which it may have no C compiler.
    println!("cargo:rerun-if-env-changed=DOCS_RS");
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let mut sources = vec![PathBuf::from("csrc/crate.c")];
    for folder in FOLDERS {
        sources.extend(c_files(&Path::new("csrc/src").join(folder)));
    }
    if has("OVERRIDE") {
        sources.extend(OVERRIDE.map(PathBuf::from));
    }
    let switch = |on: bool| if on { "1" } else { "0" };
    let mut build = cc::Build::new();
    if target("ENV") == "musl" {
        build.flag("-idirafter").flag(kernel_headers(&target("ARCH")));
    }
    forbid_link_time_optimisation();
    build
        .files(sources)
        .includes(["csrc/src", "csrc/include"])
        .define("_GNU_SOURCE", "1")
        .define("HK_DEBUG", "0")
        .define("HK_COUNT", "0")
        .define("HK_WEAK_RUNTIME", "0")
        .define("HK_SAFETY", switch(!has("FAST")))
        .define("HK_CRATE_OVERRIDES", switch(has("OVERRIDE")))
        .std("c17")
        // A debug build of the program needs no slow allocator.
        .opt_level(2)
        .force_frame_pointer(false)
        .flags(FLAGS)
        .compile("hakmem");
    // For programs without std, which brings it.
    println!("cargo:rustc-link-lib=c");
    println!("cargo:include={}", fs::canonicalize("csrc/include").unwrap().display());
    for watched in ["build.rs", "csrc/crate.c", "csrc/include/hakmem"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    for folder in FOLDERS.iter().chain(&["override"]) {
        println!("cargo:rerun-if-changed=csrc/src/{folder}");
    }
}

/// Appends to the variables whose flags come last. Arch has `-flto` among them: the objects would have no code then,
/// which rustc's linker needs, and link-time optimisation does not see the symbols that assembly defines.
fn forbid_link_time_optimisation() {
    let triple = env::var("TARGET").unwrap_or_default();
    let of_target = [&triple, &triple.replace('-', "_")].map(|name| format!("CFLAGS_{name}"));
    for name in ["CFLAGS", "HOST_CFLAGS", "TARGET_CFLAGS"].iter().copied().chain(of_target.iter().map(String::as_str)) {
        if let Ok(flags) = env::var(name) {
            env::set_var(name, format!("{flags} -fno-lto"));
        }
    }
}

/// Returns a folder of the kernel's headers, which Debian's musl-gcc lacks, and which are the same for every C library.
/// The target's own folder comes first: beside a multilib gcc, /usr/include/asm is that of the machine that builds.
fn kernel_headers(machine: &str) -> PathBuf {
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("kernel-headers");
    fs::create_dir_all(&folder).unwrap();
    let places = [format!("/usr/include/{machine}-linux-gnu"), "/usr/include".to_string()];
    for name in ["linux", "asm", "asm-generic"] {
        let link = folder.join(name);
        // An earlier build's may lead nowhere by now.
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).unwrap();
        }
        #[cfg(unix)]
        if let Some(there) = places.iter().map(|place| Path::new(place).join(name)).find(|there| there.exists()) {
            std::os::unix::fs::symlink(there, link).unwrap();
        }
    }
    folder
}

/// Returns the C files of a folder, in the order of their names.
fn c_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|suffix| suffix == "c") && !file.ends_with(LEFT_OUT));
    files.sort();
    files
}
