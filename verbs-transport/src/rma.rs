//! Posts the pieces of RMA operations, and handles their completions.

use crate::endpoint::rma::Path;
use crate::endpoint::send_queue::Signal;
use crate::ibv::Qp;
use crate::transport::VerbsTransport;

/// Bytes of the smallest packets that a path has: an answer that is not longer takes one.
const MIN_MTU: usize = 256;

impl VerbsTransport {
    /// Posts as many pieces of an endpoint's operations as there is space for.
    pub(crate) fn progress_rma(&mut self, at: usize) {
        let depth = self.config.send_depth;
        let endpoint = &mut self.endpoints[at];
        if endpoint.rma.path != Path::Connection {
            return;
        }
        let (max_reads, mut index) = (endpoint.rma.max_reads, 0);
        while endpoint.tx.used < depth {
            let Some(piece) = endpoint.rma.next_piece(&mut index, max_reads, true) else { return };
            let (length, by_reference) = (piece.memory.length, piece.by_reference);
            let signal = Signal { piece: length, by_reference, ..Signal::NONE };
            if endpoint.tx.submit(piece.memory, piece.to, signal).is_err() {
                return self.break_connection(at, "the device refused an RMA request");
            }
            endpoint.tx.must_send |= piece.is_write;
        }
    }

    /// Handles the completion of `len` bytes, the oldest piece under way.
    pub(crate) fn rma_piece_done(&mut self, at: usize, len: usize) {
        let endpoint = &mut self.endpoints[at];
        let Some(done) = endpoint.rma.complete(len) else { return };
        // An emulated device may report success of a read and fail at once, if the answer takes
        // several packets. Query it before the operation is reported complete, which cannot be
        // taken back.
        if done.is_last
            && done.is_answered
            && len > MIN_MTU
            && self.adapter.port.is_emulated
            && !endpoint.tx.qp.as_ref().is_some_and(Qp::is_ready_to_send)
        {
            return self.break_connection(at, "a request that it completed has failed");
        }
        if done.is_progress {
            endpoint.conn.works();
        }
        if done.is_last {
            let token = endpoint.rma.finish_first(&mut self.bounce);
            self.reports.transfers.extend(token.map(|token| (token, Ok(()))));
        }
        self.progress_rma(at);
    }
}
