//! The asynchronous events of the device, and whether the device is still there.

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
            self.adapter.checked();
            self.check_device();
        }
    }

    fn on_device_event(&mut self, event: Event) {
        match event {
            Event::QueuePair(qpn) => {
                if let Some(at) = self.endpoints.served_by(qpn) {
                    self.break_connection(at, "the device reports an error of its queue pair");
                }
            }
            Event::Fatal => self.give_up_device(),
            // Requests under way fail by themselves, and are repeated.
            Event::PortDown(port) if port == self.adapter.port.number => {
                self.adapter.is_down = true;
            }
            Event::PortUp(port) if port == self.adapter.port.number => {
                self.adapter.is_down = false;
            }
            Event::PortDown(_) | Event::PortUp(_) | Event::Readdressed(_) | Event::Other => {}
        }
    }
}
