//! Random numbers of the kernel, and the job's secret.

use rustix::io::Errno;

use crate::error::BootstrapError;

/// The job's secret: 256 random bits that only its processes know.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Returns the secret of a new job.
    pub fn random() -> Result<Secret, BootstrapError> {
        let params: [u64; 4] = [random()?, random()?, random()?, random()?];
        let mut bytes = [0; 32];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(params) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Ok(Secret(bytes))
    }

    /// Returns the secret of a job that exists.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// Returns the bits. Never print or log them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Returns 64 random bits from the kernel.
pub fn random() -> Result<u64, BootstrapError> {
    let mut bytes = [0u8; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(BootstrapError::System("random bytes", errno)),
        }
    }
    Ok(u64::from_ne_bytes(bytes))
}
