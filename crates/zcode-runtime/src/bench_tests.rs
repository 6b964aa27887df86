//! Figures, not checks: `cargo test --release -p zcode-runtime --lib bench -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use runtime_discovery::Contract;
use zcode_protocol::bridge::{Classified, Line};

use crate::descriptor::{Descriptor, Incoming, Memory};
use crate::model::{EventBody, HostEvent};
use crate::transport::FrameDecoder;

const COUNT: u32 = 200_000;
const LINE: &str = r#"{"subscription":1,"event":{"type":"session.event","event":{"eventId":"01J0000000000000000000000","sessionId":"sess_0123456789abcdef","turnId":"turn_0123456789abcdef","seq":123456,"traceId":"0123456789abcdef","timestamp":1760000000000,"deliveryKind":"desktop-continuous","type":"model.streaming","payload":{"kind":"text_delta","delta":"twenty-four characters, \n","assistantMessageId":"msg_0123456789abcdef","partId":"part_0123456789abcdef"}}}}"#;

fn report(what: &str, run: impl FnOnce()) {
    let started = Instant::now();
    run();
    let took = started.elapsed();
    println!(
        "{what}: {:.0} lines a second, {} ns a line",
        f64::from(COUNT) / took.as_secs_f64(),
        took.as_nanos() / u128::from(COUNT)
    );
}

#[test]
#[ignore = "prints figures"]
fn bench_text_deltas() {
    let descriptor = Descriptor::new(Contract::embedded()).unwrap();
    let mut memory = Memory::default();
    report("event read with its line, made neutral", || {
        for _ in 0..COUNT {
            let Ok(Incoming::Event { event, .. }) = descriptor.read(black_box(LINE.as_bytes())) else {
                panic!("no event")
            };
            let Some(HostEvent::Event(event)) = descriptor.neutral(event, &mut memory).event else {
                panic!("not neutral")
            };
            assert!(matches!(black_box(event).body, EventBody::Text { .. }));
        }
    });
    report("event read after its line, made neutral", || {
        for _ in 0..COUNT {
            let line: Line<'_> = serde_json::from_slice(black_box(LINE.as_bytes())).unwrap();
            let Ok(Classified::Event { event, .. }) = line.classify() else { panic!("no event") };
            let Some(HostEvent::Event(event)) =
                descriptor.neutral(crate::task_v1::read_event(event.get()), &mut memory).event
            else {
                panic!("not neutral")
            };
            black_box(event);
        }
    });
    report("frames out of bytes", || {
        let mut decoder = FrameDecoder::new("0123456789abcdef0123456789abcdef", 1 << 20);
        let line = format!("0123456789abcdef0123456789abcdef {LINE}\n").repeat(100);
        for _ in 0..COUNT / 100 {
            decoder.space().extend_from_slice(line.as_bytes());
            while let Some(range) = decoder.next().unwrap() {
                black_box(decoder.frame(range));
            }
        }
    });
}
