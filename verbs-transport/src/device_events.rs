//! The asynchronous events of the device, and whether the device is still there.

use std::time::Instant;

use crate::endpoint::address_handle::AddressHandle;
use crate::ibv::Event;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Handles what the device reports, and checks now and then that it is there: the kernel may
    /// lose the event of a port whose device is removed.
    #[cold]
    pub(crate) fn process_device_events(&mut self) {
        while let Some(event) = self.adapter.next_event() {
            self.on_device_event(event);
        }
        if self.adapter.is_check_due() {
            let traffic = self.endpoints.traffic();
            if self.adapter.was_silent(traffic) {
                self.check_device();
            }
        }
    }

    /// Takes over the new addresses of the port. Connections were made to the old ones; therefore
    /// all are closed, and peers learn the new address by the Disconnect and the next request.
    #[cold]
    fn readdress(&mut self) {
        let readdressed = self.adapter.port.readdress(&self.config.settings);
        (0..self.endpoints.len()).for_each(|at| self.limit_packets(at));
        match readdressed {
            Ok(true) => {}
            // Still the same, or the port has none now that peers reach: another event follows.
            // What is connected goes on meanwhile.
            Ok(false) | Err(_) => return,
        }
        self.renew_dynamic();
        if let Err(why) = self.publish() {
            eprintln!("verbena: cannot publish the new RDMA address of this process: {why}");
        }
        for at in 0..self.endpoints.len() {
            let conn = &mut self.endpoints[at].conn;
            // Handles name the port's old address as their source. Sends under way keep theirs.
            conn.ah = AddressHandle::None;
            if !conn.is_idle() {
                // No sign that the peer is dead: it does not count as a break.
                self.close(at);
            }
            // Peers that wait for a frame must be told as well.
            if let Some(link) = &mut self.endpoints[at].link {
                link.is_unknown = true;
                self.acknowledge_soon(at);
            }
        }
    }

    /// Lets the UD queue pair work again if it has failed and its time has come, and sends what has
    /// waited for that.
    #[cold]
    pub(crate) fn mend_datagrams(&mut self) {
        let is_due = self.wireup.ud.mend_at().is_some_and(|at| at <= Instant::now());
        if is_due && !self.adapter.is_gone {
            self.wireup.ud.mend(&self.adapter.port);
            self.pump_stalled();
        }
    }

    fn on_device_event(&mut self, event: Event) {
        match event {
            Event::QueuePair(qpn) => {
                if let Some(at) = self.endpoints.served_by(qpn) {
                    self.break_connection(at, "the device reports an error of its queue pair");
                } else if let Some(number) = self.initiator(qpn) {
                    self.initiator_failed(number);
                } else if qpn == self.wireup.ud.number() {
                    self.wireup.ud.failed();
                }
            }
            Event::LastReceive(qpn) => match self.endpoints.served_by(qpn) {
                // Its error is reported as well.
                Some(at) => self.endpoints[at].tx.takes_receives = false,
                None => self.endpoints.on_last_receive(qpn, self.polls),
            },
            Event::Fatal => self.give_up_device(),
            // Requests under way fail by themselves, and are repeated.
            Event::PortDown(port) if port == self.adapter.port.number => {
                self.adapter.is_down = true;
            }
            Event::PortUp(port) if port == self.adapter.port.number => {
                self.adapter.is_down = false;
                self.wireup.ud.mend_soon();
            }
            Event::Readdressed(port) if port == self.adapter.port.number => self.readdress(),
            Event::PortDown(_) | Event::PortUp(_) | Event::Readdressed(_) | Event::Other => {}
        }
    }
}
