//! `cargo xtask relay`: runs a command on another host, as ssh does, without keys and encryption.
//! For tests whose hosts are network namespaces: daemons are then reached over the network that the
//! test cuts.
//!
//! The server gives each connection to a shell as its standard input and output; it holds no copy.
//! The caller copies its own streams. There is no authentication: a server listens in a namespace
//! that a test has made, for the time of that test.

use std::io::{Read as _, Write as _, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result};

/// The port of servers.
pub(crate) const PORT: u16 = 7171;

/// One side of a relay.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Accept connections until killed.
    Serve,
    /// Run a command of a shell on a host.
    Call {
        /// Its address.
        host: String,
        /// One line for its shell.
        command: String,
    },
}

/// Runs one side.
pub(crate) fn relay(task: &Task) -> Result<()> {
    match task {
        Task::Serve => serve(),
        Task::Call { host, command } => call(host, command),
    }
}

fn serve() -> Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(error) = run(stream) {
                eprintln!("relay: {error:#}");
            }
        });
    }
    Ok(())
}

fn run(mut stream: TcpStream) -> Result<()> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let line = String::from_utf8(line)?;
    let output = OwnedFd::from(stream.try_clone()?);
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).stdin(Stdio::from(OwnedFd::from(stream))).stdout(output);
    let mut child = shell.spawn()?;
    // The command, and with it our copies of the connection.
    drop(shell);
    child.wait()?;
    Ok(())
}

fn call(host: &str, command: &str) -> Result<()> {
    let mut stream =
        TcpStream::connect((host, PORT)).with_context(|| format!("cannot reach {host}"))?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("{command}\n").as_bytes())?;
    let mut sending = stream.try_clone()?;
    thread::spawn(move || {
        let _ = copy(&mut std::io::stdin(), &mut sending);
        let _ = sending.shutdown(Shutdown::Write);
    });
    let mut output = std::io::stdout();
    let mut piece = [0u8; 16 << 10];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            read => {
                output.write_all(&piece[..read])?;
                output.flush()?;
            }
        }
    }
}
