//! The first files of a guest's kernel: busybox, modules, and [`INIT`], in an archive of the kind
//! that Linux unpacks into memory (cpio, `newc`).

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Kernel;

const INIT: &str = include_str!("init.sh");

/// Packs it into `file`.
pub(super) fn write(kernel: &Kernel, file: &Path) -> Result<()> {
    let mut archive = Archive::default();
    for folder in ["bin", "modules", "dev", "proc", "sys", "lower", "rw", "new", "share"] {
        archive.folder(folder);
    }
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    archive.file("bin/busybox", &fs::read(busybox.context("no busybox")?)?);
    archive.file("init", INIT.as_bytes());
    let mut order = String::new();
    for module in kernel.modules()? {
        let name =
            module.file_name().context("a module has a name")?.to_string_lossy().into_owned();
        archive.file(&format!("modules/{name}"), &fs::read(&module)?);
        order += &format!("{name}\n");
    }
    archive.file("modules/order", order.as_bytes());
    fs::write(file, archive.finish()).with_context(|| format!("cannot write {}", file.display()))
}

/// An archive that grows.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn folder(&mut self, name: &str) {
        self.entry(name, 0o40755, &[]);
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, 0o100755, content);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// A header of hexadecimal numbers, the name, the content, each padded to 4 bytes.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (inode, links, length, name_length) =
            (self.entries, 1, content.len() as u32, name.len() as u32 + 1);
        let fields = [inode, mode, 0, 0, links, 0, length, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            let _ = write!(self.bytes, "{field:08x}");
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_bytes_that_linux_expects() {
        let mut archive = Archive::default();
        archive.file("init", b"hello");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[54..62], b"00000005", "the length of the content");
        assert_eq!(&bytes[94..102], b"00000005", "the length of the name with its zero");
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..124], b"hello\0\0\0");
        assert!(
            bytes.len().is_multiple_of(4)
                && bytes.windows(10).any(|window| window == b"TRAILER!!!")
        );
    }
}
