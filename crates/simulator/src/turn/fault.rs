//! Faults: what no well-behaved host does.

use serde_json::json;

use super::{Flow, Turn};
use crate::scenario::model::Step;
use crate::wire::Frame;

impl Turn {
    pub(super) async fn fault(&mut self, step: &Step) -> Flow {
        match step {
            Step::Emit(event) => {
                let event = self.vars.expand_json(event);
                self.or_stop(self.session.dynamic(&event)).await
            }
            Step::Event(event) => {
                let payload = event.payload.as_ref().map(|payload| self.vars.expand_json(payload));
                if event.seq_offset.is_none() && event.without.is_empty() && payload.is_some() {
                    return self.say(&event.kind, payload.unwrap_or_default()).await;
                }
                let offset = event.seq_offset.unwrap_or(0);
                let sent =
                    self.session.disordered(&self.id, &event.kind, payload.as_ref(), offset, &event.without);
                self.or_stop(sent).await?;
                if event.seq_offset.is_none() {
                    self.session.skip(1).await;
                }
                Ok(())
            }
            Step::SeqGap(count) => self.or_stop(self.session.skip(*count)).await,
            Step::ResendLast(times) => self.or_stop(self.session.resend(*times)).await,
            Step::Line(line) => {
                for _ in 0..line.times {
                    let bytes = line.text.replace(['\n', '\r'], " ").into_bytes();
                    let frame = if line.nonce { Frame::Json(bytes) } else { Frame::Noise(bytes) };
                    self.or_stop(self.host.outlet().send(frame)).await?;
                }
                Ok(())
            }
            Step::Stderr(lines) => {
                for round in 0..lines.times {
                    self.host.stderr(&lines.text);
                    if round % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Ok(())
            }
            Step::Crash(crash) => {
                if crash.announced {
                    let message = "the host worker has ended";
                    let fatal =
                        json!({ "fatal": { "stage": "worker", "message": message, "code": crash.code } });
                    self.or_stop(self.host.outlet().json(&fatal)).await?;
                }
                self.or_stop(self.host.outlet().send(Frame::Crash(crash.code))).await?;
                self.or_stop(std::future::pending()).await
            }
            _ => {
                self.or_stop(self.host.outlet().send(Frame::Silence)).await?;
                self.or_stop(std::future::pending()).await
            }
        }
    }
}
