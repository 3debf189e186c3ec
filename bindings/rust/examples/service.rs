//! A service that shows its memory over HTTP, without a further crate:
//!
//!     cargo run --release --example service -- 127.0.0.1:6060
//!     curl -o heap.pb.gz http://127.0.0.1:6060/debug/pprof/heap
//!     curl http://127.0.0.1:6060/stats
//!
//! `hakmem profile --input heap.pb.gz` and `go tool pprof target/release/examples/service heap.pb.gz` read the profile;
//! Parca and Pyroscope fetch it themselves. Port 0 takes a free one.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::{env, io, thread};

#[global_allocator]
static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

/// What the service remembers, and never forgets: the profile shows it.
static SESSIONS: Mutex<Option<HashMap<u64, Vec<u8>>>> = Mutex::new(None);

fn remember_session(number: u64) {
    let mut sessions = SESSIONS.lock().unwrap();
    sessions.get_or_insert_with(HashMap::new).insert(number, vec![0; 10_000]);
}

fn answer(path: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    match path {
        "/debug/pprof/heap" => Ok(hakmem_alloc::profile::dump_pprof()?),
        "/stats" => Ok(format!("{:#?}\n", hakmem_alloc::stats()?).into_bytes()),
        "/collect" => Ok(format!("{} bytes went back to the system\n", hakmem_alloc::collect()).into_bytes()),
        _ => Err(format!("{path}: only /debug/pprof/heap, /stats and /collect").into()),
    }
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut request = String::new();
    BufReader::new(&stream).read_line(&mut request)?;
    let path = request.split_whitespace().nth(1).unwrap_or("/");
    let (status, body) = match answer(path) {
        Ok(body) => ("200 OK", body),
        Err(error) => ("404 Not Found", format!("{error}\n").into_bytes()),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    hakmem_alloc::profile::start(0)?;
    thread::spawn(|| (0..2000).for_each(remember_session)).join().unwrap();
    let listener = TcpListener::bind(env::args().nth(1).unwrap_or("127.0.0.1:6060".into()))?;
    println!("listening on http://{}", listener.local_addr()?);
    for stream in listener.incoming() {
        if let Err(error) = serve(stream?) {
            eprintln!("{error}");
        }
    }
    Ok(())
}
