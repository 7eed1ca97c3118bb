use collectives::*;
use fabric::Peer;
use fabric::sim::Options;
use objects::*;
use pt2pt::*;
use std::time::Instant;
fn main() {
    let mut ranks: Vec<_> = fabric::sim::fabric(2, 1, Options::default())
        .into_iter()
        .zip(0u32..)
        .map(|(t, r)| {
            (Engine::new(Peer(r), t, Settings::default()), Active::new(), Planner::new(&Thresholds::default()))
        })
        .collect();
    let comms: Vec<Comm> = (0..2).map(|r| Comm::new("", 1, r, Group::world(2))).collect();
    let bufs: Vec<[u64; 4]> = vec![[1; 4]; 2];
    let area = |r: usize, i: usize| unsafe { Area::new((&bufs[r][i]) as *const u64 as *mut u8, 0, 8) };
    let ty = Datatype::predefined(0x258).unwrap();
    let op = Op::predefined(0x21).unwrap();
    const N: i32 = 20_000;
    for _ in 0..1 {
        let t = Instant::now();
        for i in 0..N {
            let mut ids = [None, None];
            for r in 0..2 {
                let v = Vector { send: Some(area(r, 0)), recv: Some(area(r, 1)), ty, handle: 0x258, op: &op };
                let (e, a, p) = &mut ranks[r];
                let plan = p.plan(&Operation::Allreduce { vector: v, count: 1 }, &comms[r]).unwrap();
                ids[r] = Some(a.start(e, plan, i).unwrap());
            }
            loop {
                let mut done = 0;
                for r in 0..2 {
                    let (e, a, _) = &mut ranks[r];
                    if let Some(id) = ids[r] {
                        e.progress();
                        let _ = a.advance(e);
                        if a.finish(id).is_some() {
                            ids[r] = None;
                        }
                    }
                    if ids[r].is_none() {
                        done += 1
                    }
                }
                if done == 2 {
                    break;
                }
            }
        }
        let coll = t.elapsed().as_nanos() as f64 / N as f64;
        let t = Instant::now();
        for i in 0..N {
            // the same two messages by hand
            let mut ids = [None, None];
            for r in 0..2 {
                let e = &mut ranks[r].0;
                ids[r] = Some(e.receive(
                    Pattern { context: 2, source: Some(1 - r as u32), tag: Some(i), collective: None },
                    area(r, 2).bytes(0, 8),
                ));
                let env = Envelope { context: 2, source: r as u32, tag: i, collective: None };
                let b = area(r, 0).bytes(0, 8);
                if !e.send_now(Mode::Standard, Peer(1 - r as u32), &env, &b).unwrap() {
                    let id = e.send(Mode::Standard, Peer(1 - r as u32), env, b);
                    e.detach(id);
                }
            }
            loop {
                let mut done = 0;
                for r in 0..2 {
                    let e = &mut ranks[r].0;
                    if let Some(id) = ids[r] {
                        e.progress();
                        if e.is_complete(id) {
                            e.finish(id);
                            ids[r] = None;
                        }
                    }
                    if ids[r].is_none() {
                        done += 1
                    }
                }
                if done == 2 {
                    break;
                }
            }
        }
        let msg = t.elapsed().as_nanos() as f64 / N as f64;
        println!("allreduce of 2 ranks {coll:.0} ns, the two messages {msg:.0} ns");
    }
}
