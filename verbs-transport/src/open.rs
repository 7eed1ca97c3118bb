//! Opens a transport: everything that is set up once.

use std::io;

use fabric::{Peer, Reports};

use crate::adapter::Adapter;
use crate::buffers::SendBuffers;
use crate::coalesce::Coalescer;
use crate::completions::Completions;
use crate::credit::Credit;
use crate::datagram::queue::Datagrams;
use crate::device::Port;
use crate::dynamic::Dynamic;
use crate::eager_rdma::rings::Rings;
use crate::endpoint::send_queue::CONTROL_SENDS;
use crate::endpoints::Endpoints;
use crate::frame::max_message;
use crate::ibv::{Channel, Cq};
use crate::limits::{BOUNCE_BYTES, BOUNCE_SLOTS, Config, completions_for};
use crate::memory::Pool;
use crate::recv_queue::ReceiveQueue;
use crate::registration::Registrations;
use crate::settings::Settings;
use crate::store::Store;
use crate::transport::VerbsTransport;
use crate::ud::UdEndpoint;
use crate::unavailable::Unavailable;
use crate::wait_set::WaitSet;
use crate::wireup::Wireup;

impl VerbsTransport {
    /// Opens the transport of rank `me` of `size` on the port that the settings choose.
    /// Publishes this process's address in the store, and sends nothing.
    pub fn open(
        settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        store: Box<dyn Store>,
    ) -> Result<VerbsTransport, Unavailable> {
        let port = Port::choose(&settings)?;
        VerbsTransport::open_on(port, settings, me, size, secret, store)
    }

    /// Opens the transport on a port.
    pub(crate) fn open_on(
        port: Port,
        mut settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        store: Box<dyn Store>,
    ) -> Result<VerbsTransport, Unavailable> {
        if port.is_emulated {
            // To rdma_rxe 7 means for ever: a peer that has gone would never be detected.
            settings.retries = settings.retries.min(6);
        }
        let step = |what| {
            let device = port.device.clone();
            move |error: io::Error| Unavailable::step(&device, what, error)
        };
        let adapter = Adapter::new(port.clone(), settings.local_rank)
            .map_err(step("making a protection domain"))?;
        let (pd, config) = (&adapter.pd, Config::new(settings, &port, size));
        let (settings, max_connections) = (&config.settings, config.max_connections);
        let channel = Channel::new(&port.context).map_err(step("making a completion channel"))?;
        // For all connections that there may be: not all drivers can enlarge it.
        let entries = completions_for(max_connections, config.receives, settings.credits, size);
        let turn = settings.local_rank;
        let cq = Cq::new(&channel, entries, turn).map_err(step("making a completion queue"))?;
        let (credits, message) = (settings.credits, max_message(config.caps.frame));
        let mut recv = ReceiveQueue::new(pd, message, config.receives)
            .map_err(step("making a shared receive queue"))?;
        let device = (port.device.as_str(), port.device_attr.max_qp);
        let ud = UdEndpoint::queue_pair(pd, &cq, size)
            .map_err(|error| Unavailable::queue_pair(device, 0, error))?;
        let ud = UdEndpoint::new(ud, pd, &port, &secret, size)
            .map_err(step("making its queue pair of datagrams ready"))?;
        let fds = [channel.fd(), port.context.async_fd()].into_iter().chain(store.fd());
        let wait_set = WaitSet::new(fds).map_err(step("watching its events"))?;
        let dynamic = match config.wants_dynamic(&port, size) {
            // A device of the driver that is too old has none.
            true => Dynamic::new(&adapter, &cq, &config, &secret).ok(),
            false => None,
        };
        let registrations = Registrations::new(pd, settings)?;
        let mut send =
            SendBuffers::new(pd, message, credits, CONTROL_SENDS, max_connections, size - 1);
        let bounce = Pool::new(pd, BOUNCE_BYTES, BOUNCE_SLOTS);
        let mut rings = Rings::new(pd, credits, settings.eager_rdma_peers, max_connections);
        // Now, so that a lack of memory does not show in the middle of the job.
        let each = config.receives_each();
        let prepared = recv.reserve(each, || false).and_then(|_| send.prepare());
        prepared.and_then(|()| rings.prepare()).map_err(step("registering its buffers"))?;
        recv.release(each);
        // Last: another port may be taken if this one fails.
        let mut wireup = Wireup::new(ud, store, secret);
        let target = dynamic.as_ref().map(Dynamic::target);
        wireup.publish(me, port.address, target).map_err(Unavailable::Store)?;
        Ok(VerbsTransport {
            endpoints: Endpoints::new(me, size),
            dynamic,
            registrations,
            wireup,
            recv,
            completions: Completions::new(cq),
            send,
            bounce,
            rings,
            coalescer: Coalescer::new(config.caps.frame),
            adapter,
            wait_set,
            config,
            credit: Credit::default(),
            datagrams: Datagrams::new(),
            compared_at: 0,
            reports: Reports::default(),
            polls: 0,
            flushing: None,
            has_warned_refused: false,
            has_lost: false,
        })
    }
}
