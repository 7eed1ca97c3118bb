//! Descriptions of this rank's memory for the devices of other hosts: at the first request of an
//! origin, and when memory is attached or detached afterwards.

use fabric::{Header, HybridGet, Peer, Post, Region, Transport, UserBuf};
use objects::Result;

use crate::engine::{Engine, Posted};
use crate::export::Export;
use crate::window::Memory;
use crate::wire::Step;

impl Engine {
    /// Registers this rank's memory for a peer, once, and posts its description; false if there is
    /// no space.
    pub(crate) fn post_description<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        id: u64,
    ) -> Posted<bool> {
        let Some(window) = self.windows.get_mut(&id) else { return Ok(true) };
        let memory = &window.memory;
        let export = window.exports.entry(peer).or_insert_with(|| match memory {
            Memory::Fixed(memory) => Export::fixed(endpoint, peer, *memory),
            Memory::Dynamic(ranges) => Export::dynamic(endpoint, peer, ranges),
        });
        let body = export.region.map(|region| region.encode());
        let body = body.as_ref().map_or(&[][..], |body| &body[..]);
        let header: Header = Step::Described.header(id, window.rank);
        let posted = endpoint.post(peer, &header, body.len(), |slot| slot.copy_from_slice(body))?;
        Ok(posted == Post::Sent)
    }

    /// Attaches memory to a dynamic window. `region` describes it for ranks of this host.
    pub fn attach<T: Transport>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        memory: UserBuf,
        region: Option<Region>,
    ) -> Result<()> {
        let window = self.window_mut(window)?;
        window.attach(memory, region)?;
        for (&peer, export) in &mut window.exports {
            export.attach(endpoint, peer, memory);
        }
        Ok(())
    }

    /// Detaches the memory of a dynamic window that begins at `base`.
    pub fn detach_memory<T: Transport>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        base: u64,
    ) -> Result<()> {
        let window = self.window_mut(window)?;
        window.detach(base)?;
        for (&peer, export) in &mut window.exports {
            export.detach(endpoint, peer, base);
        }
        Ok(())
    }
}
